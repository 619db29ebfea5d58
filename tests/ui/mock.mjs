// A stand-in for the admin endpoint: serves the page with Zonal's CSP, and the API from a simulation.
//
//   node mock.mjs [port]          then open http://127.0.0.1:PORT/ui/
//   kind= zones= seed= speed= scenario= devices= shards= record=
//   from the environment (ZONES, SEED, ...), or in POST /mock/new?...
//
// speed 1 is one tick a second; speed 0 ticks only when told: POST /mock/do?what=step&n=5.
// record: seconds of a recording of the same simulation, at /api/v1/recording.
// kind: cache, block (devices=1: both tiers on one device). scenario: well, trouble, off (cache), starting.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { BlockSim } from './blocksim.mjs';
import { Sim } from './sim.mjs';

const PAGE = fileURLToPath(new URL('../../crates/admin/ui/', import.meta.url));
const TYPES = {
	html: 'text/html; charset=utf-8',
	css: 'text/css; charset=utf-8',
	js: 'text/javascript; charset=utf-8',
	txt: 'text/plain; charset=utf-8',
	svg: 'image/svg+xml',
};
const CSP =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const KEYS = ['kind', 'zones', 'seed', 'speed', 'scenario', 'devices', 'shards', 'record'];

export class Mock {
	constructor(settings = {}) {
		this.viewers = new Set();
		this.start(settings);
		this.server = createServer((request, response) => this.answer(request, response));
	}

	start(settings) {
		clearInterval(this.timer);
		const speed = Number(settings.speed ?? 1);
		const numbers = Object.fromEntries(
			['zones', 'seed', 'devices', 'shards']
				.filter(key => settings[key] !== undefined)
				.map(key => [key, Number(settings[key])]),
		);
		this.settings = settings;
		this.recording = settings.record > 0 ? recordingOf(settings, Number(settings.record)) : null;
		this.asked = [];
		this.state = settings.scenario === 'starting' ? 'starting' : 'up';
		this.sim = new (settings.kind === 'block' ? BlockSim : Sim)({
			...numbers,
			scenario: settings.scenario,
			base: settings.base ?? (speed === 0 ? undefined : Date.now() - 90_000),
		});
		this.sim.remember();
		this.sim.fresh = [];
		this.sent = this.sim.head();
		this.sentZones = this.sim.zones();
		for (const viewer of this.viewers) viewer.destroy();
		// A server sends once a second, also when only its clock has moved.
		this.timer =
			speed > 0
				? setInterval(() => this.step(1), 1000 / speed)
				: setInterval(() => this.broadcast('patch', { at_ns: this.sim.now() }), 1000);
	}

	listen(port = 0) {
		return new Promise(done => {
			this.server.listen(port, '127.0.0.1', () => done(`http://127.0.0.1:${this.server.address().port}`));
		});
	}

	close() {
		clearInterval(this.timer);
		for (const viewer of this.viewers) viewer.destroy();
		this.server.close();
	}

	step(n) {
		for (let k = 0; k < n; k += 1) {
			this.sim.tick();
			const head = this.sim.head();
			const patch = difference(this.sent, head) ?? {};
			this.sent = head;
			const zones = this.changedZones();
			if (zones !== null) patch.zones = zones;
			this.broadcast('patch', patch);
			if (this.sim.fresh.length > 0) this.broadcast('events', this.sim.fresh);
			this.sim.fresh = [];
		}
	}

	changedZones() {
		const patch = {};
		for (const shard of this.sim.allShards()) {
			const { key } = shard;
			for (const zone of shard.dirty) {
				const facts = { ...this.sentZones[key].zones[zone], ...shard.zones.get(zone) };
				const change = difference(this.sentZones[key].zones[zone], facts);
				this.sentZones[key].zones[zone] = facts;
				if (change !== null) ((patch[key] ??= {}).zones ??= {})[zone] = change;
			}
			shard.dirty.clear();
			const next = this.sim.next(shard);
			if (JSON.stringify(next) === JSON.stringify(this.sentZones[key].next)) continue;
			(patch[key] ??= {}).next = next ?? null;
			this.sentZones[key].next = next;
		}
		return Object.keys(patch).length > 0 ? patch : null;
	}

	broadcast(event, data) {
		for (const viewer of this.viewers) viewer.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
	}

	async answer(request, response) {
		const url = new URL(request.url, 'http://mock');
		// The page must work below any path of a reverse proxy.
		const path = url.pathname.replace(/^\/behind\/a\/proxy(?=\/)/, '');
		response.setHeader('cache-control', 'no-store');
		if (path.startsWith('/mock/')) return this.control(path, url.searchParams, response);
		if (this.state === 'down') return request.destroy();
		if (path === '/ui') return response.writeHead(308, { location: '/ui/' }).end();
		if (path.startsWith('/ui/')) return page(path.slice(4) || 'index.html', response);
		if (this.state === 'starting') return response.writeHead(503, { 'retry-after': '1' }).end('starting');
		this.asked.push(path);
		if (path === '/api/v1/recording') return this.sendRecording(response);
		if (path === '/api/v1/live') return this.stream(response);
		if (path === '/api/v1/history') return json(response, this.sim.history());
		if (path === '/api/v1/prefixes' && this.sim.prefixes) return json(response, this.sim.prefixes());
		const zone = /^\/api\/v1\/zones\/(\d+)$/.exec(path);
		if (zone === null) return response.writeHead(404).end();
		const found = this.sim.zone(Number(zone[1]), url.searchParams);
		return found === null ? response.writeHead(404).end('no such zone') : json(response, found);
	}

	stream(response) {
		response.writeHead(200, { 'content-type': 'text/event-stream' });
		this.greet(response);
		response.on('close', () => this.viewers.delete(response));
	}

	// A viewer is what has write(text).
	greet(viewer) {
		viewer.write(`event: document\ndata: ${JSON.stringify({ ...this.sent, zones: this.sentZones })}\n\n`);
		viewer.write(`event: events\ndata: ${JSON.stringify(this.sim.events)}\n\n`);
		this.viewers.add(viewer);
	}

	sendRecording(response) {
		if (this.recording === null) return response.writeHead(404).end();
		// One that grows: a function writes it.
		if (typeof this.recording === 'function') return this.recording(response);
		const bytes = Buffer.from(this.recording);
		response.writeHead(200, { 'content-type': 'text/event-stream', 'content-length': bytes.length });
		return response.end(bytes);
	}

	control(path, query, response) {
		const settings = Object.fromEntries(
			KEYS.filter(key => query.has(key)).map(key => [key, query.get(key)]),
		);
		if (path === '/mock/zones') return json(response, this.numbers());
		if (path === '/mock/new') this.start(settings);
		else this.do(query.get('what'), Number(query.get('n') ?? 1), query.get('name') ?? undefined);
		return response.end('ok\n');
	}

	// Numbers of the zones of each band, in their order.
	numbers() {
		const numbers = zones => [...zones.keys()].sort((a, b) => a - b);
		return Object.fromEntries(this.sim.allShards().map(({ key, zones }) => [key, numbers(zones)]));
	}

	do(what, n, name) {
		const { sim } = this;
		const acts = {
			step: () => this.step(n),
			isolate: () => sim.isolate(n),
			readmit: () => sim.readmit(n),
			fail: () => sim.failOrigin(name ?? 'main'),
			silence: () => sim.failOrigin(name ?? 'main', 'silent'),
			heal: () => sim.healOrigin(name ?? 'main'),
			'read-only': () => sim.readOnly(name),
			writable: () => sim.writable(name),
			off: () => {
				sim.caching = 'off';
			},
			on: () => {
				sim.caching = 'on';
			},
			drop: () => {
				for (const viewer of this.viewers) viewer.destroy();
			},
			down: () => {
				this.state = 'down';
				for (const viewer of this.viewers) viewer.destroy();
			},
			starting: () => {
				this.state = 'starting';
				for (const viewer of this.viewers) viewer.destroy();
			},
			up: () => {
				this.state = 'up';
			},
			freeze: () => clearInterval(this.timer),
			// With the name of a kind it is of that kind from then on.
			restart: () => {
				this.start({ ...this.settings, kind: name ?? this.settings.kind });
				this.restarted();
			},
		};
		acts[what]?.();
	}

	restarted() {
		this.sim.started = Math.floor(this.sim.now() / 1e6);
		this.sent = this.sim.head();
	}
}

// What a viewer of a new simulation is sent in so many seconds; of several numbers, with a restart between them.
export function recordingOf(settings, ...seconds) {
	const parts = [];
	const mock = new Mock({ ...settings, speed: 0, record: 0 });
	clearInterval(mock.timer);
	const viewer = { write: text => parts.push(text), destroy() {} };
	seconds.forEach((ticks, n) => {
		if (n > 0) {
			const { base, ticks: before } = mock.sim;
			mock.start({ ...mock.settings, base: base + (before + 30) * 1000 });
			clearInterval(mock.timer);
			mock.restarted();
		}
		mock.viewers.clear();
		mock.greet(viewer);
		mock.step(ticks);
	});
	return parts.join('');
}

function json(response, value) {
	response.setHeader('content-type', 'application/json');
	response.end(JSON.stringify(value));
}

async function page(name, response) {
	const type = TYPES[name.split('.').pop()];
	if (!/^((cache|block|play)\/)?[\w.-]+$/.test(name) || type === undefined) return response.writeHead(404).end();
	try {
		const bytes = await readFile(PAGE + name);
		response.writeHead(200, {
			'content-type': type,
			'content-security-policy': CSP,
			'x-content-type-options': 'nosniff',
		});
		return response.end(bytes);
	} catch {
		return response.writeHead(404).end();
	}
}

// The merge patch (RFC 7396) from one value to another; null when they are equal.
export function difference(before, after) {
	const patch = {};
	let changed = false;
	for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
		const [old, now] = [before[key], after[key]];
		if (now === undefined) patch[key] = null;
		else if (isObject(old) && isObject(now)) {
			const inner = difference(old, now);
			if (inner === null) continue;
			patch[key] = inner;
		} else if (JSON.stringify(old) === JSON.stringify(now)) continue;
		else patch[key] = now;
		changed = true;
	}
	return changed ? patch : null;
}

function isObject(value) {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const settings = Object.fromEntries(
		KEYS.filter(key => process.env[key.toUpperCase()] !== undefined).map(key => [
			key,
			process.env[key.toUpperCase()],
		]),
	);
	const at = await new Mock(settings).listen(Number(process.argv[2] ?? 9099));
	console.log(`${at}/ui/`);
}
