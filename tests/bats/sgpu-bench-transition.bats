# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The case transition: what it measures, and what it says where the machine lacks something.

load helpers

# few CASE... [OPTION...]: few samples.
few() {
	sgpu-bench run -q --json --device cpu --samples 3 "$@"
}

@test "transition has a figure for every crossing, or the reason why not" {
	requires python3
	run -0 --separate-stderr few transition
	python3 - "$output" <<'END'
import json, os, sys
records = [json.loads(line) for line in sys.argv[1].splitlines()]
environment = records[0]
records = [r for r in records if r["record"] == "measurement"]
points = {(r["parameters"]["what"], r["variant"]): r for r in records}
assert len(points) == len(records)
expected = {("call", v) for v in ("empty block", "function", "system call")}
expected |= {("exit", "cpuid"), ("exit", "enclave (Gramine)")}
assert expected <= set(points), expected - set(points)
for key, r in points.items():
    if r["status"] == "waived":
        assert r["reason"], r
        continue
    assert r["status"] == "passed" and r["unit"] == "ns", r
    assert 0 < r["min_ns"] <= r["median_ns"] <= r["p95_ns"] <= r["p99_ns"], r
    assert r["operations"] >= 1 and r["operations_per_second"] > 0
    assert key[1] != "empty block" or r["operations"] == 1
# These need nothing that a machine may lack.
for key in expected:
    if key[0] == "call":
        assert points[key]["status"] == "passed", points[key]
assert (points["exit", "cpuid"]["status"] == "passed") == (environment["vm_exit_cycles"] is not None)
enclave = points["exit", "enclave (Gramine)"]
assert enclave["status"] == "passed" or enclave["reason"].startswith("not in an enclave: "), enclave
END
}
