// History of the cache: points, rows of the heat map, and charts.
import { ratio } from '../rates.js';
import { perSecond } from '../format.js';
import { BYTES, DASH, each, SHARES } from '../series.js';
import { byteHitRatio } from './totals.js';

const COUNTS = { units: [1], tick: perSecond, show: perSecond };

export const history = {
	point: value => ({
		reads: value.reads,
		hits: value.served_by_cache,
		served: value.served_bytes,
		fetched: value.fetched_bytes,
		origin: value.origin_requests,
		admitted: value.admitted_bytes,
		rewritten: value.rewritten_bytes,
		written: value.written_bytes,
		cost: value.saved_cost,
	}),
	rowOf: key => (history.timed(key) ? key.split(' ')[1] : undefined),
	timed: key => key.startsWith('GetObject '),
};

export const heat = {
	title: 'Time to first byte',
	caption: 'By path, last minute',
	row: 'path',
	noun: 'read',
	lines: 'p50, p99 (dashed)',
	lined: ['all'],
	words: {
		dram: 'memory',
		flash: 'flash',
		joined: 'joined fetch',
		origin: 'origin',
		head: 'head only',
		forwarded: 'forwarded',
		failed: 'failed',
	},
	counts: (key, path) =>
		(key.startsWith('GetObject ') || key.startsWith('HeadObject ')) &&
		(path === 'all' || key.endsWith(` ${path}`)),
};

export const charts = [
	{
		title: 'Throughput',
		scale: BYTES,
		lines: [
			{ name: 'served', hue: 'series-1', fill: 0.12, value: each('served') },
			{ name: 'fetched from origins', hue: 'series-2', dash: DASH, value: each('fetched') },
		],
	},
	{
		title: 'Hit ratio',
		scale: SHARES,
		lines: [
			{ name: 'by request', hue: 'series-1', value: point => ratio(point.hits, point.reads) },
			{
				name: 'by byte',
				hue: 'series-2',
				dash: DASH,
				value: point => byteHitRatio(point.served, point.fetched),
			},
		],
	},
	{
		title: 'Origin requests',
		scale: COUNTS,
		lines: [{ name: 'requests', hue: 'series-2', fill: 0.12, value: each('origin') }],
	},
	{
		title: 'Flash writes',
		scale: BYTES,
		stacked: true,
		lines: [
			{ name: 'rewritten (on top)', hue: 'zone-rewrite', fill: 0.35, value: each('rewritten') },
			{ name: 'admitted', hue: 'zone-fill', fill: 0.25, value: each('admitted') },
		],
	},
];
