/* SPDX-License-Identifier: Apache-2.0
 *
 * A chart: axes, series of points with or without lines, bars, and marks. It is drawn anew for each width and zoom.
 *
 * chart({ title, x: axis, y: axis, series, bars, marks }), with
 *   axis   { kind, label } of makeScale(), or for y { rows: [text] }
 *   series { label, color, style, line, points: [{ x, y, x0, x1, y0, y1, tip: [text] }] }; x0..x1, y0..y1: whiskers
 *   bars   [{ x0, x1, y, tip }], from zero
 *   marks  [{ x, label }], vertical lines
 */
"use strict";

const MARKERS = [
	"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", "M-3.6-3.6h7.2v7.2h-7.2Z", "M0-4.8l4.6 8.2h-9.2Z",
	"M0-5l5 5l-5 5l-5-5Z", "M0 4.8l4.6-8.2h-9.2Z",
	"M-1.4-4.6h2.8v3.2h3.2v2.8h-3.2v3.2h-2.8v-3.2h-3.2v-2.8h3.2Z", "M-5-2.5h10v5h-10Z",
	"M-2.5-5h5v10h-5Z",
];
const DASHES = ["none", "7 4", "2 3", "9 3 2 3"];
const ROW = 38;
const charts = [];
let clips = 0;

/* Draws the charts that can be seen for the width that they have now. All widths are read before the first chart changes
 * the page, which has to be laid out for them. */
function drawVisible() {
	charts.map(({ figure, draw }) => [figure.clientWidth, draw]).forEach(([width, draw]) => draw(width));
}

function valuesOf(spec, axis) {
	const values = spec.series.flatMap((s) => s.points.flatMap((p) => [p[axis], p[`${axis}0`], p[`${axis}1`]]));
	const bars = (spec.bars ?? []).flatMap((b) => axis === "x" ? [b.x0, b.x1] : [0, b.y]);

	return [...values, ...bars, ...(spec.marks ?? []).map((m) => m[axis])].filter((v) => v !== undefined);
}

function boxOf(spec, width) {
	const rows = spec.y.rows, left = rows ? 6 : 66;
	const height = rows ? rows.length * ROW + 52 : spec.height ?? 300;

	return { width, height, x: [left, width - 12], y: [height - 46, rows ? 4 : 24] };
}

/* Ticks with texts, which differ. */
function labelled(scale, count) {
	const values = ticks(scale, count);
	const texts = (digits) => values.map((value) => quantity(value, scale.kind, digits));
	const short = texts(3), best = new Set(short).size < short.length ? texts(6) : short;

	return values.map((value, i) => [value, best[i]]);
}

function drawAxes(svg, box, x, y) {
	const [left, right] = box.x, [bottom, top] = box.y;

	for (const [value, text] of labelled(x, Math.max(2, Math.floor((right - left) / 78)))) {
		const at = place(x, value, box.x), half = 3.8 * text.length;
		const middle = Math.min(Math.max(at, half), right + 12 - half);

		svg.append(drawn("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }),
			drawn("text", { x: middle, y: bottom + 17, "text-anchor": "middle" }, text));
	}
	svg.append(drawn("text", { class: "axis", x: right, y: bottom + 36, "text-anchor": "end" }, x.label));
	if (y.rows) {
		return;
	}
	svg.append(drawn("text", { class: "axis", x: 4, y: 12 }, y.label));
	for (const [value, text] of labelled(y, Math.max(3, Math.floor((bottom - top) / 42)))) {
		const at = place(y, value, box.y);

		svg.append(drawn("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }),
			drawn("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, text));
	}
}

/* Each row has its name above its line. */
function drawRows(layer, box, y) {
	y.rows.forEach((text, i) => {
		const top = box.y[1] + i * ROW, y1 = top + ROW, [x1, x2] = box.x, room = Math.floor((x2 - x1) / 6.3);
		const short = text.length > room ? `${text.slice(0, room - 1)}…` : text;

		layer.append(drawn("line", { class: "grid", x1, x2, y1, y2: y1 }),
			drawn("text", { class: "row", x: x1, y: top + 15 }, short));
	});
}

function marker({ style, color }, more = {}) {
	return drawn("path", { class: style % 2 ? "marker hollow" : "marker", d: MARKERS[color % 8], ...more });
}

function drawSeries(layer, series, at) {
	const path = series.points.map((p, i) => `${i ? "L" : "M"}${at(p).join(" ")}`).join("");
	const group = drawn("g", { class: `series c${series.color % 8}` });

	if (series.line) {
		group.append(drawn("path", { class: "line", d: path, "stroke-dasharray": DASHES[series.style % 4] }));
	}
	for (const p of series.points) {
		const [x, y] = at(p), [x0, y0] = at({ x: p.x0 ?? p.x, y: p.y0 ?? p.y });
		const [x1, y1] = at({ x: p.x1 ?? p.x, y: p.y1 ?? p.y });

		group.append(drawn("path", { class: "whisker", d: `M${x0} ${y0}L${x1} ${y1}` }),
			marker(series, { transform: `translate(${x} ${y})` }));
	}
	layer.append(group);
}

function drawBars(layer, spec, box, x, y) {
	for (const bar of spec.bars ?? []) {
		const [x0, x1] = [bar.x0, bar.x1].map((v) => place(x, v, box.x)), top = place(y, bar.y, box.y);

		layer.append(drawn("rect", { class: "bar", x: x0 + 0.5, y: top, width: Math.max(x1 - x0 - 1, 0.5),
			height: Math.max(place(y, 0, box.y) - top, 0) }));
	}
	(spec.marks ?? []).forEach((mark, i) => {
		const at = place(x, mark.x, box.x), isLate = at > (box.x[0] + box.x[1]) / 2;

		layer.append(drawn("line", { class: "mark", x1: at, x2: at, y1: box.y[0], y2: box.y[1] }),
			drawn("text", { class: "mark", x: isLate ? at - 4 : at + 4, y: box.y[1] + 12 + 14 * i,
				"text-anchor": isLate ? "end" : "start" }, mark.label));
	});
}

function chart(spec) {
	const x = makeScale(spec.x, valuesOf(spec, "x")), y = makeScale(spec.y, valuesOf(spec, "y"));
	const state = { spec, x, y, hidden: new Set(), box: null, seen: 0, points: [], focus: -1 };
	const svg = drawn("svg", { role: "img", "aria-label": spec.title, tabindex: "0" });
	const tip = element("div", { class: "tip", role: "status", hidden: true });
	const figure = element("figure", {}, element("figcaption", {}, spec.title), legend(state, redraw),
		element("div", { class: "canvas" }, svg, tip), zoomButtons(state, redraw));

	function redraw(seen = state.seen) {
		const width = Math.max(seen, 240), clip = `clip${clips++}`;
		const box = state.box = boxOf(spec, width), inside = drawn("g", { "clip-path": `url(#${clip})` });
		const at = (p) => [place(x, p.x, box.x), y.rows ? box.y[1] + p.y * ROW : place(y, p.y, box.y)]
			.map((v) => Number(v.toFixed(2)));

		state.seen = seen;
		svg.setAttribute("viewBox", `0 0 ${width} ${box.height}`);
		svg.replaceChildren(drawn("clipPath", { id: clip }, drawn("rect", { x: box.x[0] - 6, y: box.y[1] - 4,
			width: box.x[1] - box.x[0] + 12, height: box.y[0] - box.y[1] + 8 })));
		drawAxes(svg, box, x, y);
		if (y.rows) {
			drawRows(svg, box, y);
		}
		svg.append(inside);
		drawBars(inside, spec, box, x, y);
		state.points = (spec.bars ?? []).map((b) => ({ x: (place(x, b.x0, box.x) + place(x, b.x1, box.x)) / 2,
			y: place(y, b.y, box.y), tip: b.tip }));
		for (const series of spec.series.filter((s) => !state.hidden.has(s))) {
			drawSeries(inside, series, at);
			series.points.forEach((p) => state.points.push({ x: at(p)[0], y: at(p)[1], tip: p.tip }));
		}
	}
	addPointer(state, svg, tip, redraw);
	charts.push({ figure, draw: (width) => width && width !== state.seen && redraw(width) });
	return figure;
}

/* What each colour is; a press hides a series. */
function legend(state, redraw) {
	const toggle = (series) => (event) => {
		const wasHidden = state.hidden.delete(series);

		if (!wasHidden) {
			state.hidden.add(series);
		}
		event.currentTarget.setAttribute("aria-pressed", String(wasHidden));
		redraw();
	};
	const entries = state.spec.series.filter((s) => s.label).map((series) =>
		element("button", { type: "button", "aria-pressed": "true", onclick: toggle(series) },
			swatch(series), series.label));

	return entries.length > 1 ? element("div", { class: "legend" }, entries) : null;
}

function swatch(series) {
	const line = drawn("path", { class: "line", d: "M-13 0H13", "stroke-dasharray": DASHES[series.style % 4] });

	return drawn("svg", { class: `series c${series.color % 8}`, viewBox: "-13 -7 26 14", width: 26, height: 14,
		"aria-hidden": "true" }, series.line ? line : null, marker(series));
}
