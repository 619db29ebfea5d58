// Makes an animation of a recording, for README: the strip and the zone map while it plays.
//
//   npm run animation -- RECORDING OUT.webp [key=value ...]
//   from=0 (seconds of the recording) seconds=10 (of the animation) speed=10 fps=5 theme=light scale=1
//
// The page's clock stands still while a frame is taken, so that frames come in equal steps.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { launch, PAGE } from './browser.mjs';

// Larger files do not belong in git: cargo xtask ci tidy.
const MOST_BYTES = 256 << 10;
const QUALITIES = [75, 55, 35];
// Every frame but the first is the difference to the one before.
const ONE_KEY_FRAME = ['-loop', '0', '-kmin', '0', '-kmax', '0'];
const WIDTH = 1100;
const TYPES = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml' };

const [recording, out, ...pairs] = process.argv.slice(2);
if (out === undefined) fail('usage: npm run animation -- RECORDING OUT.webp [key=value ...]');
if (spawnSync('img2webp', ['-version']).error)
	fail('img2webp is missing. It is in the package "webp" of Debian: apt-get install webp');
const options = { from: 0, seconds: 10, speed: 10, fps: 5, theme: 'light', scale: 1 };
Object.assign(options, Object.fromEntries(pairs.map(pair => pair.split('='))));
const [from, seconds, fps] = [options.from, options.seconds, options.fps].map(Number);

function fail(text) {
	console.error(text);
	process.exit(2);
}

// The files of the page, and the recording.
function serve() {
	const server = createServer((request, response) => {
		const path = normalize(new URL(request.url, 'http://page').pathname);
		try {
			if (path === '/api/v1/recording') {
				if (recording.endsWith('.gz')) response.setHeader('content-encoding', 'gzip');
				return response.end(readFileSync(recording));
			}
			const name = path === '/ui/' ? 'index.html' : path.replace(/^\/ui\//, '');
			response.setHeader('content-type', TYPES[extname(name)] ?? 'text/plain');
			return response.end(readFileSync(join(PAGE, name)));
		} catch {
			return response.writeHead(404).end();
		}
	});
	return new Promise(done => server.listen(0, '127.0.0.1', () => done(server)));
}

// Leaves the strip and the map, as wide as the window, and gives the part of the page that they cover.
function prepare(page) {
	return page.evaluate(() => {
		const hidden = '#player, .top, #verdict, .side, #lenses, #go, #legend-words, #map-keys, #zone-table';
		for (const node of document.querySelectorAll(hidden)) node.hidden = true;
		document.querySelector('.pair.wide').style.gridTemplateColumns = '1fr';
		document.querySelector('main').style.paddingTop = '16px';
		return new Promise(done => {
			requestAnimationFrame(() => {
				const { bottom } = document.getElementById('map').closest('.panel').getBoundingClientRect();
				done({ x: 0, y: 0, width: innerWidth, height: Math.ceil(bottom) + 16 });
			});
		});
	});
}

async function frames(folder) {
	const server = await serve();
	const browser = await launch();
	const page = await browser.newPage({
		viewport: { width: WIDTH, height: 760 },
		deviceScaleFactor: Number(options.scale),
		colorScheme: options.theme,
	});
	await page.clock.install();
	await page.goto(`http://127.0.0.1:${server.address().port}/ui/?play`);
	await page.waitForFunction(() => document.documentElement.dataset.connection === 'recording');
	await page.waitForFunction(() => !/so far/.test(document.querySelector('#player .quiet').textContent));
	await page.selectOption('#player select', String(options.speed));
	await page.$eval(
		'#player [type=range]',
		(slider, value) => {
			slider.value = value;
			slider.dispatchEvent(new Event('input'));
		},
		from,
	);
	const clip = await prepare(page);
	await page.waitForTimeout(1000);
	await page.clock.pauseAt(Date.now() + 2000);
	await page.keyboard.press(' ');
	const files = [];
	for (let n = 0; n < seconds * fps; n += 1) {
		await page.clock.runFor(1000 / fps);
		files.push(join(folder, `${String(n).padStart(4, '0')}.png`));
		await page.screenshot({ path: files.at(-1), clip, animations: 'allow' });
	}
	await browser.close();
	server.close();
	return files;
}

// The best quality that is small enough.
function joinFrames(files) {
	for (const quality of QUALITIES) {
		const each = ['-lossy', '-q', String(quality), '-m', '2', '-d', String(Math.round(1000 / fps))];
		execFileSync('img2webp', [...ONE_KEY_FRAME, ...each, ...files, '-o', out], { stdio: 'ignore' });
		const { size } = statSync(out);
		console.log(`${out}: ${files.length} frames, quality ${quality}, ${size} bytes`);
		if (size <= MOST_BYTES) return;
	}
	fail(`${out} has more than ${MOST_BYTES} bytes: take fewer seconds, or a smaller scale`);
}

const folder = mkdtempSync(join(tmpdir(), 'zonal-animation-'));
joinFrames(await frames(folder));
rmSync(folder, { recursive: true });
