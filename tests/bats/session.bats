#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-enclave --session: what it does with what is no session. Sessions themselves: test_remote, examples.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys 2>/dev/null
}

@test "a session that nobody opens ends well" {
	run --separate-stderr -0 sgpu-enclave --session -k runner.jwk --device cpu </dev/null
	[ -z "$output" ]
	[ -z "$stderr" ]
}

@test "what is no session is told, with status 1, and nothing is answered" {
	local bytes
	# shellcheck disable=SC2059 # they are formats
	for bytes in 'GET / HTTP/1.1\r\n\r\n' '\377\377\377\377' '\0\0\0\0' 'x' '\001\377\377\377\001' \
		'\002\377\377\377\0\0\100\0\0\0\0\0\001\0\0\0\0\0\0\0'; do
		printf "$bytes" >bytes
		run --separate-stderr -1 sgpu-enclave --session -k runner.jwk --device cpu <bytes
		[ -z "$output" ]
		assert_contains "$stderr" "sgpu-enclave: error: a "
	done
}

@test "a message that is no group is refused, and the session goes on" {
	printf '\005\0\0\0hello\005\0\0\0again' | sgpu-enclave --session -k runner.jwk --device cpu >answers
	# twice: 9 bytes follow, number 0, why
	[ "$(stat -c %s answers)" -eq 26 ]
	[ "$(od -An -v -t u1 -w13 answers | sort -u | wc -l)" -eq 1 ]
}

@test "whoever asks gets the runner's key and a nonce, another one each time" {
	printf '\001\0\0\0\0\001\0\0\0\0' | sgpu-enclave --session -k runner.jwk --device cpu >answers
	[ "$(stat -c %s answers)" -eq $((2 * (4 + 64))) ]
	[ "$(od -An -v -t x1 -w68 answers | cut -c -108 | sort -u | wc -l)" -eq 1 ]
	[ "$(od -An -v -t x1 -w68 answers | sort -u | wc -l)" -eq 2 ]
}

@test "sessions are binary: a terminal is no place for them" {
	command -v script >/dev/null || skip "needs script(1)"
	run script -qec "sgpu-enclave --session -k runner.jwk --device cpu </dev/null" /dev/null
	[ "$status" -eq 2 ]
}

@test "a session ends by a signal within a moment" {
	mkfifo pipe
	sgpu-enclave --session -k runner.jwk --device cpu <pipe >answers 3>&- &
	local worker=$! ended=0
	exec 7>pipe
	printf '\005\0\0\0hello' >&7
	until [ -s answers ]; do sleep 0.05; done
	kill -TERM "$worker"
	wait "$worker" || ended=$?
	exec 7>&-
	[ "$ended" -eq 143 ]
}

@test "options that a session has no use for are refused" {
	run --separate-stderr -2 sgpu-enclave --session --memory 0 </dev/null
	run --separate-stderr -2 sgpu-enclave --session --state state </dev/null
	run --separate-stderr -2 sgpu-enclave --session file </dev/null
	run --separate-stderr -3 sgpu-enclave --session -k runner.jwk --device cuda:99 </dev/null
	run --separate-stderr -2 sgpu-enclave --session --device cpu </dev/null
	assert_contains "$stderr" "--session needs -k, the key that the session is bound to, or --quote"
	run --separate-stderr -3 sgpu-enclave --session -k owner.jwk --device cpu </dev/null
	assert_contains "$stderr" "has no X25519 key"
}
