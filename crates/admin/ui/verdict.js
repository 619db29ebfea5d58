// Whether the server is well, in words, and the state of the connection.
import { byId, h, setHidden, setText } from './dom.js';
import { clock, plural, span, uptime } from './format.js';

const NOTICE_MS = 8000;

export class Verdict {
	constructor() {
		this.shown = null;
		this.since = null;
	}

	// `since`: time of the last message, in ms of this computer's clock.
	connection(state, since, before) {
		document.documentElement.dataset.connection = state;
		setText(byId('connection-state'), state === 'lost' ? 'Connection lost' : capital(state));
		clearInterval(this.counting);
		if (state === 'lost') {
			this.since = since ?? Date.now();
			const ago = () => setText(byId('notice-ago'), `${this.away()} ago`);
			this.counting = setInterval(ago, 1000);
		}
		this.known = state === 'live' || state === 'recording';
		if (this.known) setHidden(byId('notice'), true);
		else this.notice(this.words(state), state);
		if (state === 'live' && (before === 'lost' || before === 'starting')) {
			this.passing(`Connected again${this.since === null ? '' : ` after ${this.away()}`}.`);
			this.since = null;
		}
		this.title();
	}

	words(state) {
		return {
			connecting: 'Connecting to the server.',
			starting: 'The server is starting: it recovers what is on flash, and answers when that is done.',
			lost: `Connection lost at ${clock(this.since * 1e6)}. The figures are of that time. Trying again.`,
		}[state];
	}

	away() {
		return span((Date.now() - this.since) / 1000);
	}

	notice(text, kind) {
		const node = byId('notice');
		clearTimeout(this.fading);
		node.dataset.kind = kind;
		setText(byId('notice-text'), text);
		setText(byId('notice-ago'), '');
		setHidden(node, false);
	}

	restarted(at) {
		this.passing(`The server restarted at ${clock(at)}: its counters began anew.`);
	}

	passing(text) {
		this.notice(text, 'good');
		this.fading = setTimeout(() => setHidden(byId('notice'), true), NOTICE_MS);
	}

	// The list is announced (aria-live), so it is written only when its words change. `about`, `more`: facts
	// and trouble of the kind.
	update(doc, about, more = []) {
		const trouble = [...(doc.trouble ?? []), ...more];
		if (doc.ready === false && trouble.length === 0)
			trouble.push({ text: 'the server is not ready', alert: null });
		const text = JSON.stringify(trouble);
		if (text !== this.shown) this.render(trouble);
		this.shown = text;
		setText(byId('about'), aboutOf(doc, about));
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
		byId('verdict').dataset.well = this.known ? String(well) : 'unknown';
		const title = this.known ? words : `Unknown; the last figures said: ${words.toLowerCase()}`;
		setText(byId('verdict-title'), title);
		document.title = this.known ? `${well ? '' : `(${this.count}) `}Zonal` : '(?) Zonal';
	}
}

function capital(text) {
	return text.charAt(0).toUpperCase() + text.slice(1);
}

function troubleRow({ text, alert }) {
	const row = h('li', {}, h('span', { text: capital(text) }));
	if (!alert) return row;
	const path = h('span', { class: 'path', text: ` docs/alerts.md#${alert.toLowerCase()}` });
	row.append(h('span', { class: 'runbook' }, 'what to do: ', h('b', { text: alert }), path));
	return row;
}

function aboutOf(doc, about) {
	return [`version ${doc.version}`, `up ${span(uptime(doc))}`, ...about].filter(Boolean).join(' · ');
}
