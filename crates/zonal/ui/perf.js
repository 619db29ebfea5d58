// Marks what the page's scripts take, for the browser's performance panel and for the tests.

export function measured(name, work) {
	const start = performance.now();
	const result = work();
	const entry = `zonal:${name}`;
	performance.measure(entry, { start, end: performance.now() });
	// Observers have it; the browser would keep every entry for as long as the page is open.
	performance.clearMeasures(entry);
	return result;
}
