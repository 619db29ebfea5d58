// The page of a simulation: `zonal-lab sim --ui`. Its numbers are those of the recording and of the report.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { createInterface } from 'node:readline';
import { launch, openPage, pageModules, text, until } from './browser.mjs';
import { PROGRAM } from './zonal.mjs';

const LAB = join(dirname(PROGRAM), 'zonal-lab');

let browser;
before(async () => {
	browser = await launch();
});
after(async () => {
	await browser?.close();
});

// A simulation whose page is served; `report` is what it printed.
async function simulation(...words) {
	const child = spawn(LAB, ['sim', ...words, '--ui', '--listen', '127.0.0.1:0', '--json']);
	let report = '';
	child.stdout.on('data', data => (report += data));
	const lines = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
	const [, address] = /the page is (http:\/\/[\d.:]+)/.exec((await lines.next()).value);
	assert.match((await lines.next()).value, /Ctrl-C ends the page/);
	const ended = new Promise(done => child.once('exit', done));
	return { child, address, ended, report: () => JSON.parse(report) };
}

// Use and number of the zones of the last document, from the stream of the recording.
async function uses(address) {
	const recording = await (await fetch(`${address}/api/v1/recording`)).text();
	const { merge } = (await pageModules('merge')).merge;
	let all = {};
	for (const message of recording.split('\n\n').filter(Boolean)) {
		const [event, data] = message.split('\n').map(line => line.replace(/^\w+: /, ''));
		if (event === 'document') all = JSON.parse(data);
		if (event === 'patch') all = merge(all, JSON.parse(data));
	}
	const counts = {};
	for (const { zones } of Object.values(all.zones))
		for (const { use } of Object.values(zones)) counts[use] = (counts[use] ?? 0) + 1;
	return counts;
}

async function legend(page, word) {
	return Number(new RegExp(`${word}\\s*(\\d+)`).exec(await text(page, '#legend'))?.[1]);
}

for (const [name, words, full] of [
	['cache', ['--seed', '7'], 'sealed'],
	['block device', ['--block', '--seed', '2'], 'full'],
])
	test(`a simulated ${name} plays at once, and ends as it was recorded`, async () => {
		const { child, address, ended, report } = await simulation(...words);
		const page = await openPage(browser, address, {}, '?play=60');
		await page.waitForFunction(() => document.documentElement.dataset.connection === 'recording');
		await until(page, '#player button:nth-child(3)', /Pause/);
		const begin = await text(page, '#player b');
		await until(page, '#player b', new RegExp(`^(?!${begin.replaceAll('.', '\\.')})`));
		await page.waitForFunction(() => !/so far/.test(document.querySelector('#player .quiet').textContent));
		await page.focus('#player [type=range]');
		await page.keyboard.press('End');
		const [, last] = /of ([\d.]+) s$/.exec(await text(page, '#player b'));
		assert.ok(Math.abs(last - report().virtual_seconds) < 0.002, `${last} ${report().virtual_seconds}`);
		await until(page, '#event-list', /verdict: no violation/);
		await until(page, '#event-list', /life: ends: /);
		await page.waitForTimeout(300);
		const counted = await uses(address);
		assert.equal(await legend(page, 'empty'), counted.empty ?? 0);
		assert.equal(await legend(page, 'full'), counted[full] ?? 0);
		assert.deepEqual(page.faults, []);
		assert.deepEqual(await page.evaluate(() => window.seen.violations), []);
		await page.context().close();
		child.kill('SIGINT');
		assert.equal(await ended, 0);
	});
