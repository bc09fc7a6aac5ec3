#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# What sgpu-serve tells its operator: the log, the counters, and warnings at its start.

load serve

# owned_server OPTION...: one with owners and a record. stranger.tar is a batch of somebody else.
owned_server() {
	sgpu-seal keyinfo --owner -o owners owner.jwk
	sgpu-seal keygen -q -o stranger.jwk
	sgpu-seal seal -q -k stranger.jwk -r runner.pub.jwk -o stranger.tar packed
	start_server -k runner.jwk --owners owners --state "$PWD/state" "$@"
}

# results_are LIST: how many batches of this user there were of each kind.
results_are() {
	[ "$(sgpu-serve status --json | jq -c '.status.tenants[0] |
		[.done, .some_failed, .refused, .replayed, .over_quota, .cancelled, .failed]')" = "$1" ]
}

@test "each line of the log says when, who, what and why, as text" {
	owned_server
	local time='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z' id='[A-Za-z0-9_-]{22}' owner user
	owner=$(cat owners)
	user="user $(id -u) \($(id -un)\)"
	sgpu-run -o response batch.tar
	run -4 sgpu-run -o again batch.tar
	run -4 sgpu-run -o again stranger.tar
	run -1 sgpu-run -o again job.json
	wait_for results_are '[1,0,2,1,0,0,0]'
	run -0 grep -cE "^sgpu-enclave: $time $user, batch $id, manifest 'small-job', owner $owner, key [^ ]+: .* ms, OK$" log
	run -0 grep -cE "^sgpu-enclave: $time $user, batch $id, manifest 'small-job', owner $owner, .* ETAKEN: .*taken before" log
	run -0 grep -cE "^sgpu-enclave: $time $user, batch $id, manifest '', key [^ ]+: .* EPOLICY: .*owner" log
	run -0 grep -cE "^sgpu-enclave: $time $user, batch none, manifest '', key none: .* EINVALID: " log
}

@test "a client knows that its batch was recorded before it has the answer" {
	requires python3
	owned_server
	run -0 python3 "$BATS_TEST_DIRNAME/serve_client.py" "$SOCKET" kinds batch.tar
	[ "$output" = $'5\n6' ]
}

@test "each line of the log says when, who, what and why, as JSON, and what is too old says so" {
	requires jq
	owned_server --json --replay-window 1ms 2>/dev/null || true
	wait_for grep -qs 'serving at' log
	run -4 sgpu-run -o again batch.tar
	run -4 sgpu-run -o again stranger.tar
	wait_for results_are '[0,0,1,1,0,0,0]'
	grep '"batch"' log >batches
	# shellcheck disable=SC2016 # for jq
	run -0 jq -se --argjson uid "$(id -u)" --arg user "$(id -un)" --arg owner "$(cat owners)" 'map(.batch) |
		all(.uid == $uid and .user == $user and
			(.batch_id | length == 22) and (.time | test("^[0-9-]{10}T[0-9:]{8}[.][0-9]{3}Z$"))) and
		.[0].status == "ETAKEN" and .[1].status == "EPOLICY" and .[0].manifest_id == "small-job" and .[1].manifest_id == "" and .[0].owner == $owner and (.[0].reason | test("too old")) and .[1].owner == "" and
		(.[1].reason | test("owner"))' batches
}

@test "no user can raise the count of failures, and each refusal is counted for what it is" {
	requires jq python3
	metric() { sgpu-serve status --prometheus | python3 "$BATS_TEST_DIRNAME/prometheus.py" "$@"; }
	sgpu-seal keygen -q --x25519 -o other.jwk
	sgpu-seal pubkey -o other.pub.jwk other.jwk
	sgpu-seal seal -q -k owner.jwk -r other.pub.jwk -o other.tar packed
	head -c 3000 batch.tar >short
	for i in 1 2; do
		sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o "fresh$i.tar" packed
	done
	echo '* waiting=8' >tenants
	owned_server --tenants tenants
	sgpu-run -o response batch.tar
	run -4 sgpu-run -o again batch.tar
	run -4 sgpu-run -o again stranger.tar
	run -4 sgpu-run -o again other.tar
	run -4 sgpu-run -o again packed
	run -1 sgpu-run -o again short
	run -3 sgpu-run -o again --lease fresh1.tar
	hold
	abandon
	wait_for results_are "[1,0,5,1,0,1,0]"
	# What clients do to their own descriptors is theirs, too.
	run -0 client shrinking fresh1.tar 20
	run -0 client direct fresh1.tar 50
	run -0 client descriptors fresh2.tar
	run -0 client garbage
	wait_for in_flight 0
	# A limit is read anew.
	echo '* device-memory=4K' >tenants
	kill -HUP "$SERVER"
	wait_for grep -q 'new workers serve' log
	run -3 sgpu-run -o again fresh2.tar
	over() { sgpu-serve status --json | jq -e '.status.tenants[0] | .over_quota == 1 and .failed == 0'; }
	wait_for over
	run -0 metric 'sgpu_batches_total{result="over_quota"}' 'sgpu_batches_total{result="failed"}'
	[ "$(awk '{ print $2 }' <<<"$output" | tr '\n' ' ')" = "1 0 " ]
	run -0 status tenants
	[ "$(awk '{ print $5, $9, $NF }' <<<"$output")" = "0 1 $(id -un)" ]
}

@test "a record of batches that cannot be written is a failure of the machine" {
	requires jq
	owned_server
	rm -r state/batches
	run -3 sgpu-run -o response batch.tar
	wait_for results_are '[0,0,0,0,0,0,1]'
}

@test "what a server says of itself moves no cursor and forges no sample" {
	requires python3
	cat >told <<-'END'
	{"status":{"pid":1,"version":"1\u001b[2J\u009b\"\\\n# x","uptime_ns":1e3,"running":9223372036854775807,
	"workers":[{"pid":2,"state":"\u001b]0;x\u0007","leases":9223372036854775807},{"leases":9223372036854775807},
	{"leases":"two","state":[]},7],
	"tenants":[{"uid":5,"user":"\u001b[31m\u202e\"} 1\nx{y=\"","waiting":-1,"limits":7,"priority":"\u001b[2J",
	"latency_ns":-5},"no tenant"]}}
	END
	python3 "$BATS_TEST_DIRNAME/serve_client.py" "$PWD/fake.sock" tell told >telling 3>&- &
	SERVERS+=($!)
	wait_for grep -q telling telling
	sgpu-serve status --socket fake.sock >table
	LC_ALL=C run ! grep -aP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' table
	sgpu-serve status --socket fake.sock --prometheus >metrics
	LC_ALL=C run ! grep -a '[^ -~]' metrics
	grep -q '^sgpu_build_info{version="1?\[2J????' metrics
	run ! grep -q '^x{y' metrics
	[ "$(grep -c '^sgpu_batches_waiting' metrics)" -eq 1 ]
}

@test "a server whose keys open nothing, or that no quote names, says so at its start" {
	start_server
	assert_contains "$(cat log)" "warning: no key"
	kill "$SERVER"
	wait "$SERVER"
	start_server -k runner.jwk
	run ! grep -q warning: log
}
