# SPDX-License-Identifier: Apache-2.0
"""Run GPU jobs on data that the host may not see.

    import sgpu
    mask = sgpu.run("threshold", x, low=70, high=140, on="lab")

run() runs one operation, Job a graph of them; SgpuError is what they raise. Arrays are sealed by the program `sgpu`,
which this package starts and keeps until Python ends; there is no cryptography here. `sgpu manifest ops` lists the
operations.
"""

import numpy as np

from ._job import Job, Value
from ._pipe import SgpuError, close_all, pipe_for

__all__ = ["Job", "SgpuError", "Value", "close_all", "run"]
for _public in (Job, SgpuError, Value, close_all):
    _public.__module__ = "sgpu"  # as people import them


def run(operation, /, *values, public=(), outputs=(), declassify=False, on=None, device=None, **named):
    """Runs one operation on arrays, sealed all the way, and returns its array.

    >>> smooth = sgpu.run("gaussian3d", scan, sigma=1.5)
    >>> masked = sgpu.run("map", "where(m > 0, a * 0.5, 0)", a=scan, m=mask, on="lab")

    values: the array without a name is the argument `input` (of `map`, `x`; before it stands the expression).
    named: the other arrays, and the parameters, as sgpu-ops(7) has them.
    public: names of arguments that are no secret (LOW). These travel in the clear, all others sealed.
    outputs: names of the optional outputs that are wanted. Of several outputs, a dict is returned.
    declassify: True makes outputs that `public` names LOW although secret data went in.
    on: a host of `sgpu host`; without it, the job runs here.
    device: here: "cpu", "cuda", "cuda:1" or "auto" (the default).

    Arrays have to be of a type that the operation takes, or of one that f32 or f64 holds without changing a value, to
    which they are cast; others raise a TypeError. Images of nibabel are taken as well; a result of the shape of the
    first one is such an image if its format has the type. Raises SgpuError if the job fails.
    """
    key, arrays = _key(operation, public, outputs, declassify, values, named)
    batch = _batches.get(key)
    if batch is None:
        job = Job(operation)
        made = job.add(operation, *values, public=public, outputs=outputs, declassify=declassify, **named)
        names = list(made) if isinstance(made, dict) else None
        text, taken, wanted = job._batch(made.values() if names else [made])
        batch = (text, names, wanted)
        if key is not None and len(_batches) < BATCHES_MAX and list(map(id, taken)) == list(map(id, arrays)):
            _batches[key] = batch
        arrays = taken
    text, names, wanted = batch
    made = pipe_for(on, device).call(text, arrays)
    image = next((value for value in (*values, *named.values()) if hasattr(value, "dataobj")), None)
    results = [_like(image, made[segment]) for segment in wanted]
    return dict(zip(names, results)) if names else results[0]


BATCHES_MAX = 256
_batches = {}  # manifests of calls, since making one takes longer than the rest of Python's part


def _key(operation, public, outputs, declassify, values, named):
    """What the manifest of a call follows from, or None if that is more than these; and the arrays of the call."""
    if not isinstance(public, (str, tuple, list)) or not isinstance(outputs, (str, tuple, list)):
        return None, ()
    key = [operation, repr(public), repr(outputs), bool(declassify)]
    arrays = []
    for name, value in (*enumerate(values), *named.items()):
        if type(value) is np.ndarray:
            arrays.append(value)
            key.append((name, value.dtype, value.shape))
        elif type(value) in (bool, float, int, str):
            key.append((name, repr(value)))  # since 1 == 1.0 == True
        else:
            return None, ()
    return tuple(key), arrays


def _like(image, array):
    if image is None or array.shape != image.shape:
        return array
    from nibabel.spatialimages import HeaderDataError  # is there, since the image is

    header = image.header.copy()
    try:
        header.set_data_dtype(array.dtype)
    except HeaderDataError:  # NIfTI has no float16
        return array
    return type(image)(array, image.affine, header)
