// History of the block device: points, rows of the heat map, and charts.
import { ratio } from '../rates.js';
import { BYTES, DASH, each, SHARES } from '../series.js';
import { three } from '../format.js';
import { amplifiedBytes, fillOf } from './totals.js';

const FACTORS = { units: [1], tick: value => three(value), show: three };

export const history = {
	point: (value, doc) => ({
		...value,
		amplified: amplifiedBytes(doc, value.buffer_bytes, value.capacity_bytes),
		fill: fillOf(doc.tiers?.buffer, value.buffer_empty_zones),
		used: fillOf(doc.tiers?.capacity, value.capacity_empty_zones),
	}),
	rowOf: key => key.split(' ')[0],
	timed: key => key.startsWith('write '),
};

export const heat = {
	title: 'Latency of requests',
	caption: 'By operation, last minute',
	row: 'operation',
	noun: 'request',
	lines: 'p50, p99 (dashed) of writes',
	lined: ['all', 'write'],
	words: { read: 'read', write: 'write', trim: 'trim', flush: 'flush' },
	counts: (key, operation) => operation === 'all' || key.startsWith(`${operation} `),
};

export const charts = [
	{
		title: 'Clients',
		scale: BYTES,
		lines: [
			{ name: 'written', hue: 'zone-fill', fill: 0.12, value: each('written_bytes') },
			{ name: 'read', hue: 'series-2', dash: DASH, value: each('read_bytes') },
		],
	},
	{
		title: 'Device writes',
		scale: BYTES,
		stacked: true,
		// Topmost first. The buffer's own are those of clients, with map and metadata.
		lines: [
			{ name: 'collected', hue: 'zone-collection', fill: 0.35, value: each('collected_bytes') },
			{ name: 'compacted', hue: 'zone-rewrite', fill: 0.35, value: each('compacted_bytes') },
			{ name: 'retained', hue: 'zone-map', fill: 0.4, value: each('retained_bytes') },
			{
				name: 'buffer',
				hue: 'zone-fill',
				fill: 0.25,
				value: ({ buffer_bytes: all, retained_bytes: retained }, seconds) =>
					all === null ? null : Math.max(0, all - (retained ?? 0)) / seconds,
			},
		],
	},
	{
		title: 'Write amplification',
		scale: FACTORS,
		lines: [
			{
				name: 'capacity device by client',
				hue: 'series-2',
				fill: 0.12,
				value: point => ratio(point.amplified, point.written_bytes),
			},
		],
	},
	{
		title: 'Zones in use',
		scale: SHARES,
		lines: [
			{ name: 'buffer', hue: 'zone-fill', value: point => point.fill },
			{ name: 'capacity', hue: 'series-1', dash: DASH, value: point => point.used },
		],
	},
];
