// Connection to the server's event stream: documents, patches and events in, and the state of the connection.
//
// States: connecting, live, starting (the server answers 503), lost (with the time of the last message).
// EventSource gives up at the first answer other than 200, so this module reconnects by itself.
import { merge } from './merge.js';
import { measured } from './perf.js';

// The server sends once a second: after this time without a message the connection counts as lost.
const SILENCE_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 3000];

export class Live {
	// `handlers`: state(name, since), document(doc), before(doc, patch), patch(doc, patch), events(list).
	constructor(url, handlers) {
		this.url = url;
		this.handlers = handlers;
		this.doc = null;
		this.state = null;
		this.failures = 0;
		this.lastMessage = null;
	}

	start() {
		this.setState('connecting');
		this.connect();
	}

	connect() {
		const source = new EventSource(this.url);
		this.source = source;
		this.watch();
		source.addEventListener('document', message =>
			this.receive(message, data => {
				this.doc = data;
				this.failures = 0;
				this.setState('live');
				measured('document', () => this.handlers.document(data));
			}),
		);
		source.addEventListener('patch', message =>
			this.receive(message, data => {
				if (this.doc === null) return;
				measured('patch', () => {
					this.handlers.before(this.doc, data);
					this.doc = merge(this.doc, data);
					this.handlers.patch(this.doc, data);
				});
				this.setState('live');
			}),
		);
		source.addEventListener('events', message => this.receive(message, data => this.handlers.events(data)));
		source.addEventListener('error', () => this.fail());
	}

	receive(message, use) {
		this.lastMessage = Date.now();
		this.watch();
		use(measured('parse', () => JSON.parse(message.data)));
	}

	watch() {
		clearTimeout(this.silence);
		this.silence = setTimeout(() => this.fail(), SILENCE_MS);
	}

	async fail() {
		// Silence and an error can come together: one of them reconnects.
		if (this.failing) return;
		this.failing = true;
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
		const stop = new AbortController();
		const timer = setTimeout(() => stop.abort(), SILENCE_MS);
		try {
			const { status } = await fetch(this.url, {
				signal: stop.signal,
				headers: { accept: 'text/event-stream' },
			});
			return status;
		} catch {
			return null;
		} finally {
			clearTimeout(timer);
			stop.abort();
		}
	}

	setState(state, since = null) {
		if (this.state === state) return;
		const before = this.state;
		this.state = state;
		this.handlers.state(state, since, before);
	}
}
