#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Secure sessions of a program with a worker that has a GPU: the program and the worker are two processes.
# shellcheck disable=SC2154 # bats sets stderr

load ../bats/helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu
	make_keys
	export RUNNER=$PWD/runner.pub.jwk
}

@test "a session trains on the GPU what it trains on the CPU device" {
	local device
	[ -x "$SGPU_BUILD/examples/train" ] || skip "train was not built"
	# ten classes of bars
	perl -e 'for $i (0..1999) { $n = 78 * ($i % 10) + $i % 80; print chr(255) x $n . chr(0) x (784 - $n) }
		for $i (0..1999) { print chr($i % 10) }' >data
	for device in cpu cuda; do
		"$SGPU_BUILD/examples/train" sgpu-enclave --session -k runner.jwk --device "$device" <data >"losses.$device"
	done
	paste losses.cpu losses.cuda | awk '
		{ sub(",", "", $4); sub(",", "", $10); d = $4 - $10; if (d < -0.01 || d > 0.01) exit 1; lines++ }
		END { exit lines != 5 }'
	grep -q '^step 100: ' losses.cuda
}

@test "a session may not have more of a GPU's memory than it was given" {
	[ -x "$SGPU_BUILD/examples/train" ] || skip "train was not built"
	head -c 1568000 /dev/zero >data
	head -c 2000 /dev/zero >>data
	run --separate-stderr -3 "$SGPU_BUILD/examples/train" sgpu-enclave --session -k runner.jwk --device cuda --memory 1M <data
	assert_contains "$stderr" "more than the session may have"
}
