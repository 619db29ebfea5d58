// Where the cells of the zone map are: pure functions from numbers of cells and a width to rows and columns.

const PITCHES = [60, 52, 45, 39, 34, 30, 27, 24, 21, 19, 17, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4];
const HEADER = 30;

// The largest cells with which all bands fit into `height`; the smallest, if none do.
export function layout(counts, width, height) {
	let grid;
	for (const pitch of PITCHES) {
		grid = gridOf(pitch, width);
		const rows = counts.reduce((sum, count) => sum + Math.ceil(count / grid.columns), 0);
		if (rows * grid.rowPitch + counts.length * HEADER <= height) break;
	}
	return grid;
}

// Cells are higher than wide, so that the write pointer can be read off them.
function gridOf(pitch, width) {
	const gap = pitch >= 19 ? 3 : pitch >= 9 ? 2 : 1;
	const rowPitch = Math.round((pitch - gap) * (pitch >= 8 ? 1.25 : 1)) + gap;
	return {
		pitch,
		rowPitch,
		gap,
		cellWidth: pitch - gap,
		cellHeight: rowPitch - gap,
		columns: Math.max(1, Math.floor((width + gap) / pitch)),
	};
}

export function cellRect(grid, position) {
	const column = position % grid.columns;
	const row = Math.floor(position / grid.columns);
	return { x: column * grid.pitch, y: row * grid.rowPitch, width: grid.cellWidth, height: grid.cellHeight };
}

export function cellAt(grid, count, x, y) {
	const column = Math.floor(x / grid.pitch);
	const row = Math.floor(y / grid.rowPitch);
	if (column < 0 || column >= grid.columns || row < 0) return null;
	const position = row * grid.columns + column;
	return position < count ? position : null;
}

export function bandHeight(grid, count) {
	return Math.ceil(count / grid.columns) * grid.rowPitch - grid.gap;
}
