// Light, dark, or as the system has it. Canvases ask here for their colours.
import { setText } from './dom.js';

const ORDER = ['system', 'light', 'dark'];
const MEDIA = { system: '(prefers-color-scheme: dark)', light: 'not all', dark: 'all' };
const listeners = [];

export function onTheme(listener) {
	listeners.push(listener);
}

export function startTheme(button) {
	apply(button, stored());
	button.addEventListener('click', () => {
		const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
		store(next);
		apply(button, next);
	});
	matchMedia(MEDIA.system).addEventListener('change', tell);
}

// The dark colours are a style sheet of their own, which its media query switches on.
function apply(button, theme) {
	document.getElementById('dark').media = MEDIA[theme];
	setText(button, `Theme: ${theme}`);
	tell();
}

function tell() {
	for (const listener of listeners) listener();
}

// Storage can be forbidden: then the choice lasts as long as the page.
let chosen = null;

function attempt(work) {
	try {
		return work();
	} catch {
		return null;
	}
}

function stored() {
	chosen ??= attempt(() => localStorage.getItem('zonal-theme'));
	return ORDER.includes(chosen) ? chosen : 'system';
}

function store(theme) {
	chosen = theme;
	attempt(() => localStorage.setItem('zonal-theme', theme));
}

export function color(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// `share` of one colour over another, both `#rrggbb`.
export function mix(front, back, share) {
	const [a, b] = [front, back].map(hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)));
	return `rgb(${a.map((part, n) => Math.round(part * share + b[n] * (1 - share))).join(' ')})`;
}
