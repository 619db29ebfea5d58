// History of a recording: points are made while it is read, and charts show those until a moment.
import { History, KEEP } from '../history.js';

// Ends of the columns of the heat map, as a server has them.
const BOUNDS = [4, 5, 6, 7, 8, 9].flatMap(power => [1, 2, 3, 5].map(step => step * 10 ** power)).concat(1e10);

export class RecordedHistory extends History {
	constructor({ history, heat, totals }) {
		super(null, history);
		Object.assign(this, { totals, paths: Object.keys(heat.words), bounds: BOUNDS });
	}

	clear() {
		this.all = { fine: [], coarse: [] };
		const { paths, bounds } = this;
		// Points are shown while later ones are made.
		this.made = Object.assign(new History(null, this.facts), { paths, bounds });
		this.made.listen((points, name) => this.all[name].push(points.at(-1)));
	}

	begin() {}

	// No point goes over two documents.
	cut() {
		for (const span of Object.values(this.made.spans)) span.pending = null;
	}

	collect(doc, counts) {
		this.made.note({ at: doc.at_ns, ...this.totals(doc) }, counts);
	}

	note({ at }) {
		for (const [name, all] of Object.entries(this.all)) {
			const end = all.findLastIndex(point => point.at <= at) + 1;
			const span = this.spans[name];
			if (span.points.at(-1) === all[end - 1]) continue;
			span.points = all.slice(0, end).slice(-KEEP[name]);
			this.tell(name);
		}
	}
}
