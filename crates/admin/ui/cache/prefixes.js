// Prefixes: what the cache saves for each bucket and prefix, and how much of it is cached.
import { h, Keyed, setHidden, setText, tableRow } from '../dom.js';
import { bytes, clock, count, percent, plural } from '../format.js';
import { scrollTable } from '../panels.js';
import { ratio } from '../rates.js';
import { money } from './money.js';

const ASK_MS = 10000;
const FEW_ROWS = 20;
// Heading, figure by which rows are sorted, text of it.
const COLUMNS = [
	['prefix', 'name'],
	['requests', 'requests', withEarlier],
	['hits', 'hits', share => percent(share)],
	['served', 'served_bytes', bytes],
	['from origins', 'origin_bytes', bytes],
	['origin requests', 'origin_requests', count],
	['saved', 'saved_cost', (cost, row, { currency }) => money(cost, currency)],
	['saved bytes', 'saved_bytes', bytes],
	['cached', 'resident_bytes', withError],
];

function withHits(row) {
	return { ...row, hits: ratio(row.served_by_cache, row.reads) };
}

function withEarlier(requests, { earlier_requests_max: earlier }) {
	return count(requests) + (earlier > 0 ? ` + up to ${count(earlier)} earlier` : '');
}

function withError(size, { resident_error_bytes: error }) {
	return error > 0 ? `about ${bytes(size)} ± ${bytes(error)}` : bytes(size);
}

export function prefixes() {
	let [doc, sorted, down, all] = [null, 1, true, false];
	const body = h('tbody', { id: 'prefixes' });
	const rows = new Keyed(body, (row, name) => rowOf(name));
	const others = rowOf('all others');
	const heads = COLUMNS.map(([text], column) => {
		const onclick = () => {
			// Names begin with A, figures with the highest.
			down = sorted === column ? !down : column > 0;
			sorted = column;
			show();
		};
		return h('th', { scope: 'col' }, h('button', { type: 'button', class: 'link', text, onclick }));
	});
	const onclick = () => {
		all = !all;
		show();
	};
	const more = h('button', { type: 'button', hidden: true, onclick });
	const about = h('p', { class: 'quiet' });
	const title = h('h2', { id: 'prefixes-title', text: 'Prefixes' });
	const table = scrollTable('prefixes', heads, body, h('tfoot', {}, others.node));
	const facts = { class: 'panel', 'aria-labelledby': title.id };
	const node = h('section', facts, title, table, more, about);

	function rowOf(name) {
		const figures = COLUMNS.slice(1);
		const { node: line, show: write } = tableRow(name, Array(figures.length).fill());
		const update = row => write(figures.map(([, key, text]) => text(row[key], row, doc)));
		return { node: line, update };
	}

	function show() {
		heads.forEach((head, n) => {
			head.ariaSort = n !== sorted ? null : down ? 'descending' : 'ascending';
		});
		const list = doc.prefixes.map(withHits).sort(orderBy(COLUMNS[sorted][1], down));
		const shown = all ? list : list.slice(0, FEW_ROWS);
		rows.update(shown.map(row => [row.name, row]));
		// So that the table adds up to all requests.
		const rest = { ...doc.others };
		for (const row of list.slice(shown.length)) for (const key in rest) rest[key] += row[key];
		others.update(withHits(rest));
		setHidden(more, list.length <= FEW_ROWS);
		setText(more, all ? `Show the first ${FEW_ROWS}` : `Show all ${count(list.length)}`);
		setText(about, aboutOf(doc));
	}

	async function ask() {
		const answer = await fetch('../api/v1/prefixes').catch(() => ({ status: 'nothing' }));
		if (answer.ok) doc = await answer.json();
		if (doc !== null) show();
		else setText(about, `The server answered ${answer.status}.`);
	}

	let [seen, next] = [false, 0];
	new IntersectionObserver(([entry]) => {
		seen = entry.isIntersecting;
	}).observe(node);
	return {
		node,
		update() {
			if (!seen || document.hidden || Date.now() < next) return;
			next = Date.now() + ASK_MS;
			ask();
		},
	};
}

// Unknown figures come last.
function orderBy(key, down) {
	return (a, b) => {
		const [x, y] = [a[key], b[key]];
		if (x === y) return b.requests - a.requests || (a.name < b.name ? -1 : 1);
		if (x === null || y === null) return x === null ? 1 : -1;
		return x < y === down ? 1 : -1;
	};
}

function aboutOf({ by, sample }) {
	const since = `Since the start, by ${by}. Cached bytes:`;
	if (!sample) return `${since} not known yet.`;
	const { objects, cached_objects: cached, is_whole: whole, at_ns: at } = sample;
	const from = whole ? 'all' : `estimated from ${count(objects)} of`;
	return `${since} ${from} ${plural(cached, 'object')}, at ${clock(at)}.`;
}
