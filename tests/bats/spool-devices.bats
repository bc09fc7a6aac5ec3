#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The devices of sgpu-worker: what one that fails leaves, and which names are refused.
# shellcheck disable=SC2154 # bats sets stderr

load spool

@test "a worker whose device fails gives back what it had, and another answers that" {
	requires cc no-sanitizer
	compile -shared -fPIC -O2 -o failing_device.so "$BATS_TEST_DIRNAME/failing_device.c"
	fill 120
	LD_PRELOAD=$PWD/failing_device.so run --separate-stderr -3 worker -q spool
	[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ]
	[ "$(find spool -maxdepth 1 -name 'b*' ! -name '*.response')" ]
	worker -q spool
	all_answered 120
	opens spool/b1.response spool/b2.response spool/b120.response
}

@test "devices that are named twice, do not exist or are of two kinds are refused" {
	fill 1
	run --separate-stderr -2 sgpu-worker -k runner.jwk --device cuda:0,0 spool
	assert_contains "$stderr" "'cuda:0' is named twice"
	run --separate-stderr -2 sgpu-worker -k runner.jwk --device cpu,cuda:1 spool
	assert_contains "$stderr" "'cpu:cuda:1' names no device"
	run --separate-stderr -2 sgpu-worker -k runner.jwk --device auto,auto spool
	assert_contains "$stderr" "'auto' is named twice"
	run --separate-stderr -2 sgpu-worker -k runner.jwk --device cpu, spool
	assert_contains "$stderr" "names no device at one place"
	run --separate-stderr -3 env CUDA_VISIBLE_DEVICES= sgpu-worker -k runner.jwk --device cuda:0,1 spool
	assert_contains "$stderr" "no device 'cuda:0'"
	[ -z "$(find spool -mindepth 1 ! -name b1)" ]
}
