// The list of what happens, newest first. It stands still while it is read.
import { byId, h, inOrder, setHidden, setText } from './dom.js';
import { clock, dateTime, plural } from './format.js';
import { kindOf, markOf, wordsOf } from './eventwords.js';

const KEEP = 600;
const SHOW = 120;
const LATER_MS = 150;

export class Events {
	// `facts`: words of the kind; `open(place, zone)` opens the story of a zone.
	constructor(facts, open) {
		Object.assign(this, { facts, open, all: [], kind: 'all', waiting: 0, held: false });
		this.list = byId('event-list');
		this.more = byId('events-waiting');
		this.listen();
	}

	listen() {
		const select = byId('event-kind');
		select.append(
			h('option', { value: 'all', text: 'All' }),
			...Object.entries({ ...this.facts.names, page: 'Other' }).map(([kind, name]) =>
				h('option', { value: kind, text: name }),
			),
		);
		select.addEventListener('change', () => {
			this.kind = select.value;
			this.render();
		});
		const area = byId('event-area');
		const hold = (name, held) =>
			area.addEventListener(name, event => {
				this.held = held(event);
				this.catchUp();
			});
		hold('pointerenter', () => true);
		hold('pointerleave', () => area.contains(document.activeElement));
		hold('focusin', () => true);
		hold('focusout', event => area.contains(event.relatedTarget) || area.matches(':hover'));
		this.list.addEventListener('keydown', event => this.press(event));
		this.more.addEventListener('click', () => {
			this.render();
			this.list.scrollTop = 0;
		});
	}

	// A document begins a new list; `page` events, which only this page knows, stay.
	reset() {
		this.all = this.all.filter(({ event }) => event === 'page');
	}

	show(events) {
		this.all = events.slice(-KEEP);
		this.render();
	}

	add(events) {
		this.all = [...this.all, ...events].sort((a, b) => a.at_ns - b.at_ns).slice(-KEEP);
		this.waiting += events.filter(event => this.passes(event)).length;
		if (this.held) this.showWaiting();
		// In another frame than the patch that came with them.
		else this.later ??= setTimeout(() => {
			this.later = null;
			this.catchUp();
		}, LATER_MS);
	}

	say(at_ns, text) {
		this.add([{ event: 'page', at_ns, text }]);
	}

	passes(event) {
		return this.kind === 'all' || kindOf(event, this.facts) === this.kind;
	}

	catchUp() {
		if (!this.held && this.waiting > 0) this.render();
	}

	showWaiting() {
		setHidden(this.more, this.waiting === 0);
		setText(this.more, `${plural(this.waiting, 'new event')}: show`);
	}

	render() {
		this.waiting = 0;
		this.showWaiting();
		const shown = this.all.filter(event => this.passes(event)).slice(-SHOW);
		const known = new Map([...this.list.children].map(row => [row.event, row]));
		const rows = shown.reverse().map(event => known.get(event) ?? this.row(event));
		inOrder(this.list, rows);
		setHidden(byId('events-none'), rows.length > 0);
		this.stop?.setAttribute('tabindex', '-1');
		this.stop = rows[0];
		this.stop?.setAttribute('tabindex', '0');
	}

	row(event) {
		const link = part => (typeof part === 'string' ? part : this.link(part));
		const words = h('span', { class: 'words' }, ...wordsOf(event, this.facts).map(link));
		const time = h('time', { text: clock(event.at_ns), title: dateTime(event.at_ns) });
		const mark = h('span', { class: 'mark', 'aria-hidden': 'true' });
		const row = h('li', { 'data-mark': markOf(event, this.facts), tabindex: '-1' }, time, mark, words);
		row.event = event;
		return row;
	}

	// One tab stop for the list: its zones are opened with Enter on their row.
	link({ place, zone, text }) {
		return h('button', {
			type: 'button',
			class: 'link',
			tabindex: '-1',
			text,
			onclick: () => this.open(place, zone),
		});
	}

	press(event) {
		const row = event.target.closest('li');
		if (row === null) return;
		const next = {
			ArrowDown: row.nextElementSibling,
			ArrowUp: row.previousElementSibling,
			Home: this.list.firstElementChild,
			End: this.list.lastElementChild,
		}[event.key];
		if (next) next.focus();
		else if (event.key === 'Enter' && event.target === row) row.querySelector('button')?.click();
		else return;
		event.preventDefault();
	}
}
