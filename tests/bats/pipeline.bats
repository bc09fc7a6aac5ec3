#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The tools together, in every arrangement that a user may choose: pipes, files, one key, with and without staging.

# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 50000
	set -o pipefail
}

# results DIR: what the job must have made.
results() {
	assert_same "$1/out.f32" expected.f32 && assert_same "$1/bias.copy.f32" bias.f32
}

no_region() {
	[ -z "$(sgpu-stage list --json | tr -d '[] \n')" ] ||
		[ "$(sgpu-stage list -q | grep -cE '[0-9a-f]{32}')" -eq 0 ]
}

@test "manifest, seal, stage, run and open work as one pipe" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | sgpu-stage load |
		sgpu-run -k runner.jwk | sgpu-seal open -k owner.jwk -C out
	results out
	no_region
}

@test "files can stand between any two tools, and tar lists each" {
	sgpu-manifest pack -o packed job.json
	tar tvf packed >list
	grep -q ' batch.json$' list
	run ! grep -q 'segments/scan' list
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o sealed packed
	tar tvf sealed >list
	grep -q ' segments/scan$' list
	sgpu-stage load -o staged sealed
	tar tvf staged >list
	grep -q ' manifest.json$' list
	run ! grep -q 'segments/' list
	sgpu-run -k runner.jwk -o response staged
	tar tvf response >list
	grep -q ' segments/result$' list
	grep -q ' response.json$' list
	sgpu-seal open -k owner.jwk -C out response
	results out
	no_region
}

@test "the response never holds what is HIGH in the clear" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed
	sgpu-run -k runner.jwk sealed >response
	tar xOf response segments/result >result
	[ "$(stat -c %s result)" -gt 200000 ]
	tail -c +57 result >opaque
	run ! cmp -s -n 4096 opaque expected.f32
	tar xOf response segments/bias_copy | cmp - bias.f32
}

# statuses KEY KEY: of a pipe whose runner has the first key and whose owner the second; what it says is in `told`.
statuses() {
	# shellcheck disable=SC2016 # for the other shell
	bash -c 'set -o pipefail
		sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | sgpu-run -k "$1" |
			sgpu-seal open -k "$2" -C out
		echo "$? ${PIPESTATUS[*]}"' - "$1" "$2" 2>told
}

@test "each refusal is one: no owner's signature, taken before, altered, no key" {
	sgpu-seal keyinfo --owner -o owners owner.jwk
	sgpu-seal keygen -o stranger.jwk
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed -o batch
	sgpu-seal seal -k stranger.jwk -r runner.pub.jwk packed >foreign
	run -0 sgpu-run -k runner.jwk --owners owners --state state -o response batch
	cp batch altered
	sed -i 's/"payload":/"Payload":/' altered
	local -A codes=(["-k runner.jwk --owners owners foreign"]=EPOLICY ["-k runner.jwk --owners owners --state state batch"]=ETAKEN
		["batch"]=EKEY ["packed"]=EPOLICY)
	local options
	for options in "${!codes[@]}"; do
		# shellcheck disable=SC2086
		run --separate-stderr -4 bash -c "sgpu-run --local $options | sgpu-seal open -k owner.jwk -C out --json"
		assert_contains "$stderr" '{"error":{"code":"EREFUSED","retryable":false,"text":"not authenticated: the runner'
		[ "$(grep '^{"refusal"' <<<"$stderr" | sed 's/.*"code":"\([A-Z]*\)".*/\1/')" = "${codes[$options]}" ] ||
			{ echo "$options: $stderr"; return 1; }
	done
	assert_contains "$stderr" '"batch_id":"'
	# What is malformed is no refusal, and the next program says that nothing came.
	# shellcheck disable=SC2016
	run -0 bash -c 'sgpu-run -k runner.jwk altered 2>/dev/null | sgpu-seal open -k owner.jwk -C out 2>/dev/null
		echo "${PIPESTATUS[*]}"'
	[ "$output" = "1 6" ]
	assert_no_file out
}

@test "a refusal goes to standard output or a pipe, and no file gets a name for it" {
	sgpu-seal keygen --x25519 -o other.jwk
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o batch
	run -4 sgpu-run -k other.jwk -o response batch
	assert_no_file response
	echo old >response
	run -4 sgpu-run -k other.jwk -o response batch
	[ "$(cat response)" = old ]
	run -4 bash -c 'sgpu-run -k other.jwk batch >response'
	[ "$(tar tf response)" = refusal.json ]
	run -4 sgpu-seal open -k owner.jwk -C out response
	mkfifo pipe
	sgpu-run -k other.jwk -o pipe batch &
	run -4 sgpu-seal open -k owner.jwk -C out pipe
	local status=0
	wait $! || status=$?
	[ "$status" -eq 4 ]
	assert_no_file out
}

@test "nothing of a refusal goes to a terminal" {
	requires pty
	sgpu-seal keygen --x25519 -o other.jwk
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o batch
	run script -qec 'sgpu-run -k other.jwk batch' /dev/null
	run ! grep -q refusal.json <<<"$output"
}

@test "a runner whose owner cannot open its response has done its work" {
	sgpu-seal keygen -o other.jwk
	[ "$(statuses runner.jwk other.jwk)" = "4 0 0 0 4" ]
	grep -q '^sgpu-run: batch .* OK$' told
	# Nor is it at fault if nobody reads at all.
	[ "$(statuses runner.jwk missing.jwk)" = "3 0 0 141 3" ]
	grep -q '^sgpu-run: batch .* ECANCELED$' told
	[ "$(grep -c '^sgpu-run' told)" -eq 1 ]
}

@test "of the statuses of a pipe the first that is not 0, 6 or 141 is that of the cause, as sgpu(7) finds it" {
	sgpu-seal keygen -o other.jwk
	echo '{' >bad.json
	local loop job runner owner cause
	loop=$(sed -n '/^for status in/,/^done/p' "$SGPU_TOP/man/sgpu.7")
	[ -n "$loop" ]
	while read -r job runner owner cause; do
		run -"$cause" bash -c "sgpu-manifest pack $job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk |
			sgpu-run -k $runner.jwk | sgpu-seal open --force -k $owner.jwk -C out
			$loop"
	done <<-END
		job runner owner 0
		bad runner owner 1
		job missing owner 3
		job other owner 4
		job runner other 4
		job runner missing 3
	END
}
