# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The case transition: what it measures, and what it says where the machine lacks something.

load helpers

# few CASE... [OPTION...]: few samples.
few() {
	sgpu-bench run -q --json --device cpu --samples 3 "$@"
}

on_one_processor() {
	taskset -c "$(taskset -pc $$ | sed 's/.*: *//; s/[,-].*//')" "$@"
}

@test "transition has a figure for every crossing, or the reason why not" {
	requires python3
	run -0 --separate-stderr few transition
	python3 - "$output" <<'END'
import json, os, sys
records = [json.loads(line) for line in sys.argv[1].splitlines()]
environment = records[0]
records = [r for r in records if r["record"] == "measurement"]
points = {(r["parameters"]["what"], r["parameters"].get("placement"), r["variant"]): r for r in records}
assert len(points) == len(records)
expected = {("call", None, v) for v in ("empty block", "function", "system call")}
expected |= {("exit", None, "cpuid"), ("exit", None, "enclave (Gramine)")}
expected |= {("round trip", "one core", "pipe"), ("round trip", "two cores", "pipe"), ("round trip", "two cores", "spin")}
assert expected <= set(points), expected - set(points)
for key, r in points.items():
    if r["status"] == "waived":
        assert r["reason"], r
        continue
    assert r["status"] == "passed" and r["unit"] == "ns", r
    assert 0 < r["min_ns"] <= r["median_ns"] <= r["p95_ns"] <= r["p99_ns"], r
    assert r["operations"] >= 1 and r["operations_per_second"] > 0
    assert key[2] != "empty block" or r["operations"] == 1
# These need nothing that a machine may lack.
for key in expected:
    if key[0] == "call" or key[1] == "one core":
        assert points[key]["status"] == "passed", points[key]
    if key[1] == "two cores" and environment["processors"] > 1:
        assert points[key]["status"] == "passed", points[key]
assert (points["exit", None, "cpuid"]["status"] == "passed") == (environment["vm_exit_cycles"] is not None)
enclave = points["exit", None, "enclave (Gramine)"]
assert enclave["status"] == "passed" or enclave["reason"].startswith("not in an enclave: "), enclave
END
}

@test "transition on one processor waives what needs two" {
	requires python3
	run -0 --separate-stderr on_one_processor sgpu-bench run -q --json --device cpu --samples 3 transition
	python3 - "$output" <<'END'
import json, sys
records = [json.loads(line) for line in sys.argv[1].splitlines()]
trips = [r for r in records if r["record"] == "measurement" and r["parameters"]["what"] == "round trip"]
two = [r for r in trips if r["parameters"]["placement"] == "two cores"]
assert len(two) == 2 and all(r["status"] == "waived" and r["reason"] == "one processor only" for r in two)
assert all(r["status"] == "passed" for r in trips if r not in two)
END
}

@test "no process outlives the cases, nor a run that is ended" {
	requires python3 two-cpus
	sgpu-bench run -q --device cpu --time 20s transition >out.txt 2>err.txt &
	pid=$!
	# A child may end, and the next begin, between two looks.
	has_child() { child=$(pgrep -P "$pid"); }
	wait_for has_child
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	[ "$status" -eq 143 ]
	is_gone() { ! kill -0 "$child" 2>/dev/null; }
	wait_for is_gone
	sgpu-bench run -q --device cpu --time 20s transition >out.txt 2>err.txt &
	pid=$!
	wait_for has_child
	kill -KILL "$pid"
	wait_for is_gone
}

@test "a process that somebody kills fails the case, and nothing waits for it" {
	requires python3 two-cpus
	local status
	for _ in 1 2 3; do
		sgpu-bench run -q --device cpu --time 500ms transition >out.txt 2>err.txt &
		pid=$!
		# A child may have ended by itself before the signal: then the next one is killed.
		is_ended() { pkill -KILL -P "$pid"; ! kill -0 "$pid" 2>/dev/null; }
		wait_for is_ended
		status=0
		wait "$pid" || status=$?
		[ "$status" -eq 5 ]
		grep -q "transition.*failed: .*other process" out.txt
	done
}
