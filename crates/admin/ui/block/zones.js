// Zones of the block device: what the map, its legend, the table and the story of a zone say about them.
import { count } from '../format.js';
import { lenses } from '../zonelook.js';
import { causeOf, TIERS } from './events.js';

export const NAMES = { buffer: 'Buffer', capacity: 'Capacity' };

export const looks = {
	// By use or stream: words, hue of the cell, and the look of the swatch.
	uses: {
		empty: { words: 'empty', height: 0 },
		user: { words: 'open, user', hue: 'fill', height: 14 },
		compaction: { words: 'open, compaction', hue: 'rewrite', height: 20 },
		collection: { words: 'open, collection', hue: 'collection', height: 22 },
		map: { words: 'open, map', hue: 'map', height: 14 },
		full: { words: 'full', hue: 'sealed' },
		emptying: { words: 'emptying', hue: 'reclaiming' },
		retired: { words: 'retired', hue: 'retired', level: 9, fixed: true },
		unreadable: { words: 'unreadable', hue: 'unreadable', level: 9, fixed: true },
	},
	rare: ['emptying', 'unreadable', 'collection', 'compaction', 'map', 'user'],
	lenses: lenses('tier', [
		['Brackets', 'victim, until its reset'],
		['Arrow', 'where the live data of a victim goes'],
		['Pulse', 'reset'],
	]),
	bandOf: ({ tier }) => tier,
	// What leaves a zone of either tier goes to the capacity tier.
	targetOf: () => 'capacity',
	bandWords: tier => TIERS[tier] ?? tier,
	bandTitle({ tiers }, { key }) {
		const { device, read_only: stopped } = tiers?.[key] ?? {};
		const title = [NAMES[key] ?? key, device, stopped && 'read-only'].filter(Boolean).join(' · ');
		return { title, state: stopped ? 'read-only' : 'in-use' };
	},
	band: 'tier',
	columns: [
		['reads', zone => count(zone.reads)],
		['sequence', sequence],
	],
	rows: zone => [
		['reads', count(zone.reads)],
		['sequence', sequence(zone)],
	],
};

// 0 means that it is unknown.
function sequence({ sequence: first }) {
	return first > 0 ? count(first) : '—';
}

export const story = {
	title: ({ cause, tier }) => ((cause ?? causeOf(tier)) === 'compaction' ? 'Compaction' : 'Collection'),
	why: {
		empty: 'It is empty.',
		open: 'It is open.',
		emptying: 'Its live data is being moved out now.',
		retired: 'It is retired.',
		unreadable: 'Some of its blocks could not be read.',
	},
	order: ({ tier }) => [
		tier === 'buffer' ? 'The oldest zone goes first.' : 'The highest gained × age ÷ moved goes first.',
	],
	band: zone => ['Tier', zone.tier],
	facts: zone => [
		['Reads', count(zone.reads)],
		['Sequence', sequence(zone)],
	],
	contents: () => [],
};
