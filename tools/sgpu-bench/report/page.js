/* SPDX-License-Identifier: Apache-2.0
 *
 * The page: summary, machines, a section for each case, what was not measured, files.
 */
"use strict";

const OPEN_MOST = 12;

function section(id, title, ...content) {
	return element("section", { id }, element("h2", {}, title), content);
}

function summaryOf(run) {
	const all = run.files.flatMap((file) => file.measurements), reasons = doubts(run);
	const count = (status) => all.filter((m) => m.record.status === status).length;
	const verdict = reasons.length ? "unverified" : "verified";

	return element("div", { class: "run" }, element("h3", {}, run.name),
		element("p", {}, `${count("passed")} passed, ${count("waived")} waived, ${count("failed")} failed. `,
			element("strong", { class: verdict }, verdict)),
		element("ul", {}, reasons.map((reason) => element("li", {}, reason))));
}

function shown(value) {
	return value === null ? "none" : typeof value !== "object" ? textOf(value) :
		Object.entries(value).map(([name, part]) => `${name}: ${shown(part)}`).join("; ");
}

/* A row for each member of the environments, with all its values. */
function machineSection(runs) {
	const members = (run) => run.files.flatMap((file) => file.members);
	const keys = new Set(runs.flatMap(members).map(([key]) => key));
	const values = (run, key) => members(run).filter(([name]) => name === key).map(([, value]) => shown(value));
	const rows = [...keys].filter((key) => !/^(record|command)$/.test(key)).map((key) =>
		[key.replaceAll("_", " "), ...runs.map((run) => [...new Set(values(run, key))].slice(0, OPEN_MOST).join("; "))]);

	return section("machines", "Machines", folded(`${rows.length} properties`, false,
		table("What was measured on", ["", ...runs.map((run) => run.name)], rows)));
}

function measurementTable(caption, list, runs) {
	const ns = (value) => value > 0 ? quantity(value, "time") : undefined;
	const row = ({ record: r, ...m }) => [
		labelOf(m), runs.length > 1 ? m.run.name : "", quantity(m.result, m.kind),
		r.ratio_to ? `${ratioText(r.ratio)} ${r.ratio_to}` : "",
		ns(r.goal_ns), r.n, ns(r.min_ns), ns(r.median_ns),
		r.median_high_ns > 0 ? `${ns(r.median_low_ns)} – ${ns(r.median_high_ns)}` : "",
		ns(r.p90_ns), ns(r.p95_ns), ns(r.p99_ns), ns(r.cpu_median_ns),
	];

	return table(caption, ["point", "run", "result", "ratio", "goal", "n", "minimum",
		"median of a sample", "its 95 % interval", "p90", "p95", "p99", "processor time"], list.map(row));
}

/* Figures of different sources never share a plot. */
function caseSection(name, measurements, runs) {
	const passed = measurements.filter((m) => m.passed);
	const parts = groups(passed, (m) => JSON.stringify([m.source, m.kind]));

	return section(`case-${name}`, name, passed.length ? [] : element("p", {}, "Nothing was measured: see ",
		element("a", { href: "#not-measured" }, "why"), "."), [...parts.values()].map((list) => {
		const title = list[0].source === "hardware" ? name : `${name}, source: ${list[0].source}`;

		return [element("div", { class: "plots" }, plotsOf(title, list, runs)),
			folded(`Table of ${list.length} measurements`, list.length <= OPEN_MOST, measurementTable(title, list, runs))];
	}));
}

function filesSection(files) {
	const text = (file, key) => file.members.filter(([name]) => name === key).map(([, value]) => textOf(value)).join();

	return section("files", "Files", table("What this page was made from",
		["file", "run", "date", "commit", "command", "measurements"], files.map((file) =>
			[file.name, file.measurements[0]?.run.name, ...["date", "commit", "command"].map((key) => text(file, key)),
				file.measurements.length])));
}

function show() {
	const { files, runs, measurements } = readResults(document.getElementById("results").textContent);
	const lacking = measurements.filter((m) => !m.passed);
	const reasons = lacking.map((m) => [m.run.name, m.name, labelOf(m), m.record.status, m.record.reason]);
	const sections = [
		machineSection(runs),
		[...groups(measurements, (m) => m.name)].map(([name, list]) => caseSection(name, list, runs)),
		lacking.length ? section("not-measured", "Not measured",
			table("Not measured", ["run", "case", "point", "status", "reason"], reasons)) : [], filesSection(files),
	].flat(Infinity);

	append(document.getElementById("summary"), runs.map(summaryOf));
	append(document.getElementById("contents"), sections.map((s) =>
		element("a", { href: `#${encodeURIComponent(s.id)}` }, s.firstChild.textContent)));
	append(document.getElementById("report"), sections);
	addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => {
		part.open = true;
	}));
	/* Plots have the colours of the time at which they were drawn. */
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
}

/* Says once that the script failed: an empty page would look like results without measurements. */
addEventListener("error", ({ message }) => document.getElementById("summary").before(element("p", { class: "fault",
	role: "alert" }, `This page is not complete: its script failed (${message}). sgpu-bench table FILE shows the same `,
	"figures as text.")), { once: true });
document.addEventListener("DOMContentLoaded", show);
