// What moves on the zone map, on a layer above the cells: pulses on reset, arrows of rewrites, and the
// marks of victim, pointer and focus. It draws only while something moves or has changed.
import { cellRect } from './zonelayout.js';
import { measured } from './perf.js';
import { color, onTheme } from './theme.js';

const PULSE_MS = 1100;
const ARROW_MS = 2600;
// Without motion a mark stands still for this long, and is then removed.
const STILL_MS = 2500;
// More at once would be noise.
const MOST_MOVING = 48;
const still = matchMedia('(prefers-reduced-motion: reduce)');

export class Effects {
	// `bands()`: bands with `overlay` (context), `size`, `grid`; `marks()`: {victims, hover, focus, selected}.
	constructor(bands, marks) {
		this.bands = bands;
		this.marks = marks;
		this.moving = [];
		this.frame = 0;
		this.takeColors();
		onTheme(() => this.takeColors());
	}

	takeColors() {
		this.colors = {
			accent: color('accent'),
			victim: color('zone-reclaiming'),
			ink: color('ink'),
			rewrite: color('zone-rewrite'),
			panel: color('panel'),
		};
	}

	pulse(key, zone) {
		this.add({ kind: 'pulse', key, zone, life: PULSE_MS });
	}

	arrow(key, zone, into) {
		this.add({ kind: 'arrow', key, zone, into, life: ARROW_MS });
	}

	add(effect) {
		if (document.hidden) return;
		if (this.moving.length >= MOST_MOVING) this.moving.shift();
		this.moving.push({ ...effect, life: still.matches ? STILL_MS : effect.life, start: performance.now() });
		if (still.matches) setTimeout(() => this.draw(), STILL_MS + 50);
		this.draw();
	}

	clear() {
		this.moving = [];
	}

	draw() {
		if (this.frame === 0)
			this.frame = requestAnimationFrame(now => measured('effects', () => this.paint(now)));
	}

	paint(now) {
		this.frame = 0;
		this.moving = this.moving.filter(effect => now - effect.start < effect.life);
		const marks = this.marks();
		for (const band of this.bands()) this.paintBand(band, now, this.colors, marks);
		if (this.moving.length > 0 && !still.matches) this.draw();
	}

	paintBand(band, now, colors, marks) {
		const effects = this.moving.filter(effect => effect.key === band.key);
		const mine = mark => (mark !== null && mark.key === band.key ? mark.position : null);
		const [hover, focus, selected] = [marks.hover, marks.focus, marks.selected].map(mine);
		const victims = [...(marks.victims.get(band.key) ?? [])];
		const busy =
			effects.length + victims.length > 0 || hover !== null || focus !== null || selected !== null;
		if (!busy && !band.painted) return;
		const context = band.overlay;
		context.clearRect(-8, -8, band.size.width + 16, band.size.height + 16);
		band.painted = busy;
		for (const zone of victims) victimMark(context, rectOf(band, zone), colors);
		if (selected !== null) frame(context, cellRect(band.grid, selected), colors.accent, 2, colors);
		if (hover !== null) frame(context, cellRect(band.grid, hover), colors.ink, 1, colors);
		if (focus !== null) frame(context, cellRect(band.grid, focus), colors.accent, 3, colors);
		for (const effect of effects) {
			const age = still.matches ? 0.35 : Math.max(0, now - effect.start) / effect.life;
			if (effect.kind === 'pulse') pulse(context, rectOf(band, effect.zone), age, colors);
			else
				for (const into of effect.into)
					arrow(context, rectOf(band, effect.zone), rectOf(band, into), age, colors);
		}
	}
}

function rectOf(band, zone) {
	const position = band.positions.get(zone);
	return position === undefined ? null : cellRect(band.grid, position);
}

function frame(context, rect, stroke, width, colors) {
	context.strokeStyle = colors.panel;
	context.lineWidth = width + 2;
	context.strokeRect(rect.x - width / 2, rect.y - width / 2, rect.width + width, rect.height + width);
	context.strokeStyle = stroke;
	context.lineWidth = width;
	context.strokeRect(rect.x - width / 2, rect.y - width / 2, rect.width + width, rect.height + width);
}

// Brackets at the corners: the zone was chosen and is not yet reset.
function victimMark(context, rect, colors) {
	if (rect === null) return;
	const [out, arm] = [2, Math.max(3, Math.min(6, rect.width / 2.5))];
	const [left, right] = [rect.x - out, rect.x + rect.width + out];
	const [top, bottom] = [rect.y - out, rect.y + rect.height + out];
	context.strokeStyle = colors.victim;
	context.lineWidth = 2;
	context.beginPath();
	for (const [x, y, dx, dy] of [
		[left, top, 1, 1],
		[right, top, -1, 1],
		[left, bottom, 1, -1],
		[right, bottom, -1, -1],
	]) {
		context.moveTo(x + dx * arm, y);
		context.lineTo(x, y);
		context.lineTo(x, y + dy * arm);
	}
	context.stroke();
}

function pulse(context, rect, age, colors) {
	if (rect === null) return;
	const grow = 2 + age * Math.min(18, Math.max(10, rect.width * 0.6));
	context.globalAlpha = (1 - age) ** 1.5;
	context.strokeStyle = colors.ink;
	context.lineWidth = 2;
	context.beginPath();
	context.roundRect(rect.x - grow, rect.y - grow, rect.width + 2 * grow, rect.height + 2 * grow, grow * 0.7);
	context.stroke();
	context.globalAlpha = 1;
}

// Grows from the victim to the zone that takes its records, then fades.
function arrow(context, from, to, age, colors) {
	if (from === null || to === null) return;
	const start = center(from);
	const end = center(to);
	const [dx, dy] = [end.x - start.x, end.y - start.y];
	const length = Math.hypot(dx, dy);
	if (length < 4) return;
	const bend = Math.min(40, length * 0.18);
	const middle = {
		x: (start.x + end.x) / 2 - (dy / length) * bend,
		y: (start.y + end.y) / 2 + (dx / length) * bend,
	};
	const reach = Math.min(1, age / 0.3) ** 0.6;
	const control = between(start, middle, reach);
	const tip = between(control, between(middle, end, reach), reach);
	context.globalAlpha = age < 0.55 ? 1 : (1 - age) / 0.45;
	for (const [stroke, width] of [
		[colors.panel, 5],
		[colors.rewrite, 2.25],
	]) {
		context.strokeStyle = stroke;
		context.lineWidth = width;
		context.lineCap = 'round';
		context.beginPath();
		context.moveTo(start.x, start.y);
		context.quadraticCurveTo(control.x, control.y, tip.x, tip.y);
		context.stroke();
	}
	head(context, control, tip, colors);
	context.globalAlpha = 1;
}

function head(context, control, tip, colors) {
	const angle = Math.atan2(tip.y - control.y, tip.x - control.x);
	context.fillStyle = colors.rewrite;
	context.beginPath();
	context.moveTo(tip.x + 3 * Math.cos(angle), tip.y + 3 * Math.sin(angle));
	for (const turn of [2.55, -2.55])
		context.lineTo(tip.x + 8 * Math.cos(angle + turn), tip.y + 8 * Math.sin(angle + turn));
	context.closePath();
	context.fill();
}

function center(rect) {
	return { x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 };
}

function between(a, b, share) {
	return { x: a.x + (b.x - a.x) * share, y: a.y + (b.y - a.y) * share };
}
