// What the page shows of a cache. `kind` describes it to the views that both kinds share.
import { h } from '../dom.js';
import { plural } from '../format.js';
import { cardPanel, tablePanel } from '../panels.js';
import { devices } from './devices.js';
import * as events from './events.js';
import { charts, heat, history } from './history.js';
import { origins } from './origins.js';
import { prefixes } from './prefixes.js';
import * as strip from './strip.js';
import { totals } from './totals.js';
import { looks, story } from './zones.js';

const input = h('input', { id: 'go-device', type: 'number', min: '0', value: '0', required: true });

export const kind = {
	// A zone has a number in its place: `field` names it in documents, events and URLs.
	place: {
		field: 'device',
		input,
		chosen: () => input.valueAsNumber || 0,
		words: device => `device ${device}`,
	},
	totals,
	strip,
	looks,
	story,
	events,
	history,
	heat,
	charts,
	// A recording has no prefixes.
	panels: recorded => [...(recorded ? [] : [prefixes()]), tablePanel(origins), cardPanel(devices)],
	trouble({ caching, trouble }) {
		const told = caching !== 'off' || trouble?.some(({ alert }) => alert === 'ZonalSwitchedOff');
		return told ? [] : [{ text: 'the cache is switched off', alert: 'ZonalSwitchedOff' }];
	},
	about({ devices: by, connections, caching }) {
		const all = Object.values(by ?? {});
		return [
			plural(all.length, 'device'),
			plural(
				all.reduce((sum, { shards }) => sum + (shards ?? 0), 0),
				'shard',
			),
			plural(connections?.open ?? 0, 'connection'),
			caching === 'off' && 'cache off: the origin serves all reads',
		];
	},
};
