// Takes the content of the page from the stream whenever it changes, and changes only what differs. Says when the connection is
// lost, and connects again.

import { morph } from './morph.js';

const content = document.getElementById('content');
const connection = document.getElementById('connection');
const lost = document.getElementById('lost');
// The server sends something every ten seconds.
const SILENCE = 25000;
const RETRY = 2000;

let stream;
let heard = 0;
let current = Date.now();
let retry;
let changed = () => {};

// Begins, and calls a function after each change.
export function follow(afterChange) {
  changed = afterChange;
  open();
  setInterval(() => {
    if (stream && Date.now() - heard > SILENCE) fail();
  }, 1000);
  addEventListener('online', open);
  addEventListener('offline', fail);
}

// Shows the page at the address of the window.
export function open() {
  clearTimeout(retry);
  stream?.close();
  heard = Date.now();
  stream = new EventSource('/stream?page=' + encodeURIComponent(location.pathname + location.search));
  stream.onopen = succeed;
  stream.onerror = fail;
  stream.addEventListener('alive', succeed);
  // The session has ended: the page leads to the login.
  stream.addEventListener('login', () => { stream.close(); location.reload(); });
  stream.addEventListener('content', (event) => {
    const next = content.cloneNode(false);
    next.innerHTML = event.data;
    morph(content, next);
    document.documentElement.dataset.live = 'true';
    succeed();
    changed();
  });
}

function succeed() {
  heard = current = Date.now();
  show('live', 'live');
  lost.hidden = true;
  document.body.classList.remove('stale');
}

// The browser connects again by itself only after some failures; this does after all.
function fail() {
  stream?.close();
  stream = undefined;
  clearTimeout(retry);
  retry = setTimeout(open, RETRY);
  show('reconnecting…', 'lost');
  const time = new Date(current).toLocaleTimeString();
  const text = `The live connection is lost: this is as of ${time}. Connecting again…`;
  if (lost.textContent !== text) lost.textContent = text;
  lost.hidden = false;
  document.body.classList.add('stale');
}

function show(text, kind) {
  if (connection.textContent !== text) connection.textContent = text;
  connection.className = kind;
}
