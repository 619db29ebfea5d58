// Connection to the server's event stream: documents, patches and events in, and the state of the connection.
// States: connecting, live, starting (the server answers 503), lost (with the time of the last message).
// EventSource gives up at the first answer other than 200, so this module reconnects by itself.
import { History } from './history.js';
import { merge } from './merge.js';

// The server sends once a second: after this time without a message the connection counts as lost.
const SILENCE_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 3000];

export class Live {
	// `handlers`: kind(name), a promise of the views of that kind; state(name, since, before), document(doc),
	// before(doc, patch), patch(doc, patch), events(list).
	constructor(api, handlers) {
		Object.assign(this, { api, handlers, url: `${api}/live`, failures: 0, lastMessage: null });
		// `waiting`: messages, until the views are loaded.
		Object.assign(this, { doc: null, state: null, kind: null, waiting: null });
	}

	history(kind) {
		return new History(`${this.api}/history`, kind.history);
	}

	// All that is known of a zone, or why it is not. `query` names its place.
	async zone(number, query) {
		const answer = await fetch(`${this.api}/zones/${number}?${query}`).catch(() => ({ status: 'nothing' }));
		return answer.ok ? { zone: await answer.json() } : { why: `The server answered ${answer.status}.` };
	}

	start() {
		this.setState('connecting');
		this.connect();
	}

	connect() {
		const source = new EventSource(this.url);
		this.source = source;
		this.watch();
		const on = (name, use) => source.addEventListener(name, message => this.receive(message, use));
		on('document', data => {
			// Another kind takes another page.
			if (data.kind !== this.kind) return location.reload();
			this.doc = data;
			this.failures = 0;
			this.setState('live');
			return this.handlers.document(data);
		});
		on('patch', data => {
			if (this.doc === null) return;
			this.handlers.before(this.doc, data);
			this.doc = merge(this.doc, data);
			this.handlers.patch(this.doc, data);
			this.setState('live');
		});
		on('events', data => this.handlers.events(data));
		source.addEventListener('error', () => this.fail());
	}

	receive(message, use) {
		this.lastMessage = Date.now();
		this.watch();
		const data = JSON.parse(message.data);
		if (this.waiting) this.waiting.push([data, use]);
		else if (this.kind === null) this.load(data, use);
		else use(data);
	}

	// The first document names the kind: messages wait until its views are loaded.
	async load(document, use) {
		const waiting = [[document, use]];
		this.waiting = waiting;
		try {
			await this.handlers.kind(document.kind);
			this.kind = document.kind;
		} catch {
			this.fail();
		}
		// The connection may have been lost meanwhile: the next one begins again.
		if (this.waiting !== waiting) return;
		this.waiting = null;
		for (const [data, take] of waiting) take(data);
	}

	watch() {
		clearTimeout(this.silence);
		this.silence = setTimeout(() => this.fail(), SILENCE_MS);
	}

	async fail() {
		// Silence and an error can come together: one of them reconnects.
		if (this.failing) return;
		this.failing = true;
		this.waiting = null;
		clearTimeout(this.silence);
		this.source.close();
		const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
		this.failures += 1;
		if (this.doc !== null && this.state !== 'starting') this.setState('lost', this.lastMessage);
		const status = await this.status();
		if (status === 503) this.setState('starting');
		else if (status === null) this.setState('lost', this.lastMessage);
		clearTimeout(this.retry);
		this.retry = setTimeout(() => {
			this.failing = false;
			this.connect();
		}, wait);
	}

	// The status that the server answers, which EventSource does not tell; null when nothing answers.
	async status() {
		try {
			const headers = { accept: 'text/event-stream' };
			const answer = await fetch(this.url, { signal: AbortSignal.timeout(SILENCE_MS), headers });
			answer.body?.cancel();
			return answer.status;
		} catch {
			return null;
		}
	}

	setState(state, since = null) {
		if (this.state === state) return;
		const before = this.state;
		this.state = state;
		this.handlers.state(state, since, before);
	}
}
