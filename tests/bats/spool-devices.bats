#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-worker on several devices: who gets which batch, what a device that fails leaves, and which names are refused.
# shellcheck disable=SC2154 # bats sets stderr

load spool

@test "several devices of one worker share its batches, each to the one with less to do" {
	fill 60
	run --separate-stderr -0 sgpu-worker -v -k runner.jwk --device cpu,cpu spool
	all_answered 60
	opens spool/b1.response spool/b60.response
	[[ "$stderr" =~ "device 1 of 2, 'cpu', was given "([0-9]+)" batches" ]]
	local one=${BASH_REMATCH[1]}
	[[ "$stderr" =~ "device 2 of 2, 'cpu', was given "([0-9]+)" batches" ]]
	[ "$one" -gt 0 ]
	[ "${BASH_REMATCH[1]}" -gt 0 ]
	[ $((one + BASH_REMATCH[1])) -eq 60 ]
}

@test "a device that fails takes no batch of the other with it: what it had goes back, and is answered" {
	requires cc no-sanitizer
	compile -shared -fPIC -O2 -o failing_device.so "$BATS_TEST_DIRNAME/failing_device.c"
	fill 120
	LD_PRELOAD=$PWD/failing_device.so run --separate-stderr -3 sgpu-worker -v -k runner.jwk --device cpu,cpu spool
	assert_contains "$stderr" " of 2, 'cpu', failed and gets no more batches: "
	assert_contains "$stderr" "120 batches answered, 0 of them with failed segments; 0 failed"
	all_answered 120
	opens spool/b1.response spool/b2.response spool/b120.response
}

@test "devices that are named twice, do not exist or are of two kinds are refused, and a quote and a session have one" {
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
	run --separate-stderr -2 sgpu-worker -k runner.jwk --device cuda:all spool
	assert_contains "$stderr" "a worker has a process for each GPU: name them"
	run --separate-stderr -2 sgpu-run --local --device cuda:all --quote quote --nonce 00112233445566778899aabbccddeeff \
		--attestation-key runner.jwk --certificate runner.jwk -o response sealed
	assert_contains "$stderr" "a quote names one device"
	run --separate-stderr -2 sgpu-enclave --session -k key --device cpu,cpu </dev/null
	assert_contains "$stderr" "names several devices"
	assert_no_file response quote
	[ -z "$(find spool -mindepth 1 ! -name b1)" ]
}
