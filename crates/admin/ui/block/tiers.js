// A card for each tier, and one panel for the map, scrubbing and errors.
import { h } from '../dom.js';
import { bytes, count, dateTime, known, percent, plural, uptime } from '../format.js';
import { FactLists } from '../panels.js';
import { ratio } from '../rates.js';
import { daily, paceFact, wearFacts } from '../wear.js';
import { causeOf } from './events.js';
import { roomOf, zoneCount } from './totals.js';
import { NAMES } from './zones.js';

export const tiers = {
	id: 'tiers',
	title: 'Tiers',
	columns: ['Flash', 'Zones'],
	valueOf(facts, rate, doc, rates, sums) {
		const { tier, zones = {}, wear = {}, written_bytes: written, read_only: stopped } = facts;
		const { live_bytes: live, written_bytes: used } = sums.of(tier);
		const capacity = roomOf(facts);
		const pace = daily(written, uptime(doc));
		return {
			name: `${NAMES[tier]}: ${facts.device}`,
			state: stopped ? 'read-only' : 'in-use',
			stateWords: stopped ? 'read-only: writes fail' : 'takes writes',
			about:
				`${facts.kind}, ${plural(zoneCount(facts), 'zone')} of ${bytes(facts.zone_bytes)}` +
				(doc.single_device ? ', on one device with the other tier' : ''),
			bar: { capacity, used, live },
			facts: [
				[
					['Used', bytes(used), `of ${bytes(capacity)}, ${percent(ratio(used, capacity), 0)}`],
					['Live', bytes(live), `${percent(ratio(live, used), 0)} of used`],
					['Written', bytes(written), 'to the device since start'],
					paceFact(pace, rate, 'written_bytes'),
					...wearFacts(wear, pace),
				],
				[
					['Empty', count(zones.empty), `${causeOf(tier)} works below ${count(facts.low_water_zones)}`],
					['Open', count(zones.open)],
					['Full', count(zones.full)],
					['Emptying', count(zones.emptying)],
					['Retired', count(zones.retired), `unreadable: ${count(zones.unreadable)}`],
					['Resets', count(facts.zones_reset), 'since start'],
				],
			],
		};
	},
};

export function upkeep() {
	const lists = new FactLists(['Map', 'Scrub', 'Errors since start'], 'h3');
	const node = h(
		'section',
		{ class: 'panel', 'aria-labelledby': 'upkeep-title' },
		h('h2', { id: 'upkeep-title', text: 'Map and scrub' }),
		lists.node,
	);
	const update = ({ map = {}, scrub = {}, errors = {} }) =>
		lists.show([mapFacts(map), scrubFacts(scrub), errorFacts(errors)]);
	return { node, update };
}

function mapFacts({ memory_bytes: memory, pages_on: pages, written_bytes: written, read_bytes: read }) {
	return [
		['Memory', bytes(memory), pages ? 'pages that are read often' : 'the whole map'],
		['Pages', pages ?? 'none', pages ? 'tier that holds them all' : ''],
		['Pages written', bytes(written), 'since start'],
		['Pages read', bytes(read), 'since start'],
	];
}

function scrubFacts(scrub) {
	const { running, zones, zones_done: done, ended_seconds: ended } = scrub;
	const { corrupt_blocks: corrupt, unreadable_blocks: unreadable, damaged_metadata: metadata } = scrub;
	const state = known(ended) ? ['ended', dateTime(ended * 1e9)] : ['never ran'];
	const now = [percent(ratio(done, zones), 0), `${count(done)} of ${plural(zones, 'zone')}`];
	return [
		['Scrub', ...(running ? now : state)],
		['Faults', count(corrupt + unreadable + metadata), `in ${plural(scrub.blocks, 'block')}`],
		['of these', count(corrupt), `corrupt, ${count(unreadable)} unreadable, ${count(metadata)} metadata`],
		['Read', bytes(scrub.read_bytes), `${bytes(scrub.total_read_bytes)} since start`],
	];
}

function errorFacts(errors) {
	return [
		['Blocks lost', count(errors.blocks_lost)],
		['Checksums', count(errors.checksum_errors)],
		['Writes', count(errors.write_errors)],
		['Reads', count(errors.read_errors)],
	];
}
