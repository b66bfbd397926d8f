// Zoom, pan, the small map, and the arrow keys of the graph.

const LEAST = 0.2;
const MOST = 3;
let zoom = 1;
// Until the user chooses a size, the graph is as large as fits and is readable.
let chosen = false;

const canvas = () => document.querySelector('.canvas');
const graph = () => [...document.querySelectorAll('svg.graph')].find((it) => it.getClientRects().length > 0);

function apply(next, anchor) {
  const [area, drawn] = [canvas(), graph()];
  if (!area || !drawn) return;
  const before = zoom;
  zoom = Math.min(MOST, Math.max(LEAST, next));
  const { width, height } = drawn.viewBox.baseVal;
  const at = anchor ?? { x: area.clientWidth / 2, y: area.clientHeight / 2 };
  const [left, top] = [area.scrollLeft + at.x, area.scrollTop + at.y];
  drawn.setAttribute('width', Math.round(width * zoom));
  drawn.setAttribute('height', Math.round(height * zoom));
  if (before !== zoom) area.scrollTo(left * (zoom / before) - at.x, top * (zoom / before) - at.y);
  const label = document.querySelector('[data-zoom="reset"]');
  if (label) label.textContent = Math.round(zoom * 100) + '%';
  map();
}

function fitting() {
  const { width, height } = graph().viewBox.baseVal;
  const area = canvas();
  const across = Math.min(1, (area.clientWidth - 24) / width);
  // Lanes on top of each other are as high as they are.
  return graph().matches('.stacked') ? across : Math.min(across, (innerHeight * 0.72 - 24) / height);
}

export function zoomBy(what) {
  if (!graph()) return;
  chosen = what !== 'fit';
  if (what === 'in') apply(zoom * 1.2);
  else if (what === 'out') apply(zoom / 1.2);
  else if (what === 'fit') apply(fitting());
  else apply(1);
}

// The part of the graph that is in view; the map is shown only while there are others.
function map() {
  const [small, area, drawn] = [document.querySelector('.minimap'), canvas(), graph()];
  if (!small || !area || !drawn) return;
  small.toggleAttribute('hidden', area.scrollWidth <= area.clientWidth + 1 && area.scrollHeight <= area.clientHeight + 1);
  const view = small.querySelector('.view');
  const box = drawn.getBoundingClientRect();
  const frame = area.getBoundingClientRect();
  const set = (name, value) => view.setAttribute(name, Math.max(0, Math.round(value)));
  set('x', (frame.left - box.left) / zoom);
  set('y', (frame.top - box.top) / zoom);
  set('width', area.clientWidth / zoom);
  set('height', area.clientHeight / zoom);
}

export function refresh() {
  if (graph()) apply(chosen ? zoom : Math.max(0.6, fitting()));
}

// Moves the focus to the nearest node in a direction.
export function move(key) {
  const from = document.activeElement?.closest?.('a.node');
  if (!from) return false;
  const centre = (node) => {
    const box = node.getBoundingClientRect();
    return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  };
  const here = centre(from);
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  let best;
  for (const node of graph().querySelectorAll('a.node')) {
    const there = centre(node);
    const ahead = (there.x - here.x) * dx + (there.y - here.y) * dy;
    if (node === from || ahead < 8) continue;
    const aside = Math.abs((there.x - here.x) * dy) + Math.abs((there.y - here.y) * dx);
    const cost = ahead + 2.5 * aside;
    if (!best || cost < best.cost) best = { node, cost };
  }
  best?.node.focus();
  best?.node.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  return true;
}

export function begin() {
  let drag;
  document.addEventListener('click', (event) => {
    const button = event.target.closest('[data-zoom]');
    if (button) zoomBy(button.dataset.zoom);
    const small = event.target.closest('.minimap');
    if (small) {
      const box = small.getBoundingClientRect();
      const { width, height } = small.viewBox.baseVal;
      const area = canvas();
      area.scrollTo(
        ((event.clientX - box.left) / box.width) * width * zoom - area.clientWidth / 2,
        ((event.clientY - box.top) / box.height) * height * zoom - area.clientHeight / 2,
      );
    }
  });
  document.addEventListener('wheel', (event) => {
    const area = event.target.closest('.canvas');
    if (!area || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    chosen = true;
    const frame = area.getBoundingClientRect();
    apply(zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1), { x: event.clientX - frame.left, y: event.clientY - frame.top });
  }, { passive: false });
  document.addEventListener('pointerdown', (event) => {
    const area = event.target.closest('.canvas');
    if (!area || event.button !== 0 || event.pointerType === 'touch' || event.target.closest('a')) return;
    drag = { area, x: event.clientX, y: event.clientY, left: area.scrollLeft, top: area.scrollTop };
    area.classList.add('dragged');
  });
  document.addEventListener('pointermove', (event) => {
    drag?.area.scrollTo(drag.left + drag.x - event.clientX, drag.top + drag.y - event.clientY);
  });
  document.addEventListener('pointerup', () => {
    drag?.area.classList.remove('dragged');
    drag = undefined;
  });
  document.addEventListener('scroll', (event) => event.target.matches?.('.canvas') && map(), true);
  addEventListener('resize', refresh);
  refresh();
  // A folded collection that is opened, or a selected node, comes into view.
  document.querySelector('svg.graph.wide .node.selected')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}
