#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Faults on a GPU: too little memory, a kernel that fails, data that do not verify, a process that is killed. Afterwards
# no device memory is in use, and none holds the data.
# Runs alone: it looks at what the whole device holds.
# shellcheck disable=SC2154 # bats sets stderr

load ../bats/helpers
load gpu

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu
	command -v nvidia-smi >/dev/null || skip "needs nvidia-smi"
	sgpu-seal keygen -o owner.jwk
	base=$(used_mib)
}

teardown() {
	[ -z "${started:-}" ] || kill -KILL "$started" 2>/dev/null || true
	sgpu_teardown
}

submit() {
	sgpu-run --device cuda -k owner.jwk --allow-modules -o response batch.tar
}

@test "what is left in device memory would be found" {
	make_marker secret 1
	run -1 "$residue" control secret.marker
	assert_contains "$output" "looked at"
	run -0 "$residue" look secret.marker
}

@test "a batch larger than the memory that is left fails with its reason, and a smaller one does not" {
	make_marker secret 768
	make_marker open 1
	marker_job 768 1 none
	mkfifo until
	"$residue" hold 1600 <until >said 3>&- &
	started=$!
	exec 5>until
	for ((i = 0; i < 300; i++)); do
		! grep -q holding said || break
		sleep 0.1
	done
	grep holding said
	run --separate-stderr submit
	echo "status $status: $stderr" >&2
	[ "$status" -eq 3 ] || [ "$status" -eq 5 ]
	assert_contains "$stderr" "memory"
	if [ "$status" -eq 3 ]; then
		assert_no_file response
	else
		run -5 sgpu-seal open -k owner.jwk -C out response
		[ ! -e out/secret.copy ]
		rm -rf out response
	fi
	exec 5>&-
	wait "$started"
	started=
	assert_given_back "$base"
	submit
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/secret.copy secret.f32
	assert_nothing_left "$base"
}

@test "a kernel that fails leaves nothing" {
	make_marker secret 64
	make_marker open 1
	marker_job 64 1 traps
	run --separate-stderr -5 submit
	assert_contains "$stderr" "operation 'RUN' failed"
	run -5 sgpu-seal open -k owner.jwk -C out response
	[ ! -e out/made.f32 ]
	assert_nothing_left "$base"
}

@test "sealed data that were changed give no output and leave nothing" {
	local block
	make_marker secret 64
	make_marker open 1
	marker_job 64 1 none
	block=$(tar -tRf batch.tar | sed -n 's,^block \([0-9]*\): segments/secret$,\1,p')
	flip_byte batch.tar $((block * 512 + 40 * 1048576))
	run --separate-stderr -5 submit
	assert_contains "$stderr" "'secret'"
	cp -r response on-gpu
	run --separate-stderr -5 sgpu-run --device cpu -k owner.jwk -o response batch.tar
	assert_contains "$stderr" "'secret'"
	run -5 sgpu-seal open -k owner.jwk -C out on-gpu
	[ ! -e out/secret.copy ]
	assert_same out/open.copy open.f32
	assert_nothing_left "$base"
}

@test "a process that is killed while it works leaves nothing" {
	make_marker secret 512
	make_marker open 1
	marker_job 512 1 spins
	# Not by submit: the one that is killed would be the shell in which that runs.
	sgpu-run --device cuda -k owner.jwk --allow-modules -o response batch.tar 3>&- &
	started=$!
	await_used $((base + 1024))
	sleep 2
	kill -0 "$started"
	kill -KILL "$started"
	wait "$started" || [ $? -eq 137 ]
	await_off "$started"
	started=
	assert_no_file response
	assert_nothing_left "$base"
	marker_job 512 1 none
	submit
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/secret.copy secret.f32
}
