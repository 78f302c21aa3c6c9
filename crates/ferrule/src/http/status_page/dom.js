// Makes elements. Text only ever becomes text: names come from the cluster and may hold anything.

const SVG = 'http://www.w3.org/2000/svg';

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (name === 'href' && !String(value).startsWith('#')) throw new Error('only links within this page');
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

// Announces something to who does not see it.
export function say(text) {
  document.getElementById('said').textContent = text;
}

// A link to a view of this page.
export function route(view, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `#/${view}${query ? `?${query}` : ''}`;
}

// Makes `old` what `fresh` is, touching only what differs, so that focus and scrolling stay.
export function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  // Whether details are open is the reader's business.
  for (const { name } of [...old.attributes]) if (name !== 'open' && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, fresh);
}

const keyOf = (node) => node.dataset?.key;

function morphChildren(old, fresh) {
  const children = [...fresh.childNodes];
  const wanted = new Set(children.map(keyOf));
  for (const child of [...old.childNodes]) if (keyOf(child) !== undefined && !wanted.has(keyOf(child))) child.remove();
  const byKey = new Map([...old.childNodes].filter((child) => keyOf(child) !== undefined).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const child of children) {
    const key = keyOf(child);
    const match = key === undefined ? (place && keyOf(place) === undefined ? place : null) : byKey.get(key);
    if (!match) {
      old.insertBefore(child, place);
      continue;
    }
    const next = match === place ? place.nextSibling : place;
    if (match !== place) old.insertBefore(match, place);
    morph(match, child);
    place = next;
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}
