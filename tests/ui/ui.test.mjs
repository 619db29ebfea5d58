// The page in a browser, against the mock or (ZONAL_UI=http://127.0.0.1:9090) against a server.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { live, pageModules, text, until } from './browser.mjs';
import { drawn, framesStayShort, mock, open, openAnew, page, steered, table } from './harness.mjs';

const { format, zonelook, cache_zones } = await pageModules('format', 'zonelook', 'cache/zones');
// Of seed 7 with 200 zones, ten ticks after the start.
const EXPECTED_STRIP =
	'Hit ratio 84.6 % by byte 85.8 %; since start 84.6 % Served 604 MiB/s 2,417/s reads, ' +
	'86.0 MiB/s fetched Origin requests 159 per 1,000 reads 383/s to the origins ' +
	'Time to first byte 59 ms p99 ' +
	'p50 260 µs, of 24,169 GETs Saved $125 $41.51 an hour; 22,147,046 requests';

function expectedRows(sim) {
	const { bytes, count, percent } = format;
	return Object.entries(sim.zones())
		.flatMap(([key, shard]) =>
			Object.entries(shard.zones).map(([id, zone]) => [
				id,
				key,
				zonelook.useWords(zone, cache_zones.looks),
				bytes(zone.written_bytes),
				bytes(zone.live_bytes),
				percent(zonelook.liveShare(zone), 0),
				bytes(zone.pinned_bytes),
				`${count(zone.live_records)} of ${count(zone.records)}`,
				count(zone.reads),
				count(zone.sequence),
			]),
		)
		.sort((a, b) => Number(a[0]) - Number(b[0]));
}

test(
	'fixed seed: the table has the exact facts of every zone, before and after patches',
	steered,
	async () => {
		await open();
		assert.deepEqual(await table(), expectedRows(mock.sim));
		const first = await text(page, '#legend');
		mock.step(12);
		await until(page, '#event-list', /was reset/);
		await page.click('#table-back');
		for (let n = 0; n < 4; n += 1)
			if (!(await page.isDisabled('#table-back'))) await page.click('#table-back');
		assert.deepEqual(await table(), expectedRows(mock.sim));
		const counts = mock.sim.head().devices[0].flash.zones;
		assert.match(first.replace(/\s+/g, ' '), /empty \d+ open, fill 2 open, rewrite 2 full \d+/);
		assert.match(
			(await text(page, '#legend')).replace(/\s+/g, ' '),
			new RegExp(`empty ${counts.empty} .*full ${counts.sealed} `),
		);
	},
);

test('fixed seed: exact numbers in the strip', steered, async () => {
	await open();
	mock.step(10);
	await until(page, '#strip', /p50 \d/);
	const strip = (await text(page, '#strip')).replace(/\s+/g, ' ');
	const { answers } = mock.sim.head();
	const hits = answers.hit + answers.revalidated;
	assert.ok(strip.includes(`since start ${format.percent(hits / (hits + answers.miss))}`), strip);
	assert.equal(strip, EXPECTED_STRIP);
	await until(page, '#event-list li:first-child', /Zone 124 was reset and is empty\./);
});

test('fixed seed: the same cells twice, and other cells after patches', steered, async () => {
	await open();
	const first = await drawn();
	await openAnew();
	assert.equal(await drawn(), first);
	mock.step(20);
	await until(page, '#event-list', /was reset/);
	const patched = await drawn();
	assert.notEqual(patched, first);
	// What patches drew is what a new page draws.
	await page.reload();
	await live(page);
	assert.equal(await drawn(), patched);
});

test('nothing is drawn while nothing changes', steered, async () => {
	await open({}, { reducedMotion: 'reduce' });
	mock.step(1);
	await page.waitForTimeout(3600);
	const frames = () => page.evaluate(() => window.seen.frames);
	const before = await frames();
	await page.waitForTimeout(2000);
	assert.equal(await frames(), before);
});

test('the server restarts while the page is open', steered, async () => {
	await open({ speed: 4 });
	await until(page, '#strip', /p50 \d/);
	mock.do('restart');
	await until(page, '#notice-text', /The server restarted at/);
	await live(page);
	await until(page, '#event-list', /The server restarted/);
	await until(page, '#strip', /p50 \d/);
	const served = await page.locator('.tile .value').first().innerText();
	assert.ok(Number(served) >= 0 && Number(served) <= 100, served);
});

test('lost and found', steered, async () => {
	await open({ speed: 2 });
	await until(page, '#strip', /p50 \d/);
	mock.do('down');
	await until(page, '#notice-text', /Connection lost at \d\d:\d\d:\d\d/);
	assert.equal(await text(page, '#connection-state'), 'Connection lost');
	assert.match(await text(page, '#verdict-title'), /^Unknown/);
	const opacity = await page.$eval('#strip', node => getComputedStyle(node.parentElement).opacity);
	assert.equal(opacity, '0.5');
	await until(page, '#notice-ago', /[2-9] s ago/);
	mock.do('up');
	await until(page, '#notice-text', /Connected again after/);
	assert.equal(await text(page, '#connection-state'), 'Live');
	await until(page, '#verdict-title', /^All is well$/);
});

test('a server that says nothing any more counts as lost', steered, async () => {
	await open({ speed: 2 });
	await until(page, '#strip', /p50 \d/);
	mock.do('freeze');
	mock.state = 'down';
	await until(page, '#notice-text', /Connection lost/, 12000);
});

test('starting: 503, then live', steered, async () => {
	await open({ scenario: 'starting' });
	await until(page, '#notice-text', /The server is starting/);
	assert.equal(await text(page, '#connection-state'), 'Starting');
	mock.do('up');
	await live(page);
	await until(page, '#verdict-title', /^All is well$/);
});

test('the cache is switched off, and on', steered, async () => {
	await open();
	mock.do('off');
	mock.step(1);
	await until(
		page,
		'#trouble',
		/cache is switched off.*ZonalSwitchedOff.*docs\/alerts\.md#zonalswitchedoff/,
	);
	await until(page, '#about', /cache off: the origin serves all reads/);
	mock.do('on');
	mock.step(1);
	await until(page, '#verdict-title', /^All is well$/);
});

test('a device is isolated and returns', steered, async () => {
	await open({ devices: 2 });
	mock.do('isolate', 1);
	mock.step(2);
	await until(
		page,
		'#trouble',
		/Device 1 \(\/dev\/nvme2n1\) is isolated: reads time out.*ZonalDeviceIsolated/,
	);
	await until(page, '#map', /Device 1 · shard 1\/0 · isolated/);
	await until(page, '#devices', /isolated: its reads go to the origin/);
	await until(page, '#event-list', /Device 1 was isolated: reads time out/);
	assert.match(await page.title(), /^\(1\) Zonal$/);
	mock.do('readmit', 1);
	mock.step(1);
	await until(page, '#verdict-title', /^All is well$/);
	await until(page, '#event-list', /Device 1 is in use again/);
	assert.equal(await page.locator('.band[data-state=isolated]').count(), 0);
});

test('a device whose zones go away and come back', steered, async () => {
	await open({ devices: 2 });
	mock.broadcast('patch', { at_ns: mock.sim.now(), zones: { '1/0': null, '1/1': null } });
	await page.waitForFunction(() => document.querySelectorAll('.band').length === 2);
	mock.broadcast('patch', { at_ns: mock.sim.now(), zones: { '1/0': mock.sim.zones()['1/0'] } });
	await page.waitForFunction(() => document.querySelectorAll('.band').length === 3);
});

test('an origin fails', steered, async () => {
	await open();
	mock.do('fail', 1, 'main');
	mock.step(3);
	await until(page, '#origins', /main.*unhealthy: connect to .* timed out after 3 s/);
	await until(page, '#trouble', /ZonalOriginTrouble/);
	mock.do('heal', 1, 'main');
	mock.do('silence', 1, 'archive');
	mock.step(1);
	await until(page, '#origins', /archive.*does not answer; circuit breaker open/);
	await until(page, '#event-list', /its circuit breaker is open/);
});

test('events: filter, and stand still while they are read', steered, async () => {
	await open();
	mock.step(15);
	await until(page, '#event-list', /was chosen/);
	await page.selectOption('#event-kind', 'reclaim');
	const rows = await page.$$eval('#event-list li', all => all.map(row => row.dataset.mark));
	assert.ok(rows.length > 0 && rows.every(mark => ['victim', 'rewrite', 'reset'].includes(mark)));
	await page.focus('#event-list li');
	mock.step(15);
	await until(page, '#events-waiting', /\d+ new events?: show/);
	assert.equal(await page.locator('#event-list li').count(), rows.length);
	await page.click('#events-waiting');
	await page.waitForFunction(
		before => document.querySelectorAll('#event-list li').length > before,
		rows.length,
	);
});

test('a click on a cell opens the story of that zone', steered, async () => {
	await open();
	const box = await page.locator('canvas.cells').nth(1).boundingBox();
	await page.mouse.move(box.x + 3, box.y + 3);
	const title = await text(page, '.tip-title');
	await page.mouse.click(box.x + 3, box.y + 3);
	await page.waitForSelector('#story .facts');
	const [, zone] = /^Zone (\d+),/.exec(title);
	assert.equal(zone, '100');
	assert.equal(await text(page, '#story-title'), `Zone ${zone} of device 0`);
	const facts = mock.sim.zone(100, new URLSearchParams());
	const body = await text(page, '#story-body');
	assert.ok(
		body.includes(format.bytes(facts.live_bytes)) &&
			body.includes(`${format.count(facts.records)}, of which`),
		body,
	);
	if (facts.rank > 1) assert.ok(body.includes(`Rank ${facts.rank} of ${facts.candidates} candidates`), body);
});

test('a zone that does not exist says so', async () => {
	await open();
	await page.fill('#go-zone', '99999999');
	await page.click('#go button');
	await until(page, '#story-body', /The server answered 404/);
});

test('lenses and ranges', async () => {
	await open();
	const pictures = new Set([await drawn()]);
	for (const lens of ['age', 'live', 'pinned']) {
		await page.click(`label:has(input[value=${lens}])`);
		pictures.add(await drawn());
	}
	assert.equal(pictures.size, 4);
	await page.click('label:has(input[value=coarse])');
	await page.waitForFunction(() =>
		/24 hours/.test(document.querySelector('.chart canvas').getAttribute('aria-label')),
	);
	assert.match(await page.getAttribute('#heat', 'aria-label'), /24 hours, all reads/);
});

test('below a path of a reverse proxy', steered, async () => {
	await open({}, {}, '/behind/a/proxy');
	assert.match(await text(page, '#about'), /version/);
	assert.match(await text(page, '#map'), /shard 0\/0/);
});

test('40,000 zones: aggregated, with zoom', steered, async () => {
	await open({ zones: 40000, devices: 2, shards: 4 });
	assert.match(await text(page, '#map'), /5,000 zones, 2 to a cell/);
	const box = await page.locator('canvas.cells').nth(2).boundingBox();
	await page.mouse.click(box.x + 2, box.y + 2);
	await until(page, '#zoom', /Zones 10,000 to 12,047 of shard 0\/2/);
	mock.step(2);
	await page.click('#zoom button');
	await page.waitForFunction(() => document.querySelectorAll('.band').length === 8);
});

test('10,000 zones: script per frame stays below 8 ms', steered, async () => {
	await open({ zones: 10000, devices: 2, shards: 4, speed: 2 });
	await framesStayShort(['age', 'live', 'pinned', 'use']);
});
