// A card for each device: its state, its flash and its reads.
import { byId, h, Keyed, setText } from './dom.js';
import { bytes, count, known, percent, perSecond, plural } from './format.js';
import { flashFacts } from './flash.js';

const WINDOW_SECONDS = 60;
const STATES = {
	'in-use': 'in use',
	isolated: 'isolated: its reads go to the origin until it answers again',
	lost: 'lost: its reads go to the origin',
};

export class Devices {
	constructor() {
		this.cards = new Keyed(byId('devices'), () => new Card());
	}

	// `live`: live bytes by device.
	update(doc, rates, live) {
		const recent = rates.over(WINDOW_SECONDS);
		this.cards.update(
			Object.entries(doc.devices ?? {}).map(([id, device]) => {
				const rate = recent?.devices[id] ? { ...recent.devices[id], seconds: recent.seconds } : null;
				const bytesLive = live.of(device.device);
				return [
					id,
					{
						device,
						live: bytesLive,
						flash: flashFacts(doc, device, bytesLive, rate),
						reads: readFacts(device, rate),
					},
				];
			}),
		);
	}
}

class Card {
	constructor() {
		this.name = h('h3');
		this.state = h('span', { class: 'state' });
		this.about = h('p', { class: 'quiet' });
		this.bar = new Bar();
		this.flash = h('dl', { class: 'facts noted' });
		this.reads = h('dl', { class: 'facts noted' });
		this.node = h(
			'article',
			{ class: 'card' },
			h('header', {}, this.name, this.state),
			this.about,
			this.bar.node,
			h(
				'div',
				{ class: 'columns' },
				h('section', {}, h('h4', { text: 'Flash' }), this.flash),
				h('section', {}, h('h4', { text: 'Reads and writes, last minute' }), this.reads),
			),
		);
	}

	update({ device, live, flash, reads }) {
		setText(this.name, `Device ${device.device}: ${device.name}`);
		setText(this.state, STATES[device.state] ?? device.state);
		this.node.dataset.state = device.state;
		setText(
			this.about,
			`${device.kind}, ${plural(device.shards, 'shard')}, ${plural(device.zones, 'zone')} of ` +
				`${bytes(device.zone_bytes)}, policy ${device.policy}`,
		);
		this.bar.show(device.flash ?? {}, live);
		showFacts(this.flash, flash);
		showFacts(this.reads, reads);
	}
}

// Capacity as a bar: live, written but no longer live, and free; a line at what is pinned.
class Bar {
	constructor() {
		this.parts = ['live', 'dead', 'free'].map(part => h('span', { class: `part ${part}` }));
		this.pin = h('span', { class: 'pin' });
		this.node = h('div', { class: 'bar', role: 'img' }, ...this.parts, this.pin);
	}

	show({ capacity_bytes: capacity, used_bytes: used, pinned_bytes: pinned }, live) {
		const share = value => (capacity > 0 ? Math.max(0, Math.min(1, value / capacity)) : 0);
		[live, used - live, capacity - used].forEach((value, n) => {
			this.parts[n].style.width = `${(share(value) * 100).toFixed(2)}%`;
		});
		this.pin.style.left = `${(share(pinned) * 100).toFixed(2)}%`;
		this.pin.hidden = !(pinned > 0);
		const text =
			`live ${percent(share(live), 0)}, written but not live ${percent(share(used - live), 0)}, ` +
			`free ${percent(share(capacity - used), 0)}, pinned ${percent(share(pinned), 0)} of the capacity`;
		if (this.node.getAttribute('aria-label') !== text) {
			this.node.setAttribute('aria-label', text);
			this.node.title = text;
		}
	}
}

function readFacts({ flash = {}, isolations, reads_timed_out: late }, rate) {
	const each = value => (rate === null || !known(value) ? null : value / rate.seconds);
	const of = value => (rate?.pieces > 0 ? percent(value / rate.pieces) : '');
	return [
		{ term: 'Pieces read', value: perSecond(each(rate?.pieces)), note: '' },
		{ term: 'from memory', value: perSecond(each(rate?.dram)), note: of(rate?.dram) },
		{ term: 'from flash', value: perSecond(each(rate?.flash)), note: of(rate?.flash) },
		{ term: 'joined a fetch', value: perSecond(each(rate?.joined)), note: of(rate?.joined) },
		{ term: 'missed', value: perSecond(each(rate?.missed)), note: of(rate?.missed) },
		{
			term: 'Served',
			value: rateOf(each(rate?.served)),
			note: `${rateOf(each(rate?.served_flash))} of it from flash`,
		},
		{
			term: 'Written',
			value: rateOf(each(rate?.written)),
			note: `admitted ${rateOf(each(rate?.admitted))}, ` + `rewritten ${rateOf(each(rate?.rewritten))}`,
		},
		{
			term: 'Errors',
			value: count(flash.errors),
			note: `${plural(late, 'read')} timed out, ` + `${plural(isolations, 'isolation')} since start`,
		},
	];
}

function rateOf(value) {
	return known(value) ? `${bytes(value)}/s` : bytes(value);
}

function showFacts(list, facts) {
	if (list.children.length !== facts.length * 2) {
		list.replaceChildren(
			...facts.flatMap(({ term }) => [
				h('dt', { text: term }),
				h('dd', {}, h('span', { class: 'value' }), h('span', { class: 'note' })),
			]),
		);
	}
	facts.forEach(({ value, note }, n) => {
		const [figure, words] = list.children[n * 2 + 1].children;
		setText(figure, value);
		setText(words, note);
	});
}
