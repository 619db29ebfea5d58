// The page's pure functions.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { PAGE, pageModules } from './browser.mjs';
import { difference } from './mock.mjs';
import { bucketStart } from './random.mjs';

const {
	merge,
	buckets,
	rates,
	format,
	zonelook,
	zonelayout,
	zonebands,
	zonekeys,
	zonesums,
	eventwords,
	wear,
	chart,
	cache_money,
	cache_totals,
	cache_zones,
	cache_events,
	cache_devices,
} = await pageModules(
	'merge',
	'buckets',
	'rates',
	'format',
	'zonelook',
	'zonelayout',
	'zonebands',
	'zonekeys',
	'zonesums',
	'eventwords',
	'wear',
	'chart',
	'cache/money',
	'cache/totals',
	'cache/zones',
	'cache/events',
	'cache/devices',
);

test('merge patch: the examples of RFC 7396, appendix A', () => {
	const examples = [
		[{ a: 'b' }, { a: 'c' }, { a: 'c' }],
		[{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
		[{ a: 'b' }, { a: null }, {}],
		[{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
		[{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
		[{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
		[{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
		[{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
		[
			['a', 'b'],
			['c', 'd'],
			['c', 'd'],
		],
		[{ a: 'b' }, ['c'], ['c']],
		[{ a: 'foo' }, null, null],
		[{ a: 'foo' }, 'bar', 'bar'],
		[{ e: null }, { a: 1 }, { e: null, a: 1 }],
		[[1, 2], { a: 'b', c: null }, { a: 'b' }],
		[{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
	];
	for (const [target, patch, result] of examples) {
		assert.deepEqual(merge.merge(structuredClone(target), patch), result, JSON.stringify([target, patch]));
	}
});

test('merge patch: the prototype is not a member', () => {
	const merged = merge.merge({}, JSON.parse('{"__proto__":{"polluted":1},"a":1}'));
	assert.equal(merged.polluted, undefined);
	assert.deepEqual(Object.keys(merged), ['a']);
});

test('merge patch: what the mock sends leads to what it has', () => {
	const before = { a: { x: 1, y: [1] }, gone: 1, same: { z: null } };
	const after = { a: { x: 2, y: [1, 2], n: { m: 1 } }, same: { z: null } };
	assert.deepEqual(merge.merge(structuredClone(before), difference(before, after)), after);
});

test('buckets: a bucket ends where the next begins', () => {
	assert.equal(buckets.bucketEnd(250000), 260000);
	assert.equal(buckets.bucketEnd(0), 100);
	for (let ns = 100; ns < 1e10; ns *= 1.37) {
		const start = bucketStart(ns);
		assert.equal(bucketStart(buckets.bucketEnd(start)), buckets.bucketEnd(start));
		assert.ok(start <= ns && ns < buckets.bucketEnd(start) + 1e-6);
	}
});

test('buckets: percentiles are those of the counts', () => {
	const cells = new Map([
		[100, 50],
		[200, 49],
		[9000, 1],
	]);
	assert.equal(buckets.percentile(cells, 0.5), 110);
	assert.equal(buckets.percentile(cells, 0.99), 210);
	assert.equal(buckets.percentile(cells, 1), 9100);
	assert.equal(buckets.percentile(new Map(), 0.5), null);
});

test('buckets: a patch adds the difference, in histograms known and new', () => {
	const doc = { requests: { 'GetObject flash': { buckets: { 100: 5 } } } };
	const patch = {
		requests: {
			'GetObject flash': { buckets: { 100: 7, 200: 1 } },
			'GetObject dram': { buckets: { 10: 2 } },
		},
	};
	assert.deepEqual(buckets.addedCounts(doc, patch).sort(), [
		['GetObject dram', 10, 2],
		['GetObject flash', 100, 2],
		['GetObject flash', 200, 1],
	]);
	assert.deepEqual(
		[999, 1000, 1999, 2000, 9e9].map(ns => buckets.columnOf(ns, [1000, 2000])),
		[0, 1, 1, 2, 2],
	);
});

test('rates: differences of the window, devices that come, and counters that begin anew', () => {
	const meter = new rates.Rates(cache_totals.totals);
	const doc = (at, reads, devices) => ({ at_ns: at * 1e9, answers: { hit: reads }, devices });
	meter.note(doc(0, 100, {}), []);
	assert.equal(meter.over(10), null);
	assert.equal(meter.latencies(10, () => true).size, 0);
	meter.note(doc(5, 200, { 0: { reads: { pieces: 7 } } }), [['GetObject flash', 100, 3]]);
	meter.note(doc(10, 350, { 0: { reads: { pieces: 9 } } }), []);
	assert.deepEqual([meter.over(5).seconds, meter.over(5).node.reads], [5, 150]);
	assert.equal(meter.over(10).node.reads, 250);
	assert.equal(meter.over(10).devices[0].pieces, 9);
	assert.equal(meter.latencies(10, () => true).get(100), 3);
	meter.note(doc(16, 350, {}), [['GetObject flash', 100, 2]]);
	assert.equal(meter.latencies(10, () => true).get(100), 2);
	assert.deepEqual(rates.change({ a: 3 }, { a: 10 }), { a: 3 });
});

test('format: three digits and units', () => {
	assert.equal(format.bytes(1129316352), '1.05 GiB');
	assert.equal(format.bytes(999), '999 B');
	assert.equal(format.bytes(1000), '0.98 KiB');
	assert.equal(format.bytes(null), '—');
	assert.equal(format.latency(250000), '250 µs');
	assert.equal(format.latency(1200000), '1.2 ms');
	assert.equal(format.percent(0.8215), '82.2 %');
	assert.equal(format.span(11520), '3 h 12 min');
	assert.equal(format.count(12345), '12,345');
	assert.equal(cache_money.money(1234.5, 'USD'), '$1,235');
	assert.equal(cache_money.money(2, 'no currency'), '2.00 no currency');
});

test('look: each use has its own, and lenses show their figure', () => {
	const band = { looks: cache_zones.looks, zoneBytes: 100, oldest: 1, newest: 11 };
	const zone = { use: 'sealed', sequence: 6, written_bytes: 100, live_bytes: 50, pinned_bytes: 0 };
	assert.deepEqual(zonelook.lookOf(zone, 'use', band), {
		hue: 'sealed',
		level: 8,
		height: 32,
		pinned: false,
	});
	assert.deepEqual(zonelook.lookOf(zone, 'age', band), { hue: 'age', level: 8, height: 32, pinned: false });
	assert.equal(zonelook.lookOf(zone, 'live', band).height, 16);
	assert.equal(zonelook.lookOf({ ...zone, pinned_bytes: 25 }, 'pinned', band).height, 8);
	// A merge patch removes members that are null: `stream` of a zone that is no longer open is missing.
	assert.equal(zonelook.useOf({ use: 'open', stream: 'rewrite' }), 'rewrite');
	assert.equal(zonelook.useOf({ use: 'sealed' }), 'sealed');
	const keys = new Set();
	for (const use of ['empty', 'sealed', 'reclaiming', 'retired'])
		keys.add(zonelook.keyOf(zonelook.lookOf({ ...zone, use }, 'use', band)));
	for (const stream of ['fill', 'rewrite'])
		keys.add(zonelook.keyOf(zonelook.lookOf({ ...zone, use: 'open', stream }, 'use', band)));
	assert.equal(keys.size, 6);
});

test('layout: bands fit, every cell is hit at its middle, and gaps are not beyond the end', () => {
	for (const [counts, width] of [
		[[500, 500], 950],
		[[10000], 950],
		[[20, 20, 20], 320],
		[[5000, 5000], 340],
	]) {
		const grid = zonelayout.layout(counts, width, 520);
		for (const count of counts) {
			for (const position of [0, 1, count >> 1, count - 1]) {
				const rect = zonelayout.cellRect(grid, position);
				assert.ok(rect.x + rect.width <= width + 0.01);
				assert.equal(
					zonelayout.cellAt(grid, count, rect.x + rect.width / 2, rect.y + rect.height / 2),
					position,
				);
			}
			const past = zonelayout.cellRect(grid, count);
			assert.equal(zonelayout.cellAt(grid, count, past.x + 1, past.y + 1), null);
		}
	}
});

test('bands: above 20,000 zones a cell stands for several, and a zoom shows each', () => {
	const shard = (device, number, count) => ({
		device,
		shard: number,
		zone_bytes: 1,
		zones: Object.fromEntries(
			Array.from({ length: count }, (_, n) => [
				n,
				{ use: n === 7 ? 'reclaiming' : 'sealed', written_bytes: 1, live_bytes: n % 2 },
			]),
		),
	});
	const zones = { '0/0': shard(0, 0, 30000), '1/0': shard(1, 0, 30001) };
	const bands = zonebands.bandsOf(zones, cache_zones.looks);
	assert.deepEqual(
		bands.map(({ per, count }) => [per, count]),
		[
			[4, 7500],
			[4, 7501],
		],
	);
	assert.equal(zonebands.factsAt(bands[0], 1).use, 'reclaiming');
	assert.equal(zonebands.factsAt(bands[0], 0).live_bytes, 0.5);
	assert.deepEqual(zonebands.idsAt(bands[1], 7500), [30000]);
	const [zoomed] = zonebands.bandsOf(zones, cache_zones.looks, { key: '1/0', from: 100, to: 199 });
	assert.deepEqual([zoomed.per, zoomed.count, zoomed.ids[0]], [1, 100, 100]);
});

test('bands: only patches that add or remove zones change the shape', () => {
	const zones = { '0/0': { device: 0, shard: 0, zones: { 0: {}, 1: {} } } };
	const bands = zonebands.bandsOf(zones, cache_zones.looks);
	const changes = patch => zonebands.changesShape(bands, patch, false);
	assert.equal(changes({ '0/0': { zones: { 1: { reads: 2 } } } }), false);
	assert.equal(changes({ '0/0': { zones: { 2: { reads: 2 } } } }), true);
	assert.equal(changes({ '0/0': { zones: { 1: null } } }), true);
	assert.equal(changes({ '0/0': null }), true);
	assert.equal(changes({ '1/0': { zones: {} } }), true);
});

test('keys: arrows go over the edges of bands and stop at the ends', () => {
	const grid = { columns: 10 };
	const bands = [
		{ grid, count: 25 },
		{ grid, count: 12 },
	];
	const from = (band, position, key) => Object.values(zonekeys.moveFocus(bands, { band, position }, key));
	assert.deepEqual(from(0, 24, 'ArrowRight'), [1, 0]);
	assert.deepEqual(from(1, 0, 'ArrowLeft'), [0, 24]);
	assert.deepEqual(from(0, 17, 'ArrowDown'), [0, 24]);
	assert.deepEqual(from(0, 23, 'ArrowDown'), [1, 3]);
	assert.deepEqual(from(1, 3, 'ArrowUp'), [0, 23]);
	assert.deepEqual(from(0, 0, 'ArrowLeft'), [0, 0]);
	assert.deepEqual(from(1, 11, 'ArrowDown'), [1, 11]);
	assert.equal(zonekeys.moveFocus(bands, { band: 0, position: 0 }, 'x'), null);
});

test('events: a victim says by what it lost', () => {
	const textOf = event => eventwords.textOf(event, cache_events);
	const event = {
		event: 'victim-chosen',
		device: 0,
		shard: 1,
		zone: 17,
		score: [12582912, 5],
		scored_by: ['valid bytes', 'sequence'],
		candidates: 40,
		beaten: [{ zone: 3, score: [14680064, 2] }],
	};
	assert.equal(
		textOf(event),
		'Zone 17 of shard 0/1 was chosen: valid bytes 12.0 MiB, the lowest of 40. ' +
			'Next would have been zone 3, with 14.0 MiB.',
	);
	const tie = { ...event, beaten: [{ zone: 3, score: [12582912, 9] }] };
	assert.match(textOf(tie), /Next would have been zone 3, with 9 \(sequence\)\.$/);
	assert.equal(textOf({ ...event, beaten: [] }).includes('Next'), false);
	assert.equal(
		textOf({
			event: 'victim-rewritten',
			device: 0,
			shard: 0,
			zone: 3,
			records: 10,
			bytes: 655360,
			into: [7, 8],
		}),
		'10 records (640 KiB) of zone 3 were rewritten into zone 7, zone 8.',
	);
	assert.equal(textOf({ event: 'something-new', zone: 4 }), 'something-new, zone 4.');
});

test('flash: years only when the drive says enough', () => {
	const drive = { percentage_used: 12, data_units_written_bytes: 12e12 };
	assert.equal(wear.lifetimeWords(drive, 88e12 / 365.25)[0], '1.0 years');
	assert.equal(wear.lifetimeWords({ ...drive, percentage_used: null }, 1)[0], 'unknown');
	assert.equal(wear.lifetimeWords({ ...drive, percentage_used: 1 }, 1)[0], 'too early');
	assert.equal(wear.lifetimeWords({ ...drive, percentage_used: 100 }, 1)[0], 'used up');
	assert.equal(cache_devices.amplification({ written_bytes: 3, admitted_bytes: 2 }), 1.5);
	assert.equal(cache_devices.amplification({ written_bytes: 3, admitted_bytes: 0 }), null);
});

test('sums: live bytes kept by patches are those of the zones', () => {
	const doc = { zones: { '0/0': { device: 0, zones: { 1: { live_bytes: 5 }, 2: { live_bytes: 7 } } } } };
	const live = new zonesums.ZoneSums();
	const sum = () => [live.of(0).live_bytes, live.of(1).live_bytes];
	live.document(doc);
	assert.deepEqual(sum(), [12, 0]);
	const patches = [
		[{ '0/0': { zones: { 1: { live_bytes: 2 }, 2: { reads: 1 } } } }, [9, 0]],
		[{ '1/0': { device: 1, zones: { 4: { live_bytes: 3 } } }, '0/0': { zones: { 2: null } } }, [2, 3]],
		[{ '1/0': null }, [2, 0]],
	];
	for (const [zones, expected] of patches) {
		live.before(doc, { zones });
		merge.merge(doc, { zones });
		assert.deepEqual(sum(), expected);
	}
});

test('chart: steps of the axes are round in their unit', () => {
	const units = [1, 1024, 1024 ** 2, 1024 ** 3];
	assert.deepEqual(chart.niceStep(1.08 * 1024 ** 3, units), { unit: 1024 ** 2, step: 200 * 1024 ** 2 });
	assert.deepEqual(chart.niceStep(7 * 1024 ** 3, units), { unit: 1024 ** 3, step: 2 * 1024 ** 3 });
	assert.equal(chart.niceStep(1, [1]).step, 0.2);
});

test('files: 150 KiB for a kind, 14,000 bytes for the player, at most 400 lines of 110 characters, nothing from elsewhere', () => {
	const bytes = { '': 0, cache: 0, block: 0, play: 0 };
	for (const folder of Object.keys(bytes)) {
		const names = readdirSync(PAGE + folder).filter(name => /\./.test(name));
		for (const name of names.map(each => join(folder, each))) {
			bytes[folder] += statSync(PAGE + name).size;
			const content = readFileSync(PAGE + name, 'utf8');
			const lines = content.split('\n');
			assert.ok(lines.length <= 400, `${name}: ${lines.length} lines`);
			lines.forEach((line, n) => {
				assert.ok(line.replaceAll('\t', '  ').length <= 110, `${name}:${n + 1} is too long`);
			});
			assert.ok(!/\beval\(|new Function|innerHTML|document\.write|insertAdjacentHTML/.test(content), name);
			assert.ok(!/(src|href)="(https?:)?\/|\bstyle="|\bon\w+="/.test(content), name);
			assert.ok(!/https?:\/\//.test(content.replaceAll('http://www.w3.org/2000/svg', '')), name);
		}
	}
	console.log(`page: ${JSON.stringify(bytes)}`);
	const most = bytes[''] + Math.max(bytes.cache, bytes.block);
	assert.ok(most <= 150 * 1024, `${most} bytes`);
	assert.ok(bytes.play <= 14_000, `${bytes.play} bytes`);
});
