#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# sgpu-serve, status, and submit through it: the same results as without, the socket, and users.

load serve

# ---- the same as without ----

@test "a batch through the server gives what it gives without, from files and through pipes" {
	start_server -k runner.jwk
	sgpu-run -o response batch.tar
	sgpu-run <batch.tar >redirected
	# shellcheck disable=SC2002 # a pipe is the point
	cat batch.tar | sgpu-run - | cat >piped
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed | sgpu-run -o direct
	: >appended
	sgpu-run batch.tar >>appended
	for file in response redirected piped direct appended; do
		sgpu-seal open -k owner.jwk -C "out.$file" "$file"
		assert_same "out.$file/out.f32" expected.f32
		assert_same "out.$file/bias.copy.f32" bias.f32
	done
	run -0 status tenants
	[ "$(awk '{ print $4 }' <<<"$output")" -eq 5 ]
}

@test "what a server does not take as a descriptor goes through the client, as files of an overlay" {
	requires mount
	mkdir lower upper work merged
	cp batch.tar lower/
	start_server -k runner.jwk
	# shellcheck disable=SC2016 # for the other shell
	run unshare --mount bash -ec 'mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none merged || exit 77
		sgpu-run -o merged/response merged/batch.tar'
	[ "$status" -ne 77 ] || skip "needs an overlay file system"
	[ "$status" -eq 0 ]
	sgpu-seal open -k owner.jwk -C out upper/response
	assert_same out/out.f32 expected.f32
}

@test "a server that lacks a manifest is given it with the batch, from a file or a pipe, and keeps it" {
	sgpu-manifest pack --by-hash --manifest-out manifest job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk >first.tar
	sgpu-manifest pack --by-hash --manifest-out manifest job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk >second.tar
	start_server -k runner.jwk --device cpu
	run -3 --separate-stderr sgpu-run -q -o response first.tar
	assert_contains "$stderr" "names its manifest by the hash alone"
	printf '{}' >other
	run -4 --separate-stderr sgpu-run -q --manifest other -o response first.tar
	assert_contains "$stderr" "the manifest is not the one that batch.json names"
	# shellcheck disable=SC2002 # a pipe is the point
	cat manifest | sgpu-run -q --manifest - -o response first.tar
	sgpu-seal open -q -k owner.jwk --batch first.tar -C out response
	# The runner has had it.
	# shellcheck disable=SC2002 # a pipe is the point
	cat second.tar | sgpu-run -q >response
	sgpu-seal open -q --force -k owner.jwk --batch second.tar -C out response
}

@test "a batch runs once, whichever of the workers takes it" {
	sgpu-seal keyinfo --owner -o owners owner.jwk
	start_server -k runner.jwk --owners owners --state "$PWD/state"
	run -0 sgpu-run -o response batch.tar
	run -4 sgpu-run -o again batch.tar
	kill -9 "$(serving_pid)"
	wait_for grep -q "ended by signal 9" log
	run --separate-stderr -4 sgpu-run -o again batch.tar
	assert_contains "$stderr" "taken before"
	assert_no_file again
}

@test "a server whose parent ignored the death of children sees that of its workers, and ends" {
	env --ignore-signal=CHLD sgpu-serve -k runner.jwk --workers 1 2>log 3>&- 7>&- &
	SERVER=$!
	SERVERS+=("$SERVER")
	wait_for grep -qs 'serving at' log
	sgpu-run -o response batch.tar
	kill -9 "$(serving_pid)"
	wait_for grep -q "ended by signal 9" log
	sgpu-run -o again batch.tar
	kill "$SERVER"
	wait "$SERVER"
}

@test "errors through the server have the same text and status, and leave no file" {
	head -c 3000 batch.tar >short
	cp batch.tar flipped
	flip_byte flipped $(($(stat -c %s batch.tar) - 3000))
	sgpu-seal keygen -q --x25519 -o other.jwk
	sgpu-seal pubkey -o other.pub.jwk other.jwk
	sgpu-seal seal -k owner.jwk -r other.pub.jwk packed >others
	start_server -k runner.jwk
	timeless() { printf '%s\n' "$stderr" | sed -e 's/, [0-9.]* ms,/,/' -e 's/remote/local/'; }
	for file in short packed others flipped /dev/null runner.jwk; do
		rm -f local remote
		run --separate-stderr sgpu-run -k runner.jwk -o local "$file"
		local_status=$status local_error=$(timeless)
		run --separate-stderr sgpu-run -o remote "$file"
		[ "$status" -eq "$local_status" ]
		[ "$status" -ne 0 ]
		[ "$(timeless)" = "$local_error" ]
		if [ "$status" -ne 5 ]; then
			assert_no_file remote
		fi
	done
	run --separate-stderr -3 bash -c 'sgpu-run batch.tar >/dev/full'
	run --separate-stderr -2 sgpu-run -o batch.tar batch.tar
	mkfifo silent
	exec 7<>silent
	run --separate-stderr -3 sgpu-run --json --timeout 300ms -o response <silent
	assert_contains "$stderr" '"ETIMEOUT"'
	assert_no_file response
}

@test "a batch that the server refuses: standard output gets the refusal, and nothing from a pipe is 6" {
	requires python3
	sgpu-seal keygen -q --x25519 -o other.jwk
	sgpu-seal pubkey -o other.pub.jwk other.jwk
	sgpu-seal seal -k owner.jwk -r other.pub.jwk packed >others
	start_server -k runner.jwk
	for output in "| cat >refusal" ">refusal" ">>refusal"; do
		rm -f refusal
		run --separate-stderr -4 bash -o pipefail -c "sgpu-run others $output"
		[ "$(tar tf refusal)" = refusal.json ]
		run --separate-stderr -4 sgpu-seal open -k owner.jwk -C out refusal
		assert_contains "$stderr" "not authenticated: the runner's side says EKEY: none of the keys is a recipient"
	done
	run -4 sgpu-run -o response others
	assert_no_file response out
	# Of what does not come at all the server hears nothing.
	: >empty
	run --separate-stderr -6 bash -c 'true | sgpu-run'
	[ "$stderr" = "sgpu-run: error: no input" ]
	run --separate-stderr -6 python3 -c "import socket, subprocess, sys
a, b = socket.socketpair()
a.close()
sys.exit(subprocess.call(['sgpu-run'], stdin=b))"
	[ "$stderr" = "sgpu-run: error: no input" ]
	for input in empty /dev/null; do
		run --separate-stderr -1 bash -c "sgpu-run <$input >refusal"
		[ "$stderr" = "sgpu-run: error: no input" ]
		[ ! -s refusal ]
	done
	run -1 sgpu-run empty
}

@test "a worker that says nothing is waited for until half a minute after the deadline" {
	requires python3
	mkdir -p "$(dirname "$SOCKET")"
	chmod 0700 "$(dirname "$SOCKET")"
	client mute >muted 3>&- &
	SERVERS+=($!)
	wait_for grep -q mute muted
	run --separate-stderr -3 sgpu-run --json --timeout 100ms -o response batch.tar
	assert_contains "$stderr" '"ETIMEOUT"'
	assert_contains "$stderr" "the worker that runs the batch does not answer"
	assert_no_file response
	wait_for grep -q 'asked True' muted
}

@test "statistics and the line of the log are printed by the client, too" {
	start_server -k runner.jwk
	run --separate-stderr -0 sgpu-run --stats -o response batch.tar
	assert_contains "$stderr" "operations_done             3"
	assert_contains "$stderr" "manifest 'small-job'"
	run --separate-stderr -0 sgpu-run --stats --json -o response batch.tar
	assert_contains "$stderr" '"operations_done":3'
	assert_contains "$stderr" '"manifest_id":"small-job"'
	assert_contains "$(cat log)" "manifest 'small-job'"
}

@test "status is a table, or one object, and says when there is no server" {
	requires jq
	run --separate-stderr -3 sgpu-serve status
	assert_contains "$stderr" "there is no server at '$SOCKET'"
	start_server -k runner.jwk --ahead 2
	sgpu-run -o response batch.tar
	run -4 sgpu-run -o refused packed
	wait_for in_flight 0
	run -0 jq -e '.status | .pid == '"$SERVER"' and .tenants[0].done == 1 and .tenants[0].refused == 1 and .tenants[0].failed == 0 and
		.tenants[0].waiting == 0 and ([.workers[] | select(.state == "serving")] | length) == 1' \
		<(sgpu-serve status --json)
}

@test "an option about the runner runs the batch in the process itself, and --socket contradicts it" {
	# A default that is not there is no error; a place that was named is.
	run --separate-stderr -4 sgpu-run -o response batch.tar
	assert_contains "$stderr" "there is no key"
	SGPU_SOCKET=$PWD/none run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "there is no server at '$PWD/none'"
	assert_contains "$stderr" "--local"
	run --separate-stderr -3 sgpu-run --socket none -o response batch.tar
	assert_no_file response
	SGPU_SOCKET=$PWD/none run -0 sgpu-run -k runner.jwk -o response batch.tar
	for option in "-k runner.jwk" "-j 1" "--local" "--trace trace" "--allow-modules" "--device cpu"; do
		# shellcheck disable=SC2086 # an option and its value
		run --separate-stderr -2 sgpu-run $option --socket none -o response batch.tar
		assert_contains "$stderr" "--socket"
	done
	# With a server there, --local still has no key.
	start_server -k runner.jwk
	run -0 sgpu-run -o response batch.tar
	run --separate-stderr -4 sgpu-run --local -o response batch.tar
}

@test "with --wait a batch waits for a server that comes, comes again or is busy, and for nothing else" {
	requires python3
	run --separate-stderr -3 sgpu-run --json --wait 300ms -o response batch.tar
	jq -e '.error | .code == "EUNAVAILABLE" and .retryable' <<<"$stderr"
	assert_no_file response
	sgpu-run --wait 60 -o response batch.tar 2>waited 3>&- 7>&- &
	SERVERS+=($!)
	start_server -k runner.jwk
	wait "${SERVERS[0]}"
	sgpu-seal open -k owner.jwk -C first response
	# The next one finds the socket of a server that has died.
	kill -9 "$SERVER"
	wait_for has_ended "$SERVER"
	run --separate-stderr -3 sgpu-run --json -o again batch.tar
	jq -e '.error | .code == "ESYSTEM" and .retryable' <<<"$stderr"
	sgpu-run --wait 60 -o again < <(cat batch.tar) 2>waited 3>&- 7>&- &
	SERVERS+=($!)
	start_server -k runner.jwk --submissions 2 --workers 1 --ahead 0
	wait "${SERVERS[2]}"
	sgpu-seal open -k owner.jwk -C second again
	python3 "$BATS_TEST_DIRNAME/serve_client.py" "$SOCKET" hold 2 600 >held.out 3>&- 7>&- &
	local holder=$!
	SERVERS+=("$holder")
	wait_for in_flight 2
	run --separate-stderr -3 sgpu-run --json --wait 300ms -o busy batch.tar
	jq -e '.error | .code == "ERETRY" and .retryable' <<<"$stderr"
	[ "$(wc -l <<<"$stderr")" -eq 1 ]
	sgpu-run --wait 60 -o busy batch.tar 2>waited 3>&- 7>&- &
	SERVERS+=($!)
	kill "$holder"
	wait "${SERVERS[-1]}"
	wait_for in_flight 0
	run --separate-stderr -4 timeout 60 sgpu-run --json --wait 10m -o refused packed
	jq -es '.[-1].error.retryable == false or .[0].error.retryable == false' <<<"$stderr"
	run -2 sgpu-run --wait 1 --local -o response batch.tar
	run -2 sgpu-enclave --wait 1 -o response batch.tar
}

# ---- the socket ----

@test "the socket is for its user alone, is made once, and a dead one is replaced" {
	start_server -k runner.jwk
	[ "$(stat -c %a "$SOCKET")" = 600 ]
	[ "$(stat -c %a "$(dirname "$SOCKET")")" = 700 ]
	run --separate-stderr -3 sgpu-serve -k runner.jwk
	assert_contains "$stderr" "a server listens at '$SOCKET' already"
	kill -9 "$SERVER"
	wait_for has_ended "$SERVER"
	[ -S "$SOCKET" ]
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "has gone"
	start_server -k runner.jwk
	run -0 sgpu-run -o response batch.tar
	kill "$SERVER"
	wait_for has_ended "$SERVER"
	assert_no_file "$SOCKET"
	touch file
	run --separate-stderr -3 sgpu-serve -k runner.jwk --socket file
	assert_contains "$stderr" "is no socket"
	mkdir -m 0770 open
	chmod 0770 open
	run --separate-stderr -4 sgpu-serve -k runner.jwk --socket open/socket
	assert_contains "$stderr" "others could replace"
	run --separate-stderr -2 sgpu-serve -k runner.jwk --socket "$(printf 'x%.0s' $(seq 120))"
}

@test "a server that cannot start says why and leaves no socket" {
	run --separate-stderr -3 sgpu-serve -k nothing.jwk
	assert_contains "$stderr" "nothing.jwk"
	assert_no_file "$SOCKET"
	chmod 644 runner.jwk
	run --separate-stderr -4 sgpu-serve -k runner.jwk
	assert_no_file "$SOCKET"
	run --separate-stderr -2 sgpu-serve -k -
	run --separate-stderr -2 sgpu-serve -k fd:7
	sgpu-seal keyinfo --owner owner.jwk >owners
	run --separate-stderr -2 sgpu-serve -k runner.jwk --owners owners
	assert_contains "$stderr" "--state"
	run --separate-stderr -2 sgpu-serve --as-worker 3>&- 4>&-
}

@test "a service manager may listen for it" {
	requires python3
	cat >activate.py <<-'END'
	import os, socket, sys
	s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
	s.bind(sys.argv[1])
	s.listen()
	n = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
	n.bind(sys.argv[1] + ".notify")
	if os.fork() == 0:
	    os.dup2(s.fileno(), 3)
	    os.set_inheritable(3, True)
	    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), NOTIFY_SOCKET=sys.argv[1] + ".notify")
	    os.execvp(sys.argv[2], sys.argv[2:])
	for _ in range(2):
	    print(n.recv(100).decode(), flush=True)
	END
	mkdir -m 0700 "$(dirname "$SOCKET")"
	python3 activate.py "$SOCKET" sgpu-serve -k runner.jwk >notified 2>log 3>&- &
	SERVERS+=($!)
	wait_for grep -q READY=1 notified
	run -0 sgpu-run -o response batch.tar
	kill "$(sgpu-serve status | awk 'NR == 1 { sub(",", "", $2); print $2 }')"
	wait_for grep -q STOPPING=1 notified
	[ -S "$SOCKET" ] # it is the manager's
}

# ---- users ----

@test "each user has a worker of their own, sees no other's, and names no region of the server's user" {
	requires root setpriv
	share_socket
	mkdir -m 0755 "$SHARED/bin"
	cp "$SGPU_BUILD/bin/sgpu-run" "$SGPU_BUILD/bin/sgpu-serve" "$SHARED/bin/"
	mkdir "$SHARED/theirs"
	cp batch.tar "$SHARED/theirs/"
	sgpu-stage load --keep <batch.tar >"$SHARED/theirs/staged"
	chmod 0755 "$SHARED/bin/"*
	chown -R 65534 "$SHARED/theirs"
	other() {
		setpriv --reuid 65534 --regid 65534 --clear-groups env -u XDG_RUNTIME_DIR -C "$SHARED/theirs" \
			"$SHARED/bin/$1" "${@:2}"
	}
	start_server -k runner.jwk
	run --separate-stderr -3 other sgpu-run -o response batch.tar
	assert_contains "$stderr" "Permission denied"
	kill "$SERVER"
	wait_for has_ended "$SERVER"
	start_server -k runner.jwk --everybody
	run -0 other sgpu-run -o response batch.tar
	run -0 sgpu-run -o response batch.tar
	[ "$(status workers | awk '$2 == "serving" { print $3 }' | sort -u | wc -l)" -eq 2 ]
	run --separate-stderr -0 other sgpu-serve status
	[ "$(grep -c serving <<<"$output")" -eq 1 ]
	[ "$(grep -c '^65534 ' <<<"$output")" -eq 2 ]
	run ! grep -q '^0 ' <<<"$output"
	run --separate-stderr -4 other sgpu-run -o region staged
	assert_contains "$stderr" "in a region"
	run -0 sgpu-run -o region "$SHARED/theirs/staged"
}

@test "a server whose namespace maps some users alone serves these, and refuses all others with the reason" {
	requires root unshare python3
	unshare --user --map-root-user true 2>/dev/null || skip "needs a user namespace"
	share_socket
	start_server -k runner.jwk --everybody # all users are mapped: 65534 is a user like others
	run -0 client_of 65534 many batch.tar 1
	[ "$output" = "done" ]
	kill "$SERVER"
	ends_with 0 "$SERVER"
	rm log
	unshare --user --map-root-user sgpu-serve -k runner.jwk --everybody 2>log 3>&- 7>&- &
	SERVER=$!
	SERVERS+=("$SERVER")
	wait_for grep -qs 'serving at' log
	sgpu-run -o response batch.tar
	for user in 2001 2002 65534; do
		run client_of "$user" many batch.tar 1
		assert_contains "$output" "the kernel does not say whose this connection is"
	done
	[ "$(status tenants | wc -l)" -eq 1 ]
}

@test "one user's limit of batches at a time refuses the next, and no more workers start than may" {
	requires python3
	start_server -k runner.jwk --submissions 2 --workers 1 --ahead 0
	python3 "$BATS_TEST_DIRNAME/serve_client.py" "$SOCKET" hold 2 600 >held.out 3>&- &
	SERVERS+=($!)
	wait_for in_flight 2
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "2 submissions under way, which is the limit"
	assert_no_file response
	[ "$(status workers | wc -l)" -eq 1 ]
	kill "${SERVERS[-1]}"
	wait_for in_flight 0
	run -0 sgpu-run -o response batch.tar
	run -0 client crowd 70 64
	[ "$output" -eq 6 ]
	run -0 sgpu-run -o response batch.tar
}

# ---- many ----

@test "a server that may have few descriptors serves, and ends when it is told to" {
	ulimit -Sn 50
	ulimit -Hn 100
	start_server -k runner.jwk --device cpu
	grep -q '^Max open files  *100 ' "/proc/$SERVER/limits"
	for _ in 1 2 3; do
		run -0 sgpu-run -o response batch.tar
	done
	sgpu-seal open -k owner.jwk -C results response
	cmp expected.f32 results/out.f32
	kill -TERM "$SERVER"
	ends_with 0 "$SERVER"
}

@test "500 submissions leave no descriptor and no memory behind, and idleness costs nothing" {
	requires python3
	start_server -k runner.jwk
	run -0 client many batch.tar 100
	pid=$(serving_pid)
	memory() { awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"; }
	ticks() { cat "/proc/$SERVER/stat" "/proc/$pid/stat" | awk '{ sum += $14 + $15 } END { print sum }'; }
	fds=$(descriptors "$pid") supervisor_fds=$(descriptors "$SERVER")
	# What was not touched before may still be, in one order of threads or another; what leaks does so each time.
	for _ in 1 2 3 4; do
		size=$(memory)
		run -0 client many batch.tar 500
		[ "$output" = "done" ]
		wait_for in_flight 0
		wait_for has_descriptors_left "$pid" "$fds"
		wait_for has_descriptors_left "$SERVER" "$supervisor_fds"
		[ -z "${SGPU_SANITIZE:-}" ] || break
		[ "$(memory)" -gt $((size + 2048)) ] || break
	done
	[ -n "${SGPU_SANITIZE:-}" ] || [ "$(memory)" -le $((size + 2048)) ]
	is_idle() {
		before=$(ticks)
		sleep 2
		[ "$(ticks)" -le $((before + 1)) ]
	}
	wait_for is_idle
}

@test "a worker is confined as a run is, the supervisor holds no key, and neither can be attached to" {
	requires no-sanitizer
	exec 8<job.json # whoever started the server left it open
	start_server -k runner.jwk
	exec 8<&-
	sgpu-run -o response batch.tar
	pid=$(serving_pid)
	run -0 cat "/proc/$pid/status"
	if sgpu-run --info | grep -q '^  filtered_system_calls  *yes$'; then
		assert_contains "$output" "Seccomp:	2"
	fi
	assert_contains "$output" "NoNewPrivs:	1"
	assert_contains "$(cat "/proc/$SERVER/status")" "NoNewPrivs:	1"
	run ! grep -q runner.jwk <(ls -l "/proc/$SERVER/fd" "/proc/$pid/fd")
	run ! grep -q job.json <(ls -l "/proc/$pid/fd")
}

# module_batch FILE: sealed by the owner, with a module that writes a number.
module_batch() {
	printf '%s\n' '#include <sgpu/device.h>' \
		'int one(const struct sgpu_module_shape *shape, void *const *args, int count)' \
		'{ (void)shape; **(float **)args[0] = 1; return count != 1; }' >one.c
	compile -shared -fPIC -I"$SGPU_TOP/include" -o one.so one.c
	cat >module.json <<-'END'
	{ "version": 1, "manifest_id": "module", "segments": [
	  { "segment_id": "code", "data_location_client": "one.so", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [1] } } ],
	  "operations": [
	  { "gpu_operation_id": "ONE", "kernel": "module:code:one", "arguments": { "output": "y" }, "params": ["output"] } ] }
	END
	sgpu-manifest pack module.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o "$1"
}

@test "a worker that has run a module of one owner takes no batch of another, and one owner alone keeps it" {
	local before
	requires cc
	module_batch module.tar
	sgpu-seal keygen -q -o second.jwk
	sgpu-seal seal -q -k second.jwk -r runner.pub.jwk -o other.tar packed
	sgpu-seal keyinfo --owner owner.jwk >owners
	start_server --device cpu --allow-modules -k runner.jwk --owners owners --state "$PWD/state"
	sgpu-run -o response batch.tar
	before=$(serving_pid)
	sgpu-run -o response module.tar
	[ "$(serving_pid)" = "$before" ]
	kill "$SERVER"
	wait_for has_ended "$SERVER"
	sgpu-seal keyinfo --owner second.jwk >>owners
	start_server --device cpu --allow-modules -k runner.jwk --owners owners --state "$PWD/other"
	sgpu-run -o response batch.tar
	before=$(serving_pid)
	sgpu-run -o response module.tar
	wait_for has_ended "$before"
	sgpu-run -o response other.tar
	sgpu-seal open -q -k second.jwk -C second response
	assert_same second/out.f32 expected.f32
}

@test "modules and sessions exclude each other in a server" {
	run --separate-stderr -2 sgpu-serve --allow-modules --sessions any -k runner.jwk
	assert_contains "$stderr" "--allow-modules and --sessions exclude each other"
}
