#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A run that proves itself: what it quotes, who gets a batch, and who gets none.
# shellcheck disable=SC2153,SC2154 # bats sets stderr, authority.bash NONCE

load helpers
load authority

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	cp "$BATS_FILE_TMPDIR"/{ak.pem,ak.crt,ca.crt} .
	sgpu-seal keygen -o owner.jwk
	seq 0 99 | floats >x.f32
	cat >job.json <<-'END'
	{ "version": 1, "manifest_id": "attested", "segments": [
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [100] } },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "x", "output": "y" } } ] }
	END
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-measure policy -q --build "$SGPU_BUILD" --owners owners --at-least plain -o policy.json 2>/dev/null
	# A build for a sanitizer can be debugged, and only one test is about that.
	[ -z "${SGPU_SANITIZE:-}" ] || sed -i 's/"debug": false/"debug": true/; s/"confinement": true/"confinement": false/' policy.json
}

teardown() {
	[ -z "${RUNNER:-}" ] || kill -KILL "$RUNNER" 2>/dev/null || true
	sgpu_teardown
}

# start_runner [PROGRAM [OPTION...]]: one that has written its quote and waits for a batch; its process id in $RUNNER.
start_runner() {
	local i
	rm -f pipe quote response
	mkfifo pipe
	"${1:-sgpu-run}" --device cpu --owners owners --quote quote --nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt \
		"${@:2}" -o response pipe 2>message 3>&- &
	RUNNER=$!
	for ((i = 0; i < 2400; i++)); do
		[ ! -e quote ] || return 0
		kill -0 "$RUNNER" || break
		sleep 0.05
	done
	cat message >&2
	return 1
}

# stop_runner: it never got a batch, so that there is no response.
stop_runner() {
	kill -TERM "$RUNNER"
	wait "$RUNNER" || true
	RUNNER=
	assert_no_file response
}

# ends_with STATUS: the runner does, when it has got a batch.
ends_with() {
	local ended=0
	wait "$RUNNER" || ended=$?
	RUNNER=
	[ "$ended" -eq "$1" ]
}

appraise() {
	sgpu-measure appraise -p policy.json --roots ca.crt --nonce "$NONCE" --recipient recipient.jwk "$@" quote
}

seal() {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r recipient.jwk
}

# seal_to_owner: a batch that no quote was needed for.
seal_to_owner() {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk
}

@test "a batch is sealed to the key of a quote that was appraised, and runs" {
	start_runner
	appraise
	seal >pipe
	wait "$RUNNER"
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/y.f32 x.f32
}

@test "the quote is whole before the batch is read, and its key is in no file" {
	requires jq
	start_runner
	sgpu-measure verify --roots ca.crt --nonce "$NONCE" quote
	appraise
	jq -e '.kty == "OKP" and (.d | not)' recipient.jwk
	[ "$(find . -type f | sort | tr '\n' ' ')" = "./ak.crt ./ak.pem ./ca.crt ./job.json ./message ./owner.jwk \
./owners ./policy.json ./quote ./recipient.jwk ./x.f32 " ]
	stop_runner
}

@test "one changed byte in a text of the runner is another program" {
	local at
	cp "$SGPU_BUILD/bin/sgpu-enclave" altered
	at=$(grep -abo 'no runner needs it' altered | head -n 1 | cut -d : -f 1)
	flip_byte altered "$at"
	start_runner ./altered
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "the runner is not a program that the policy knows"
	assert_no_file recipient.jwk
	stop_runner
}

@test "a runner that can be debugged gets nothing" {
	export SGPU_DEBUG=1
	sed -i 's/"debug": true/"debug": false/' policy.json
	start_runner
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "debugger"
	assert_no_file recipient.jwk
	stop_runner
}

@test "a runner that runs modules gets nothing unless the policy allows them" {
	start_runner sgpu-run --allow-modules
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "modules"
	assert_no_file recipient.jwk
	sed -i 's/"modules": false/"modules": true/' policy.json
	if sgpu-run --info --json | jq -e .modules.namespaces >/dev/null; then
		appraise
		[ -s recipient.jwk ]
	else # as in a chroot: less than all that confines them is not accepted unasked
		run --separate-stderr -4 appraise
		assert_contains "$stderr" "no namespaces"
	fi
	stop_runner
}

@test "a runner that takes work of another owner, too, or of anybody, gets nothing" {
	sgpu-seal keygen -o other.jwk
	sgpu-seal keyinfo --owner other.jwk >>owners
	start_runner
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "an owner that the policy does not know"
	assert_no_file recipient.jwk
	stop_runner
	sed -i 's/"owners": \[/&"'"$(sgpu-seal keyinfo --owner other.jwk)"'", /' policy.json
	start_runner
	appraise
	stop_runner
}

@test "the quote of another authority's machine gives no key" {
	start_runner
	sgpu-measure keygen -o other.pem --authority ca.crt.other
	mv ca.crt.other ca.crt
	run --separate-stderr -4 appraise
	assert_no_file recipient.jwk
	stop_runner
}

@test "a batch for the run before cannot be opened by the next one" {
	start_runner
	appraise
	seal >batch.tar
	kill -TERM "$RUNNER"
	wait "$RUNNER" || true
	start_runner
	cat batch.tar >pipe || true
	ends_with 4
	assert_contains "$(cat message)" "recipient"
	assert_no_file response
}

@test "the owner's key is bound into the quote" {
	sgpu-seal keygen --x25519 -o mine.jwk
	sgpu-seal pubkey -o mine.pub.jwk mine.jwk
	sgpu-seal keygen --x25519 -o other.jwk
	sgpu-seal pubkey -o other.pub.jwk other.jwk
	start_runner sgpu-run --owner mine.pub.jwk
	run --separate-stderr -4 appraise --owner other.pub.jwk
	assert_no_file recipient.jwk
	appraise --owner mine.pub.jwk
	stop_runner
}

@test "a public key of low order is refused as the owner's and as a recipient's" {
	local all=(--nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt)
	printf '{"kty":"OKP","crv":"X25519","x":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}\n' >low.jwk
	run --separate-stderr -1 sgpu-run --device cpu --quote quote "${all[@]}" --owner low.jwk -o response /dev/null
	assert_contains "$stderr" "low.jwk: the X25519 key: 'x' is a point of low order"
	assert_no_file quote response
	run --separate-stderr -1 sgpu-measure quote -k ak.pem "${all[@]:0:2}" "${all[@]:4}" --device cpu \
		--recipient low.jwk -o quote
	assert_contains "$stderr" "low.jwk: the X25519 key: 'x' is a point of low order"
	assert_no_file quote
	sgpu-manifest pack -o packed job.json
	run --separate-stderr -1 sgpu-seal seal -k owner.jwk -r low.jwk -o sealed packed
	assert_contains "$stderr" "low.jwk: the X25519 key: 'x' is a point of low order"
	assert_no_file sealed
}

@test "the options of evidence are checked before anything is made" {
	local all=(--nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt)
	run --separate-stderr -2 sgpu-run "${all[@]}" -o response /dev/null
	assert_contains "$stderr" "are for a run with --quote"
	run --separate-stderr -2 sgpu-run --owner owner.jwk -o response /dev/null
	assert_contains "$stderr" "and --owner are for a run with --quote"
	run --separate-stderr -2 sgpu-run --quote quote "${all[@]:0:4}" -o response /dev/null
	assert_contains "$stderr" "--quote needs --nonce, --attestation-key and --certificate"
	run --separate-stderr -2 sgpu-run --quote quote "${all[@]:2}" -o response /dev/null
	assert_contains "$stderr" "--quote needs --nonce"
	run --separate-stderr -2 sgpu-run --quote - "${all[@]}" -o response /dev/null
	assert_contains "$stderr" "the quote goes to a file"
	for nonce in 00 0001020304050607g8 "${NONCE}0" "$(printf '%0130d' 0)"; do
		run --separate-stderr -2 sgpu-run --quote quote --nonce "$nonce" "${all[@]:2}" -o response /dev/null
		assert_contains "$stderr" "8 to 64 bytes"
	done
	run --separate-stderr -2 sgpu-run --quote ak.pem "${all[@]}" -o response /dev/null
	assert_contains "$stderr" "both input and output"
	run --separate-stderr -2 sgpu-run --quote response "${all[@]}" -o ./response /dev/null
	assert_contains "$stderr" "two outputs cannot both go to 'response'"
	run --separate-stderr -2 sgpu-run --quote quote "${all[@]}" --trace "../${PWD##*/}/quote" -o response /dev/null
	assert_contains "$stderr" "two outputs cannot both go to 'quote'"
	ln -s response link
	run --separate-stderr -2 sgpu-run --quote link "${all[@]}" -o response /dev/null
	assert_contains "$stderr" "two outputs cannot both go to 'link'"
	assert_no_file quote response
}

@test "a quote replaces neither the batch nor the owner's key nor standard output" {
	local name all=(--nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt)
	sgpu-seal keygen --x25519 -o mine.jwk
	sgpu-seal pubkey -o mine.pub.jwk mine.jwk
	seal_to_owner >batch.tar
	ln -s batch.tar link
	for name in batch.tar ./link mine.pub.jwk; do
		cp "$name" kept
		run --separate-stderr -2 sgpu-run --device cpu --quote "$name" "${all[@]}" --owner mine.pub.jwk \
			-o response batch.tar
		assert_contains "$stderr" "'$name' is both input and output"
		assert_same "$name" kept
	done
	status=0
	# shellcheck disable=SC2094 # which is what is refused
	sgpu-run --device cpu --quote output "${all[@]}" batch.tar >output 2>message || status=$?
	[ "$status" -eq 2 ]
	assert_contains "$(cat message)" "two outputs cannot both go to 'output'"
	assert_no_file response
}

@test "without its certificate, or with one of another key, there is neither a quote nor a run" {
	sgpu-measure keygen -o other.pem --request other.csr
	run --separate-stderr sgpu-run --device cpu --quote quote --nonce "$NONCE" --attestation-key other.pem \
		--certificate ak.crt -o response /dev/null
	[ "$status" -ne 0 ]
	assert_no_file quote response
	run --separate-stderr -3 sgpu-run --device cpu --quote quote --nonce "$NONCE" --attestation-key ak.pem \
		--certificate nothing.crt -o response /dev/null
	assert_no_file quote response
}

@test "the example ends as without evidence, and with exit status 4 for another runner" {
	requires no-sanitizer fashion-mnist
	run --separate-stderr -0 "$SGPU_TOP/examples/attested/run.sh" here
	assert_contains "$output" "policy         accepted"
	assert_contains "$output" "as without"
	cp "$SGPU_BUILD/bin/sgpu-enclave" altered
	printf x >>altered
	RUNNER=$PWD/altered run --separate-stderr -4 "$SGPU_TOP/examples/attested/run.sh"
	assert_contains "$stderr" "the runner is not a program that the policy knows"
	[[ $output != *"as without"* ]]
}
