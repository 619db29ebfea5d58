// The page before a real block device: its numbers are those of /metrics and the API.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch, live, openPage, same, text, until } from './browser.mjs';
import { PROGRAM } from './zonal.mjs';

// The smallest devices, so that compaction and garbage collection start soon.
const CAPACITY = 'emulator:p5800x-optane?size=512MiB&zone=16MiB&backing=capacity';
const BUFFER = 'emulator:p5800x-optane?size=256MiB&zone=8MiB&backing=buffer&trouble=trouble';
const EXPORT_MIB = 300;
const MIB = 1 << 20;

let browser;
let block;
let page;

class Block {
	constructor() {
		this.folder = mkdtempSync(join(tmpdir(), 'zonal-ui-'));
		this.address = '127.0.0.1:0';
	}

	path(name) {
		return join(this.folder, name);
	}

	async start() {
		const devices = ['--capacity', CAPACITY, '--buffer', BUFFER, '--export', `vm=${EXPORT_MIB}MiB`];
		const words = ['block', '--socket', this.path('nbd'), '--admin', this.address, ...devices];
		this.process = spawn(PROGRAM, words, { cwd: this.folder });
		this.ended = new Promise(done => this.process.once('exit', done));
		let out = '';
		this.process.stderr.resume();
		await new Promise((done, fail) => {
			this.process.stdout.on('data', data => {
				out += data;
				if (/--admin [\d.:]+\n/.test(out)) done();
			});
			// After the start this changes nothing.
			this.process.once('exit', code => fail(new Error(`zonal ended with ${code}: ${out}`)));
		});
		[, this.address] = /--admin ([\d.:]+)\n/.exec(out);
		this.admin = `http://${this.address}`;
	}

	async stop() {
		this.process.kill('SIGTERM');
		assert.equal(await this.ended, 0);
	}

	// Writes MiB of the export, one after the other; false if a write fails.
	write(mib) {
		const commands = mib.flatMap(at => ['-c', `write -P ${(at % 250) + 1} ${at * MIB} ${MIB}`]);
		const url = `nbd+unix:///vm?socket=${this.path('nbd')}`;
		try {
			const limits = { encoding: 'utf8', timeout: 120000 };
			const said = execFileSync('qemu-io', ['-f', 'raw', ...commands, url], limits);
			return !/failed/.test(said);
		} catch {
			return false;
		}
	}

	async json(path) {
		return (await fetch(this.admin + path)).json();
	}

	// Sum of the metrics whose name and labels begin so.
	async metric(pattern) {
		const lines = (await (await fetch(`${this.admin}/metrics`)).text()).split('\n');
		const found = lines.filter(line => new RegExp(`^${pattern}`).test(line));
		return found.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
	}
}

before(async () => {
	block = new Block();
	await block.start();
	browser = await launch();
	page = await openPage(browser, block.admin);
	await live(page);
});
after(async () => {
	assert.deepEqual(page?.faults ?? [], []);
	assert.deepEqual(await page?.evaluate(() => window.seen.violations), []);
	await browser?.close();
	block?.process.kill('SIGKILL');
	await block?.ended;
	rmSync(block.folder, { recursive: true });
});

// Number of zones by use, as the legend has them.
async function legend() {
	const words = await text(page, '#legend');
	const of = word => Number(new RegExp(`${word}\\s*([\\d,]+)`).exec(words)?.[1].replace(',', '') ?? 0);
	const open = ['user', 'compaction', 'collection', 'map'].map(stream => of(`open, ${stream}`));
	return {
		empty: of('empty'),
		open: open.reduce((sum, count) => sum + count),
		full: of('full'),
		emptying: of('emptying'),
	};
}

test('zones: both tiers are emptied, and the page, /metrics and the API have the same numbers', async () => {
	const all = Array.from({ length: EXPORT_MIB }, (_, n) => n);
	for (let round = 0; (await block.metric('zonal_block_zones_reset_total{tier="capacity"}')) < 3; round += 1) {
		assert.ok(round < 40, 'garbage collection has nothing to do');
		assert.ok(block.write(round === 0 ? all : all.map(n => (n * 37 + round * 13) % EXPORT_MIB).slice(0, 150)));
	}
	await until(page, '#event-list', /of the buffer was chosen for compaction/);
	await until(page, '#event-list', /was reset and is empty/);
	await same(page, legend, async () => {
		const uses = ['empty', 'open', 'full', 'emptying'];
		const counts = uses.map(async use => [use, await block.metric(`zonal_block_zones{.*use="${use}"}`)]);
		return Object.fromEntries(await Promise.all(counts));
	});
});

test('the story of a zone is that of the API', async () => {
	const { candidates } = await block.json('/api/v1/zones/3?tier=capacity');
	await page.selectOption('#go-tier', 'capacity');
	await page.fill('#go-zone', '3');
	await page.click('#go button');
	await until(page, '#story', /Zone 3 of the capacity tier/);
	assert.ok(candidates >= 0);
});

test('exports: what clients wrote is that of the API', async () => {
	const written = await block.metric('zonal_block_written_bytes_total');
	assert.ok(written >= EXPORT_MIB * MIB);
	await same(
		page,
		() => page.$$eval('#exports tr', rows => rows.map(row => row.children[0].textContent)),
		async () => (await block.json('/stats')).exports.map(({ name }) => name),
	);
});

test('a device that takes no writes is shown, and its return', async () => {
	writeFileSync(block.path('trouble'), 'full');
	assert.equal(block.write([1]), false);
	await until(page, '#trouble', /buffer device takes no writes/);
	assert.match(await text(page, '#trouble'), /ZonalBlockReadOnly/);
	rmSync(block.path('trouble'));
	await until(page, '#verdict-title', /All is well/, 60000);
});

test('the block device restarts while the page is open', async () => {
	await block.stop();
	await until(page, '#notice-text', /Connection lost/);
	await block.start();
	await live(page);
	await until(page, '#event-list', /The server restarted/);
});
