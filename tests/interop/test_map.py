# SPDX-License-Identifier: Apache-2.0
"""The operation map against numpy: random expressions over random arrays, whose results have the same bytes. Only exp,
log, sin, cos, tanh and ** of floats, which are taken of exact values, may be 4 units in the last place away.
SGPU_MAP_EXPRESSIONS says how many (500); SGPU_MAP_SEED which (a new one, which is printed)."""
import json
import os
import random
import subprocess
import warnings

import numpy as np

from tap import main, read, sh, test, write

TYPES = {"i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8",
         "f16": "f2", "f32": "f4", "f64": "f8"}
NAMES = {np.dtype(code).name: name for name, code in TYPES.items()} | {"bool": "u8"}
CLOSE = ("exp", "log", "sin", "cos", "tanh")
SHAPES = [(3, 5, 70), (70,), (5, 1), (1,), (), (3, 1, 70)]  # they go together
ODD = [(0,), (257,), (70001,)]
PER_JOB = 250
warnings.simplefilter("ignore")


# ---- what numpy does ----
def cast(name):
    kind = np.dtype(TYPES.get(name, "?"))

    def to(x):
        x = np.asarray(x)
        if kind.kind not in "iu" or x.dtype.kind != "f":
            return x.astype(kind)
        # Where numpy is undefined: the nearest end of the range, and 0 for NaN.
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        x = np.trunc(x.astype("f8"))
        inside = (x > low) & (x < float(high))
        whole = np.where(inside, x, 0).astype(kind)
        return np.where(inside | np.isnan(x), whole, np.where(x > 0, high, low).astype(kind))
    return to


def smaller(a, b):
    least = np.minimum(a, b)
    a, b = (np.asarray(x).astype(least.dtype) for x in (a, b))
    chosen = np.where((a <= b) | (a != a), a, b)  # numpy leaves open which of two zeros it is
    assert np.array_equal(chosen, least, equal_nan=least.dtype.kind == "f")
    return chosen


def larger(a, b):
    most = np.maximum(a, b)
    a, b = (np.asarray(x).astype(most.dtype) for x in (a, b))
    chosen = np.where((a >= b) | (a != a), a, b)
    assert np.array_equal(chosen, most, equal_nan=most.dtype.kind == "f")
    return chosen


FUNCTIONS = {"where": np.where, "min": smaller, "max": larger, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor,
             "round": np.round, "isnan": np.isnan, "bool": cast("bool"), "exp": np.exp, "log": np.log, "sin": np.sin,
             "cos": np.cos, "tanh": np.tanh} | {name: cast(name) for name in TYPES}


# ---- random expressions and arrays ----
def numbers(rng, name, count):
    kind = np.dtype(TYPES[name])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        edges = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 2, 3], kind)
        small = rng.integers(max(info.min, -9), 10, count).astype(kind)
        wide = np.frombuffer(rng.bytes(count * kind.itemsize), kind)
    else:
        info = np.finfo(kind)
        edges = np.array([np.nan, np.inf, -np.inf, 0, -0.0, info.max, info.tiny, info.smallest_subnormal, -info.max,
                          1, -1, 0.5, 1.5, 2.5, -2.5, 255.5, 65504, -129], kind)
        small = np.round(rng.normal(0, 9, count) * 8).astype(kind) / kind.type(8)
        wide = (rng.normal(0, 1, count) * 10.0 ** rng.uniform(-5, 5, count)).astype(kind)
        if rng.random() < 0.3:
            wide = np.frombuffer(rng.bytes(count * kind.itemsize), kind)
    choice = rng.random(count)
    return np.where(choice < 0.2, rng.choice(edges, count), np.where(choice < 0.6, small, wide)).astype(kind)


def literal(dice):
    return dice.choice([str(dice.randrange(0, 12)), str(dice.randrange(0, 127)), "0.5", "2.0", "1e2", "0.1", "3.25", ".75"])


def expression(dice, depth, names):
    """One that is exact."""
    if depth == 0 or dice.random() < 0.1:
        return dice.choice(names)
    below = [expression(dice, depth - 1, names) for _ in range(3)]
    if dice.random() < 0.3:
        below[dice.randrange(0, 2)] = literal(dice)
    a, b, c = below
    form = dice.choice(["binary"] * 5 + ["compare", "bits", "where", "choose", "function", "cast", "sign", "power"])
    if form == "binary":
        return f"({a} {dice.choice(['+', '-', '*', '/', '//', '%'])} {b})"
    if form == "compare":
        return f"({a} {dice.choice(['<', '<=', '>', '>=', '==', '!='])} {b})"
    if form == "bits":
        return f"({a} {dice.choice('&|')} {b})"
    if form == "where":
        return f"where({c}, {a}, {b})"
    if form == "choose":
        return f"{dice.choice(['min', 'max'])}({a}, {b})"
    if form == "function":
        return f"{dice.choice(['abs', 'sqrt', 'floor', 'round', 'isnan'])}({c})"
    if form == "cast":
        return f"{dice.choice(list(TYPES) + ['bool'])}({c})"
    if form == "power":
        return f"({c} * 1) ** {dice.choice(['2', '2.0', '2'])}"  # the type of a square of bool depends on the rank
    return f"{dice.choice('-~')}{c}"


def candidate(dice, arrays):
    shapes = SHAPES if dice.random() < 0.7 else [dice.choice(ODD)]
    segments = dice.choices([name for name, array in arrays.items() if array.shape in shapes], k=dice.randrange(1, 5))
    names = dict(zip("abcd", segments))
    text = expression(dice, dice.randrange(1, 5), list(names))
    close = dice.random() < 0.2
    if close and dice.random() < 0.6:
        text = f"{dice.choice(CLOSE)}({text})"
    elif close:
        text = f"({text}) ** ({expression(dice, 1, list(names))})"
    used = {name: segment for name, segment in names.items() if name in
            "".join(c if c.isalnum() else " " for c in text).split()}
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(eval(text, FUNCTIONS | {n: arrays[s] for n, s in used.items()}))  # pylint: disable=eval-used
    except (TypeError, OverflowError, ValueError):
        return None  # numpy refuses it, or raises an integer to a negative power
    return (text, used, result, close) if used and result.dtype.name in NAMES else None


# ---- one job of many operations ----
def info(array):
    return {"dtype": NAMES[array.dtype.name], "shape": list(array.shape)}


def run(arrays, cases):
    segments, operations = [], []
    for number, (text, used, result, _) in enumerate(cases):
        operations.append({"gpu_operation_id": f"OP{number}", "kernel": "map", "params": {"expression": text},
                           "arguments": {**used, "output": f"out{number}"}})
        segments.append({"segment_id": f"out{number}", "sensitivity_level": "LOW", "direction": "OUTPUT",
                         "data_location_client": f"out{number}.bin", "data_type_info": info(result)})
    read_segments = {segment for _, used, _, _ in cases for segment in used.values()}
    for name in read_segments:
        write(f"{name}.bin", arrays[name].tobytes())
        segments.append({"segment_id": name, "sensitivity_level": "LOW", "direction": "INPUT",
                         "data_location_client": f"{name}.bin", "data_type_info": info(arrays[name])})
    write("job.json", json.dumps({"version": 1, "manifest_id": "map", "segments": segments,
                                  "operations": operations}).encode())
    loaded = sh("sgpu-stage", "load", "--files", ".", data=sh("sgpu-manifest", "pack", "job.json"))
    write("response.tar", sh("sgpu-run", "-q", data=loaded))
    subprocess.run(["tar", "xf", "response.tar"], check=True)


def distance(got, want):
    """In units of the last place."""
    bits = {2: "i2", 4: "i4", 8: "i8"}[want.dtype.itemsize]
    ordered = [np.where(x.view(bits) < 0, np.iinfo(bits).min - x.view(bits), x.view(bits)).astype("O") for x in (got, want)]
    return np.abs(ordered[0] - ordered[1])


def wrong(got, want, close):
    """The indexes at which they differ."""
    if want.dtype.kind != "f":
        return np.flatnonzero(got != want)
    bits = {2: "u2", 4: "u4", 8: "u8"}[want.dtype.itemsize]
    bad = (got.view(bits) != want.view(bits)) & ~(np.isnan(got) & np.isnan(want))
    if close and bad.any():
        bad &= ~((got == 1) & np.isnan(want))  # 1 ** NaN, where numpy forgets for f16 that it is 1
        where = np.flatnonzero(bad)
        bad[where] = distance(got[where], want[where]) > 4
    return np.flatnonzero(bad)


@test
def random_expressions_are_numpys():
    "random expressions over random arrays give the bytes that numpy gives"
    seed = int(os.environ.get("SGPU_MAP_SEED") or random.randrange(2 ** 32))
    total = int(os.environ.get("SGPU_MAP_EXPRESSIONS") or 500)
    print(f"# SGPU_MAP_SEED={seed}")
    dice, rng = random.Random(seed), np.random.default_rng(seed)
    while total > 0:
        arrays = {f"s{n}_{name}": numbers(rng, name, int(np.prod(shape))).reshape(shape)
                  for n, shape in enumerate(SHAPES + ODD) for name in TYPES}
        cases = []
        while len(cases) < min(total, PER_JOB):
            case = candidate(dice, arrays)
            cases += [case] if case else []
        run(arrays, cases)
        for number, (text, used, want, close) in enumerate(cases):
            got = np.frombuffer(read(f"segments/out{number}"), want.dtype.newbyteorder("<"))
            bad = wrong(got, np.ascontiguousarray(want).reshape(-1), close)
            if len(bad):
                at = bad[0]
                inputs = {n: (s, np.broadcast_to(arrays[s], want.shape).reshape(-1)[at]) for n, s in used.items()}
                raise AssertionError(f"{text}: element {at} is {got[at]!r}, not {want.reshape(-1)[at]!r}: {inputs}")
        total -= len(cases)


main()
