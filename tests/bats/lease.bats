#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# Leases: payloads go from sgpu-seal to the worker of sgpu-serve, and results back, in its memory.

load serve

# lease_of FILE: the lease that a batch or a response names.
lease_of() {
	tar xOf "$1" locations.json 2>/dev/null | grep -oE '"sgpu:[0-9a-f]{32}:' | head -n 1 | cut -d : -f 2
}

leases() {
	[ "$(sgpu-serve status --json | python3 -c '
import json, sys
print(sum(w["leases"] for w in json.load(sys.stdin)["status"]["workers"]))')" -eq "$1" ]
}

hostile() {
	SGPU_SOCKET=$SOCKET python3 "$BATS_TEST_DIRNAME/lease_client.py" "$@"
}

# start NAME COMMAND...: in the background, with its output in NAME; $STARTED.
start() {
	"${@:2}" >"$1" 2>"$1.log" 3>&- 7>&- &
	STARTED=$!
	SERVERS+=("$STARTED")
}

seal() {
	sgpu-seal seal -q --lease -k owner.jwk -r runner.pub.jwk "$@"
}

# pack_inline: the batch of job.json, which has the payload of 'bias' in its stream, since it has to be unpacked.
pack_inline() {
	python3 - <<-'END'
	import zipfile
	data = open("bias.f32", "rb").read()
	head = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % (len(data) // 4)).ljust(117) + "\n"
	with zipfile.ZipFile("bias.npz", "w", zipfile.ZIP_DEFLATED) as out:
	    out.writestr("arr_0.npy", b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + data)
	END
	sed 's/"bias.f32"/"bias.npz", "file": { "format": "npz" }/' job.json >inline.json
	sgpu-manifest pack inline.json
}

# copies LEVEL:BYTES...: job.json that copies files of so many bytes, of that level, to NAME.out.
copies() {
	local one name segments='' operations=''
	for one; do
		name=s${one%%:*}_${one#*:}
		head -c "${one#*:}" /dev/urandom >"$name"
		segments+=", { \"segment_id\": \"$name\", \"data_location_client\": \"$name\", \"sensitivity_level\": \"${one%%:*}\",
			\"direction\": \"INPUT\", \"data_type_info\": { \"dtype\": \"u8\", \"shape\": [${one#*:}] } },
			{ \"segment_id\": \"$name.out\", \"data_location_client\": \"$name.out\", \"sensitivity_level\": \"${one%%:*}\",
			\"direction\": \"OUTPUT\", \"data_type_info\": { \"dtype\": \"u8\", \"shape\": [${one#*:}] } }"
		operations+=", { \"gpu_operation_id\": \"C$name\", \"kernel\": \"copy\",
			\"arguments\": { \"input\": \"$name\", \"output\": \"$name.out\" } }"
	done
	echo "{ \"version\": 1, \"manifest_id\": \"copies\", \"segments\": [ ${segments#,} ], \"operations\": [ ${operations#,} ] }" >job.json
	sgpu-manifest pack job.json >packed
}

copied() {
	local one
	for one; do
		cmp "s${one%%:*}_${one#*:}" "out/s${one%%:*}_${one#*:}.out" || return 1
	done
}

# ---- both ways ----

@test "payloads and results go by leases, and the pipes carry only the index" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 16M
	seal packed >sealed
	[ "$(tar tf sealed)" = "seal.json
batch.json
manifest.json
note
locations.json" ]
	leases 1
	run -0 sgpu-seal inspect sealed
	assert_contains "$output" "lease=sgpu:$(lease_of sealed):0:"
	run -0 hostile look bias.f32
	[ "$output" -ge 0 ]
	sgpu-run --lease -o response sealed
	[ "$(tar tf response)" = "seal.json
response.json
note
locations.json" ]
	wait_for leases 1
	run -0 sgpu-seal open -k owner.jwk -C out response
	cmp expected.f32 out/out.f32
	cmp bias.f32 out/bias.copy.f32
	wait_for leases 0
	run -0 hostile look bias.f32
	[ "$output" -eq -1 ]
}

@test "the whole pipe gives the same with leases as without" {
	start_server -k runner.jwk --device cpu --leases 16M
	sgpu-manifest pack job.json | seal | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
	cmp bias.f32 out/bias.copy.f32
	sgpu-manifest pack job.json | seal | sgpu-run | sgpu-seal open -k owner.jwk -C one-way
	cmp expected.f32 one-way/out.f32
	sgpu-run --lease batch.tar | sgpu-seal open -k owner.jwk -C other-way
	cmp expected.f32 other-way/out.f32
	pack_inline | seal | sgpu-run --lease | sgpu-seal open -k owner.jwk -C inline
	cmp expected.f32 inline/out.f32
	cmp bias.f32 inline/bias.copy.f32
}

@test "payloads of all sizes about a chunk, HIGH and LOW, go by leases" {
	sizes=()
	for size in 1 2 63 64 65 4095 4096 4097 16383 16384 16385 131071 131072 131073 1048577; do
		sizes+=("HIGH:$size" "LOW:$size")
	done
	copies "${sizes[@]}"
	start_server -k runner.jwk --device cpu --leases 16M
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	copied "${sizes[@]}"
	copies HIGH:1 # and a few
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk --force -C out
	copied HIGH:1
}

@test "many small payloads share one lease" {
	sizes=()
	for ((size = 100; size < 400; size++)); do
		sizes+=("HIGH:$size" "LOW:$size")
	done
	copies "${sizes[@]}"
	start_server -k runner.jwk --device cpu --leases 16M
	seal packed >sealed
	[ "$(tar xOf sealed locations.json | grep -oE '"lease":"sgpu:[0-9a-f]{32}' | sort -u | wc -l)" -eq 1 ]
	sgpu-run --lease sealed | sgpu-seal open -k owner.jwk -C out
	copied "${sizes[@]}"
}

@test "results whose size only the run knows are left in a lease" {
	for level in HIGH LOW; do
		printf '{ "version": 1, "manifest_id": "found", "segments": [
			{ "segment_id": "scan", "data_location_client": "scan.f32", "sensitivity_level": "%s", "direction": "INPUT",
			  "data_type_info": { "dtype": "f32", "shape": [2000] } },
			{ "segment_id": "where", "data_location_client": "where.i32", "sensitivity_level": "%s", "direction": "OUTPUT",
			  "data_type_info": { "dtype": "i32", "shape": [2000] } } ],
			"operations": [ { "gpu_operation_id": "FIND", "kernel": "threshold", "params": { "low": 7, "mode": "indices" },
			  "arguments": { "input": "scan", "output": "where" } } ] }' $level $level >job.json
		[ -n "$SERVER" ] || start_server -k runner.jwk --device cpu --leases 16M
		sgpu-manifest pack job.json | seal | sgpu-run --lease -o response
		run -0 sgpu-seal inspect response
		assert_contains "$output" "lease=sgpu:$(lease_of response):"
		sgpu-seal open -k owner.jwk -C lease.$level response
		sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk | sgpu-run |
			sgpu-seal open -k owner.jwk -C pipe.$level
		cmp pipe.$level/where.i32 lease.$level/where.i32
		[ "$(stat -c %s pipe.$level/where.i32)" -lt 8000 ]
	done
}

@test "some outputs are opened first, and the others stay for later" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 16M
	seal packed | sgpu-run --lease -o response
	sgpu-seal open -k owner.jwk --only bias_copy -o first response
	cmp bias.f32 first
	leases 1
	sgpu-seal open -k owner.jwk -C out response
	cmp expected.f32 out/out.f32
	wait_for leases 0
	run -3 --separate-stderr sgpu-seal open -k owner.jwk -C again response
	assert_contains "$stderr" "there is no lease '$(lease_of response)' of a batch's results"
	[ ! -e again/out.f32 ]
}

@test "results for which there is no room go with the response" {
	copies HIGH:1500000 LOW:400000
	start_server -k runner.jwk --device cpu --leases 2M
	seal packed >sealed
	sgpu-run --lease -o response sealed
	run -0 sgpu-seal inspect response
	assert_contains "$output" inline
	sgpu-seal open -k owner.jwk -C out response
	copied HIGH:1500000 LOW:400000
}

# ---- limits and times ----

@test "a pool that is full says so, and one that is too small too" {
	requires python3
	copies HIGH:1500000
	start_server -k runner.jwk --device cpu --leases 2M
	seal packed >sealed
	run -3 --separate-stderr seal packed
	assert_contains "$stderr" "no room for a lease of"
	[ -z "$output" ]
	sgpu-run -o response sealed
	sgpu-seal open -k owner.jwk -C out response
	wait_for leases 0
	copies HIGH:3000000
	run -2 --separate-stderr seal packed
	assert_contains "$stderr" "does not fit the pool"
	[ -z "$output" ]
}

@test "leases that nobody uses end with their time" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 16M --lease-life 300ms
	seal packed >sealed
	wait_for leases 0
	run -3 --separate-stderr sgpu-run -o response sealed
	assert_contains "$stderr" "there is no lease '$(lease_of sealed)' of a batch's payloads"
	[ ! -e response ]
	sgpu-run --lease -o response batch.tar
	wait_for leases 0
	run -3 --separate-stderr sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "there is no lease '$(lease_of response)'"
	[ ! -e out/out.f32 ]
}

@test "only a server that was told to gives leases" {
	run -3 --separate-stderr seal packed
	assert_contains "$stderr" "there is no server at"
	[ -z "$output" ]
	run -2 --separate-stderr sgpu-run --lease -k runner.jwk batch.tar
	assert_contains "$stderr" "is about a runner of one's own"
	run -2 --separate-stderr sgpu-run --lease batch.tar
	assert_contains "$stderr" "needs a server"
	start_server -k runner.jwk --device cpu
	run -3 --separate-stderr seal packed
	assert_contains "$stderr" "this server gives no leases"
	run -3 --separate-stderr sgpu-run --lease -o response batch.tar
	assert_contains "$stderr" "this server gives no leases"
	[ ! -e response ]
	run -2 --separate-stderr sgpu-seal seal --socket x -k owner.jwk packed
	assert_contains "$stderr" "--socket is for --lease"
}

@test "a batch in a lease is for its server alone" {
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed >sealed
	run -4 --separate-stderr bash -c 'sgpu-run --local --device cpu -k runner.jwk sealed >answer'
	assert_contains "$stderr" "is in a lease, and this runner gives none"
	[ "$(tar tf answer)" = refusal.json ]
	sgpu-run sealed >/dev/null
}

# ---- deaths ----

@test "a seal that is killed half way leaves nothing" {
	requires python3
	pack_inline >packed
	start_server -k runner.jwk --device cpu --leases 4M
	mkfifo pipe
	exec 7<>pipe
	head -c $(($(stat -c %s packed) - 6000)) packed >&7
	start sealed sgpu-seal seal -q --lease -k owner.jwk -r runner.pub.jwk pipe
	wait_for leases 1
	kill -9 "$STARTED"
	wait_for leases 0
	[ ! -s sealed ]
	exec 7>&-
}

@test "a submit that is killed half way leaves nothing" {
	requires python3
	local response=$XDG_RUNTIME_DIR/response
	start_server -k runner.jwk --device cpu --leases 4M --lease-life 5s
	seal packed >sealed
	: >"$response"
	chmod +t "$response"
	start "$response" sgpu-run --lease sealed
	wait_for leases 2 # its payloads, and its results
	kill -9 "$STARTED"
	chmod -t "$response"
	wait_for leases 0
	wait_for in_flight 0
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
}

@test "an open that is killed can be repeated" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed | sgpu-run --lease -o response
	mkfifo pipe
	exec 7<>pipe
	head -c $(($(stat -c %s response) - 100)) response >&7
	start opened sgpu-seal open -k owner.jwk -C out pipe
	is_read() { [ "$(descriptors "$STARTED")" -gt 0 ] && grep -qs sgpu-leases <(readlink /proc/"$STARTED"/fd/*); }
	wait_for is_read
	kill -9 "$STARTED"
	exec 7>&-
	opens() { sgpu-seal open -q --force -k owner.jwk -C out response; }
	wait_for opens # once the server has seen the end of the other
	cmp expected.f32 out/out.f32
	wait_for leases 0
}

@test "a worker that is killed takes its leases along" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed >early
	kill -9 "$(serving_pid)"
	wait_for leases 0
	run -3 --separate-stderr sgpu-run -o response early
	assert_contains "$stderr" "there is no lease '$(lease_of early)'"
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
}

@test "who fills a lease of a worker that died gets an error, and writes no batch" {
	requires python3
	pack_inline >packed.inline
	start_server -k runner.jwk --device cpu --leases 4M
	mkfifo pipe
	exec 7<>pipe
	head -c $(($(stat -c %s packed.inline) - 6000)) packed.inline >&7
	start sealed sgpu-seal seal -q --lease -k owner.jwk -r runner.pub.jwk pipe
	wait_for leases 1
	kill -9 "$(serving_pid)"
	wait_for leases 0
	tail -c 6000 packed.inline >&7
	exec 7>&-
	ended=0
	wait "$STARTED" || ended=$?
	[ "$ended" -eq 3 ]
	grep -q 'the server, or its worker, has ended' sealed.log
	[ ! -s sealed ]
}

# ---- hostile ----

@test "the lease of another batch is refused, and stays as it is" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed >one
	seal packed >other
	hostile rewrite other forged "lease=$(lease_of one)"
	run -4 --separate-stderr sgpu-run -o response forged
	assert_contains "$stderr" "lease '$(lease_of one)' is another batch's"
	[ ! -e response ]
	sgpu-run one | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
	# So are its results.
	sgpu-run --lease -o response other
	sgpu-run --lease -o response2 batch.tar
	hostile rewrite response2 forged.response "lease=$(lease_of response)"
	run -4 --separate-stderr sgpu-seal open -k owner.jwk -C forged.out forged.response
	assert_contains "$stderr" "is another batch's"
	sgpu-seal open -k owner.jwk -C other.out response
	cmp expected.f32 other.out/out.f32
}

@test "a response names one lease, and one with a second is refused" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 16M
	seal packed | sgpu-run --lease -o response
	rewrite response two 'one = places["locations"][-1]
one["lease"] = ":".join(["sgpu", "0" * 32, *one["lease"].split(":")[2:]])'
	run -1 --separate-stderr sgpu-seal open -k owner.jwk -C two.out two
	assert_contains "$stderr" "the response names more than one lease"
	[ ! -e two.out ]
	sgpu-seal open -k owner.jwk -C out response
	cmp expected.f32 out/out.f32
}

@test "a server that gives another lease than the one that was asked for is not believed" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	python3 "$BATS_TEST_DIRNAME/fake_server.py" fake.sock "$SOCKET" >fake.log 3>&- &
	SERVERS+=("$!")
	wait_for grep -qs ready fake.log
	SGPU_SOCKET=$PWD/fake.sock run --separate-stderr -1 seal -o batch packed
	assert_contains "$stderr" "the server gives another lease than the one that was asked for"
	seal -o batch packed
	sgpu-run --lease -o response batch
	SGPU_SOCKET=$PWD/fake.sock run --separate-stderr -1 sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "the server gives another lease than the one that was asked for"
	sgpu-seal open -k owner.jwk -C out response
}

@test "a lease is used once" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed >sealed
	sgpu-run sealed | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
	run -3 --separate-stderr sgpu-run -o response sealed
	assert_contains "$stderr" "there is no lease '$(lease_of sealed)'"
	[ ! -e response ]
	wait_for leases 0
}

@test "places outside of a lease are refused before anything runs" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	for offset in +1 1000000 4194304 9007199254740000; do
		seal packed >sealed
		hostile rewrite sealed forged "offset=$offset"
		run -1 --separate-stderr sgpu-run -o response forged
		[ ! -e response ]
		wait_for leases 0
	done
	seal packed >sealed
	hostile rewrite sealed forged "lease=ffffffffffffffffffffffffffffffff"
	run -3 sgpu-run -o response forged
	hostile rewrite sealed forged "lease=xyz"
	run -1 sgpu-run -o response forged
	sgpu-run --lease -o response sealed
	hostile rewrite response forged "offset=9000000"
	run -1 --separate-stderr sgpu-seal open -k owner.jwk -C out forged
	assert_contains "$stderr" "does not lie in lease"
	[ ! -e out/out.f32 ]
}

@test "payloads and results that were changed in a lease do not verify" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed >sealed
	hostile flip sealed scan
	run -5 --separate-stderr sgpu-run -o response sealed
	assert_contains "$stderr" "segment 'scan' failed: chunk 0 does not verify"
	seal packed >sealed
	wait_for leases 1
	hostile flip sealed bias 0
	run -5 --separate-stderr sgpu-run -o response sealed
	assert_contains "$stderr" "segment 'bias' failed: its kt128 is not the one that the batch names"
	wait_for leases 0
	for place in result:64 result:20 bias_copy:7; do
		sgpu-run --lease -o response batch.tar
		hostile flip response "${place%:*}" "${place#*:}"
		run -4 sgpu-seal open -k owner.jwk -C out response
		[ ! -e out/out.f32 ]
		[ ! -e out/bias.copy.f32 ]
		hostile flip response "${place%:*}" "${place#*:}"
		sgpu-seal open -q --force -k owner.jwk -C good response
		cmp expected.f32 good/out.f32
		wait_for leases 0
	done
}

# spoils DEED: while somebody does that to the pool, results are right or are not given, and the worker stays.
spoils() {
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C first
	pid=$(serving_pid)
	start spoiler hostile "$1"
	wait_for test -s spoiler
	for _ in 1 2 3 4 5 6 7 8; do
		rm -rf out response
		seal packed >sealed
		sgpu-run -q --lease -o response sealed || [ $? -eq 5 ]
		if sgpu-seal open -q -k owner.jwk -C out response; then
			cmp expected.f32 out/out.f32
		else
			[ ! -e out/out.f32 ] || cmp expected.f32 out/out.f32
		fi
		[ ! -e out/bias.copy.f32 ] || cmp bias.f32 out/bias.copy.f32
	done
	kill -9 "$STARTED"
	[ "$(serving_pid)" = "$pid" ]
}

@test "whoever writes to a pool while it is used spoils results, and never forges one" {
	requires python3
	spoils scribble
}

@test "whoever takes pages of a pool away spoils results, and never forges one" {
	requires python3
	spoils punch
}

# by_leases OUT: a batch, both ways.
by_leases() {
	seal packed | sgpu-run -q --lease | sgpu-seal open -q -k owner.jwk -C "$1" && cmp expected.f32 "$1/out.f32"
}

# two_users: a server that all users reach, with a worker of this one, $own, and one of another, $theirs.
two_users() {
	share_socket
	start_server -k runner.jwk --device cpu --leases 4M --everybody
	by_leases first
	own=$(serving_pid)
	start other env SERVE_UID=65534 SGPU_SOCKET="$SOCKET" python3 "$BATS_TEST_DIRNAME/lease_client.py" hold 4096
	wait_for grep -qs lease other
	theirs=$(status workers | awk '$2 == "serving" && $3 == 65534 { print $1 }')
}

# server_knows_end: of the worker; until then the server may hand it a batch, whose submission fails.
server_knows_end() {
	[ -z "$(status workers | awk -v own="$own" '$1 == own')" ]
}

# is_replaced: the worker is, and the other user's did not notice.
is_replaced() {
	wait_for server_knows_end
	by_leases second
	[ "$(status workers | awk '$2 == "serving" && $3 == 0 { print $1 }')" != "$own" ]
	[ "$(status workers | awk '$2 == "serving" && $3 == 65534 { print $1 }')" = "$theirs" ]
	leases 1
	kill -0 "$STARTED"
	[ -z "$(find . "$SHARED" -name 'core*')" ]
}

@test "a worker that ends at a page of its pool is replaced, and others do not notice" {
	requires root python3
	two_users
	kill -BUS "$own"
	is_replaced
	[ -n "${SGPU_SANITIZE:-}" ] || assert_contains "$(cat log)" "signal 7" # a sanitizer ends a process in its own way
}

@test "requests for leases that break off at any point leave none" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 4M
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	pid=$(serving_pid)
	run -0 hostile attack
	[ "$output" = "done" ]
	wait_for leases 0
	[ "$(serving_pid)" = "$pid" ]
	rm -r out
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
}

@test "the leases of another user are unknown" {
	requires root python3
	share_socket
	start_server -k runner.jwk --device cpu --leases 4M --everybody
	seal packed | sgpu-run --lease -o response
	id=$(lease_of response)
	SERVE_UID=65534 run -0 hostile ask 0 "$id"
	assert_contains "$output" "there is no lease '$id'"
	run -0 hostile ask 0 "$id"
	assert_contains "$output" "is another batch's"
	sgpu-seal open -k owner.jwk -C out response
	cmp expected.f32 out/out.f32
}

@test "a tenant that gets one lease after the other keeps nobody else from a worker for long" {
	requires root python3
	share_socket
	start_server -k runner.jwk --device cpu --leases 4M --everybody --workers 1 --ahead 0 --stall 1s
	# Whoever has had turns, too, is served before one who has only had the worker.
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C first
	SERVE_UID=65534 start renewer hostile renew
	wait_for grep -qs renews renewer
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
}

@test "a tenant that keeps leases keeps nobody else from a worker for long" {
	requires root python3
	share_socket
	start_server -k runner.jwk --device cpu --leases 4M --everybody --workers 1 --ahead 0 --stall 1s
	SERVE_UID=65534 start holder hostile hold 1000000
	wait_for grep -qs lease holder
	seal packed | sgpu-run --lease | sgpu-seal open -k owner.jwk -C out
	cmp expected.f32 out/out.f32
}

@test "status tells of leases and of the memory that they have" {
	requires python3
	start_server -k runner.jwk --device cpu --leases 3M
	seal packed >sealed
	run -0 sgpu-serve status
	[[ $output =~ leases\ +leased_bytes\ +pool_bytes ]]
	run -0 sgpu-serve status --prometheus
	assert_contains "$output" "sgpu_leases 1"
	sgpu-serve status --json | python3 -c '
import json, sys
worker = next(w for w in json.load(sys.stdin)["status"]["workers"] if w["state"] == "serving")
assert worker["leases"] == 1 and worker["leased_bytes"] >= 16000 and worker["pool_bytes"] == 4 << 20, worker'
}

@test "a pool that the machine has no memory for keeps the server from its start" {
	run -3 --separate-stderr sgpu-serve -k runner.jwk --device cpu --leases 30T
	assert_contains "$stderr" "is more than the"
}
