// Facts of a cell beside the pointer or the focus, and the same in one sentence for screen readers.
import { h, setHidden } from './dom.js';
import { bytes, count, percent } from './format.js';
import { cellRect } from './zonelayout.js';
import { factsAt, idsAt } from './zonebands.js';
import { liveShare, USE_WORDS, useWords } from './zonelook.js';

export class Tip {
	constructor(node, frame) {
		Object.assign(this, { node, frame });
	}

	show(band, position) {
		const facts = factsAt(band, position);
		if (facts === undefined) return this.hide();
		const rows = rowsOf(band, facts).flatMap(([term, value]) => [
			h('dt', { text: term }),
			h('dd', { text: value }),
		]);
		this.node.replaceChildren(
			h('p', { class: 'tip-title', text: titleOf(band, position) }),
			h('dl', {}, ...rows),
		);
		setHidden(this.node, false);
		this.place(band, cellRect(band.grid, position));
		return undefined;
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
		? `Zone ${ids[0]}, ${useWords(factsAt(band, position))}`
		: `Zones ${ids[0]} to ${ids.at(-1)}`;
}

function rowsOf(band, facts) {
	const share = facts.written_bytes / band.zoneBytes;
	const mean = facts.uses ? ' (mean)' : '';
	const rows = facts.uses
		? Object.entries(facts.uses).map(([use, zones]) => [USE_WORDS[use] ?? use, count(zones)])
		: [];
	rows.push(
		[`written${mean}`, `${bytes(facts.written_bytes)}, ${percent(share, 0)}`],
		[`live${mean}`, `${bytes(facts.live_bytes)}, ${percent(liveShare(facts), 0)} of it`],
	);
	if (facts.pinned_bytes > 0) rows.push([`pinned${mean}`, bytes(facts.pinned_bytes)]);
	rows.push(
		['records', `${count(facts.live_records)} live of ${count(facts.records)}`],
		['reads', count(facts.reads)],
	);
	if (facts.sequence !== null && facts.sequence !== undefined)
		rows.push(['sequence', count(facts.sequence)]);
	return rows;
}

export function describe(band, position) {
	const facts = factsAt(band, position);
	if (facts === undefined) return '';
	const rows = rowsOf(band, facts)
		.map(([term, value]) => `${term} ${value}`)
		.join('; ');
	return `${titleOf(band, position)}, shard ${band.key}; ${rows}`;
}
