// A recording: the messages of `/api/v1/live`, and the document and the events at each of its samples.
import { addedCounts } from '../buckets.js';
import { merge } from '../merge.js';

const SNAPSHOT_SAMPLES = 60;

// [event, data] of a stream of text. A message that is cut off at the end is left out.
export async function* messagesOf(stream) {
	const reader = stream.getReader();
	let rest = '';
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		const texts = (rest + value).split(/\r?\n\r?\n/);
		rest = texts.pop();
		const fields = [/^event: ?(\w+)/m, /^data: ?([^\r\n]*)/m];
		for (const text of texts) yield fields.map(field => field.exec(text)?.[1]);
	}
}

export class Recording {
	constructor() {
		// Documents and patches: {at, text, start, events}. `start`: number of its document; `events` follow it.
		// `whole`: texts of whole documents, by number; `victims`: numbers of samples.
		Object.assign(this, { samples: [], whole: new Map(), victims: [], doc: null });
	}

	// Adds a message, and says whether it is a sample. `counts` then has what it adds to histograms.
	add(event, text) {
		const { doc, samples } = this;
		const [number, last] = [samples.length, samples.at(-1)];
		let data;
		try {
			data = JSON.parse(text);
		} catch {
			return false;
		}
		if (event === 'events' && doc) {
			last.events.push(...data);
			// Those that follow a document happened before it.
			const isNow = last.start < number - 1;
			if (isNow && data.some(({ event: what }) => what === 'victim-chosen')) this.victims.push(number - 1);
		}
		const isWhole = event === 'document';
		if (!isWhole && (event !== 'patch' || !doc)) return false;
		const at_ns = data.started_at_ns;
		const restarted = isWhole && doc && at_ns !== doc.started_at_ns;
		const events = restarted ? [{ event: 'page', at_ns, text: 'The server restarted.' }] : [];
		const start = isWhole ? number : last.start;
		this.counts = isWhole ? [] : addedCounts(doc, data);
		this.doc = isWhole ? data : merge(doc, data);
		samples.push({ at: this.doc.at_ns, text, start, events });
		if ((number - start) % SNAPSHOT_SAMPLES === 0) this.whole.set(number, JSON.stringify(this.doc));
		return true;
	}

	stateAt(number) {
		let from = number;
		while (!this.whole.has(from)) from -= 1;
		const patches = this.samples.slice(from + 1, number + 1);
		return patches.reduce((doc, { text }) => merge(doc, JSON.parse(text)), JSON.parse(this.whole.get(from)));
	}

	eventsAt(number) {
		const samples = this.samples.slice(this.samples[number].start, number + 1);
		return samples.flatMap(({ events }) => events).sort((a, b) => a.at_ns - b.at_ns);
	}

	// The last sample that is not later.
	indexAt(at) {
		return Math.max(0, this.samples.findLastIndex(each => each.at <= at));
	}
}
