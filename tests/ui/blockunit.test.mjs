// Pure functions of the page of a block device, and its simulation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlockSim } from './blocksim.mjs';
import { pageModules } from './browser.mjs';

const {
	rates,
	zonelook,
	zonebands,
	eventwords,
	zonesums,
	block_events,
	block_totals,
	block_zones,
	block_history,
} = await pageModules(
	...['rates', 'zonelook', 'zonebands', 'eventwords', 'zonesums'],
	...['block/events', 'block/totals', 'block/zones', 'block/history'],
);
const textOf = event => eventwords.textOf(event, block_events);

test('simulation: the same seed gives the same document, another seed another one', () => {
	const after = seed => {
		const sim = new BlockSim({ zones: 200, seed });
		for (let n = 0; n < 20; n += 1) sim.tick();
		return JSON.stringify([sim.head(), sim.zones(), sim.events]);
	};
	assert.equal(after(7), after(7));
	assert.notEqual(after(7), after(8));
});

test('simulation: zones of a tier add up, and both causes empty zones', () => {
	const sim = new BlockSim({ zones: 200, seed: 7 });
	for (let n = 0; n < 60; n += 1) sim.tick();
	for (const [tier, { zones }] of Object.entries(sim.zones())) {
		const uses = Object.values(sim.head().tiers[tier].zones);
		assert.equal(
			uses.reduce((sum, some) => sum + some, 0),
			Object.keys(zones).length,
		);
		for (const zone of Object.values(zones))
			assert.ok(zone.live_bytes <= zone.written_bytes, JSON.stringify(zone));
	}
	const resets = sim.events.filter(({ event }) => event === 'zone-reset').map(({ tier }) => tier);
	assert.ok(resets.includes('buffer') && resets.includes('capacity'));
});

test('words: zones of both tiers', () => {
	const opened = { event: 'zone-opened', tier: 'buffer', zone: 3 };
	assert.equal(
		textOf({ ...opened, stream: 'user' }),
		'Zone 3 of the buffer was opened for writes of clients.',
	);
	assert.equal(
		textOf({ ...opened, stream: 'map' }),
		'Zone 3 of the buffer was opened for pages of the map.',
	);
	const of = (event, more) => textOf({ event, tier: 'capacity', zone: 4, ...more });
	assert.equal(
		of('zone-opened', { stream: 'collection' }),
		'Zone 4 of the capacity tier was opened for collection.',
	);
	assert.equal(
		of('zone-sealed', { written_bytes: 2 ** 28 }),
		'Zone 4 of the capacity tier is full: 256 MiB.',
	);
	assert.equal(of('zone-reset'), 'Zone 4 of the capacity tier was reset and is empty.');
	assert.equal(of('zone-retired'), 'Zone 4 of the capacity tier could not be reset and is retired.');
	assert.match(of('zone-unreadable'), /is kept: some of its blocks could not be read/);
	assert.equal(of('something-new'), 'something-new, zone 4.');
});

test('words: a victim says by what it lost', () => {
	const compaction = {
		...{ event: 'victim-chosen', tier: 'buffer', zone: 17, cause: 'compaction', score: [1012] },
		...{ scored_by: ['sequence'], candidates: 40, live_bytes: 5, beaten: [{ zone: 3, score: [1030] }] },
	};
	assert.equal(
		textOf(compaction),
		'Zone 17 of the buffer was chosen for compaction: sequence 1,012, the oldest of 40. ' +
			'Next would have been zone 3, with sequence 1,030.',
	);
	const collection = {
		...{ event: 'victim-chosen', tier: 'capacity', zone: 9, cause: 'collection', candidates: 12 },
		...{
			score: [52 * 2 ** 20, 12 * 2 ** 20, 4000],
			scored_by: ['gained bytes', 'moved bytes', 'age'],
			beaten: [],
		},
	};
	assert.equal(
		textOf(collection),
		'Zone 9 of the capacity tier was chosen for collection: 52.0 MiB gained, 12.0 MiB moved, age 4,000, ' +
			'the highest gained × age ÷ moved of 12.',
	);
});

test('words: where the data of a victim goes, and what stays', () => {
	const moved = { event: 'victim-moved', tier: 'buffer', zone: 17, cause: 'compaction', into: [7, 8] };
	assert.equal(
		textOf({ ...moved, bytes: 2 ** 20, retained_bytes: 8192 }),
		'1.00 MiB of zone 17 of the buffer were moved into zone 7, zone 8 of the capacity tier. ' +
			'8.00 KiB of often written blocks stayed in the buffer.',
	);
	assert.equal(
		textOf({ ...moved, bytes: 0, into: [], retained_bytes: 0 }),
		'Nothing in zone 17 of the buffer was moved.',
	);
	const parts = eventwords.wordsOf({ ...moved, bytes: 1, retained_bytes: 0 }, block_events);
	assert.deepEqual(
		parts.filter(part => part.zone !== undefined).map(({ place, zone }) => [place, zone]),
		[
			['buffer', 17],
			['capacity', 7],
			['capacity', 8],
		],
	);
});

test('words: device and writes', () => {
	assert.equal(
		textOf({ event: 'device-read-only', tier: 'capacity' }),
		'The device of the capacity tier is read-only: writes fail.',
	);
	assert.equal(
		textOf({ event: 'device-writable', tier: 'buffer' }),
		'The device of the buffer takes writes again.',
	);
	assert.equal(
		textOf({ event: 'compaction-stopped', why: 'no empty zone' }),
		'Compaction stopped: no empty zone.',
	);
	assert.equal(textOf({ event: 'writes-failed', why: 'EIO' }), 'Writes fail: EIO.');
});

test('filters: what happens to a zone belongs to what empties its tier', () => {
	const kind = (event, tier, cause) => eventwords.kindOf({ event, tier, cause, zone: 1 }, block_events);
	assert.equal(kind('zone-reset', 'buffer'), 'compaction');
	assert.equal(kind('zone-reset', 'capacity'), 'collection');
	assert.equal(kind('victim-moved', 'capacity', 'collection'), 'collection');
	assert.equal(kind('zone-opened', 'buffer'), 'zones');
	assert.equal(kind('device-read-only', 'buffer'), 'device');
	assert.equal(eventwords.kindOf({ event: 'page', text: 'x' }, block_events), 'page');
	for (const event of Object.keys(block_events.words))
		assert.ok(kind(event, 'buffer', 'compaction') in block_events.names, event);
});

const tier = (written, zones) => ({ tier: 'x', zone_bytes: 1, written_bytes: written, zones });
const documentAt = (at, factor, single = false) => ({
	at_ns: at * 1e9,
	single_device: single,
	throttled: factor,
	tiers: {
		buffer: tier(30 * factor, { empty: 1, full: 3 }),
		capacity: tier(10 * factor, { empty: 2, full: 2 }),
	},
	exports: {
		'db backup': { name: 'db backup', reads: 4 * factor, writes: 6 * factor, written_bytes: 20 * factor },
	},
	tenants: { t: { name: 't', user_written_bytes: 20 * factor, retained_bytes: factor } },
});

test('rates: clients, tiers and write amplification', () => {
	const meter = new rates.Rates(block_totals.totals);
	const doc = documentAt(0, 1);
	meter.note(doc, []);
	// The page keeps one document and patches it in place.
	Object.assign(doc, documentAt(10, 4));
	meter.note(doc, []);
	const { seconds, node, exports: all, tiers } = meter.over(10);
	assert.deepEqual([seconds, node.writes, node.written_bytes, node.throttled], [10, 18, 60, 3]);
	assert.equal(node.amplified / node.user_written_bytes, 0.5);
	assert.deepEqual([all['db backup'].reads, tiers.buffer.written_bytes], [12, 90]);
	const single = block_totals.totals(documentAt(0, 1, true)).node;
	assert.equal(single.amplified / single.user_written_bytes, 2);
	assert.deepEqual(block_totals.totals(doc).levels, { fill: 0.75, used: 0.5 });
	assert.equal(block_totals.fillOf(undefined), null);
});

test('history: rows of the heat map by operation, and points of the server', () => {
	const { rowOf, timed, point } = block_history.history;
	assert.equal(rowOf('write db backup'), 'write');
	assert.deepEqual(['write a', 'read a', 'flush a'].map(timed), [true, false, false]);
	const value = { written_bytes: 20, buffer_bytes: 30, capacity_bytes: 10, buffer_empty_zones: 2 };
	const { amplified, fill, used } = point({ ...value, capacity_empty_zones: 4 }, documentAt(0, 1));
	assert.deepEqual([amplified, fill, used], [10, 0.5, 0]);
});

test('look: each use of a block device has its own', () => {
	const zones = {
		buffer: {
			tier: 'buffer',
			zone_bytes: 100,
			zones: { 0: { use: 'full', sequence: 4, written_bytes: 100 } },
		},
		capacity: { tier: 'capacity', zone_bytes: 100, zones: { 0: { use: 'empty', sequence: 0 } } },
	};
	const bands = zonebands.bandsOf(zones, block_zones.looks);
	assert.deepEqual(
		bands.map(({ key, place }) => [key, place]),
		[
			['buffer', 'buffer'],
			['capacity', 'capacity'],
		],
	);
	assert.deepEqual([bands[0].oldest, bands[1].oldest], [4, Infinity]);
	const keys = new Set();
	const look = (zone, lens = 'use') =>
		zonelook.lookOf({ written_bytes: 50, live_bytes: 25, ...zone }, lens, bands[0]);
	for (const use of ['empty', 'full', 'emptying', 'retired', 'unreadable'])
		keys.add(zonelook.keyOf(look({ use })));
	for (const stream of ['user', 'map', 'compaction', 'collection'])
		keys.add(zonelook.keyOf(look({ use: 'open', stream })));
	assert.equal(keys.size, 9);
	assert.equal(look({ use: 'full', sequence: 0 }, 'age').hue, 'empty');
	assert.equal(look({ use: 'unreadable' }, 'live').hue, 'unreadable');
	const sums = new zonesums.ZoneSums();
	sums.document({ zones });
	assert.deepEqual(sums.of('buffer'), { live_bytes: 0, written_bytes: 100 });
});
