// Every Service, searched and paged by the proxy.

import { ask } from './ask.js';
import { h, route, say } from './dom.js';
import { STATES, amount, cell, empty, number, plural, serviceLink, stateChip, table } from './parts.js';

const PAGE = 50;
const TYPING = 250;
const HEADS = ['Service', 'State', 'Cluster IPs', 'Ports', '>Endpoints'];

export const services = {
  title: () => 'Services',

  // The form is made once, so that typing is never disturbed.
  form(parameters, go) {
    let typing;
    const search = h('input', { type: 'search', id: 'search', name: 'search', value: parameters.search ?? '', autocomplete: 'off', spellcheck: 'false', maxlength: 300 });
    const state = h('select', { id: 'state', name: 'state' }, h('option', { value: '' }, 'any'),
      Object.entries(STATES).map(([value, text]) => h('option', { value, selected: parameters.state === value }, text)));
    const submit = () => {
      clearTimeout(typing);
      go({ search: search.value.trim(), state: state.value });
    };
    search.addEventListener('input', () => {
      clearTimeout(typing);
      typing = setTimeout(submit, TYPING);
    });
    state.addEventListener('change', submit);
    return h('form', { role: 'search', class: 'fields', onsubmit: (event) => { event.preventDefault(); submit(); } },
      h('div', { class: 'field grow' }, h('label', { for: 'search' }, 'Name or address'), search),
      h('div', { class: 'field' }, h('label', { for: 'state' }, 'State'), state));
  },

  async draw(parameters) {
    const offset = Math.max(0, Number(parameters.offset) || 0);
    const list = await ask('services', { search: parameters.search ?? '', state: parameters.state ?? '', offset, limit: PAGE });
    const last = Math.min(list.offset + list.services.length, list.total);
    const found = list.total === 0 ? 'No Service matches' : `${number(list.offset + 1)} to ${number(last)} of ${plural(list.total, 'Service')}`;
    return [
      h('p', { class: 'found', id: 'found' }, found),
      list.services.length ? table('Services', HEADS, list.services.map(row)) : empty('Try a shorter part of the name, or another state.'),
      pager(parameters, list),
    ];
  },
  drawn: (content) => say(content.querySelector('#found')?.textContent ?? ''),
};

function row(service) {
  const without = service.portsWithoutEndpoints;
  return h('tr', { 'data-key': service.service },
    h('th', { scope: 'row' }, serviceLink(service.service)),
    cell(stateChip(service.state)),
    cell(service.clusterIps.map((ip) => h('span', { class: 'each' }, ip))),
    cell(service.ports.map((port) => h('span', { class: 'each' }, port))),
    amount(without && service.endpoints ? `${number(service.endpoints)} (${plural(without, 'port')} without)` : service.endpoints));
}

function pager(parameters, list) {
  if (list.total <= PAGE) return null;
  const pages = Math.ceil(list.total / PAGE);
  const page = Math.floor(list.offset / PAGE);
  const link = (to, text) => (to < 0 || to >= pages || to === page
    ? h('span', { class: 'off' }, text)
    : h('a', { href: route('services', { ...parameters, offset: to * PAGE || '' }) }, text));
  return h('nav', { class: 'pager', 'aria-label': 'Pages' }, link(0, 'First'), link(page - 1, 'Previous'),
    h('span', {}, `Page ${number(page + 1)} of ${number(pages)}`), link(page + 1, 'Next'), link(pages - 1, 'Last'));
}
