// What the tests share: the browser, the mock, and the page's modules for node.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright';

export const PAGE = fileURLToPath(new URL('../../crates/admin/ui/', import.meta.url));
// A server to test instead of the mock (`http://127.0.0.1:9090`); tests that steer the mock are skipped.
export const SERVER = process.env.ZONAL_UI ?? null;

export function launch() {
	return chromium.launch({
		executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
		args: ['--no-sandbox'],
	});
}

// The page's files have no package.json beside them, by which node would know that they are modules.
export async function pageModules(...names) {
	const folder = mkdtempSync(join(tmpdir(), 'zonal-ui-'));
	cpSync(PAGE, folder, { recursive: true });
	writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
	const all = {};
	for (const name of names)
		all[name.replace('/', '_')] = await import(pathToFileURL(join(folder, `${name}.js`)).href);
	rmSync(folder, { recursive: true });
	return all;
}

// A page that remembers violations of the CSP, errors, and frames.
export async function openPage(browser, address, options = {}, query = '') {
	const context = await browser.newContext({
		viewport: { width: 1440, height: 900 },
		timezoneId: 'UTC',
		...options,
	});
	const page = await context.newPage();
	page.faults = [];
	page.on('pageerror', error => page.faults.push(error.stack));
	await page.addInitScript(() => {
		window.seen = { violations: [], frames: 0 };
		document.addEventListener('securitypolicyviolation', event => {
			window.seen.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
		});
		const request = window.requestAnimationFrame.bind(window);
		window.requestAnimationFrame = work => {
			window.seen.frames += 1;
			return request(work);
		};
	});
	await page.goto(`${address}/ui/${query}`);
	return page;
}

export async function live(page) {
	await page.waitForFunction(() => document.documentElement.dataset.connection === 'live');
}

export function text(page, selector) {
	return page.locator(selector).innerText();
}

// Waits until the text of an element passes.
export async function until(page, selector, pattern, timeout = 15000) {
	await page.waitForFunction(
		([css, source]) => new RegExp(source).test(document.querySelector(css)?.textContent ?? ''),
		[selector, pattern.source],
		{ timeout },
	);
}

// Waits until the page shows what the server has: a patch comes once a second.
export async function same(page, shown, had) {
	for (const end = Date.now() + 30000; ; ) {
		const [left, right] = [await shown(), await had()];
		try {
			return assert.deepEqual(left, right);
		} catch (error) {
			if (Date.now() > end) throw error;
			await page.waitForTimeout(200);
		}
	}
}
