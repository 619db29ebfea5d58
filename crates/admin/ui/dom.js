// An element with properties: `class`, `text`, `on…` handlers; the rest become attributes.
export function h(tag, properties = {}, ...children) {
	const node = document.createElement(tag);
	for (const [name, value] of Object.entries(properties)) {
		if (value === null || value === undefined || value === false) continue;
		if (name === 'text') node.textContent = value;
		else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
		else node.setAttribute(name, value === true ? '' : value);
	}
	node.append(...children.filter(child => child !== null && child !== undefined));
	return node;
}

export function svg(tag, attributes, ...children) {
	const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
	node.append(...children);
	return node;
}

// A row of a table: `head`, and a cell for each of `classes`; show(texts) writes into these.
export function tableRow(head, classes) {
	const cells = classes.map(kind => h('td', { class: kind }));
	return {
		node: h('tr', {}, h('th', { scope: 'row' }, head), ...cells),
		show: texts => texts.forEach((text, n) => setText(cells[n], text)),
	};
}

export function byId(id) {
	return document.getElementById(id);
}

// Writes only what differs: screen readers and layout are left alone otherwise.
export function setText(node, text) {
	if (node.textContent !== text) node.textContent = text;
}

export function setHidden(node, hidden) {
	if (node.hidden !== hidden) node.hidden = hidden;
}

// Makes `nodes` the children of a parent. Those that stay in order are not touched.
export function inOrder(parent, nodes) {
	const wanted = new Set(nodes);
	for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
	let next = parent.firstElementChild;
	for (const node of nodes) {
		if (node === next) next = next.nextElementSibling;
		else parent.insertBefore(node, next);
	}
}

// Rows of a table or list by key: creates, updates and removes nodes, and keeps the others with their focus.
export class Keyed {
	constructor(parent, create) {
		this.parent = parent;
		this.create = create;
		this.rows = new Map();
	}

	// `entries`: [key, value] in order. `create(value, key)` gives {node, update(value)}.
	update(entries) {
		const seen = new Set();
		const nodes = entries.map(([key, value]) => {
			seen.add(key);
			if (!this.rows.has(key)) this.rows.set(key, this.create(value, key));
			const row = this.rows.get(key);
			row.update(value);
			return row.node;
		});
		for (const key of this.rows.keys()) if (!seen.has(key)) this.rows.delete(key);
		inOrder(this.parent, nodes);
	}
}
