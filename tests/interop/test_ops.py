# SPDX-License-Identifier: Apache-2.0
"""The operations against numpy: one sealed batch that runs them all."""
import json
import math

import numpy as np

from tap import main, read, sh, test, write

rng = np.random.default_rng(7)
DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "uint8": "u8", "int16": "i16", "float16": "f16"}

INPUTS = {
    "m": rng.standard_normal((64, 48)).astype("f4"), "w": rng.standard_normal((48, 80)).astype("f4"),
    "bias": rng.standard_normal(80).astype("f4"), "rows": rng.standard_normal((40, 1000)).astype("f4"),
    "volume": rng.standard_normal((20, 24, 28)).astype("f4"), "bytes": rng.integers(0, 256, 100000).astype("u1"),
    "words": rng.integers(-30000, 30000, (50, 60)).astype("i2"), "doubles": rng.standard_normal(5000),
    "points": rng.standard_normal((300, 16)).astype("f4"), "queries": rng.standard_normal((50, 16)).astype("f4"),
    "images": rng.standard_normal((2, 3, 17, 19)).astype("f4"), "kernels": rng.standard_normal((4, 3, 3, 5)).astype("f4"),
    "price": rng.uniform(50, 150, 1000).astype("f4"), "strike": rng.uniform(50, 150, 1000).astype("f4"),
    "years": rng.uniform(0.1, 3, 1000).astype("f4"), "inside": rng.integers(0, 2, (20, 24, 28)).astype("u1"),
}


def gaussian(volume, sigma, truncate=4.0):
    radius = int(truncate * sigma + 0.5)
    weights = np.exp(-np.arange(-radius, radius + 1.0) ** 2 / (2 * sigma ** 2))
    weights /= weights.sum()
    out = volume.astype("f8")
    for axis in range(3):
        padded = np.pad(out, [(radius, radius) if a == axis else (0, 0) for a in range(3)], mode="edge")
        out = sum(w * np.take(padded, np.arange(out.shape[axis]) + i, axis) for i, w in enumerate(weights))
    return out.astype("f4")


def conv2d(images, kernels, stride, padding):
    n, _, h, w = images.shape
    o, _, kh, kw = kernels.shape
    padded = np.pad(images.astype("f8"), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    oh, ow = (h + 2 * padding - kh) // stride + 1, (w + 2 * padding - kw) // stride + 1
    out = np.zeros((n, o, oh, ow))
    for y in range(oh):
        for x in range(ow):
            patch = padded[:, :, y * stride:y * stride + kh, x * stride:x * stride + kw]
            out[:, :, y, x] = np.tensordot(patch, kernels.astype("f8"), ([1, 2, 3], [1, 2, 3]))
    return out.astype("f4")


def call_price(price, strike, years, rate, volatility):
    s, k, t = (x.astype("f8") for x in (price, strike, years))
    d1 = (np.log(s / k) + (rate + volatility ** 2 / 2) * t) / (volatility * np.sqrt(t))
    normal = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    return (s * normal(d1) - k * np.exp(-rate * t) * normal(d1 - volatility * np.sqrt(t))).astype("f4")


def softmax(rows):
    e = np.exp(rows.astype("f8") - rows.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).astype("f4")


def nearest(queries, points, k):
    distance = ((queries[:, None].astype("f8") - points[None].astype("f8")) ** 2).sum(2)
    return np.argsort(distance, 1, kind="stable")[:, :k].astype("i4")


# (kernel, parameters, inputs, expected output, tolerance; 0 is exact)
I = INPUTS
CASES = [
    ("gemm", {"alpha": 0.5}, {"a": "m", "b": "w"}, 0.5 * (I["m"].astype("f8") @ I["w"]).astype("f4"), 1e-4),
    ("dense", {"activation": "relu"}, {"input": "m", "weights": "w", "bias": "bias"},
     np.maximum(I["m"].astype("f8") @ I["w"] + I["bias"], 0).astype("f4"), 1e-4),
    ("softmax", {}, {"input": "rows"}, softmax(I["rows"]), 1e-8),
    ("argmax", {}, {"input": "rows"}, I["rows"].argmax(1).astype("i4"), 0),
    ("reduce", {"operation": "sum", "axis": 1}, {"input": "rows"}, I["rows"].astype("f8").sum(1).astype("f4"), 1e-4),
    ("reduce", {"operation": "max"}, {"input": "words"}, np.array([I["words"].max()], "i2"), 0),
    ("reduce", {"operation": "mean"}, {"input": "bytes"}, np.array([I["bytes"].mean(dtype="f8")]), 1e-12),
    ("reduce", {"operation": "mean", "axis": 0}, {"input": "volume", "mask": "inside"},
     I["volume"].mean(0, "f8", where=I["inside"] > 0).astype("f4"), 1e-6),
    ("reduce", {"operation": "std"}, {"input": "doubles"}, np.array([I["doubles"].std()]), 1e-13),
    ("reduce", {"operation": "percentile", "q": 97.5}, {"input": "volume", "mask": "inside"},
     np.array([np.percentile(I["volume"][I["inside"] > 0].astype("f8"), 97.5)], "f4"), 0),
    ("transpose", {}, {"input": "volume"}, I["volume"].transpose(), 0),
    ("transpose", {"axis0": 1, "axis1": 2, "axis2": 0}, {"input": "inside"}, I["inside"].transpose(1, 2, 0), 0),
    ("concatenate", {"axis": 1}, {"a": "m", "b": "m", "d": "m"}, np.concatenate([I["m"]] * 3, 1), 0),
    ("histogram", {"bins": 16, "min": 0, "max": 255}, {"input": "bytes"},
     np.histogram(I["bytes"], 16, (0, 255))[0].astype("i4"), 0),
    ("threshold", {"low": -0.5, "high": 0.5}, {"input": "volume"},
     ((I["volume"] >= -0.5) & (I["volume"] <= 0.5)).astype("u1"), 0),
    ("scale", {"gain": 0.125, "bias": 3}, {"input": "words"}, (I["words"] * 0.125 + 3).astype("f4"), 0),
    ("cast", {"dtype": "f16"}, {"input": "volume"}, I["volume"].astype("f2"), 0),
    ("cast", {"dtype": "i32"}, {"input": "doubles"}, np.rint(I["doubles"]).astype("i4"), 0),
    ("vector_add", {}, {"a": "words", "b": "words"}, (I["words"] + I["words"]).astype("i2"), 0),
    ("copy", {}, {"input": "doubles"}, I["doubles"], 0),
    ("gaussian3d", {"sigma": 1.5}, {"input": "volume"}, gaussian(I["volume"], 1.5), 1e-5),
    ("conv2d", {"stride": 2, "padding": 1}, {"input": "images", "weights": "kernels"},
     conv2d(I["images"], I["kernels"], 2, 1), 1e-4),
    ("nearest", {"k": 5}, {"a": "queries", "b": "points"}, nearest(I["queries"], I["points"], 5), 0),
    ("black_scholes", {"rate": 0.03, "volatility": 0.25}, {"price": "price", "strike": "strike", "years": "years"},
     call_price(I["price"], I["strike"], I["years"], 0.03, 0.25), 1e-3),
]


def info(array):
    return {"dtype": DTYPES[array.dtype.name], "shape": list(array.shape)}


def make_job():
    segments, operations = [], []
    users = {}
    for number, (kernel, params, arguments, expected, _) in enumerate(CASES):
        output = "output_call" if kernel == "black_scholes" else "output"
        for name in arguments.values():
            users.setdefault(name, f"OP{number}")
        operations.append({"gpu_operation_id": f"OP{number}", "kernel": kernel, "params": params,
                           "arguments": {**arguments, output: f"out{number}"}})
        segments.append({"segment_id": f"out{number}", "data_location_client": f"out{number}.bin",
                         "sensitivity_level": "HIGH", "direction": "OUTPUT", "gpu_operation_id": f"OP{number}",
                         "data_type_info": info(expected)})
    for number, (name, array) in enumerate(INPUTS.items()):
        write(f"{name}.bin", array.tobytes())
        segments.append({"segment_id": name, "data_location_client": f"{name}.bin", "gpu_operation_id": users[name],
                         "sensitivity_level": "LOW" if number % 3 else "HIGH", "direction": "INPUT",
                         "data_type_info": info(array)})
    write("job.json", json.dumps({"version": 1, "manifest_id": "numpy", "segments": segments,
                                  "operations": operations}).encode())


def compare(folder):
    for number, (kernel, params, _, expected, tolerance) in enumerate(CASES):
        got = np.frombuffer(read(f"{folder}/out{number}.bin"), expected.dtype).reshape(expected.shape)
        if tolerance:
            worst = np.abs(got.astype("f8") - expected.astype("f8")).max()
            assert worst <= tolerance, f"{kernel} {params}: off by {worst}"
        else:
            assert np.array_equal(got, expected), f"{kernel} {params}"


@test
def results_are_numpys():
    "operations in one sealed batch give what numpy gives"
    make_job()
    sh("sgpu-seal", "keygen", "-o", "key.jwk")
    sealed = sh("sgpu-seal", "seal", "-k", "key.jwk", data=sh("sgpu-manifest", "pack", "job.json"))
    sh("sgpu-seal", "open", "-k", "key.jwk", "-C", "results", data=sh("sgpu-run", "-k", "key.jwk", data=sealed))
    compare("results")


main()
