// What keys do. The list of them is in the page.

import { move, zoomBy } from './graph.js';

const VIEWS = { f: '/', d: '/definitions', i: '/instances', t: '/targets' };
const ZOOMS = { '+': 'in', '-': 'out', 0: 'reset', f: 'fit' };
const GO = 1500;
let going = 0;

function step(by) {
  const links = [...document.querySelectorAll('tbody th a, .results li a')].filter((link) => link.getClientRects().length > 0);
  if (links.length === 0) return;
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  next.focus();
  next.scrollIntoView({ block: 'nearest' });
}

function help() {
  const dialog = document.getElementById('help');
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

function close() {
  const link = document.querySelector('a.close');
  if (!link) return;
  const selected = document.querySelector('.node.selected');
  link.click();
  selected?.focus();
}

export function begin() {
  document.getElementById('help-button').addEventListener('click', help);
  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest('input, select, textarea');
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing) {
      if (event.key === 'Escape') typing.blur();
      return;
    }
    if (document.getElementById('help').open && event.key !== '?') return;
    const went = Date.now() - going < GO;
    going = 0;
    if (event.key.startsWith('Arrow')) {
      if (move(event.key)) event.preventDefault();
    } else if (went && VIEWS[event.key]) location.assign(VIEWS[event.key]);
    else if (event.key === 'g') going = Date.now();
    else if (event.key === '/') {
      event.preventDefault();
      document.getElementById('search').select();
    } else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
    else if (event.key === 'Escape') close();
    else if (event.key === '?') help();
    else if (ZOOMS[event.key]) zoomBy(ZOOMS[event.key]);
  });
}
