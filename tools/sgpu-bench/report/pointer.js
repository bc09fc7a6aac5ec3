/* SPDX-License-Identifier: Apache-2.0
 *
 * What a reader does to a chart: zoom by dragging, by the wheel over an axis, or by buttons; samples by the pointer
 * or the arrow keys.
 */
"use strict";

const DRAG_LEAST = 8, NEAR = 48;

function zoomBy(scale, factor, around = (scale.view[0] + scale.view[1]) / 2) {
	zoomTo(scale, around - (around - scale.view[0]) * factor, around + (scale.view[1] - around) * factor);
}

function zoomOut(state) {
	state.x.view = [...state.x.whole];
	state.y.view = [...state.y.whole];
}

function zoomButtons(state, redraw) {
	const press = (act) => () => {
		act();
		redraw();
	};
	const button = (text, label, act) =>
		element("button", { type: "button", "aria-label": label, title: label, onclick: press(act) }, text);
	const pair = (name, scale) => [button(`${name} +`, `zoom in on the ${name} axis`, () => zoomBy(scale, 0.5)),
		button(`${name} −`, `zoom out on the ${name} axis`, () => zoomBy(scale, 2))];

	return element("div", { class: "zoom" }, pair("x", state.x), state.y.rows ? [] : pair("y", state.y),
		button("all", "show all", () => zoomOut(state)));
}

function showTip(state, tip, point) {
	if (!point) {
		tip.hidden = true;
		return;
	}
	tip.replaceChildren(...point.tip.map((line) => element("div", {}, line)));
	tip.hidden = false;
	tip.style.left = `${Math.max(0, Math.min(point.x + 12, state.box.width - tip.offsetWidth - 4))}px`;
	tip.style.top = `${point.y > tip.offsetHeight + 14 ? point.y - tip.offsetHeight - 10 : point.y + 14}px`;
}

function nearest(state, at) {
	let best = NEAR, found = -1;

	state.points.forEach((p, i) => {
		const distance = Math.hypot(p.x - at.x, p.y - at.y);

		if (distance < best) {
			best = distance;
			found = i;
		}
	});
	return found;
}

/* The axes that a drag is along: it zooms those. */
function zoomToDrag(state, from, to) {
	for (const axis of ["x", "y"]) {
		const scale = state[axis], along = Math.abs(to[axis] - from[axis]);

		if (!scale.rows && along >= DRAG_LEAST && along > 0.3 * Math.hypot(to.x - from.x, to.y - from.y)) {
			const ends = [from, to].map((p) => valueAt(scale, p[axis], state.box[axis]));

			zoomTo(scale, Math.min(...ends), Math.max(...ends));
		}
	}
}

function addPointer(state, svg, tip, redraw) {
	const frame = drawn("rect", { class: "frame" });
	let from = null;
	const at = (event) => {
		const box = svg.getBoundingClientRect(), scale = state.box.width / (box.width || 1);

		return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
	};
	const show = (index) => {
		state.focus = index;
		showTip(state, tip, state.points[index]);
	};

	svg.addEventListener("pointerdown", (event) => {
		from = event.pointerType === "touch" ? null : at(event);
		show(nearest(state, at(event)));
	});
	svg.addEventListener("pointermove", (event) => {
		const to = at(event);

		if (!from) {
			show(nearest(state, to));
			return;
		}
		fill(frame, { x: Math.min(from.x, to.x), y: Math.min(from.y, to.y), width: Math.abs(to.x - from.x),
			height: Math.abs(to.y - from.y) }, []);
		svg.append(frame);
	});
	svg.addEventListener("pointerup", (event) => {
		const to = at(event), begin = from;

		from = null;
		frame.remove();
		if (begin && Math.hypot(to.x - begin.x, to.y - begin.y) >= DRAG_LEAST) {
			zoomToDrag(state, begin, to);
			show(-1);
			redraw();
		}
	});
	svg.addEventListener("pointerleave", () => {
		from = null;
		frame.remove();
		show(-1);
	});
	svg.addEventListener("dblclick", () => {
		zoomOut(state);
		redraw();
	});
	svg.addEventListener("wheel", (event) => {
		const point = at(event), { box } = state;
		const axis = point.y > box.y[0] ? "x" : point.x < box.x[0] ? "y" : null;

		if (axis && !state[axis].rows) {
			event.preventDefault();
			const around = valueAt(state[axis], point[axis], box[axis]);

			zoomBy(state[axis], event.deltaY > 0 ? 1.25 : 0.8, around);
			redraw();
		}
	}, { passive: false });
	svg.addEventListener("keydown", (event) => {
		const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];

		if (step && state.points.length) {
			event.preventDefault();
			show((state.focus + step + state.points.length) % state.points.length);
		} else if (event.key === "Escape") {
			show(-1);
		}
	});
	svg.addEventListener("blur", () => show(-1));
}
