/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables: what charts show, for eyes, keyboards and printers.
 */
"use strict";

/* A bar for the logarithm of a ratio, from the middle; hatched if it says nothing: inside the noise. */
function ratioBar(ratio, isNoise, most) {
	const size = Math.min(1, Math.abs(Math.log(ratio)) / most) * 38, begin = ratio < 1 ? 40 - size : 40;

	const kind = isNoise ? "noise" : ratio < 1 ? "faster" : "slower";

	return drawn("svg", { class: "ratio", viewBox: "0 0 80 12", width: 80, height: 12, "aria-hidden": "true" },
		drawn("rect", { class: kind, x: begin, y: 1.5, width: Math.max(size, 1), height: 9 }),
		drawn("line", { x1: 40, x2: 40, y1: 0, y2: 12 }));
}

/* The ratio to the first variant of the point. */
function ratioCell(m, most) {
	const { ratio } = m.record, isNoise = Math.abs(Math.log(ratio)) <= m.noise.ratio_floor;

	return element("span", { class: "with-bar" }, ratioText(ratio), ratioBar(ratio, isNoise, most),
		isNoise ? element("small", {}, "inside the noise") : null);
}

/* The columns of a case: those in which something stands. */
function columnsOf(measurements, runs) {
	const keys = [...keysOf(measurements)];
	const ns = (name) => (m) => m.record[name] > 0 ? quantity(m.record[name], "time") : undefined;
	const most = spanOf(measurements.map((m) => m.record.ratio));
	const all = [
		["run", (m) => runs.length > 1 ? m.run.name : undefined],
		...keys.length > KEYS_MOST ? [["parameters", (m) => labelOf({ ...m, variant: "" })]] :
			keys.map((key) => [parameterName(key), (m) =>
				Object.hasOwn(m.parameters, key) ? parameterText(key, m.parameters[key]) : undefined]),
		["variant", (m) => m.variant || undefined],
		["result", (m) => quantity(m.result, m.kind), true],
		["ratio to the first variant", (m) => m.record.ratio_to ? ratioCell(m, most) : undefined, true],
		["published", (m) => m.record.reference_ratio ?
			`${ratioText(m.record.reference_ratio)} ${m.record.reference}` : undefined],
		["n", (m) => m.record.n, true],
		["minimum", ns("min_ns"), true],
		["median of a sample", ns("median_ns"), true],
		["its 95 % interval", (m) => m.record.median_high_ns > 0 ?
			`${ns("median_low_ns")(m)} – ${ns("median_high_ns")(m)}` : undefined, true],
		["p95", ns("p95_ns"), true],
		["p99", ns("p99_ns"), true],
		["cycles an operation", (m) => number(m.record.cycles_per_operation)?.toFixed(0), true],
		["p50 of operations", ns("operation_p50_ns"), true],
		["p99 of operations", ns("operation_p99_ns"), true],
		["bytes counted", (m) => m.record.bytes_formula],
		["noise floor", (m) => m.noise.floor === undefined ? undefined : share(m.noise.floor), true],
		["stopped by", (m) => m.record.stopped],
	];

	return all.filter(([, cell]) => measurements.some((m) => cell(m) !== undefined));
}

function measurementTable(caption, measurements, runs) {
	const columns = columnsOf(measurements, runs);
	const numbers = columns.flatMap(([, , isNumber], i) => isNumber ? [i] : []);

	return table(caption, columns.map(([name]) => name),
		measurements.map((m) => columns.map(([, cell]) => cell(m))), numbers);
}

/* How far bars of ratios reach, as a logarithm. */
function spanOf(ratios) {
	return ratios.filter((r) => r > 0).reduce((most, r) => Math.max(most, Math.abs(Math.log(r))), Math.log(1.05));
}

function waivedTable(measurements) {
	const point = (m) => [labelOf(m), m.source].filter((part) => part !== m.name && part !== "hardware");
	const rows = measurements.map((m) =>
		[m.run.name, m.name, point(m).join(", ") || "all", m.record.status, m.record.reason]);

	return table("Not measured", ["run", "case", "point", "status", "reason"], rows);
}

/* Another run beside a base: times of the one by those of the other. */
function comparisonTable(base, other, results) {
	const pairs = [...base.keys.values()].map((m) => [m, other.keys.get(m.key)]).filter(([, second]) => second);
	const judge = (a, b) => results.verdict(a, b) ?? inverse(results.verdict(b, a));
	const judged = pairs.map(([a, b]) => [a, b, judge(a, b)]).filter(([, , v]) => v);
	const most = spanOf(judged.map(([, , v]) => 1 + v.change));
	const rows = judged.map(([a, b, v]) => [a.key, quantity(a.result, a.kind), quantity(b.result, b.kind),
		element("span", { class: "with-bar" }, ratioText(1 + v.change),
			ratioBar(1 + v.change, saysNothing(v), most)),
		percent(v.change), share(v.noise) + (v.isMeasured ? "" : ", guessed"), v.verdict]);
	const counts = [...groups(judged, ([, , v]) => v.verdict)].map(([name, list]) => `${list.length} ${name}`);
	const head = ["measurement", base.name, other.name, "ratio of times", "change", "noise", "verdict"];
	const title = `${other.name} against ${base.name}`;

	return rows.length === 0 ? element("p", {}, `${other.name} has no measurement in common with ${base.name}.`) :
		folded(`${title}: ${counts.join(", ")}`, rows.length <= OPEN_MOST,
			table(title, head, rows, [1, 2, 3, 4, 5]));
}

function saysNothing({ verdict }) {
	return verdict !== "faster" && verdict !== "slower";
}

/* The same verdict with the runs exchanged. */
function inverse(verdict) {
	const names = { faster: "slower", slower: "faster" };

	return verdict && { ...verdict, verdict: names[verdict.verdict] ?? verdict.verdict,
		change: 1 / (1 + verdict.change) - 1 };
}
