/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements. What results say comes from anywhere: all of it becomes text, never markup.
 */
"use strict";

const WRAPPED_FROM = 40;

/* Children one by one: a call takes no more arguments than the stack has room for, and results may be many. */
function appendAll(node, children) {
	for (const child of children.flat(Infinity)) {
		if (child !== undefined && child !== null) {
			node.append(child);
		}
	}
}

function fill(node, attributes, children) {
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on")) {
			node.addEventListener(name.slice(2), value);
		} else if (value !== undefined && value !== false) {
			node.setAttribute(name, value === true ? "" : value);
		}
	}
	appendAll(node, children);
	return node;
}

/* element("p", { class: "note", onclick: f }, "text", child, [children]) */
function element(name, attributes = {}, ...children) {
	return fill(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
	return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/* A table that scrolls by itself where the page is narrow. Cells are texts, nodes, or undefined. */
function table(caption, head, rows, numbers = []) {
	const kind = (content, column) => numbers.includes(column) ? "number" :
		String(content).length > WRAPPED_FROM && "long";
	const cell = (name, content, column) =>
		element(name, { class: kind(content, column), scope: name === "th" && "col" }, content ?? "");

	return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
		element("table", {},
			element("caption", {}, caption),
			element("thead", {}, element("tr", {}, head.map((text, i) => cell("th", text, i)))),
			element("tbody", {}, rows.map((row) =>
				element("tr", {}, row.map((content, i) => cell("td", content, i)))))));
}
