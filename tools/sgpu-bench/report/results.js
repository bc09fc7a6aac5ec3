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

function number(value) {
	return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/* As sgpu-bench compare writes it. */
function keyOf(record) {
	const parameters = Object.entries(record.parameters).sort(([a], [b]) => a < b ? -1 : 1);
	const parts = [record.case, record.variant, ...parameters.map(([key, value]) => `${key}=${value}`)];

	return parts.filter((part) => part).join(" ");
}

function measurementOf(record, file, index) {
	const samples = Array.isArray(record.samples_ns) ? record.samples_ns.map(number).filter((s) => s > 0) : [];
	const operations = record.operations || 1;
	const { source = "hardware", ...parameters } = record.parameters;
	const value = (ns) => record.unit === "B/s" ? record.bytes / ns * 1e9 :
		record.unit === "op/s" ? operations / ns * 1e9 : ns / operations;

	return {
		file, index, record: plainMembers(record), parameters, samples, operations,
		key: keyOf(record), name: record.case, variant: record.variant, source: textOf(source),
		kind: record.unit === "ns" ? "time" : record.unit, passed: record.status === "passed",
		/* In the unit of the case, for a time of a sample. */
		value, result: record.status === "passed" ? value(record.median_ns) : undefined,
	};
}

function fileOf({ name, text }, number) {
	const file = { name: name.replace(CONTROLS, "?"), number, environment: {}, members: new Map(), noise: new Map(),
		measurements: [] };
	const addMembers = (record, prefix) =>
		Object.entries(record).forEach(([key, value]) => file.members.set(prefix + key, value));

	for (const line of text.split("\n").filter((l) => l).map((l) => JSON.parse(l))) {
		if (line.record === "environment") {
			file.environment = plainMembers(line);
			addMembers(line, "");
		} else if (line.record === "end") {
			addMembers(line, "at the end: ");
		} else if (line.record === "noise") {
			file.noise.set(line.measurement, line);
		} else if (line.record === "measurement") {
			file.measurements.push(measurementOf(line, file, file.measurements.length));
		}
	}
	const { processor, processors, device } = file.environment;

	file.machine = JSON.stringify([processor, processors, device]);
	return file;
}

/* A run: files of one machine that have no measurement in common, such as one for each case. */
function runsOf(files) {
	const runs = [];

	for (const file of files.filter((f) => f.measurements.length)) {
		const isFree = (r) => r.machine === file.machine && !file.measurements.some((m) => r.keys.has(m.key));
		let run = runs.find(isFree);

		if (!run) {
			run = { index: runs.length, machine: file.machine, keys: new Map(), files: [] };
			runs.push(run);
		}
		run.files.push(file);
		for (const m of file.measurements) {
			m.run = run;
			m.noise = file.noiseFrom?.noise.get(m.key) ?? {};
			run.keys.set(m.key, m);
		}
	}
	nameRuns(runs);
	return runs;
}

function nameRuns(runs) {
	const stem = (file) => file.name.replace(/\.jsonl?$/, "");
	const machine = ({ environment: e }) => /^(cpu|)$/.test(e.device_selector ?? "") ? e.processor : e.device;
	const date = (file) => textOf(file.environment.date ?? "").slice(0, 10);
	const isUnique = (names) => new Set(names).size === names.length;
	const choices = [
		runs.map((run) => textOf(machine(run.files[0]) ?? stem(run.files[0]))),
		runs.map((run) => `${machine(run.files[0]) ?? stem(run.files[0])}, ${date(run.files[0])}`),
		runs.map((run) => stem(run.files[0])),
		runs.map((run) => `${stem(run.files[0])} (${run.index + 1})`),
	];
	const names = choices.find(isUnique);

	runs.forEach((run, i) => { run.name = names[i]; });
}

/* Why the figures of a run should not be quoted. */
function doubts(run) {
	const found = new Map(), doubt = (reason, file) => found.set(reason, [...found.get(reason) ?? [], file.name]);

	for (const file of run.files) {
		const e = file.environment, commit = textOf(e.commit ?? "");

		if (e.tree === "modified" || commit.endsWith("-changed")) {
			doubt("the tree was not clean", file);
		} else if (!commit || commit === "unknown" || e.tree === "unknown") {
			doubt("it is not known which commit was measured", file);
		}
		if (e.quick) {
			doubt("--quick is a test, not for figures", file);
		}
		if (!file.noiseFrom) {
			doubt("no A/A run of this machine and build is given, so the noise is not known", file);
		}
	}
	const some = (names) => names.length > 1 && names.length === run.files.length ? "all files" : names.join(", ");

	return [...found].map(([reason, names]) => `${reason} (${some(names)})`);
}

function readResults(text) {
	const { files: parts, differences } = JSON.parse(text);
	const files = parts.map(fileOf), verdicts = new Map();

	files.forEach((file, i) => { file.noiseFrom = files[parts[i].noise]; });
	for (const [a, i, b, k, verdict, change, noise, isMeasured] of differences) {
		verdicts.set(`${a} ${i} ${b} ${k}`, { verdict, change, noise, isMeasured });
	}
	const runs = runsOf(files);

	return {
		files, runs, measurements: runs.flatMap((run) => run.files.flatMap((file) => file.measurements)),
		/* What sgpu-bench compare says of two measurements, the first one being the base. */
		verdict: (base, m) => verdicts.get(`${base.file.number} ${base.index} ${m.file.number} ${m.index}`),
	};
}

/* Groups of a list, by what `key` says, in the order of their first members. */
function groups(list, key) {
	const found = new Map();

	for (const item of list) {
		const name = key(item), group = found.get(name);

		if (group) {
			group.push(item);
		} else {
			found.set(name, [item]);
		}
	}
	return found;
}
