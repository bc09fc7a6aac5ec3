# SPDX-License-Identifier: Apache-2.0
"""Jobs: graphs of operations on arrays."""

import json

import numpy as np

from ._pipe import pipe_for
from ._table import DTYPES, NAMES, fit, operation, plain


class Value:
    """What an operation of a job gives; goes into other operations, or comes back from Job.run()."""

    def __init__(self, job, segment):
        self.job = job
        self.segment = segment


class Job:
    """A graph of operations that runs as one batch.

    >>> job = sgpu.Job()
    >>> hidden = job.add("dense", x, weights=w0, bias=b0, activation="relu")
    >>> scores = job.add("dense", hidden, weights=w1, bias=b1)
    >>> scores = job.run(scores)

    Arrays travel sealed (HIGH), unless their argument is in `public`.
    """

    def __init__(self, name="job"):
        self._name = name
        self._segments = []
        self._operations = []
        self._arrays = []
        self._known = {}

    def _segment(self, direction, low, dtype=None, shape=None):
        segment = {
            "segment_id": f"s{len(self._segments)}",
            "sensitivity_level": "LOW" if low else "HIGH",
            "direction": direction,
        }
        if dtype is not None:
            segment["data_type_info"] = {"dtype": dtype, "shape": list(shape)}
        self._segments.append(segment)
        return segment

    def _input(self, argument, given, low):
        if isinstance(given, Value):
            if given.job is not self:
                raise ValueError("the value belongs to another job")
            return given.segment
        known = self._known.get((id(given), low))
        if known is not None and argument["dtypes"] and known[1] in argument["dtypes"]:
            return known[0]
        array = fit(plain(given), argument["dtypes"], f"'{argument['name']}'")
        segment = self._segment("INPUT", low, NAMES[array.dtype], array.shape)
        self._arrays.append(array)
        # `given` is kept, so that its id stays its own.
        self._known[(id(given), low)] = (segment, NAMES[array.dtype], given)
        return segment

    def add(self, name, /, *values, public=(), outputs=None, declassify=False, **named):
        """Adds an operation. The value without a name is its argument `input`; others, and its parameters, have names.

        public: names of arguments that are LOW. outputs: the optional outputs that are wanted, as names. Returns a Value, or a dict of them by name if the
        operation has several outputs.
        """
        table = operation(name)
        low = {public} if isinstance(public, str) else set(public)
        if name == "map":
            return self._add_map(table, values, named, low, declassify)
        arguments = {argument["name"]: argument for argument in table["arguments"]}
        if len(values) > 1 or (values and "input" not in arguments):
            raise TypeError(f"'{name}' takes its arguments by name: {', '.join(arguments)}")
        if values:
            named["input"] = values[0]
        params = {param["name"] for param in table["params"]}
        entry = {"gpu_operation_id": f"o{len(self._operations)}", "kernel": name, "params": {}, "arguments": {}}
        for key, value in named.items():
            if key in arguments and not arguments[key]["output"]:
                entry["arguments"][key] = self._input(arguments[key], value, key in low)["segment_id"]
            elif key in params:
                entry["params"][key] = value.item() if isinstance(value, np.generic) else value
            else:
                raise TypeError(f"'{key}' is no argument or parameter of '{name}'")
        return self._finish(entry, table, outputs, low, declassify)

    def _add_map(self, table, values, named, low, declassify):
        expression = named.pop("expression", None)
        if isinstance(values[0], str) if values else False:
            expression, values = values[0], values[1:]
        if not isinstance(expression, str) or len(values) > 1:
            raise TypeError("map takes an expression, and arrays by name; one without a name is 'x'")
        if values:
            named["x"] = values[0]
        argument = next(entry for entry in table["arguments"] if not entry["output"])
        entry = {
            "gpu_operation_id": f"o{len(self._operations)}",
            "kernel": "map",
            "params": {"expression": expression},
            "arguments": {
                key: self._input(dict(argument, name=key), value, key in low)["segment_id"]
                for key, value in named.items()
            },
        }
        return self._finish(entry, table, None, low, declassify)

    def _finish(self, entry, table, outputs, low, declassify):
        wanted = {outputs} if isinstance(outputs, str) else set(outputs or ())
        results = [argument for argument in table["arguments"] if argument["output"]]
        unknown = wanted - {argument["name"] for argument in results}
        if unknown:
            raise TypeError(f"'{unknown.pop()}' is no output of '{table['name']}'")
        taken = [argument for argument in results if not argument["optional"] or argument["name"] in wanted]
        made = {}
        for argument in taken or results:
            segment = self._segment("INTERMEDIATE", argument["name"] in low)
            entry["arguments"][argument["name"]] = segment["segment_id"]
            made[argument["name"]] = Value(self, segment)
        if declassify:
            entry["declassify"] = True
        if not entry["params"]:
            del entry["params"]
        self._operations.append(entry)
        return made if len(made) > 1 else next(iter(made.values()))

    def run(self, *values, on=None, device=None):
        """Runs the job; returns the arrays of these values, in a tuple if there are several.

        on: a host of `sgpu host`; without it, the job runs here. device: "cpu", "cuda" and the like, here.
        """
        if not values:
            raise TypeError("run() needs the values that are wanted")
        chosen = {id(value.segment) for value in values}
        read = {segment for entry in self._operations for segment in entry["arguments"].values()}
        segments = [
            dict(segment, direction="OUTPUT") if id(segment) in chosen else segment
            for segment in self._segments
            if id(segment) in chosen or segment["segment_id"] in read
        ]
        manifest = {
            "version": 1,
            "manifest_id": self._name,
            "segments": segments,
            "operations": self._operations,
        }
        described, data = pipe_for(on, device).call(json.dumps(manifest).encode(), self._arrays)
        found, at = {}, 0
        for output in described:
            dtype = np.dtype(DTYPES[output["dtype"]])
            size = output["size"]
            array = np.frombuffer(data, dtype, size // dtype.itemsize, at) if size else np.empty(0, dtype)
            found[output["segment_id"]] = array.reshape(output["shape"])
            at += size
        results = tuple(found[value.segment["segment_id"]] for value in values)
        return results if len(results) > 1 else results[0]
