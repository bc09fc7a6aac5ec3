#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# sgpu-serve quote: owners seal to the worker that serves them, and programs open sessions with it, and with no other.

load quotes

@test "a batch is sealed to the key of the worker's quote, and runs; the key is in no file" {
	requires jq
	attested_server
	before=$(find . -type f | sort)
	quote=$(sgpu-serve quote --nonce "$NONCE")
	[ "$(find . -type f | sort)" = "$before" ]
	printf '%s\n' "$quote" >quote
	run -0 jq -e '.__cmwc_t' quote
	appraise
	run -0 jq -e '.kty == "OKP" and (.d | not)' recipient.jwk
	seal_to_quote >sealed
	run -0 sgpu-run -o response sealed
	opens response
	# The same key for each batch and each quote of this worker.
	cp recipient.jwk first.jwk
	quoted_batch again
	assert_same recipient.jwk first.jwk
	run -0 sgpu-run -o again.response again
	opens again.response
}

@test "with keys of files beside it, a server opens batches for either" {
	attested_server -k runner.jwk
	quoted_batch sealed
	run -0 sgpu-run -o response sealed
	opens response
	run -0 sgpu-run -o other batch.tar
	opens other
}

@test "a quote that was kept is none for another nonce, and one that was changed gives no key" {
	attested_server
	sgpu-serve quote --nonce ff0102030405060708090a0b0c0d0e0f -o quote
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "nonce"
	assert_no_file recipient.jwk
	sgpu-serve quote --nonce "$NONCE" -o quote
	flip_byte quote $(($(stat -c %s quote) / 2))
	run appraise
	[ "$status" -eq 4 ] || [ "$status" -eq 1 ]
	assert_no_file recipient.jwk
}

@test "a worker that is traced after its start is quoted as one that may be looked into" {
	requires python3 jq no-sanitizer
	attested_server
	quoted_batch sealed
	pid=$(serving_pid)
	python3 -c 'import ctypes, sys, time
if ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None):  # PTRACE_SEIZE: it goes on
    sys.exit(77)
time.sleep(600)' "$pid" 3>&- &
	tracer=$!
	until grep -q $'^TracerPid:\t[1-9]' "/proc/$pid/status"; do
		kill -0 "$tracer" 2>/dev/null || skip "nobody may trace here"
		sleep 0.05
	done
	run sgpu-serve quote --nonce "$NONCE" -o quote
	kill "$tracer"
	wait "$tracer" || true
	[ "$status" -eq 0 ]
	for part in .dbgstat .submods.runner.dbgstat; do
		[ "$(sgpu-measure inspect --json quote | jq -r ".claims$part")" = enabled ]
	done
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "the runner may be looked into by a debugger"
	assert_no_file recipient.jwk
	# Whose tracer has gone is as before.
	quoted_batch again
	[ "$(serving_pid)" = "$pid" ]
}

@test "a batch for a worker that has ended is refused, and the error says to ask for a new quote" {
	requires python3
	attested_server
	quoted_batch sealed
	pid=$(serving_pid)
	signer=$(signer_of "$pid")
	[ -n "$signer" ]
	kill -9 "$pid"
	wait_for grep -q "ended by signal 9" log
	wait_for has_ended "$signer"
	run --separate-stderr -4 sgpu-run -o response sealed
	assert_contains "$stderr" "none of the keys is a recipient"
	assert_contains "$stderr" "the worker that gave the quote has ended: ask for a new one"
	assert_no_file response
	cp recipient.jwk first.jwk
	quoted_batch anew
	run ! cmp -s recipient.jwk first.jwk
	run -0 sgpu-run -o response anew
	opens response
}

@test "a batch for another server's worker opens in none of this one" {
	attested_server
	quoted_batch sealed
	run -0 sgpu-run -o response sealed
	first=$SOCKET
	export SGPU_SOCKET=$PWD/other/run.sock
	attested_server
	quoted_batch others
	run --separate-stderr -4 sgpu-run --socket "$first" -o refused others
	assert_contains "$stderr" "ask for a new one"
	assert_no_file refused
	run -0 sgpu-run -o response others
}

@test "a batch for another user's worker opens in no other, whoever carries quote and batch" {
	requires root python3
	share_socket
	attested_server --everybody
	client_of 65534 quote "$NONCE" >theirs
	mv theirs quote
	appraise
	seal_to_quote >sealed
	run --separate-stderr -4 sgpu-run -o response sealed
	assert_contains "$stderr" "ask for a new one"
	assert_no_file response
	run -0 client_of 65534 queue sealed
	assert_contains "$output" "sealed 0 "
	opens sealed.response
}

@test "quotes that are asked for without end are refused beyond a limit, and disturb nobody" {
	requires python3
	attested_server
	sgpu-serve quote --nonce "$NONCE" -o quote
	quoted_batch sealed
	run -0 sgpu-run -o response sealed # its record stays open
	rm response
	pid=$(serving_pid)
	signer=$(cat "/proc/$pid/task/$pid/children")
	before=$(descriptors "$pid") supervisor_before=$(descriptors "$SERVER") signer_before=$(descriptors "${signer% }")
	run -0 client quotes "$([ -n "${SGPU_SANITIZE:-}" ] && echo 300 || echo 2000)" 60
	[ "$output" = "some 0" ]
	quoted_batch sealed
	run -0 sgpu-run -o response sealed
	opens response
	[ "$(serving_pid)" = "$pid" ]
	wait_for has_descriptors_left "$pid" "$before"
	wait_for has_descriptors_left "$SERVER" "$supervisor_before"
	wait_for has_descriptors_left "${signer% }" "$signer_before"
}

@test "while the platform takes its time for a report, batches run, and only so many quotes wait" {
	requires cc jq python3 python-cryptography
	compile -D_GNU_SOURCE -shared -fPIC -o fake_tsm.so "$SGPU_TOP/tests/bats/fake_tsm.c"
	mkdir -p amd tsm root/sys/devices/system/cpu/sev
	python3 "$SGPU_TOP/tests/bats/fake_tsm.py" init amd
	echo 0 >root/sys/devices/system/cpu/sev/vmpl
	tsm_driver amd go
	SERVERS+=("$DRIVER")
	evidence
	(
		use_roots
		export SGPU_TSM_ROOT=$PWD/tsm SGPU_GRAMINE_ROOT=$PWD/none SGPU_PLATFORM_ROOT=$PWD/root
		export FAKE_TSM_DRIVER=elsewhere ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$PWD/fake_tsm.so
		serve_quotes -k runner.jwk
		echo "$SERVER" >server
	)
	SERVERS+=("$(cat server)")
	sgpu-serve quote --nonce "$NONCE" -o quote 3>&- &
	first=$!
	wait_for test -e asked
	client crowded 80 63 >crowd 3>&- &
	SERVERS+=($!)
	wait_for grep -q full crowd
	run -0 sgpu-run -o response batch.tar
	opens response
	run --separate-stderr -3 sgpu-serve quote --nonce "$NONCE" -o refused
	assert_contains "$stderr" "has 64 requests under way, which is the limit"
	assert_no_file refused quote
	touch go
	wait "$first"
	wait_for grep -q "63 quotes" crowd
	run -0 sgpu-measure verify --roots ca.crt --nonce "$NONCE" --tee-roots amd/ark.crt --json quote
	run -0 jq -e '.tee.kind == "snp"' <<<"$output"
	[ -z "$(ls tsm)" ]
}

# Or has been answered.
someone_waits() {
	grep -q '^their.tar' theirs || [ "$(status tenants | awk '{ sum += $2 } END { print sum + 0 }')" -eq 1 ]
}

@test "a worker that has just given a quote is kept for the batch, though others wait for a worker" {
	requires root python3
	share_socket
	attested_server -k runner.jwk --everybody --workers 1 --ahead 0
	# Once more where this machine was too slow: nobody waits for a quoted worker for ever.
	for _ in $(seq 20); do
		begin=$SECONDS
		: >theirs
		sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >their.tar
		quoted_batch sealed
		client_of 65534 queue their.tar >>theirs 3>&- &
		other=$!
		SERVERS+=("$other")
		wait_for someone_waits
		run sgpu-run -o response sealed
		took=$((SECONDS - begin))
		[ "$took" -gt 7 ] || break
		wait "$other"
	done
	[ "$took" -le 7 ] || skip "needs a machine that seals a batch within seconds"
	[ "$status" -eq 0 ]
	opens response
	wait "$other"
	assert_contains "$(cat theirs)" "their.tar 0 "
}

@test "SIGHUP takes a new attestation key; a wrong one changes nothing, and a server does not start with one" {
	attested_server
	sgpu-serve quote --nonce "$NONCE" -o quote
	appraise
	sgpu-measure keygen -o new.pem --request request
	sgpu-measure keygen -o new-ca.pem --authority new-ca.crt
	sgpu-measure keygen -o new-ek.pem | sgpu-measure certify -k new-ca.pem --certificate new-ca.crt -o new-ek.crt
	sgpu-measure certify -k new-ek.pem --certificate new-ek.crt -o new.crt request
	cp ak.pem old.pem
	cp new.pem ak.pem
	kill -HUP "$SERVER"
	wait_for grep -q "those from before go on" log
	assert_contains "$(cat log)" "the certificate is not that of the attestation key"
	sgpu-serve quote --nonce "$NONCE" -o quote
	appraise
	cp new.crt ak.crt
	kill -HUP "$SERVER"
	wait_for grep -q "new workers serve" log
	sgpu-serve quote --nonce "$NONCE" -o quote
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "chain"
	cp new-ca.crt ca.crt
	appraise
	run --separate-stderr -4 sgpu-serve --socket other/run.sock -k runner.jwk --attestation-key old.pem --certificate ak.crt
	assert_contains "$stderr" "quotes name the workers' own keys and none of -k"
	assert_contains "$stderr" "the certificate is not that of the attestation key"
	run --separate-stderr -2 sgpu-serve --attestation-key ak.pem
	assert_contains "$stderr" "--attestation-key needs --certificate"
	run --separate-stderr -2 sgpu-serve --certificate ak.crt
	assert_contains "$stderr" "--certificate needs --attestation-key"
	run --separate-stderr -2 sgpu-serve --attestation-key - --certificate ak.crt
	assert_contains "$stderr" "keys are files"
}

@test "without an attestation key there are no quotes, and what is no quote is not passed on" {
	requires python3
	start_server -k runner.jwk
	kill -STOP "$SERVER"
	sgpu-serve quote --nonce "$NONCE" -o quote 2>stopped 3>&- &
	wait_for bash -c "ls -l /proc/$!/fd | grep -q socket"
	kill -TERM $!
	ends_with 143 $!
	grep -q 'error: stopped' stopped
	kill -CONT "$SERVER"
	run --separate-stderr -3 sgpu-serve quote --nonce "$NONCE" -o quote
	assert_contains "$stderr" "this server gives no quotes: it has no attestation key"
	run --separate-stderr -2 sgpu-serve quote -o quote
	assert_contains "$stderr" "nonce is missing"
	run --separate-stderr -2 sgpu-serve quote --nonce 0011 -o quote
	run --separate-stderr -3 sgpu-serve quote --nonce "$NONCE" --socket nowhere -o quote
	assert_contains "$stderr" "there is no server at 'nowhere'"
	python3 "$BATS_TEST_DIRNAME/serve_client.py" "$PWD/fake.sock" pose 4 >posed 3>&- &
	SERVERS+=($!)
	wait_for grep -q posing posed
	run --separate-stderr -1 sgpu-serve quote --nonce "$NONCE" --socket fake.sock -o quote
	run ! grep -q $'\e' <<<"$stderr"
	run --separate-stderr -3 sgpu-serve quote --nonce "$NONCE" --socket fake.sock -o quote
	assert_contains "$stderr" "has ended"
	# A file that is not in memory may be of a file system that never answers.
	run --separate-stderr -3 sgpu-serve quote --nonce "$NONCE" --socket fake.sock -o quote
	assert_contains "$stderr" "the text is not in a memory file"
	run --separate-stderr -3 sgpu-serve status --socket fake.sock
	assert_contains "$stderr" "the text is not in a memory file"
	assert_no_file quote
}

# quote_worker: the key of this user's worker in recipient.jwk, once its quote was appraised.
quote_worker() {
	sgpu-serve quote --nonce "$NONCE" -o quote
	appraise
}

has_program() {
	[ -x "$SGPU_BUILD/unit/test_remote_connect" ] || skip "test_remote_connect was not built"
}

# program ARGUMENT...: test_remote_connect, whose sessions are bound to the key in recipient.jwk.
program() {
	SERVE_RUNNER=recipient.jwk "$SGPU_BUILD/unit/test_remote_connect" "$@"
}

not_the_quoted() {
	assert_contains "$output" "whoever answers does not have the runner's key"
	assert_contains "$output" "ask for a new quote"
}

# session_server OPTION...: takes sessions of anybody, and the policy accepts that.
session_server() {
	attested_server --sessions any "$@"
	sed -i 's/"sessions": "owners"/"sessions": "any"/' policy.json
}

@test "a quote says whose sessions are taken, and a policy that does not name anybody's refuses those" {
	requires jq
	attested_server --sessions none
	quote_worker
	run -0 sgpu-measure inspect quote
	assert_contains "$output" '"sessions": "none"'
	session_server --socket sessions.sock
	sgpu-serve quote --socket sessions.sock --nonce "$NONCE" -o quote
	run -0 sgpu-measure inspect quote
	assert_contains "$output" '"sessions": "any"'
	appraise
	for sessions in none owners; do
		jq --arg sessions "$sessions" '.runner.sessions = $sessions' policy.json >strict.json
		run --separate-stderr -4 sgpu-measure appraise -p strict.json --roots ca.crt --nonce "$NONCE" \
			--recipient recipient.jwk quote
		assert_contains "$stderr" "than the policy accepts: 'runner.sessions' is 'any', and '$sessions' is wanted"
		assert_no_file recipient.jwk
	done
}

@test "an owner has a session of the server that was built and quoted, and nobody else has" {
	has_program
	attested_server
	quote_worker
	run -0 sgpu-measure inspect quote
	assert_contains "$output" '"sessions": "owners"'
	SERVE_OWNER=owner.jwk run -0 program run 5
	[ "$output" = "done" ]
	run -4 program run 5
	assert_contains "$output" "takes sessions of its owners alone"
}

@test "a program has a session with the worker that was quoted, and not with the one that takes its place" {
	has_program
	session_server
	quote_worker
	run -0 program run 5
	[ "$output" = "done" ]
	pid=$(serving_pid)
	kill -9 "$pid"
	wait_for grep -q "ended by signal 9" log
	run -4 program run 5
	not_the_quoted
	quote_worker
	run -0 program run 5
	[ "$(serving_pid)" != "$pid" ]
}

@test "a program has no session with another server's worker, nor with one that gives no quotes" {
	has_program
	session_server
	quote_worker
	run -0 program run 1
	first=$SOCKET
	export SGPU_SOCKET=$PWD/other/run.sock
	session_server
	run -4 program run 1
	not_the_quoted
	export SGPU_SOCKET=$PWD/third/run.sock
	sgpu-seal keygen --x25519 >other.jwk
	start_server --device cpu -k other.jwk
	run -4 program run 1
	not_the_quoted
	SGPU_SOCKET=$first run -0 program run 1
}

@test "a program has no session with another user's worker" {
	has_program
	requires root python3
	share_socket
	session_server --everybody
	client_of 65534 quote "$NONCE" >theirs
	mv theirs quote
	appraise
	run -4 program run 1
	not_the_quoted
	chmod a+rx "$SGPU_BUILD/unit" 2>/dev/null || true
	SERVE_UID=65534 run -0 program run 1
}

# piped_session OPTION...: a worker on a pair of pipes, and a program that is bound to recipient.jwk.
piped_session() {
	rm -f to from
	mkfifo to from
	sgpu-enclave --session --device cpu "$@" <to >from 2>session.log 3>&- &
	SERVERS+=($!)
	exec 7>to 8<from
}

@test "a session over pipes proves itself first, and takes a program that is bound to its quote" {
	has_program
	evidence
	piped_session --owners owners --quote quote --nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt
	wait_for test -e quote
	appraise
	SERVE_OWNER=owner.jwk program piped 3 <&8 >&7 2>said
	[ "$(cat said)" = "done" ]
	exec 7>&- 8<&-
	# Another one, and one that was never quoted.
	piped_session --quote quote --nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt
	run -4 program_piped
	not_the_quoted
	sgpu-seal keygen --x25519 >other.jwk
	piped_session -k other.jwk
	run -4 program_piped
	not_the_quoted
	run --separate-stderr -2 sgpu-enclave --session --device cpu --quote quote </dev/null
	assert_contains "$stderr" "--quote needs --nonce"
	run --separate-stderr -2 sgpu-enclave --session --device cpu --quote ak.pem --nonce "$NONCE" --attestation-key ak.pem \
		--certificate ak.crt </dev/null
	grep -q "PRIVATE KEY" ak.pem
}

program_piped() {
	local ended=0
	program piped 1 <&8 >&7 2>said || ended=$?
	exec 7>&- 8<&-
	cat said
	return "$ended"
}

@test "the example trains in a session with the worker that was quoted, and with no other" {
	PATH=$SGPU_BUILD/examples:$PATH
	requires fashion-mnist
	command -v train >/dev/null || skip "train was not built"
	session_server
	quote_worker
	SGPU_SOCKET=$SOCKET RUNNER=$PWD/recipient.jwk run --separate-stderr -0 "$SGPU_TOP/examples/session/run.sh" bound
	grep -q "^step 100" bound/losses
	kill -9 "$(serving_pid)"
	wait_for grep -q "ended by signal 9" log
	SGPU_SOCKET=$SOCKET RUNNER=$PWD/recipient.jwk run --separate-stderr -4 "$SGPU_TOP/examples/session/run.sh" refused
	assert_contains "$stderr" "ask for a new quote"
	[ ! -s refused/losses ]
}
