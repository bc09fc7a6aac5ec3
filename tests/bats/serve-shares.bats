#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# What one user of sgpu-serve gets beside others: turns by weight and priority, limits that hold, and what status tells
# of it. The shares themselves are counted in tests/unit/test_shares.c.

load serve

# seal_for NAME [COUNT]: NAME.1 to NAME.COUNT, batches of a job whose manifest has that name.
seal_for() {
	local i
	sed "s/small-job/$1/" job.json >"$1.json"
	sgpu-manifest pack "$1.json" >"$1.packed"
	for i in $(seq "${2:-1}"); do
		sgpu-seal seal -k owner.jwk -r runner.pub.jwk "$1.packed" >"$1.$i"
	done
}

is_stopped() {
	[ "$(awk '{ print $3 }' "/proc/$SERVER/stat")" = T ]
}

logged() {
	[ "$(grep -c 'manifest ' log)" -ge "$1" ]
}

# ask_at_once USER NAME COUNT...: these submit so many batches each while the server stands still, in this order; then it
# goes on. `order` has the names of the manifests in the order in which the batches ran, with one turn at a time.
ask_at_once() {
	local clients=() i lines
	: >order
	grep -c 'manifest ' log >before || true
	lines=$(cat before)
	kill -STOP "$SERVER"
	wait_for is_stopped
	while [ $# -gt 0 ]; do
		# shellcheck disable=SC2046 # names of batches
		client_of "$1" queue $(for i in $(seq "$3"); do echo "$2.$i"; done) >"$2.out" 3>&- &
		clients+=($!)
		SERVERS+=($!)
		wait_for grep -q sent "$2.out"
		lines=$((lines + $3))
		shift 3
	done
	kill -CONT "$SERVER"
	for i in "${clients[@]}"; do
		wait "$i"
	done
	wait_for logged "$lines" # a client may hear of its batch before the log does
	grep 'manifest ' log | tail -n "+$(($(cat before) + 1))" | sed "s/.*manifest '\([^']*\)'.*/\1/" >order
	[ "$(cat ./*.out | grep -vc -e sent -e '^[^ ]* 0 $')" -eq 0 ]
}

# have_workers USER...: started ahead, so that all wait for nothing but turns.
have_workers() {
	local user
	for user in "$@"; do
		SERVE_UID=$user client queue batch.tar
	done >/dev/null
	wait_for in_flight 0
}

waiting() {
	[ "$(status tenants | awk '{ sum += $2 } END { print sum + 0 }')" -eq "$1" ]
}

# ---- the file ----

@test "the file of tenants is read strictly, and what is wrong is named with its line" {
	local line
	cat >tenants <<-'END'
	# a comment
	root   weight=3 priority=high   # and another

	65533	in-flight=2 waiting=1024
	1005   device-memory=1 host-memory=128M sessions=0
	1006   device-memory=8388607T host-memory=134217728
	*      weight=1000 priority=normal in-flight=1 waiting=1 device-memory=64G
	END
	start_server -k runner.jwk --tenants tenants
	run -0 sgpu-run -o response batch.tar
	kill "$SERVER"
	wait_for has_ended "$SERVER"
	for line in "nobody-of-that-name weight=1" "4294967295" "99999999999999999999" "* weight=0" "* weight=1001" "* weight=" \
		"* weight" "* weight=1 weight=1" "* weight=+1" "* weight=1.5" "* priority=low" "* in-flight=0" "* in-flight=1025" \
		"* waiting=0" "* memory=1G" "* device-memory" "* device-memory=" "* device-memory=0" "* device-memory=-1" \
		"* device-memory=1Q" "* device-memory=1.5G" "* device-memory=8388608T" "* device-memory=1G device-memory=1G" \
		"* sessions=17" "* sessions=-1" "* sessions=" "* host-memory=many" "* host-memory=127M" "* host-memory=134217727" "* Weight=1" "* weight =1" "$(printf '*%0600d' 0)"; do
		printf '1 weight=2\n%s\n' "$line" >tenants
		run --separate-stderr -1 sgpu-serve -k runner.jwk --tenants tenants
		assert_contains "$stderr" "'tenants', line 2"
		assert_no_file "$SOCKET"
	done
	printf '1\n1\n' >tenants
	run --separate-stderr -1 sgpu-serve -k runner.jwk --tenants tenants
	assert_contains "$stderr" "two lines for user 1"
	printf '*\n*\n' >tenants
	run --separate-stderr -1 sgpu-serve -k runner.jwk --tenants tenants
	printf '1 \0\n' >tenants
	run --separate-stderr -1 sgpu-serve -k runner.jwk --tenants tenants
	seq 1025 >tenants
	run --separate-stderr -1 sgpu-serve -k runner.jwk --tenants tenants
	assert_contains "$stderr" "more than 1024 users"
	run --separate-stderr -3 sgpu-serve -k runner.jwk --tenants nothing
	: >tenants
	chmod 0666 tenants
	run --separate-stderr -4 sgpu-serve -k runner.jwk --tenants tenants
}

@test "SIGHUP reads the tenants again, and keeps what was there when the file is wrong" {
	requires jq
	weight() { sgpu-serve status --json | jq -r '.status.tenants[0].weight'; }
	echo '* weight=7' >tenants
	start_server -k runner.jwk --tenants tenants
	sgpu-run -o response batch.tar
	[ "$(weight)" -eq 7 ]
	echo '* weight=9' >tenants
	kill -HUP "$SERVER"
	wait_for grep -q "is read again from 'tenants'" log
	[ "$(weight)" -eq 9 ]
	echo '* weight=many' >tenants
	kill -HUP "$SERVER"
	wait_for grep -q "stay in force" log
	assert_contains "$(cat log)" "'tenants', line 1"
	[ "$(weight)" -eq 9 ]
	printf 'nobody-of-that-name weight=2\n* weight=8\n' >tenants
	kill -HUP "$SERVER"
	wait_for grep -q "'tenants', line 1: there is no user 'nobody-of-that-name'.*stay in force" log
	[ "$(weight)" -eq 9 ]
	rm tenants
	kill -HUP "$SERVER"
	wait_for grep -q "'tenants'.*No such file.*stay in force" log
	[ "$(weight)" -eq 9 ]
	run -0 sgpu-run -o response batch.tar
}

# ---- limits ----

@test "batches beyond in-flight wait, beyond waiting they are refused by the name of the limit, and --timeout counts" {
	requires jq
	local one two
	echo '* in-flight=1 waiting=2' >tenants
	start_server -k runner.jwk --tenants tenants
	hold
	sgpu-run -o one batch.tar 2>one.log 3>&- 7>&- &
	one=$!
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed | sgpu-run -o two 2>two.log 3>&- 7>&- &
	two=$!
	SERVERS+=("$one" "$two")
	wait_for waiting 2
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "user $(id -u) has 2 batches that wait, which is the limit 'waiting'"
	assert_no_file response
	run -0 jq -e '.status.tenants[0] | .waiting == 2 and .in_flight == 1 and .over_quota == 1 and .done == 0 and
		.limits == {"in_flight": 1, "waiting": 2, "sessions": 16, "device_memory": null, "host_memory": null}' <(sgpu-serve status --json)
	kill -9 "$one"
	wait_for waiting 1
	run --separate-stderr -3 sgpu-run --json --timeout 200ms -o response batch.tar
	assert_contains "$stderr" '"ETIMEOUT"'
	assert_no_file response
	wait_for waiting 1
	release
	ends_with 0 "$HELD"
	ends_with 0 "$two"
	sgpu-seal open -k owner.jwk -C out two
	assert_same out/out.f32 expected.f32
}

# ---- turns ----

# worker_of USER: the one that serves them.
worker_of() {
	status workers | awk -v user="$1" '$2 == "serving" && $3 == user { print $1 }'
}

@test "there are as many turns as --running says, and who waits for one has a worker already" {
	requires root python3
	local worker first second
	share_socket
	start_server -k runner.jwk --everybody --running 1
	have_workers 65531
	worker=$(worker_of 65531)
	kill -STOP "$worker"
	cp batch.tar again.tar
	client_of 65531 queue batch.tar >first.out 3>&- &
	first=$!
	wait_for in_flight 1
	client_of 65532 queue again.tar >second.out 3>&- &
	second=$!
	SERVERS+=("$worker" "$first" "$second")
	has_worker() { [ -n "$(worker_of 65532)" ]; }
	wait_for has_worker
	waiting 1
	in_flight 1
	run ! grep -q again.tar second.out
	kill -CONT "$worker"
	ends_with 0 "$first"
	ends_with 0 "$second"
	grep -q '^again.tar 0 $' second.out
}

@test "users who ask at once have turns in turn, however much each has asked for" {
	requires root python3
	share_socket
	start_server -k runner.jwk --everybody --running 1 --workers 4
	have_workers 65531 65532 65533
	seal_for a 20
	seal_for b 5
	seal_for c 1
	ask_at_once 65531 a 20 65532 b 5 65533 c 1
	[ "$(wc -l <order)" -eq 26 ]
	[ "$(head -n 3 order | sort | tr -d '\n')" = abc ]
}

@test "high priority comes first" {
	requires root python3
	share_socket
	echo '65532 priority=high' >tenants
	start_server -k runner.jwk --everybody --running 1 --workers 4 --tenants tenants
	have_workers 65531 65532
	seal_for a 12
	seal_for b 12
	ask_at_once 65531 a 12 65532 b 12
	[ "$(head -n 12 order | tr -d '\n')" = bbbbbbbbbbbb ]
	[ "$(wc -l <order)" -eq 24 ]
}

@test "on processors, workers of others give way to those of high priority" {
	requires root python3
	local own given pid
	share_socket
	echo '65532 priority=high' >tenants
	start_server -k runner.jwk --everybody --tenants tenants
	have_workers 65531 65532
	own=$(nice) given=$(($(nice) + 10))
	nice_of() {
		pid=$(worker_of "$1")
		cat "/proc/$pid/task/"*/stat | awk '{ print $19 }' | sort -u
	}
	[ "$(nice_of 65532)" -eq "$own" ]
	[ "$(nice_of 65531)" -eq $((given < 19 ? given : 19)) ]
	kill "$SERVER"
	wait_for has_ended "$SERVER"
	start_server -k runner.jwk --everybody
	have_workers 65531
	[ "$(nice_of 65531)" -eq "$own" ]
}

@test "a turn costs one of weight 1000 a thousandth of what it costs one of weight 1" {
	requires root python3
	share_socket
	echo '65532 weight=1000' >tenants
	start_server -k runner.jwk --everybody --running 1 --workers 4 --tenants tenants
	have_workers 65531 65532
	seal_for b 12
	small_job 1000000
	seal_for a 3
	ask_at_once 65531 a 3 65532 b 12
	# Each has one turn of the first two; then the small ones together cost less than the first large one did.
	[ "$(head -n 2 order | sort | tr -d '\n')" = ab ]
	[ "$(tail -n 2 order | tr -d '\n')" = aa ]
	[ "$(wc -l <order)" -eq 15 ]
}

# ---- workers ----

@test "a user who always has work gives a worker up, too, and nothing of theirs is lost" {
	requires root python3
	share_socket
	start_server -k runner.jwk --everybody --workers 1 --ahead 0
	client_of 65531 flood batch.tar 8 >>flood.out 3>&- &
	SERVERS+=($!)
	wait_for grep -q answered flood.out
	for _ in 1 2; do
		run -0 sgpu-run -o response batch.tar
		: >flood.out
		wait_for grep -q answered flood.out
	done
	run ! grep -v answered flood.out
	[ "$(status tenants | awk '$1 == 65531 { print $5, $7, $9 }')" = "0 0 0" ]
}

@test "a worker that is taken from its user ends first what it has begun" {
	requires root python3
	local worker
	share_socket
	start_server -k runner.jwk --everybody --workers 1 --ahead 0 --stall 1h
	hold
	worker=$(serving_pid)
	client_of 65531 queue batch.tar >queue.out 3>&- 7>&- &
	SERVERS+=($!)
	is_leaving() { status workers | grep -q "^$worker  *draining "; }
	wait_for is_leaving
	in_flight 1
	run ! grep -q batch.tar queue.out
	release
	ends_with 0 "$HELD"
	wait_for grep -q '^batch.tar 0 $' queue.out
}

@test "users beyond the limit are refused, but root finds a place, at the cost of the one who came last" {
	requires root python3
	local crowd
	share_socket
	start_server -k runner.jwk --everybody --workers 1 --ahead 0 --stall 1h
	python3 "$BATS_TEST_DIRNAME/serve_client.py" "$SOCKET" users 300000 256 600 >users.out 3>&- &
	crowd=$!
	SERVERS+=("$crowd")
	wait_for grep -q waiting users.out
	run -0 client_of 65531 queue batch.tar
	assert_contains "$output" "256 users have batches under way, which is the limit"
	run ! grep -q '^300' users.out
	sgpu-run -o response batch.tar 2>root.log 3>&- &
	SERVERS+=($!)
	wait_for grep -q '^300255 .*the place of user 300255' users.out
	kill "$crowd"
	ends_with 0 "${SERVERS[-1]}"
}

@test "when a worker is killed, what waits for a turn gets another one" {
	local waits
	echo '* in-flight=1' >tenants
	start_server -k runner.jwk --tenants tenants
	hold
	sgpu-run -o one batch.tar 2>one.log 3>&- 7>&- &
	waits=$!
	SERVERS+=("$waits")
	wait_for waiting 1
	kill -9 "$(serving_pid)"
	ends_with 3 "$HELD"
	ends_with 0 "$waits"
	sgpu-seal open -k owner.jwk -C out one
	assert_same out/out.f32 expected.f32
}

# ---- what status tells ----

@test "--prometheus is its text format, and its numbers are those of known work" {
	requires python3 jq
	local uid sizes
	uid=$(id -u)
	metric() { sgpu-serve status --prometheus | python3 "$BATS_TEST_DIRNAME/prometheus.py" "$@"; }
	echo '* in-flight=1 waiting=1 weight=5' >tenants
	# More bytes come in than go out.
	jq 'del(.segments[4], .operations[2])' job.json >one.json
	sgpu-manifest pack one.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >batch.tar
	start_server -k runner.jwk --tenants tenants --running 3
	run -0 metric
	sgpu-run -o response batch.tar
	sgpu-run -o response batch.tar
	run -4 sgpu-run -o refused packed
	wait_for in_flight 0
	hold
	sgpu-run -o one batch.tar 2>one.log 3>&- 7>&- &
	SERVERS+=($!)
	wait_for waiting 1
	run -3 sgpu-run -o refused batch.tar
	run -0 metric "sgpu_batches_total{result=\"done\",uid=\"$uid\"}" 'sgpu_batches_total{result="failed"}' \
		'sgpu_batches_total{result="refused"}' 'sgpu_batches_total{result="over_quota"}' sgpu_batches_waiting sgpu_batches_in_flight sgpu_weight sgpu_turns \
		'sgpu_workers{state="serving"}' sgpu_build_info
	[ "$(awk '{ print $2 }' <<<"$output" | tr '\n' ' ')" = "2 0 1 1 1 1 5 3 1 1 " ]
	# Bytes are those that the log gives for each batch.
	sizes=$(sed -n 's/.*: \([0-9]*\) bytes in, \([0-9]*\) out.*/\1 \2/p' log | awk '{ i += $1; o += $2 } END { print i, o }')
	run -0 metric 'sgpu_bytes_total{direction="in"}' 'sgpu_bytes_total{direction="out"}'
	[ "$(awk '{ print $2 }' <<<"$output" | tr '\n' ' ')" = "$sizes " ]
	# So are times, but for what the log leaves out.
	took=$(sed -n 's/.* out, \([0-9.]*\) ms, .*/\1/p' log | awk '{ sum += $1 } END { print int(sum * 1000000 / 2) }')
	run -0 jq -e '.status.tenants[0] | .busy_ns > 0 and .latency_ns > '"$took" <(sgpu-serve status --json)
	# What a worker that dies had done is not forgotten.
	kill -9 "$(serving_pid)"
	ends_with 3 "$HELD"
	wait_for grep -q "ended by signal 9" log
	run -0 metric 'sgpu_bytes_total{direction="in"}' 'sgpu_batches_total{result="failed"}'
	[ "$(awk '{ print $2 }' <<<"${lines[1]}")" -eq 1 ]
	run -2 sgpu-serve status --prometheus --json
}
