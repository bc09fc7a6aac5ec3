# SPDX-License-Identifier: Apache-2.0
"""Sealed segments against the implementation on Python's cryptography, both ways."""
import json
import os

import sealed_format as f
import sealed_to_format as to
from tap import TOP, main, read, sh, test, write

SIZES = [0, 1, 15, 16, 17, 16383, 16384, 16385, 32768, 262143, 262144, 262145, 1048576, 3000001]


def key_file():
    sh("sgpu-seal", "keygen", "-o", "key.jwk")
    return f.oct_key("key.jwk")


@test
def python_opens_ours():
    "Python opens what sgpu-seal sealed, at every size, with and without a context"
    key = key_file()
    for number, size in enumerate(SIZES):
        context = os.urandom(number * 7)
        write("in", os.urandom(size))
        sh("sgpu-seal", "seal-file", "-k", "key.jwk", "--context", context.hex(), "in", "sealed")
        assert f.unseal(key, read("sealed"), context) == read("in"), size


@test
def ours_opens_python():
    "sgpu-seal opens what Python sealed, at every size, from files and pipes"
    key = key_file()
    for number, size in enumerate(SIZES):
        context, data = os.urandom(number * 5), os.urandom(size)
        write("sealed", f.seal(key, data, os.urandom(24), context))
        sh("sgpu-seal", "open-file", "-k", "key.jwk", "--context", context.hex(), "sealed", "out")
        assert read("out") == data, size
        piped = sh("sgpu-seal", "open-file", "-k", "key.jwk", "--context", context.hex(), data=read("sealed"))
        assert piped == data, size


@test
def public_keys_work_both_ways():
    "pyhpke opens what is sealed to a public key, and the other way round"
    sh("sgpu-seal", "keygen", "--x25519", "-o", "pair.jwk")
    sh("sgpu-seal", "pubkey", "-o", "public.jwk", "pair.jwk")
    private, public = (f.unb64url(f.encryption_key("pair.jwk")[name]) for name in "dx")
    for number, size in enumerate(SIZES):
        context, data = os.urandom(number * 5), os.urandom(size)
        write("in", data)
        sh("sgpu-seal", "seal-file", "-r", "public.jwk", "--context", context.hex(), "in", "sealed")
        assert to.unseal(private, read("sealed"), context) == data, size
        write("theirs", to.seal(public, data, os.urandom(32), os.urandom(24), context))
        sh("sgpu-seal", "open-file", "-k", "pair.jwk", "--context", context.hex(), "theirs", "out")
        assert read("out") == data, size
        piped = sh("sgpu-seal", "open-file", "-k", "pair.jwk", "--context", context.hex(), data=read("theirs"))
        assert piped == data, size


@test
def vectors_are_current():
    "the vectors in the tree are what their generator writes"
    import sys
    made = sh(sys.executable, os.path.join(TOP, "tests", "vectors", "make-sealed.py"))
    assert json.loads(made) == json.loads(read(os.path.join(TOP, "tests", "vectors", "sealed.json")))


@test
def example_works():
    "the example of 25 lines works both ways and has no more lines"
    import sys
    key_file()
    example = os.path.join(TOP, "examples", "sealed.py")
    assert len(read(example).splitlines()) <= 25
    for size in (0, 16384, 100000):
        write("in", os.urandom(size))
        sh(sys.executable, example, "seal", "key.jwk", "in", "sealed")
        sh("sgpu-seal", "open-file", "-k", "key.jwk", "sealed", "out")
        assert read("out") == read("in")
        sh("sgpu-seal", "seal-file", "-k", "key.jwk", "in", "sealed")
        sh(sys.executable, example, "open", "key.jwk", "sealed", "back")
        assert read("back") == read("in")


main()
