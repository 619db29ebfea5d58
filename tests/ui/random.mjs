// Seeded random numbers (mulberry32), and the buckets of the server's histograms.
export class Random {
	constructor(seed) {
		this.state = seed >>> 0;
	}

	next() {
		this.state = (this.state + 0x6d2b79f5) >>> 0;
		let t = this.state;
		t = Math.imul(t ^ (t >>> 15), t | 1);
		t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
		return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
	}

	below(n) {
		return Math.floor(this.next() * n);
	}

	normal() {
		return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
	}

	shuffle(list) {
		for (let n = list.length - 1; n > 0; n -= 1) {
			const other = this.below(n + 1);
			[list[n], list[other]] = [list[other], list[n]];
		}
		return list;
	}
}

// Splits `requests` into 60 samples of a log-normal distribution with a tail: take(start of the bucket, weight).
export function samples(random, requests, middle, spread, take) {
	const count = Math.min(60, requests);
	for (let n = 0; n < count; n += 1) {
		const weight = Math.floor((requests * (n + 1)) / count) - Math.floor((requests * n) / count);
		const tail = random.next() < 0.012 ? 3 + 6 * random.next() : 1;
		take(bucketStart(middle * tail * Math.exp(spread * random.normal())), weight);
	}
}

// Two significant decimal digits; everything below 100 ns is in bucket 0.
export function bucketStart(ns) {
	if (ns < 100) return 0;
	const unit = 10 ** (Math.floor(Math.log10(ns)) - 1);
	return Math.floor(ns / unit) * unit;
}
