// Canvases at the resolution of the screen.

// Shades from weakest to strongest, side by side.
export function drawRamp(canvas, shades, width, height) {
	const context = fit(canvas, width, height);
	const each = width / shades.length;
	shades.forEach((shade, n) => {
		context.fillStyle = shade;
		context.fillRect(n * each, 0, each, height);
	});
}

// A cleared context whose units are CSS pixels; `margin` is drawn around the given size.
export function fit(canvas, width, height, margin = 0) {
	const ratio = devicePixelRatio || 1;
	const [wide, high] = [width + 2 * margin, height + 2 * margin];
	const size = [Math.round(wide * ratio), Math.round(high * ratio)];
	// A new size takes new memory, which costs more than all the drawing.
	if (canvas.width !== size[0] || canvas.height !== size[1]) {
		[canvas.width, canvas.height] = size;
		canvas.style.width = `${wide}px`;
		canvas.style.height = `${high}px`;
	}
	const context = canvas.getContext('2d');
	context.setTransform(ratio, 0, 0, ratio, margin * ratio, margin * ratio);
	context.clearRect(-margin, -margin, wide, high);
	return context;
}
