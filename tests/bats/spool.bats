#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-worker: a directory of batches, each answered once, whatever happens to its workers.
# shellcheck disable=SC2154 # bats sets stderr

load spool

@test "a worker answers each batch of a directory, and puts it away" {
	for i in 1 2 3; do
		sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o spool/b$i
	done
	run --separate-stderr -0 worker spool
	assert_contains "$stderr" "'spool/b2': batch "
	assert_contains "$stderr" "3 batches answered, 0 of them with failed segments; 0 failed"
	all_answered 3
	opens spool/b{1,2,3}.response
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
	echo hello >spool/text.reason
	# Still one that has the form of a MAC.
	sed -E 's/("mac":")A/\1B/; t; s/("mac":")[^A]/\1A/' sealed >spool/altered
	run --separate-stderr -4 worker spool
	assert_contains "$stderr" "2 batches answered, 0 of them with failed segments; 3 failed, 0 for other keys"
	[ "$(ls spool/failed)" = "$(printf '%s\n%s.reason\n' altered altered short short text.reason text.reason)" ]
	assert_contains "$(cat spool/failed/altered.reason)" "EAUTH: "
	assert_contains "$(cat spool/failed/short.reason)" "EINVALID: "
	[ "$(cat spool/failed/{altered,short,text.reason}.reason | wc -l)" -eq 3 ]
	assert_no_file spool/text.reason.response spool/short.response spool/altered.response
	opens spool/b1.response spool/b2.response
	# Without the one that does not verify, the answer is no.
	rm -r spool/failed spool/*.response
	echo hello >spool/text
	run -1 worker -q spool
}

# left_as_it_was FILE...: the same files, which nobody has written, renamed or linked meanwhile.
left_as_it_was() {
	[ "$(stat -c '%n %i %s %y %z' "$@")" = "$before" ]
}

@test "batches for other keys stay where they are, untouched, and a worker that finds no others ends with 75" {
	local before claims
	claims=spool/.claimed/here.$(cut -c 1-8 /proc/sys/kernel/random/boot_id).7.00000001
	sgpu-seal keygen -q --x25519 -o other.jwk
	sgpu-seal pubkey -q -o other.pub.jwk other.jwk
	fill 2
	before=$(stat -c '%n %i %s %y %z' spool/b1 spool/b2)
	run --separate-stderr -75 sgpu-worker -k other.jwk --device cpu spool
	assert_contains "$stderr" "0 batches answered, 0 of them with failed segments; 0 failed, 2 for other keys"
	run -75 sgpu-worker -q --device cpu spool # no key at all
	left_as_it_was spool/b1 spool/b2
	[ -z "$(find spool/failed spool/done spool/.claimed -mindepth 1)" ]
	# Its own it answers, and leaves the others; those that a dead worker had, too.
	mkdir -p "$claims"
	cp sealed "$claims/b3"
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r other.pub.jwk -o spool/c1
	run --separate-stderr -0 sgpu-worker --json -k other.jwk --device cpu spool
	assert_contains "$output" '"for_others":2'
	opens spool/c1.response
	left_as_it_was spool/b1 spool/b2
	[ -f "$claims/b3" ]
	run -0 worker -q spool
	opens spool/b{1,2,3}.response
	[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ]
}

@test "a file that its owner holds under a lease fails as that file alone" {
	requires python3
	fill 2
	python3 -c '
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open("spool/b1", os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
open("held", "w").close()
time.sleep(300)' 3>&- &
	local holder=$!
	wait_for [ -e held ]
	run --separate-stderr -1 worker spool
	kill "$holder"
	assert_contains "$stderr" "'spool/b1' is under a lease of another program"
	opens spool/b2.response
}

@test "what is damaged is for no other keys: it fails, with whichever worker looks first" {
	local before
	sgpu-seal keygen -q --x25519 -o other.jwk
	rewrite sealed spool/kind 'payload["recipients"][0]["kind"] = "hpkx"'
	rewrite sealed spool/member 'payload["recipientz"] = payload.pop("recipients")'
	# A name of a key has only its form; and the manifest, which may be long, is for those who can run it.
	rewrite sealed spool/kid 'for one in payload["recipients"]: one["kid"] = "A" + one["kid"][1:]'
	sed 's/small-job/small-jab/' sealed >spool/manifest
	run -1 cmp -s sealed spool/manifest
	before=$(stat -c '%n %i %s %y %z' spool/kid spool/manifest)
	run -1 sgpu-worker -q -k other.jwk --device cpu spool
	[ "$(ls spool/failed)" = "$(printf '%s\n%s.reason\n' kind kind member member)" ]
	left_as_it_was spool/kid spool/manifest
	run -4 worker -q spool
	[ -f spool/failed/manifest ]
}

@test "a batch whose manifest nobody here has fails alone" {
	fill 3
	sed 's/small-job/other-job/' job.json >other.json
	sgpu-manifest pack other.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk >other
	rewrite other spool/bare 'del members["manifest.json"]; manifest = None'
	run --separate-stderr -3 worker spool
	assert_contains "$stderr" "3 batches answered, 0 of them with failed segments; 1 failed"
	assert_contains "$(cat spool/failed/bare.reason)" "EMANIFEST: "
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

@test "killed with -9 at any moment, two workers leave each batch one response" {
	local count=2000 kills=0 a b
	fill $count
	while [ $kills -lt 40 ] && [ "$(find spool/done -type f 2>/dev/null | wc -l)" -lt $count ]; do
		sgpu-worker -q -k runner.jwk --device cpu spool 2>>messages & a=$!
		sgpu-worker -q -k runner.jwk --device cpu spool 2>>messages & b=$!
		sleep "0.0$((RANDOM % 6 + 2))"
		kill -9 $a 2>/dev/null && kills=$((kills + 1))
		sleep "0.00$((RANDOM % 9))"
		kill -9 $b 2>/dev/null && kills=$((kills + 1))
		wait $a $b || true
	done
	[ $kills -ge 4 ]
	run -0 worker spool
	all_answered $count
	for i in $(seq 1 100 $count); do
		opens spool/b"$i".response
	done
	# All are whole, and as long as the first.
	[ "$(stat -c %s spool/b*.response | sort -u | wc -l)" -le 3 ]
}

@test "two workers share a directory: each batch runs once" {
	fill 300
	worker --json spool >one.json 2>one.log & local one=$!
	worker --json spool >two.json 2>two.log
	wait $one
	all_answered 300
	# Each was logged by one of them, once.
	[ "$(cat one.log two.log | grep -c '"status":"OK"')" -eq 300 ]
	[ "$(cat one.log two.log | grep -o '"file":"spool/b[0-9]*"' | sort -u | wc -l)" -eq 300 ]
}

@test "SIGTERM ends what is under way, gives back the rest, and ends by the signal" {
	local pid before status count
	# A machine may do all of the first before it is asked to stop.
	for count in 1500 6000 24000; do
		rm -rf spool
		mkdir spool
		fill $count
		sgpu-worker -q -k runner.jwk --device cpu spool 3>&- & pid=$!
		until [ -n "$(find spool -maxdepth 1 -name '*.response' -print -quit)" ]; do sleep 0.01; done
		kill -USR1 $pid || true
		kill -TERM $pid || true
		status=0
		wait $pid || status=$?
		[ "$status" -eq 0 ] || break
	done
	[ "$status" -eq 143 ]
	[ -z "$(find spool/.claimed -mindepth 1)" ]
	before=$(find spool/done -type f | wc -l)
	[ "$before" -lt $count ]
	[ "$(find spool -maxdepth 1 -name '*.response' | wc -l)" -eq "$before" ]
	[ "$(find spool -maxdepth 1 -name 'b*' ! -name '*.response' | wc -l)" -eq $((count - before)) ]
	run -0 worker -q spool
	all_answered $count
}

@test "what is no regular file, and what has no room for its response, is left alone and told" {
	local long
	long=$(printf 'x%.0s' {1..243}) # one more than there may be
	fill 1
	ln -s b1 spool/link
	mkfifo spool/pipe
	mkdir spool/directory
	cp sealed "spool/$long"
	cp sealed spool/.hidden
	cp sealed "spool/${long:0:242}"
	cp sealed $'spool/two\nlines'
	run --separate-stderr -1 worker spool
	assert_contains "$stderr" "'spool/link' is no regular file: it is left alone"
	assert_contains "$stderr" "'spool/pipe' is no regular file: it is left alone"
	assert_contains "$stderr" "has a name that is too long for that of a response: it is left alone"
	assert_contains "$stderr" "3 batches answered"
	[ -L spool/link ]
	[ -p spool/pipe ]
	[ -d spool/directory ]
	[ -f spool/.hidden ]
	[ -f "spool/$long" ]
	opens spool/b1.response "spool/${long:0:242}.response" $'spool/two\nlines.response'
	[ ! -e spool/link.response ]
	[ ! -e spool/pipe.response ]
}

@test "no key is a batch, and a key is left where it is" {
	ln runner.jwk spool/key
	cp owner.jwk spool/other
	cp runner.pub.jwk spool/public
	echo '-----BEGIN PRIVATE KEY-----' >spool/pem
	run --separate-stderr -1 worker spool
	assert_contains "$stderr" "'spool/key' is a key: it is left alone"
	assert_contains "$stderr" "; 0 failed"
	[ "$(ls spool)" = "$(printf '%s\n' "done" failed key other pem public)" ]
	[ -z "$(ls spool/failed)" ]
	[ "$(grep -c 'is a key: it is left alone' <<<"$stderr")" -eq 4 ]
	# No process that takes batches opens a directory of them, so a key below one is nobody's.
	mkdir spool/keys
	cp runner.jwk spool/keys
	run --separate-stderr -1 sgpu-worker -k spool/keys/runner.jwk --device cpu spool
	[ -f spool/keys/runner.jwk ]
}

@test "a file in the place of a response is never replaced; a response to the same batch is enough" {
	fill 2
	cp sealed spool/refused
	sgpu-run -q -k runner.jwk --device cpu -o spool/b1.response sealed
	echo mine >spool/b2.response
	sgpu-seal keygen -q --x25519 -o other.jwk
	run -4 bash -c 'sgpu-run -k other.jwk sealed >spool/refused.response'
	[ "$(tar tf spool/refused.response)" = refusal.json ]
	cp spool/refused.response spool/refusal
	cp spool/b1.response before
	run --separate-stderr -4 worker spool
	assert_contains "$stderr" "1 batches answered, 0 of them with failed segments; 3 failed"
	assert_contains "$(cat spool/failed/refused.reason)" "'spool/refused.response' is there already, and is no response to this batch"
	assert_contains "$(cat spool/failed/refusal.reason)" "EINVALID: 'spool/refusal' is a refusal, not a batch"
	assert_no_file spool/refusal.response
	assert_same before spool/b1.response
	[ "$(cat spool/b2.response)" = mine ]
	[ -f spool/done/b1 ]
	assert_contains "$(cat spool/failed/b2.reason)" "'spool/b2.response' is there already, and is no response to this batch"
	# Nor is one to a batch whose id differs in its last bits.
	rewrite before spool/b6.response 'id = data_of(payload["batch_id"]);
payload["batch_id"] = text(id[:-1] + bytes([id[-1] ^ 1]))'
	cp sealed spool/b6
	# A link is no response, and is not followed.
	cp sealed spool/b3
	ln -s ../before spool/b3.response
	cp sealed spool/b4
	mkdir spool/b4.response
	cp sealed spool/b5
	ln -s nowhere spool/b5.response
	run -4 worker -q spool
	[ -L spool/b3.response ]
	[ -d spool/b4.response ]
	[ -f spool/failed/b3 ]
	[ -f spool/failed/b4 ]
	[ -f spool/failed/b6 ]
	[ ! -e nowhere ]
	[ ! -e spool/nowhere ]
	[ -f spool/failed/b5 ]
	assert_same before before
}

@test "a name that comes again gets a number where the batches are kept" {
	fill 1
	run -0 worker -q spool
	rm spool/b1.response
	fill 1
	run -0 worker -q spool
	[ "$(ls spool/done)" = "$(printf 'b1\nb1.1\n')" ]
	echo no >spool/x
	run -1 worker -q spool
	echo no >spool/x
	echo no >spool/x.reason
	run -1 worker -q spool
	[ "$(ls spool/failed)" = "$(printf '%s\n' x x.1 x.1.reason x.reason x.reason.1 x.reason.1.reason | sort)" ] ||
		[ "$(find spool/failed -name '*.reason' | wc -l)" -ge 3 ]
	grep -q EINVALID spool/failed/x.reason
}

@test "a name that has come a thousand times stops no worker" {
	mkdir -p spool/done spool/failed
	seq -f 'spool/done/b1.%.0f' 999 | xargs touch spool/done/b1
	seq -f 'spool/failed/x.%.0f' 999 | xargs touch spool/failed/x
	fill 2
	echo no >spool/x
	run -1 worker -q spool
	[ -z "$(find spool/.claimed -mindepth 1)" ]
	opens spool/b{1,2}.response
	[ "$(find spool/done -type f -size +0 | wc -l)" -eq 2 ]
	[ "$(find spool/failed -type f -size +0 | wc -l)" -eq 2 ]
}

@test "a worker whose claims somebody removes says so, and not that nothing is left" {
	local one i
	fill 1500
	worker -q spool 2>messages & one=$!
	for ((i = 0; i < 5000; i++)); do
		rmdir spool/.claimed/*/ 2>/dev/null && break
		kill -0 $one 2>/dev/null || break
	done
	run -0 find spool/.claimed -mindepth 1 -maxdepth 1 -type d
	[ -z "$output" ] || skip "the worker never had an empty directory"
	if wait $one; then status=0; else status=$?; fi
	[ -n "$(find spool -maxdepth 1 -type f ! -name '*.response')" ] || skip "the worker was done"
	[ "$status" -eq 3 ]
	# Or it went between being made and being opened.
	grep -qE "somebody has removed|cannot make '\.claimed/.*: No such file" messages
	run -0 worker -q spool
	all_answered 1500
}

@test "a batch that somebody takes out of a worker's claims ends it not" {
	local one removed=
	fill 1500
	worker -q spool 2>messages & one=$!
	while [ -z "$removed" ] && ! [ "$(find spool/done -type f 2>/dev/null | wc -l)" -eq 1500 ]; do
		removed=$(rm -v spool/.claimed/*/b* 2>/dev/null || true)
	done
	wait $one || true
	[ -n "$removed" ] || skip "the worker was done"
	run ! grep "cannot put" messages
	[ -z "$(find spool -maxdepth 1 -type f ! -name '*.response')" ]
}

@test "a batch names no region, whoever signed it" {
	sgpu-seal keyinfo --owner owner.jwk >owners
	fill 1
	sgpu-stage load --keep <sealed >spool/staged
	run --separate-stderr -4 worker -q --owners owners spool
	assert_contains "$stderr" "in a region, and batches of a directory name no regions"
	opens spool/b1.response
}

@test "no batch of another user gets into a file of the worker's, whatever its umask" {
	requires root setpriv
	fill 1
	echo hello >spool/text
	chgrp 4000 spool
	chmod 2770 spool
	# shellcheck disable=SC2016
	as_group() {
		(cd spool && setpriv --reuid 3002 --regid 4000 --clear-groups sh -c "$1" <../sealed)
	}
	(umask 000 && run -1 worker -q spool)
	[ "$(find spool -type f ! -user 3002 -perm /022)" = '' ]
	[ "$(stat -c %a spool/b1.response spool/failed/text.reason)" = $'644\n644' ]
	run ! as_group 'cat >b1.response'
	run ! as_group 'cat >failed/text.reason'
}

@test "what another user keeps from being moved ends no worker, and is told" {
	requires root setpriv
	local boot claims
	boot=$(cut -c 1-8 /proc/sys/kernel/random/boot_id)
	claims=spool/.claimed/here.$boot.7.00000001
	chmod 755 .
	install -o 3002 -m 600 runner.jwk theirs.jwk
	as_other() {
		run --separate-stderr "$1" setpriv --reuid 3002 --regid 3002 --clear-groups \
			sgpu-worker -q --json -k theirs.jwk --device cpu "${@:2}" spool
	}
	# Claims that nobody else can change, as anybody with rights on the directory can make them.
	mkdir -p "$claims"
	echo no >"$claims/x"
	chmod -R a+rX "$claims"
	fill 3
	chmod 777 spool spool/.claimed
	chmod 644 spool/b?
	as_other -1
	assert_contains "$output" '"answered":3,"segments_failed":0,"failed":0,"left_alone":1'
	assert_contains "$stderr" "'$claims/x' is not to be moved by this user: it is left alone"
	[ -f "$claims/x" ]
	# A lock that only another user may open is held.
	mkdir -m 777 "${claims//$boot/00000000}"
	(umask 077 && : >"${claims//$boot/00000000}.lock")
	cp sealed "${claims//$boot/00000000}/busy"
	as_other -1 --reclaim
	[ -f "${claims//$boot/00000000}/busy" ]
	# A directory in which each may move their own files alone.
	rm -r spool/.claimed spool/b?.response
	fill 3
	chmod 644 spool/b?
	chown 3002 spool/b[12]
	chmod 1777 spool
	as_other -1
	assert_contains "$output" '"answered":2,"segments_failed":0,"failed":0,"left_alone":1'
	assert_contains "$stderr" "'spool/b3' is not to be moved by this user: it is left alone"
	[ -f spool/b3 ]
	# What cannot be moved there, as a file with another project's quota.
	run --separate-stderr unshare --mount bash -c 'mount -t tmpfs tmpfs spool/.claimed || exit 77
		exec sgpu-worker -q -k runner.jwk --device cpu spool'
	[ "$status" -ne 77 ] || skip "cannot mount a tmpfs"
	[ "$status" -eq 1 ]
	assert_contains "$stderr" "'spool/b3' is not to be moved by this user: it is left alone"
}

@test "claims of another host are taken back with --reclaim alone; not from a worker that holds its lock" {
	requires jq
	local dead=spool/.claimed/elsewhere.00000000.7.00000001 live=spool/.claimed/elsewhere.00000000.7.00000002
	fill 1
	mkdir -p $dead $live
	: >$dead.lock
	cp sealed $dead/far
	cp sealed $live/busy
	exec 7>$live.lock
	flock -x 7
	run -0 worker -q spool
	[ -f spool/b1.response ]
	[ -f $dead/far ]
	[ -f $live/busy ]
	run -0 worker -q --reclaim spool
	opens spool/far.response
	[ -f $live/busy ]
	[ ! -e $dead ]
	[ ! -e $dead.lock ]
	exec 7>&-
	run -0 worker -q --reclaim spool
	opens spool/busy.response
	[ -z "$(find spool/.claimed -mindepth 1)" ]
}

@test "what a dead worker of this boot had is taken back, also when only its lock is left" {
	local boot
	boot=$(cut -c 1-8 /proc/sys/kernel/random/boot_id)
	mkdir -p "spool/.claimed/here.$boot.7.00000001" "spool/.claimed/here.$boot.7.00000003"
	cp sealed "spool/.claimed/here.$boot.7.00000001/b1"
	: >"spool/.claimed/here.$boot.7.00000002.lock"
	run -0 worker -q spool
	all_answered 1
}

@test "with --state no batch runs twice: one that was taken from a killed worker says what to do" {
	local boot
	boot=$(cut -c 1-8 /proc/sys/kernel/random/boot_id)
	sgpu-seal keyinfo --owner owner.jwk >owners
	run -0 sgpu-run -q -k runner.jwk --device cpu --owners owners --state state -o lost sealed
	mkdir -p "spool/.claimed/here.$boot.7.00000001"
	cp sealed "spool/.claimed/here.$boot.7.00000001/b1"
	run --separate-stderr -4 worker --owners owners --state state spool
	assert_contains "$stderr" "taken before: each runs once (a worker that was killed had it)"
	assert_contains "$(cat spool/failed/b1.reason)" "seal it again to have it run again"
	assert_no_file spool/b1.response
	# Two of the same content: one of them runs.
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o spool/n1
	cp spool/n1 spool/n2
	run -4 worker -q --owners owners --state state spool
	[ "$(find spool -maxdepth 1 -name 'n?.response' | wc -l)" -eq 1 ]
	# In memory alone, nothing is known of a killed worker's.
	mkdir -p "spool/.claimed/here.$boot.7.00000001"
	cp sealed "spool/.claimed/here.$boot.7.00000001/b3"
	run -0 worker -q --owners owners spool
	opens spool/b3.response
}

@test "wrong words: what does not go together, and directories that are none" {
	run -2 worker
	run -2 worker -
	run -2 worker -o out -
	run -2 bash -c 'sgpu-worker -k - -o out spool <runner.jwk'
	run -2 worker --files . spool
	run -3 worker nothing
	[ ! -e out ]
	echo >spool/done
	run --separate-stderr -3 worker spool
	assert_contains "$stderr" "cannot open directory 'spool/done'"
	rm spool/done
	mkdir elsewhere
	ln -s ../elsewhere spool/failed
	run -3 worker spool
	[ -z "$(ls -A elsewhere)" ]
}

@test "files that vanish, shrink or change while a worker reads them fail nothing else" {
	local i pid
	fill 300
	(
		for ((i = 1; i <= 300; i += 3)); do
			rm -f spool/b$i
			truncate -c -s 1000 spool/b$((i + 1)) 2>/dev/null
			mv spool/b$((i + 2)) spool/c$((i + 2)) 2>/dev/null
		done
	) & pid=$!
	worker -q spool 2>messages || [ $? -eq 1 ] || { cat messages >&2; false; }
	wait $pid || true
	worker -q spool 2>messages || [ $? -eq 1 ] || { cat messages >&2; false; }
	[ -z "$(find spool/.claimed -mindepth 1)" ]
	# Nothing waits, and each batch is done with a response, or has failed with a reason.
	[ -z "$(find spool -maxdepth 1 -type f ! -name '*.response')" ]
	[ "$(find spool/done -type f | wc -l)" -eq "$(find spool -maxdepth 1 -name '*.response' | wc -l)" ]
	[ "$(find spool/failed -name '*.reason' | wc -l)" -eq "$(find spool/failed -type f ! -name '*.reason' | wc -l)" ]
	for i in $(find spool -maxdepth 1 -name '*.response' | head -n 10); do
		opens "$i"
	done
}

@test "on a full disk, and in a directory that cannot be written, a worker gives back what it has" {
	requires root mount
	fill 40
	# shellcheck disable=SC2016
	run --separate-stderr unshare --mount bash -c '
		mkdir -p out && mount -t tmpfs -o size=16k tmpfs out || exit 77
		sgpu-worker -q -k runner.jwk --device cpu -o out spool
		status=$?
		ls -A out | wc -l
		exit $status'
	[ "$status" -ne 77 ] || skip "cannot mount a tmpfs"
	[ "$status" -eq 3 ]
	assert_contains "$stderr" "No space left on device"
	[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ]
	[ "$output" -eq "$(find spool/done -type f | wc -l)" ]
	[ "$(find spool spool/done -maxdepth 1 -type f | wc -l)" -eq 40 ]
	# What cannot be told is not put away, either.
	echo no >spool/x
	# shellcheck disable=SC2016
	run --separate-stderr unshare --mount bash -c '
		mount -t tmpfs -o nr_inodes=1 tmpfs spool/failed || exit 77
		exec sgpu-worker -q -k runner.jwk --device cpu spool'
	[ "$status" -eq 3 ]
	[ -f spool/x ]
	[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ]
	mkdir -p spool/.claimed
	# shellcheck disable=SC2016
	run --separate-stderr unshare --mount bash -c '
		mount -t tmpfs -o nr_inodes=1 tmpfs spool/.claimed || exit 77
		exec sgpu-worker -q -k runner.jwk --device cpu spool'
	[ "$status" -eq 3 ]
	assert_contains "$stderr" "No space left on device"
	mkdir closed
	fill 2 closed
	run --separate-stderr unshare --mount bash -c '
		mount --bind closed closed && mount -o remount,bind,ro closed || exit 77
		exec sgpu-worker -q -k runner.jwk --device cpu closed'
	[ "$status" -eq 3 ]
	assert_contains "$stderr" "Read-only file system"
	[ "$(ls -A closed)" = "$(printf 'b1\nb2\n')" ]
}

@test "a batch whose response is larger than the disk has left keeps no other from being answered" {
	requires root mount jq
	small_job 300000 && sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >large
	# on_disk OPTION...: a worker whose responses go to a disk with 1 MiB left, on which it lists them in the end.
	on_disk() {
		# shellcheck disable=SC2016
		run --separate-stderr unshare --mount bash -c '
			mkdir -p out && mount -t tmpfs -o "size=${DISK:-16m}" tmpfs out || exit 77
			[ -n "$DISK" ] || head -c 15M /dev/zero >out/.other || exit 77
			sgpu-worker -q -k runner.jwk --device cpu -o out "$@" spool
			status=$?
			ls out | wc -l
			exit $status' sh "$@"
		[ "$status" -ne 77 ] || skip "cannot mount a tmpfs"
	}
	fill 30
	cp large spool/a
	cp large spool/z
	on_disk
	[ "$status" -eq 3 ]
	[ "$output" -eq 30 ]
	assert_contains "$stderr" "No space left on device"
	[ -f spool/a ] && [ -f spool/z ]
	[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ]
	[ "$(find spool/done -type f | wc -l)" -eq 30 ]
	rm -r spool/{a,z,done}
	# Alone, too: the disk may have more space later.
	cp large spool/a
	on_disk
	[ "$status" -eq 3 ]
	[ "$output" -eq 0 ]
	assert_contains "$stderr" "No space left on device"
	[ -f spool/a ]
	[ -z "$(find spool/failed spool/.claimed spool/done -mindepth 1)" ]
	# With --state it is recorded when it has its space, so it can run elsewhere.
	sgpu-seal keyinfo --owner owner.jwk >owners
	on_disk --owners owners --state state
	[ "$status" -eq 3 ]
	[ -f spool/a ]
	assert_contains "$stderr" "cannot reserve"
	run -0 worker -q --owners owners --state state spool
	opens spool/a.response
	mkdir again
	cp spool/done/a again
	run -4 worker -q --owners owners --state state again
	# The same for many small results, whose names take as much as they do, and for a limit on files.
	# shellcheck disable=SC2016 # jq's
	jq -n '{ data_type_info: { dtype: "f32", shape: [1] }, sensitivity_level: "LOW" } as $low | [range(900) | "r\(.)"] as $names |
		{ version: 1, manifest_id: "many",
		segments: ([$low + { segment_id: "x", data_location_client: "x.f32", direction: "INPUT" }] + [$names[] | $low +
			{ segment_id: ., data_location_client: ., gpu_operation_id: "C\(.)", direction: "OUTPUT" }]),
		operations: [$names[] | { gpu_operation_id: "C\(.)", kernel: "copy", arguments: { input: "x", output: . } }] }' >many.json
	head -c 4 scan.f32 >x.f32
	sgpu-manifest pack many.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >spool/b
	on_disk --owners owners --state state
	[ "$status" -eq 3 ]
	run -3 bash -c 'ulimit -f 256 && exec sgpu-worker -q -k runner.jwk --device cpu --owners owners --state state spool'
	run -0 worker -q --owners owners --state state spool
	run -0 sgpu-seal open -q -k owner.jwk -C opened spool/b.response
	# A response that the whole disk could not hold fails, alone as well; it was not recorded either.
	rm -r spool/done spool/[ab].response
	cp large spool/a
	export DISK=1m
	on_disk
	[ "$status" -eq 3 ]
	[ "$(ls spool/failed)" = "$(printf '%s\n' a a.reason)" ]
	assert_contains "$(cat spool/failed/a.reason)" "the whole file system has less than it needs"
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >spool/b
	on_disk --owners owners --state state
	[ "$status" -eq 3 ]
	[ "$(ls spool/failed)" = "$(printf '%s\n' a a.reason b b.reason)" ]
	[ "$output" -eq 0 ]
	[ -z "$(find spool/.claimed -mindepth 1)" ]
	mv spool/failed/b spool/
	run -0 worker -q --owners owners --state state spool
	opens spool/b.response
}

@test "where every file has a name, too, a full disk takes no batch its one run, and the reason names it" {
	requires root mount cc no-sanitizer
	compile -shared -fPIC -O2 -o named_files.so "$BATS_TEST_DIRNAME/named_files.c"
	small_job 300000 && sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >large
	sgpu-seal keyinfo --owner owner.jwk >owners
	# on_disk COMMAND...: with 1 MiB left for responses, which are listed in the end.
	on_disk() {
		# shellcheck disable=SC2016
		run --separate-stderr unshare --mount bash -c '
			mkdir -p out && mount -t tmpfs -o size=16m tmpfs out && head -c 15M /dev/zero >out/.other || exit 77
			LD_PRELOAD=$PWD/named_files.so "$@"
			status=$?
			ls -A out
			exit $status' sh "$@"
		[ "$status" -ne 77 ] || skip "cannot mount a tmpfs"
	}
	cp large spool/a
	on_disk sgpu-worker -q -k runner.jwk --device cpu --owners owners --state state -o out spool
	[ "$status" -eq 3 ]
	[ "$output" = .other ]
	[ -f spool/a ]
	assert_contains "$stderr" "cannot reserve"
	on_disk sgpu-run -q -k runner.jwk --device cpu --owners owners --state state -o out/a spool/a
	[ "$status" -eq 3 ]
	[ "$output" = .other ]
	assert_contains "$stderr" "cannot reserve"
	LD_PRELOAD=$PWD/named_files.so run -0 worker -q --owners owners --state state spool
	opens spool/a.response
	# Where nothing can be reserved, the space is missed when the batch has run.
	rm -r state spool/done spool/a.response
	cp large spool/a
	SGPU_TEST_UNRESERVED=1 on_disk sgpu-worker -q -k runner.jwk --device cpu --owners owners --state state -o out spool
	[ "$status" -eq 3 ]
	[ "$output" = .other ]
	assert_contains "$(cat spool/failed/a.reason)" "No space left on device"
	assert_contains "$(cat spool/failed/a.reason)" "it has had its one run: seal it again"
}

@test "when the disk of the record is full, that is no fault of any batch" {
	requires root mount
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-manifest pack job.json >packed
	for i in {1..130}; do
		sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o spool/b"$i" packed
	done
	# Inodes of the two directories, the floor, and 127 batches.
	# shellcheck disable=SC2016
	run --separate-stderr unshare --mount bash -c '
		mkdir full && mount -t tmpfs -o nr_inodes=130,mode=0700 tmpfs full || exit 77
		sgpu-worker -q -k runner.jwk --device cpu --owners owners --state full spool
		status=$?
		find spool/done -type f | wc -l
		find spool/failed spool/.claimed -mindepth 1
		find spool -maxdepth 1 -name "b*" ! -name "*.response" | wc -l
		mount -o remount,nr_inodes=1000 full && sgpu-worker -q -k runner.jwk --device cpu --owners owners --state full spool ||
			exit 78
		exit $status'
	[ "$status" -eq 3 ]
	assert_contains "$stderr" "cannot write 'full/batches': No space left on device"
	[ "$output" = "127"$'\n'"3" ]
	# With room, those that were not recorded run: none has lost its one run.
	[ "$(find spool/done -type f | wc -l)" -eq 130 ]
	[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ]
}

@test "on a file system as NFS, without nameless files and without renames that refuse to replace, all holds" {
	requires cc no-sanitizer
	compile -shared -fPIC -O2 -o named_files.so "$BATS_TEST_DIRNAME/named_files.c"
	export LD_PRELOAD=$PWD/named_files.so SGPU_TEST_REPLACE=1
	fill 100
	cp spool/b1 spool/x
	echo mine >spool/x.response
	mkdir spool/done
	echo earlier >spool/done/b1
	sgpu-worker -q -k runner.jwk --device cpu spool 2>messages & local one=$!
	sgpu-worker -q -k runner.jwk --device cpu spool 2>messages || [ $? -eq 4 ]
	wait $one || [ $? -eq 4 ]
	unset LD_PRELOAD SGPU_TEST_REPLACE
	[ "$(find spool/done -type f | wc -l)" -eq 101 ]
	[ -f spool/done/b1.1 ]
	[ "$(find spool -maxdepth 1 -name 'b*.response' | wc -l)" -eq 100 ]
	[ "$(ls -A spool/.claimed)" = "" ]
	[ -f spool/failed/x ]
	[ "$(cat spool/x.response)" = mine ]
	[ -z "$(find spool -maxdepth 1 -name '.sgpu-*')" ]
	opens spool/b1.response spool/b100.response
	# A batch with two names, as a kill between link and unlink leaves it, is done once.
	rm spool/b1.response
	mkdir -p "spool/.claimed/here.$(cut -c 1-8 /proc/sys/kernel/random/boot_id).7.00000001"
	mv spool/done/b1.1 spool/done/b1
	ln spool/done/b1 "spool/.claimed/here.$(cut -c 1-8 /proc/sys/kernel/random/boot_id).7.00000001/b1"
	LD_PRELOAD=$PWD/named_files.so SGPU_TEST_REPLACE=1 run -0 worker -q spool
	[ -f spool/done/b1 ]
	[ ! -e spool/done/b1.1 ]
}

@test "a worker that runs modules takes one owner" {
	fill 1
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-seal keygen -q -o second.jwk
	sgpu-seal keyinfo --owner second.jwk | cat owners - >both
	run --separate-stderr -2 worker -q --allow-modules --owners both spool
	assert_contains "$stderr" "a worker that runs modules takes one owner"
	[ -e spool/b1 ]
	worker -q --allow-modules --owners owners spool
	opens spool/b1.response
}
