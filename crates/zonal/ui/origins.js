// A row for each origin: its state in words, and what it was asked.
import { byId, h, Keyed, setText } from './dom.js';
import { bytes, count, latency, percent, perSecond } from './format.js';

const WINDOW_SECONDS = 60;
const STATES = {
	healthy: 'answers',
	unhealthy: 'unhealthy',
	silent: 'does not answer; circuit breaker open',
};

export class Origins {
	constructor() {
		this.rows = new Keyed(byId('origins'), () => row());
	}

	update(doc, rates) {
		const recent = rates.over(WINDOW_SECONDS);
		this.rows.update(
			Object.entries(doc.origins ?? {}).map(([id, origin]) => [
				id,
				{ origin, rate: recent?.origins[id], seconds: recent?.seconds },
			]),
		);
	}
}

function row() {
	const name = h('th', { scope: 'row' });
	const state = h('td', { class: 'words' });
	const cells = [0, 1, 2, 3, 4, 5].map(() => h('td'));
	const node = h('tr', {}, name, state, ...cells);
	return {
		node,
		update: ({ origin, rate, seconds }) => {
			setText(name, origin.name);
			const words = STATES[origin.state] ?? origin.state;
			setText(state, origin.trouble ? `${words}: ${origin.trouble}` : words);
			node.dataset.state = origin.state;
			const each = value => (rate ? value / seconds : null);
			const failed = rate?.requests > 0 ? percent(rate.errors / rate.requests) : '—';
			[
				perSecond(each(rate?.requests)),
				failed,
				count(origin.errors),
				rate ? `${bytes(each(rate.received))}/s` : '—',
				latency(origin.p50_ns),
				latency(origin.p99_ns),
			].forEach((text, n) => setText(cells[n], text));
		},
	};
}
