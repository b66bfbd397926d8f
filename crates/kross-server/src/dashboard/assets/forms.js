// Filters apply while they are changed. Their address is that of the page, so that it can be shared and the back button works.

import { open } from './live.js';

const PAUSE = 250;
let waiting;

export function begin() {
  document.addEventListener('input', (event) => {
    const form = event.target.closest('form.filters');
    if (!form) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => apply(form, event.target), event.target.matches('input:not([type="checkbox"])') ? PAUSE : 0);
  });
  document.addEventListener('submit', (event) => {
    if (!event.target.matches('form.filters')) return;
    event.preventDefault();
    apply(event.target, document.activeElement);
  });
}

function apply(form, field) {
  clearTimeout(waiting);
  const given = [...new FormData(form)].filter(([, value]) => value !== '');
  const query = new URLSearchParams(given).toString();
  if ('?' + query === (location.search || '?')) return;
  const target = query ? '?' + query : location.pathname;
  // One step of the history for each filter, not for each letter.
  if (history.state?.field === field.name) history.replaceState({ field: field.name }, '', target);
  else history.pushState({ field: field.name }, '', target);
  open();
}

// Makes fields show the filters of the address, except the one that is being changed.
export function synchronize() {
  for (const field of document.querySelectorAll('form.filters input, form.filters select')) {
    if (field === document.activeElement && field.matches('input:not([type="checkbox"])') && waiting) continue;
    if (field.type === 'checkbox') field.checked = field.hasAttribute('checked');
    else if (field.localName === 'select') field.value = field.querySelector('option[selected]')?.value ?? field.options[0]?.value ?? '';
    else if (field !== document.activeElement) field.value = field.getAttribute('value') ?? '';
  }
}

addEventListener('popstate', () => {
  waiting = undefined;
  document.activeElement?.matches?.('form.filters input') && document.activeElement.blur();
});
