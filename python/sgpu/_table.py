# SPDX-License-Identifier: Apache-2.0
"""The operations, as `sgpu-manifest ops --json` lists them, and casts that keep every value."""

import functools
import json
import subprocess

import numpy as np

from ._pipe import DTYPES, SgpuError, find, last_error

NAMES = {dtype: name for name, dtype in DTYPES.items()}
HOLDS = {
    "i32": {"i8", "u16"},
    "f32": {"i8", "u8", "i16", "u16", "f16"},
    "f64": {"i8", "u8", "i16", "u16", "f16", "i32", "u32", "f32", "i64", "u64"},
}


@functools.lru_cache(maxsize=None)
def operation(name):
    """The description of an operation."""
    command = [find(), "manifest", "ops", "--json", "--", name]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise last_error(done.stderr) or SgpuError("EDEVICE", "'sgpu manifest ops' has failed")
    return json.loads(done.stdout)


def plain(array):
    """The array as sgpu takes it: little-endian and in C order; bool as u8; of an image of nibabel its scaled data."""
    array = getattr(array, "dataobj", array)
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("sgpu knows no masked arrays: give what filled() returns, or the mask as an array of its own")
    array = np.asarray(array)
    if array.dtype == np.bool_:
        array = np.asarray(array, order="C").view(np.uint8)
    dtype = array.dtype.newbyteorder("<")
    if dtype not in NAMES:
        raise TypeError(f"sgpu has no element type for {array.dtype}")
    if array.ndim > 4:
        raise TypeError(f"sgpu takes at most 4 dimensions, not {array.ndim}")
    return array if array.dtype == dtype and array.flags.c_contiguous else np.asarray(array, dtype, order="C")


def fit(array, allowed, wide, what):
    """The array in a type of `allowed`, if a cast keeps every value; else a TypeError. wide: f64 rather than f32."""
    name = NAMES[array.dtype]
    if name in allowed:
        return array
    for target in ("f64", "f32") if wide else ("i32", "f32", "f64"):
        if target in allowed and name in HOLDS[target]:
            made = array.astype(DTYPES[target])
            if name not in ("i64", "u64") or _same(array, made):
                return made
    raise TypeError(
        f"{what} takes {', '.join(allowed)}, and no cast of these values of {array.dtype} to that keeps every one: "
        "astype() casts all the same"
    )


def _same(whole, made):
    limit = 2.0**64 if whole.dtype.kind == "u" else 2.0**63
    return bool((made < limit).all()) and np.array_equal(made.astype(whole.dtype), whole)
