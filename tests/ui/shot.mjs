// Takes a screenshot of the page before the mock, to look at: node shot.mjs FILE.png [key=value ...].
import { chromium } from 'playwright';
import { Mock } from './mock.mjs';

const [path, ...pairs] = process.argv.slice(2);
const options = Object.fromEntries(pairs.map(pair => pair.split('=')));
const mock = new Mock({ zones: 1000, speed: 1, ...options });
const at = await mock.listen();
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({
	viewport: { width: Number(options.width ?? 1440), height: 900 },
	colorScheme: options.theme ?? 'light',
	timezoneId: 'UTC',
});
page.on('console', message => console.log(message.type(), message.text()));
page.on('pageerror', error => console.log('error', error.message, error.stack));
await page.goto(`${at}/ui/`);
await page.waitForTimeout(Number(options.wait ?? 6000));
if (options.lens) await page.click(`label:has(input[value=${options.lens}])`);
if (options.tier) await page.selectOption('#go-tier', options.tier);
if (options.open)
	await page.evaluate(zone => {
		document.getElementById('go-zone').value = zone;
	}, options.open);
if (options.open) await page.click('#go button');
if (options.path) await page.check(`input[name=path][value=${options.path}]`);
if (options.range) await page.click(`label:has(input[value=${options.range}])`);
if (options.hover) await page.mouse.move(...options.hover.split(',').map(Number));
if (options.do) mock.do(...options.do.split(',').map((word, n) => (n === 1 ? Number(word) : word)));
await page.waitForTimeout(Number(options.after ?? 1500));
await page.screenshot({ path, fullPage: options.full !== '0' });
await browser.close();
mock.close();
