/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements, and numbers with units. What results say comes from anywhere: all of it becomes text, never markup.
 */
"use strict";

const SCALES = {
	time: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
	"B/s": [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]],
	"op/s": [[1e9, "Gop/s"], [1e6, "Mop/s"], [1e3, "kop/s"], [1, "op/s"]],
	bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
	count: [[1, ""]],
};

/* Children one by one: a call takes no more arguments than the stack has room for, and results may be many. */
function append(node, ...children) {
	for (const child of children.flat(Infinity)) {
		node.append(child ?? "");
	}
	return node;
}

/* element("p", { class: "note" }, "text", child, [children]) */
function element(name, attributes = {}, ...children) {
	const node = document.createElement(name);

	for (const [key, value] of Object.entries(attributes)) {
		node.setAttribute(key, value);
	}
	return append(node, children);
}

/* A table that scrolls by itself where the page is narrow. Columns in which nothing stands are left out. */
function table(caption, head, rows) {
	const used = head.map((_, i) => i).filter((i) => i === 0 || rows.some((row) => (row[i] ?? "") !== ""));
	const line = (name, row) => element("tr", {}, used.map((i) => element(name, {}, row[i])));

	return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
		element("table", {}, element("caption", {}, caption), element("thead", {}, line("th", head)),
			element("tbody", {}, rows.map((row) => line("td", row)))));
}

/* A part that is folded if it is long. A printer gets all tables. */
function folded(summary, isOpen, ...content) {
	return element("details", isOpen ? { open: "" } : {}, element("summary", {}, summary), content);
}

/* Three digits that count, or more, and a unit. */
function quantity(value, kind) {
	const scales = SCALES[kind], isLarge = ([least]) => Math.abs(value) >= least * 0.9995;
	const [scale, unit] = scales.find(isLarge) ?? scales[scales.length - 1], scaled = value / scale;
	const isWhole = Math.abs(scaled) >= 99.95 || scaled === Math.round(scaled);

	return `${isWhole ? Math.round(scaled) : scaled.toPrecision(3)} ${unit}`.trim();
}

/* What the numbers of a parameter are, by the unit in its name. */
function kindOfParameter(key) {
	return /(^|_)bytes$/.test(key) ? "bytes" : /(^|_)ns$/.test(key) ? "time" : "count";
}

function parameterName(key) {
	return key.replace(/_(bytes|ns)$/, "").replaceAll("_", " ");
}

/* "sealed, h2d, streams 4" without the parameters in `without`. */
function labelOf(m, without = []) {
	const parts = Object.entries(m.parameters).filter(([key]) => !without.includes(key)).map(([key, value]) =>
		typeof value === "number" ? `${parameterName(key)} ${quantity(value, kindOfParameter(key))}` : value);

	return [m.variant, ...parts].filter((part) => part !== "").join(", ") || m.name;
}

function ratioText(ratio) {
	return `${ratio.toFixed(ratio < 10 ? 3 : 1)} ×`;
}
