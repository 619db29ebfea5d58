// One page and one mock per test: opened by `open`, closed and searched for faults after it.
import assert from 'node:assert/strict';
import { after, afterEach, before } from 'node:test';
import { launch, live, openPage, SERVER } from './browser.mjs';
import { Mock } from './mock.mjs';

export const steered = { skip: SERVER === null ? false : 'steers the mock' };
export let browser;
export let mock = null;
export let page = null;

before(async () => {
	browser = await launch();
});
after(async () => {
	await browser.close();
});
// No test may leave an error or a violation behind.
afterEach(async () => {
	const violations = await page?.evaluate(() => window.seen.violations).catch(() => []);
	const faults = page?.faults ?? [];
	await page?.context().close();
	mock?.close();
	[page, mock] = [null, null];
	assert.deepEqual(faults, []);
	assert.deepEqual(violations ?? [], []);
});

export async function open(settings = {}, options = {}, path = '') {
	if (SERVER === null) mock = new Mock({ zones: 200, seed: 7, speed: 0, ...settings });
	const address = (SERVER ?? (await mock.listen())) + path;
	page = await openPage(browser, address, options);
	if (settings.scenario !== 'starting') await live(page);
	return page;
}

// A new page of the same mock.
export async function openAnew() {
	await page.context().close();
	page = await openPage(browser, `http://127.0.0.1:${mock.server.address().port}`);
	await live(page);
}
