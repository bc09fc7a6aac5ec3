#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# sgpu-seal seal: batches from the owner to the runner, and what all verbs have in common.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 5000
	sgpu-manifest pack job.json >packed
}

@test "a sealed batch runs, and its owner opens the response" {
	run_job
	run -0 sgpu-seal open -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
	assert_same out/bias.copy.f32 bias.f32
	[ "$(find out -type f | wc -l)" -eq 2 ]
}

@test "the secret is nowhere in a sealed batch or its response" {
	requires tar
	printf 'attack at dawn, attack at dawn, attack at dawn!!' >scan.f32
	head -c $((20000 - 48)) /dev/zero >>scan.f32
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	run -1 grep -c "attack at dawn" sealed
	sgpu-run -k owner.jwk sealed >response
	run -1 grep -c "attack at dawn" response
	# Nor are the owner's paths.
	run -1 grep -c "scan\.f32" sealed
	run -1 grep -c "scan\.f32" response
}

@test "sealing twice gives other bytes for the same secret" {
	sgpu-seal seal -k owner.jwk packed >a
	sgpu-seal seal -k owner.jwk packed >b
	run -1 cmp -s a b
}

@test "the number of jobs and the kind of the ends do not change the plaintext" {
	small_job 300000
	sgpu-manifest pack job.json >packed
	local jobs
	for jobs in 1 2 7; do
		sgpu-seal seal -j "$jobs" -k owner.jwk packed >sealed
		sgpu-seal seal -j "$jobs" -k owner.jwk <packed | cat >sealed.pipe
		[ "$(stat -c %s sealed)" -eq "$(stat -c %s sealed.pipe)" ]
		sgpu-run -k owner.jwk sealed.pipe >response
		sgpu-seal open -j "$jobs" -k owner.jwk -C "out$jobs" response
		assert_same "out$jobs/out.f32" expected.f32
		sgpu-seal open -j "$jobs" -k owner.jwk --only result <response | cmp - expected.f32
	done
}

@test "--by-reference leaves the public payload where it is" {
	requires tar
	sgpu-seal seal --by-reference -k owner.jwk -r runner.pub.jwk packed >sealed
	run -0 tar -tf sealed
	[ "$output" = "seal.json
batch.json
manifest.json
note
locations.json
segments/scan" ]
	mv runner.jwk "$TEST_SHM"
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-run -k "$TEST_SHM/runner.jwk" --owners owners --files . sealed | sgpu-seal open -k owner.jwk -C out
	assert_same out/bias.copy.f32 bias.f32
}

@test "a batch without secrets can be sealed, and then has a mac" {
	sed 's/HIGH/LOW/' job.json >low.json
	sgpu-manifest pack low.json >low
	sgpu-seal seal -k owner.jwk low >sealed
	run -0 sgpu-seal inspect -k owner.jwk sealed
	assert_contains "$output" verified
	sgpu-run -k owner.jwk sealed | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}

# other_digest FILE BYTE: changes one byte of every digest of a payload.
other_digest() {
	rewrite "$1" "$1.new" "
for segment in index['segments']:
    if 'kt128' in segment:
        digest = bytearray(data_of(segment['kt128']))
        digest[$2] ^= 1
        segment['kt128'] = text(bytes(digest))"
	mv "$1.new" "$1"
}

@test "digests of public payloads are compared whole: to the first byte and to the last" {
	requires python3
	sed 's/HIGH/LOW/' job.json >low.json
	sgpu-manifest pack low.json >low
	sgpu-stage load --files . <low | sgpu-run >response
	local byte
	for byte in 0 31; do
		cp packed changed
		other_digest changed $byte
		run --separate-stderr -4 sgpu-seal seal -k owner.jwk -o sealed changed
		assert_contains "$stderr" "kt128"
		assert_no_file sealed
		cp response changed
		other_digest changed $byte
		run --separate-stderr -4 sgpu-seal open -C out changed
		assert_no_file out
		sgpu-stage load --files . <low >changed
		other_digest changed $byte
		run --separate-stderr -5 sgpu-run -o failed changed
		assert_contains "$stderr" "its kt128 is not the one"
	done
}

@test "a key is needed to seal, and -r alone is warned about" {
	run -2 sgpu-seal seal -o sealed packed
	assert_no_file sealed
	run -0 --separate-stderr sgpu-seal seal -r runner.pub.jwk -o sealed packed
	assert_contains "$stderr" "without -k"
}

@test "sealing a sealed batch is refused, with the way to do it" {
	sgpu-seal seal -k owner.jwk packed >sealed
	run -1 sgpu-seal seal -k owner.jwk -o twice sealed
	assert_contains "$output" rewrap
	assert_no_file twice
}

@test "input equal to output is refused" {
	cp packed same
	run -2 sgpu-seal seal -k owner.jwk -o same same
	assert_same packed same
	run -2 bash -c 'sgpu-seal seal -k owner.jwk -o same <same'
	assert_same packed same
	run_job
	run -2 sgpu-seal open -k owner.jwk --only result -o response response
	run -2 sgpu-seal rewrap -k owner.jwk -r owner.jwk -o sealed sealed
	cp scan.f32 before
	run -2 sgpu-seal seal -k owner.jwk -o scan.f32 packed
	assert_contains "$output" "holds a payload"
	run -2 bash -c 'sgpu-seal seal -k owner.jwk packed >>scan.f32'
	run -2 sgpu-seal seal -k owner.jwk --by-reference -o bias.f32 packed
	assert_same before scan.f32
}

@test "no output takes the place of a key" {
	run_job
	mkdir keys
	cp -- *.jwk keys
	for command in "seal -k owner.jwk -o owner.jwk packed" "seal -k owner.jwk -o ./owner.jwk packed" \
		"seal -k owner.jwk -r runner.pub.jwk -o runner.pub.jwk packed" \
		"open -k owner.jwk --only result -o owner.jwk response" \
		"rewrap -k owner.jwk -r runner.pub.jwk -o owner.jwk sealed" \
		"seal-file -k owner.jwk -o owner.jwk scan.f32" "seal-file -k owner.jwk scan.f32 owner.jwk" \
		"pubkey -o runner.jwk runner.jwk"; do
		# shellcheck disable=SC2086 # words on purpose
		run --separate-stderr -2 sgpu-seal $command
		assert_contains "$stderr" "both input and output"
	done
	run --separate-stderr -2 bash -c 'sgpu-seal seal -k fd:7 -o owner.jwk packed 7<owner.jwk'
	ln owner.jwk other.jwk
	run --separate-stderr -2 sgpu-seal seal -k owner.jwk -o other.jwk packed
	cp sealed sealed.copy
	run --separate-stderr -2 sgpu-seal open -k owner.jwk --batch sealed --only result -o sealed response
	assert_same sealed sealed.copy
	for key in owner runner runner.pub; do
		assert_same $key.jwk keys/$key.jwk
	done
}

@test "usage errors are told and end with 2" {
	run_job
	run -2 sgpu-seal seal -k
	run -2 sgpu-seal seal --none
	run -2 sgpu-seal seal -k owner.jwk packed packed
	run -2 sgpu-seal seal -k owner.jwk -j 0 packed
	run -2 sgpu-seal seal -k owner.jwk -j x packed
	run -2 sgpu-seal open -k owner.jwk -C out -o one response
	run -2 sgpu-seal open response
	assert_contains "$output" "-k"
	run -2 sgpu-seal open -k owner.jwk response
	assert_contains "$output" "result, bias_copy"
	run -2 sgpu-seal open -k owner.jwk --only nothing response
	assert_contains "$output" "result, bias_copy"
	run -2 sgpu-seal open --batch sealed response
	run -2 sgpu-seal rewrap -k owner.jwk sealed
	run -2 sgpu-seal rewrap -r owner.jwk sealed
	run -2 sgpu-seal seal-file --context xy -k owner.jwk sealed out
	assert_no_file out one
}

@test "--json gives a record on standard error, which says which cipher ran" {
	run -0 --separate-stderr sgpu-seal seal --json -k owner.jwk -o sealed packed
	[ -z "$output" ]
	assert_contains "$stderr" '"provider"'
	if command -v jq >/dev/null; then
		printf '%s\n' "$stderr" | jq -e '.sealed == 1 and .bytes_in == 40000' >/dev/null
	fi
	run -3 --separate-stderr sgpu-seal seal --json -k owner.jwk absent
	assert_contains "$stderr" '{"error":{"code":"ESYSTEM"'
}

@test "killed while sealing or opening, it leaves nothing" {
	run_job
	mkfifo slow
	sgpu-seal seal -q -k owner.jwk -o made.sealed slow &
	local pid=$!
	exec 9>slow
	head -c 700 packed >&9
	kill -TERM "$pid"
	local status=0
	wait "$pid" || status=$?
	exec 9>&-
	[ "$status" -eq 143 ]
	assert_no_file made.sealed
	sgpu-seal open -q -k owner.jwk -C out <slow &
	pid=$!
	exec 9>slow
	head -c 10000 response >&9
	kill -INT "$pid" || true
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	exec 9>&-
	[ "$status" -ge 129 ]
	assert_no_file out
}

@test "a batch with nothing HIGH is sealed with a warning, and refused under --require-high" {
	# shellcheck disable=SC2154 # bats sets stderr
	run --separate-stderr -0 sgpu-seal seal -k owner.jwk --require-high -o sealed packed
	case $stderr in *"travels in the clear"*) false ;; esac
	sed 's/"HIGH"/"LOW"/' job.json >low.json
	sgpu-manifest pack -o open low.json
	run --separate-stderr -0 sgpu-seal seal -k owner.jwk -o sealed open
	assert_contains "$stderr" "warning: no segment of 'open' is HIGH: everything in it travels in the clear"
	run --separate-stderr -4 sgpu-seal seal -k owner.jwk --require-high -o refused open
	assert_contains "$stderr" "no segment of 'open' is HIGH"
	assert_no_file refused
}
