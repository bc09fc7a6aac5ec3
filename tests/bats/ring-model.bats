#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The model of rings, tests/model/ring.pml: it holds with every memory order, and breaks without any one of them.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires spin gcc
	MODEL=$SGPU_TOP/tests/model/ring.pml
}

# search OPTION...: goes through every state; leaves what was found in the file found. Status 0: nothing is wrong.
search() {
	rm -f pan pan.* found
	spin -a "$@" "$MODEL" >generated || return 99
	gcc -O1 -DSAFETY -o pan pan.c >generated 2>&1 || return 99
	./pan -m1000000 -n >found
	if grep -q 'max search depth too small' found; then
		return 99
	fi
	grep -q 'errors: 0$' found
}

# broken WHAT OPTION...: the search ends in this fault, not in something else.
broken() {
	local what=$1
	shift
	run search "$@"
	if [ "$status" -ne 1 ] || ! grep -qE "$what" found; then
		echo "$*: status $status, wanted: $what" >&2
		cat found >&2
		return 1
	fi
}

entry='assertion violated'
wake_up='invalid end state'

@test "no order of steps and stores loses, doubles or tears an entry, or leaves a sleeper" {
	run search
	[ "$status" -eq 0 ]
}

@test "the model reaches its end" {
	broken 'assertion violated 0' -DREACHABLE
}

@test "without one of the orders of an entry it is torn, lost or taken twice" {
	for rule in RELEASE_ENTRY ACQUIRE_ENTRY RELEASE_HEAD ACQUIRE_HEAD GENERATION; do
		broken "$entry" "-DWITHOUT_$rule"
	done
}

@test "without one of the fences or the second look a wake-up is lost" {
	for rule in FENCE_PRODUCER FENCE_CONSUMER LOOK_AGAIN; do
		broken "$wake_up" "-DWITHOUT_$rule"
	done
}

@test "each order of the model is left out by a test" {
	grep -oE 'ifn?def WITHOUT_[A-Z_]+' "$MODEL" | sed 's/.*WITHOUT_//' | sort -u >rules
	[ "$(wc -l <rules)" -ge 8 ]
	while read -r rule; do
		grep -qE "(-DWITHOUT_| )$rule( |;|\"|\$)" "$BATS_TEST_FILENAME" || {
			echo "no test leaves out '$rule'" >&2
			return 1
		}
	done <rules
}
