// The layer above the cells of the zone map: pulses on reset, arrows from a victim to the zones that take its
// data, marks of victim, pointer and focus. It draws only while something moves or has changed.
import { cellRect } from './zonelayout.js';

const PULSE_MS = 1100;
const ARROW_MS = 2600;
// Without motion a mark stands still for this long, and is then removed.
const STILL_MS = 2500;
// More at once would be noise.
const MOST_MOVING = 48;
const still = matchMedia('(prefers-reduced-motion: reduce)');

export class Effects {
	// `map` has `overlay`, `size`, `bands`, `marks` and `colors`.
	constructor(map) {
		Object.assign(this, { map, moving: [], frame: 0 });
	}

	pulse(key, zone) {
		this.add({ kind: 'pulse', key, zone, life: PULSE_MS });
	}

	// `to`: key of the band of the zones `into`.
	arrow(key, zone, to, into) {
		this.add({ kind: 'arrow', key, zone, to, into, life: ARROW_MS });
	}

	add(effect) {
		if (document.hidden) return;
		if (this.moving.length >= MOST_MOVING) this.moving.shift();
		this.moving.push({ ...effect, life: still.matches ? STILL_MS : effect.life, start: performance.now() });
		if (still.matches) setTimeout(() => this.draw(), STILL_MS + 50);
		this.draw();
	}

	draw() {
		this.frame ||= requestAnimationFrame(now => this.paint(now));
	}

	paint(now) {
		this.frame = 0;
		this.moving = this.moving.filter(effect => now - effect.start < effect.life);
		this.paintAll(now, this.map);
		if (this.moving.length > 0 && !still.matches) this.draw();
	}

	paintAll(now, { overlay: context, size, bands, marks, colors }) {
		const band = key => bands.find(each => each.key === key);
		const zoneRect = (key, zone) => rectOf(band(key), band(key)?.positions.get(zone));
		const framed = [
			[marks.selected, colors.accent, 2],
			[marks.hover, colors.ink, 1],
			[marks.focus, colors.accent, 3],
		].filter(([mark]) => mark !== null);
		const victims = [...marks.victims].flatMap(([key, zones]) =>
			[...zones].map(zone => zoneRect(key, zone)),
		);
		const busy = this.moving.length + victims.length + framed.length > 0;
		if (!context || (!busy && !this.painted)) return;
		this.painted = busy;
		context.clearRect(-8, -8, size.width + 16, size.height + 16);
		for (const rect of victims) victimMark(context, rect, colors);
		for (const [{ key, position }, stroke, width] of framed)
			frame(context, rectOf(band(key), position), stroke, width, colors);
		for (const effect of this.moving) {
			const age = still.matches ? 0.35 : Math.max(0, now - effect.start) / effect.life;
			const from = zoneRect(effect.key, effect.zone);
			if (effect.kind === 'pulse') pulse(context, from, age, colors);
			else for (const into of effect.into) arrow(context, from, zoneRect(effect.to, into), age, colors);
		}
	}
}

function rectOf(band, position) {
	if (band === undefined || position === undefined) return null;
	const rect = cellRect(band.grid, position);
	return { ...rect, y: rect.y + band.top };
}

function frame(context, rect, stroke, width, { back }) {
	if (rect === null) return;
	const [x, y] = [rect.x - width / 2, rect.y - width / 2];
	for (const [strokeStyle, lineWidth] of [
		[back, width + 2],
		[stroke, width],
	]) {
		Object.assign(context, { strokeStyle, lineWidth });
		context.strokeRect(x, y, rect.width + width, rect.height + width);
	}
}

// Brackets at the corners: the zone was chosen and is not yet reset.
function victimMark(context, rect, colors) {
	if (rect === null) return;
	const [out, arm] = [2, Math.max(3, Math.min(6, rect.width / 2.5))];
	const [left, right] = [rect.x - out, rect.x + rect.width + out];
	const [top, bottom] = [rect.y - out, rect.y + rect.height + out];
	Object.assign(context, { strokeStyle: colors.victim, lineWidth: 2 });
	context.beginPath();
	for (const [x, y, dx, dy] of [
		[left, top, arm, arm],
		[right, top, -arm, arm],
		[left, bottom, arm, -arm],
		[right, bottom, -arm, -arm],
	]) {
		context.moveTo(x + dx, y);
		context.lineTo(x, y);
		context.lineTo(x, y + dy);
	}
	context.stroke();
}

function pulse(context, rect, age, colors) {
	if (rect === null) return;
	const grow = 2 + age * Math.min(18, Math.max(10, rect.width * 0.6));
	Object.assign(context, { globalAlpha: (1 - age) ** 1.5, strokeStyle: colors.ink, lineWidth: 2 });
	context.beginPath();
	context.roundRect(rect.x - grow, rect.y - grow, rect.width + 2 * grow, rect.height + 2 * grow, grow * 0.7);
	context.stroke();
	context.globalAlpha = 1;
}

// Grows from the victim to the zone that takes its data, then fades.
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
		[colors.back, 5],
		[colors.arrow, 2.25],
	]) {
		Object.assign(context, { strokeStyle: stroke, lineWidth: width, lineCap: 'round' });
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
	context.fillStyle = colors.arrow;
	context.beginPath();
	context.moveTo(tip.x + 3 * Math.cos(angle), tip.y + 3 * Math.sin(angle));
	for (const turn of [2.55, -2.55])
		context.lineTo(tip.x + 8 * Math.cos(angle + turn), tip.y + 8 * Math.sin(angle + turn));
	context.closePath();
	context.fill();
}

function center({ x, y, width, height }) {
	return { x: x + width / 2, y: y + height / 2 };
}

function between(a, b, share) {
	return { x: a.x + (b.x - a.x) * share, y: a.y + (b.y - a.y) * share };
}
