// A real Zonal in a folder of its own: `ZONAL` in the environment is the path of the program.
import { execFileSync, spawn } from 'node:child_process';
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

export const PROGRAM = resolve(process.env.ZONAL ?? '../../target/gate/zonal');
const KEY = 'AKIAIOSFODNN7EXAMPLE';
const SECRET = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const PATIENCE_MS = 60000;

export class Zonal {
	constructor() {
		this.folder = mkdtempSync(join(tmpdir(), 'zonal-ui-'));
		mkdirSync(this.path('origin/bucket'), { recursive: true });
		this.address = '127.0.0.1:0';
	}

	path(name) {
		return join(this.folder, name);
	}

	object(key, bytes) {
		writeFileSync(this.path(`origin/bucket/${key}`), randomBytes(bytes));
	}

	// Starts it; a second start has the admin address of the first, because a page is open there.
	async start(words) {
		const keys = ['--access-key', KEY, '--secret-key', SECRET, '--freshness', 'immutable'];
		const fixed = ['serve', '--listen', '127.0.0.1:0', '--admin', this.address, '--origin', 'file:origin'];
		this.process = spawn(PROGRAM, [...fixed, ...keys, ...words], { cwd: this.folder });
		this.ended = new Promise(done => this.process.once('exit', done));
		let out = '';
		let log = '';
		this.process.stderr.on('data', data => (log += data));
		await new Promise((done, fail) => {
			this.process.stdout.on('data', data => {
				out += data;
				if (/survives a restart/.test(out)) done();
			});
			// After the start this changes nothing.
			this.process.once('exit', code => fail(new Error(`zonal ended with ${code}: ${log}`)));
		});
		[, this.endpoint] = /serves S3 at http:\/\/([\d.:]+)/.exec(out);
		[, this.address] = /http:\/\/([\d.:]+)\/metrics/.exec(out);
		this.admin = `http://${this.address}`;
	}

	async stop() {
		this.process.kill('SIGTERM');
		await this.ended;
	}

	async remove() {
		this.process.kill('SIGKILL');
		await this.ended;
		rmSync(this.folder, { recursive: true });
	}

	async get(key) {
		const answer = await fetch(presigned(this.endpoint, `/bucket/${key}`));
		await answer.arrayBuffer();
		return answer.status;
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

	// Waits until all admitted bytes are on flash.
	async settle() {
		for (const end = Date.now() + PATIENCE_MS; (await this.metric('zonal_cache_backlog_bytes')) !== 0; ) {
			if (Date.now() > end) throw new Error('the backlog stays');
			await new Promise(done => setTimeout(done, 100));
		}
	}

	// Status of a GET with these headers, which fetch does not let a caller set.
	status(path, headers) {
		const [host, port] = this.address.split(':');
		return new Promise((done, fail) => {
			const asked = request({ host, port, path, headers }, answer => {
				answer.destroy();
				done(answer.statusCode);
			});
			asked.on('error', fail).end();
		});
	}

	inspect(spec) {
		const out = execFileSync(PROGRAM, ['inspect', '--json', spec], { cwd: this.folder, encoding: 'utf8' });
		return out.trim().split('\n').map(JSON.parse);
	}
}

// A presigned URL (AWS Signature Version 4).
function presigned(host, path) {
	const now = `${new Date().toISOString().replace(/[-:]/g, '').slice(0, 15)}Z`;
	const scope = [now.slice(0, 8), 'us-east-1', 's3', 'aws4_request'];
	const query = new URLSearchParams({
		'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
		'X-Amz-Credential': [KEY, ...scope].join('/'),
		'X-Amz-Date': now,
		'X-Amz-Expires': '60',
		'X-Amz-SignedHeaders': 'host',
	});
	query.sort();
	const canonical = ['GET', path, query, `host:${host}`, '', 'host', 'UNSIGNED-PAYLOAD'].join('\n');
	const hash = createHash('sha256').update(canonical).digest('hex');
	const text = ['AWS4-HMAC-SHA256', now, scope.join('/'), hash].join('\n');
	const hmac = (key, part) => createHmac('sha256', key).update(part).digest();
	const signature = hmac(scope.reduce(hmac, `AWS4${SECRET}`), text).toString('hex');
	return `http://${host}${path}?${query}&X-Amz-Signature=${signature}`;
}
