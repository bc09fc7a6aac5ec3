# SPDX-License-Identifier: Apache-2.0
"""The operations, as `sgpu-manifest ops --json` lists them, and casts that keep every value."""

import functools
import json
import subprocess

import numpy as np

from ._pipe import SgpuError, find

DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
EXACT = {
    "u8": "f32", "i8": "f32", "u16": "f32", "i16": "f32", "f16": "f32", "f32": "f64",
    "u32": "f64", "i32": "f64", "i64": "f64", "u64": "f64",
}  # fmt: skip


@functools.lru_cache(maxsize=None)
def operation(name):
    """The description of one operation."""
    done = subprocess.run(
        [find("sgpu-manifest"), "ops", "--json", name], capture_output=True, check=False, text=True
    )
    if done.returncode:
        raise SgpuError("EUSAGE", f"'{name}' is no operation of sgpu")
    return json.loads(done.stdout)


def plain(array):
    """The array as sgpu takes it: little-endian and in C order; bool as u8."""
    array = np.asarray(array)
    if array.dtype == np.bool_:
        array = array.view(np.uint8) if array.flags.c_contiguous else array.astype(np.uint8)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    if array.dtype not in NAMES:
        raise TypeError(f"sgpu has no element type for {array.dtype}")
    if array.ndim > 4:
        raise TypeError(f"sgpu takes at most 4 dimensions, not {array.ndim}")
    return array


def fit(array, allowed, what):
    """The array in a type of `allowed`, if a cast keeps every value; else a TypeError."""
    name = NAMES[array.dtype]
    if name in allowed:
        return array
    target = EXACT.get(name)
    if target == "f32" and target not in allowed:
        target = "f64"
    if target not in allowed:
        raise TypeError(f"{what} takes {', '.join(allowed)}, and no cast of {array.dtype} to these keeps every value")
    made = array.astype(DTYPES[target])
    if name in ("i64", "u64") and not np.array_equal(made.astype(array.dtype), array):
        raise TypeError(f"{what} takes {', '.join(allowed)}, and some values of {array.dtype} are none of f64")
    return made
