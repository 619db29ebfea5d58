// Amounts of money as text.
import { known, UNKNOWN } from '../format.js';

const currencies = new Map();

// To make a format costs more than to use it.
function currencyFormat(currency, digits) {
	const key = `${currency} ${digits}`;
	if (!currencies.has(key)) {
		currencies.set(
			key,
			new Intl.NumberFormat('en-US', {
				style: 'currency',
				currency,
				minimumFractionDigits: digits,
				maximumFractionDigits: digits,
			}),
		);
	}
	return currencies.get(key);
}

export function money(value, currency) {
	if (!known(value)) return UNKNOWN;
	const size = Math.abs(value);
	const digits = size >= 100 ? 0 : size >= 0.1 || size === 0 ? 2 : 4;
	try {
		return currencyFormat(currency, digits).format(value);
	} catch {
		return `${value.toFixed(digits)} ${currency ?? ''}`.trim();
	}
}
