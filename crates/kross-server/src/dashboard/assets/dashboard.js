// The entry: connects the modules to the page.

import { follow, open } from './live.js';
import { begin as beginGraph, refresh as refreshGraph } from './graph.js';
import { begin as beginKeys } from './keys.js';
import { begin as beginForms, synchronize } from './forms.js';
import { begin as beginTimes } from './times.js';

document.documentElement.classList.add('scripted');
beginGraph();
beginKeys();
beginForms();
beginTimes();
follow(() => {
  synchronize();
  refreshGraph();
});

// A link that changes only the query keeps the page, its scroll positions and its zoom.
document.addEventListener('click', (event) => {
  const copy = event.target.closest('[data-copy]');
  if (copy) {
    navigator.clipboard.writeText(copy.dataset.copy).then(() => {
      copy.textContent = 'Copied';
      setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
    });
    return;
  }
  const href = event.target.closest('a')?.getAttribute('href');
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (isPlain && href?.startsWith('?')) {
    event.preventDefault();
    history.pushState(null, '', href);
    open();
  }
});
addEventListener('popstate', open);
