// What the page shows of a block device. `kind` describes it to the views that both kinds share.
import { h } from '../dom.js';
import { plural } from '../format.js';
import { cardPanel, tablePanel } from '../panels.js';
import * as events from './events.js';
import { charts, heat, history } from './history.js';
import * as strip from './strip.js';
import { exports, tenants } from './tables.js';
import { tiers, upkeep } from './tiers.js';
import { totals } from './totals.js';
import { looks, story } from './zones.js';

const input = h(
	'select',
	{ id: 'go-tier' },
	...['buffer', 'capacity'].map(tier => h('option', { value: tier, text: tier })),
);

export const kind = {
	// A zone has a number in its place: `field` names it in documents, events and URLs.
	place: { field: 'tier', input, chosen: () => input.value, words: tier => looks.bandWords(tier) },
	totals,
	strip,
	looks,
	story,
	events,
	history,
	heat,
	charts,
	panels: () => [tablePanel(exports), cardPanel(tiers), tablePanel(tenants), upkeep()],
	about: ({ exports: all, connections, single_device: single }) => [
		plural(Object.keys(all ?? {}).length, 'export'),
		plural(connections?.open ?? 0, 'connection'),
		single ? 'both tiers on one device' : 'two devices',
	],
};
