// Panels below the history: a row of a table, or a card, for each member of a part of the document.
import { h, Keyed, setHidden, setText, tableRow } from './dom.js';
import { bytes, known, percent } from './format.js';

export const WINDOW_SECONDS = 60;

// `id`: name of the part; `valueOf(facts, rate, doc, rates, sums)`: what is shown of a member; `rate`: what
// its counters gained in the last minute, with `seconds`, or null.
function panel({ id, title, about, valueOf }, tag, wrap, list, create) {
	const rows = new Keyed(list, create);
	const label = `${id}-title`;
	const words = about && h('p', { class: 'quiet', text: about });
	return {
		node: h(
			'section',
			{ class: tag, 'aria-labelledby': label },
			h('h2', { id: label, text: title }),
			words,
			wrap,
		),
		update(doc, rates, sums) {
			const recent = rates.over(WINDOW_SECONDS);
			const members = Object.entries(doc[id] ?? {}).map(([key, facts]) => {
				const rate = recent?.[id][key] ? { ...recent[id][key], seconds: recent.seconds } : null;
				return [key, valueOf(facts, rate, doc, rates, sums)];
			});
			rows.update(members);
		},
	};
}

// A table that scrolls on narrow screens.
export function scrollTable(id, heads, ...parts) {
	return h(
		'div',
		{ class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Table of ${id}` },
		h('table', { class: 'figures broad' }, h('thead', {}, h('tr', {}, ...heads)), ...parts),
	);
}

// `columns`: [name, class], the first is the header of a row; a value is {name, texts, state}.
export function tablePanel(facts) {
	const { id, columns } = facts;
	const list = h('tbody', { id });
	const heads = columns.map(([text, kind]) => h('th', { scope: 'col', class: kind, text }));
	const wrap = scrollTable(id, heads, list);
	const classes = columns.slice(1).map(([, kind]) => kind);
	return panel(facts, 'panel', wrap, list, ({ name }) => {
		const { node, show } = tableRow(name, classes);
		const update = ({ texts, state = '' }) => {
			show(texts);
			node.dataset.state = state;
		};
		return { node, update };
	});
}

// `columns`: headings of the lists of facts; a value is {name, state, stateWords, about, bar, facts}.
export function cardPanel(facts) {
	const list = h('div', { id: facts.id, class: 'cards' });
	return panel(facts, null, list, list, () => card(facts.columns));
}

function card(columns) {
	const [name, state, about] = [h('h3'), h('span', { class: 'state' }), h('p', { class: 'quiet' })];
	const bar = new Bar();
	const lists = new FactLists(columns);
	const node = h('article', { class: 'card' }, h('header', {}, name, state), about, bar.node, lists.node);
	return {
		node,
		update(value) {
			setText(name, value.name);
			setText(state, value.stateWords);
			node.dataset.state = value.state;
			setText(about, value.about);
			bar.show(value.bar);
			lists.show(value.facts);
		},
	};
}

// Capacity as a bar: live, written but no longer live, and free; a line at what is pinned.
class Bar {
	constructor() {
		this.parts = ['live', 'dead', 'free'].map(part => h('span', { class: `part ${part}` }));
		this.pin = h('span', { class: 'pin' });
		this.node = h('div', { class: 'bar', role: 'img' }, ...this.parts, this.pin);
	}

	show({ capacity, used, live, pinned }) {
		const share = value => (capacity > 0 ? Math.max(0, Math.min(1, value / capacity)) : 0);
		const parts = [live, used - live, capacity - used, pinned].map(share);
		this.parts.forEach((part, n) => {
			part.style.width = `${(parts[n] * 100).toFixed(2)}%`;
		});
		this.pin.style.left = `${(parts[3] * 100).toFixed(2)}%`;
		setHidden(this.pin, !(pinned > 0));
		const [liveWords, dead, free, pin] = parts.map(part => percent(part, 0));
		const text =
			`live ${liveWords}, written but not live ${dead}, free ${free}` +
			`${known(pinned) ? `, pinned ${pin}` : ''} of the capacity`;
		if (this.node.title === text) return;
		this.node.setAttribute('aria-label', text);
		this.node.title = text;
	}
}

// Lists of [term, value, how the figure is made] side by side.
export class FactLists {
	constructor(columns, heading = 'h4') {
		this.lists = columns.map(() => h('dl', { class: 'facts noted' }));
		const parts = columns.map((text, n) => h('section', {}, h(heading, { text }), this.lists[n]));
		this.node = h('div', { class: 'columns' }, ...parts);
	}

	show(all) {
		all.forEach((facts, n) => showFacts(this.lists[n], facts));
	}
}

function showFacts(list, facts) {
	if (list.children.length !== facts.length * 2) {
		list.replaceChildren(
			...facts.flatMap(([text]) => [
				h('dt', { text }),
				h('dd', {}, h('span', { class: 'value' }), h('span', { class: 'note' })),
			]),
		);
	}
	facts.forEach(([term, value, note = ''], n) => {
		const [figure, words] = list.children[n * 2 + 1].children;
		setText(list.children[n * 2], term);
		setText(figure, value);
		setText(words, note);
	});
}

// A figure of a rate by second; null without one.
export function each(rate, field) {
	return known(rate?.[field]) ? rate[field] / rate.seconds : null;
}

export function rateOf(value) {
	return known(value) ? `${bytes(value)}/s` : bytes(value);
}
