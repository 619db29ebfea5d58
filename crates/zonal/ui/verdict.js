// Whether the cache is well, in words, and the state of the connection.
import { byId, h, setHidden, setText } from './dom.js';
import { clock, plural, span } from './format.js';

const STATE = { connecting: 'Connecting', live: 'Live', starting: 'Starting', lost: 'Connection lost' };
const NOTICE_MS = 8000;

export class Verdict {
	constructor() {
		this.shown = null;
		this.state = 'connecting';
		this.since = null;
	}

	// `since`: time of the last message, in ms of this computer's clock.
	connection(state, since, before) {
		document.documentElement.dataset.connection = state;
		setText(byId('connection-state'), STATE[state]);
		clearInterval(this.counting);
		if (state === 'lost') this.since = since ?? Date.now();
		if (state === 'lost' || state === 'starting' || state === 'connecting') {
			this.say(state);
			if (state === 'lost') this.counting = setInterval(() => this.countUp(), 1000);
		} else {
			setHidden(byId('notice'), true);
			if (before === 'lost' || before === 'starting') this.found();
		}
		this.state = state;
		this.title();
	}

	say(state) {
		const text = {
			connecting: 'Connecting to the server.',
			starting: 'The server is starting: it recovers what is on flash, and answers when that is done.',
			lost: `Connection lost at ${clock(this.since * 1e6)}. The figures are of that time. Trying again.`,
		}[state];
		this.notice(text, state);
		setText(byId('notice-ago'), '');
	}

	countUp() {
		setText(byId('notice-ago'), `${span((Date.now() - this.since) / 1000)} ago`);
	}

	notice(text, kind) {
		const node = byId('notice');
		clearTimeout(this.fading);
		node.dataset.kind = kind;
		setText(byId('notice-text'), text);
		setHidden(node, false);
	}

	found() {
		const away = this.since === null ? '' : ` after ${span((Date.now() - this.since) / 1000)}`;
		this.since = null;
		this.passing(`Connected again${away}.`);
	}

	restarted(at) {
		this.passing(`The server restarted at ${clock(at)}: its counters began anew.`);
	}

	passing(text) {
		this.notice(text, 'good');
		setText(byId('notice-ago'), '');
		this.fading = setTimeout(() => setHidden(byId('notice'), true), NOTICE_MS);
	}

	// The list is announced (aria-live), so it is written only when its words change.
	update(doc) {
		const trouble = [...(doc.trouble ?? [])];
		if (doc.ready === false && trouble.length === 0)
			trouble.push({ text: 'the server is not ready', alert: null });
		const off = doc.caching === 'off' && !trouble.some(({ alert }) => alert === 'ZonalSwitchedOff');
		if (off) trouble.push({ text: 'the cache is switched off', alert: 'ZonalSwitchedOff' });
		const text = JSON.stringify(trouble);
		if (text !== this.shown) this.render(trouble);
		this.shown = text;
		setText(byId('about'), aboutOf(doc));
	}

	render(trouble) {
		this.count = trouble.length;
		this.title();
		byId('trouble').replaceChildren(...trouble.map(troubleRow));
	}

	// What was well before the connection was lost need not be so now.
	title() {
		if (this.count === undefined) return;
		const well = this.count === 0;
		const words = well ? 'All is well' : plural(this.count, 'trouble');
		const live = this.state === 'live';
		byId('verdict').dataset.well = live ? String(well) : 'unknown';
		setText(byId('verdict-title'), live ? words : `Unknown; the last figures said: ${words.toLowerCase()}`);
		document.title = live ? `${well ? '' : `(${this.count}) `}Zonal` : '(?) Zonal';
	}
}

function troubleRow({ text, alert }) {
	const runbook = alert
		? h(
				'span',
				{ class: 'runbook' },
				'what to do: ',
				h('b', { text: alert }),
				h('span', { class: 'path', text: ` docs/alerts.md#${alert.toLowerCase()}` }),
			)
		: null;
	return h('li', {}, h('span', { text: sentence(text) }), runbook);
}

function sentence(text) {
	return text.charAt(0).toUpperCase() + text.slice(1);
}

function aboutOf({ version, at_ns: at, started_at_ns: started, devices, connections, caching }) {
	const shards = Object.values(devices ?? {}).reduce((sum, device) => sum + (device.shards ?? 0), 0);
	return [
		`version ${version}`,
		`up ${span((at - started) / 1e9)}`,
		plural(Object.keys(devices ?? {}).length, 'device'),
		plural(shards, 'shard'),
		plural(connections?.open ?? 0, 'connection'),
		caching === 'off' ? 'cache off: the origin serves all reads' : null,
	]
		.filter(Boolean)
		.join(' · ');
}
