/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes: where a value is drawn, and which values have a label.
 */
"use strict";

/* `all`: what must be seen. Logarithmic where they span much and have no zero, else from zero, unless `tight`. */
function makeScale({ kind, label, rows, tight, marked = [] }, all) {
	const values = all.filter(Number.isFinite); /* a rate may be infinite */
	const low = values.reduce((a, b) => Math.min(a, b), Infinity);
	const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
	const log = !rows && low > 0 && high / low >= 8;
	const forward = log ? Math.log10 : (v) => v, back = log ? (t) => 10 ** t : (t) => t;
	const base = log ? forward(low) : tight ? low : Math.min(0, low);
	const span = forward(high) - base || Math.abs(base) || 1;
	const whole = rows ? [0, rows.length] : log ? [base - 0.04 * span, forward(high) + 0.06 * span] :
		[base, base + 1.06 * span];

	return { kind, label, rows, marked, log, forward, back, whole, view: [...whole] };
}

function place(scale, value, [begin, end]) {
	const [low, high] = scale.view;

	return begin + (scale.forward(value) - low) / (high - low) * (end - begin);
}

function valueAt(scale, position, [begin, end]) {
	const [low, high] = scale.view;

	return low + (position - begin) / (end - begin) * (high - low);
}

/* Shows the part from `low` to `high`, in the scale's own coordinates; no further than a millionth. */
function zoomTo(scale, low, high) {
	const [least, most] = scale.whole, size = Math.max(high - low, 1e-6 * (most - least));
	const begin = Math.min(Math.max(low, least), Math.max(most - size, least));

	scale.view = [begin, Math.min(begin + size, most)];
}

/* About `count` values, at least two, at round distances of a linear axis. There never are many more: far from zero, adding 1
 * to a multiple may not change it. */
function linearTicks(low, high, count) {
	const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
	const step = [1, 2, 5, 10].find((s) => s * power >= rough) * power, ticks = [];

	for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step && ticks.length < count + 2; i++) {
		ticks.push(i * step);
	}
	return ticks.length < 2 && count < 20 ? linearTicks(low, high, 2 * count) : ticks;
}

/* Powers of `base`, each n-th so that there are at most `count`. */
function powerTicks([low, high], base, count) {
	const unit = Math.log10(base), first = Math.ceil(low / unit - 1e-9), last = Math.floor(high / unit + 1e-9);
	const step = [1, 2, 3, 4, 5, 6, 10, 20].find((s) => (last - first) / s < count) ?? 40, ticks = [];

	for (let i = Math.ceil(first / step) * step; i <= last; i += step) {
		ticks.push(base ** i);
	}
	return ticks;
}

/* Values of the axis that something was measured at, as many as have room. */
function markedTicks(scale, count) {
	const [low, high] = scale.view, room = (high - low) / count, found = [];

	for (const value of [...scale.marked].sort((a, b) => a - b)) {
		const at = scale.forward(value);
		const isApart = !found.length || at - scale.forward(found[found.length - 1]) >= room;

		if (at >= low && at <= high && isApart) {
			found.push(value);
		}
	}
	return found;
}

function ticks(scale, count) {
	const [low, high] = scale.view, marked = markedTicks(scale, scale.kind === "bytes" ? count : 1.6 * count);

	if (marked.length > 1) {
		return marked;
	}
	if (!scale.log) {
		return linearTicks(low, high, count);
	}
	if (scale.kind === "bytes" && high - low > 3 * Math.log10(2)) {
		return powerTicks(scale.view, 2, count);
	}
	if (high - low >= 2.5) {
		return powerTicks(scale.view, 10, count);
	}
	if (high - low < 0.7) {
		return linearTicks(10 ** low, 10 ** high, count);
	}
	const steps = count < 6 && high - low > 1.5 ? [1, 3] : [1, 2, 5], found = [];

	for (let power = Math.floor(low); power <= high; power++) {
		found.push(...steps.map((s) => s * 10 ** power));
	}
	return found.filter((v) => Math.log10(v) >= low && Math.log10(v) <= high);
}
