# SPDX-License-Identifier: Apache-2.0
"""KangarooTwelve against PyCryptodome's."""
import os
import random

from Crypto.Hash import KangarooTwelve

from tap import main, sh, test

PROGRAM = os.path.join(os.environ["SGPU_BUILD"], "interop", "kt128_digest")


def ptn(size):
    """The pattern of RFC 9861's test vectors."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def agree(data, custom, size):
    ours = bytes.fromhex(sh(PROGRAM, custom.hex(), str(size), data=data).decode())
    assert ours == KangarooTwelve.new(data, custom=custom).read(size), (len(data), len(custom), size)


@test
def edges():
    """sizes around blocks, chunks and encoded lengths agree"""
    for size in (0, 1, 167, 168, 169, 8188, 8189, 8190, 8191, 8192, 8193, 16383, 16384, 16385, 65536, 8192 * 9 - 2):
        for custom in (0, 1, 255, 256):
            agree(ptn(size), ptn(custom), 32)


@test
def long_outputs():
    """digests of any length agree"""
    for size in (1, 31, 32, 33, 167, 168, 169, 336, 10032):
        agree(b"", b"", size)
        agree(ptn(20000), ptn(41), size)


@test
def at_random():
    """random sizes of everything agree"""
    rng = random.Random(9861)
    for _ in range(100):
        agree(rng.randbytes(rng.randrange(200000)), rng.randbytes(rng.choice((0, 7, rng.randrange(20000)))),
              rng.choice((32, 64, rng.randrange(1, 1000))))


@test
def many_leaves():
    """more leaves than a byte counts agree"""
    agree(ptn(8192 * 300 + 11), b"", 32)


main()
