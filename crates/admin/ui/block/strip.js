// The strip of the block device: how full the buffer is, and what clients and compaction write.
import {
	bytes,
	bytesParts,
	count,
	latency,
	latencyParts,
	percent,
	perSecond,
	plural,
	three,
} from '../format.js';
import { each } from '../panels.js';
import { ratio, summary } from '../rates.js';
import { WINDOW_SECONDS, withUnit } from '../strip.js';
import { fillOf, roomOf, sum, totals } from './totals.js';

const LAST = `Of the last ${WINDOW_SECONDS} s.`;

export const tiles = {
	fill: {
		name: 'Buffer fill',
		line: point => point.fill,
		top: 1,
		title: () => 'Zones of the buffer that are not empty. Compaction works while fewer zones are empty.',
	},
	writes: {
		name: 'Written by clients',
		line: point => point.written_bytes,
		title: () => `${LAST} Throttled writes waited because the buffer was full.`,
	},
	reads: { name: 'Read by clients', line: point => point.read_bytes, title: () => LAST },
	latency: {
		name: 'Write latency',
		line: point => point.p99,
		title: () => `${LAST} Two significant digits.`,
	},
	amplification: {
		name: 'Write amplification',
		line: point => ratio(point.amplified, point.written_bytes),
		title: doc => `Written to the ${doc.single_device ? 'device' : 'capacity tier'} ÷ by clients. ${LAST}`,
	},
	stored: {
		name: 'Stored',
		title: () => 'Live bytes of clients, by the writable bytes of the capacity tier.',
	},
};

export function figures(doc, recent, rates) {
	const { buffer, capacity } = doc.tiers ?? {};
	const fill = fillOf(buffer);
	const rate = recent && { ...recent.node, seconds: recent.seconds };
	const size = field => withUnit(bytesParts(each(rate, field)), '/s');
	const often = (field, more) => (rate ? `${perSecond(each(rate, field))} ${field}${more}` : 'no rate yet');
	const times = rates.latencies(WINDOW_SECONDS, key => key.startsWith('write '));
	const { p50, p99, count: seen } = summary(times);
	const all = totals(doc).node;
	const [stored, room] = [sum(doc.tenants, 'stored_bytes'), roomOf(capacity)];
	return {
		fill: [
			fill === null ? '—' : (fill * 100).toFixed(1),
			'%',
			`compaction below ${plural(buffer?.low_water_zones, 'empty zone')}`,
		],
		writes: [...size('written_bytes'), often('writes', throttled(doc, rate))],
		reads: [...size('read_bytes'), often('reads', '')],
		latency: [...withUnit(latencyParts(p99), ' p99'), `p50 ${latency(p50)}, of ${count(seen)} writes`],
		amplification: [
			three(ratio(rate?.amplified, rate?.user_written_bytes)),
			'',
			`since start ${three(ratio(all.amplified, all.user_written_bytes))}`,
		],
		stored: [...bytesParts(stored), `${percent(ratio(stored, room))} of ${bytes(room)}`],
	};
}

function throttled({ queued_bytes: queued }, rate) {
	const writes = rate?.throttled;
	return writes > 0 || queued > 0 ? `, ${count(writes)} throttled, ${bytes(queued)} wait` : '';
}
