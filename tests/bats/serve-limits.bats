#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# How much memory one user of sgpu-serve may have: of the device, and of the host. How a device counts is
# tests/unit/test_limit.c. A batch here takes 4 MiB of the device, and 7 MiB are less than two of them.

load serve

MIB=$((1 << 20))

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys 2>/dev/null
	small_job $((1 << 18))
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >batch.tar
	NEEDS=$(sgpu-manifest show --json job.json | jq .device_memory_bytes)
	SOCKET=$XDG_RUNTIME_DIR/sgpu/run.sock
	export SERVE_RUNNER=$PWD/runner.pub.jwk
	SERVERS=()
}

# tenant MEMBER: of the first user that the status tells of.
tenant() {
	sgpu-serve status --json | jq -r ".status.tenants[0] | $1"
}

tenant_is() {
	[ "$(tenant "$1")" = "$2" ]
}

# hold_batch: a batch whose head was read, so that it has its memory, and the rest of it not: $HELD.
hold_batch() {
	hold_with g+s
	wait_for tenant_is .device_bytes "$NEEDS"
}

end_batch() {
	release
	ends_with 0 "$HELD"
}

@test "a batch that needs more of the device than its user may have is refused at once, and other users do not notice" {
	requires root jq
	share_socket
	printf '0 device-memory=1M\n65531 device-memory=64K\n' >tenants
	start_server -k runner.jwk --device cpu --everybody --workers 4 --tenants tenants
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "$NEEDS bytes of device memory are needed, and the limit is $MIB"
	assert_no_file response
	run -0 client_of 65531 queue batch.tar
	assert_contains "$output" "bytes of device memory are needed, and the limit is 65536"
	run -0 client_of 65532 queue batch.tar
	assert_contains "$output" "batch.tar 0 "
	run -0 jq -e '[.status.tenants[] | select(.uid != 65532)] | length == 2 and all(.done == 0 and .over_quota == 1 and .failed == 0)' \
		<(sgpu-serve status --json)
}

@test "two batches of a user have no more of the device than the limit, and what is given back is had again" {
	requires jq
	echo '* device-memory=7M' >tenants
	start_server -k runner.jwk --device cpu --tenants tenants
	hold_batch
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" \
		"$NEEDS bytes of device memory are needed, and $((7 * MIB - NEEDS)) of the limit of $((7 * MIB)) are free"
	assert_no_file response
	tenant_is .device_bytes "$NEEDS"
	end_batch
	for _ in 1 2 3; do
		run -0 sgpu-run -o response batch.tar
	done
	sgpu-seal open -k owner.jwk -C results <response
	cmp results/out.f32 expected.f32
	wait_for tenant_is .device_bytes 0
}

@test "a session and a batch of a user have no more of the device than the limit" {
	requires jq
	[ -x "$SGPU_BUILD/unit/test_remote_connect" ] || skip "test_remote_connect was not built"
	program() { SGPU_SOCKET=$SOCKET "$SGPU_BUILD/unit/test_remote_connect" "$@"; }
	local keeper
	echo '* device-memory=7M' >tenants
	start_server -k runner.jwk --device cpu --tenants tenants
	run -0 program large $((5 * MIB))
	wait_for tenant_is .device_bytes 0 # the worker sees a program's end by itself
	hold_batch
	run -1 program large $((5 * MIB))
	assert_contains "$output" "$((5 * MIB)) bytes of device memory are needed"
	assert_contains "$output" "of the limit of $((7 * MIB)) are free"
	end_batch
	run -0 program large $((5 * MIB))
	run -1 program large $((9 * MIB))
	wait_for tenant_is .device_bytes 0
	mkfifo line
	program keep $((5 * MIB)) <line >kept 3>&- 7>&- &
	keeper=$!
	SERVERS+=("$keeper")
	exec 7>line
	wait_for grep -qs 'done' kept
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "bytes of device memory"
	exec 7>&-
	ends_with 0 "$keeper"
	wait_for tenant_is .device_bytes 0
	run -0 sgpu-run -o response batch.tar
}

@test "after SIGHUP later batches have the new limit, and no user has more by having two workers" {
	requires jq
	local later
	echo '* device-memory=7M' >tenants
	start_server -k runner.jwk --device cpu --tenants tenants --drain 10m --stall 10m
	hold_batch
	echo '* device-memory=6M' >tenants
	kill -HUP "$SERVER"
	wait_for grep -q 'new workers serve' log
	# The worker with the batch ends with it; until then there is no other for this user.
	sgpu-run -o response batch.tar 2>later.log 3>&- 7>&- &
	later=$!
	SERVERS+=("$later")
	wait_for tenant_is .waiting 1
	tenant_is ".device_bytes <= 7 * $MIB" true
	tenant_is .limits.device_memory $((6 * MIB))
	[ "$(tenant .in_flight)" -eq 1 ]
	end_batch
	ends_with 0 "$later"
	echo '* device-memory=1M' >tenants
	kill -HUP "$SERVER"
	wait_for tenant_is .limits.device_memory "$MIB"
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "the limit is $MIB"
	echo '* weight=2' >tenants
	kill -HUP "$SERVER"
	wait_for tenant_is .limits.device_memory null
	run -0 sgpu-run -o response batch.tar
}

@test "a session in a worker that leaves does not keep its user's batches waiting for longer than --stall" {
	requires jq
	[ -x "$SGPU_BUILD/unit/test_remote_connect" ] || skip "test_remote_connect was not built"
	local keeper
	echo '* device-memory=7M' >tenants
	start_server -k runner.jwk --device cpu --tenants tenants --drain 10m --stall 1s
	mkfifo line
	SGPU_SOCKET=$SOCKET "$SGPU_BUILD/unit/test_remote_connect" keep "$MIB" <line >kept 3>&- 7>&- &
	keeper=$!
	SERVERS+=("$keeper")
	exec 7>line
	wait_for grep -qs 'done' kept
	kill -HUP "$SERVER"
	wait_for grep -q 'new workers serve' log
	run -0 sgpu-run -o response batch.tar
	exec 7>&-
}

@test "a new limit holds though no worker starts with the new keys" {
	requires jq
	echo '* device-memory=7M' >tenants
	start_server -k runner.jwk --device cpu --tenants tenants
	run -0 sgpu-run -o response batch.tar
	mv runner.jwk away.jwk
	echo '* device-memory=1M' >tenants
	kill -HUP "$SERVER"
	wait_for grep -q 'those from before go on' log
	run --separate-stderr -3 sgpu-run -o response batch.tar
	assert_contains "$stderr" "the limit is $MIB"
}

@test "the status tells of limits and of the memory that users have" {
	requires jq
	echo "$(id -u) device-memory=7M host-memory=256M" >tenants
	start_server -k runner.jwk --device cpu --tenants tenants
	run -0 sgpu-run -o response batch.tar
	hold_batch
	run -0 jq -e ".status.tenants[0] | .limits.device_memory == 7 * $MIB and .limits.host_memory == 256 * $MIB and
		.device_bytes == $NEEDS and .host_bytes == 64 * $MIB" <(sgpu-serve status --json)
	status shares | grep -q "  $NEEDS  .*device_memory=$((7 * MIB)) "
	run -0 sgpu-serve status --prometheus
	assert_contains "$output" "sgpu_memory_limit_bytes{uid=\"$(id -u)\",user=\"$(id -un)\",of=\"device\"} $((7 * MIB))"
	grep -q "^sgpu_memory_bytes{.*of=\"device\"} $NEEDS\$" <<<"$output"
	end_batch
}

@test "leases, results and staging buffers of a user have no more of the host's memory than the limit" {
	requires jq
	local before=$((96 * MIB)) # 64 MiB for staging, and half of the rest for leases
	small_job $((17 << 18))
	sgpu-manifest pack job.json >large
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk large >large.tar
	echo '* host-memory=128M' >tenants
	start_server -k runner.jwk --device cpu --tenants tenants --leases 60M
	sgpu-run batch.tar | sgpu-seal open -k owner.jwk -C results
	wait_for tenant_is .host_bytes "$before"
	run -0 jq -e "[.status.workers[] | select(.state == \"serving\") | .pool_bytes] == [32 * $MIB]" \
		<(sgpu-serve status --json)
	run -2 sgpu-seal seal -k owner.jwk -r runner.pub.jwk --lease large
	assert_contains "$output" "does not fit the pool, which has $((32 * MIB))"
	# Results for a file that can be written alone wait in memory, and one of the two is too much; else they wait nowhere.
	run -5 bash -c 'sgpu-run large.tar >written'
	assert_contains "$output" "bytes of host memory are needed"
	assert_contains "$output" "of the limit of $((128 * MIB)) are free"
	wait_for tenant_is .host_bytes "$before"
	run -0 sgpu-run -o response large.tar
	run -0 bash -c 'sgpu-run batch.tar >written'
	wait_for tenant_is .host_bytes "$before"
	# Without the limit both wait, and the pool is as large as it was asked for.
	echo '* weight=2' >tenants
	kill -HUP "$SERVER"
	wait_for grep -q 'new workers serve' log
	run -0 bash -c 'sgpu-run large.tar >written'
	wait_for tenant_is .host_bytes "$((60 * MIB))"
}

@test "a limit of host memory that staging takes whole is told" {
	echo '* host-memory=128M' >tenants
	start_server -k runner.jwk --device cpu,cpu --tenants tenants
	run -5 bash -c 'sgpu-run batch.tar >written'
	assert_contains "$output" "0 of the limit of $((128 * MIB)) are free"
	grep -q "warning: a user's limit of host memory leaves none for results: 2 devices have $((128 * MIB)) bytes" log
}
