// A row for each origin: its state in words, and what it was asked.
import { count, latency, percent, perSecond } from '../format.js';
import { each, rateOf } from '../panels.js';

const STATES = {
	healthy: 'answers',
	unhealthy: 'unhealthy',
	silent: 'does not answer; circuit breaker open',
};

export const origins = {
	id: 'origins',
	title: 'Origins',
	columns: [
		['origin'],
		['state', 'words'],
		['requests'],
		['failed'],
		['errors since start'],
		['received'],
		['p50'],
		['p99'],
	],
	valueOf(origin, rate) {
		const { state, trouble } = origin;
		const words = STATES[state] ?? state;
		return {
			name: origin.name,
			state,
			texts: [
				trouble ? `${words}: ${trouble}` : words,
				perSecond(each(rate, 'requests')),
				rate?.requests > 0 ? percent(rate.errors / rate.requests) : '—',
				count(origin.errors),
				rateOf(each(rate, 'received')),
				latency(origin.p50_ns),
				latency(origin.p99_ns),
			],
		};
	},
};
