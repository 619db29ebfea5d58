// Recordings: how they are read, and the document and events at each sample.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pageModules } from './browser.mjs';
import { recordingOf } from './mock.mjs';

const { merge, play_recording, play_past, cache_totals, cache_history } = await pageModules(
	...['merge', 'play/recording', 'play/past', 'cache/totals', 'cache/history'],
);
const { messagesOf, Recording } = play_recording;

// All messages of a text that comes in pieces of a size.
async function messages(text, size = 1000) {
	const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
	const all = [];
	for await (const message of messagesOf(ReadableStream.from(pieces))) all.push(message);
	return all;
}

// The recording of a text, and what the page has after each sample, straight from start to end.
async function straight(text) {
	const recording = new Recording();
	const expected = [];
	let [doc, events] = [null, []];
	for (const [event, data] of await messages(text)) {
		recording.add(event, data);
		if (event === 'document') [doc, events] = [JSON.parse(data), []];
		else if (event === 'patch') doc = merge.merge(doc, JSON.parse(data));
		else events = [...events, ...JSON.parse(data)];
		if (event === 'events') expected.at(-1).events = JSON.stringify(events);
		else expected.push({ doc: JSON.stringify(doc), events: JSON.stringify(events) });
	}
	return { recording, expected };
}

const small =
	'event: document\ndata: {"at_ns":1,"a":{"b":1}}\n\nevent: events\ndata: [{"at_ns":0}]\n\n' +
	'event: patch\ndata: {"at_ns":2,"a":{"b":null,"c":"ü"}}\n\n';

test('messages: line ends of either kind, in pieces of any size, and without one that is cut off', async () => {
	const expected = [
		['document', '{"at_ns":1,"a":{"b":1}}'],
		['events', '[{"at_ns":0}]'],
		['patch', '{"at_ns":2,"a":{"b":null,"c":"ü"}}'],
	];
	for (const text of [small, small.replaceAll('\n', '\r\n')]) {
		for (const size of [1, 2, 3, 7, 1000]) assert.deepEqual(await messages(text, size), expected);
		for (let end = text.length - 1; end > text.length - 40; end -= 1)
			assert.deepEqual(await messages(text.slice(0, end)), expected.slice(0, 2), String(end));
	}
	assert.deepEqual(await messages(''), []);
	// A line separator inside of a string ends no line.
	assert.deepEqual(await messages('event: patch\ndata: {"a":"\u2028"}\n\n'), [['patch', '{"a":"\u2028"}']]);
});

test('messages that cannot be read are left out, as is all before the first document', () => {
	const recording = new Recording();
	const doc = '{"at_ns":5,"started_at_ns":1}';
	assert.equal(recording.add('patch', '{"at_ns":1}'), false);
	assert.equal(recording.add('events', '[{"event":"victim-chosen"}]'), false);
	assert.equal(recording.add('document', doc), true);
	assert.equal(recording.add('patch', '{"at_ns":'), false);
	assert.equal(recording.add(undefined, undefined), false);
	assert.equal(recording.add('something-new', '{"at_ns":7}'), false);
	assert.deepEqual(recording.samples, [{ at: 5, text: doc, start: 0, events: [] }]);
});

for (const kind of ['cache', 'block'])
	test(`seek, ${kind}: forward and back, every sample is that of straight application`, async () => {
		const { recording, expected } = await straight(recordingOf({ kind, zones: 60, seed: 3 }, 150));
		assert.equal(recording.samples.length, 151);
		const order = [...expected.keys()];
		const far = order.map(n => (n * 67) % expected.length);
		for (const number of [...order, ...order.toReversed(), ...far]) {
			assert.equal(JSON.stringify(recording.stateAt(number)), expected[number].doc, `sample ${number}`);
			assert.equal(JSON.stringify(recording.eventsAt(number)), expected[number].events);
		}
		// Looking back changes nothing.
		assert.equal(JSON.stringify(recording.doc), expected.at(-1).doc);
	});

test('several documents: a restart begins anew, and says so', async () => {
	const { recording, expected } = await straight(recordingOf({ zones: 60, seed: 3 }, 70, 80));
	assert.equal(recording.samples.length, 152);
	assert.deepEqual([...new Set(recording.samples.map(({ start }) => start))], [0, 71]);
	for (const number of [151, 70, 71, 72, 131, 0]) {
		assert.equal(JSON.stringify(recording.stateAt(number)), expected[number].doc, `sample ${number}`);
		const events = recording.eventsAt(number);
		const told = events.filter(({ event }) => event === 'page').map(({ text }) => text);
		assert.deepEqual(told, number < 71 ? [] : ['The server restarted.']);
		assert.equal(JSON.stringify(events.filter(({ event }) => event !== 'page')), expected[number].events);
	}
});

test('victims are those that were chosen meanwhile, not those that were before', async () => {
	const text = recordingOf({ zones: 200, seed: 7 }, 60);
	const { recording } = await straight(text);
	const chosen = recording.samples
		.map(({ events }, number) => (events.some(({ event }) => event === 'victim-chosen') ? number : 0))
		.filter(number => number > 0);
	assert.deepEqual(recording.victims, chosen);
	assert.ok(chosen.length > 5);
});

test('history: at any moment the points until then, each of its interval', async () => {
	const text = recordingOf({ zones: 60, seed: 3 }, 130, 40);
	const { history, heat } = cache_history;
	const past = new play_past.RecordedHistory({ history, heat, totals: cache_totals.totals });
	const recording = new Recording();
	past.clear();
	for (const [event, data] of await messages(text)) {
		if (!recording.add(event, data)) continue;
		if (event === 'document') past.cut();
		past.collect(recording.doc, recording.counts);
	}
	const told = [];
	past.listen((points, span) => told.push([span, points.length]));
	const reads = number => {
		const { hit, revalidated, miss } = recording.stateAt(number).answers;
		return hit + revalidated + miss;
	};
	for (const [number, fine, coarse] of [
		[130, 26, 2],
		[12, 2, 0],
		[4, 0, 0],
		[60, 12, 1],
		// After the restart at 131.
		[140, 27, 2],
	]) {
		past.note({ at: recording.samples[number].at });
		assert.equal(past.spans.fine.points.length, fine, String(number));
		assert.equal(past.spans.coarse.points.length, coarse, String(number));
	}
	past.note({ at: recording.samples[10].at });
	const [first, second] = past.spans.fine.points;
	assert.deepEqual([first.reads, second.reads], [reads(5) - reads(0), reads(10) - reads(5)]);
	assert.ok(first.p99 > first.p50 && first.heat.length > 0);
	const before = told.length;
	past.note({ at: recording.samples[11].at });
	assert.equal(told.length, before);
});

test('an hour of 1,000 zones: memory, and the time of a seek', async () => {
	const recording = new Recording();
	const text = recordingOf({ zones: 1000, seed: 3 }, 600);
	globalThis.gc?.();
	const all = await messages(text, 65536);
	// Six times the same ten minutes.
	for (let n = 0; n < 6; n += 1) for (const [event, data] of all) recording.add(event, data);
	const chars = recording.samples.reduce((sum, { text: each }) => sum + each.length, 0);
	const snapshots = [...recording.whole.values()].reduce((sum, { length }) => sum + length, 0);
	const start = performance.now();
	for (let n = 0; n < 20; n += 1) recording.stateAt((n * 599 + 59) % recording.samples.length);
	const each = (performance.now() - start) / 20;
	const mega = value => (value / 1e6).toFixed(1);
	console.log(`an hour: ${mega(chars)} MB of samples, ${mega(snapshots)} MB of snapshots, ${each.toFixed(1)} ms`);
	assert.ok(chars + snapshots < 250e6);
	assert.ok(each < 60, `${each} ms`);
});
