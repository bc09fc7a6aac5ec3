/* SPDX-License-Identifier: Apache-2.0
 *
 * Which charts show a case: lines over what is swept, dots for the rest, and how samples are distributed. Figures of
 * different sources never share one.
 */
"use strict";

const SERIES_MOST = 6, KEYS_MOST = 32, SAMPLES_LEAST = 100, BINS_MOST = 80;
const SWEPT_FIRST = ["size_bytes", "requests_per_second"];

function keysOf(measurements) {
	return new Set(measurements.flatMap((m) => Object.keys(m.parameters)));
}

/* The parameter that is an axis: the first choice, or that with most values, of which there are at least three. A
 * published figure is none. More parameters than any case has would take too long to try. */
function sweptIn(measurements) {
	const values = new Map();

	if (keysOf(measurements).size > KEYS_MOST) {
		return undefined;
	}
	for (const m of measurements) {
		for (const [key, value] of Object.entries(m.parameters)) {
			if (typeof value === "number" && value > 0 && !key.startsWith("graviton_")) {
				values.set(key, (values.get(key) ?? new Set()).add(value));
			}
		}
	}
	const counts = [...values].map(([key, set]) => [key, set.size]);

	return SWEPT_FIRST.find((key) => (values.get(key)?.size ?? 0) > 1) ??
		counts.filter(([, count]) => count > 2).sort((a, b) => b[1] - a[1])[0]?.[0];
}

/* "sealed, h2d, streams 4" without the parameters in `without`. */
function labelOf(m, without = []) {
	const parts = Object.entries(m.parameters).filter(([key]) => !without.includes(key)).map(([key, value]) =>
		typeof value === "number" ? `${parameterName(key)} ${parameterText(key, value)}` : value);

	return [m.variant, ...parts].filter((part) => part !== "").join(", ") || m.name;
}

/* Parameters that are the same in all measurements: they stand in the title. */
function constantKeys(measurements) {
	const [first] = measurements;

	return measurements.length < 2 ? [] : Object.keys(first.parameters).filter((key) =>
		measurements.every((m) => m.parameters[key] === first.parameters[key]));
}

function titleOf(name, measurements, keys) {
	const parts = keys.filter((key) => Object.hasOwn(measurements[0].parameters, key)).map((key) => {
		const value = measurements[0].parameters[key];

		return typeof value === "number" ? `${parameterName(key)} ${parameterText(key, value)}` : value;
	});

	return parts.length ? `${name}: ${parts.join(", ")}` : name;
}

function tipOf(m, runs) {
	const r = m.record, ns = (value) => quantity(value / m.operations, "time");
	const more = `${r.p99_ns ? `, p99 ${ns(r.p99_ns)}` : ""}${m.operations > 1 ? " of an operation" : ""}`;

	return [
		labelOf(m), runs.length > 1 ? m.run.name : undefined, quantity(m.result, m.kind),
		`n ${r.n}, median ${ns(r.median_ns)}, p95 ${ns(r.p95_ns)}${more}`,
		r.median_high_ns ? `95 % interval of the median ${ns(r.median_low_ns)} to ${ns(r.median_high_ns)}` :
			undefined,
		r.ratio_to ? `${ratioText(r.ratio)} the time of ${r.ratio_to}` : undefined,
	].filter((line) => line !== undefined);
}

/* Parameters that must tell charts apart, so that none has too many series. */
function facetKeys(measurements, swept) {
	const facets = [], labels = (list) => new Set(list.map((m) => labelOf(m, [swept, ...facets]))).size;
	const most = () => [...groups(measurements, (m) => facetOf(m, facets)).values()].map(labels)
		.reduce((a, b) => Math.max(a, b), 0);
	const keys = keysOf(measurements);

	while (most() > SERIES_MOST) {
		const count = (key) => new Set(measurements.map((m) => m.parameters[key])).size;
		const open = [...keys].filter((key) => key !== swept && !facets.includes(key))
			.map((key) => [key, count(key)]).filter(([, number]) => number > 1);

		if (open.length === 0) {
			break;
		}
		facets.push(open.sort((a, b) => a[1] - b[1])[0][0]);
	}
	return facets;
}

function facetOf(m, facets) {
	return JSON.stringify(facets.map((key) => m.parameters[key]));
}

function lineChart(name, measurements, swept, facets, runs) {
	const constants = [...new Set([...facets, ...constantKeys(measurements)])], without = [swept, ...constants];
	const title = titleOf(name, measurements, constants);
	const labels = [...groups(measurements, (m) => labelOf(m, without)).keys()];
	const colors = new Map(labels.map((label, i) => [label, i]));
	const isOfMany = measurements.some((m) => m.run !== measurements[0].run);
	const lists = groups(measurements, (m) => JSON.stringify([labelOf(m, without), m.run.index]));
	const series = [...lists.values()].map((list) => {
		const color = colors.get(labelOf(list[0], without));
		const points = list.map((m) => ({
			x: parameterValue(swept, m.parameters[swept]), y: m.result, tip: tipOf(m, runs),
			y0: m.value(m.record.min_ns || m.record.median_ns), y1: m.value(m.record.p95_ns),
		})).sort((a, b) => a.x - b.x);

		return { label: isOfMany ? `${labels[color]}: ${list[0].run.name}` : labels[color], color, line: true,
			style: isOfMany ? runs.indexOf(list[0].run) : Math.floor(color / 8), points };
	});
	const kind = kindOfParameter(swept), marked = [...new Set(series.flatMap((s) => s.points.map((p) => p.x)))];

	return chart({ title, series, x: { kind, label: parameterName(swept), marked },
		y: { kind: measurements[0].kind, label: AXES[measurements[0].kind] } });
}

function dotChart(name, measurements, runs) {
	const without = constantKeys(measurements), title = titleOf(name, measurements, without);
	const rows = [...groups(measurements, (m) => labelOf(m, without)).keys()];
	const at = new Map(rows.map((row, i) => [row, i]));
	const yOf = (m, index) => at.get(labelOf(m, without)) + 0.62 + (runs.length > 1 ? 0.1 * (index % 3) : 0);
	const series = [...groups(measurements, (m) => runs.indexOf(m.run))].map(([index, list]) => ({
		label: list[0].run.name, color: index, style: 0, line: false,
		points: list.map((m) => ({
			x: m.result, y: yOf(m, index), tip: tipOf(m, runs),
			x0: m.value(m.record.min_ns || m.record.median_ns),
			x1: m.value(m.record.p99_ns ?? m.record.p95_ns),
		})),
	}));
	const { kind } = measurements[0];

	return chart({ title, series, x: { kind, label: AXES[kind] }, y: { rows } });
}

/* Measurements of one case, one source and one unit that passed: lines over one parameter, then over another one. */
function chartsOf(measurements, runs) {
	const charts = [], [{ source, name: plain }] = measurements;
	const name = source === "hardware" ? plain : `${plain} (${source})`;
	let rest = measurements, swept = sweptIn(rest);

	while (swept) {
		const [lines, others] = linesOver(swept, rest), facets = facetKeys(lines, swept);

		for (const list of groups(lines, (m) => facetOf(m, facets)).values()) {
			charts.push(lineChart(`${name} by ${parameterName(swept)}`, list, swept, facets, runs));
		}
		rest = others;
		swept = lines.length ? sweptIn(rest) : undefined;
	}
	if (rest.length) {
		charts.push(dotChart(charts.length ? `${name}: single points` : name, rest, runs));
	}
	return charts;
}

/* What makes lines over a parameter, of two points at least, and the rest. */
function linesOver(swept, measurements) {
	const isSwept = (m) => m.parameters[swept] > 0, found = new Set();
	const line = (m) => JSON.stringify([labelOf(m, [swept]), m.run.index]);

	for (const list of groups(measurements.filter(isSwept), line).values()) {
		if (new Set(list.map((m) => m.parameters[swept])).size > 1) {
			list.forEach((m) => found.add(m));
		}
	}
	return [measurements.filter((m) => found.has(m)), measurements.filter((m) => !found.has(m))];
}

/* A histogram of the times of one measurement's samples, up to a little above the 99th percentile: one that was
 * interrupted would leave no room for the others. */
function histogramOf(m, runs) {
	const times = m.samples.map((ns) => ns / m.operations).sort((a, b) => a - b), n = times.length;
	const at = (part) => times[Math.max(0, Math.ceil(part * n) - 1)], end = at(0.99) + 0.1 * (at(0.99) - at(0));
	const inside = times.filter((t) => t <= end), above = n - inside.length;
	const marks = [[0.5, "median"], [0.95, "p95"], [0.99, "p99"]].map(([part, name]) =>
		({ x: at(part), label: `${name} ${quantity(at(part), "time")}` }));
	const what = m.operations > 1 ? `mean time of ${m.operations} operations` : "time of a sample";
	const more = above ? `; ${above} above, to ${quantity(at(1), "time")}` : "";

	return chart({
		title: labelOf(m) + (runs.length > 1 ? `: ${m.run.name}` : ""), series: [], marks, height: 190,
		bars: binsOf(inside, [at(0.25), at(0.75)], n, tipOf(m, runs).find((line) => line.startsWith("n "))),
		x: { kind: "time", label: what + more, tight: true }, y: { kind: "count", label: "samples" },
	});
}

/* Bins as wide as the rule of Freedman and Diaconis says, of logarithms where times span much. */
function binsOf(times, quartiles, n, tip) {
	const least = times[0], most = times[times.length - 1], log = most / least >= 8;
	const to = log ? Math.log : (v) => v, from = log ? Math.exp : (v) => v;
	const low = to(least), span = to(most) - low;
	const middle = to(quartiles[1]) - to(quartiles[0]);
	const bins = Math.max(1, Math.min(BINS_MOST, Math.ceil(span / (2 * middle / Math.cbrt(n))) || 1));
	const width = span / bins || Math.abs(low) * 0.01 || 1, counts = new Array(bins).fill(0);

	for (const t of times) {
		counts[Math.min(bins - 1, Math.floor((to(t) - low) / width))]++;
	}
	return counts.map((y, i) => {
		const [x0, x1] = [from(low + i * width), from(low + (i + 1) * width)];
		const range = `${quantity(x0, "time")} to ${quantity(x1, "time")}`;

		return { x0, x1, y, tip: [`${y} of ${n} samples`, range, tip] };
	}).filter((bar) => bar.y);
}
