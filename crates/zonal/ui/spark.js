// A line without axes, for the strip.

const WIDTH = 96;
const HEIGHT = 24;
const SVG = 'http://www.w3.org/2000/svg';

export class Spark {
	constructor() {
		this.node = document.createElementNS(SVG, 'svg');
		this.line = document.createElementNS(SVG, 'path');
		for (const [name, value] of [
			['viewBox', `0 0 ${WIDTH} ${HEIGHT}`],
			['class', 'spark'],
			['aria-hidden', 'true'],
			['preserveAspectRatio', 'none'],
		])
			this.node.setAttribute(name, value);
		this.node.append(this.line);
	}

	// Unknown values leave gaps. The line begins at zero, or the picture would make noise look like news.
	draw(values, top = null) {
		const most = top ?? Math.max(...values.filter(value => value !== null), 0);
		if (most <= 0 || values.length < 2) return this.line.setAttribute('d', '');
		let path = '';
		let pen = 'M';
		values.forEach((value, n) => {
			if (value === null || value === undefined) {
				pen = 'M';
				return;
			}
			const x = (n / (values.length - 1)) * WIDTH;
			const y = HEIGHT - 1 - Math.min(1, value / most) * (HEIGHT - 2);
			path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
			pen = 'L';
		});
		return this.line.setAttribute('d', path);
	}
}
