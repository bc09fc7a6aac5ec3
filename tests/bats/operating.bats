#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016,SC2030,SC2031 # bats sets stderr; sources quote; each test is a process of its own
#
# docs/operating.md says what is so: its commands run, and its messages are those of the programs.

load helpers

GUIDE=$SGPU_TOP/docs/operating.md

# commands NAME: the box of the guide behind <!-- run: NAME -->.
commands() {
	awk -v mark="<!-- run: $1 -->" '$0 == mark { armed = 1; next } armed && /^```/ { if (inside) exit; inside = 1; next } inside' "$GUIDE"
}

# do_as_told NAME: runs the box, with the directories of the system below $ROOT, and what only a system can do as below.
do_as_told() {
	commands "$1" >box
	[ -s box ]
	sed -E -i -e "s,/usr/local/share/doc/sgpu/systemd,$SGPU_TOP/systemd,g" -e "s,(^|[ =])/(etc|var|run)/,\\1$ROOT/\\2/,g" box
	# The unit's drop-in has the paths of a system.
	sed -i "/^ExecStart=/s,$ROOT,,g" box
	bash -eu box
}

# A word of a system: it does nothing, or what the rest of the line says.
stub() {
	printf '#!/bin/bash\n%s\n' "${2:-true}" >"stubs/$1"
	chmod +x "stubs/$1"
}

setup() {
	ROOT=$(mktemp -d /tmp/sgpu-operating.XXXXXX)
	chmod 755 "$ROOT"
	umask 022
	cd "$ROOT" || return 1
	mkdir -p stubs etc/systemd/system var/lib run
	export ROOT PATH=$PWD/stubs:$PATH
}

teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || cat manager.log journal
	if [ -n "${MANAGER:-}" ]; then
		kill "$MANAGER" 2>/dev/null || true
		wait "$MANAGER" || true
	fi
	cd /
	case $ROOT in
	/tmp/sgpu-operating.*) rm -rf "$ROOT" ;;
	esac
	sgpu_teardown
}

tell_manager() {
	echo "$1" >"$ROOT/commands"
	read -r _ <"$ROOT/answers"
}

# a_system: users, units and so on, as far as the guide needs them.
a_system() {
	requires python3 bash
	mkfifo commands answers
	stub useradd
	stub make
	if [ "$(id -u)" -eq 0 ]; then
		# The user sgpu, who need not exist, and what they can reach of the programs.
		export SERVICE_UID=61003
		cp "$(command -v sgpu-run)" "$(command -v sgpu-serve)" "$(command -v sgpu-enclave)" stubs/
		stub chown 'exec /usr/bin/chown "${1/sgpu:/$SERVICE_UID:$SERVICE_UID}" "${@:2}"'
		stub install 'exec /usr/bin/install "${@/#sgpu/$SERVICE_UID}"'
	else
		stub chown
		stub install 'for word; do shift; case $word in root | sgpu) ;; -o | -g) ;; *) set -- "$@" "$word" ;; esac; done; exec /usr/bin/install "$@"'
	fi
	stub systemctl 'case $1 in reload | restart) echo "$1" >"$ROOT/commands"; read -r _ <"$ROOT/answers" ;; enable) touch "$ROOT/enabled"; until [ -S "$ROOT/run/sgpu/run.sock" ]; do sleep 0.05; done ;; esac'
	sgpu-seal keygen -q -o owner.jwk
	sgpu-seal keyinfo --owner -o owners owner.jwk
	small_job 500
	sgpu-manifest pack job.json >packed
}

# manage: once the units are there, systemd would.
manage() {
	wait_for test -e enabled
	exec python3 "$BATS_TEST_DIRNAME/operating_manager.py" "$ROOT" 2>manager.log 3>&-
}

# sealed_to KEY [OWNER] >BATCH
sealed_to() {
	sgpu-seal seal -q -k "${2:-owner.jwk}" -r "$1" packed
}

# the_service_runs: it is set up, and a batch went through it.
the_service_runs() {
	a_system
	manage & MANAGER=$!
	do_as_told set-up
	sealed_to runner.pub.jwk >job.batch
	do_as_told submit
	sgpu-seal open -q -k owner.jwk -C opened job.response
	assert_same expected.f32 opened/out.f32
	export SGPU_SOCKET=$ROOT/run/sgpu/run.sock
}

@test "a service is set up as the guide says, runs a batch, and can be watched" {
	requires jq
	the_service_runs
	[ "$(stat -c %a etc/sgpu)" = 750 ]
	run -0 do_as_told watch
	assert_contains "$output" "serving"
	assert_contains "$output" '{"status":'
	assert_contains "$output" "sgpu_batches_total{"
	# The names that the guide says to look at.
	for name in 'sgpu_batches_total{' sgpu_batches_waiting; do
		grep -qF "$name" "$GUIDE"
		assert_contains "$output" "$name"
	done
	[ "$(sgpu-serve status --json | jq -r '.status.workers[].state' | grep -cx serving)" -eq 1 ]
}

@test "the runner's key is rotated as the guide says: both are taken, then the new one alone" {
	the_service_runs
	sealed_to runner.pub.jwk >late
	sealed_to runner.pub.jwk >later
	do_as_told rotate-key
	sealed_to runner.new.pub.jwk >new
	run -0 sgpu-run -o late.response late
	run -0 sgpu-run -o new.response new
	do_as_told drop-key
	sealed_to runner.new.pub.jwk >newer
	run --separate-stderr -4 sgpu-run -o later.response later
	assert_contains "$stderr" "none of the keys is a recipient of this"
	run -0 sgpu-run -o newer.response newer
	[ ! -e etc/sgpu/old.jwk ]
}

@test "the list of owners is replaced as the guide says, and nothing else has to stop" {
	the_service_runs
	sgpu-seal keygen -q -o second.jwk
	sgpu-seal keyinfo --owner -o owners.new second.jwk
	sealed_to runner.pub.jwk second.jwk >second
	sealed_to runner.pub.jwk >first
	run -4 sgpu-run -o response second
	do_as_told rotate-owners
	wait_for grep -q "new workers serve" journal
	run -0 sgpu-run -o response second
	run -4 sgpu-run -o response.first first
}

@test "a key that leaked is revoked as the guide says, and the one that takes its place is not" {
	requires jq
	local nonce=00112233445566778899aabbccddeeff
	sgpu-measure keygen -q -o ca.pem --authority ca.crt
	sgpu-measure keygen -q -o ek.pem --request ek.request
	do_as_told rotate-ak
	sgpu-measure quote -q -k ak.pem --certificate ak.crt --nonce $nonce --device cpu -o quote
	sgpu-measure policy -q -o policy.json quote
	run -0 sgpu-measure appraise -p policy.json --roots ca.crt --nonce $nonce quote
	do_as_told revoke
	run --separate-stderr -4 sgpu-measure appraise -p policy.json --roots ca.crt --nonce $nonce quote
	assert_contains "$stderr" "the attestation key is revoked"
	rm ak.pem
	do_as_told rotate-ak
	sgpu-measure quote -q -k ak.pem --certificate ak.crt --nonce $nonce --device cpu -o quote
	run -0 sgpu-measure appraise -p policy.json --roots ca.crt --nonce $nonce quote
	do_as_told revoke
	run -4 sgpu-measure appraise -p policy.json --roots ca.crt --nonce $nonce quote
	[ "$(jq '.revoked | length' policy.json)" -eq 2 ]
}

@test "a service is attested as the guide says, and owners seal to the worker that runs their batch" {
	the_service_runs
	sgpu-measure keygen -q -o ca.pem --authority ca.crt
	do_as_told attest-set-up
	sgpu-measure policy -q --build "$SGPU_BUILD" --owners owners --at-least plain -o policy.json 2>/dev/null
	[ -z "${SGPU_SANITIZE:-}" ] || sed -i 's/"debug": false/"debug": true/; s/"confinement": true/"confinement": false/' policy.json
	do_as_told attest
	sgpu-seal open -q -k owner.jwk -C attested job.response
	assert_same expected.f32 attested/out.f32
	# The key of the service before is none of this one.
	sealed_to runner.pub.jwk >old
	run --separate-stderr -4 sgpu-run -o old.response old
	assert_contains "$stderr" "none of the keys is a recipient of this"
}

# One after another while the service restarts. The only refusal is that of a batch that was not begun.
submit_all_the_while() {
	local i
	for ((i = 0; ; i++)); do
		sealed_to runner.pub.jwk >while
		while ! sgpu-run -o "while.$i" while 2>refusal; do
			grep -q "the server is stopping" refusal || return 1
		done
		touch once
		[ ! -e enough ] || break
	done
}

@test "an upgrade as in the guide loses no client's batch" {
	local pid submitter
	the_service_runs
	pid=$(sgpu-serve status | awk 'NR == 1 { sub(",", "", $2); print $2 }')
	submit_all_the_while 3>&- & submitter=$!
	wait_for test -e once
	do_as_told upgrade
	do_as_told upgrade
	touch enough
	wait $submitter
	[ "$(sgpu-serve status | awk 'NR == 1 { sub(",", "", $2); print $2 }')" != "$pid" ]
	# A client that comes while there is no server at all waits for one.
	tell_manager stop
	sealed_to runner.pub.jwk >alone
	run -0 sgpu-run -o alone.response alone
}

@test "a spool is emptied as the guide says" {
	a_system
	mkdir keys incoming spool
	sgpu-seal keygen -q --x25519 -o keys/runner.jwk
	sgpu-seal pubkey -q -o runner.pub.jwk keys/runner.jwk
	cp owners keys/owners
	sealed_to runner.pub.jwk >incoming/one.batch
	sealed_to runner.pub.jwk >incoming/two.batch
	run -0 do_as_told spool
	assert_contains "$output" "all done"
	[ "$(ls responses)" = "$(printf '%s\n' one.batch.response two.batch.response)" ]
}

# messages FILE: each part of a message in the first column of its last table, without what stands for names and numbers.
messages() {
	sed -n '/^| message /,$p' "$1" | awk -F ' \\| ' 'NR > 2 && /^\| / { print $1 }' | grep -o '`[^`]*`' | tr -d '`' |
		sed 's/\.\.\./\n/g' | sed -E 's/^[ ,:]+//; s/[ ,:]+$//' | grep -E '.{4}'
}

# unknown_messages FILE: those that no program prints. Texts that the sources break are put together first.
unknown_messages() {
	local part
	find "$SGPU_TOP/tools" "$SGPU_TOP/lib" -name '*.[ch]' -exec cat {} + | sed -z 's/"[[:space:]]*"//g' >sources
	messages "$1" | while IFS= read -r part; do
		grep -qF -- "$part" sources || [ "$part" = "$(LC_ALL=C python3 -c 'import os; print(os.strerror(13))')" ] || echo "$part"
	done
}

@test "the programs print each message that the guide quotes" {
	requires python3
	[ "$(messages "$GUIDE" | wc -l)" -ge 25 ]
	[ "$(unknown_messages "$GUIDE")" = "" ]
	# It can fail.
	sed 's/the server is stopping/the server has stopped/' "$GUIDE" >wrong.md
	[ "$(unknown_messages wrong.md)" = "the server has stopped" ]
}

@test "what the guide says of a table or a box stands in it, and every box is run" {
	# A box for each mark, and a use of each mark in this file.
	grep -o '^<!-- run: [a-z-]* -->' "$GUIDE" | cut -d' ' -f3 | sort >marked
	grep -oE 'do_as_told [a-z-]+' "$BATS_TEST_FILENAME" | cut -d' ' -f2 | sort -u >used
	assert_same marked used
	[ "$(grep -c '^```sh$' "$GUIDE")" -eq "$(wc -l <marked)" ]
	[ "$(grep -oE '\*Tested\*' "$GUIDE" | wc -l)" -eq "$(wc -l <marked)" ]
}

# ended PID: nothing of it runs or waits to be buried.
ended() {
	! kill -0 "$1" 2>/dev/null
}

@test "the demo of a service has two tenants whose results are right and their own, and is gone afterwards" {
	run --separate-stderr -0 "$SGPU_TOP/scripts/demo-service.sh" service
	assert_contains "$output" "alice: 8 batches, and each result is right"
	assert_contains "$output" "bob: 8 batches, and each result is right"
	assert_contains "$output" "Alice cannot open Bob's"
	assert_contains "$output" "the batch was taken before: each runs once"
	assert_contains "$output" "the service has stopped"
	[ ! -e "$(sed -n 's,^serving at \(/tmp/sgpu-service[^/]*\)/.*,\1,p' <<<"$output")" ]
}

@test "a demo of a service that is interrupted leaves no process and no file" {
	local pid shared
	"$SGPU_TOP/scripts/demo-service.sh" >said 2>&1 3>&- & pid=$!
	wait_for grep -q '^serving at' said
	shared=$(sed -n 's,^serving at \(/tmp/sgpu-service[^/]*\)/.*,\1,p' said)
	server=$(sgpu-serve status --socket "$shared/service/run.sock" | awk 'NR == 1 { sub(",", "", $2); print $2 }') || true
	kill -TERM $pid || true
	wait $pid || true
	[ ! -e "$shared" ]
	[ -z "$server" ] || ended "$server"
}
