#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# sgpu-seal inspect and rewrap.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 5000
	sgpu-manifest pack job.json >packed
}

@test "every container lists with tar, and a LOW payload comes out of it" {
	requires tar
	run_job
	local file
	for file in packed sealed response; do
		run -0 --separate-stderr tar -tvf "$file"
		[ -z "$stderr" ]
		assert_contains "$output" seal.json
	done
	tar -xOf sealed segments/bias | cmp - bias.f32
	tar -xOf response segments/bias_copy | cmp - bias.f32
	run -0 tar -tf sealed
	[ "$output" = "seal.json
batch.json
manifest.json
note
segments/scan
segments/bias" ]
}

@test "a staged batch can be inspected and rewrapped, and still runs" {
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed | sgpu-stage load >staged
	run -0 sgpu-seal inspect -k owner.jwk staged
	assert_contains "$output" "handle=sgpu:"
	sgpu-seal keygen -o new.jwk
	sgpu-seal rewrap -k owner.jwk -r new.jwk staged | sgpu-run -k runner.jwk | sgpu-seal open -k new.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "inspect tells a batch from a response, checks the mac, and shows no secret" {
	run_job
	run -0 sgpu-seal inspect packed
	[[ $output =~ kind\ +packed ]]
	run -0 sgpu-seal inspect sealed
	assert_contains "$output" "not checked"
	run -0 sgpu-seal inspect -k owner.jwk sealed
	assert_contains "$output" "verified"
	assert_contains "$output" "key                         $(jq -r ".keys[0].kid" <(sgpu-seal keyinfo --json owner.jwk))"
	run -0 sgpu-seal inspect <response
	[[ ${lines[0]} =~ ^kind\ +response$ ]]
	tee /dev/null <sealed | sgpu-seal inspect -k runner.jwk >shown
	assert_contains "$(cat shown)" verified
	run -4 sgpu-seal inspect -k owner.jwk packed
}

@test "inspect --json gives one object" {
	requires jq
	run_job
	sgpu-seal inspect --json -k owner.jwk sealed | jq -e '.kind == "batch" and .mac == "verified" and
		(.segments | length) == 4 and (.recipients | length) == 2' >/dev/null
	sgpu-seal inspect --json response | jq -e '.kind == "response" and .segments[0].status == "OK"' >/dev/null
	[ "$(sgpu-seal inspect --json sealed | wc -l)" -eq 1 ]
}

@test "rewrap adds and removes recipients and touches no payload" {
	requires tar
	run_job
	sgpu-seal keygen -o new.jwk
	run -4 sgpu-seal open -k new.jwk -C out response
	sgpu-seal rewrap -k owner.jwk -r new.jwk -o response2 response
	run -0 sgpu-seal open -k new.jwk -C out response2
	assert_same out/out.f32 expected.f32
	run -0 sgpu-seal open -k owner.jwk -C out1 response2
	tar -xOf response segments/result >before
	tar -xOf response2 segments/result >after
	assert_same before after
	local kid
	kid=$(sgpu-seal inspect response2 | awk '$2 == "a256kw" { getline; print $2; exit }')
	sgpu-seal rewrap -k new.jwk --remove "$kid" <response2 >response3
	run -4 sgpu-seal open -k owner.jwk -C out2 response3
	assert_no_file out2
	run -0 sgpu-seal open -k new.jwk -C out3 response3
	run -2 sgpu-seal rewrap -k new.jwk --remove "$kid" -o response4 response3
	assert_no_file response4
}

@test "rewrap --only leaves the new recipients alone, and a batch still runs" {
	run_job
	sgpu-seal keygen --x25519 -o second.jwk
	sgpu-seal pubkey -o second.pub.jwk second.jwk
	sgpu-seal rewrap -k runner.jwk --only -r second.pub.jwk -r owner.jwk -o moved sealed
	run -4 sgpu-run -k runner.jwk -o refused.tar moved
	assert_no_file refused.tar
	sgpu-run -k second.jwk moved | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}

@test "rewrap needs a key that is a recipient, and somebody must be left" {
	run_job
	sgpu-seal keygen -o new.jwk
	run -4 sgpu-seal rewrap -k new.jwk -r new.jwk -o changed sealed
	run -4 sgpu-seal rewrap -k owner.jwk -r new.jwk -o changed packed
	sgpu-seal seal -k owner.jwk packed >alone
	local kid
	kid=$(sgpu-seal inspect alone | awk '$1 == "kid" { print $2; exit }')
	run -2 sgpu-seal rewrap -k owner.jwk --remove "$kid" -o changed alone
	assert_no_file changed
}
