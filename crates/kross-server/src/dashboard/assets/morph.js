// Makes an element equal to another, and leaves alone what is equal: focus, scroll positions and selections stay.

// What the user changed, or a script of this page, and the server does not know.
function isOfUser(element, name) {
  if (name === 'open') return element.localName === 'details';
  if (name === 'hidden') return element.matches('.minimap');
  if (name === 'width' || name === 'height') return element.matches('svg.graph') || element.matches('.minimap .view');
  if (name === 'x' || name === 'y') return element.matches('.minimap .view');
  return false;
}

export function morph(old, next) {
  if (old.isEqualNode(next)) return;
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !isOfUser(old, name) && old.id !== 'content') old.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (old.getAttribute(name) !== value && !isOfUser(old, name)) old.setAttribute(name, value);
  }
  const before = [...old.childNodes];
  const after = [...next.childNodes];
  after.forEach((node, at) => {
    const known = before[at];
    if (!known) old.append(node);
    else if (!isSame(known, node)) known.replaceWith(node);
    else if (node.nodeType === Node.ELEMENT_NODE) morph(known, node);
    else if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
  });
  before.slice(after.length).forEach((node) => node.remove());
}

function isSame(known, node) {
  if (known.nodeType !== node.nodeType || known.nodeName !== node.nodeName) return false;
  // Another drawing has another size.
  return !known.matches?.('svg.graph') || known.getAttribute('viewBox') === node.getAttribute('viewBox');
}
