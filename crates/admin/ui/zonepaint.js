// Draws one cell of the zone map. Shape says the same as hue: caps on open zones, stripes while a zone is
// emptied, a cross when it is retired, one stroke when it is unreadable, a ring when it is pinned.
import { HUES, LEVELS, STEPS } from './zonelook.js';
import { color, mix } from './theme.js';

// Lines at the write pointer of an open zone.
const CAPS = { fill: 1, rewrite: 2, collection: 3, map: 4 };

// Colours by hue and level, computed once per theme.
export function palette() {
	const back = color('panel');
	const shades = {};
	for (const hue of HUES) {
		const front = color(`zone-${hue}`);
		shades[hue] = Array.from({ length: LEVELS }, (_, level) =>
			mix(front, back, 0.2 + 0.8 * (level / (LEVELS - 1))),
		);
	}
	return {
		shades,
		victim: color('zone-reclaiming'),
		arrow: color('zone-rewrite'),
		back,
		trough: color('zone-trough'),
		outline: color('zone-outline'),
		ink: color('ink'),
		accent: color('accent'),
	};
}

export function drawCell(context, { x, y, width, height }, look, colors) {
	context.fillStyle = colors.back;
	context.fillRect(x, y, width, height);
	context.fillStyle = colors.trough;
	if (look.hue !== 'empty' || width < 4) context.fillRect(x, y, width, height);
	if (look.hue === 'empty') return drawEmpty(context, x, y, width, height, colors);
	const fill =
		look.height >= STEPS
			? height
			: Math.max(look.height > 0 ? 1 : 0, Math.round((height * look.height) / STEPS));
	const top = y + height - fill;
	context.fillStyle = colors.shades[look.hue][look.level];
	context.fillRect(x, top, width, fill);
	if (width < 5) return undefined;
	const lines = CAPS[look.hue] ?? 0;
	context.fillStyle = colors.ink;
	for (let n = 0, at = top - 1; n < lines && at < y + height; n += 1, at += 3)
		context.fillRect(x, at, width, 1);
	if (look.hue === 'reclaiming') stripes(context, x, y, width, height, colors);
	else if (look.hue === 'retired') cross(context, x, y, width, height, colors);
	else if (look.hue === 'unreadable') cross(context, x, y, width, height, colors, 1);
	if (look.pinned) ring(context, x, y, width, height, colors);
}

function drawEmpty(context, x, y, width, height, colors) {
	if (width < 4) return;
	context.strokeStyle = colors.outline;
	context.lineWidth = 1;
	context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

function stripes(context, x, y, width, height, colors) {
	context.save();
	context.beginPath();
	context.rect(x, y, width, height);
	context.clip();
	context.strokeStyle = colors.back;
	context.lineWidth = width >= 10 ? 2 : 1;
	context.beginPath();
	const step = width >= 10 ? 6 : 4;
	for (let at = -height; at < width; at += step) {
		context.moveTo(x + at, y + height);
		context.lineTo(x + at + height, y);
	}
	context.stroke();
	context.restore();
}

function cross(context, x, y, width, height, colors, strokes = 2) {
	context.strokeStyle = colors.back;
	context.lineWidth = width >= 12 ? 2 : 1;
	context.beginPath();
	context.moveTo(x + width - 1, y + 1);
	context.lineTo(x + 1, y + height - 1);
	if (strokes > 1) {
		context.moveTo(x + 1, y + 1);
		context.lineTo(x + width - 1, y + height - 1);
	}
	context.stroke();
}

function ring(context, x, y, width, height, colors) {
	context.strokeStyle = colors.ink;
	context.lineWidth = width >= 12 ? 1.5 : 1;
	const inset = width >= 12 ? 1.75 : 0.5;
	context.strokeRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset);
}
