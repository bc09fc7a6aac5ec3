#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What sgpu-bench measures of a GPU alone: both timers, kinds of host memory, and the way from the host to a kernel.

load ../bats/helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu
}

# quick CASE... [OPTION...]: records of few samples.
quick() {
	sgpu-bench run -q --json --device cuda --samples 5 "$@"
}

@test "either timer gives figures" {
	for timer in auto events globaltimer; do
		quick --timer "$timer" --size 1M:4M bandwidth digest >"$timer.json"
	done
	python3 - <<'END'
import json
for timer in ("auto", "events", "globaltimer"):
    environment, *records = [json.loads(line) for line in open(timer + ".json")]
    confidential = environment["device_confidential_computing"] in ("on", "devtools")
    used = "globaltimer" if timer == "globaltimer" or timer == "auto" and confidential else "events"
    assert environment["device_timer"] == used, environment
    if confidential and used == "events":
        continue # what it says of times may be waived
    passed = [r for r in records if r.get("status") == "passed"]
    assert {r["case"] for r in passed} >= {"bandwidth", "digest"}
    assert not [r for r in records if r.get("status") == "failed"]
    assert all(r["median_ns"] > 100 for r in passed)
END
}

@test "staging has figures of every kind of memory that the GPU can have" {
	quick --size 4M staging >staging.json
	python3 - <<'END'
import json
environment, *records = [json.loads(line) for line in open("staging.json")]
records = [r for r in records if r["record"] == "measurement"]
passed = {r["variant"] for r in records if r["status"] == "passed"}
waived = {r["variant"] for r in records if r["status"] == "waived"}
assert not [r for r in records if r["status"] == "failed"]
assert {"pinned", "pageable"} <= passed
kinds = {"registered", "register", "unregister"}
assert kinds <= passed or environment["device_confidential_computing"] in ("on", "devtools") and "registered" in waived
END
}

@test "a kernel reads pages of the host, and says why it does not read those of ordinary memory" {
	quick shared-memory >shared.json
	python3 - <<'END'
import json
records = [r for r in map(json.loads, open("shared.json")) if r["record"] == "measurement"]
state = {r["variant"]: r["status"] for r in records}
assert "failed" not in state.values()
assert state["pinned, copied"] == state["pinned, in place"] == "passed"
assert state["page faults"] == "passed" or all("HMM" in r["reason"] for r in records if r["status"] == "waived")
assert {r["parameters"]["size_bytes"] for r in records if r["status"] == "passed"} == {4096, 65536, 2 << 20}
END
}

@test "the way from the host to a kernel and back has a figure, one word a sample" {
	quick transition >transition.json
	python3 - <<'END'
import json
environment, *records = map(json.loads, open("transition.json"))
gpu = [r for r in records if r.get("parameters", {}).get("what") == "gpu"]
state = {r["variant"]: r["status"] for r in gpu}
assert state == {"word to a kernel and back": "passed"}
assert all(r["operations"] == 1 and len(r["samples_ns"]) == r["n"] for r in gpu if r["status"] == "passed")
END
}
