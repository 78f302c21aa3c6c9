// What becomes of a packet, and why.

import { ask } from './ask.js';
import { h, say } from './dom.js';
import { card, cell, chip, empty, facts, serviceLink, table } from './parts.js';

const ORIGINS = { outside: 'a client outside', pod: 'a pod of this node', address: 'an address', node: 'the node itself' };
const VERDICTS = { forward: 'Forwarded', reject: 'Rejected', drop: 'Dropped', none: 'No rule is about it' };

export const explain = {
  title: () => 'Explain',

  form(parameters, go) {
    const origin = h('select', { id: 'origin', name: 'origin' },
      Object.entries(ORIGINS).map(([value, text]) => h('option', { value, selected: parameters.origin === value }, text)));
    const text = (id, value, hint) => h('input', { id, name: id, value: value ?? '', autocomplete: 'off', spellcheck: 'false', maxlength: 400, placeholder: hint });
    const from = text('from', parameters.from, '10.244.1.7');
    const to = text('to', parameters.to, 'shop/web:http or 10.96.0.10:80');
    to.required = true;
    const field = (label, input, grow) => h('div', { class: grow ? 'field grow' : 'field' }, h('label', { for: input.id }, label), input);
    return h('form', {
      class: 'fields',
      onsubmit: (event) => {
        event.preventDefault();
        go({ origin: origin.value, from: from.value.trim(), to: to.value.trim() });
      },
    }, field('Sent by', origin), field('Source address', from), field('To address or Service', to, true),
    h('button', { type: 'submit' }, 'Explain'));
  },

  async draw({ origin, from, to }) {
    if (!to) return [h('p', { class: 'quiet' }, 'Names a packet, and this node says what it would do with it. TO is ADDRESS:PORT or NAMESPACE/NAME:PORT, with /udp or /sctp after it.')];
    const question = { to, origin: origin || 'outside' };
    if (from) question.from = from;
    return found(await ask('explain', question));
  },
  drawn: (content) => say(content.querySelector('#verdict')?.textContent ?? ''),
};

function found(answer) {
  const { packet } = answer;
  const port = packet.port === null ? '' : `, port ${packet.port}/${packet.protocol}`;
  const tone = { forward: 'good', none: 'plain' }[answer.verdict] ?? 'bad';
  return [
    h('div', { class: `verdict ${tone}` }, h('p', { id: 'verdict' }, h('strong', {}, VERDICTS[answer.verdict]),
      ` – from ${packet.from} to ${packet.to}${port}${answer.pendingChanges ? '. Changes of the cluster are on their way' : ''}`)),
    card('Because', h('p', {}, answer.rule), h('ul', {}, answer.reasons.map((reason) => h('li', {}, reason))), facts([
      ['Service', answer.service && serviceOf(answer.service)],
      ['Frontend', answer.frontend],
      ['Also claimed by', answer.alsoClaimedBy],
      ['Client affinity', answer.affinity && `${answer.affinity.seconds} s`],
    ])),
    card('Where it may go', answer.deliveries.length
      ? table('Where it may go', ['Endpoint', 'Source it sees'], answer.deliveries.map((one) => h('tr', { 'data-key': one.endpoint },
        h('th', { scope: 'row' }, one.endpoint), cell(one.masquerade ? 'an address of this node' : packet.from))))
      : empty('Nowhere.')),
    answer.pool.length > 0 && card('Every endpoint', table('Every endpoint', ['Endpoint', 'Used', 'Node', 'Conditions', 'Why'], answer.pool.map((one) =>
      h('tr', { 'data-key': `${one.endpoint} ${one.why}` }, h('th', { scope: 'row' }, one.endpoint),
        cell(one.used ? chip('used', 'used') : chip('', 'not used')), cell(one.local ? 'this node' : 'another'), cell(one.conditions),
        h('td', { class: 'wide' }, one.why.replace(/^(not )?used: /, '')))))),
  ];
}

// The name without the port, which is behind the last colon after the slash.
function serviceOf(port) {
  const slash = port.indexOf('/');
  const colon = port.indexOf(':', slash);
  return serviceLink(colon < 0 ? port : port.slice(0, colon));
}
