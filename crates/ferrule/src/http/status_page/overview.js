// How this node does: in sync or not, the last hour, what needs attention.

import { ask } from './ask.js';
import { chart, seconds, series } from './charts.js';
import { h, route } from './dom.js';
import { EVENT_HEADS, STATES, ago, card, chip, empty, eventRow, number, plural, span, table } from './parts.js';

const SHOWN_EVENTS = 8;

export const overview = {
  title: () => 'Overview',
  async draw() {
    const [status, history, list] = await Promise.all([ask('status'), ask('history'), ask('services', { limit: 1 })]);
    return [
      h('h1', { tabindex: '-1' }, `Node ${status.node}`),
      verdict(status),
      tiles(status, history),
      states(list.counts),
      activity(history),
      recent(history),
    ];
  },
};

function verdict(status) {
  const families = Object.entries(status.families);
  const behind = families.filter(([, family]) => !family.inSync);
  const unreachable = Object.keys(status.unreachable);
  const lines = behind.map(([name, family]) => `${name}: ${trouble(family)}`);
  lines.push(...unreachable.map((kind) => `${kind} objects cannot be watched: what was known stays in effect`));
  const quarantined = families.reduce((sum, [, family]) => sum + family.quarantinedServicePorts, 0);
  if (quarantined) lines.push(`${plural(quarantined, 'Service port')} in quarantine: the kernel rejected the rules`);
  const good = lines.length === 0;
  return h('div', { class: `verdict ${good ? 'good' : 'bad'}` },
    h('p', {}, h('span', { 'aria-hidden': 'true' }, good ? '✓' : '✕'), h('strong', {}, good ? ' In sync' : ' Needs attention'),
      status.shadow && ' – another proxy serves, this one compares',
      good && ` – the kernel holds what is planned for ${families.map(([name]) => name).join(' and ')}${status.pendingChanges ? '; changes are on their way' : ''}`),
    lines.map((line) => h('p', { class: 'line' }, line)));
}

function trouble({ differences, lastFailure }) {
  if (differences) return `${plural(differences, 'difference')} to the rules of the proxy that serves; ferrule diff lists what differs now`;
  return lastFailure ? lastFailure.error : 'not synced yet';
}

function tiles(status, history) {
  const families = Object.values(status.families);
  const sum = (name) => families.reduce((total, family) => total + family[name], 0);
  const last = families.map((family) => family.lastSync).filter(Boolean).sort((a, b) => (a.at < b.at ? 1 : -1))[0];
  const tile = (name, value, more) => h('div', { class: 'tile' }, h('dt', {}, name), h('dd', {}, h('span', { class: 'value' }, value), more && h('span', { class: 'more' }, more)));
  const sinceSync = last ? Math.max(0, (Date.now() - Date.parse(last.at)) / 1000) : 0;
  return h('dl', { class: 'tiles' },
    tile('Services', number(status.services)),
    tile('Frontends', number(sum('frontends'))),
    tile('Endpoints', number(sum('endpoints'))),
    tile('Last sync', last ? ago(sinceSync) : 'none yet', last && `${last.outcome}, ${span(last.seconds)}`),
    tile('Repairs', number(history.totals.repairs), 'since the start'),
    tile('Failures', number(history.totals.failures), 'since the start'));
}

function states(counts) {
  const order = ['serving', 'noEndpoints', 'refused', 'conflicting', 'pending', 'notServed'];
  const shown = order.filter((state) => counts[state] > 0);
  return card('Services by state', shown.length === 0 ? empty('There is no Service.') : h('ul', { class: 'states' }, shown.map((state) =>
    h('li', { 'data-key': state }, h('a', { href: route('services', { state }) }, chip(state, STATES[state]), h('span', { class: 'count' }, number(counts[state])))))));
}

function activity(history) {
  const bars = series(history);
  const read = (name) => (bucket) => bucket[name];
  return h('section', { class: 'card' }, h('h2', {}, 'Activity'), h('div', { class: 'charts' },
    chart('Syncs', bars, [
      // A repair is a sync, too.
      [(bucket) => Math.max(0, bucket.syncs - bucket.repairs), 'accent', 'syncs'], [read('repairs'), 'amber', 'repairs'], [read('failures'), 'red', 'failures']]),
    chart('Changes', bars, [[read('changes'), 'accent', 'objects']]),
    chart('Longest sync', bars, [[read('longestSeconds'), 'accent', 'duration']], { unit: seconds, combine: 'max' })));
}

function recent(history) {
  const events = [...history.events, ...history.refusals].sort((a, b) => (a.at < b.at ? 1 : -1)).slice(0, SHOWN_EVENTS);
  return h('section', { class: 'card' }, h('div', { class: 'head' }, h('h2', {}, 'Recent events'), h('a', { href: '#/events' }, 'All events')),
    events.length ? table('Recent events', EVENT_HEADS, events.map(eventRow)) : empty('Nothing worth a line.'));
}
