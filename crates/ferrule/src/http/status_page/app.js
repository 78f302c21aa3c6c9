// Chooses the view by the part of the URL behind #, and draws it again when something happened.

import { ask, listen } from './ask.js';
import { h, morph, route, say } from './dom.js';
import { events } from './events.js';
import { explain } from './explain.js';
import { overview } from './overview.js';
import { service } from './service.js';
import { services } from './services.js';

const VIEWS = { '': ['overview', overview], services: ['services', services], service: ['services', service], explain: ['explain', explain], events: ['events', events] };
// A view is drawn again no sooner than this, and no more than a tenth of the time.
const MIN_PAUSE = 1500;
// Charts move on without anything happening.
const IDLE = 30000;

const main = document.getElementById('main');
let shown = null;
let timer = 0;
let nextAt = 0;
let isDrawing = false;
let isStale = false;

function wanted() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [word, name] = path.split('/');
  const [tab, view] = VIEWS[word] ?? VIEWS[''];
  const parameters = Object.fromEntries(new URLSearchParams(query));
  if (view === service) parameters.service = decoded(name ?? '');
  return { word, tab, view, parameters };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function navigate() {
  const target = wanted();
  const isSameView = shown?.view === target.view;
  const isFirst = shown === null;
  // The form of a view stays while only its answer changes.
  if (isSameView && target.view.form) shown.parameters = target.parameters;
  else open(target);
  document.title = `${target.view.title(target.parameters)} – Ferrule`;
  for (const link of document.querySelectorAll('nav a[data-view]')) {
    if (link.dataset.view === target.tab) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  draw().then(() => {
    if (isSameView && target.view.form) shown.view.drawn?.(shown.content);
    else if (!isFirst) {
      main.querySelector('h1')?.focus();
      window.scrollTo(0, 0);
    }
  });
}

function open(target) {
  const content = h('div', { class: 'content' }, h('p', { class: 'quiet' }, 'Loading …'));
  shown = { ...target, content };
  const go = (parameters) => {
    const hash = route(target.word, parameters);
    if (hash === location.hash) draw().then(() => target.view.drawn?.(content));
    else {
      history.replaceState(null, '', hash);
      navigate();
    }
  };
  const form = target.view.form?.(target.parameters, go);
  main.replaceChildren(...(form ? [h('h1', { tabindex: '-1' }, target.view.title(target.parameters)), form] : []), content);
}

async function draw() {
  const drawing = shown;
  const { view, parameters, content } = drawing;
  const began = performance.now();
  isDrawing = true;
  isStale = false;
  let children;
  try {
    children = await view.draw(parameters);
  } catch (error) {
    children = [!view.form && h('h1', { tabindex: '-1' }, view.title(parameters)), h('div', { class: 'verdict bad', role: 'alert' }, h('p', {}, error.message))];
  }
  isDrawing = false;
  nextAt = performance.now() + Math.max(MIN_PAUSE, 9 * (performance.now() - began));
  // The reader has gone on meanwhile.
  if (drawing !== shown || parameters !== shown.parameters) return;
  morph(content, h('div', { class: 'content' }, children));
  schedule(isStale ? 0 : IDLE);
}

function schedule(after) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (document.hidden || isDrawing) isStale = true;
    else draw();
  }, Math.max(after, nextAt - performance.now()));
}

function changed() {
  if (isDrawing || document.hidden) isStale = true;
  else schedule(0);
}

function live(state) {
  const sign = document.getElementById('live');
  if (sign.textContent !== state) sign.textContent = state;
  sign.dataset.state = state === 'live' ? 'live' : 'other';
}

async function introduce() {
  try {
    const status = await ask('status');
    document.getElementById('node').textContent = `${status.node} · ${status.mode}`;
    document.getElementById('about').textContent = `Ferrule ${status.version}, as kube-proxy ${status.kubernetes}. Read-only: nothing on this page changes anything.`;
  } catch (error) {
    say(error.message);
  }
}

document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && isStale) schedule(0);
});
window.addEventListener('hashchange', navigate);
navigate();
introduce();
listen(changed, live);
