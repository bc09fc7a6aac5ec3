#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Several GPUs: sealed copies between two, a spool that a worker on each drains, and a graph on both.
# shellcheck disable=SC2154 # bats sets stderr

load ../bats/helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu
	[ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -ge 2 ] || skip "needs two GPUs"
}

teardown() {
	[ -z "${work:-}" ] || rm -rf "$work"
	sgpu_teardown
}

# heavy_job: 64 MiB in, four products of matrices, 64 MiB out.
heavy_job() {
	local i segments='' operations='' from=x
	for i in 1 2 3 4; do
		segments+=', { "segment_id": "y'$i'", "sensitivity_level": "HIGH", "direction": "'
		[ "$i" = 4 ] && segments+='OUTPUT", "data_location_client": "y4.f32" }' || segments+='INTERMEDIATE" }'
		operations+=${operations:+, }'{ "gpu_operation_id": "P'$i'", "kernel": "gemm",
			"arguments": { "a": "'$from'", "b": "x", "output": "y'$i'" } }'
		from=y$i
	done
	head -c $((4096 * 4096 * 4)) /dev/zero >x.f32
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "heavy", "segments": [ { "segment_id": "x", "data_location_client": "x.f32",
		"sensitivity_level": "HIGH", "direction": "INPUT",
		"data_type_info": { "dtype": "f32", "shape": [4096, 4096] } } $segments ], "operations": [ $operations ] }
	END
}

# light_job: 64 KiB in and out.
light_job() {
	head -c 65536 /dev/zero >x.f32
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "light", "segments": [
		{ "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
		  "data_type_info": { "dtype": "f32", "shape": [16384] } },
		{ "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ],
	  "operations": [ { "gpu_operation_id": "C", "kernel": "copy", "arguments": { "input": "x", "output": "y" } } ] }
	END
}

# rate NAME COUNT DEVICE...: drains COUNT copies of the batch by a worker on each device, and prints batches a second, from
# the first response to the last; in $rate, too.
rate() {
	local i begin end device
	rm -rf "$work/spool" && mkdir "$work/spool"
	for ((i = 0; i < $2; i++)); do
		ln "$work/sealed" "$work/spool/b$i"
	done
	for device in "${@:3}"; do
		sgpu-worker -k runner.jwk --device "$device" "$work/spool" 2>>"$1.log" &
	done
	wait
	begin=$(stat -c %.9Y "$work"/spool/*.response | sort -n | head -n 1)
	end=$(stat -c %.9Y "$work"/spool/*.response | sort -n | tail -n 1)
	[ "$(find "$work/spool" -name '*.response' | wc -l)" -eq "$2" ]
	rate=$(awk -v n="$2" -v b="$begin" -v e="$end" 'BEGIN { printf "%.1f", (n - 1) / (e - b) }')
	echo "# $1: $2 batches on ${*:3}: $rate a second" >&3
}

@test "what one GPU seals another opens, by each way between them, and what was changed is refused" {
	SGPU_TEST_DEVICE=cuda:0 SGPU_TEST_PEER=cuda:1 "$SGPU_BUILD/unit/test_device_peer"
}

@test "copies between GPUs are measured, sealed and plain" {
	sgpu-bench run --device cuda:0 --size 4M:64M peer >&3 2>&3
	sgpu-bench run --device cuda:0 --quick --json peer >records
	grep -q '"variant":"stored","parameters":{"size_bytes":4194304},"unit":"B/s","status":"passed"' records
}

@test "workers on two GPUs answer what one does; the rates are printed" {
	local kind count one
	make_keys 2>/dev/null
	work=$(mktemp -d /dev/shm/sgpu-peers.XXXXXX)
	for kind in light heavy; do
		count=$([ $kind = light ] && echo "${LIGHT:-6000}" || echo "${HEAVY:-64}")
		${kind}_job
		sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o "$work/sealed"
		rate $kind-one "$count" cuda:0
		one=$rate
		rate $kind-two "$count" cuda:0 cuda:1
		echo "# $kind: two GPUs reach $(awk -v a="$rate" -v b="$one" 'BEGIN { printf "%.2f", a / b }') times one" >&3
		rm "$work/sealed"
	done
}

# branches_job: two products of matrices that share nothing, 4 MiB each, and their sum.
branches_job() {
	awk 'BEGIN { for (i = 0; i < 1048576; i++) print i % 13 }' | floats >x.f32
	awk 'BEGIN { for (i = 0; i < 1048576; i++) print i % 11 }' | floats >y.f32
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "branches", "segments": [
		{ "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
		  "data_type_info": { "dtype": "f32", "shape": [1024, 1024] } },
		{ "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
		  "data_type_info": { "dtype": "f32", "shape": [1024, 1024] } },
		{ "segment_id": "xx", "data_location_client": "xx.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT" },
		{ "segment_id": "yy", "data_location_client": "yy.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT" },
		{ "segment_id": "sum", "data_location_client": "sum.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ],
	  "operations": [
		{ "gpu_operation_id": "XX", "kernel": "gemm", "arguments": { "a": "x", "b": "x", "output": "xx" } },
		{ "gpu_operation_id": "YY", "kernel": "gemm", "arguments": { "a": "y", "b": "y", "output": "yy" } },
		{ "gpu_operation_id": "SUM", "kernel": "vector_add", "arguments": { "a": "xx", "b": "yy", "output": "sum" } } ] }
	END
}

@test "a graph of two branches on two GPUs gives the bytes that one GPU gives, and one segment moves, sealed" {
	requires python3
	local devices
	make_keys 2>/dev/null
	branches_job
	sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o sealed
	for devices in cuda:0 cuda:0,1 cuda:1,0; do
		sgpu-run -q --device $devices --trace $devices.trace --stats -k runner.jwk -o $devices.response sealed 			2>$devices.stats
		sgpu-seal open -q -k owner.jwk -C $devices $devices.response
		grep -E '^(elapsed|move)' $devices.stats | sed "s/^/# $devices: /" >&3
	done
	diff -r cuda:0 cuda:0,1
	diff -r cuda:0 cuda:1,0
	python3 - <<-'END'
	import json
	def boxes(name):
	    events = json.load(open(name))["traceEvents"]
	    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
	    return [(e["cat"], e["args"].get("operation", e["args"].get("segment")), rows[e["tid"]]) for e in events if e["ph"] == "X"]
	kernels = {what: row.split(",")[0] for kind, what, row in boxes("cuda:0,1.trace") if kind == "kernel"}
	assert kernels["XX"] != kernels["YY"], kernels
	moves = [(what, row) for kind, what, row in boxes("cuda:0,1.trace") if kind == "move"]
	assert len(moves) == 1 and moves[0][0] in ("xx", "yy") and "move to device" in moves[0][1], moves
	assert not [1 for kind, what, row in boxes("cuda:0.trace") if kind == "move"]
	END
}

@test "a run of many branches and moves on two GPUs gives what it gives on one, ten times" {
	requires python3
	local i
	make_keys 2>/dev/null
	python3 - <<-'END'
	import json, struct
	n, size, segments, operations = 12, 65536, [], []
	def segment(name, direction):
	    segments.append({"segment_id": name, "sensitivity_level": "HIGH", "direction": direction,
	                     "data_type_info": {"dtype": "f32", "shape": [size]}, "data_location_client": name + ".f32"})
	for i in range(n):
	    with open("x%d.f32" % i, "wb") as out:
	        out.write(struct.pack("<%df" % size, *[(i + 1) * (k % 97) for k in range(size)]))
	    segment("x%d" % i, "INPUT")
	    segment("y%d" % i, "OUTPUT")
	    segment("z%d" % i, "OUTPUT")
	    operations.append({"gpu_operation_id": "Y%d" % i, "kernel": "copy",
	                       "arguments": {"input": "x%d" % i, "output": "y%d" % i}})
	    operations.append({"gpu_operation_id": "Z%d" % i, "kernel": "vector_add",
	                       "arguments": {"a": "y%d" % i, "b": "y%d" % ((i + 1) % n), "output": "z%d" % i}})
	json.dump({"version": 1, "manifest_id": "ring", "segments": segments, "operations": operations}, open("job.json", "w"))
	END
	sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o sealed
	sgpu-run -q --device cuda:0 -k runner.jwk -o one.response sealed
	sgpu-seal open -q -k owner.jwk -C one one.response
	for i in 1 2 3 4 5 6 7 8 9 10; do
		sgpu-run -q --device cuda:0,1 -k runner.jwk -o two.response sealed
		sgpu-seal open -q --force -k owner.jwk -C two two.response
		diff -r one two
	done
}

@test "a GPU that is named twice, or does not exist, is refused" {
	local uuid
	make_keys 2>/dev/null
	mkdir spool
	uuid=$(nvidia-smi -L | sed -n '1s/.*(UUID: \(GPU-[^)]*\)).*/\1/p')
	run --separate-stderr -2 sgpu-worker -k runner.jwk --device "cuda:0,$uuid" spool
	assert_contains "$stderr" "are the same GPU"
	run --separate-stderr -3 sgpu-worker -k runner.jwk --device cuda:0,63 spool
	assert_contains "$stderr" "no device 'cuda:63'"
}
