#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-run worker: a directory of batches, each answered once, whatever happens to its workers.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys 2>/dev/null
	small_job 64
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed
	mkdir spool
}

worker() {
	sgpu-run worker -k runner.jwk --device cpu "$@"
}

# fill COUNT [DIR]: so many batches, of one content.
fill() {
	local i
	for ((i = 1; i <= $1; i++)); do
		cp sealed "${2:-spool}/b$i"
	done
}

# opens RESPONSE...: each of them verifies, and is right.
opens() {
	local response
	for response in "$@"; do
		rm -rf opened
		sgpu-seal open -q -k owner.jwk -C opened "$response" && assert_same expected.f32 opened/out.f32 || return 1
	done
}

# all_answered COUNT: every batch is done and has a response, and there is nothing else.
all_answered() {
	[ "$(find spool/done -type f | wc -l)" -eq "$1" ] &&
		[ "$(find spool -maxdepth 1 -name 'b*.response' | wc -l)" -eq "$1" ] &&
		[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ] &&
		[ -z "$(find spool -maxdepth 1 -type f ! -name '*.response')" ]
}

@test "a worker answers each batch of a directory, and puts it away" {
	for i in 1 2 3; do
		sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o spool/b$i
	done
	run --separate-stderr -0 worker spool
	assert_contains "$stderr" "'spool/b2': batch "
	assert_contains "$stderr" "3 batches answered, 0 of them with failed segments; 0 failed"
	all_answered 3
	opens spool/b{1,2,3}.response
	run -0 sgpu-run worker --missing spool
	[ -z "$output" ]
	# A second time there is nothing to do.
	run -0 worker -q spool
	all_answered 3
}

@test "responses go to the directory that is asked for, and --remove keeps no batch" {
	fill 3
	run -0 worker -q --remove -o results/new spool
	[ "$(ls results/new)" = "$(printf 'b%d.response\n' 1 2 3)" ]
	opens results/new/*
	[ -z "$(find spool -type f)" ]
}

@test "a batch that is refused goes to failed, with a reason; the others are answered" {
	requires jq
	fill 2
	head -c 3000 sealed >spool/short
	echo hello >spool/text
	sgpu-seal keygen -q --x25519 -o other.jwk
	sgpu-seal pubkey -q -o other.pub.jwk other.jwk
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r other.pub.jwk -o spool/foreign
	run --separate-stderr -4 worker spool
	assert_contains "$stderr" "2 batches answered, 0 of them with failed segments; 3 failed"
	[ "$(ls spool/failed)" = "$(printf '%s\n%s.reason\n' foreign foreign short short text text)" ]
	assert_contains "$(cat spool/failed/foreign.reason)" "EKEY: "
	assert_contains "$(cat spool/failed/short.reason)" "EINVALID: "
	[ "$(cat spool/failed/*.reason | wc -l)" -eq 3 ]
	assert_no_file spool/text.response spool/short.response spool/foreign.response
	opens spool/b1.response spool/b2.response
	run -1 sgpu-run worker --missing --json spool
	[ "$(jq -r '.[] | .batch + " " + .state' <<<"$output" | sort)" = "$(printf '%s failed\n' foreign short text)" ]
	# Without the one that is another's, the answer is no.
	rm -r spool/failed spool/*.response
	echo hello >spool/text
	run -1 worker -q spool
}

@test "failed segments are in the response, and in the exit status" {
	fill 1
	cp sealed spool/torn
	flip_byte spool/torn $(($(grep -abo segments/scan sealed | tail -n 1 | cut -d: -f1) + 600))
	run --separate-stderr -5 worker spool
	assert_contains "$stderr" "2 batches answered, 1 of them with failed segments; 0 failed"
	run -5 sgpu-seal open -q -k owner.jwk -C opened spool/torn.response
	[ -f spool/done/torn ]
}

@test "killed with -9 at any moment, two workers leave each batch with exactly one response" {
	local count=400 kills=0 a b
	fill $count
	while [ -n "$(find spool -maxdepth 1 -name 'b*' ! -name '*.response')$(find spool/.claimed -mindepth 2 2>/dev/null)" ]; do
		worker -q spool 2>>messages & a=$!
		worker -q spool 2>>messages & b=$!
		sleep "0.0$((RANDOM % 6 + 2))"
		kill -9 $a 2>/dev/null && kills=$((kills + 1))
		sleep "0.00$((RANDOM % 9))"
		kill -9 $b 2>/dev/null && kills=$((kills + 1))
		wait $a $b || true
		[ $kills -lt 400 ]
	done
	echo "$kills kills" >&3
	run -0 worker spool
	all_answered $count
	for i in $(seq 1 20 $count); do
		opens spool/b"$i".response
	done
	# All are whole, and as long as the first.
	[ "$(stat -c %s spool/b*.response | sort -u | wc -l)" -le 3 ]
}
