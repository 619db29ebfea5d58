// History before the simulation starts: a day with its rhythm, and one bad quarter of an hour of the origin.
const FIELDS = [
	'reads',
	'served_by_cache',
	'served_bytes',
	'fetched_bytes',
	'origin_requests',
	'admitted_bytes',
	'rewritten_bytes',
	'written_bytes',
	'saved_requests',
	'saved_bytes',
	'saved_cost',
	'p50_ns',
	'p99_ns',
	'empty_zones',
	'used_bytes',
];
const PATHS = ['head', 'dram', 'flash', 'joined', 'origin', 'forwarded', 'failed'];
export const BOUNDS = [];
for (let decade = 1000; decade < 1e11; decade *= 10) BOUNDS.push(decade, 2 * decade, 5 * decade);

const MIDDLE = {
	head: 9e4,
	dram: 1.1e5,
	flash: 2.6e5,
	joined: 9e6,
	origin: 2.4e7,
	forwarded: 3.1e7,
	failed: 5e8,
};
const SHARE = {
	head: 0.1,
	dram: 0.18,
	flash: 0.62,
	joined: 0.01,
	origin: 0.13,
	forwarded: 0.015,
	failed: 0,
};

// `form(random, at, end, seconds)` makes a point.
export function pastPoints(random, end, form = point) {
	return { fine: points(random, end, 5, 720, form), coarse: points(random, end, 60, 1440, form) };
}

function points(random, end, seconds, count, form) {
	const all = [];
	for (let n = count; n >= 1; n -= 1) all.push(form(random, end - (n - 1) * seconds * 1e9, end, seconds));
	return all;
}

function point(random, at, end, seconds) {
	const ago = (end - at) / 60e9;
	const bad = ago > 22 && ago < 31;
	const load = (1 + 0.35 * Math.sin((at / 86400e9) * 2 * Math.PI)) * (1 + 0.05 * random.normal());
	const reads = Math.round(2600 * load * seconds);
	const miss = (bad ? 0.19 : 0.15) + 0.01 * random.normal();
	const served = reads * 262144;
	const admitted = served * miss * 0.8;
	const rewritten = admitted * (0.12 + 0.03 * random.next());
	const values = [
		reads,
		Math.round(reads * (1 - miss)),
		served,
		Math.round(served * miss),
		Math.round(reads * miss),
		Math.round(admitted),
		Math.round(rewritten),
		Math.round((admitted + rewritten) * 1.02),
		Math.round(reads * (1 - miss)),
		Math.round(served * (1 - miss)),
		reads * 4e-6,
		2.6e5 + 1e4 * random.below(3),
		(bad ? 2.6e8 : 5.2e7) + 1e6 * random.below(9),
		16 + random.below(3),
		9e10,
		5e10,
	];
	const rows = PATHS.map(path => {
		const slow = bad && (path === 'origin' || path === 'joined') ? 5 : 1;
		return [MIDDLE[path] * slow, reads * (bad && path === 'failed' ? 0.02 : SHARE[path])];
	});
	return { at_ns: at, values, heat: heatOf(random, rows) };
}

// `rows`: [middle, count]. Shares of a log-normal distribution in the columns, with noise: what many samples would give.
export function heatOf(random, rows) {
	const cells = [];
	rows.forEach(([start, all], row) => {
		const middle = Math.log(start);
		for (let column = 0; column <= BOUNDS.length && all > 0; column += 1) {
			const low = column === 0 ? 0 : Math.log(BOUNDS[column - 1]);
			const high = column === BOUNDS.length ? 40 : Math.log(BOUNDS[column]);
			const part = (spread, shift) =>
				cdf((high - middle - shift) / spread) - cdf((low - middle - shift) / spread);
			const expected = all * (0.985 * part(0.42, 0) + 0.015 * part(0.7, 1.2));
			const count = Math.round(expected + Math.sqrt(expected) * random.normal());
			if (count > 0) cells.push([row, column, count]);
		}
	});
	return cells;
}

function cdf(x) {
	return 1 / (1 + Math.exp(-1.702 * x));
}

export function columnOf(ns) {
	const column = BOUNDS.findIndex(bound => ns < bound);
	return column < 0 ? BOUNDS.length : column;
}

function bypassed({ bypassed_reads: all }) {
	return all.reduce((sum, { reads }) => sum + reads, 0);
}

// The answer of GET /api/v1/history.
export function historyOf({ fine, coarse }, fields = FIELDS, paths = PATHS) {
	const spans = [
		{ interval_ns: 5e9, points: fine },
		{ interval_ns: 60e9, points: coarse },
	];
	return { fields, paths, bounds_ns: BOUNDS, spans };
}

// A point from the difference of two documents.
export function pointOf(before, after) {
	const devices = (head, read) => Object.values(head.devices).reduce((sum, device) => sum + read(device), 0);
	const change = read => read(after) - read(before);
	const reads = ({ answers: a }) => a.hit + a.revalidated + a.stale + a.updating + a.miss + bypassed(a);
	const hits = ({ answers: a }) => a.hit + a.revalidated + a.stale + a.updating;
	const flash = field => change(head => devices(head, device => device.flash[field]));
	const read = field => change(head => devices(head, device => device.reads[field]));
	const cells = [];
	for (const [key, entry] of Object.entries(after.requests)) {
		for (const [start, count] of Object.entries(entry.buckets)) {
			const more = count - (before.requests[key]?.buckets[start] ?? 0);
			if (more > 0) cells.push([PATHS.indexOf(entry.path), columnOf(Number(start)), more]);
		}
	}
	return {
		at_ns: after.at_ns,
		heat: cells,
		values: [
			change(reads),
			change(hits),
			read('served_bytes'),
			read('fetched_bytes'),
			change(head => head.answers.origin_requests),
			flash('admitted_bytes'),
			flash('rewritten_bytes'),
			flash('written_bytes'),
			change(head => head.savings.requests),
			change(head => head.savings.bytes),
			change(head => head.savings.cost),
			2.6e5,
			5.2e7,
			devices(after, device => device.flash.zones.empty),
			devices(after, device => device.flash.used_bytes),
		],
	};
}
