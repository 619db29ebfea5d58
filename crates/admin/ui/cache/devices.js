// A card for each device: its state, its flash and its reads.
import { bytes, count, known, percent, perSecond, plural, three, uptime } from '../format.js';
import { each, rateOf } from '../panels.js';
import { ratio } from '../rates.js';
import { daily, paceFact, wearFacts } from '../wear.js';

const STATES = {
	'in-use': 'in use',
	isolated: 'isolated: its reads go to the origin until it answers again',
	lost: 'lost: its reads go to the origin',
};

export const devices = {
	id: 'devices',
	title: 'Devices',
	columns: ['Flash', 'Reads and writes, last minute'],
	valueOf(device, rate, doc, rates, sums) {
		const { flash = {}, state } = device;
		const live = sums.of(device.device).live_bytes;
		return {
			name: `Device ${device.device}: ${device.name}`,
			state,
			stateWords: STATES[state] ?? state,
			about:
				`${device.kind}, ${plural(device.shards, 'shard')}, ${plural(device.zones, 'zone')} of ` +
				`${bytes(device.zone_bytes)}, policy ${device.policy}`,
			bar: { capacity: flash.capacity_bytes, used: flash.used_bytes, live, pinned: flash.pinned_bytes },
			facts: [flashFacts(doc, device, live, rate), readFacts(device, rate)],
		};
	},
};

function flashFacts(doc, { flash = {}, wear = {} }, live, rate) {
	const { used_bytes: used, capacity_bytes: capacity } = flash;
	const pace = daily(flash.written_bytes, uptime(doc));
	const budget = wear.budget_bytes_per_day;
	return [
		['Used', bytes(used), `of ${bytes(capacity)}, ${percent(share(used, capacity), 0)}`],
		['Live', bytes(live), `${percent(share(live, used), 0)} of used`],
		['Pinned', bytes(flash.pinned_bytes), `of at most ${bytes(flash.pinned_max_bytes)}`],
		paceFact(pace, rate, 'written'),
		known(budget)
			? ['Budget a day', bytes(budget), `${percent(share(pace, budget), 0)} used at that pace`]
			: ['Budget a day', 'none set'],
		['Write amplification', three(amplification(flash)), 'written to flash ÷ admitted, since start'],
		...wearFacts(wear, pace),
	];
}

function share(part, whole) {
	return known(part) ? ratio(part, whole) : null;
}

export function amplification({ written_bytes: written, admitted_bytes: admitted }) {
	return ratio(written, admitted);
}

function readFacts({ flash = {}, isolations, reads_timed_out: late }, rate) {
	const pieces = (term, field) => [
		term,
		perSecond(each(rate, field)),
		rate?.pieces > 0 && known(rate[field]) ? percent(rate[field] / rate.pieces) : '',
	];
	const size = field => rateOf(each(rate, field));
	return [
		['Pieces read', perSecond(each(rate, 'pieces'))],
		pieces('from memory', 'dram'),
		pieces('from flash', 'flash'),
		pieces('joined a fetch', 'joined'),
		pieces('missed', 'missed'),
		['Served', size('served'), `${size('served_flash')} of it from flash`],
		['Written', size('written'), `admitted ${size('admitted')}, rewritten ${size('rewritten')}`],
		[
			'Errors',
			count(flash.errors),
			`${plural(late, 'read')} timed out, ${plural(isolations, 'isolation')} since start`,
		],
	];
}
