/* SPDX-License-Identifier: Apache-2.0
 *
 * The page: summary, machines, comparison, a section for each case, what was not measured, files.
 */
"use strict";

const OPEN_MOST = 12;

/* A part that is folded if it is long. A printer gets all tables. */
function folded(summary, isOpen, ...content) {
	return element("details", { open: isOpen }, element("summary", {}, summary), ...content);
}

function counted(count, one, many = `${one}s`) {
	return `${count} ${count === 1 ? one : many}`;
}

function section(id, title, ...content) {
	return element("section", { id }, element("h2", {}, title), ...content);
}

function summaryOf(run) {
	const all = [...run.keys.values()], count = (status) => all.filter((m) => m.record.status === status).length;
	const reasons = doubts(run);

	const verdict = reasons.length ? "unverified" : "verified";

	return element("div", { class: "run" }, element("h3", {}, run.name),
		element("p", { class: "machine" }, machineOf(run)),
		element("p", {}, `${count("passed")} passed, ${count("waived")} waived, ${count("failed")} failed. `,
			element("strong", { class: verdict }, verdict)),
		reasons.length ? element("ul", {}, reasons.map((reason) => element("li", {}, reason))) : null);
}

/* In a line: "AMD EPYC, 2 processors; NVIDIA H200, driver 580; Debian, Linux 6.18; confidential computing off" */
function machineOf({ files: [{ environment: e }] }) {
	const parts = [
		[e.processor, e.processors && `${e.processors} processors`, e.platform], [e.device, e.device_driver],
		[e.operating_system, e.kernel && `Linux ${e.kernel}`],
		[e.device_confidential_computing && `confidential computing ${e.device_confidential_computing}`],
	];

	return parts.map((part) => part.filter((text) => text).join(", ")).filter((text) => text).join("; ");
}

function shown(value, key = "") {
	if (value === null) {
		return "none";
	}
	if (typeof value === "object") {
		return Object.entries(value).map(([name, part]) => `${name}: ${shown(part)}`).join("; ");
	}
	return typeof value === "number" && key.endsWith("bytes") ? quantity(value, "bytes") : textOf(value);
}

/* Many numbers or dates as the first and the last of them. */
function listed(values, key) {
	const texts = [...new Set(values.map((value) => shown(value, key)))];
	const isOrdered = texts.length > 3 && values.every((v) => number(v) ?? /^\d{4}-\d\d-/.test(textOf(v)));
	const sorted = isOrdered ? [...values].sort((a, b) => a < b ? -1 : 1) : [];

	return isOrdered ? `${sorted[0]} to ${sorted[sorted.length - 1]}` : texts.join("; ");
}

/* A row for each member of the environments and of the ends of runs, with all its values. */
function machineSection({ runs }) {
	const keys = new Set(runs.flatMap((run) => run.files.flatMap((file) => [...file.members.keys()])));
	const values = (run, key) => run.files.filter((file) => file.members.has(key)).map((file) => file.members.get(key));
	const rows = [...keys].filter((key) => !/(^|: )(record|command)$/.test(key))
		.map((key) => [key.replaceAll("_", " "), ...runs.map((run) => listed(values(run, key), key))])
		.filter(([, ...texts]) => texts.some((text) => text !== ""));

	return section("machines", runs.length > 1 ? "Machines" : "Machine",
		folded(counted(rows.length, "property", "properties"), false,
			table("What was measured on", ["", ...runs.map((run) => run.name)], rows)));
}

function comparisonSection(results) {
	const { runs } = results, content = element("div");
	const show = (index) => {
		content.replaceChildren();
		appendAll(content, runs.filter((run) => run !== runs[index])
			.map((run) => comparisonTable(runs[index], run, results)));
	};
	const choice = element("select", { onchange: (event) => show(event.target.selectedIndex) },
		runs.map((run) => element("option", {}, run.name)));

	show(0);
	return section("comparison", "Comparison",
		element("p", {}, "Ratios are times divided by those of the base: below 1 is faster. A hatched ",
			"bar is a difference that says nothing: it is inside the noise, or ambiguous. Verdicts are ",
			"those of sgpu-bench compare; without an A/A run the noise is guessed from the samples."),
		element("p", { class: "choice" }, element("label", {}, "Base: ", choice)), content);
}

/* The options that a run was given, and no other words: a command is for copying, and results come from anywhere. */
function optionsOf({ command, device_selector: device, quick }) {
	const known = /(?:--(?:device|samples|time|size|timer|jobs)|-j)[ =][\w.:-]+|--quick/g;

	return typeof command === "string" ? command.match(known) ?? [] :
		[.../^[\w:.-]+$/.test(device ?? "") ? [`--device ${device}`] : [], ...quick ? ["--quick"] : []];
}

function commandsOf(measurements) {
	return [...new Set(measurements.filter(({ name }) => /^[\w-]+$/.test(name)).map(({ name, file }) =>
		["sgpu-bench run", ...optionsOf(file.environment), `--json -o ${name}.json ${name}`].join(" ")))];
}

function caseSection(name, measurements) {
	const runs = [...new Set(measurements.map((m) => m.run))];
	const passed = measurements.filter((m) => m.passed), content = [];
	const commands = commandsOf(measurements);

	if (commands.length) {
		content.push(element("p", { class: "repeat" }, "Repeat: ",
			commands.map((command) => element("code", {}, command))));
	}
	for (const list of groups(passed, (m) => JSON.stringify([m.source, m.kind])).values()) {
		const { source } = list[0], sampled = list.filter((m) => m.samples.length >= SAMPLES_LEAST);
		const caption = source === "hardware" ? name : `${name}, source: ${source}`;

		if (source !== "hardware") {
			content.push(element("h3", {}, "Source: ", source));
		}
		content.push(element("div", { class: "charts" }, chartsOf(list, runs)),
			folded(`Table of ${counted(list.length, "measurement")}`, list.length <= OPEN_MOST,
				measurementTable(caption, list, runs)));
		if (sampled.length) {
			content.push(distributions(name, sampled, runs));
		}
	}
	if (passed.length === 0) {
		content.push(element("p", {}, "Nothing was measured: see ",
			element("a", { href: "#not-measured" }, "why"), "."));
	}
	return section(`case-${name}`, name, content);
}

/* Drawn when they are looked at, unless the case is about them. */
function distributions(name, sampled, runs) {
	const isOpen = /^(transition|wake)$/.test(name), plots = element("div", { class: "small charts" });
	const part = folded(`Distributions of ${counted(sampled.length, "measurement")}`, isOpen, plots);
	const draw = () => {
		if (part.open && !plots.childElementCount) {
			appendAll(plots, sampled.map((m) => histogramOf(m, runs)));
		}
		drawVisible();
	};

	part.addEventListener("toggle", draw);
	draw();
	return part;
}

function filesSection(files) {
	const text = (file, key) => file.members.has(key) ? textOf(file.members.get(key)) : undefined;

	return section("files", "Files", table("What this page was made from",
		["file", "run", "date", "commit", "command", "measurements", "noise floors"], files.map((file) =>
			[file.name, file.measurements[0]?.run.name,
				...["date", "commit", "command"].map((key) => text(file, key)),
				file.measurements.length, file.noise.size || undefined]), [5, 6]));
}

function show() {
	const results = readResults(document.getElementById("results").textContent), { runs, measurements } = results;
	const lacking = measurements.filter((m) => !m.passed), cases = groups(measurements, (m) => m.name);
	const sections = [
		machineSection(results), ...runs.length > 1 ? [comparisonSection(results)] : [],
		...[...cases].map(([name, list]) => caseSection(name, list)),
		...lacking.length ? [section("not-measured", "Not measured", waivedTable(lacking))] : [],
		filesSection(results.files),
	];

	appendAll(document.getElementById("summary"), runs.map(summaryOf));
	appendAll(document.getElementById("contents"), sections.map((s) =>
		element("a", { href: `#${encodeURIComponent(s.id)}` }, s.firstChild.textContent)));
	appendAll(document.getElementById("report"), sections);
	drawVisible();
	addEventListener("resize", drawVisible);
	addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => {
		part.open = part.open || part.querySelector("table") !== null;
	}));
}

/* Says once that the script failed: an empty page would look like results without measurements. */
addEventListener("error", ({ message }) => document.getElementById("summary").before(element("p", { class: "fault",
	role: "alert" }, `This page is not complete: its script failed (${message}). sgpu-bench table FILE shows the same `,
	"figures as text.")), { once: true });
document.addEventListener("DOMContentLoaded", show);
