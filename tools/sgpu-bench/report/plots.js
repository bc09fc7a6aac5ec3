/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots, drawn by Chart.js: lines over what is swept, dots for the rest.
 */
"use strict";

const LINES_MOST = 8, ROWS_MOST = 40;
const SHAPES = ["circle", "rect", "triangle", "rectRot", "star", "cross", "rectRounded", "crossRot"];
const AXES = {
	time: "time of an operation, less is better",
	"B/s": "bytes per second, more is better",
	"op/s": "operations per second, more is better",
};

function colour(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* An axis that shows all the values: logarithmic where they span much and have no zero. `marked`: where its ticks are. */
function axisOf(kind, title, values, marked) {
	const finite = values.filter(Number.isFinite);
	const [least, most] = [Math.min, Math.max].map((f) => finite.reduce((a, b) => f(a, b)));
	const isLog = least > 0 && most / least >= 8, isShown = (v) => !isLog || marked || /^[125]\.0+e/.test(v.toExponential(6));

	return {
		type: isLog ? "logarithmic" : "linear", suggestedMin: isLog ? least : 0, suggestedMax: most,
		title: { display: true, text: title }, ticks: { callback: (v) => isShown(v) ? quantity(v, kind) : "" },
		afterBuildTicks: (axis) => { axis.ticks = marked?.map((value) => ({ value })) ?? axis.ticks; },
	};
}

function plot(title, datasets, scales, height) {
	const canvas = element("canvas", { role: "img", "aria-label": title });
	const box = element("div", { class: "canvas" }, canvas);

	Object.assign(Chart.defaults, { color: colour("soft"), borderColor: colour("line") });
	new Chart(canvas, {
		type: "scatter",
		data: { datasets: datasets.map((set, i) => ({
			borderColor: colour(`c${i % 8}`), backgroundColor: colour(`c${i % 8}`), pointStyle: SHAPES[i % 8],
			borderWidth: 1.5, borderDash: i < 8 ? [] : [6, 3], pointRadius: 4, ...set })) },
		options: {
			animation: false, maintainAspectRatio: false, scales,
			interaction: { mode: "nearest", intersect: false },
			plugins: {
				legend: { display: datasets.length > 1, align: "start", labels: { usePointStyle: true } },
				tooltip: { callbacks: { title: () => "", label: ({ raw }) => raw.tip } },
			},
		},
	});

	box.style.height = `${height + 10 * datasets.length}px`;
	return element("figure", {}, element("figcaption", {}, title), box);
}

function tipOf(m, runs) {
	const r = m.record, ns = (value) => quantity(value / m.operations, "time");

	return [
		labelOf(m), ...runs.length > 1 ? [m.run.name] : [], quantity(m.result, m.kind),
		`n ${r.n}, median ${ns(r.median_ns)}, p95 ${ns(r.p95_ns)}`,
		...r.ratio_to ? [`${ratioText(r.ratio)} the time of ${r.ratio_to}`] : [],
	];
}

function pointOf(m, runs, along, place) {
	return { ...place, [along]: m.result, tip: tipOf(m, runs) };
}

/* Parts of a list that have at most so many labels each, told apart by parameters as long as there are any. */
function partsOf(list, most, label, keys) {
	const count = (key) => new Set(list.map((m) => m.parameters[key])).size;
	const key = keys.filter((k) => count(k) > 1).sort((a, b) => count(a) - count(b))[0];

	return groups(list, label).size <= most || !key ? [list] :
		[...groups(list, (m) => m.parameters[key]).values()].flatMap((part) => partsOf(part, most, label, keys));
}

/* Parameters that are the same in all measurements: they stand in the title. */
function constantsOf(list) {
	return Object.keys(list[0].parameters).filter((key) =>
		list.every((m) => m.parameters[key] === list[0].parameters[key]));
}

function titleOf(name, [m], constants) {
	const others = Object.keys(m.parameters).filter((key) => !constants.includes(key));

	return constants.length ? `${name}: ${labelOf({ ...m, variant: "" }, others)}` : name;
}

function lineChart(name, list, swept, runs) {
	const constants = constantsOf(list), xs = [...new Set(list.map((m) => m.parameters[swept]))].sort((a, b) => a - b);
	const label = (m) => [labelOf(m, [swept, ...constants]), ...runs.length > 1 ? [m.run.name] : []].join(": ");
	const datasets = [...groups(list, label)].map(([text, part]) => ({
		label: text, showLine: true,
		data: part.map((m) => pointOf(m, runs, "y", { x: m.parameters[swept] })).sort((a, b) => a.x - b.x),
	}));
	const ys = datasets.flatMap(({ data }) => data.map(({ y }) => y));

	return plot(titleOf(`${name} by ${parameterName(swept)}`, list, constants), datasets, {
		x: axisOf(kindOfParameter(swept), parameterName(swept), xs, xs),
		y: axisOf(list[0].kind, AXES[list[0].kind], ys),
	}, 320);
}

function dotChart(name, list, runs) {
	const constants = list.length > 1 ? constantsOf(list) : [], label = (m) => labelOf(m, constants);
	const datasets = [...groups(list, (m) => m.run.name)].map(([text, part]) =>
		({ label: text, data: part.map((m) => pointOf(m, runs, "x", { y: label(m) })) }));
	const labels = [...groups(list, label).keys()], xs = datasets.flatMap(({ data }) => data.map(({ x }) => x));

	return plot(titleOf(name, list, constants), datasets, {
		x: axisOf(list[0].kind, AXES[list[0].kind], xs), y: { type: "category", labels, offset: true },
	}, 24 * labels.length + 110);
}

/* The parameter that is an axis: the size, or that with most values, of which there are at least three. */
function sweptIn(list, keys) {
	const count = (key) => new Set(list.map((m) => m.parameters[key]).filter((v) => v > 0 && typeof v === "number")).size;
	const others = keys.filter((key) => count(key) > 2 && !key.startsWith("graviton_"));

	return count("size_bytes") > 1 ? "size_bytes" : others.sort((a, b) => count(b) - count(a))[0];
}

/* Measurements of one case, one source and one unit that passed. More than a plot can show are in the table alone. */
function plotsOf(name, list, runs) {
	const keys = [...new Set(list.flatMap((m) => Object.keys(m.parameters)))].slice(0, ROWS_MOST);
	const swept = sweptIn(list, keys), line = (m) => `${labelOf(m, [swept])}, ${m.run.name}`;
	const isLine = (part) => part[0].parameters[swept] > 0 && part.length > 1;
	const lines = swept ? [...groups(list, line).values()].filter(isLine).flat() : [];
	const rest = new Set(list), isSmall = (most, label) => (part) => groups(part, label).size <= most;

	lines.forEach((m) => rest.delete(m));
	return [
		...partsOf(lines, LINES_MOST, line, keys.filter((key) => key !== swept)).filter(isSmall(4 * LINES_MOST, line))
			.filter((part) => part.length).map((part) => lineChart(name, part, swept, runs)),
		...partsOf([...rest], ROWS_MOST, (m) => labelOf(m), keys).filter(isSmall(ROWS_MOST, (m) => labelOf(m)))
			.filter((part) => part.length).map((part) => dotChart(name, part, runs)),
	];
}
