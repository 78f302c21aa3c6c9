// Bars over the last hour, as SVG, with the same in words and as a table.

import { h, svg } from './dom.js';
import { number, span } from './parts.js';

const HEIGHT = 64;

// The buckets as a row without gaps, oldest first.
export function series(history) {
  const { bucketSeconds, uptimeSeconds, buckets } = history;
  const minutes = Math.min(60, Math.max(10, Math.ceil(uptimeSeconds / 600) * 10));
  const count = (minutes * 60) / bucketSeconds;
  const row = new Array(count).fill(null);
  for (const bucket of buckets) {
    const at = count - 1 - bucket.secondsAgo / bucketSeconds;
    if (at >= 0) row[at] = bucket;
  }
  return { row, minutes, bucketSeconds };
}

// One chart. `layers` are drawn on each other: what to read of a bucket, its class and its name.
export function chart(title, { row, minutes, bucketSeconds }, layers, { unit = number, combine = 'sum' } = {}) {
  const value = (bucket, read) => (bucket ? read(bucket) : 0);
  const heights = row.map((bucket) => layers.reduce((sum, [read]) => sum + value(bucket, read), 0));
  const highest = Math.max(...heights, 0);
  const total = heights.reduce((sum, height) => sum + height, 0);
  const words = combine === 'sum'
    ? `${unit(total)} in the last ${minutes} minutes, at most ${unit(highest)} in ${bucketSeconds} seconds`
    : `at most ${unit(highest)} in the last ${minutes} minutes`;
  return h('figure', { class: 'chart' },
    h('figcaption', {}, h('strong', {}, title), h('span', { class: 'quiet' }, words)),
    h('div', { class: 'plot' }, bars(row, layers, highest, `${title}: ${words}`), highest > 0 && h('span', { class: 'top', 'aria-hidden': 'true' }, unit(highest))),
    h('div', { class: 'axis', 'aria-hidden': 'true' }, h('span', {}, `${minutes} min ago`), h('span', {}, 'now')),
    layers.length > 1 && h('ul', { class: 'legend' }, layers.map(([, name, words]) => h('li', {}, h('span', { class: `swatch ${name}`, 'aria-hidden': 'true' }), words))),
    asTable(title, row, layers, { minutes, unit, combine }));
}

function bars(row, layers, highest, label) {
  const rects = [];
  row.forEach((bucket, at) => {
    let base = HEIGHT;
    for (const [read, name] of layers) {
      const amount = bucket ? read(bucket) : 0;
      if (amount === 0) continue;
      // What happened once is seen beside what happened a thousand times.
      const height = Math.max(2, (amount / highest) * (HEIGHT - 4));
      base = Math.max(0, base - height);
      rects.push(svg('rect', { x: at + 0.1, y: base.toFixed(2), width: 0.8, height: height.toFixed(2), class: name }));
    }
  });
  return svg('svg', { class: 'bars', viewBox: `0 0 ${row.length} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    svg('line', { x1: 0, x2: row.length, y1: HEIGHT, y2: HEIGHT, class: 'ground' }), rects);
}

function asTable(title, row, layers, { minutes, unit, combine }) {
  const parts = 10;
  const size = row.length / parts;
  const rows = [];
  for (let part = 0; part < parts; part += 1) {
    const buckets = row.slice(part * size, (part + 1) * size).filter(Boolean);
    const cells = layers.map(([read]) => {
      const values = buckets.map(read);
      const value = combine === 'sum' ? values.reduce((sum, one) => sum + one, 0) : Math.max(0, ...values);
      return h('td', { class: 'right' }, unit(value));
    });
    const from = Math.round(minutes - (part * minutes) / parts);
    rows.push(h('tr', {}, h('th', { scope: 'row' }, `${from} to ${Math.round(from - minutes / parts)} min ago`), cells));
  }
  return h('details', {}, h('summary', {}, 'As a table', h('span', { class: 'unseen' }, `: ${title}`)),
    h('table', { class: 'small' }, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Time'), layers.map(([, , words]) => h('th', { scope: 'col', class: 'right' }, words)))),
      h('tbody', {}, rows)));
}

export const seconds = span;
