# SPDX-License-Identifier: Apache-2.0
"""Jobs: graphs of operations on arrays."""

import json
import re

from ._pipe import pipe_for
from ._table import NAMES, fit, operation, plain


class Value:
    """What an operation of a job gives: an argument of other operations of the job, or a result of Job.run()."""

    def __init__(self, job, segment):
        self.job = job
        self.segment = segment


def _call(name, values, named):
    """The inputs and results of an operation, the names of its parameters, and all that a call gives, by name."""
    table = operation(name)
    inputs = {entry["name"]: entry for entry in table["arguments"] if not entry["output"]}
    results = {entry["name"]: entry for entry in table["arguments"] if entry["output"]}
    params = {entry["name"] for entry in table["params"]}
    first = "input"
    if name == "map":  # whose inputs have the names that the expression gives them
        if values and isinstance(values[0], str):
            named, values = {"expression": values[0], **named}, values[1:]
        first, params = "x", {"expression"}
        inputs = dict.fromkeys({*named, first} - params - {*results}, next(iter(inputs.values())))
    if len(values) > 1 or (values and (first not in inputs or first in named)):
        raise TypeError(f"'{name}' takes these arguments, by name: {', '.join(inputs)}")
    named = {first: values[0], **named} if values else named
    if name == "map" and isinstance(named.get("expression"), str):  # bool travels as u8
        for key in [key for key, value in named.items() if getattr(value, "dtype", None) == bool]:
            named = {**named, "expression": re.sub(rf"\b{key}\b", f"bool({key})", named["expression"])}
    return inputs, results, params, named


class Job:
    """A graph of operations that runs as one batch: what is between them is never seen outside.

    >>> job = sgpu.Job()
    >>> hidden = job.add("dense", x, weights=w0, bias=b0, activation="relu")
    >>> scores = job.add("dense", hidden, weights=w1, bias=b1)
    >>> scores = job.run(scores)
    """

    def __init__(self, name="job"):
        self._name = name
        self._segments = {}
        self._operations = []
        self._arrays = {}
        self._given = {}
        self._inputs = {}

    def _segment(self, direction, low, dtype=None, shape=None):
        segment = f"s{len(self._segments)}"
        self._segments[segment] = described = {
            "segment_id": segment,
            "sensitivity_level": "LOW" if low else "HIGH",
            "direction": direction,
        }
        if dtype is not None:
            described["data_type_info"] = {"dtype": dtype, "shape": shape}
        return segment

    def _plain(self, value):
        """A value, or an array as sgpu takes it."""
        if isinstance(value, Value):
            if value.job is not self:
                raise ValueError("the value belongs to another job")
            return value
        if id(value) not in self._given:
            self._given[id(value)] = (value, plain(value))  # the value is kept, so that no other object gets its id
        return self._given[id(value)][1]

    def _input(self, array, low):
        """The segment of an array. One that goes into several operations travels once."""
        key = (id(array), low)
        if key not in self._inputs:
            self._inputs[key] = segment = self._segment("INPUT", low, NAMES[array.dtype], array.shape)
            self._arrays[segment] = array
        return self._inputs[key]

    def add(self, name, /, *values, public=(), outputs=(), declassify=False, **named):
        """Adds an operation of sgpu-ops(7); returns a Value, or a dict of them if it has several outputs.

        values: the array without a name is the argument `input` (of `map`, `x`; before it stands the expression).
        named: the other arrays, which may be what add() returned before, and the parameters.
        public: names of arguments that are no secret (LOW). These travel in the clear, all others sealed.
        outputs: names of the optional outputs that are wanted.
        declassify: True makes outputs that `public` names LOW although secret data went in.

        Arrays have to be of a type that the operation takes, or of one that f32 or f64 holds without changing a value,
        to which they are cast; others raise a TypeError. They are read when the job runs.
        """
        inputs, results, params, named = _call(name, values, named)
        public, wanted = ({names} if isinstance(names, str) else set(names) for names in (public, outputs or ()))
        unknown = (named.keys() - inputs - params) | (public - {*inputs, *results}) | (wanted - {*results})
        if unknown:
            raise TypeError(f"'{name}' has no argument, parameter or output '{unknown.pop()}'")
        given = {key: self._plain(value) for key, value in named.items() if key not in params}
        wide = any(NAMES.get(getattr(array, "dtype", None)) == "f64" for array in given.values())
        arguments = {
            key: array.segment
            if isinstance(array, Value)
            else self._input(fit(array, inputs[key]["dtypes"], wide, f"'{key}' of '{name}'"), key in public)
            for key, array in given.items()
        }
        made = {
            key: Value(self, self._segment("INTERMEDIATE", key in public))
            for key, entry in results.items()
            if not entry["optional"] or key in wanted
        }
        if not made:
            raise TypeError(f"'{name}' needs outputs=, of: {', '.join(results)}")
        entry = {
            "gpu_operation_id": f"o{len(self._operations)}",
            "kernel": name,
            "params": {key: named[key] for key in named if key in params},
            "declassify": bool(declassify),
        }
        outputs = {key: (value.segment, results[key]["optional"]) for key, value in made.items()}
        self._operations.append(({key: value for key, value in entry.items() if value}, arguments, outputs))
        return made if len(made) > 1 else next(iter(made.values()))

    def _batch(self, values):
        """The manifest of a job that gives these values, the arrays that it takes, and the segments of the values."""
        wanted = [self._plain(value).segment for value in values]
        operations, needed, used = [], set(wanted), set()
        for entry, inputs, outputs in reversed(self._operations):
            if any(segment in needed for segment, _ in outputs.values()):
                made = {key: segment for key, (segment, extra) in outputs.items() if segment in needed or not extra}
                operations.insert(0, {**entry, "arguments": {**inputs, **made}})
                needed.update(inputs.values())
                used.update(inputs.values(), made.values())
        # An output that its operation cannot do without comes back unasked, if nothing reads it.
        segments = [
            dict(described, direction="OUTPUT") if segment in wanted or segment not in needed else described
            for segment, described in self._segments.items()
            if segment in used
        ]
        manifest = {"version": 1, "manifest_id": self._name, "segments": segments, "operations": operations}
        text = json.dumps(manifest, allow_nan=False, default=lambda value: value.tolist()).encode()
        return text, [array for segment, array in self._arrays.items() if segment in used], wanted

    def run(self, *values, on=None, device=None):
        """Runs the job; returns the array of a value, or a tuple of the arrays of several.

        on: a host of `sgpu host`; without it, the job runs here. device: "cpu", "cuda", "cuda:1" or "auto", here.
        """
        if not values:
            raise TypeError("run() needs the values that are wanted")
        text, arrays, wanted = self._batch(values)
        made = pipe_for(on, device).call(text, arrays)
        results = tuple(made[segment] for segment in wanted)
        return results if len(results) > 1 else results[0]
