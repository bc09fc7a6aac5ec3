# SPDX-License-Identifier: Apache-2.0
"""Results of sgpu-bench: by their schema, and their statistics by Python."""
import copy
import glob
import json
import math
import os
import subprocess

import jsonschema

from tap import TOP, main, sh, test

with open(os.path.join(TOP, "tools", "sgpu-bench", "results.schema.json"), encoding="utf-8") as schema_file:
    SCHEMA = json.load(schema_file)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def lines(text):
    return [json.loads(line) for line in text.decode().splitlines()]


def run(*options):
    return lines(sh("sgpu-bench", "run", "--device", "cpu", "-q", "--json", *options))


def check(records, name):
    for number, record in enumerate(records, 1):
        error = next(VALIDATOR.iter_errors(record), None)
        if error:
            causes = [cause.message[:150] for cause in error.context if cause.path or "const" not in cause.schema]
            raise AssertionError(f"{name}:{number}: {causes}: {str(record)[:300]}")


def failed_case():
    """A case fails for want of descriptors."""
    script = ('for fd in {3..255}; do eval "exec $fd>&-"; done; ulimit -n 6; '
              "exec sgpu-bench run --device cpu -q --samples 3 --size 1K --json session")
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert done.returncode == 5, done
    return lines(done.stdout)


@test
def schema():
    "the schema is one of JSON Schema 2020-12"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@test
def every_case():
    "the records of every case are valid, passed or waived"
    records = run("--quick", "--samples", "1", "--size", "1K:64K", "all")
    check(records, "all")
    assert [r["record"] for r in records].count("environment") == 1
    states = {record.get("status") for record in records}
    assert {"passed", "waived"} <= states and "failed" not in states, states


@test
def other_records():
    "records of a failed case are valid"
    records = failed_case()
    check(records, "failed")
    assert [r["status"] for r in records[1:]] == ["failed"]


@test
def published():
    "the records that the documents were made from are valid"
    paths = glob.glob(os.path.join(TOP, "docs", "benchmarks", "*.json"))
    assert len(paths) >= 18
    for path in paths:
        with open(path, "rb") as file:
            check(lines(file.read()), os.path.basename(path))


@test
def typos():
    "a member that is misspelt, missing or of another type is refused"
    records = run("--samples", "3", "--size", "64K", "secure-copy", "digest", "aead-gpu")
    kinds = set()
    for record in records:
        kinds.add((record["record"], record.get("status")))
        for key in record:
            wrong = copy.deepcopy(record)
            wrong[key + "_"] = wrong.pop(key)
            assert not VALIDATOR.is_valid(wrong), key
            wrong = dict(record)
            wrong[key] = [None]
            assert not VALIDATOR.is_valid(wrong), key
        assert not VALIDATOR.is_valid(dict(record, comment="new"))
    assert kinds == {("environment", None), ("measurement", "passed"), ("measurement", "waived")}
    passed = next(r for r in records if r.get("bytes"))
    for key in ("samples_ns", "stopped", "p99_ns", "median_low_ns"):
        assert not VALIDATOR.is_valid({k: v for k, v in passed.items() if k != key}), key
    # An earlier record has none of them.
    old = {k: v for k, v in passed.items() if k not in (
        "samples_ns", "stopped", "p90_ns", "p99_ns", "median_low_ns", "median_high_ns")}
    assert VALIDATOR.is_valid(old)


def outside(n):
    """Samples beyond either end of the interval of the median, by whole numbers."""
    below = k = 0
    while k < n // 2 and 40 * (below + math.comb(n, k)) <= 2 ** n:
        below += math.comb(n, k)
        k += 1
    return max(k - 1, 0)


@test
def statistics():
    "Python finds the same statistics in the samples"
    for samples in ("1", "2", "5", "6", "31", "100", "333", "1000"):
        for r in run("--samples", samples, "--size", "64K", "secure-copy")[1:]:
            if r["status"] != "passed":
                continue
            s = sorted(r["samples_ns"])
            n = len(s)
            assert n == r["n"] == int(samples)
            assert r["min_ns"] == s[0] and abs(r["median_ns"] - (s[(n - 1) // 2] + s[n // 2]) / 2) < 0.06
            assert r["p95_ns"] == s[-(-n * 95 // 100) - 1] and r["p99_ns"] == s[-(-n * 99 // 100) - 1]
            assert r["median_low_ns"] == s[outside(n)] and r["median_high_ns"] == s[n - 1 - outside(n)], (n, r)


main()
