// The panel of prefixes in a browser, before the mock.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { pageModules, text, until } from './browser.mjs';
import { mock, open, page, steered } from './harness.mjs';

const { format, cache_money } = await pageModules('format', 'cache/money');
const { bytes, count, percent } = format;

// Shows the panel, and waits until it has asked.
async function show(settings, options) {
	await open(settings, options);
	await page.locator('#prefixes-title').scrollIntoViewIfNeeded();
	await page.waitForSelector('#prefixes tr');
}

const cells = selector =>
	page.$$eval(selector, rows => rows.map(row => [...row.children].map(cell => cell.textContent)));
const names = async () => (await cells('#prefixes tr')).map(([name]) => name);
const click = name => page.click(`th button:text-is("${name}")`);

function expectedRow(row) {
	const { requests, earlier_requests_max: earlier, resident_bytes: size, resident_error_bytes: error } = row;
	return [
		row.name ?? 'all others',
		earlier > 0 ? `${count(requests)} + up to ${earlier} earlier` : count(requests),
		row.reads > 0 ? percent(row.served_by_cache / row.reads) : '—',
		bytes(row.served_bytes),
		bytes(row.origin_bytes),
		count(row.origin_requests),
		cache_money.money(row.saved_cost, 'USD'),
		bytes(row.saved_bytes),
		error > 0 ? `about ${bytes(size)} ± ${bytes(error)}` : bytes(size),
	];
}

// All rows of the document in one.
function total({ prefixes, others }, from) {
	const sum = { ...others };
	for (const row of prefixes.slice(from)) for (const field of Object.keys(others)) sum[field] += row[field];
	return sum;
}

test('fixed seed: exact figures of every prefix, in 20 rows and in all', steered, async () => {
	await show();
	const doc = mock.sim.prefixes();
	doc.prefixes.sort((a, b) => b.requests - a.requests || (a.name < b.name ? -1 : 1));
	assert.deepEqual(await cells('#prefixes tr'), doc.prefixes.slice(0, 20).map(expectedRow));
	assert.deepEqual(await cells('tfoot tr'), [expectedRow(total(doc, 20))]);
	assert.deepEqual((await cells('#prefixes tr'))[0], [
		...['lake/tables/', '2,733,627', '90.6 %', '636 GiB', '59.5 GiB', '243,772', '$13.32', '576 GiB'],
		'17.6 GiB',
	]);
	await page.click('text=Show all 32');
	assert.deepEqual(await cells('#prefixes tr'), doc.prefixes.map(expectedRow));
	assert.deepEqual(await cells('tfoot tr'), [expectedRow(doc.others)]);
	await page.click('text=Show the first 20');
	assert.equal((await names()).length, 20);
	await until(page, 'section:has(#prefixes-title)', /estimated from 4,096 of 182,044 objects, at \d\d:\d\d/);
});

test('rows are sorted by each column, and the other way round', steered, async () => {
	await show();
	await page.click('text=Show all 32');
	const { prefixes } = mock.sim.prefixes();
	const sorted = () =>
		page.$$eval('th[aria-sort]', all => all.map(head => [head.textContent, head.getAttribute('aria-sort')]));
	assert.deepEqual(await sorted(), [['requests', 'descending']]);
	await click('prefix');
	assert.deepEqual(await sorted(), [['prefix', 'ascending']]);
	assert.deepEqual(await names(), prefixes.map(({ name }) => name).sort());
	for (const [heading, figure] of [
		['hits', row => (row.reads > 0 ? row.served_by_cache / row.reads : -1)],
		['from origins', row => row.origin_bytes],
		['saved', row => row.saved_cost],
		['cached', row => row.resident_bytes],
	]) {
		await click(heading);
		const by = new Map(prefixes.map(row => [row.name, figure(row)]));
		const figures = (await names()).map(name => by.get(name));
		assert.deepEqual(
			figures,
			[...figures].sort((a, b) => b - a),
			heading,
		);
		assert.deepEqual(await sorted(), [[heading, 'descending']]);
	}
	await page.focus('th[aria-sort] button');
	await page.keyboard.press('Enter');
	assert.deepEqual(await sorted(), [['cached', 'ascending']]);
});

test('no request yet, and cached bytes that are not known or exact', steered, async () => {
	await open();
	Object.assign(mock.sim, { counted: false, sampled: 'whole' });
	await page.locator('#prefixes-title').scrollIntoViewIfNeeded();
	await page.waitForSelector('#prefixes tr');
	assert.equal((await names()).length, 20);
	assert.deepEqual((await cells('#prefixes tr')).filter(row => /about|±/.test(row[8])), []);
	await until(page, 'section:has(#prefixes-title)', /Cached bytes: all 4,096 objects, at/);
	mock.sim.sampled = null;
	await until(page, 'section:has(#prefixes-title)', /Cached bytes: not known yet\./);
	assert.equal((await cells('#prefixes tr'))[0][8], '—');
});

test('the server is asked only while the panel is on the screen', steered, async () => {
	await open({}, { viewport: { width: 1440, height: 500 } });
	const asked = [];
	page.on('request', request => asked.push(new URL(request.url()).pathname));
	await page.waitForTimeout(2500);
	assert.deepEqual(asked, []);
	await page.locator('#prefixes-title').scrollIntoViewIfNeeded();
	await page.waitForSelector('#prefixes tr');
	await page.waitForTimeout(2500);
	assert.deepEqual(asked, ['/api/v1/prefixes']);
});

for (const [name, options] of [
	['light', {}],
	['dark', { colorScheme: 'dark' }],
	['narrow', { viewport: { width: 360, height: 740 } }],
])
	test(`axe: prefixes, ${name}`, steered, async () => {
		await show({}, options);
		const { violations } = await new AxeBuilder({ page }).analyze();
		assert.deepEqual(
			violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(' ')}`),
			[],
		);
		assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= page.viewportSize().width);
		assert.match(await text(page, '#prefixes-title'), /Prefixes/);
	});
