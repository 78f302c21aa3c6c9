// One Service: what it asks for, what this node makes of it, and why.

import { Refused, ask } from './ask.js';
import { h, route } from './dom.js';
import { amount, card, cell, chip, empty, facts, number, stateChip, table } from './parts.js';

export const service = {
  title: (parameters) => parameters.service,
  async draw({ service: name }) {
    const [answer, counters] = await Promise.all([ask('service', { service: name }), counts(name)]);
    const served = answer.families.filter((family) => !family.notServed);
    const others = answer.families.filter((family) => family.notServed);
    return [
      h('p', { class: 'trail' }, h('a', { href: '#/services' }, 'Services'), ' / '),
      h('h1', { tabindex: '-1' }, answer.service),
      h('p', {}, stateChip(answer.state), answer.pendingChanges && ' Changes of the cluster are on their way.'),
      answer.unusable.length > 0 && card('Not usable', h('ul', {}, answer.unusable.map((line) => h('li', {}, line)))),
      asked(answer),
      counters && counted(counters),
      served.map(family),
      others.map((one) => h('p', { class: 'quiet' }, `${one.family}: not served, since ${one.notServed}.`)),
    ];
  },
};

function asked({ service: name, spec }) {
  const ports = spec.ports.map((port) => h('a', { href: route('explain', { origin: 'outside', to: `${name}:${port.name || port.port}/${port.protocol}` }) },
    `${port.name ? `${port.name} ` : ''}${port.port}/${port.protocol}${port.nodePort ? `, node port ${port.nodePort}` : ''}`));
  return card('What it asks for', facts([
    ['Cluster IPs', spec.clusterIps],
    ['External IPs', spec.externalIps],
    ['Load balancer IPs', spec.loadBalancerIps],
    ['Source ranges', spec.sourceRanges && (spec.sourceRanges.length ? spec.sourceRanges : 'none that can be read: closed')],
    ['Internal traffic policy', spec.internalTrafficPolicy],
    ['External traffic policy', spec.externalTrafficPolicy],
    ['Client affinity', spec.affinitySeconds && `${number(spec.affinitySeconds)} s`],
    ['Health check port', spec.healthCheckPort && String(spec.healthCheckPort)],
    ['Explain a packet to', ports],
  ]));
}

function family({ family: name, ports }) {
  return h('section', { class: 'family' }, ports.map((port) => card(`${name}, ${port.port} (${port.protocol})`,
    port.notes.map((note) => h('p', { class: 'quiet' }, note)),
    h('h3', {}, 'Frontends'),
    port.frontends.length
      ? table(`Frontends of ${port.port}, ${name}`, ['Frontend', 'Kind', 'From', 'Then', 'Why'], port.frontends.flatMap(frontend))
      : empty('It has no address here.'),
    h('h3', {}, `Endpoints (${number(port.endpointsTotal)})`),
    port.endpoints.length
      ? table(`Endpoints of ${port.port}, ${name}`, ['Endpoint', 'Used', 'Node', 'Conditions', 'Why'], port.endpoints.map(endpoint))
      : empty('No EndpointSlice has one.'),
    port.endpointsTotal > port.endpoints.length && empty(`Only the first ${number(port.endpoints.length)} are listed.`))));
}

function frontend({ frontend: key, kind, held, holder, why, rules }) {
  const rows = held ? rules : [{ from: '', then: chip('conflicting', 'not held') }];
  return rows.map((rule, at) => h('tr', { 'data-key': `${key} ${at}`, class: at ? 'next' : null },
    at ? cell() : h('th', { scope: 'row' }, key),
    cell(at ? '' : kind), cell(rule.from), cell(rule.then), h('td', { class: 'wide' }, at ? '' : [why, holder && h('span', { class: 'by' }, `; ${holder}`)])));
}

function endpoint({ endpoint: address, local, conditions, used, why }) {
  return h('tr', { 'data-key': `${address} ${why}` },
    h('th', { scope: 'row' }, address),
    cell(used ? chip('used', 'used') : chip('', 'not used')),
    cell(local ? 'this node' : 'another'), cell(conditions), h('td', { class: 'wide' }, why.replace(/^(not )?used: /, '')));
}

// Where the proxy does not know the question, there is no such section.
async function counts(name) {
  try {
    return await ask('counters', { service: name });
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

function counted({ enabled, services: found }) {
  if (!enabled) return card('Traffic', empty('Counters are switched off. docs/inspecting.md says how to switch them on.'));
  const value = (count) => (count === null || count === undefined ? '–' : number(count));
  const row = (key, name, one, about) => h('tr', { 'data-key': key, class: about },
    h('th', { scope: 'row' }, name), amount(value(one.connections)), amount(value(one.packets)), amount(value(one.bytes)));
  const rows = (found ?? []).flatMap((port) => [
    row(`${port.service} ${port.protocol}`, `${port.service} (${port.protocol})`, port, null),
    ...(port.endpoints ?? []).map((one) => row(`${port.service} ${port.protocol} ${one.endpoint}`, one.endpoint, one, 'inner')),
  ]);
  return card('Traffic', rows.length ? table('Traffic', ['Service port, endpoint', '>Connections', '>Packets', '>Bytes'], rows) : empty('Nothing was counted yet.'));
}
