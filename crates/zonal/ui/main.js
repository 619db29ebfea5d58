// Zonal's page: connects the server's stream to the views. Read next: live.js, then rates.js, then a view.
import { byId } from './dom.js';
import { addedCounts } from './buckets.js';
import { Devices } from './devices.js';
import { LiveBytes } from './flash.js';
import { Events } from './events.js';
import { Heat } from './heatmap.js';
import { History } from './history.js';
import { Legend } from './legend.js';
import { Live } from './live.js';
import { measured } from './perf.js';
import { Origins } from './origins.js';
import { Rates } from './rates.js';
import { Series } from './series.js';
import { startTheme } from './theme.js';
import { Strip } from './strip.js';
import { Verdict } from './verdict.js';
import { ZoneMap } from './zonemap.js';
import { ZoneStory } from './zone.js';
import { ZoneTable } from './table.js';

const API = '../api/v1';
const LATER_MS = 40;

startTheme(byId('theme'));
const rates = new Rates();
const verdict = new Verdict();
const strip = new Strip();
const legend = new Legend();
const story = new ZoneStory(`${API}/zones`, {
	opened: (device, zone) => map.select(device, zone),
	closed: () => map.select(null, null),
});
const open = (device, zone) => story.open(device, zone);
const map = new ZoneMap(
	{ frame: byId('map'), tip: byId('tip'), zoom: byId('zoom') },
	{ open, uses: counts => legend.show(counts) },
);
const events = new Events(open);
const table = new ZoneTable(open);
const history = new History(`${API}/history`);
const heat = new Heat(history);
const series = new Series(history);
const devices = new Devices();
const liveBytes = new LiveBytes();
const origins = new Origins();
let started = null;
let added = [];
let past = true;
let later;

const live = new Live(`${API}/live`, {
	state(state, since, before) {
		verdict.connection(state, since, before);
		if (state === 'lost' && before === 'live') events.say(live.doc.at_ns, 'This page lost its connection.');
	},
	document(doc) {
		const restarted = started !== null && started !== doc.started_at_ns;
		started = doc.started_at_ns;
		rates.reset();
		events.reset();
		if (restarted) {
			events.say(started, 'The server restarted.');
			verdict.restarted(started);
		}
		past = true;
		history.begin();
		liveBytes.document(doc);
		map.document(doc);
		story.refresh();
		show(doc, []);
	},
	before(doc, patch) {
		added = addedCounts(doc, patch);
		liveBytes.before(doc, patch);
	},
	patch(doc, patch) {
		// A counter that begins anew without a new document would otherwise give false rates.
		if (doc.started_at_ns !== started) {
			started = doc.started_at_ns;
			rates.reset();
			history.begin();
		}
		map.update(doc, patch);
		story.changed(patch.zones);
		show(doc, added);
	},
	events(list) {
		events.add(list);
		map.events(list, past);
		past = false;
	},
});

function show(doc, counts) {
	const totals = rates.note(doc, counts);
	history.note(totals, counts);
	verdict.update(doc);
	strip.update(doc, rates);
	// The rest comes in a later frame: a frame is to stay short.
	clearTimeout(later);
	later = setTimeout(() => measured('tables', () => showTables(doc)), LATER_MS);
}

function showTables(doc) {
	heat.update(rates);
	devices.update(doc, rates, liveBytes);
	origins.update(doc, rates);
	table.update(doc);
}

history.listen((points, span) => {
	if (span === 'fine') strip.sparks(points);
});

for (const lens of document.querySelectorAll('input[name=lens]')) {
	lens.addEventListener('change', () => {
		map.setLens(lens.value);
		legend.setLens(lens.value);
	});
}
for (const range of document.querySelectorAll('input[name=range]')) {
	range.addEventListener('change', () => {
		heat.setSpan(range.value);
		series.setSpan(range.value);
	});
}
byId('go').addEventListener('submit', event => {
	event.preventDefault();
	const [device, zone] = ['go-device', 'go-zone'].map(id => byId(id).valueAsNumber);
	if (Number.isInteger(zone)) open(Number.isInteger(device) ? device : 0, zone);
});

live.start();
