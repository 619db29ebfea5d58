// Arrow keys on the zone map: from a cell to the next one, over the edges of bands.

// The new {band, position}, or null when the key does not move.
export function moveFocus(bands, at, key) {
	const { band, position } = at;
	const { grid, count } = bands[band];
	const { columns } = grid;
	const last = count - 1;
	// A cell of another band, if there is one; otherwise one of this band.
	const other = (step, of, otherwise = position) => {
		const next = bands[band + step];
		return next ? { band: band + step, position: of(next.count - 1) } : { band, position: otherwise };
	};
	const stay = to => ({ band, position: to });
	const lastRow = Math.floor(last / columns);
	const moves = {
		ArrowLeft: () => (position > 0 ? stay(position - 1) : other(-1, end => end)),
		ArrowRight: () => (position < last ? stay(position + 1) : other(1, () => 0)),
		ArrowUp: () =>
			position >= columns
				? stay(position - columns)
				: other(-1, end => Math.min(end, Math.floor(end / columns) * columns + position)),
		ArrowDown: () =>
			Math.floor(position / columns) < lastRow
				? stay(Math.min(last, position + columns))
				: other(1, end => Math.min(end, position % columns)),
		Home: () => stay(0),
		End: () => stay(last),
		PageUp: () => other(-1, () => 0, 0),
		PageDown: () => other(1, () => 0, last),
	};
	return moves[key]?.() ?? null;
}
