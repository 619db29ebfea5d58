// JSON merge patch (RFC 7396), in place: a document of 10,000 zones is not copied once a second.

export function merge(target, patch) {
	if (!isObject(patch)) return patch;
	const result = isObject(target) ? target : {};
	for (const key of Object.keys(patch)) {
		// `__proto__` from JSON.parse is an own key; assigning it would change the prototype instead.
		if (key === '__proto__') continue;
		const value = patch[key];
		if (value === null) delete result[key];
		else result[key] = isObject(value) ? merge(result[key], value) : value;
	}
	return result;
}

function isObject(value) {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}
