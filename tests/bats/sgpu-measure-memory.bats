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

sealed_job() {
	make_keys
	small_job "$1"
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >sealed
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
	[ "$output" = "{\"algorithm\":\"sgpu measure v1\",\"keyed\":false,\"measurements\":[{\"label\":\"data\",\"offset\":0,\"size\":100000,\"digest\":\"$want\"}]}" ]
}

@test "a window has the digest of its bytes" {
	for window in "0 1" "1 8191" "8191 2" "4096 65536" "99999 1"; do
		read -r offset size <<<"$window"
		tail -c +$((offset + 1)) data | head -c "$size" >part
		[ "$(digest --offset "$offset" --size "$size" data)" = "$(digest part)" ]
	done
	tail -c +65537 data >part
	[ "$(digest --offset 64K data)" = "$(digest part)" ]
	run --separate-stderr -1 memory --offset 100000 data
	assert_contains "$stderr" "nothing to measure"
	run -1 memory --offset 1 --size 100000 data
	run -1 memory --size 1M data
	: >empty
	run -1 memory empty
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

@test "keyed digests differ from the plain one, and from run to run" {
	a=$(digest --keyed data)
	b=$(digest --keyed data)
	[ "$a" != "$b" ]
	[ "$a" != "$(digest data)" ]
	run -2 memory --keyed --expect "$a" data
}

@test "keyed digests of one run can be compared" {
	sealed_job 300
	cp scan.f32 bias.f32
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	run -0 memory --keyed --batch sealed -k owner.jwk
	[ "${#lines[@]}" -eq 2 ]
	[ "${lines[0]%% *}" = "${lines[1]%% *}" ]
}

@test "what is opened on the device has the digest of what was sealed" {
	sealed_job 100000
	scan=$(digest scan.f32)
	run -0 --separate-stderr memory --batch sealed -k owner.jwk
	[ "$output" = "$scan  scan
$(digest bias.f32)  bias" ]
	run -0 memory --batch sealed -k runner.jwk --segment scan --expect "$scan"
	run -0 memory --batch - -k owner.jwk --segment scan <sealed
	[ "$output" = "$scan  scan" ]
	head -c 8192 scan.f32 >part
	run -0 memory --batch sealed -k owner.jwk --segment scan --size 8K
	[ "$output" = "$(digest part)  scan" ]
	sgpu-run -k runner.jwk sealed >response
	run -0 memory --batch response -k owner.jwk --segment result
	[ "$output" = "$(digest expected.f32)  result" ]
}

@test "payloads that lie elsewhere are measured there" {
	sealed_job 5000
	sgpu-stage load --keep <sealed >staged
	run -0 memory --batch staged -k owner.jwk
	assert_contains "$output" "$(digest scan.f32)  scan"
	assert_contains "$output" "$(digest bias.f32)  bias"
	sgpu-seal seal --by-reference -k owner.jwk packed >referring
	run -0 memory --batch referring -k owner.jwk
	assert_contains "$output" "$(digest bias.f32)  bias"
	flip_byte bias.f32 100
	run --separate-stderr -4 memory --batch referring -k owner.jwk
	assert_contains "$stderr" "its kt128 differs"
}

@test "a batch that was altered, or another's, is exit status 4 and measures nothing" {
	sealed_job 100000
	sgpu-seal keygen -o other.jwk
	run --separate-stderr -4 memory --json --batch sealed -k other.jwk
	assert_contains "$stderr" '"EKEY"'
	cp sealed altered
	flip_byte altered 200000
	run --separate-stderr -4 memory --batch altered -k owner.jwk
	assert_contains "$stderr" "does not verify"
	[ -z "$output" ]
	head -c 300000 sealed >short
	run -1 memory --batch short -k owner.jwk
	run -1 memory --batch data -k owner.jwk
	run -1 memory --batch sealed -k owner.jwk --segment result
	run -2 memory --batch sealed -k owner.jwk --segment nothing
	run -2 memory --batch sealed
	chmod 0644 owner.jwk
	run -4 memory --batch sealed -k owner.jwk
}

@test "what makes no sense is a usage error, and what cannot be read or written a failure" {
	run -2 memory a b
	run -2 memory -k owner.jwk data
	run -2 memory --segment x data
	run -2 memory --batch b data
	run -2 memory --batch b --expect "$(printf '%064d' 0)"
	run -2 memory --batch b --size 10
	run -2 memory --batch - -k -
	run -2 memory --offset -1 data
	run -2 memory --size 0 data
	run -2 sgpu-measure memory --device toaster data
	run -3 sgpu-measure memory --device cuda:99 data
	run -3 memory no-such-file
	run -3 memory .
	run -1 memory /dev/zero
	run -3 bash -c "sgpu-measure memory --device $device data >/dev/full"
}
