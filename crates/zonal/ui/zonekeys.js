// Arrow keys on the zone map: from a cell to the next one, over the edges of bands.

// The new {band, position}, or null when the key does not move.
export function moveFocus(bands, { band, position }, key) {
	const { columns } = bands[band].grid;
	const last = bands[band].count - 1;
	switch (key) {
		case 'ArrowLeft':
			return position > 0 ? { band, position: position - 1 } : endOf(bands, band - 1, { band, position });
		case 'ArrowRight':
			return position < last
				? { band, position: position + 1 }
				: startOf(bands, band + 1, { band, position });
		case 'ArrowUp':
			return up(bands, band, position, columns);
		case 'ArrowDown':
			return down(bands, band, position, columns);
		case 'Home':
			return { band, position: 0 };
		case 'End':
			return { band, position: last };
		case 'PageUp':
			return startOf(bands, band - 1, { band, position: 0 });
		case 'PageDown':
			return startOf(bands, band + 1, { band, position: last });
		default:
			return null;
	}
}

function startOf(bands, band, otherwise) {
	return bands[band] ? { band, position: 0 } : otherwise;
}

function endOf(bands, band, otherwise) {
	return bands[band] ? { band, position: bands[band].count - 1 } : otherwise;
}

function up(bands, band, position, columns) {
	if (position >= columns) return { band, position: position - columns };
	const above = bands[band - 1];
	if (!above) return { band, position };
	const row = Math.floor((above.count - 1) / columns) * columns;
	return { band: band - 1, position: Math.min(above.count - 1, row + (position % columns)) };
}

function down(bands, band, position, columns) {
	const last = bands[band].count - 1;
	if (position + columns <= last) return { band, position: position + columns };
	if (Math.floor(position / columns) < Math.floor(last / columns)) return { band, position: last };
	const below = bands[band + 1];
	return below
		? { band: band + 1, position: Math.min(below.count - 1, position % columns) }
		: { band, position };
}
