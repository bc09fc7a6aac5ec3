/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units, for people.
 */
"use strict";

const SCALES = {
	time: [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]],
	"B/s": [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]],
	"op/s": [[1e9, "Gop/s"], [1e6, "Mop/s"], [1e3, "kop/s"], [1, "op/s"]],
	bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
	count: [[1e9, "G"], [1e6, "M"], [1, ""]],
};
const AXES = {
	time: "time of an operation, less is better",
	"B/s": "bytes per second, more is better",
	"op/s": "operations per second, more is better",
};

/* What the numbers of a parameter are, by the unit in its name. */
function kindOfParameter(key) {
	return /(^|_)bytes$/.test(key) ? "bytes" : /(^|_)(ns|us|ms)$/.test(key) ? "time" : "count";
}

/* In the unit of the kind: times in nanoseconds. */
function parameterValue(key, value) {
	return value * (/(^|_)us$/.test(key) ? 1e3 : /(^|_)ms$/.test(key) ? 1e6 : 1);
}

/* Three digits that count, or more, and a unit. */
function quantity(value, kind, digits = 3) {
	const scales = SCALES[kind];
	const isLarge = ([least]) => Math.abs(value) >= least * 0.9995;
	const [scale, unit] = scales.find(isLarge) ?? scales[scales.length - 1];
	const scaled = value / scale, size = Math.abs(scaled);
	const text = (digits === 3 && size >= 99.95) || scaled === Math.round(scaled) ? String(Math.round(scaled)) :
		scaled.toPrecision(size < 0.01 ? 2 : digits);

	return unit ? `${text} ${unit}` : text;
}

function parameterText(key, value) {
	const kind = kindOfParameter(key);

	return typeof value !== "number" ? String(value) :
		kind === "count" ? String(value) : quantity(parameterValue(key, value), kind);
}

/* "size_bytes" is a size: the unit stands behind the number. */
function parameterName(key) {
	return key.replace(/_(bytes|ns|us|ms)$/, "").replaceAll("_", " ");
}

function ratioText(ratio) {
	return `${ratio.toFixed(ratio < 10 ? 3 : 1)} ×`;
}

function percent(fraction) {
	const text = (100 * fraction).toFixed(1);

	return `${fraction > 0 ? "+" : ""}${text.replace("-", "−")} %`;
}

function share(fraction) {
	return `${(100 * fraction).toFixed(1)} %`;
}
