// GET /api/v1/prefixes of the simulation: 30 accounts, and two prefixes of which only bytes are cached. It has
// random numbers of its own, so that the rest of the simulation does not depend on whether somebody asks.
import { Random } from './random.mjs';

const NAMES = ['logs', 'tables', 'models', 'images', 'backups', 'tmp'];
const BUCKETS = ['lake', 'archive', 'media', 'web', 'lab'];

// `sim.sampled`: null, whole or estimated; `sim.counted`: false leaves out all requests.
export function prefixesOf(sim) {
	const { seed, started, counters, sampled = 'estimated', counted = true } = sim;
	const random = new Random(seed + 99);
	const reads = counters.hit + counters.revalidated + counters.miss;
	const at = sim.now();
	const accounts = BUCKETS.flatMap(bucket => NAMES.map(name => `${bucket}/${name}/`));
	const shares = accounts.map((_, n) => 0.9 ** n * (0.8 + 0.4 * random.next()));
	const all = shares.reduce((sum, share) => sum + share, 0) * 1.02;
	const resident = n => {
		const size = Math.floor(random.next() * 4e10 * 0.9 ** n);
		const error = sampled === 'estimated' && n % 3 !== 1 ? Math.floor(size / (4 + (n % 5))) : 0;
		return sampled === null
			? { resident_bytes: null, resident_error_bytes: null }
			: { resident_bytes: size, resident_error_bytes: error };
	};
	const prefixes = accounts.map((name, n) => ({
		name,
		...figures(counted ? Math.floor((reads * shares[n]) / all) : 0, 0.55 + 0.4 * random.next()),
		earlier_requests_max: n >= 24 ? 3 + n : 0,
		...resident(n),
	}));
	const cached = ['old/one/', 'old/two/'].map((name, n) => ({
		name,
		...figures(0, 0),
		earlier_requests_max: 0,
		...resident(n),
	}));
	return {
		at_ns: at,
		started_at_ns: started * 1e6,
		by: 'prefix',
		currency: 'USD',
		prefixes: [...prefixes, ...cached],
		others: figures(counted ? Math.floor((reads * 0.02) / 1.02) : 0, 0.2),
		sample: sampled && {
			at_ns: at,
			objects: 4096,
			cached_objects: sampled === 'whole' ? 4096 : 182044,
			is_whole: sampled === 'whole',
		},
	};
}

function figures(reads, hits) {
	const served = Math.floor(reads * hits);
	const asked = reads - served;
	const [served_bytes, origin_bytes] = [reads * 262144, asked * 262144];
	return {
		requests: Math.floor(reads * 1.05),
		reads,
		served_by_cache: served,
		served_bytes,
		origin_requests: asked,
		origin_bytes,
		saved_requests: served,
		saved_bytes: served_bytes - origin_bytes,
		saved_cost: Math.round(served * 0.4 + served * 262144 * 0.02e-3) / 1e6,
	};
}
