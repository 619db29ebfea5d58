// Flash of each device: how full it is, what is written to it, and what that does to the drive.
import { bytes, known, percent, three } from './format.js';

const DAY = 86400;
const YEAR = 365.25 * DAY;
// SMART reports whole percents: below this, a projection would be a guess.
const LEAST_PERCENT = 3;

// Live bytes of each device: summed once, then kept by the differences of patches.
export class LiveBytes {
	document(doc) {
		this.sums = new Map();
		for (const key in doc.zones) this.addAll(doc.zones[key], 1);
	}

	// Called before the patch is merged.
	before(doc, patch) {
		for (const [key, change] of Object.entries(patch.zones ?? {})) {
			const shard = doc.zones?.[key];
			if (shard === undefined || change === null) this.addAll(change ?? shard, change === null ? -1 : 1);
			else
				for (const id in change.zones) this.add(shard.device, liveAfter(shard.zones[id], change.zones[id]));
		}
	}

	addAll(shard, sign) {
		for (const id in shard?.zones) this.add(shard.device, sign * (shard.zones[id]?.live_bytes ?? 0));
	}

	add(device, bytesMore) {
		this.sums.set(device, (this.sums.get(device) ?? 0) + bytesMore);
	}

	of(device) {
		return this.sums.get(device) ?? 0;
	}
}

function liveAfter(zone, change) {
	const before = zone?.live_bytes ?? 0;
	if (change === null) return -before;
	return change.live_bytes === undefined ? 0 : (change.live_bytes ?? 0) - before;
}

// Bytes a day at the pace of a time: null before anything is known.
export function daily(written, seconds) {
	return seconds > 0 && known(written) ? (written / seconds) * DAY : null;
}

// Terms and values of a device's flash; `note` says how a figure is made.
export function flashFacts(doc, device, live, recent) {
	const { flash = {}, wear = {} } = device;
	const seconds = (doc.at_ns - doc.started_at_ns) / 1e9;
	const pace = daily(flash.written_bytes, seconds);
	const now = recent ? daily(recent.written, recent.seconds) : null;
	return [
		{
			term: 'Used',
			value: bytes(flash.used_bytes),
			note: `of ${bytes(flash.capacity_bytes)}, ${percent(share(flash.used_bytes, flash.capacity_bytes), 0)}`,
		},
		{ term: 'Live', value: bytes(live), note: `${percent(share(live, flash.used_bytes), 0)} of used` },
		{
			term: 'Pinned',
			value: bytes(flash.pinned_bytes),
			note: `of at most ${bytes(flash.pinned_max_bytes)}`,
		},
		{ term: 'Written a day', value: bytes(pace), note: `pace since start; last minute ${bytes(now)}` },
		{
			term: 'Budget a day',
			value: known(wear.budget_bytes_per_day) ? bytes(wear.budget_bytes_per_day) : 'none set',
			note: known(wear.budget_bytes_per_day)
				? `${percent(share(pace, wear.budget_bytes_per_day), 0)} used at that pace`
				: '',
		},
		{
			term: 'Write amplification',
			value: three(amplification(flash)),
			note: 'written to flash ÷ admitted, since start',
		},
		{ term: 'Wear', ...wearWords(wear) },
		{ term: 'Lifetime', ...lifetimeWords(wear, pace) },
	];
}

function share(part, whole) {
	return whole > 0 && known(part) ? part / whole : null;
}

export function amplification({ written_bytes: written, admitted_bytes: admitted }) {
	return admitted > 0 ? written / admitted : null;
}

function wearWords({ percentage_used: used, data_units_written_bytes: written }) {
	if (!known(used)) return { value: 'unknown', note: 'SMART is not reported' };
	return {
		value: `${used} %`,
		note: known(written) ? `SMART, after ${bytes(written)} written` : 'SMART, percentage used',
	};
}

// The drive itself says how much it bore for each percent; all its writers are in that figure.
export function lifetimeWords({ percentage_used: used, data_units_written_bytes: written }, pace) {
	if (!known(used) || !known(written)) return { value: 'unknown', note: 'needs SMART' };
	if (used >= 100) return { value: 'used up', note: 'SMART is at 100 % or more' };
	if (used < LEAST_PERCENT) return { value: 'too early', note: `SMART is below ${LEAST_PERCENT} %` };
	if (!(pace > 0)) return { value: 'unknown', note: 'nothing is written' };
	const years = ((((written / used) * (100 - used)) / pace) * DAY) / YEAR;
	return {
		value: `${years >= 10 ? Math.round(years) : years.toFixed(1)} years`,
		note: 'to 100 % at the pace since start',
	};
}
