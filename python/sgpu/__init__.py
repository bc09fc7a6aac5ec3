# SPDX-License-Identifier: Apache-2.0
"""Run GPU jobs on data that the host may not see.

    import sgpu
    mask = sgpu.run("threshold", x, low=70, high=140, on="lab")

Arrays are sealed by the program `sgpu`, which this package starts and keeps; here is no cryptography. See sgpu(1).
"""

from ._job import Job, Value
from ._pipe import SgpuError, close_all

__all__ = ["Job", "SgpuError", "Value", "close_all", "run"]


def _image(values):
    """The first NIfTI image among the values, or None."""
    for value in values:
        if hasattr(value, "dataobj") and hasattr(value, "affine"):
            return value
    return None


def _array(value):
    """The data of a NIfTI image, scaled as nibabel scales them; anything else as it is."""
    if not (hasattr(value, "dataobj") and hasattr(value, "affine")):
        return value
    import numpy as np  # nibabel is there, so numpy is

    return np.asanyarray(value.dataobj)


def run(operation, /, *values, public=(), outputs=None, declassify=False, on=None, device=None, **named):
    """Runs one operation on arrays, sealed all the way, and returns its array.

    The array without a name is the argument `input` (in a map, `x`); other arrays, and parameters, are given by name, as
    sgpu-ops(7) has them. public: names of arguments that are LOW, no secret. outputs: the optional outputs that are wanted; of an
    operation with several outputs, a dict is returned. on: a host of `sgpu host`; without it, the job runs here. A result
    of the shape of a nibabel image that is among the values is such an image.
    """
    image = _image([*values, *named.values()])
    job = Job(operation)
    made = job.add(
        operation,
        *[_array(value) for value in values],
        public=public,
        outputs=outputs,
        declassify=declassify,
        **{name: _array(value) for name, value in named.items()},
    )
    if not isinstance(made, dict):
        return _like(image, job.run(made, on=on, device=device))
    results = job.run(*made.values(), on=on, device=device)
    return {name: _like(image, array) for name, array in zip(made, results)}


def _like(image, array):
    if image is None or array.shape != image.shape:
        return array
    header = image.header.copy()
    header.set_data_dtype(array.dtype)
    header.set_slope_inter(1, 0)
    return type(image)(array, image.affine, header)
