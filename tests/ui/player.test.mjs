// The player of recordings in a browser: it shows what the live page showed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { AxeBuilder } from '@axe-core/playwright';
import { text, until } from './browser.mjs';
import { drawn, mock, open, page, steered, table } from './harness.mjs';
import { recordingOf } from './mock.mjs';

const MIXED = { zones: 200, seed: 7 };

async function play(settings = {}, options = {}, path = '') {
	await open({ record: 120, ...settings }, options, path, '?play');
	await wholly();
}

// Until the whole recording is read.
async function wholly() {
	await page.waitForFunction(() => document.documentElement.dataset.connection === 'recording');
	await page.waitForFunction(() => !/so far/.test(document.querySelector('#player .quiet').textContent));
}

const seek = seconds =>
	page.$eval(
		'#player [type=range]',
		(slider, value) => {
			slider.value = value;
			slider.dispatchEvent(new Event('input'));
		},
		seconds,
	);
const time = () => text(page, '#player b');
const words = selector => page.$eval(selector, node => node.innerText.replace(/\s+/g, ' '));
const events = () => page.$$eval('#event-list li', rows => rows.map(row => row.textContent));

// The table of zones, from its first page on.
async function wholeTable() {
	const rows = await table();
	while (!(await page.isDisabled('#table-back'))) await page.click('#table-back');
	await page.click('#zone-table summary');
	return rows;
}

for (const kind of ['cache', 'block']) {
	test(`${kind}: after a seek, forward and back, the page is that of the live page then`, steered, async () => {
		const seen = {};
		await open({ kind });
		let at = 0;
		for (const seconds of [20, 75]) {
			mock.step(seconds - at);
			at = seconds;
			await page.waitForTimeout(500);
			seen[seconds] = [await drawn(), await words('#strip'), await words('#legend'), await events()];
			seen[seconds].push(await wholeTable());
		}
		await page.context().close();
		mock.close();
		await play({ kind });
		for (const seconds of [75, 20, 75]) {
			await seek(seconds);
			await page.waitForTimeout(400);
			const now = [await drawn(), await words('#strip'), await words('#legend'), await events()];
			assert.deepEqual(now.slice(1), seen[seconds].slice(1, 4));
			assert.ok(now[0] === seen[seconds][0], `cells at ${seconds}`);
			assert.deepEqual(await wholeTable(), seen[seconds][4]);
		}
		assert.equal(await text(page, '#connection-state'), 'Recording');
		assert.match(await words('#player'), /Recorded by Zonal 0\.1\.0 on 29 Nov 2025, 07:08:10 UTC/);
		// Nothing but the recording is asked for.
		await page.locator('#charts').scrollIntoViewIfNeeded();
		await page.waitForTimeout(1500);
		assert.deepEqual([...new Set(mock.asked)], ['/api/v1/recording']);
		assert.equal(await page.locator('#prefixes').count(), 0);
	});

	test(`${kind}: the story of a zone is that of the document`, steered, async () => {
		await play({ kind });
		await seek(60);
		const zone = kind === 'cache' ? '17' : '3';
		await page.fill('#go-zone', zone);
		await page.click('#go button');
		await until(page, '#story-body', /Written.*Events of this zone/);
		assert.doesNotMatch(await text(page, '#story-body'), /candidate|Contents/);
		await page.fill('#go-zone', '99999');
		await page.click('#go button');
		await until(page, '#story-body', /The recording has no such zone/);
		assert.ok(!mock.asked.some(path => path.includes('zones')));
	});

	for (const [name, options] of [
		['light', {}],
		['dark', { colorScheme: 'dark' }],
		['narrow', { viewport: { width: 360, height: 740 } }],
	])
		test(`axe: player, ${kind}, ${name}`, steered, async () => {
			await play({ kind }, { reducedMotion: 'reduce', ...options });
			await seek(60);
			await page.waitForTimeout(500);
			const { violations } = await new AxeBuilder({ page }).analyze();
			assert.deepEqual(
				violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(' ')}`),
				[],
			);
			const wide = await page.evaluate(() => document.documentElement.scrollWidth);
			assert.ok(wide <= page.viewportSize().width, String(wide));
		});
}

test('history comes from the recording alone', steered, async () => {
	await play();
	await seek(110);
	await page.waitForFunction(() =>
		/Throughput, last 5 minutes: served now \d/.test(
			document.querySelector('.chart canvas').getAttribute('aria-label'),
		),
	);
	await page.waitForFunction(() =>
		/Now: p50 \d+ µs, p99 \d+ ms/.test(document.getElementById('heat').getAttribute('aria-label')),
	);
	await until(page, '#paths', /flash/);
});

test('play, pause and speed', steered, async () => {
	await play();
	assert.match(await time(), /^07:08:10, 0 s of 2 min 0 s$/);
	await page.selectOption('#player select', '10');
	await page.click('#player button:text-is("Play")');
	await until(page, '#player b', /, (?:[6-9]|1\d) s of/, 4000);
	assert.ok((await page.locator('#event-list li').count()) > 0);
	await page.click('#player button:text-is("Pause")');
	const paused = await time();
	await page.waitForTimeout(500);
	assert.equal(await time(), paused);
	await page.selectOption('#player select', '600');
	const start = Date.now();
	await page.click('#player button:text-is("Play")');
	// It stops at the end, and begins again from there.
	await until(page, '#player b', /2 min 0 s of 2 min 0 s/, 4000);
	assert.ok(Date.now() - start < 2500);
	await page.waitForSelector('#player button:text-is("Play")');
	await page.selectOption('#player select', '1');
	await page.click('#player button:text-is("Play")');
	await until(page, '#player b', /, [0-2] s of/);
});

test('cells that were played are those of a seek, across a restart, too', steered, async () => {
	await play();
	mock.recording = recordingOf(MIXED, 40, 60);
	await page.reload();
	await wholly();
	await seek(35);
	for (let n = 0; n < 12; n += 1) await page.keyboard.press('.');
	await page.waitForTimeout(400);
	const played = [await drawn(), await events(), await words('#legend')];
	assert.ok(played[1].some(row => /The server restarted\./.test(row)));
	const at = await time();
	const value = await page.$eval('#player [type=range]', slider => slider.value);
	await page.keyboard.press(',');
	await page.keyboard.press('.');
	await seek(0);
	await page.evaluate(() => window.scrollTo(0, 0));
	await seek(value);
	await page.waitForTimeout(400);
	assert.equal(await time(), at);
	assert.deepEqual([await drawn(), await events(), await words('#legend')], played);
	assert.equal(await page.isVisible('#notice'), false);
});

test('keyboard: space, comma and full stop, and the slider', steered, async () => {
	await play();
	await page.keyboard.press('.');
	await page.keyboard.press('.');
	assert.match(await time(), /, 2 s of/);
	await page.keyboard.press(',');
	assert.match(await time(), /, 1 s of/);
	await page.keyboard.press(' ');
	assert.equal(await text(page, '#player button:nth-child(3)'), 'Pause');
	assert.equal(await page.evaluate(() => scrollY), 0);
	await page.keyboard.press(' ');
	assert.equal(await text(page, '#player button:nth-child(3)'), 'Play');
	// In fields and on buttons the keys are theirs.
	await page.focus('#player button:nth-child(3)');
	await page.keyboard.press(' ');
	assert.equal(await text(page, '#player button:nth-child(3)'), 'Pause');
	await page.keyboard.press(' ');
	await page.focus('#map');
	await page.keyboard.press(' ');
	assert.equal(await text(page, '#player button:nth-child(3)'), 'Play');
	assert.equal(await page.isVisible('#story'), true);
	await page.focus('#player [type=range]');
	await page.keyboard.press('Home');
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('ArrowRight');
	assert.match(await page.getAttribute('#player [type=range]', 'aria-valuetext'), /, 3 s of 2 min 0 s$/);
	await page.keyboard.press('End');
	assert.match(await time(), /2 min 0 s of/);
});

test('victims: to the next and the one before', steered, async () => {
	await play();
	for (const name of ['Next', 'Next', 'Previous']) await page.click(`[aria-label="${name} victim"]`);
	await page.waitForTimeout(300);
	assert.match((await events()).slice(0, 4).join(), /was chosen/);
	const [first] = await page.$$eval('#event-list time', all => all.map(node => node.textContent));
	assert.ok((await time()).startsWith(first));
});

test('a server without a recording: a file is chosen, compressed or cut off, or dropped', steered, async () => {
	await open({}, {}, '', '?play');
	await until(page, '#notice-text', /no recording.*Choose a file/);
	assert.equal(await page.isVisible('#strip'), false);
	assert.equal(await page.isVisible('#player [type=range]'), false);
	const recorded = recordingOf(MIXED, 30);
	const choose = (name, bytes) => {
		const file = { name, mimeType: 'application/octet-stream', buffer: Buffer.from(bytes) };
		return page.setInputFiles('#player [type=file]', file);
	};
	await choose('zonal-none.txt', 'nothing of the kind\n\n');
	await until(page, '#notice-text', /not a recording/);
	await choose('zonal-play.gz', gzipSync(recorded));
	await until(page, '#player b', /0 s of 30 s/);
	const cells = await drawn();
	await choose('zonal-play.txt', recorded.slice(0, -20).replaceAll('\n', '\r\n'));
	await until(page, '#player b', /0 s of (29|30) s/);
	assert.ok(cells === (await drawn()));
	await choose('zonal-cut.gz', gzipSync(recorded).subarray(0, -5000));
	await until(page, '#player b', /0 s of (1\d|2\d) s/);
	await page.evaluate(body => {
		const data = new DataTransfer();
		data.items.add(new File([body], 'recording'));
		document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
	}, recordingOf(MIXED, 10));
	await until(page, '#player b', /0 s of 10 s/);
});

test('the live page leads to the player and back, below a path of a reverse proxy', steered, async () => {
	await open({ record: 20 }, {}, '/behind/a/proxy');
	await page.click('text=Play a recording');
	await page.waitForFunction(() => document.documentElement.dataset.connection === 'recording');
	assert.match(page.url(), /\/behind\/a\/proxy\/ui\/\?play$/);
	await page.goBack();
	await page.waitForFunction(() => document.documentElement.dataset.connection === 'live');
	assert.equal(await page.locator('#player').count(), 0);
	const files = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
	assert.ok(!files.some(name => name.includes('/play/')));
});

test('a recording that grows is played as it comes, to its end', steered, async () => {
	const recorded = recordingOf(MIXED, 60);
	const middle = recorded.indexOf('event: patch', recorded.length / 2);
	let write;
	await open({ record: 1 }, {}, '', '?play=600');
	mock.recording = response => {
		write = response;
		response.write(recorded.slice(0, middle));
	};
	await page.reload();
	await until(page, '#player .quiet', /samples so far/);
	// It waits for more at the end of what there is.
	await page.waitForFunction(() => {
		const { value, max } = document.querySelector('#player [type=range]');
		return max > 10 && Math.abs(max - value) < 2;
	});
	await until(page, '#player button:nth-child(3)', /Pause/);
	const before = await time();
	write.end(recorded.slice(middle));
	await until(page, '#player b', /1 min 0 s of 1 min 0 s/);
	assert.notEqual(await time(), before);
	await until(page, '#player button:nth-child(3)', /Play/);
	assert.doesNotMatch(await text(page, '#player .quiet'), /so far/);
});

test('a simulation shows its virtual times and rates', steered, async () => {
	await play({ zones: 200, seed: 7 });
	await seek(100);
	await page.waitForTimeout(400);
	const served = async () => (await words('#strip')).match(/Served ([\d.]+) (\w+)B\/s/);
	const [, real, unit] = await served();
	mock.recording = recordingOf(MIXED, 120).replaceAll('"started_at_ns":', '"slow_motion":1024,"started_at_ns":');
	await page.reload();
	await wholly();
	await seek(100);
	await page.waitForTimeout(400);
	assert.match(await time(), /^\d+\.\d{3} s of \d+\.\d{3} s$/);
	assert.match(await text(page, '#player .quiet'), /^Simulated by Zonal 0\.1\.0, slow motion: .* 1,024 times slower$/);
	assert.match((await events())[0], /^\d+\.\d{3} s/);
	// 1,024 times the rate is the same figure in the next unit.
	const [, virtual, larger] = await served();
	assert.ok(Math.abs(virtual - real) <= 0.02 * real, `${real} ${unit}, ${virtual} ${larger}`);
	assert.deepEqual([unit, larger].join(), { Ki: 'Ki,Mi', Mi: 'Mi,Gi', Gi: 'Gi,Ti' }[unit]);
});

test('1,000 zones: a seek takes less than 100 ms', steered, async () => {
	await play({ zones: 1000, record: 400 });
	await page.waitForTimeout(1000);
	const times = await page.evaluate(async () => {
		const slider = document.querySelector('#player [type=range]');
		const all = [];
		for (const seconds of [390, 30, 250, 119, 60, 333, 180]) {
			slider.value = seconds;
			const start = performance.now();
			slider.dispatchEvent(new Event('input'));
			all.push(performance.now() - start);
			await new Promise(done => setTimeout(done, 300));
		}
		return all.sort((a, b) => a - b);
	});
	console.log(`seek, ms: ${times.map(each => each.toFixed(0)).join(' ')}`);
	assert.ok(times[3] < 100, String(times));
});
