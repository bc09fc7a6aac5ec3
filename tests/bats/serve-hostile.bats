#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# sgpu-serve with hostile clients, and with what dies at any moment.

load serve

# ---- a hostile server ----

@test "what a server says is escaped, in every text of every answer" {
	requires python3
	start_server -k runner.jwk
	python3 "$BATS_TEST_DIRNAME/fake_server.py" fake.sock "$SOCKET" >fake.log 3>&- &
	SERVERS+=("$!")
	wait_for grep -qs ready fake.log
	local asked
	export SGPU_SOCKET=$PWD/fake.sock
	for LC_ALL in C C.UTF-8; do
		for asked in "sgpu-serve status" "sgpu-serve status --json" "sgpu-serve status --prometheus" \
			"sgpu-run -v --stats -o response batch.tar" "sgpu-run -v --stats --json -o response batch.tar" \
			"sgpu-run -o response job.json" "sgpu-run --json -o response job.json"; do
			# shellcheck disable=SC2086
			run --separate-stderr $asked
			[ "${#output}" -gt 0 ] || [ "${#stderr}" -gt 0 ]
			assert_plain "$output"
			assert_plain "$stderr"
			[[ $'\n'$output$'\n'$stderr != *$'\n'"sgpu-run: OK"* ]]
		done
	done
}

# fake_server HEX...: says each message to three clients, and hangs up on those that follow.
fake_server() {
	python3 - "$@" >fake.log 3>&- <<'END' &
import socket, sys

listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("fake.sock")
listener.listen()
print("ready", flush=True)
said = [bytes.fromhex(word) for word in sys.argv[1:] for _ in range(3)]
while True:
    client = listener.accept()[0]
    client.recv(1 << 17)
    if said:
        client.send(said.pop(0))
    client.close()
    print("hung up", flush=True)
END
	SERVERS+=("$!")
	wait_for grep -qs ready fake.log
}

@test "a server of another version, or whose messages are none, is no fault of what was asked" {
	requires python3
	local text magic=55504753
	# an answer of another version, an answer that is too short, and none
	fake_server "$magic"0f2706001000000000000000 "$magic"070006001000000000000000 68616c6620616e
	sgpu-manifest pack job.json >packed
	for text in "a server has to be started again after an update" "not the one that is expected" "none of this protocol"; do
		run --separate-stderr -3 sgpu-run --socket fake.sock -o response batch.tar
		assert_contains "$stderr" "$text"
		assert_no_file response
		run --separate-stderr -3 sgpu-serve status --socket fake.sock
		assert_contains "$stderr" "$text"
		run --separate-stderr -3 sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk --lease --socket fake.sock -o leased packed
		assert_contains "$stderr" "$text"
		assert_no_file leased
	done
}

@test "with --wait a batch on which servers hang up is tried four times" {
	requires python3
	fake_server
	run --separate-stderr -3 timeout 100 sgpu-run --socket fake.sock --wait 10m -o response batch.tar
	[ "$(grep -c "hung up" fake.log)" -eq 4 ]
}

# ---- hostile clients ----

@test "garbage on the socket is refused, and disturbs nobody" {
	requires python3
	start_server -k runner.jwk
	sgpu-run -o response batch.tar
	pid=$(serving_pid)
	before=$(descriptors "$pid") supervisor_before=$(descriptors "$SERVER")
	run -0 client garbage
	[ "$output" = "done" ]
	run -0 sgpu-run -o response batch.tar
	[ "$(serving_pid)" = "$pid" ]
	wait_for in_flight 0
	wait_for has_descriptors_left "$pid" "$before"
	wait_for has_descriptors_left "$SERVER" "$supervisor_before"
}

@test "requests that are none are refused, and disturb nobody" {
	requires python3
	start_server -k runner.jwk
	sgpu-run -o response batch.tar
	pid=$(serving_pid)
	before=$(descriptors "$pid") supervisor_before=$(descriptors "$SERVER")
	run -0 client requests
	[ "$output" = "done" ]
	run -0 sgpu-run -o response batch.tar
	[ "$(serving_pid)" = "$pid" ]
	wait_for has_descriptors_left "$pid" "$before"
	wait_for has_descriptors_left "$SERVER" "$supervisor_before"
}

@test "hostile descriptors are refused or fail, and nothing waits for them" {
	requires python3
	start_server -k runner.jwk
	sgpu-run -o response batch.tar
	pid=$(serving_pid)
	before=$(descriptors "$pid")
	run -0 client descriptors batch.tar
	[ "${#lines[@]}" -eq 24 ]
	[ "$(grep -c 'not a descriptor that a server takes' <<<"$output")" -eq 23 ]
	assert_contains "$output" "out sealed -4 "
	run -0 client hang-up batch.tar 60
	wait_for in_flight 0
	[ "$(serving_pid)" = "$pid" ]
	wait_for has_descriptors_left "$pid" "$before"
}

@test "descriptors that cannot be closed at once stop nobody but who sent them" {
	requires python3
	start_server -k runner.jwk
	before=$(descriptors "$SERVER")
	client linger "$SERVER" 600 >sent 3>&- &
	SERVERS+=($!)
	wait_for grep -q sent sent
	run -0 timeout 60 sgpu-serve status
	run -0 timeout 60 sgpu-run -o response batch.tar
	wait_for has_descriptors_left "$SERVER" "$((before + 1))"
	kill "$SERVER"
	wait_for has_ended "$SERVER"
}

# Descriptors that wait to be taken count for the server's user, and only so many may.
@test "answers that a client does not take cost the server few descriptors, and status none" {
	requires root python3
	share_socket
	start_server -k runner.jwk --everybody --leases 16M
	run client_of 65525 untaken 200
	assert_contains "$output" "64 clients of this user have not taken their leases"
	[[ ${lines[0]} =~ ^(6[4-9]|7[0-9])\  ]]
	[ "${lines[1]}" = 0 ]
	run -0 timeout 60 sgpu-run -o response batch.tar
}

@test "a server that can start no thread still answers" {
	requires cc
	cat >few.c <<-'END'
	#include <dlfcn.h>
	#include <errno.h>
	#include <pthread.h>
	#include <stdlib.h>
	#include <unistd.h>
	int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
	{
		int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");

		return access(getenv("NO_THREADS"), F_OK) == 0 ? EAGAIN : real(thread, attributes, function, argument);
	}
	END
	compile -D_GNU_SOURCE -shared -fPIC -o few.so few.c
	NO_THREADS=$PWD/none LD_PRELOAD=$PWD/few.so start_server -k runner.jwk
	: >none
	for _ in 1 2 3 4; do
		run -0 timeout 8 sgpu-serve status
		sleep 0.4
	done
}

@test "connections that say nothing, of however many users, keep nobody waiting" {
	requires root python3
	share_socket
	start_server -k runner.jwk --everybody
	client_of 65525 silent 64 600 >silent.first 3>&- &
	SERVERS+=($!)
	wait_for grep -q silent silent.first
	run client_of 65525 queue batch.tar
	assert_contains "$output" "user 65525 has 64 connections that wait, which is the limit"
	for user in 65526 65527 65528 65529 65530 65531 65532 65533 65534; do
		client_of $user silent 64 600 >silent.$user 3>&- &
		SERVERS+=($!)
	done
	for user in 65526 65527 65528 65529 65530 65531 65532 65533 65534; do
		wait_for grep -q silent "silent.$user"
	done
	run -0 timeout 60 sgpu-serve status
	run -0 timeout 60 sgpu-run -o response batch.tar
}

@test "batches and responses that are cut short while they are used fail alone" {
	requires python3
	small_job 700000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >large.tar
	start_server -k runner.jwk -j 8
	sgpu-run -o response batch.tar
	pid=$(serving_pid)
	run -0 client shrinking large.tar 12
	[ "$output" = "done" ]
	wait_for in_flight 0
	[ "$(serving_pid)" = "$pid" ]
}

@test "a batch that never comes blocks nobody, and ends with its client, a timeout or SIGTERM" {
	local client
	start_server -k runner.jwk
	mkfifo slow
	exec 7<>slow
	head -c 3000 batch.tar >&7
	sgpu-run -o late slow 2>late.log 3>&- 7>&- &
	client=$!
	SERVERS+=("$client")
	run -0 sgpu-run -o response batch.tar
	in_flight 0
	kill -TERM "$client"
	wait_for has_ended "$client"
	run --separate-stderr -3 sgpu-run --timeout 200ms -o late slow
	assert_contains "$stderr" "did not arrive before the deadline"
	exec 7>&-
	{ head -c 3000 batch.tar && sleep 0.3 && tail -c +3001 batch.tar; } | sgpu-run -o late
	hold
	abandon
	wait_for in_flight 0
	assert_no_file held.response
}

# ---- what dies, and what stops ----

@test "a worker that is killed fails its submissions at once, and another takes its place" {
	start_server -k runner.jwk
	hold
	begin=$SECONDS
	kill -9 "$(serving_pid)"
	ends_with 3 "$HELD"
	[ $((SECONDS - begin)) -le 60 ]
	assert_contains "$(cat held.log)" "the worker that ran the batch has ended"
	assert_no_file held.response
	run -0 sgpu-run -o response batch.tar
	wait_for grep -q "ended by signal 9; submissions that failed with it: 1" log
	run -0 status tenants
	[ "$(awk '{ print $4, $5 }' <<<"$output")" = "1 1" ]
}

@test "with the supervisor killed clients get an error, and no worker stays" {
	start_server -k runner.jwk
	hold
	workers=$(status workers | awk '{ print $1 }')
	[ -n "$workers" ]
	begin=$SECONDS
	kill -9 "$SERVER"
	ends_with 3 "$HELD"
	[ $((SECONDS - begin)) -le 60 ]
	assert_no_file held.response
	for pid in $workers; do
		wait_for has_ended "$pid"
	done
	[ $((SECONDS - begin)) -le 90 ]
	start_server -k runner.jwk
	run -0 sgpu-run -o response batch.tar
}

# secrets_in FILE...: those in which bytes of the input, of the result, or of the runner's key are.
secrets_in() {
	python3 - "$@" <<-'END'
		import base64, json, sys
		text = json.load(open("runner.jwk"))["d"]
		needles = [open("scan.f32", "rb").read(64), open("expected/out.f32", "rb").read(64), text.encode(),
		           base64.urlsafe_b64decode(text + "=")]
		for name in sys.argv[1:]:
		    data = open(name, "rb").read()
		    if any(needle in data for needle in needles):
		        print(name)
	END
}

@test "killed at work, a server leaves nothing secret in regions or in the response, and the next one serves" {
	requires python3
	local victim left
	is_computed() {
		[ -n "$(find -L "/proc/$HELD/fd/" -perm -4000)" ]
	}
	head -c 8000 /dev/urandom >scan.f32
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >batch.tar
	sgpu-run -k runner.jwk -o response batch.tar
	sgpu-seal open -k owner.jwk -C expected response
	[ "$(secrets_in scan.f32 expected/out.f32 runner.jwk batch.tar response | wc -l)" -eq 3 ]
	sgpu-stage load --keep <batch.tar >staged
	for victim in supervisor worker; do
		start_server -k runner.jwk
		run -0 sgpu-run -o response staged
		# The device has done its part, and nothing of the response is written.
		hold
		find "/proc/$HELD/fd/" \( -lname '*memfd:sgpu-run response*' -o -lname '*deleted*' \) -exec chmod +t {} +
		release
		wait_for is_computed
		kill -STOP "$HELD"
		if [ "$victim" = supervisor ]; then
			kill -9 "$SERVER"
		else
			kill -9 "$(serving_pid)"
		fi
		mapfile -t left < <(find "$XDG_RUNTIME_DIR" "/proc/$HELD/fd/" \( -type f -o -lname '*memfd*' -o -lname '*deleted*' \))
		[ "${#left[@]}" -ge 2 ]
		run -0 secrets_in "${left[@]}"
		[ "$output" = "" ]
		kill -CONT "$HELD"
		ends_with 3 "$HELD"
		assert_no_file held.response
		kill -9 "$SERVER" 2>/dev/null || true
		wait_for has_ended "$SERVER"
	done
	start_server -k runner.jwk
	run -0 sgpu-run -o response staged
	sgpu-seal open -k owner.jwk -C out response
	assert_same out/out.f32 expected/out.f32
}

@test "no worker outlives the supervisor, whatever a client has it close" {
	requires python3
	start_server -k runner.jwk
	for at in 0 1 2; do # each holds up a thread
		client slow-close "$SERVER" "$at" 60 >closing 3>&- &
		SERVERS+=($!)
		wait_for grep -q "not a descriptor" closing
	done
	run -0 sgpu-run -o response batch.tar
	workers=$(status workers | awk '{ print $1 }')
	[ -n "$workers" ]
	kill -9 "$SERVER"
	for pid in $workers; do
		wait_for has_ended "$pid"
	done
}

@test "SIGTERM lets what runs end, takes no more, and ends what is late" {
	start_server -k runner.jwk --drain 600s
	hold
	kill "$SERVER"
	wait_for grep -q "no new work is taken" log
	run --separate-stderr -4 sgpu-run -o response batch.tar # the socket is gone: here, without a key
	release
	ends_with 0 "$HELD"
	sgpu-seal open -k owner.jwk -C out held.response
	assert_same out/out.f32 expected.f32
	ends_with 0 "$SERVER"
	rm held.response
	start_server -k runner.jwk --drain 300ms
	hold
	kill "$SERVER"
	ends_with 3 "$HELD"
	assert_contains "$(cat held.log)" "the run was stopped"
	assert_no_file held.response
	ends_with 0 "$SERVER"
}

waits_for_turn() {
	[ "$(status tenants | awk '{ sum += $2 } END { print sum + 0 }')" -eq "$1" ]
}

# start_with_waiting DRAIN: a server with one batch that is held and two that wait for a turn: $FIRST and $SECOND.
start_with_waiting() {
	echo '* in-flight=1' >tenants
	start_server -k runner.jwk --drain "$1" --tenants tenants
	hold
	sgpu-run -o first batch.tar 2>one.log 3>&- 7>&- &
	FIRST=$!
	sgpu-run -o second batch.tar 2>two.log 3>&- 7>&- &
	SECOND=$!
	SERVERS+=("$FIRST" "$SECOND")
	wait_for waits_for_turn 2
	kill "$SERVER"
	wait_for grep -q 'no new work is taken' log
}

@test "SIGTERM lets batches run that wait for a turn, until the deadline or another SIGTERM" {
	local response
	start_with_waiting 600s
	release
	ends_with 0 "$HELD"
	ends_with 0 "$FIRST"
	ends_with 0 "$SECOND"
	ends_with 0 "$SERVER"
	for response in held.response first second; do
		sgpu-seal open -k owner.jwk -C opened "$response"
		assert_same opened/out.f32 expected.f32
		rm -r opened
		rm "$response"
	done
	start_with_waiting 300ms
	ends_with 3 "$HELD"
	ends_with 3 "$FIRST"
	ends_with 3 "$SECOND"
	ends_with 0 "$SERVER"
	assert_contains "$(cat held.log)" "the run was stopped"
	assert_contains "$(cat one.log)" "the server is stopping"
	start_with_waiting 600s
	kill "$SERVER"
	wait_for has_ended "$SERVER" # long before the deadline
	ends_with 3 "$HELD"
	ends_with 3 "$FIRST"
	ends_with 3 "$SECOND"
	ends_with 0 "$SERVER"
	for response in held.response first second; do
		assert_no_file "$response"
	done
}

@test "SIGTERM lets a batch run whose user has no worker yet" {
	requires root python3
	share_socket
	start_server -k runner.jwk --everybody --drain 600s --stall 600s --workers 1 --running 4
	hold
	client_of 65532 queue batch.tar >their.out 3>&- 7>&- &
	SERVERS+=($!)
	wait_for waits_for_turn 1
	kill "$SERVER"
	wait_for grep -q 'no new work is taken' log
	release
	ends_with 0 "$HELD"
	wait_for grep -q '^batch.tar 0 $' their.out
	ends_with 0 "$SERVER"
}

@test "a worker that is told to end runs first what was handed to it" {
	requires python3
	local worker gone
	start_server -k runner.jwk
	sgpu-run -o response batch.tar
	worker=$(serving_pid)
	kill -STOP "$worker"
	SERVERS+=("$worker")
	# The first client has gone when the worker sees its batch: so it has nothing to do before it sees the second.
	python3 "$BATS_TEST_DIRNAME/serve_client.py" "$SOCKET" queue batch.tar >gone.out 3>&- &
	gone=$!
	SERVERS+=("$gone")
	wait_for in_flight 1
	kill -9 "$gone"
	wait_for has_ended "$gone"
	cp batch.tar again.tar
	client queue again.tar >again.out 3>&- &
	SERVERS+=($!)
	wait_for in_flight 2
	kill -TERM "$worker"
	kill -CONT "$worker"
	wait_for has_ended "$worker"
	wait_for grep -q '^again.tar' again.out
	grep -q '^again.tar 0 $' again.out
}

@test "SIGHUP reads the keys again; what runs ends with the old ones, and bad ones change nothing" {
	start_server -k runner.jwk
	hold
	old=$(serving_pid)
	sgpu-seal keygen -q --x25519 -o new.jwk
	sgpu-seal pubkey -o new.pub.jwk new.jwk
	sgpu-seal seal -k owner.jwk -r new.pub.jwk packed >new.tar
	cp runner.jwk old.jwk
	cp new.jwk runner.jwk
	kill -HUP "$SERVER"
	wait_for grep -q "new workers serve" log
	run -0 sgpu-run -o response new.tar
	run -4 sgpu-run -o refused batch.tar
	release
	ends_with 0 "$HELD"
	wait_for has_ended "$old"
	echo nonsense >runner.jwk
	kill -HUP "$SERVER"
	wait_for grep -q "those from before go on" log
	run -0 sgpu-run -o response new.tar
}
