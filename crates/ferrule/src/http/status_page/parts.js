// Pieces that several views are made of.

import { h } from './dom.js';

const NUMBERS = new Intl.NumberFormat('en');
export const number = (value) => NUMBERS.format(value);
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

export function ago(seconds) {
  if (seconds < 1) return 'just now';
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
}

export function span(seconds) {
  if (seconds === 0) return '0';
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(0)} ms`;
  return `${seconds.toFixed(seconds < 100 ? 1 : 0)} s`;
}

// A word with a colour and a sign, so that the colour alone says nothing.
export function chip(kind, text) {
  const [tone, sign] = TONES[kind] ?? ['plain', '·'];
  return h('span', { class: `chip ${tone}` }, h('span', { 'aria-hidden': 'true' }, sign), ` ${text}`);
}

const TONES = {
  serving: ['good', '✓'], used: ['good', '✓'], forward: ['good', '✓'], started: ['good', '▶'], recovery: ['good', '✓'], synced: ['good', '✓'],
  noEndpoints: ['warn', '▲'], repair: ['warn', '↻'], refusal: ['warn', '▲'], refused: ['warn', '▲'], drop: ['bad', '✕'], reject: ['bad', '✕'],
  conflicting: ['bad', '⇄'], failure: ['bad', '✕'], outage: ['bad', '✕'], behind: ['bad', '✕'],
};

export const STATES = {
  serving: 'Serving',
  noEndpoints: 'No endpoints',
  refused: 'Field refused',
  conflicting: 'Conflict',
  pending: 'Pending',
  notServed: 'Not served',
};
export const stateChip = (state) => chip(state, STATES[state] ?? state);

export const serviceLink = (name) => h('a', { href: `#/service/${encodeURIComponent(name)}` }, name);

// A table that scrolls on its own where the screen is narrow.
export function table(caption, heads, rows) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'unseen' }, caption),
      h('thead', {}, h('tr', {}, heads.map((head) => {
        const right = head.startsWith('>');
        return h('th', { scope: 'col', class: right ? 'right' : null }, right ? head.slice(1) : head);
      }))),
      h('tbody', {}, rows)));
}

export const cell = (...children) => h('td', {}, children);
export const amount = (value) => h('td', { class: 'right' }, typeof value === 'number' ? number(value) : value);

// Names and values, without those that are empty.
export function facts(pairs) {
  const given = pairs.filter(([, value]) => value !== null && value !== undefined && value !== '' && value.length !== 0);
  return h('dl', { class: 'facts' }, given.map(([name, value]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, Array.isArray(value) ? value.map((one) => h('span', { class: 'each' }, one)) : value))));
}

export const card = (title, ...children) => h('section', { class: 'card' }, title && h('h2', {}, title), children);
export const empty = (text) => h('p', { class: 'quiet' }, text);

// A line of a list of events.
export function eventRow(event) {
  const text = event.by ? [event.text, h('span', { class: 'by' }, ` by ${event.by}`)] : event.text;
  return h('tr', { 'data-key': `${event.at} ${event.kind} ${event.text}` },
    h('td', { class: 'when' }, h('time', { datetime: event.at, title: event.at }, ago(event.secondsAgo))),
    cell(chip(event.kind, event.kind)), cell(event.family ?? '–'), h('td', { class: 'wide all' }, text));
}
export const EVENT_HEADS = ['When', 'Kind', 'Family', 'What'];
