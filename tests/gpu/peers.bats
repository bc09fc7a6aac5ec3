#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Several GPUs in one process: sealed copies between two, and a worker that drains a spool on both.
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

# rate NAME COUNT DEVICES: drains COUNT copies of the batch on these devices, and prints batches a second, from the first
# claim to the last response; in $rate, too.
rate() {
	local i begin end
	rm -rf "$work/spool" && mkdir "$work/spool"
	for ((i = 0; i < $2; i++)); do
		ln "$work/sealed" "$work/spool/b$i"
	done
	sgpu-run worker -v -k runner.jwk --device "$3" "$work/spool" 2>"$1.log" || { cat "$1.log" >&2; return 1; }
	begin=$(stat -c %.9Y "$work"/spool/*.response | sort -n | head -n 1)
	end=$(stat -c %.9Y "$work"/spool/*.response | sort -n | tail -n 1)
	[ "$(find "$work/spool" -name '*.response' | wc -l)" -eq "$2" ]
	rate=$(awk -v n="$2" -v b="$begin" -v e="$end" 'BEGIN { printf "%.1f", (n - 1) / (e - b) }')
	echo "# $1: $2 batches on $3: $rate a second" >&3
	grep "was given" "$1.log" | sed 's/^/# /' >&3 || true
}

@test "what one GPU seals another opens, by each way between them, and what was changed is refused" {
	SGPU_TEST_DEVICE=cuda:0 SGPU_TEST_PEER=cuda:1 "$SGPU_BUILD/unit/test_device_peer"
}

@test "copies between GPUs are measured, sealed and plain" {
	sgpu-bench run --device cuda:0 --size 4M:64M peer >&3 2>&3
	sgpu-bench run --device cuda:0 --quick --json peer >records
	grep -q '"variant":"stored","parameters":{"size_bytes":4194304},"unit":"B/s","status":"passed"' records
}

@test "a worker with two GPUs answers what one does; the rates are printed" {
	local kind count one
	make_keys 2>/dev/null
	work=$(mktemp -d /dev/shm/sgpu-peers.XXXXXX)
	for kind in light heavy; do
		count=$([ $kind = light ] && echo "${LIGHT:-6000}" || echo "${HEAVY:-64}")
		${kind}_job
		sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o "$work/sealed"
		rate $kind-one "$count" cuda:0
		one=$rate
		rate $kind-two "$count" cuda:0,1
		echo "# $kind: two GPUs reach $(awk -v a="$rate" -v b="$one" 'BEGIN { printf "%.2f", a / b }') times one" >&3
		rm "$work/sealed"
	done
	run -0 sgpu-run worker -q -k runner.jwk --device cuda:all "$work/spool"
}

@test "a GPU that is named twice, or does not exist, is refused" {
	local uuid
	make_keys 2>/dev/null
	mkdir spool
	uuid=$(nvidia-smi -L | sed -n '1s/.*(UUID: \(GPU-[^)]*\)).*/\1/p')
	run --separate-stderr -2 sgpu-run worker -k runner.jwk --device "cuda:0,$uuid" spool
	assert_contains "$stderr" "are the same GPU"
	run --separate-stderr -3 sgpu-run worker -k runner.jwk --device cuda:0,63 spool
	assert_contains "$stderr" "no device 'cuda:63'"
}
