# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# sgpu-bench run conversion: two sources, each by itself.

load helpers

setup_file() {
	sgpu-bench run --device cpu --samples 3 --quick --json conversion >"$BATS_FILE_TMPDIR/records"
}

# check: a Python program over `records`, which passed or were waived.
check() {
	requires python3
	python3 - "$BATS_FILE_TMPDIR" <<END
import json, os, sys
lines = [json.loads(line) for line in open(sys.argv[1] + "/records")]
environment, records = lines[0], [r for r in lines if r["record"] == "measurement"]
def of(what, source):
    return [r for r in records if r["parameters"].get("what") == what and r["parameters"]["source"] == source]
$1
END
}

@test "every record of conversion names its source, and none has failed" {
	check '
assert records and all(r["status"] in ("passed", "waived") for r in records), records
sources = {r["parameters"]["source"] for r in records}
assert sources == {"hardware", "model", "primitives"}, sources
assert all(r["reason"] for r in records if r["status"] == "waived")
'
}

@test "without the heap of shared dma-bufs, the hardware is waived, and the reason names the heap" {
	[ ! -e /dev/dma_heap/system_cc_shared ] || skip "this guest has the heap"
	check '
hardware = [r for r in records if r["parameters"]["source"] == "hardware"]
assert [r["status"] for r in hardware] == ["waived"]
assert "/dev/dma_heap/system_cc_shared" in hardware[0]["reason"]
'
}

@test "the model has all flows in both directions, and its terms stand in records of their own" {
	check '
in_vm = environment.get("vm_exit_cycles") is not None
terms = {(r["variant"], r["parameters"]["page_bytes"]) for r in of("terms", "primitives")}
for page_bytes in (4096, 2 << 20):
    assert {(t, page_bytes) for t in ("flip", "fault", "clear")} <= terms
    assert not in_vm or ("exit", page_bytes) in terms
flows = {(r["variant"], r["parameters"]["direction"]) for r in of("conversion", "model")}
for direction in ("to private", "to shared"):
    for flow in ("snp, exit-free", "snp", "tdx") if in_vm else ("snp, exit-free",):
        assert (flow, direction) in flows, (flow, direction)
for r in of("conversion", "model"):
    assert r["operations"] == r["parameters"]["pages"] and r["min_ns"] > 0
'
}

@test "streaming compares a pool that stays shared with the conversion of each buffer" {
	check '
streams = of("stream", "model")
assert {r["variant"] for r in streams} >= {"pool", "pool, filled", "converted, snp, exit-free"}
for r in streams:
    assert r["status"] == "passed" and r["bytes"] == r["parameters"]["size_bytes"]
'
}
