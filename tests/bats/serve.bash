# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # the tests that load this use what it sets
#
# What the tests of sgpu-serve share: a small batch, a server that is ended with the test, and questions to it.

SERVE_TESTS=${BASH_SOURCE[0]%/*}
load "$SERVE_TESTS/helpers"

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys 2>/dev/null
	small_job 2000
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >batch.tar
	SOCKET=$XDG_RUNTIME_DIR/sgpu/run.sock
	export SERVE_RUNNER=$PWD/runner.pub.jwk # of sessions
	SERVERS=()
}

teardown() {
	local pid reports=0
	# What a sanitizer finds in a server is in its log.
	if grep -hs -A 30 Sanitizer log held.log >&2; then
		reports=1
	fi
	# With the servers, the clients that a test left: those that hold on would stay for minutes.
	for pid in "${SERVERS[@]}" $(jobs -p); do
		# shellcheck disable=SC2046 # several
		kill -9 $(cat "/proc/$pid/task/$pid/children" 2>/dev/null) "$pid" 2>/dev/null || true
	done
	case ${SHARED:-} in
	/tmp/sgpu-serve.*) rm -rf "$SHARED" ;;
	esac
	sgpu_teardown
	[ "$reports" -eq 0 ]
}

# start_server OPTION...: $SERVER, which takes work, and says things in `log`.
start_server() {
	rm -f log # of a server before
	[ -e holding.so ] || compile -shared -fPIC -O2 -o holding.so "$SERVE_TESTS/holding.c"
	LD_PRELOAD=$PWD/holding.so${LD_PRELOAD:+:$LD_PRELOAD} sgpu-serve "$@" 2>log 3>&- 7>&- &
	SERVER=$!
	SERVERS+=("$SERVER")
	wait_for grep -qs 'serving at' log
}

client() {
	python3 "$SERVE_TESTS/serve_client.py" "$SOCKET" "$@"
}

# share_socket: of the next servers, in a directory that all users reach. As root.
share_socket() {
	SHARED=$(mktemp -d /tmp/sgpu-serve.XXXXXX)
	mkdir -m 0755 "$SHARED/service"
	chmod 0755 "$SHARED"
	export SGPU_SOCKET=$SHARED/service/run.sock
	SOCKET=$SGPU_SOCKET
}

# client_of USER WHAT...: as that user, who need not exist.
client_of() {
	local user=$1
	shift
	SERVE_UID=$user client "$@"
}

# status WHAT: "workers" as lines of pid, state, user, in flight, done, failed; or "tenants", or their "shares".
status() {
	sgpu-serve status | awk -v what="$1" '/^pid  *state/ { at = "workers"; next } /^uid  *waiting/ { at = "tenants"; next }
		/^uid  *busy_ns/ { at = "shares"; next } at == what && NF { print }'
}

serving_pid() {
	status workers | awk '$2 == "serving" { print $1; exit }'
}

in_flight() {
	[ "$(status tenants | awk '{ sum += $3 } END { print sum + 0 }')" -eq "$1" ]
}

has_ended() {
	! kill -0 "$1" 2>/dev/null || [ "$(awk '{ print $3 }' "/proc/$1/stat" 2>/dev/null)" = Z ]
}

# ends_with STATUS PID: a child of this shell.
ends_with() {
	local ended=0
	wait "$2" || ended=$?
	[ "$ended" -eq "$1" ] || { echo "status $ended, not $1: $(cat log held.log)" >&2 && return 1; }
}

descriptors() {
	find "/proc/$1/fd" -mindepth 1 2>/dev/null | wc -l
}

# has_descriptors_left PID COUNT: no more than so many are open; to be waited for, as answers go out before all is closed.
has_descriptors_left() {
	[ "$(descriptors "$1")" -le "$2" ]
}

# hold_with MODE: a submission in the background that goes no further than its file's mode lets it, until `release`: $HELD.
hold_with() {
	HELD_BATCH=$XDG_RUNTIME_DIR/held.tar
	rm -f "$HELD_BATCH"
	cp batch.tar "$HELD_BATCH"
	chmod "$1" "$HELD_BATCH"
	sgpu-run -o held.response "$HELD_BATCH" 2>held.log 3>&- 7>&- &
	HELD=$!
	SERVERS+=("$HELD")
}

# hold: a submission that is with its worker, of which it has seen nothing yet.
# The worker hears the client once a tick of its has passed.
hold() {
	hold_with +t
	wait_for in_flight 1
	wait_for hears_clients "$(serving_pid)"
}

# hears_clients PID: a worker watches more than its supervisor, its end and signals.
hears_clients() {
	[ "$(cat "/proc/$1/fdinfo/"* 2>/dev/null | grep -c ^tfd:)" -gt 3 ]
}

hears_none() {
	! hears_clients "$1"
}

release() {
	chmod u=rw,go=,-t "$HELD_BATCH"
}

# abandon: the client of `hold` dies, its worker sees that, and then goes on.
abandon() {
	local worker
	worker=$(serving_pid)
	kill -9 "$HELD"
	wait_for hears_none "$worker"
	release
}
