#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of Python that people would write in place of this project: black_scholes over sealed files, in one process
that has the keys. cryptography's AES-256-GCM, PyTorch, nothing attested.

naive.py cpu|cuda [COUNT...]: prices so many options, each count again and again, and prints one object of JSON a count:
bytes in and out, n, median and 90th percentile of the wall time from ciphertext to ciphertext, processor time over wall
time. Without a COUNT, as the case sizes of sgpu-bench runs it: says first what is missing, as {"missing": ""}; then
prices the options that a line of standard input counts, as often as the line says, and prints the object.
"""
import json
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

RATE, VOLATILITY = 0.02, 0.30
PIECE = 4 << 20  # bytes that one thread seals or opens
SECONDS, MOST, LEAST, CHECKED = 2.0, 200, 5, 1000

try:
    import numpy
    import torch
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    MISSING = ""
except ImportError as failed:
    MISSING = str(failed)


def each(pool, function, pieces):
    return list(pool.map(function, pieces)) if len(pieces) > 1 else [function(piece) for piece in pieces]


def seal(pool, key, data):
    def one(piece):
        nonce = os.urandom(12)
        return nonce + key.encrypt(nonce, piece, None)
    data = memoryview(data).cast("B")
    return each(pool, one, [data[at:at + PIECE] for at in range(0, len(data), PIECE)])


def opened(pool, key, pieces):
    plain = each(pool, lambda piece: key.decrypt(piece[:12], piece[12:], None), pieces)
    return torch.from_numpy(numpy.frombuffer(bytearray().join(plain), dtype=numpy.float32))


def black_scholes(price, strike, years):
    deviation = VOLATILITY * torch.sqrt(years)
    d1 = (torch.log(price / strike) + (RATE + VOLATILITY ** 2 / 2) * years) / deviation
    paid = strike * torch.exp(-RATE * years)
    call = price * torch.special.ndtr(d1) - paid * torch.special.ndtr(d1 - deviation)
    return call, call - price + paid


class Job:
    """Sealed inputs of so many options."""

    def __init__(self, pool, device, count):
        self.pool, self.device, self.count = pool, device, count
        self.key = AESGCM(AESGCM.generate_key(256))
        self.plain = [torch.rand(count) * width + least for least, width in ((5, 25), (1, 99), (0.25, 9.75))]
        self.sealed = [seal(pool, self.key, vector.numpy()) for vector in self.plain]

    def run(self):
        """What is timed: opens the inputs, computes, and seals the outputs."""
        inputs = [opened(self.pool, self.key, pieces).to(self.device) for pieces in self.sealed]
        outputs = [vector.cpu().numpy() for vector in black_scholes(*inputs)]
        return [seal(self.pool, self.key, vector) for vector in outputs]

    def check(self, results):
        price, strike, years = (vector[:CHECKED].double() for vector in self.plain)
        call, put = (opened(self.pool, self.key, pieces)[:CHECKED].double() for pieces in results)
        error = (call - put - price + strike * torch.exp(-RATE * years)).abs().max().item()
        assert error < 1e-3, f"call and put differ by {error}"

    def measure(self, most):
        wall, cpu, end = [], [], time.monotonic() + SECONDS
        while len(wall) < most and (len(wall) < LEAST or time.monotonic() < end):
            begin, begin_cpu = time.perf_counter_ns(), time.process_time_ns()
            results = self.run()
            wall.append(time.perf_counter_ns() - begin)
            cpu.append(time.process_time_ns() - begin_cpu)
            self.check(results)
        return {"input_bytes": 12 * self.count, "output_bytes": 8 * self.count, "n": len(wall),
                "median_ns": int(statistics.median(wall)), "p90_ns": sorted(wall)[(len(wall) * 90 + 99) // 100 - 1],
                "cpu_over_wall": round(sum(cpu) / sum(wall), 3)}


def main():
    device, counts = sys.argv[1], [int(count) for count in sys.argv[2:]]
    missing = MISSING or ("a GPU that torch can use" if device == "cuda" and not torch.cuda.is_available() else "")
    if missing or not counts:
        print(json.dumps({"missing": missing}), flush=True)
    if missing:
        return
    with ThreadPoolExecutor() as pool:
        job = None
        asked = (map(int, line.split()) for line in iter(sys.stdin.readline, ""))
        for count, row in ((count, MOST) for count in counts) if counts else asked:
            if not job or job.count != count:
                job = Job(pool, device, count)
                job.check(job.run())
            print(json.dumps(job.measure(row)), flush=True)


if __name__ == "__main__":
    main()
