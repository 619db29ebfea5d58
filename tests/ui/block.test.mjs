// The page of a block device in a browser, before the mock.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { live, pageModules, text, until } from './browser.mjs';
import { drawn, framesStayShort, mock, open, openAnew, page, steered, table } from './harness.mjs';

const { format, zonelook, block_zones } = await pageModules('format', 'zonelook', 'block/zones');
const { looks } = block_zones;
const block = (settings, options, path) => open({ kind: 'block', ...settings }, options, path);
// Of seed 7 with 200 zones, ten ticks after the start.
const EXPECTED_STRIP =
	'Buffer fill 96.9 % compaction below 4 empty zones Written by clients 20.7 MiB/s 944/s writes ' +
	'Read by clients 28.1 MiB/s 1,470/s reads Write latency 140 µs p99 p50 61 µs, of 9,436 writes ' +
	'Write amplification 0.69 since start 0.59 Stored 4.61 GiB 43.9 % of 10.5 GiB';

function expectedRows(sim) {
	const { bytes, count, percent } = format;
	return Object.entries(sim.zones()).flatMap(([tier, { zones }]) =>
		Object.entries(zones)
			.sort((a, b) => Number(a[0]) - Number(b[0]))
			.map(([id, zone]) => [
				...[id, tier, zonelook.useWords(zone, looks), bytes(zone.written_bytes), bytes(zone.live_bytes)],
				...[percent(zonelook.liveShare(zone), 0), count(zone.reads)],
				zone.sequence > 0 ? count(zone.sequence) : '—',
			]),
	);
}

test(
	'fixed seed: the table has the exact facts of every zone, before and after patches',
	steered,
	async () => {
		await block();
		assert.deepEqual(await table(), expectedRows(mock.sim));
		mock.step(12);
		await until(page, '#event-list', /of the capacity tier was reset/);
		for (let n = 0; n < 5; n += 1)
			if (!(await page.isDisabled('#table-back'))) await page.click('#table-back');
		assert.deepEqual(await table(), expectedRows(mock.sim));
		const legend = (await text(page, '#legend')).replace(/\s+/g, ' ');
		const zones = Object.values(mock.sim.head().tiers).map(tier => tier.zones);
		const of = use => zones.reduce((sum, uses) => sum + uses[use], 0);
		const open_ = 'open, user 1 open, compaction 1 open, collection 1 open, map 1';
		assert.ok(
			legend.startsWith(
				`empty ${of('empty')} ${open_} full ${of('full')} emptying ${of('emptying')} retired 1 `,
			),
			legend,
		);
	},
);

test('fixed seed: exact numbers in the strip and in the tables', steered, async () => {
	await block();
	mock.step(10);
	await until(page, '#strip', /p50 \d/);
	await until(page, '#exports', /MiB\/s/);
	assert.equal((await text(page, '#strip')).replace(/\s+/g, ' '), EXPECTED_STRIP);
	const head = mock.sim.head();
	const row = await page.$$eval('#tenants tr:first-child > *', cells => cells.map(cell => cell.textContent));
	const tenant = head.tenants.disk;
	assert.deepEqual(row.slice(0, 7), [
		'disk',
		...['stored', 'user_written', 'buffer_written', 'retained', 'compacted', 'collected'].map(field =>
			format.bytes(tenant[`${field}_bytes`]),
		),
	]);
	assert.equal(row[7], format.three(tenant.capacity_written_bytes / tenant.user_written_bytes));
	const facts = await text(page, '#tiers');
	for (const tier of Object.values(head.tiers)) {
		assert.ok(facts.includes(tier.device) && facts.includes(format.bytes(tier.written_bytes)), facts);
		assert.ok(facts.includes(`works below ${tier.low_water_zones}`), facts);
	}
	assert.match(await text(page, '#exports'), /db backup\s+backups\s+12\.0 GiB/);
});

test('fixed seed: the same cells twice, and other cells after patches', steered, async () => {
	await block();
	const first = await drawn();
	await openAnew();
	assert.equal(await drawn(), first);
	mock.step(12);
	await until(page, '#event-list', /was reset/);
	const patched = await drawn();
	assert.notEqual(patched, first);
	// What patches drew is what a new page draws.
	await page.reload();
	await live(page);
	assert.equal(await drawn(), patched);
});

// Whether the layer over the cells is painted at a place of a zone's cell: `at(cell, band head)` gives it.
function paintedAt(tier, zone, place) {
	return page.evaluate(
		async ([bandName, id, which]) => {
			const { cellRect, layout } = await import('/ui/zonelayout.js');
			const map = document.getElementById('map');
			const doc = await (await fetch('/mock/zones')).json();
			const counts = ['buffer', 'capacity'].map(key => doc[key].length);
			const height = Math.max(320, Math.min(720, innerHeight * 0.66));
			const rect = cellRect(layout(counts, map.clientWidth, height), doc[bandName].indexOf(id));
			const field = document.querySelectorAll('.field')[bandName === 'buffer' ? 0 : 1];
			const context = document.querySelector('.overlay').getContext('2d');
			const alpha = (x, y, w, h) =>
				context.getImageData(x + 8, y + 8, w, h).data.some((value, n) => n % 4 === 3 && value > 0);
			// A pulse stands still at this distance while motion is reduced.
			const grow = 2 + 0.35 * Math.min(18, Math.max(10, rect.width * 0.6));
			if (which === 'pulse')
				return alpha(rect.x - grow - 1, field.offsetTop + rect.y + rect.height / 2, 3, 3);
			return alpha(0, document.querySelectorAll('.band')[1].offsetTop + 6, map.clientWidth, 12);
		},
		[tier, zone, place],
	);
}

test('a reset pulses, and an arrow leads from the buffer to the capacity tier', steered, async () => {
	await block({}, { reducedMotion: 'reduce' });
	await page.waitForTimeout(500);
	let reset;
	for (let n = 0; n < 20 && reset === undefined; n += 1) {
		const known = mock.sim.events.at(-1);
		mock.step(1);
		reset = mock.sim.events
			.slice(mock.sim.events.indexOf(known) + 1)
			.find(({ event, tier }) => event === 'zone-reset' && tier === 'buffer');
	}
	const shown = place => paintedAt('buffer', reset.zone, place);
	await page.waitForTimeout(300);
	assert.deepEqual([await shown('pulse'), await shown('arrow')], [true, true]);
	await page.waitForTimeout(3000);
	assert.deepEqual([await shown('pulse'), await shown('arrow')], [false, false]);
});

test('nothing is drawn while nothing changes', steered, async () => {
	await block({}, { reducedMotion: 'reduce' });
	mock.step(1);
	await page.waitForTimeout(3600);
	const frames = () => page.evaluate(() => window.seen.frames);
	const before = await frames();
	await page.waitForTimeout(2000);
	assert.equal(await frames(), before);
});

test('the server restarts while the page is open', steered, async () => {
	await block({ speed: 4 });
	await until(page, '#strip', /p50 \d/);
	mock.do('restart');
	await until(page, '#notice-text', /The server restarted at/);
	await live(page);
	await until(page, '#event-list', /The server restarted/);
	await until(page, '#strip', /p50 \d/);
});

test('the server restarts as the other kind: the page loads again', steered, async () => {
	await block({ speed: 4 });
	await until(page, '#strip', /Buffer fill/);
	mock.do('restart', 1, 'cache');
	await until(page, '#strip', /Hit ratio/);
	await live(page);
	assert.equal(await page.locator('#exports').count(), 0);
	mock.do('restart', 1, 'block');
	await until(page, '#strip', /Buffer fill/);
	assert.equal(await page.locator('#origins').count(), 0);
});

test('lost and found', steered, async () => {
	await block({ speed: 2 });
	await until(page, '#strip', /p50 \d/);
	mock.do('down');
	await until(page, '#notice-text', /Connection lost at \d\d:\d\d:\d\d/);
	assert.match(await text(page, '#verdict-title'), /^Unknown/);
	assert.equal(await page.$eval('#tiers', node => getComputedStyle(node.parentElement).opacity), '0.5');
	mock.do('up');
	await until(page, '#notice-text', /Connected again after/);
	await until(page, '#verdict-title', /^All is well$/);
});

test('a device becomes read-only, and takes writes again', steered, async () => {
	await block();
	mock.do('read-only', 1, 'capacity');
	mock.step(2);
	await until(
		page,
		'#trouble',
		/of the capacity tier .* is read-only.*ZonalBlockReadOnly.*docs\/alerts\.md#zonalblockreadonly/,
	);
	await until(page, '#map', /Capacity · \/dev\/nvme1n1 · read-only/);
	await until(page, '#tiers', /read-only: writes fail/);
	await until(page, '#event-list', /The device of the capacity tier is read-only: writes fail/);
	await until(page, '#exports [data-state=failed]', /disk/);
	assert.match(await page.title(), /^\(1\) Zonal$/);
	mock.do('writable', 1, 'capacity');
	mock.step(1);
	await until(page, '#verdict-title', /^All is well$/);
	await until(page, '#event-list', /takes writes again/);
	assert.equal(await page.locator('.band[data-state=read-only]').count(), 0);
});

test('throttled writes are shown when they happen', steered, async () => {
	await block({ scenario: 'trouble' });
	mock.step(3);
	await until(page, '#strip', /\d+ throttled, 3\.00 MiB wait/);
	mock.do('writable', 1, 'capacity');
	Object.assign(mock.sim, { throttles: false });
	mock.step(12);
	await page.waitForFunction(() => !/throttled/.test(document.getElementById('strip').textContent));
});

test('events: filter by what empties zones', steered, async () => {
	await block();
	mock.step(15);
	await until(page, '#event-list', /was chosen/);
	for (const [kind, pattern] of [
		['compaction', /of the buffer/],
		['collection', /of the capacity tier/],
	]) {
		await page.selectOption('#event-kind', kind);
		const rows = await page.$$eval('#event-list li', all =>
			all.map(row => [row.dataset.mark, row.textContent]),
		);
		assert.ok(rows.length > 0, kind);
		for (const [mark, words] of rows) {
			assert.ok(['victim', 'rewrite', 'reset'].includes(mark), words);
			assert.match(words, pattern);
		}
	}
	assert.deepEqual(await page.$$eval('#event-kind option', all => all.map(option => option.textContent)), [
		'All',
		'Zones',
		'Compaction',
		'Collection',
		'Device',
		'Other',
	]);
});

test('a click on a cell opens the story of that zone, in each tier', steered, async () => {
	await block();
	for (const [n, tier, name, title] of [
		[0, 'buffer', 'the buffer', 'Compaction'],
		[1, 'capacity', 'the capacity tier', 'Collection'],
	]) {
		const box = await page.locator('canvas.cells').nth(n).boundingBox();
		await page.mouse.click(box.x + 3, box.y + 3);
		await until(page, '#story-title', new RegExp(`^Zone 0 of ${name}$`));
		await page.waitForSelector('#story .facts');
		const facts = mock.sim.zone(0, new URLSearchParams({ tier }));
		const body = await text(page, '#story-body');
		assert.ok(body.includes(format.bytes(facts.live_bytes)) && body.includes(title), body);
	}
});

test('the rank of a zone in words', steered, async () => {
	await block();
	const first = mock.sim.ranking(mock.sim.tiers.capacity)[0].zone;
	await page.selectOption('#go-tier', 'capacity');
	await page.fill('#go-zone', String(first));
	await page.click('#go button');
	await until(
		page,
		'#story-body',
		/First of \d+ candidates: it is the next victim\..*The highest gained × age ÷ moved goes first/,
	);
	assert.match(
		await text(page, '#story-body'),
		/Score: gained bytes\s+[\d.]+ MiB\s+then: moved bytes\s+[\d.]+ MiB\s+then: age\s+[\d,]+/,
	);
	const second = mock.sim.ranking(mock.sim.tiers.buffer)[1].zone;
	await page.selectOption('#go-tier', 'buffer');
	await page.fill('#go-zone', String(second));
	await page.click('#go button');
	await until(
		page,
		'#story-body',
		/Rank 2 of \d+ candidates: 1 zone would go before it\..*The oldest zone goes first/,
	);
	await page.fill('#go-zone', '99999999');
	await page.click('#go button');
	await until(page, '#story-body', /The server answered 404/);
});

test('lenses, ranges and operations', steered, async () => {
	await block();
	const pictures = new Set([await drawn()]);
	for (const lens of ['age', 'live']) {
		await page.click(`label:has(input[value=${lens}])`);
		pictures.add(await drawn());
	}
	assert.equal(pictures.size, 3);
	assert.equal(await page.locator('input[value=pinned]').count(), 0);
	await page.click('label:has(input[value=coarse])');
	await page.check('input[name=path][value=flush]');
	await page.waitForFunction(() =>
		/24 hours, flush/.test(document.getElementById('heat').getAttribute('aria-label')),
	);
	const charts = await page.$$eval('.chart h3', all => all.map(node => node.textContent));
	assert.deepEqual(charts, ['Clients', 'Device writes', 'Write amplification', 'Zones in use']);
});

test('one device: numbers of the capacity tier go on after those of the buffer', steered, async () => {
	await block({ devices: 1 });
	await until(page, '#about', /both tiers on one device/);
	const [first] = mock.sim.tiers.capacity.zones.keys();
	assert.ok(first >= 32);
	const box = await page.locator('canvas.cells').nth(1).boundingBox();
	await page.mouse.click(box.x + 3, box.y + 3);
	await until(page, '#story-title', /^Zone 32 of the capacity tier$/);
});

test('each kind loads its own files only, below a path of a reverse proxy, too', steered, async () => {
	for (const [kind, other] of [
		['block', 'cache'],
		['cache', 'block'],
	]) {
		if (page !== null) await page.context().close();
		await open({ kind }, {}, '/behind/a/proxy');
		assert.match(await text(page, '#about'), /version/);
		const files = await page.evaluate(() =>
			performance.getEntriesByType('resource').map(({ name }) => name),
		);
		assert.ok(files.some(name => name.includes(`/behind/a/proxy/ui/${kind}/`)));
		assert.ok(!files.some(name => name.includes(`/${other}/`)));
		if (kind === 'block') mock.close();
	}
});

test('10,000 zones: script per frame stays below 8 ms', steered, async () => {
	await block({ zones: 10000, speed: 2 });
	await framesStayShort(['age', 'live', 'age', 'use']);
});
