// The page for everybody: keyboard, screen readers, contrast, narrow windows, themes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import { live, text } from './browser.mjs';
import { mock, open, page, steered } from './harness.mjs';

// A server under test is a cache.
const needs = kind => (kind === 'block' ? steered : {});

// Words of a cell and of a story, by kind.
const KEYBOARD = {
	cache: [/^Zone \d+, .*shard \d+\/\d+; written .*live/, /Contents[\s\S]*Reclaim[\s\S]*Events of this zone/],
	block: [/^Zone \d+, .*the buffer; written .*live/, /Tier[\s\S]*Compaction[\s\S]*Events of this zone/],
};
for (const [kind, [cell, story]] of Object.entries(KEYBOARD))
	test(`keyboard only, ${kind}: skip link, map, story, and back`, needs(kind), async () => {
		await open({ kind });
		await page.keyboard.press('Tab');
		assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
		await page.keyboard.press('Enter');
		await page.keyboard.press('Tab');
		await page.focus('#map');
		await page.keyboard.press('ArrowRight');
		assert.equal(await page.getAttribute('#map', 'aria-valuenow'), '1');
		assert.match(await page.getAttribute('#map', 'aria-valuetext'), cell);
		assert.equal(await page.isVisible('#tip'), true);
		if (kind === 'cache') {
			await page.keyboard.press('End');
			await page.keyboard.press('ArrowRight');
		}
		await page.keyboard.press('Enter');
		await page.waitForSelector('#story .facts');
		assert.equal(await page.evaluate(() => document.activeElement.id), 'story-title');
		assert.match(await text(page, '#story-body'), story);
		await page.keyboard.press('Escape');
		assert.equal(await page.isVisible('#story'), false);
		assert.equal(await page.evaluate(() => document.activeElement.id), 'map');
	});

for (const kind of ['cache', 'block'])
	test(
		`keyboard only, ${kind}: every stop shows where it is, and there are few of them`,
		needs(kind),
		async () => {
			await open({ kind });
			const stops = [];
			for (let n = 0; n < 60; n += 1) {
				await page.keyboard.press('Tab');
				const stop = await page.evaluate(() => {
					const node = document.activeElement;
					if (node === document.body) return null;
					const style = getComputedStyle(node.matches('.choice input') ? node.parentElement : node);
					return {
						name: node.id || node.name || node.className || node.tagName,
						outline: style.outlineStyle,
					};
				});
				if (stop === null) break;
				stops.push(stop);
			}
			assert.ok(stops.length >= 12 && stops.length < 40, JSON.stringify(stops));
			for (const { name, outline } of stops) assert.notEqual(outline, 'none', name);
		},
	);

const AXE = [
	['light', {}, {}],
	['dark, trouble', { scenario: 'trouble', devices: 2 }, { colorScheme: 'dark' }],
	['light, trouble', { scenario: 'trouble', devices: 2 }, {}],
	['dark', {}, { colorScheme: 'dark' }],
	['narrow', {}, { viewport: { width: 360, height: 740 } }],
	['block, light', { kind: 'block' }, {}],
	['block, dark', { kind: 'block' }, { colorScheme: 'dark' }],
	['block, light, trouble', { kind: 'block', scenario: 'trouble' }, {}],
	['block, dark, trouble', { kind: 'block', scenario: 'trouble' }, { colorScheme: 'dark' }],
	['block, narrow', { kind: 'block' }, { viewport: { width: 360, height: 740 } }],
];
for (const [name, settings, options] of AXE) {
	test(`axe: ${name}`, needs(settings.kind), async () => {
		await open(settings, { reducedMotion: 'reduce', ...options });
		mock?.step(8);
		await page.fill('#go-zone', '17');
		await page.click('#go button');
		await page.waitForSelector('#story-body > *');
		await page.evaluate(() => {
			document.getElementById('zone-table').open = true;
		});
		await page.waitForTimeout(700);
		const { violations } = await new AxeBuilder({ page }).analyze();
		const told = violations.map(
			({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ target }) => target).join(' ')}`,
		);
		if (told.length > 0) console.log(told.join('\n'));
		assert.deepEqual(
			told.filter(line => /^(serious|critical)/.test(line)),
			[],
		);
	});
}

const WIDTHS = [360, 768, 920, 1081, 1240, 1440, 2200];
for (const [kind, width] of ['cache', 'block'].flatMap(each => WIDTHS.map(width => [each, width]))) {
	test(`width ${width}, ${kind}: nothing is wider than the window`, needs(kind), async () => {
		await open({ kind, scenario: 'trouble', devices: 2 }, { viewport: { width, height: 800 } });
		mock?.step(3);
		await page.waitForTimeout(500);
		const wide = await page.evaluate(() => document.documentElement.scrollWidth);
		assert.ok(wide <= width, `${wide}`);
		const cut = await page.$$eval('.tile .figure, .tile .note', all =>
			all.filter(node => node.scrollWidth > node.clientWidth).map(node => node.textContent),
		);
		assert.deepEqual(cut, []);
	});
}

test('themes: system, and the toggle over it', async () => {
	await open({}, { colorScheme: 'dark' });
	const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
	const dark = await back();
	await page.click('#theme');
	assert.equal(await text(page, '#theme'), 'Theme: light');
	assert.notEqual(await back(), dark);
	await page.reload();
	await live(page);
	assert.equal(await text(page, '#theme'), 'Theme: light');
	await page.click('#theme');
	assert.equal(await back(), dark);
});

test('trouble is announced, and nothing else', async () => {
	await open();
	const regions = await page.$$eval('[aria-live], [role=status], [role=alert], [role=log]', all =>
		all.map(({ id }) => id),
	);
	assert.deepEqual(regions, ['trouble']);
});
