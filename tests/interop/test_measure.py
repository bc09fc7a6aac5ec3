# SPDX-License-Identifier: Apache-2.0
"""The measure of memory, by the program that sgpu-quote(5) shows, which uses PyCryptodome."""
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


main()
