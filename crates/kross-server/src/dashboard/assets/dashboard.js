// Keeps a page live: takes the content from the stream, changes only what differs, and keeps ages up to date.

const content = document.getElementById('content');
const connection = document.getElementById('connection');
let stream;
let zoom = 1;

function address() {
  return location.pathname + location.search;
}

function open() {
  stream?.close();
  stream = new EventSource('/stream?page=' + encodeURIComponent(address()));
  stream.onopen = () => show('live', false);
  stream.onerror = () => show('connection lost, reconnecting…', true);
  stream.addEventListener('content', (event) => {
    const next = document.createElement('main');
    next.innerHTML = event.data;
    morph(content, next);
    applyZoom();
    show('live', false);
  });
}

function show(text, lost) {
  if (connection.textContent !== text) connection.textContent = text;
  connection.classList.toggle('lost', lost);
}

// Makes an element equal to another, and leaves alone what is equal: focus, scroll positions and selections stay.
function morph(old, next) {
  if (old.isEqualNode(next)) return;
  for (const { name } of [...old.attributes]) {
    const ofUser = name === 'open' && old.localName === 'details';
    if (old !== content && !ofUser && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    const ofUser = (name === 'open' && old.localName === 'details') || (name === 'value' && old === document.activeElement);
    if (!ofUser && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...next.childNodes];
  after.forEach((node, at) => {
    const known = before[at];
    if (!known) old.append(node);
    else if (known.nodeType !== node.nodeType || known.nodeName !== node.nodeName) known.replaceWith(node);
    else if (node.nodeType === Node.ELEMENT_NODE) morph(known, node);
    else if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
  });
  before.slice(after.length).forEach((node) => node.remove());
}

function age(seconds) {
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
  const two = (large, unit, small, smallUnit) => large + unit + (small ? small + smallUnit : '');
  if (seconds < 120) return seconds + 's';
  if (seconds < 600) return two(minutes, 'm', seconds % 60, 's');
  if (seconds < 10800) return minutes + 'm';
  if (seconds < 28800) return two(hours, 'h', minutes % 60, 'm');
  if (seconds < 172800) return hours + 'h';
  if (seconds < 691200) return two(days, 'd', hours % 24, 'h');
  return days + 'd';
}

function tick() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
    const text = age(seconds);
    if (time.textContent !== text) time.textContent = text;
  }
}

function applyZoom() {
  const graph = document.querySelector('svg.graph');
  if (!graph) return;
  const { width, height } = graph.viewBox.baseVal;
  graph.setAttribute('width', Math.round(width * zoom));
  graph.setAttribute('height', Math.round(height * zoom));
}

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
  const link = event.target.closest('a');
  const href = link?.getAttribute('href');
  const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
  if (plain && href?.startsWith('?')) {
    event.preventDefault();
    history.pushState(null, '', href);
    open();
  }
});
addEventListener('popstate', open);

document.addEventListener('keydown', (event) => {
  const typing = event.target.closest('input, select, textarea');
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/' && !typing) {
    event.preventDefault();
    document.getElementById('search').focus();
  } else if (event.key === 'Escape' && !typing) {
    document.querySelector('a.close')?.click();
  } else if (['+', '-', '0'].includes(event.key) && !typing) {
    zoom = event.key === '0' ? 1 : Math.min(3, Math.max(0.25, zoom * (event.key === '+' ? 1.2 : 1 / 1.2)));
    applyZoom();
  }
});

document.addEventListener('wheel', (event) => {
  if (!event.ctrlKey || !event.target.closest('.canvas')) return;
  event.preventDefault();
  zoom = Math.min(3, Math.max(0.25, zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1)));
  applyZoom();
}, { passive: false });

open();
setInterval(tick, 1000);
