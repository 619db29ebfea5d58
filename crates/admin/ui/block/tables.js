// Tables of the block device: a row for each export, and for each tenant.
import { bytes, count, latency, perSecond, three } from '../format.js';
import { each, rateOf, WINDOW_SECONDS } from '../panels.js';
import { ratio, summary } from '../rates.js';
import { amplifiedBytes } from './totals.js';

const columns = (...names) => names.map(name => [name]);

export const exports = {
	id: 'exports',
	title: 'Exports',
	about: 'Rates and latencies of the last minute; failures since the start.',
	columns: columns(
		...['export', 'tenant', 'size', 'connections', 'reads', 'read', 'writes', 'written', 'trims'],
		...['read p50', 'p99', 'write p50', 'p99', 'failures'],
	),
	valueOf(facts, rate, doc, rates) {
		const { name, failures, refusals } = facts;
		const times = operation => {
			const cells = rates.latencies(WINDOW_SECONDS, key => key === `${operation} ${name}`);
			const { p50, p99 } = summary(cells);
			return [latency(p50), latency(p99)];
		};
		return {
			name,
			state: failures > 0 ? 'failed' : 'healthy',
			texts: [
				...[facts.tenant, bytes(facts.size_bytes), count(facts.connections_open)],
				...[perSecond(each(rate, 'reads')), rateOf(each(rate, 'read_bytes'))],
				...[perSecond(each(rate, 'writes')), rateOf(each(rate, 'written_bytes'))],
				...[perSecond(each(rate, 'trims')), ...times('read'), ...times('write')],
				count(failures) + (refusals > 0 ? `, ${count(refusals)} refused` : ''),
			],
		};
	},
};

export const tenants = {
	id: 'tenants',
	title: 'Tenants',
	about: 'Bytes since the start. Amplification: written to the device of the capacity tier ÷ by clients.',
	columns: columns(
		...['tenant', 'stored', 'by clients', 'to the buffer', 'retained', 'compacted', 'collected'],
		...['amplification', 'last minute'],
	),
	valueOf(facts, rate, doc) {
		const fields = ['stored', 'user_written', 'buffer_written', 'retained', 'compacted', 'collected'];
		const amplification = all =>
			ratio(
				amplifiedBytes(doc, all?.buffer_written_bytes, all?.capacity_written_bytes),
				all?.user_written_bytes,
			);
		return {
			name: facts.name,
			texts: [
				...fields.map(field => bytes(facts[`${field}_bytes`])),
				...[facts, rate].map(all => three(amplification(all))),
			],
		};
	},
};
