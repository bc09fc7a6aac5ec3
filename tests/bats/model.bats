#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The model of the protocol, tests/model/protocol.pml: it holds with every rule, and breaks without any one of them.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires spin gcc
	MODEL=$SGPU_TOP/tests/model/protocol.pml
}

# search OPTION...: goes through every state; leaves what was found in the file found. Status 0: no assertion is violated.
search() {
	rm -f pan pan.* found
	spin -a "$@" "$MODEL" >generated || return 99
	gcc -DSAFETY -o pan pan.c >generated 2>&1 || return 99
	./pan -m100000 -w18 -n >found
	if grep -q 'max search depth too small' found; then
		return 99
	fi
	grep -q 'errors: 0$' found
}

# broken ASSERTION OPTION...: the search ends in a violation of this assertion, not in something else.
broken() {
	local assertion=$1
	shift
	run search "$@"
	if [ "$status" -ne 1 ] || ! grep -qF "assertion violated" found || ! grep -F "assertion violated" found |
		grep -qF "$assertion"; then
		echo "$*: status $status, wanted a violation of $assertion" >&2
		cat found >&2
		return 1
	fi
}

@test "model: no order of steps breaks an invariant" {
	search
}

@test "model: without a directory for state batches are taken again, and nothing else breaks" {
	search -DNO_STATE
}

@test "model: both runners can run a batch, once each, and its owner accept a response" {
	broken 0 -DREACHABLE
}

@test "model: without one of the rules about quotes the host reads an input" {
	for rule in REPORT REPORT_BINDS_CLAIMS NONCE MEASUREMENT DEBUG_OFF; do
		broken host_reads_input "-DWITHOUT_$rule"
	done
}

@test "model: without one of the rules about senders the host uses the runner" {
	broken ran_foreign -DWITHOUT_OWNERS
	broken host_reads_output -DWITHOUT_SIGNED_RECIPIENTS
	broken key_read -DWITHOUT_FILES_CLOSED
	broken region_read -DWITHOUT_REGION_OWNER
}

@test "model: without --owners inputs stay secret, batches and responses whole and files shut, and no more" {
	search -DUNOWNED
	# These still rest on their own rules, so the search above is none of an empty state.
	broken host_reads_input -DUNOWNED -DWITHOUT_MEASUREMENT
	broken ran_altered -DUNOWNED -DWITHOUT_MAC
	broken accepted_mixed -DUNOWNED -DWITHOUT_RESPONSE_ID
	broken key_read -DUNOWNED -DWITHOUT_FILES_CLOSED
}

@test "model: without one of the rules about replays a runner takes a batch twice" {
	for rule in REPLAY_CACHE EXPIRY IDENTITY LOCK STAYS_TAKEN; do
		broken 'taken[0]<=1' "-DWITHOUT_$rule"
	done
}

@test "model: an identity that is recorded before the last step of admission is left by a refusal" {
	for step in MAC OWNERS INDEX MANIFEST NOTE LOCATIONS; do
		broken left_record "-DRECORD_BEFORE=$step"
	done
}

@test "model: without one of the rules about members something runs that no owner sealed together" {
	for rule in INDEX_DIGEST MANIFEST_DIGEST ANSWER_DIGEST CACHE_OF_COMPARED NOTE_DIGEST KT128; do
		broken ran_altered "-DWITHOUT_$rule"
	done
	for rule in OPENING SEGMENT INPUT_DIRECTION; do
		broken ran_exchanged "-DWITHOUT_$rule"
	done
}

@test "model: a recipient in the hands of the host exchanges HIGH inputs and makes responses, and no more" {
	broken ran_exchanged -DWITHOUT_TRUSTED_SEALING
	broken accepted_mixed -DWITHOUT_TRUSTED_ANSWERING
	search -DFOREIGN
	broken 'taken[0]<=1' -DFOREIGN -DWITHOUT_IDENTITY
	broken ran_altered -DFOREIGN -DWITHOUT_SIGNED_INDEX
}

@test "model: without one of the rules about responses the owner accepts parts that do not belong together" {
	for rule in RESPONSE_MAC BATCH_CHECK RESPONSE_INDEX_DIGEST RESPONSE_ID RESPONSE_KT128 OUTPUT_DIRECTION; do
		broken accepted_mixed "-DWITHOUT_$rule"
	done
}

@test "model: each rule of the model is left out by a test" {
	grep -oE 'WITHOUT[_(][A-Z][A-Z0-9_]+' "$MODEL" | sed 's/WITHOUT.//' | sort -u | grep -vx NAME >rules
	[ -s rules ]
	while read -r rule; do
		grep -qE "(-DWITHOUT_| )$rule( |;|\"|\$)" "$BATS_TEST_FILENAME" || {
			echo "no test leaves out '$rule'" >&2
			return 1
		}
	done <rules
}
