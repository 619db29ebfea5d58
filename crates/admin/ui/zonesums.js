// Live and written bytes of the zones of each place: summed once, then kept by the differences of patches.
import { placeOf } from './zonebands.js';

const FIELDS = ['live_bytes', 'written_bytes'];

export class ZoneSums {
	document(doc) {
		this.sums = new Map();
		for (const key in doc.zones) this.addAll(doc.zones[key], 1);
	}

	// Called before the patch is merged.
	before(doc, patch) {
		for (const [key, change] of Object.entries(patch.zones ?? {})) {
			const band = doc.zones?.[key];
			if (change === null) this.addAll(band, -1);
			else if (band === undefined) this.addAll(change, 1);
			else
				for (const id in change.zones)
					this.add(placeOf(band), field => more(band.zones[id], change.zones[id], field));
		}
	}

	addAll(band, sign) {
		for (const id in band?.zones) this.add(placeOf(band), field => sign * (band.zones[id]?.[field] ?? 0));
	}

	add(place, bytes) {
		const sum = this.of(place);
		for (const field of FIELDS) sum[field] += bytes(field);
		this.sums.set(place, sum);
	}

	of(place) {
		return this.sums.get(place) ?? { live_bytes: 0, written_bytes: 0 };
	}
}

function more(zone, change, field) {
	const before = zone?.[field] ?? 0;
	return (change === null ? 0 : (change[field] ?? before)) - before;
}
