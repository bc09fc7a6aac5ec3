#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# sgpu-run prepare: whether a job could run, and jobs that a server keeps.

load serve

# manifest NAME: one that differs from the others by its name alone.
manifest() {
	sed "s/small-job/$1/" job.json >"$1.json"
}

digest() {
	sgpu-manifest hash "$1" | cut -c 1-64
}

# kept DIGEST: its uses, and whether it was prepared.
kept() {
	sgpu-run prepare --list --json | jq -r --arg digest "$1" '.jobs[] | select(.digest == $digest) | "\(.uses) \(.prepared)"'
}

@test "without a server prepare says what a job takes and what it runs on, or why it could not run" {
	requires jq
	run -0 sgpu-run prepare job.json
	assert_contains "$output" "$(digest job.json)"
	run -0 sgpu-run prepare --json --device cpu job.json
	run -0 jq -e '.jobs[0] | .operations == 3 and .streams >= 1 and .device_memory_bytes == '"$(sgpu-run --dry-run --json \
		packed | jq .device_memory_bytes)"' and (.runs | length) == 3 and all(.runs[]; .runs_on == "cpu")' <<<"$output"
	echo '{' >bad.json
	sed 's/2000/2000000000000/g' job.json >large.json
	run --separate-stderr -1 sgpu-run prepare bad.json job.json
	assert_contains "$stderr" "bad.json:1:2"
	assert_contains "$output" "$(digest job.json)"
	run --separate-stderr -1 sgpu-run prepare large.json
	assert_contains "$stderr" "bytes of device memory"
	run --separate-stderr -3 sgpu-run prepare nothing.json
	run --separate-stderr -2 sgpu-run prepare
	run --separate-stderr -2 sgpu-run prepare --list job.json
	run --separate-stderr -2 sgpu-run prepare --list --device cpu
	run --separate-stderr -3 sgpu-run prepare --list
	assert_contains "$stderr" "there is no server"
}

@test "a server prepares a job before its first batch, counts its uses, and forgets it" {
	requires jq
	start_server -k runner.jwk
	run -0 sgpu-run prepare job.json
	assert_contains "$output" "$(digest job.json)"
	[ "$(kept "$(digest job.json)")" = "0 true" ]
	sgpu-run -o response batch.tar
	[ "$(kept "$(digest job.json)")" = "1 true" ]
	# A batch's own manifest is kept, too, until others come.
	manifest another
	sgpu-manifest pack another.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | sgpu-run -o response
	[ "$(kept "$(digest another.json)")" = "0 false" ]
	run -0 sgpu-run prepare --forget "$(digest job.json)"
	[ -z "$(kept "$(digest job.json)")" ]
	run --separate-stderr -1 sgpu-run prepare --forget "$(digest job.json)"
	assert_contains "$stderr" "no job of that digest is kept"
	run -0 sgpu-run -o response batch.tar
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
}

@test "only so many jobs are prepared, and they end with their worker" {
	requires jq
	start_server -k runner.jwk
	for i in $(seq 33); do
		manifest "job$i"
	done
	run --separate-stderr -3 sgpu-run prepare job{1..33}.json
	assert_contains "$stderr" "32 prepared jobs are kept, which is the limit"
	[ "$(sgpu-run prepare --list --json | jq '[.jobs[] | select(.prepared)] | length')" -eq 32 ]
	# Workers end with their jobs.
	kill -9 "$(serving_pid)"
	wait_for grep -q "ended by signal 9" log
	[ "$(sgpu-run prepare --list --json | jq '.jobs | length')" -eq 0 ]
}

@test "hostile requests to prepare are refused, and disturb nobody" {
	requires python3
	start_server -k runner.jwk
	sgpu-run -o response batch.tar
	pid=$(serving_pid)
	before=$(descriptors "$pid")
	run -0 client prepare job.json
	[ "$(grep -c 'the message is malformed' <<<"$output")" -eq 3 ]
	[ "$(grep -vc 'the message is malformed' <<<"$output")" -eq 1 ]
	run -0 sgpu-run -o response batch.tar
	[ "$(serving_pid)" = "$pid" ]
	wait_for has_descriptors_left "$pid" "$before"
}
