#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # gpu.bash sets memory_of
# What is in the memory of a process that works on a GPU, its pool of pinned memory included: nothing of HIGH segments.

load ../bats/helpers
load gpu

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu root
	command -v nvidia-smi >/dev/null || skip "needs nvidia-smi"
	sgpu-seal keygen -o owner.jwk
	make_marker secret 256
	make_marker open 64
}

teardown() {
	[ -z "${started:-}" ] || kill -KILL "$started" 2>/dev/null || true
	sgpu_teardown
}

# count NAME: how often NAME's marker was in the dump.
count() {
	awk -v name="$1.marker" '$1 == name { print $2 }' dump
}

@test "a dump of the process shows no plaintext of a HIGH segment while it is on the GPU" {
	marker_job 256 64 spins
	sgpu-run --device cuda -k owner.jwk --allow-modules -o response batch.tar 3>&- &
	started=$!
	await_used 600
	sleep 2
	kill -0 "$started"
	"$memory_of" "$started" secret.marker open.marker >dump
	cat dump
	kill -KILL "$started"
	# The LOW segment was moved the same way, so the dump would have shown the other one.
	[ "$(count open)" -gt 0 ]
	[ "$(count secret)" -eq 0 ]
}

# dumps DEVICE DELAY...: dumps of runs that are stopped after so many seconds; how often they show each marker.
dumps() {
	local delay device=$1
	shift
	dumps=0
	secrets=0
	opens=0
	for delay; do
		rm -rf response
		sgpu-run --device "$device" -k owner.jwk -o response batch.tar 3>&- &
		started=$!
		sleep "$delay"
		if kill -STOP "$started" 2>/dev/null && "$memory_of" "$started" secret.marker open.marker >dump; then
			dumps=$((dumps + 1))
			secrets=$((secrets + $(count secret)))
			opens=$((opens + $(count open)))
		fi
		kill -CONT "$started" 2>/dev/null || true
		wait "$started"
		started=
	done
	echo "$dumps dumps, $secrets times the marker of HIGH data, $opens times that of LOW data"
}

@test "dumps taken all along a job show no plaintext of a HIGH segment" {
	marker_job 256 64 none
	dumps cuda 0.15 0.18 0.2 0.22 0.25 0.3 0.35 0.45 0.6 0.8
	[ "$secrets" -eq 0 ]
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/secret.copy secret.f32
}

@test "dumps of a runner that waits for the rest of its batch show LOW data alone" {
	marker_job 256 64 none
	local size from opens=0
	size=$(stat -c %s batch.tar)
	mkfifo fifo
	# Within the HIGH segment, at its end, within the LOW one, and before the end of the batch.
	for from in 100 255 270 310; do
		from=$((from * 1048576))
		[ "$from" -lt "$size" ]
		sgpu-run --device cuda -k owner.jwk -o response <fifo 3>&- &
		started=$!
		exec 7>fifo
		head -c "$from" batch.tar >&7
		sleep 0.3 # until what it has read is where it is to be
		"$memory_of" "$started" secret.marker open.marker >dump
		cat dump
		[ "$(count secret)" -eq 0 ]
		opens=$((opens + $(count open)))
		tail -c "+$((from + 1))" batch.tar >&7
		exec 7>&-
		wait "$started"
		started=
	done
	# The HIGH segment was moved the same way, so the dumps would have shown it, too.
	[ "$opens" -gt 0 ]
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/secret.copy secret.f32
	assert_same out/open.copy open.f32
}

@test "dumps show it on the CPU device, whose memory is the process's own" {
	local delay
	marker_job 256 64 none
	# One is enough.
	for delay in 0.1 0.05 0.15 0.2 0.3 0.4 0.5 0.6 0.8; do
		dumps cpu "$delay"
		[ "$secrets" -eq 0 ] || break
	done
	[ "$secrets" -gt 0 ]
}
