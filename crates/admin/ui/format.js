// Numbers, sizes and times as text. `—` means that the value is unknown.

export const UNKNOWN = '—';
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const time = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const shortTime = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const stamp = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' });

export function known(value) {
	return value !== null && value !== undefined && Number.isFinite(value);
}

export function count(value) {
	return known(value) ? whole.format(value) : UNKNOWN;
}

// Three significant digits, without an exponent: 1.05, 23.4, 879.
export function three(value) {
	if (!known(value)) return UNKNOWN;
	const size = Math.abs(value);
	if (size >= 99.95) return whole.format(value);
	return value.toFixed(size >= 9.995 ? 1 : size === 0 ? 0 : 2);
}

// [number, unit], so that the unit can be set smaller than the number.
export function bytesParts(value) {
	if (!known(value)) return [UNKNOWN, ''];
	let unit = 0;
	let size = value;
	while (Math.abs(size) >= 1000 && unit < BYTE_UNITS.length - 1) {
		size /= 1024;
		unit += 1;
	}
	return [unit === 0 ? count(size) : three(size), BYTE_UNITS[unit]];
}

export function bytes(value) {
	return bytesParts(value).join(' ').trim();
}

export function percent(share, digits = 1) {
	return known(share) ? `${(share * 100).toFixed(digits)} %` : UNKNOWN;
}

export function perSecond(value) {
	return known(value) ? `${value < 10 ? three(value) : count(value)}/s` : UNKNOWN;
}

// [number, unit] of a latency; the histogram behind it has two significant digits.
export function latencyParts(ns) {
	if (!known(ns)) return [UNKNOWN, ''];
	const [value, unit] =
		ns < 1e3 ? [ns, 'ns'] : ns < 1e6 ? [ns / 1e3, 'µs'] : ns < 1e9 ? [ns / 1e6, 'ms'] : [ns / 1e9, 's'];
	return [String(Number(value.toPrecision(2))), unit];
}

export function latency(ns) {
	return latencyParts(ns).join(' ').trim();
}

// A span of time in its two largest units.
export function span(seconds) {
	if (!known(seconds)) return UNKNOWN;
	const s = Math.max(0, Math.round(seconds));
	if (s < 60) return `${s} s`;
	if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
	if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function range(seconds) {
	return seconds < 3600 ? plural(seconds / 60, 'minute') : plural(seconds / 3600, 'hour');
}

// A player has other ones for simulations: `text` is of a moment.
export const times = { seconds: ns => ns / 1e9, text: (format, ns) => format.format(ns / 1e6) };

export const uptime = doc => times.seconds(doc.at_ns - doc.started_at_ns);
export const clock = ns => times.text(time, ns);
export const clockShort = ns => times.text(shortTime, ns);
export const dateTime = ns => times.text(stamp, ns);

export function plural(n, one, many = `${one}s`) {
	return `${count(n)} ${n === 1 ? one : many}`;
}
