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
	./pan -m100000 -n >found
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

@test "model: without a directory for state a batch can run twice, and nothing else breaks" {
	search -DNO_STATE
	broken 'times_run[0]<=1' -DWITHOUT_REPLAY_CACHE
}

@test "model: the owner can reach an accepted response of a batch that ran once" {
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
}

@test "model: without --owners inputs stay secret, responses whole and files shut, and no more" {
	search -DUNOWNED
	broken ran_foreign -DWITHOUT_OWNERS
	broken 'times_run[0]<=1' -DWITHOUT_REPLAY_CACHE -DWITHOUT_EXPIRY
	# These still rest on their own rules, so the search above is none of an empty state.
	broken host_reads_input -DUNOWNED -DWITHOUT_MEASUREMENT
	broken accepted_mixed -DUNOWNED -DWITHOUT_RESPONSE_ID
	broken key_read -DUNOWNED -DWITHOUT_FILES_CLOSED
}

@test "model: without one of the rules about replays a batch runs twice" {
	for rule in REPLAY_CACHE EXPIRY IDENTITY; do
		broken 'times_run[0]<=1' "-DWITHOUT_$rule"
	done
}

@test "model: a recipient in the hands of the host exchanges HIGH inputs and makes responses, and no more" {
	broken ran_exchanged -DWITHOUT_TRUSTED_SEALING
	broken accepted_mixed -DWITHOUT_TRUSTED_ANSWERING
	search -DFOREIGN
	broken 'times_run[0]<=1' -DFOREIGN -DWITHOUT_IDENTITY
	broken ran_foreign -DFOREIGN -DWITHOUT_OWNERS
}

@test "model: without one of the rules about responses the owner accepts parts that do not belong together" {
	for rule in RESPONSE_MAC BATCH_CHECK DIRECTION; do
		broken accepted_mixed "-DWITHOUT_$rule"
	done
	broken accepted_mixed -DNO_STATE -DWITHOUT_RESPONSE_ID
}

@test "model: each rule of the model is left out by a test" {
	grep -oE 'ifdef WITHOUT_[A-Z_]+' "$MODEL" | sed 's/ifdef WITHOUT_//' | sort >rules
	[ -s rules ]
	while read -r rule; do
		grep -qE "(-DWITHOUT_| )$rule( |;|\"|\$)" "$BATS_TEST_FILENAME" || {
			echo "no test leaves out '$rule'" >&2
			return 1
		}
	done <rules
}
