// Plays a recording to the same handlers as live.js: `GET /api/v1/recording`, or a file.
import { byId, h, setHidden, setText } from '../dom.js';
import { clock, count, dateTime, span, times } from '../format.js';
import { merge } from '../merge.js';
import { placeOf } from '../zonebands.js';
import { RecordedHistory } from './past.js';
import { messagesOf, Recording } from './recording.js';

const TICK_MS = 100;
// Rates are of the last minute.
const WINDOW_NS = 61e9;
// Above this speed pulses and arrows would be noise.
const MOVING_SPEED = 60;
const REAL = { ...times };
const OWN_KEYS = 'input:not([type=range]), select, button, summary, a, #map';

export class Player {
	// `handlers`: as of live.js, and jump(events) after a seek.
	constructor(api, handlers) {
		Object.assign(this, { api, handlers });
		document.head.append(h('link', { rel: 'stylesheet', href: 'play/play.css' }));
		this.play = button('Play', null, () => this.toggle());
		this.time = h('b');
		const oninput = () => {
			// A sample is not on a whole second.
			const seconds = this.slider.valueAsNumber + 0.5;
			this.seek(this.recording.indexAt(this.recording.samples[0].at + seconds * 1e9));
		};
		this.slider = h('input', { type: 'range', 'aria-label': 'Time', oninput });
		this.about = h('span', { class: 'quiet' });
		const to = by => () => this.go(this.position + by);
		const victim = by => () => this.go(this.victim(by));
		// Of the page that plays at once, `?play=10`.
		this.asked = Number(new URLSearchParams(location.search).get('play'));
		const speeds = [1, 10, 60, 600].map(value =>
			h('option', { value, text: `${value}×`, selected: value === this.asked }),
		);
		this.select = h('select', { onchange: () => (this.speed = Number(this.select.value)) }, ...speeds);
		this.speed = Number(this.select.value);
		const open = ([file]) => file && this.load(file.stream(), file.name.endsWith('.gz'));
		const file = h('input', { type: 'file', onchange: () => open(file.files) });
		const bar = h(
			'section',
			{ id: 'player', 'aria-label': 'Player' },
			button('◀ victim', 'Previous victim', victim(-1)),
			button('◀', 'One sample back', to(-1)),
			this.play,
			button('▶', 'One sample on', to(1)),
			button('victim ▶', 'Next victim', victim(1)),
			h('label', {}, 'Speed ', this.select),
			this.time,
			this.slider,
			this.about,
			h('label', {}, 'File ', file),
		);
		document.querySelector('main').before(bar);
		const keys = { ' ': () => this.toggle(), ',': to(-1), '.': to(1) };
		document.addEventListener('keydown', event => {
			const { key, target, ctrlKey, metaKey } = event;
			if (!this.recording || !keys[key] || ctrlKey || metaKey) return;
			if (key === ' ' && target.closest(OWN_KEYS)) return;
			event.preventDefault();
			keys[key]();
		});
		for (const name of ['dragover', 'drop'])
			document.addEventListener(name, event => {
				event.preventDefault();
				open(event.dataTransfer.files);
			});
	}

	async start() {
		const answer = await fetch(`${this.api}/recording`).catch(() => null);
		if (answer?.ok) this.load(answer.body);
		else this.say('This server has no recording. Choose a file, or drop it here.');
	}

	say(text) {
		setText(byId('notice-text'), text);
		setHidden(byId('notice'), false);
	}

	// Shows a recording while it is read: it may still grow.
	async load(stream, packed) {
		this.pause();
		const recording = new Recording();
		this.reading = recording;
		const bytes = packed ? stream.pipeThrough(new DecompressionStream('gzip')) : stream;
		// One that is cut off is shown to its end.
		await this.read(bytes.pipeThrough(new TextDecoderStream()), recording).catch(() => {});
		if (this.reading !== recording) return;
		this.reading = null;
		if (recording.doc) this.show();
		else this.say('This is not a recording. Choose another file.');
	}

	async read(text, recording) {
		const { samples } = recording;
		for await (const [event, data] of messagesOf(text)) {
			if (this.reading !== recording) return;
			if (!recording.add(event, data)) continue;
			if (samples.length === 1) await this.views(recording.doc.kind);
			if (event === 'document') this.past.cut();
			this.past.collect(recording.doc, recording.counts);
			if (samples.length === 1) this.begin(recording);
			// The page draws.
			if (samples.length % 100 > 0) continue;
			this.show();
			await new Promise(done => setTimeout(done));
		}
	}

	async views(kind) {
		if (this.kind && this.kind !== kind) location.reload();
		await this.handlers.kind(kind);
		this.kind = kind;
		this.past.clear();
	}

	begin(recording) {
		this.recording = recording;
		this.handlers.state('recording');
		this.seek(0);
		if (Number(this.select.value) === this.asked) this.toggle();
	}

	history(kind) {
		return (this.past = new RecordedHistory(kind));
	}

	async zone(number, query) {
		const isThere = each => query.endsWith(`=${placeOf(each)}`);
		const band = Object.values(this.doc.zones).find(each => isThere(each) && each.zones[number]);
		const isOfZone = each => each.zone === number && isThere(each);
		const events = this.recording.eventsAt(this.position).filter(isOfZone);
		const zone = band && { ...band, ...band.zones[number], zone: number, events, recorded: true };
		return { zone, why: 'The recording has no such zone.' };
	}

	// Shows a sample as a page does that was opened a minute before.
	seek(to) {
		const { recording, handlers } = this;
		const { start, at } = recording.samples[to];
		let number = Math.max(start, recording.indexAt(at - WINDOW_NS));
		Object.assign(this, { position: to, now: at, doc: recording.stateAt(number) });
		this.slow();
		handlers.document(this.doc, number < to);
		while (number < to) this.apply((number += 1), number < to);
		handlers.jump(recording.eventsAt(to));
		this.show();
	}

	apply(number, more) {
		const { start, text } = this.recording.samples[number];
		const data = JSON.parse(text);
		if (start === number) {
			this.doc = data;
			this.slow();
			this.handlers.document(data, more);
		} else {
			this.handlers.before(this.doc, data);
			this.doc = merge(this.doc, data);
			this.handlers.patch(this.doc, data, more);
		}
	}

	// A simulation shows its virtual times.
	slow() {
		const { slow_motion: slow } = this.doc;
		const seconds = ns => ns / 1e9 / slow;
		// An axis may begin before a simulation, and an empty one ends today.
		const isVirtual = ns => ns >= 0 && ns <= this.recording.samples.at(-1).at;
		const text = (format, ns) => (isVirtual(ns) ? `${seconds(ns).toFixed(slow > 1 ? 3 : 1)} s` : '');
		Object.assign(times, slow ? { seconds, text } : REAL);
	}

	advance(to) {
		while (this.position < to) {
			this.position += 1;
			this.apply(this.position, this.position < to);
			const { events } = this.recording.samples[this.position];
			if (events.length > 0) this.handlers.events(events, this.speed > MOVING_SPEED);
		}
		this.show();
	}

	go(to) {
		this.pause();
		const sample = this.recording.samples[to];
		if (!sample) return;
		this.now = sample.at;
		if (to === this.position + 1) this.advance(to);
		else this.seek(to);
	}

	victim(by) {
		const { victims } = this.recording;
		const isNext = number => (number - this.position) * by > 0;
		return by > 0 ? victims.find(isNext) : victims.findLast(isNext);
	}

	get atEnd() {
		return this.position === this.recording.samples.length - 1;
	}

	toggle() {
		if (this.timer) return this.pause();
		if (this.atEnd && !this.reading) this.seek(0);
		this.timer = setInterval(() => {
			this.now += TICK_MS * 1e6 * this.speed;
			this.advance(this.recording.indexAt(this.now));
			if (!this.atEnd) return;
			this.now = this.recording.samples.at(-1).at;
			if (!this.reading) this.pause();
		}, TICK_MS);
		this.show();
	}

	pause() {
		this.timer = clearInterval(this.timer);
		if (this.recording) this.show();
	}

	show() {
		const { slider, position, recording } = this;
		const [first, now, last] = [0, position, -1].map(n => recording.samples.at(n).at / 1e9);
		const { version, slow_motion: slow } = this.doc;
		const words = slow
			? `${clock(now * 1e9)} of ${clock(last * 1e9)}`
			: `${clock(now * 1e9)}, ${span(now - first)} of ${span(last - first)}`;
		Object.assign(slider, { max: Math.round(last - first), value: now - first });
		slider.setAttribute('aria-valuetext', words);
		setText(this.time, words);
		setText(this.play, this.timer ? 'Pause' : 'Play');
		const facts = [
			`${slow ? 'Simulated' : 'Recorded'} by Zonal ${version}${slow ? '' : ` on ${dateTime(first * 1e9)}`}`,
			slow > 1 && `slow motion: 1× is ${count(slow)} times slower`,
			this.reading && `${count(recording.samples.length)} samples so far`,
		];
		setText(this.about, facts.filter(Boolean).join(', '));
	}
}

function button(text, label, onclick) {
	return h('button', { type: 'button', text, title: label, 'aria-label': label, onclick });
}
