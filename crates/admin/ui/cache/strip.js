// The strip of the cache: what it saves.
import {
	bytes,
	bytesParts,
	count,
	latency,
	latencyParts,
	percent,
	perSecond,
	three,
} from '../format.js';
import { ratio, summary } from '../rates.js';
import { WINDOW_SECONDS, withUnit } from '../strip.js';
import { money } from './money.js';
import { byteHitRatio, hitsOf, readsOf } from './totals.js';

const LAST = `of the last ${WINDOW_SECONDS} s`;

export const tiles = {
	hits: {
		name: 'Hit ratio',
		line: point => ratio(point.hits, point.reads),
		top: 1,
		title: () =>
			`Reads served without bytes from an origin (hit, revalidated, stale, updating) by all reads, ` +
			`${LAST}. By byte: 1 − bytes fetched / bytes served, without reads past the cache.`,
	},
	served: { name: 'Served', line: point => point.served, title: () => `Bytes handed to readers, ${LAST}` },
	origin: {
		name: 'Origin requests',
		line: point => ratio(point.origin, point.reads),
		title: () => `All requests to the origins by all reads, ${LAST}`,
	},
	latency: {
		name: 'Time to first byte',
		line: point => point.p99,
		title: () =>
			`GetObject: from the head of the request to the first bytes, ${LAST}. Two significant digits.`,
	},
	saved: {
		name: 'Saved',
		title: () =>
			'Since the start: requests and bytes that the origins would have billed, less what was asked of them',
	},
};

export function figures(doc, recent, rates) {
	const node = recent?.node;
	const each = value => (recent === null ? null : value / recent.seconds);
	const perThousand = node?.reads > 0 ? (node.origin / node.reads) * 1000 : null;
	const {
		p50,
		p99,
		count: seen,
	} = summary(rates.latencies(WINDOW_SECONDS, key => key.startsWith('GetObject ')));
	const { cost, currency, requests } = doc.savings ?? {};
	return {
		hits: hits(doc, node),
		served: [
			...withUnit(bytesParts(each(node?.served)), '/s'),
			recent
				? `${perSecond(each(node.reads))} reads, ${bytes(each(node.fetched))}/s fetched`
				: 'no rate yet',
		],
		origin: [
			three(perThousand),
			'per 1,000 reads',
			recent ? `${perSecond(each(node.origin))} to the origins` : '',
		],
		latency: [...withUnit(latencyParts(p99), ' p99'), `p50 ${latency(p50)}, of ${count(seen)} GETs`],
		saved: [
			// A simulation has no prices.
			money(currency && cost, currency),
			'',
			(recent && currency ? `${money(each(node.cost) * 3600, currency)} an hour; ` : '') +
				`${count(requests)} requests`,
		],
	};
}

function hits(doc, node) {
	const [now, unit] = node?.reads > 0 ? [((node.hits / node.reads) * 100).toFixed(1), '%'] : ['—', ''];
	const byByte = byteHitRatio(node?.served, node?.fetched);
	const since = ratio(hitsOf(doc.answers), readsOf(doc.answers));
	const none = node?.reads === 0 ? 'no reads; ' : `by byte ${percent(byByte)}; `;
	return [now, unit, `${none}since start ${percent(since)}`];
}
