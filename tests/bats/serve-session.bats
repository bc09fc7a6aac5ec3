#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031 # bats sets stderr; each test is a process of its own
#
# Sessions of programs with sgpu-serve. What a session does: test_remote_ring. The programs here are test_remote_connect.

load serve

setup_file() {
	[ -x "$SGPU_BUILD/unit/test_remote_connect" ] || skip "test_remote_connect was not built"
	PROGRAM=$SGPU_BUILD/unit/test_remote_connect
	export PROGRAM
}

program() {
	SGPU_SOCKET=$SOCKET "$PROGRAM" "$@"
}

# sessions COUNT: of all users, now.
sessions() {
	[ "$(status shares | awk '{ sum += $NF } END { print sum + 0 }')" -eq "$1" ]
}

# hold_sessions COUNT: a program in the background that has them, and works again when descriptor 7 is closed: $HELD.
hold_sessions() {
	hold_program hold "$1"
}

hold_program() {
	rm -f held.fifo held.out
	mkfifo held.fifo
	SGPU_SOCKET=$SOCKET "$PROGRAM" "$@" <held.fifo >held.out 2>held.log 3>&- &
	HELD=$!
	SERVERS+=("$HELD")
	exec 7>held.fifo
	wait_for grep -qs '^held$' held.out
}

let_go() {
	exec 7>&-
}

# refuses_sessions TEXT: whoever asks is told why.
refuses_sessions() {
	run -4 program run 1
	assert_contains "$output" "$1"
}

@test "a server takes sessions of its owners, or of whom it was told to" {
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-seal keygen -o stranger.jwk
	start_server --device cpu -k runner.jwk --owners owners --state "$PWD/state"
	SERVE_OWNER=owner.jwk run -0 program run 1
	[ "$output" = "done" ]
	refuses_sessions "takes sessions of its owners alone"
	SERVE_OWNER=stranger.jwk refuses_sessions "takes sessions of its owners alone"
	run -0 sgpu-run -o response batch.tar
	start_server --device cpu -k runner.jwk --socket none.sock --owners owners --state "$PWD/state" --sessions none
	SOCKET=none.sock SERVE_OWNER=owner.jwk refuses_sessions "this server takes no sessions"
	start_server --device cpu -k runner.jwk --socket any.sock --owners owners --state "$PWD/state" --sessions any
	SOCKET=any.sock run -0 program run 1
	[ "$output" = "done" ]
	start_server --device cpu -k runner.jwk --socket modules.sock --owners owners --state "$PWD/state" --allow-modules
	SOCKET=modules.sock SERVE_OWNER=owner.jwk refuses_sessions "this server takes no sessions"
	run --separate-stderr -2 sgpu-serve --sessions all
	assert_contains "$stderr" "--sessions is none, owners or any, not 'all'"
	run --separate-stderr -2 sgpu-serve --sessions owners
	assert_contains "$stderr" "--sessions owners needs --owners"
}

@test "a server whose keys are symmetric has nothing that sessions could be bound to" {
	sgpu-seal keygen -o oct.jwk
	start_server --device cpu -k oct.jwk
	run -1 program run 1
	assert_contains "$output" "the runner has no X25519 key"
}

@test "another user who has the key of no owner has no session of a server with owners" {
	requires root
	share_socket
	sgpu-seal keyinfo --owner owner.jwk >owners
	start_server --device cpu --everybody -k runner.jwk --owners owners --state "$PWD/state"
	chmod a+rx "$SGPU_BUILD/unit" 2>/dev/null || true
	SERVE_UID=2002 refuses_sessions "takes sessions of its owners alone"
}

@test "a user has sixteen sessions, and the status counts them" {
	start_server --device cpu -k runner.jwk
	hold_sessions 16
	sessions 16
	sgpu-serve status --json | jq -e '.status.tenants[0].sessions == 16' >/dev/null
	sgpu-serve status --prometheus | grep -q '^sgpu_sessions{.*} 16$'
	run -1 program run 1
	assert_contains "$output" "16 sessions, which is the limit"
	let_go
	ends_with 0 "$HELD"
	[ "$(grep -c '^done$' held.out)" -eq 16 ]
	wait_for sessions 0
	run -0 program run 1
}

@test "a user has as many sessions as the file of tenants says" {
	requires jq
	echo '* sessions=2' >tenants
	start_server --device cpu -k runner.jwk --tenants tenants
	hold_sessions 2
	run -1 program run 1
	assert_contains "$output" "2 sessions, which is the limit"
	let_go
	ends_with 0 "$HELD"
	wait_for sessions 0
	run -0 program run 1
	echo '* sessions=0' >tenants
	# shellcheck disable=SC2153 # start_server sets it
	kill -HUP "$SERVER"
	wait_for grep -q 'new workers serve' log
	run -1 program run 1
	assert_contains "$output" "0 sessions, which is the limit"
	sgpu-serve status --json | jq -e '.status.tenants[0].limits.sessions == 0' >/dev/null
}

# takes_no_time PID: no processor time in a second.
takes_no_time() {
	local before
	before=$(cut -d ' ' -f 14,15 "/proc/$1/stat")
	sleep 1
	[ "$(cut -d ' ' -f 14,15 "/proc/$1/stat")" = "$before" ]
}

@test "sessions that have nothing to do take no processor time" {
	start_server --device cpu -k runner.jwk
	hold_sessions 16
	wait_for takes_no_time "$(serving_pid)"
	wait_for takes_no_time "$HELD"
	let_go
	ends_with 0 "$HELD"
}

# is_stopped PID: all of its threads are; one of them hears of the signal first.
is_stopped() {
	! grep -hL '^State:[[:space:]]*T' "/proc/$1"/task/*/status | grep -q .
}

@test "a program waits no longer for a worker that is stopped than it said, and the worker goes on" {
	start_server --device cpu -k runner.jwk
	hold_program patient
	pid=$(serving_pid)
	kill -STOP "$pid"
	wait_for is_stopped "$pid"
	let_go
	ends_with 0 "$HELD"
	[ "$(tail -n 1 held.out)" = "the worker of the session does not answer" ]
	kill -CONT "$pid"
	wait_for sessions 0
	run -0 program run 1
	[ "$(serving_pid)" = "$pid" ]
}

@test "batches and sessions of a user are served by one worker" {
	start_server --device cpu -k runner.jwk
	hold_sessions 2
	sgpu-run -o response batch.tar
	[ "$(status workers | awk '$2 == "serving"' | wc -l)" -eq 1 ]
	let_go
	ends_with 0 "$HELD"
}

@test "a program that is killed leaves nothing, and others do not notice" {
	start_server --device cpu -k runner.jwk
	program run 1
	wait_for sessions 0
	pid=$(serving_pid)
	before=$(descriptors "$pid")
	hold_sessions 4
	victim=$HELD
	exec 8>&7 7>&-
	hold_sessions 3
	sessions 7
	kill -9 "$victim"
	exec 8>&-
	wait_for sessions 3
	let_go
	ends_with 0 "$HELD"
	wait_for sessions 0
	wait_for has_descriptors_left "$pid" "$before"
	[ "$(serving_pid)" = "$pid" ]
}

@test "a worker that is killed is noticed by its sessions" {
	start_server --device cpu -k runner.jwk
	hold_sessions 2
	kill -9 "$(serving_pid)"
	let_go
	ends_with 1 "$HELD"
	[ "$(grep -c 'the worker of the session has ended' held.out)" -eq 2 ]
	wait_for grep -q "ended by signal 9" log
	run -0 program run 1
}

@test "a server that is killed takes its sessions along" {
	start_server --device cpu -k runner.jwk
	hold_sessions 2
	pid=$(serving_pid)
	# shellcheck disable=SC2153 # start_server sets it
	kill -9 "$SERVER"
	wait_for has_ended "$pid"
	let_go
	ends_with 1 "$HELD"
	assert_contains "$(cat held.out)" "the worker of the session has ended"
}

@test "a server that drains lets sessions go on until the deadline" {
	start_server --device cpu -k runner.jwk --drain 1h
	hold_sessions 1
	kill "$SERVER"
	wait_for grep -q 'no new work is taken' log
	let_go
	ends_with 0 "$HELD"
	ends_with 0 "$SERVER"
	start_server --device cpu -k runner.jwk --drain 1s
	hold_sessions 1
	kill "$SERVER"
	wait_for has_ended "$SERVER"
	let_go
	ends_with 1 "$HELD"
	assert_contains "$(cat held.out)" "the worker of the session has ended"
}

@test "a session has as much memory as the server says" {
	start_server --device cpu -k runner.jwk --session-memory 8M
	run -0 program large 8388608
	run -1 program large 8388609
	assert_contains "$output" "more than the session may have"
	run --separate-stderr -2 sgpu-serve --session-memory 0
}

@test "hostile programs get errors, and others do not notice" {
	start_server --device cpu -k runner.jwk
	program run 1
	wait_for sessions 0
	pid=$(serving_pid)
	before=$(descriptors "$pid")
	hold_sessions 2
	run -0 program hostile
	[ "$(grep -c '^taken$' <<<"$output")" -eq 1 ]
	[ "$(grep -c '^gone$' <<<"$output")" -eq 0 ]
	let_go
	ends_with 0 "$HELD"
	wait_for sessions 0
	wait_for has_descriptors_left "$pid" "$before"
	[ "$(serving_pid)" = "$pid" ]
}

@test "a session with nothing to do gives way to a user who lacks a worker" {
	[ "$(id -u)" -eq 0 ] || skip "only root becomes other users"
	share_socket
	chmod a+rx "$SGPU_BUILD/unit" 2>/dev/null || true
	start_server --device cpu -k runner.jwk --everybody --workers 1 --ahead 0 --stall 100ms
	SERVE_UID=54321 hold_sessions 1
	SERVE_UID=54322 run -0 program run 5
	let_go
	ends_with 1 "$HELD"
	assert_contains "$(cat held.out)" "the worker of the session has ended"
}

@test "a session that never rests gives way to a user who lacks a worker" {
	[ "$(id -u)" -eq 0 ] || skip "only root becomes other users"
	share_socket
	chmod a+rx "$SGPU_BUILD/unit" 2>/dev/null || true
	start_server --device cpu -k runner.jwk --everybody --workers 1 --ahead 0 --stall 500ms
	SERVE_UID=54322 run -0 program run 5
	SERVE_UID=54321 SGPU_SOCKET=$SOCKET "$PROGRAM" run 100000000 >busy.out 2>&1 3>&- &
	SERVERS+=($!)
	wait_for sessions 1
	SERVE_UID=54322 run -0 program run 5
}
