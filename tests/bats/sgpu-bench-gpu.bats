# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The cases and options of sgpu-bench that are about GPUs, on a device that is none: what they measure and what they waive.

load helpers

# quick CASE... [OPTION...]: few samples of small sizes.
quick() {
	sgpu-bench run --device cpu --samples 3 "$@"
}

@test "run --timer takes the three timers, and a CPU device has one of its own" {
	requires python3
	for timer in auto events globaltimer; do
		run -0 --separate-stderr quick -q --json --size 4K --timer "$timer" alloc
		[[ ${lines[0]} == *'"device_timer":"host"'* ]]
		[ -z "$stderr" ]
	done
	run -2 --separate-stderr quick --timer clock alloc
	[[ $stderr == *"--timer 'clock' is none of 'auto', 'events' and 'globaltimer'"* ]]
	[ -z "$output" ]
}

@test "the case staging copies from each kind of memory, and tells once what it lacks" {
	requires python3
	run -0 --separate-stderr quick -q --json --jobs 3 --size 4M staging
	python3 - "$output" <<'END'
import json, sys
environment, *records = [json.loads(line) for line in sys.argv[1].splitlines()]
records = [r for r in records if r["record"] == "measurement"]
passed = [r for r in records if r["status"] == "passed"]
assert all(r["parameters"]["size_bytes"] == r["bytes"] == 4096 * r["operations"] == 4 << 20 for r in passed)
assert {r["parameters"]["threads"] for r in passed} == {1, 2, 3}
assert "pageable" in {r["variant"] for r in passed}
reasons = {r["variant"]: r["reason"] for r in records if r["status"] == "waived" and r["variant"]}
assert len(reasons) == len([r for r in records if r["status"] == "waived" and r["variant"]])
assert {v for v in reasons if "cpu" in reasons[v]} == {"pinned", "registered", "registered, THP"}
# What is on huge pages was measured, or it is said why not.
assert ("pageable, THP" in {r["variant"] for r in passed}) != ("huge pages" in reasons.get("pageable, THP", ""))
END
}

@test "staging on one processor is staging as well" {
	run -0 --separate-stderr taskset -c 0 sgpu-bench run --device cpu --samples 2 --size 4M --jobs 2 staging
	[[ $stderr == *"1 passed, 0 waived, 0 failed"* ]]
}

@test "cases of what a GPU reads by itself are waived with their reason" {
	run -0 --separate-stderr quick shared-memory
	[[ $output == *"waived: no GPU: device 'cpu'"* ]]
	[[ $stderr == *"0 passed, 1 waived, 0 failed"* ]]
	run -0 --separate-stderr quick transition
	[[ $output == *"| gpu "*"waived: no GPU: the device is 'cpu'"* ]]
	[[ $stderr == *"1 passed, 0 waived, 0 failed"* ]]
}
