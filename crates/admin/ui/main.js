// Zonal's page: connects the server's stream to the views. The first document has the kind of the server; its
// own views are in cache/ or block/. Read next: live.js, rates.js, cache/view.js, then a view.
import { byId, h } from './dom.js';
import { addedCounts } from './buckets.js';
import { Events } from './events.js';
import { Heat } from './heatmap.js';
import { Legend } from './legend.js';
import { Live } from './live.js';
import { Rates } from './rates.js';
import { Series } from './series.js';
import { startTheme } from './theme.js';
import { Strip } from './strip.js';
import { Verdict } from './verdict.js';
import { ZoneMap } from './zonemap.js';
import { ZoneStory } from './zone.js';
import { ZoneSums } from './zonesums.js';
import { ZoneTable } from './table.js';

const API = '../api/v1';
const LATER_MS = 40;

startTheme(byId('theme'));
const verdict = new Verdict();
const playing = new URLSearchParams(location.search).has('play');
const Source = playing ? (await import('./play/player.js')).Player : Live;
let page = null;

// What a source calls. The rest comes from `pageOf`, once the kind of the server is known.
const handlers = {
	async kind(name) {
		const { kind } = await import(`./${name === 'block' ? name : 'cache'}/view.js`);
		page ??= Object.assign(handlers, pageOf(kind));
	},
	state(state, since, before) {
		verdict.connection(state, since, before);
		if (state === 'lost' && before === 'live') page.say(source.doc.at_ns, 'This page lost its connection.');
	},
};
const source = new Source(API, handlers);

// `kind`: what the views ask of a kind; cache/view.js names its parts.
function pageOf(kind) {
	const rates = new Rates(kind.totals);
	const strip = new Strip(kind.strip);
	const legend = new Legend(kind.looks);
	const story = new ZoneStory(source, kind, {
		opened: (place, zone) => map.select(place, zone),
		closed: () => map.select(null, null),
	});
	const open = (place, zone) => story.open(place, zone);
	const map = new ZoneMap(kind.looks, { open, uses: counts => legend.show(counts) });
	const events = new Events(kind.events, open);
	const table = new ZoneTable(kind.looks, open);
	const history = source.history(kind);
	const heat = new Heat(history, kind.heat);
	const series = new Series(history, kind.charts);
	const sums = new ZoneSums();
	const panels = kind.panels(playing);
	let started = null;
	let added = [];
	let past = true;
	let later = null;

	// `more`: another patch follows at once.
	function show(doc, counts, more) {
		const totals = rates.note(doc, counts);
		if (more) return;
		history.note(totals, counts);
		verdict.update(doc, kind.about(doc), kind.trouble?.(doc));
		strip.update(doc, rates);
		// The rest comes in a later frame: a frame is to stay short.
		later ??= setTimeout(() => {
			later = null;
			showTables(source.doc);
		}, LATER_MS);
	}

	function showTables(doc) {
		heat.update(rates);
		for (const panel of panels) panel.update(doc, rates, sums);
		table.update(doc);
	}

	document.querySelector('main').append(...panels.map(({ node }) => node));
	history.listen((points, span) => {
		if (span === 'fine') strip.sparks(points);
	});
	for (const lens of Object.keys(kind.looks.lenses)) {
		const onchange = () => {
			map.setLens(lens);
			legend.setLens(lens);
		};
		const radio = h('input', { type: 'radio', name: 'lens', value: lens, checked: lens === 'use', onchange });
		byId('lenses').append(h('label', {}, radio, lens));
	}
	for (const range of document.querySelectorAll('input[name=range]')) {
		range.addEventListener('change', () => {
			heat.setSpan(range.value);
			series.setSpan(range.value);
		});
	}
	byId('go').prepend(h('label', {}, `${kind.place.field} `, kind.place.input));
	byId('go').addEventListener('submit', event => {
		event.preventDefault();
		const zone = byId('go-zone').valueAsNumber;
		if (Number.isInteger(zone)) open(kind.place.chosen(), zone);
	});

	return {
		say: (at, text) => events.say(at, text),
		document(doc, more) {
			const restarted = !playing && started !== null && started !== doc.started_at_ns;
			started = doc.started_at_ns;
			rates.reset();
			events.reset();
			if (restarted) {
				events.say(started, 'The server restarted.');
				verdict.restarted(started);
			}
			past = true;
			history.begin(doc);
			sums.document(doc);
			map.document(doc);
			// What the open zone was may have changed.
			story.ask();
			show(doc, [], more);
		},
		// Another moment of a recording, whose events are these.
		jump(list) {
			events.show(list);
			map.events(list, true);
			past = false;
			story.ask();
		},
		before(doc, patch) {
			added = addedCounts(doc, patch);
			sums.before(doc, patch);
		},
		patch(doc, patch, more) {
			// A counter that begins anew without a new document would otherwise give false rates.
			if (doc.started_at_ns !== started) {
				started = doc.started_at_ns;
				rates.reset();
				history.begin(doc);
			}
			map.update(doc, patch);
			if (playing) story.ask();
			else story.changed(patch.zones);
			show(doc, added, more);
		},
		// `still`: nothing moves on the map.
		events(list, still) {
			events.add(list);
			map.events(list, past || still);
			past = false;
		},
	};
}

source.start();
