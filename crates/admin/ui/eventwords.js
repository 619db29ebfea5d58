// Events in words: parts that are strings, or {place, zone, text} for a zone that can be opened.
// `events` of a kind: `names` of the filters, and by event [filter or filter(event), mark, words(event)].
import { bytes, count } from './format.js';

const PAGE = ['page', 'page', event => [event.text]];

function factsOf({ event }, { words }) {
	return event === 'page' || event === 'note' ? PAGE : (words[event] ?? ['zones', 'page']);
}

export function kindOf(event, events) {
	const [filter] = factsOf(event, events);
	return typeof filter === 'string' ? filter : filter(event);
}

export function markOf(event, events) {
	return factsOf(event, events)[1];
}

// An event that this page does not know is shown by its name.
export function wordsOf(event, events) {
	const words = factsOf(event, events)[2];
	return words ? words(event) : [`${event.event}${event.zone === undefined ? '' : `, zone ${event.zone}`}.`];
}

export function textOf(event, events) {
	return wordsOf(event, events)
		.map(part => (typeof part === 'string' ? part : part.text))
		.join('');
}

// The zones of a list as parts of a sentence.
export function listOf(zones) {
	return zones.flatMap((zone, n) => (n === 0 ? [zone] : [', ', zone]));
}

export function figureWords(figure, name = '') {
	return name.includes('bytes') ? bytes(figure) : count(figure);
}
