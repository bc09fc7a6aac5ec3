/* SPDX-License-Identifier: Apache-2.0
 *
 * From records to runs. sgpu-bench has checked what it reads; other members may be anything.
 */
"use strict";

/* As C's sgpu_is_control(): what turns or hides text. Names of files may have it. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function isPlain(value) {
	return ["string", "number", "boolean"].includes(typeof value);
}

/* A list or an object may not even become a text: it may have a member `toString`. */
function textOf(value) {
	return isPlain(value) ? String(value) : "–";
}

function plainMembers(object) {
	return Object.fromEntries(Object.entries(object).filter(([, value]) => isPlain(value)));
}

/* Groups of a list, by what `key` says, in the order of their first members. */
function groups(list, key) {
	const found = new Map();

	for (const item of list) {
		const name = key(item), group = found.get(name);

		group ? group.push(item) : found.set(name, [item]);
	}
	return found;
}

/* As sgpu-bench compare writes it. */
function keyOf(record) {
	const parameters = Object.entries(record.parameters).sort(([a], [b]) => a < b ? -1 : 1);
	const parts = [record.case, record.variant, ...parameters.map(([key, value]) => `${key}=${value}`)];

	return parts.filter((part) => part).join(" ");
}

function measurementOf(record) {
	const operations = record.operations || 1;
	const { source = "hardware", ...parameters } = record.parameters;
	/* In the unit of the case, for a time of a sample. */
	const value = (ns) => record.unit === "B/s" ? record.bytes / ns * 1e9 :
		record.unit === "op/s" ? operations / ns * 1e9 : ns / operations;

	return {
		record: plainMembers(record), parameters, operations, value, key: keyOf(record),
		name: record.case, variant: record.variant, source: textOf(source),
		kind: record.unit === "ns" ? "time" : record.unit, passed: record.status === "passed",
		result: record.status === "passed" ? value(record.median_ns) : undefined,
	};
}

function fileOf({ name, text }) {
	const lines = text.split("\n").filter((line) => line).map((line) => JSON.parse(line));
	const of = (kind) => lines.filter(({ record }) => record === kind);
	const [environment = {}] = of("environment");

	return {
		name: name.replace(CONTROLS, "?"), environment: plainMembers(environment),
		members: Object.entries(environment),
		measurements: of("measurement").map(measurementOf),
	};
}

/* A run: files of one machine that have no measurement in common, such as one for each case. */
function runsOf(files) {
	const runs = [];

	for (const file of files.filter((f) => f.measurements.length)) {
		const { processor, processors, device, device_selector: selector } = file.environment;
		const machine = JSON.stringify([processor, processors, device]);
		const isFree = (r) => r.machine === machine && !file.measurements.some((m) => r.keys.has(m.key));
		let run = runs.find(isFree);

		if (!run) {
			const title = textOf((selector === "cpu" ? processor : device) ?? file.name);

			run = { number: runs.length + 1, title, machine, keys: new Set(), files: [] };
			runs.push(run);
		}
		run.files.push(file);
		for (const m of file.measurements) {
			m.run = run;
			run.keys.add(m.key);
		}
	}
	const dated = (run) => `${run.title}, ${textOf(run.files[0].environment.date).slice(0, 10)}`;
	const names = [(run) => run.title, dated, (run) => `${run.title} (${run.number})`]
		.find((way) => new Set(runs.map(way)).size === runs.length);

	runs.forEach((run) => { run.name = names(run); });
	return runs;
}

/* Why the figures of a run should not be quoted. */
function doubts(run) {
	const reasons = [
		["the tree was not clean", ({ environment: e }) => e.tree === "modified" || /-changed$/.test(e.commit)],
		["it is not known which commit was measured", ({ environment: e }) =>
			!e.commit || e.commit === "unknown" || e.tree === "unknown"],
		["--quick is a test, not for figures", ({ environment: e }) => e.quick],
	].map(([reason, isSo]) => [reason, run.files.filter(isSo).map(({ name }) => name)]);

	return reasons.filter(([, names]) => names.length).map(([reason, names]) =>
		`${reason} (${names.length > 1 && names.length === run.files.length ? "all files" : names.join(", ")})`);
}

function readResults(text) {
	const files = JSON.parse(text).map(fileOf);

	return { files, runs: runsOf(files), measurements: files.flatMap((file) => file.measurements) };
}
