#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure memory: data brought into a secure context on a device, and measured there.
# shellcheck disable=SC2002,SC2154 # a pipe on purpose; variables that run sets

load helpers

# The device that check-gpu names, or the CPU device, on which all holds too.
device=${SGPU_TEST_DEVICE:-cpu}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	head -c 100000 </dev/zero | openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 00 2>/dev/null >data
}

memory() {
	sgpu-measure memory --device "$device" "$@"
}

digest() {
	memory "$@" | cut -d ' ' -f 1
}

@test "the digest of known bytes is the one that another implementation gives" {
	printf 'sgpu' >known
	run -0 --separate-stderr memory known
	[ -z "$stderr" ]
	[ "$output" = "0ee82282b4f54bd7173d07c2002b77c24e1ad8f3267083231167bd9bb60a070b  known" ]
}

@test "a file, a redirection and a pipe have the same digest" {
	want=$(digest data)
	[ "${#want}" -eq 64 ]
	[ "$(digest <data)" = "$want" ]
	[ "$(digest - <data)" = "$want" ]
	[ "$(cat data | digest)" = "$want" ]
	run -0 memory --json data
	[ "$output" = "{\"algorithm\":\"sgpu measure v1\",\"label\":\"data\",\"size\":100000,\"digest\":\"$want\"}" ]
}

@test "a digest that is expected and differs is exit status 1" {
	want=$(digest data)
	run -0 memory --expect "$want" data
	flip_byte data 77777
	run --separate-stderr -1 memory --json --expect "$want" data
	assert_contains "$stderr" '"EDIFFERS"'
	assert_contains "$stderr" "$want"
	run -2 memory --expect 00 data
}

@test "what makes no sense is a usage error, and what cannot be read or written a failure" {
	run -2 memory a b
	: >empty
	run -1 memory empty
	run -2 sgpu-measure memory --device toaster data
	run -3 sgpu-measure memory --device cuda:99 data
	run -3 memory no-such-file
	run -3 memory .
	run -1 memory /dev/zero
	run -3 bash -c "sgpu-measure memory --device $device data >/dev/full"
}
