// The strip: the figures of the last seconds that say whether the cache is well.
import { byId, h, setText } from './dom.js';
import {
	bytes,
	bytesParts,
	count,
	latency,
	latencyParts,
	money,
	percent,
	perSecond,
	span,
	three,
} from './format.js';
import { byteHitRatio, hitsOf, ratio, readsOf, summary } from './rates.js';
import { Spark } from './spark.js';

export const WINDOW_SECONDS = 10;
const TILES = [
	['hits', 'Hit ratio'],
	['served', 'Served'],
	['origin', 'Origin requests'],
	['latency', 'Time to first byte'],
	['saved', 'Saved'],
];

export class Strip {
	constructor() {
		this.tiles = Object.fromEntries(TILES.map(([key, name]) => [key, tile(name)]));
		byId('strip').append(...Object.values(this.tiles).map(({ node }) => node));
	}

	update(doc, rates) {
		const recent = rates.over(WINDOW_SECONDS);
		const node = recent?.node;
		const each = value => (recent === null ? null : value / recent.seconds);
		this.hits(doc, node);
		this.tiles.served.show(
			...withUnit(bytesParts(each(node?.served)), '/s'),
			recent === null
				? 'no rate yet'
				: `${perSecond(each(node.reads))} reads, ${bytes(each(node.fetched))}/s fetched`,
		);
		const perThousand = node?.reads > 0 ? (node.origin / node.reads) * 1000 : null;
		this.tiles.origin.show(
			three(perThousand),
			'per 1,000 reads',
			recent === null ? '' : `${perSecond(each(node.origin))} to the origins`,
		);
		const {
			p50,
			p99,
			count: seen,
		} = summary(rates.latencies(WINDOW_SECONDS, key => key.startsWith('GetObject ')));
		this.tiles.latency.show(
			...withUnit(latencyParts(p99), ' p99'),
			`p50 ${latency(p50)}, of ${count(seen)} GETs`,
		);
		const { cost, currency, requests } = doc.savings ?? {};
		this.tiles.saved.show(
			money(cost, currency),
			'',
			recent === null
				? `${count(requests)} requests`
				: `${money(each(node.cost) * 3600, currency)} an hour; ${count(requests)} requests`,
		);
		for (const [key, text] of Object.entries(titles(doc))) this.tiles[key].node.title = text;
	}

	hits(doc, node) {
		const [now, unit] = node?.reads > 0 ? [((node.hits / node.reads) * 100).toFixed(1), '%'] : ['—', ''];
		const byByte = byteHitRatio(node?.served, node?.fetched);
		const since = ratio(hitsOf(doc.answers), readsOf(doc.answers));
		const none = node !== undefined && node.reads === 0 ? 'no reads; ' : `by byte ${percent(byByte)}; `;
		this.tiles.hits.show(now, unit, `${none}since start ${percent(since)}`);
	}

	// Lines of the last ten minutes, from the points of the history.
	sparks(points) {
		const last = points.slice(-120);
		this.tiles.hits.spark.draw(
			last.map(point => ratio(point.hits, point.reads)),
			1,
		);
		this.tiles.served.spark.draw(last.map(point => point.served));
		this.tiles.origin.spark.draw(last.map(point => ratio(point.origin, point.reads)));
		this.tiles.latency.spark.draw(last.map(point => point.p99));
	}
}

function tile(name) {
	const value = h('span', { class: 'value', text: '—' });
	const unit = h('span', { class: 'unit' });
	const note = h('dd', { class: 'note' });
	const spark = new Spark();
	const node = h(
		'div',
		{ class: 'tile' },
		h('dt', { text: name }),
		h('dd', { class: 'figure' }, value, ' ', unit, name === 'Saved' ? null : spark.node),
		note,
	);
	return {
		node,
		spark,
		show(figure, of, words) {
			setText(value, figure);
			setText(unit, of);
			setText(note, words);
		},
	};
}

function withUnit([figure, unit], suffix) {
	return [figure, unit === '' ? '' : unit + suffix];
}

function titles(doc) {
	const up = span((doc.at_ns - doc.started_at_ns) / 1e9);
	return {
		hits:
			`Reads served without bytes from an origin (hit, revalidated, stale, updating) by all reads, ` +
			`of the last ${WINDOW_SECONDS} s. By byte: 1 − bytes fetched / bytes served, without reads past ` +
			`the cache. Up ${up}.`,
		served: `Bytes handed to readers, of the last ${WINDOW_SECONDS} s`,
		origin: `All requests to the origins by all reads, of the last ${WINDOW_SECONDS} s`,
		latency:
			`GetObject: from the head of the request to the first bytes, of the last ${WINDOW_SECONDS} s. ` +
			'Two significant digits.',
		saved:
			'Since the start: requests and bytes that the origins would have billed, less what was asked of them',
	};
}
