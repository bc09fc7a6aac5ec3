# SPDX-License-Identifier: Apache-2.0
"""The measure of memory, by the program that sgpu-quote(5) shows, which uses PyCryptodome."""
import base64
import json
import os
import random
import sys

from tap import TOP, main, read, sh, test, write

MIB = 1 << 20


def program():
    """The manual's program, as a reader would copy it."""
    page = read(os.path.join(TOP, "man", "sgpu-quote.5")).decode()
    text = page.split("prints the measure of a file:\n", 1)[1].split(".Ed", 1)[0].split("\n", 1)[1]
    assert "\\" not in text and text.count("\n") <= 10
    return text.encode()


def theirs(path):
    write("measure.py", program())
    return sh(sys.executable, "measure.py", path).decode().strip()


def ours(path):
    return sh("sgpu-measure", "memory", "--device", "cpu", path).decode().split()[0]


@test
def files():
    "files of sizes around chunks and pages have the measure that the manual's program prints"
    rng = random.Random(5)
    for size in (1, 8175, 8192, 8193, 2 * MIB - 17, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 9 * MIB + 12345):
        write("data", rng.randbytes(size))
        assert ours("data") == theirs("data"), size


@test
def modules():
    "sgpu-manifest pack names a module by the measure that the manual's program prints"
    write("code.bin", random.Random(7).randbytes(3 * MIB))
    segments = [{"segment_id": name, "data_location_client": file, "sensitivity_level": "HIGH", "direction": direction}
                for name, file, direction in (("code", "code.bin", "INPUT"), ("x", "x.f32", "INPUT"),
                                              ("y", "y.f32", "OUTPUT"))]
    for segment in segments[1:]:
        segment["data_type_info"] = {"dtype": "f32", "shape": [4]}
    write("x.f32", bytes(16))
    write("job.json", json.dumps({"version": 1, "manifest_id": "measure", "segments": segments, "operations": [
        {"gpu_operation_id": "RUN", "kernel": "module:code:f", "arguments": {"input": "x", "output": "y"},
         "params": ["output", "input"]}]}).encode())
    sh("sgpu-manifest", "pack", "-o", "batch.tar", "job.json")
    manifest = json.loads(sh("tar", "-xOf", "batch.tar", "manifest.json"))
    digest = base64.urlsafe_b64decode(manifest["operations"][0]["module_digest"] + "=")
    assert digest.hex() == theirs("code.bin")


main()
