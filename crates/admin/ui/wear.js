// What writing does to a drive, as facts: pace, wear and lifetime.
import { bytes, known } from './format.js';

const DAY = 86400;
const YEAR = 365.25 * DAY;
// SMART reports whole percents: below this, a projection would be a guess.
const LEAST_PERCENT = 3;

// Bytes a day at the pace of a time: null before anything is known.
export function daily(written, seconds) {
	return seconds > 0 && known(written) ? (written / seconds) * DAY : null;
}

// `pace`: bytes a day since the start; `rate`: of the last minute.
export function paceFact(pace, rate, field) {
	const now = bytes(daily(rate?.[field], rate?.seconds));
	return ['Written a day', bytes(pace), `pace since start; last minute ${now}`];
}

export function wearFacts(wear, pace) {
	return [
		['Wear', ...wearWords(wear)],
		['Lifetime', ...lifetimeWords(wear, pace)],
	];
}

function wearWords({ percentage_used: used, data_units_written_bytes: written }) {
	if (!known(used)) return ['unknown', 'SMART is not reported'];
	return [`${used} %`, known(written) ? `SMART, after ${bytes(written)} written` : 'SMART, percentage used'];
}

// The drive itself says how much it bore for each percent; all its writers are in that figure.
export function lifetimeWords({ percentage_used: used, data_units_written_bytes: written }, pace) {
	if (!known(used) || !known(written)) return ['unknown', 'needs SMART'];
	if (used >= 100) return ['used up', 'SMART is at 100 % or more'];
	if (used < LEAST_PERCENT) return ['too early', `SMART is below ${LEAST_PERCENT} %`];
	if (!(pace > 0)) return ['unknown', 'nothing is written'];
	const years = ((((written / used) * (100 - used)) / pace) * DAY) / YEAR;
	return [`${years >= 10 ? Math.round(years) : years.toFixed(1)} years`, 'to 100 % at the pace since start'];
}
