// History: points of the server, continued from the live stream. Two spans: one hour and one day.
import { columnOf, percentile } from './buckets.js';
import { change } from './rates.js';

export const KEEP = { fine: 720, coarse: 1440 };
// Seconds that a plot may cover: a young history is to fill it.
const RANGES = { fine: [300, 900, 3600], coarse: [3600, 21600, 86400] };

export class History {
	// `facts`: `point(values, doc)` of the server's values by name; of a histogram `rowOf(key)` in the heat
	// map, and `timed(key)`: whether it counts for the percentiles.
	constructor(url, facts) {
		Object.assign(this, { url, facts });
		this.listeners = [];
		this.paths = [];
		this.bounds = [];
		this.spans = { fine: newSpan(5), coarse: newSpan(60) };
	}

	// `listener(points, span)`: after every new point, and when the server's history has come.
	listen(listener) {
		this.listeners.push(listener);
	}

	// A new document: points go on from here, and the server is asked for those before.
	begin(doc) {
		this.doc = doc;
		for (const span of Object.values(this.spans)) span.pending = null;
		this.fetch();
	}

	async fetch() {
		try {
			const answer = await fetch(this.url);
			if (answer.ok) this.take(await answer.json());
		} catch {
			// Without history the charts begin now.
		}
	}

	take({ fields, paths, bounds_ns: bounds, spans }) {
		Object.assign(this, { paths, bounds });
		const sorted = [...spans].sort((a, b) => a.interval_ns - b.interval_ns);
		if (sorted.length === 0) return;
		Object.entries({ fine: sorted[0], coarse: sorted.at(-1) }).forEach(([name, from]) => {
			const span = this.spans[name];
			const points = from.points.map(point => this.serverPoint(fields, point));
			const last = points.at(-1)?.at ?? 0;
			span.seconds = from.interval_ns / 1e9;
			span.points = [...points, ...span.points.filter(({ at }) => at > last)].slice(-KEEP[name]);
			this.tell(name);
		});
	}

	// Adds the totals of a document, and the counts that its histograms gained.
	note(totals, counts) {
		for (const [name, span] of Object.entries(this.spans)) {
			if (span.pending === null) {
				span.pending = { totals, counts: [] };
				continue;
			}
			span.pending.counts.push(...counts);
			const elapsed = (totals.at - span.pending.totals.at) / 1e9;
			if (elapsed < span.seconds - 0.5) continue;
			// Where messages were lost, the point covers longer than its span: its rates are of that time.
			span.points.push(this.livePoint(span.pending, totals, elapsed / span.seconds));
			if (span.points.length > KEEP[name]) span.points.shift();
			span.pending = { totals, counts: [] };
			this.tell(name);
		}
	}

	livePoint({ totals: before, counts }, now, stretch) {
		const more = change(now.node, before.node);
		for (const key of Object.keys(more)) more[key] /= stretch;
		const timed = new Map();
		const heat = new Map();
		for (const [key, start, added] of counts) {
			if (this.facts.timed(key)) timed.set(start, (timed.get(start) ?? 0) + added);
			const row = this.paths.indexOf(this.facts.rowOf(key));
			if (row < 0) continue;
			const cell = row * 1000 + columnOf(start, this.bounds);
			heat.set(cell, (heat.get(cell) ?? 0) + added);
		}
		return {
			at: now.at,
			...more,
			...now.levels,
			p50: percentile(timed, 0.5),
			p99: percentile(timed, 0.99),
			heat: packed([...heat].map(([cell, added]) => [Math.floor(cell / 1000), cell % 1000, added])),
		};
	}

	serverPoint(fields, { at_ns: at, values, heat }) {
		const value = Object.fromEntries(fields.map((field, n) => [field, values[n]]));
		return {
			at,
			heat: packed(heat ?? []),
			p50: value.p50_ns,
			p99: value.p99_ns,
			...this.facts.point(value, this.doc),
		};
	}

	// Seconds that a plot of a span covers: the least that hold all points.
	range(name) {
		const { points } = this.spans[name];
		const age = points.length > 0 ? (points.at(-1).at - points[0].at) / 1e9 : 0;
		return RANGES[name].find(seconds => age < seconds) ?? RANGES[name].at(-1);
	}

	tell(name) {
		for (const listener of this.listeners) listener(this.spans[name].points, name);
	}
}

function newSpan(seconds) {
	return { seconds, points: [], pending: null };
}

// [path, row, reads] after one another: a day holds a hundred thousand of them.
function packed(heat) {
	return Int32Array.from(heat.flat());
}
