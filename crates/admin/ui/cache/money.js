// Amounts of money as text.
import { known, UNKNOWN } from '../format.js';

// To make a format costs more than to use it.
const formats = {};

export function money(value, currency) {
	if (!known(value)) return UNKNOWN;
	const size = Math.abs(value);
	const digits = size >= 100 ? 0 : size >= 0.1 || size === 0 ? 2 : 4;
	const key = currency + digits;
	const facts = { style: 'currency', currency, minimumFractionDigits: digits, maximumFractionDigits: digits };
	try {
		formats[key] ??= new Intl.NumberFormat('en-US', facts);
		return formats[key].format(value);
	} catch {
		return `${value.toFixed(digits)} ${currency ?? ''}`.trim();
	}
}
