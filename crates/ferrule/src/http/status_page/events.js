// Repairs, failures and outages; what was refused; what cannot be used now.

import { ask } from './ask.js';
import { h } from './dom.js';
import { EVENT_HEADS, card, empty, eventRow, number, table } from './parts.js';

export const events = {
  title: () => 'Events',
  async draw() {
    const [history, status] = await Promise.all([ask('history'), ask('status')]);
    const { total, first } = status.diagnostics;
    const list = (title, rows, none) => card(title, rows.length ? table(title, EVENT_HEADS, rows.map(eventRow)) : empty(none));
    return [
      h('h1', { tabindex: '-1' }, 'Events'),
      list('Repairs, failures and outages', history.events, 'Nothing happened that is worth a line.'),
      list('Refusals', history.refusals, 'Everything could be used.'),
      card(`Not usable now (${number(total)})`, first.length
        ? h('ul', { class: 'lines' }, first.map((line) => h('li', {}, line)))
        : empty('Every field of every object can be used, and no address is claimed twice.'),
      total > first.length && empty(`Only the first ${number(first.length)} are listed.`)),
    ];
  },
};
