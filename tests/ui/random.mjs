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

// Two significant decimal digits; everything below 100 ns is in bucket 0.
export function bucketStart(ns) {
	if (ns < 100) return 0;
	const unit = 10 ** (Math.floor(Math.log10(ns)) - 1);
	return Math.floor(ns / unit) * unit;
}
