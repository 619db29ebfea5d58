// Facts of a cell beside the pointer or the focus, and the same in one sentence for screen readers.
import { h, setHidden } from './dom.js';
import { bytes, count, percent } from './format.js';
import { cellRect } from './zonelayout.js';
import { factsAt, idsAt } from './zonebands.js';
import { liveShare, useWords } from './zonelook.js';

export class Tip {
	constructor(node, frame) {
		Object.assign(this, { node, frame });
	}

	show(band, position) {
		const facts = factsAt(band, position);
		if (facts === undefined) return this.hide();
		const rows = rowsOf(band, facts).flatMap(([term, text]) => [h('dt', { text: term }), h('dd', { text })]);
		const title = h('p', { class: 'tip-title', text: titleOf(band, position) });
		this.node.replaceChildren(title, h('dl', {}, ...rows));
		setHidden(this.node, false);
		this.place(band, cellRect(band.grid, position));
	}

	// Beside the cell, and inside the map.
	place(band, rect) {
		const left = band.field.offsetLeft + rect.x;
		const top = band.field.offsetTop + rect.y;
		const { offsetWidth: width, offsetHeight: height } = this.node;
		const right = left + rect.width + 12;
		const x = right + width <= this.frame.clientWidth ? right : Math.max(0, left - width - 12);
		const above = top - height - 10;
		const beside = x > left || x + width < left;
		const y = beside ? Math.min(top, Math.max(0, this.frame.clientHeight - height)) : Math.max(0, above);
		this.node.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
	}

	hide() {
		setHidden(this.node, true);
	}
}

function titleOf(band, position) {
	const ids = idsAt(band, position);
	return ids.length === 1
		? `Zone ${ids[0]}, ${useWords(factsAt(band, position), band.looks)}`
		: `Zones ${ids[0]} to ${ids.at(-1)}`;
}

// A cell of several zones says how many have each use.
function rowsOf({ zoneBytes, looks }, facts) {
	const uses = Object.entries(facts.uses ?? {});
	const mean = facts.uses ? ' (mean)' : '';
	return [
		...uses.map(([use, zones]) => [looks.uses[use]?.words ?? use, count(zones)]),
		[`written${mean}`, `${bytes(facts.written_bytes)}, ${percent(facts.written_bytes / zoneBytes, 0)}`],
		[`live${mean}`, `${bytes(facts.live_bytes)}, ${percent(liveShare(facts), 0)} of it`],
		...looks.rows(facts, mean),
	];
}

export function describe(band, position) {
	const facts = factsAt(band, position);
	if (facts === undefined) return '';
	const rows = rowsOf(band, facts)
		.map(([term, value]) => `${term} ${value}`)
		.join('; ');
	return `${titleOf(band, position)}, ${band.looks.bandWords(band.key)}; ${rows}`;
}
