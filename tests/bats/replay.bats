#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A batch runs once: sgpu-run --state.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys 2>/dev/null
	small_job 5000
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed
}

runner() {
	sgpu-run -k runner.jwk --owners owners --state state "$@"
}

@test "with --state a batch runs once, also when it is staged, rewrapped or given to another process" {
	run -0 runner -o response sealed
	[ "$(stat -c %a state)" = 700 ]
	rm response
	sgpu-stage load --keep sealed >staged || sgpu-stage load sealed >staged
	sgpu-seal keygen -q --x25519 -o reader.jwk
	sgpu-seal pubkey -o reader.pub.jwk reader.jwk
	# For whom it already was, it stays as it is; for somebody else the owner signs it anew.
	sgpu-seal rewrap -q -k owner.jwk -r runner.pub.jwk -o same sealed
	sgpu-seal rewrap -q -k owner.jwk -r reader.pub.jwk -o again sealed
	run ! cmp -s again sealed
	for batch in sealed staged same again; do
		run --separate-stderr -4 runner -o response $batch
		assert_contains "$stderr" "taken before"
		assert_no_file response
	done
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >new
	run -0 runner -o response new
}

# of_two_owners: a batch that two owners of the list signed, as both, and all that they and the host can make of it.
of_two_owners() {
	sgpu-seal keygen -q -o second.jwk
	sgpu-seal keyinfo --owner second.jwk >>owners
	sgpu-seal keygen -q --x25519 -o reader.jwk
	sgpu-seal pubkey -o reader.pub.jwk reader.jwk
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -k second.jwk -r runner.pub.jwk >both
	# A recipient can leave out a signature; the other one is over the same.
	sgpu-seal rewrap -q -k owner.jwk -r runner.pub.jwk -o of-owner both
	sgpu-seal rewrap -q -k second.jwk -r runner.pub.jwk -o of-second both
	# For somebody else each signs something else.
	sgpu-seal rewrap -q -k owner.jwk -r reader.pub.jwk -o by-owner both
	sgpu-seal rewrap -q -k second.jwk -r reader.pub.jwk -o by-second both
	sgpu-stage load --keep by-second >staged
	FORMS=(both of-owner of-second by-owner by-second staged)
}

# refused TEXT: all of them are refused so, and none leaves a response.
refused() {
	for batch in "${FORMS[@]}"; do
		run --separate-stderr -4 runner -o response.two "$batch"
		assert_contains "$stderr" "$1"
		assert_no_file response.two
	done
}

@test "a batch that two owners signed runs once, whoever rewraps it, and whichever of the signatures it comes with" {
	of_two_owners
	for first in of-owner by-second staged; do
		rm -rf state response
		run -0 runner -o response $first
		refused "taken before"
	done
}

@test "a refusal into a file in memory, which others made, changes nothing of it but what it says" {
	local file
	small_job 500000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >large
	run -0 runner -o response large
	exec {file}<>"$(mktemp -p /dev/shm sgpu-test.XXXXXX)"
	rm "$(readlink "/proc/self/fd/$file")"
	head -c 3000000 /dev/zero >&"$file"
	# shellcheck disable=SC2016 # the shell inside expands it
	run --separate-stderr -4 bash -c 'sgpu-run -k runner.jwk --owners owners --state state large >&"$1"' bash "$file"
	[ "$(stat -L -c %s "/proc/self/fd/$file")" -eq $((3000000 + 2048)) ]
	tail -c 2048 "/proc/self/fd/$file" >refusal
	run --separate-stderr -4 sgpu-seal open -k owner.jwk refusal
	assert_contains "$stderr" "taken before"
}

@test "what is recorded is the identity of sgpu-batch(5); another one needs another version of the record" {
	requires python3
	of_two_owners
	run -0 runner -o response staged
	python3 - <<-'END'
	import base64, hashlib, json, os, tarfile
	with tarfile.open("both") as tar:
	    seal = json.load(tar.extractfile("seal.json"))
	    index = tar.extractfile("batch.json").read()
	payload = json.loads(base64.urlsafe_b64decode(seal["payload"] + "=="))
	text = b"sgpu v2 batch\0" + base64.urlsafe_b64decode(payload["batch_id"] + "==")
	text += payload["counter"].to_bytes(8, "big") + hashlib.sha256(index).digest()
	name = base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:16]).decode().rstrip("=")
	assert os.listdir("state/batches") == ["%016x-%s" % (payload["counter"], name)]
	END
}

@test "with a record of another version no batch runs, until it is removed" {
	of_two_owners
	mkdir -m 0700 state
	printf 'sgpu rp3' >state/batches
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >new
	for batch in both new; do
		run --separate-stderr -3 runner -o response.two "$batch"
		assert_contains "$stderr" "another version"
		assert_no_file response.two
	done
	rm state/batches
	run -0 runner -o response new
}

@test "what its owner seals again runs again, also from the same packed batch" {
	sgpu-manifest pack -o packed job.json
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o one packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o two packed
	run -0 runner -o response one
	run -0 runner -o response.two two
	run -4 sgpu-seal open -k owner.jwk --batch one -C out response.two
	run -0 sgpu-seal open -k owner.jwk --batch two -C out response.two
	run --separate-stderr -4 runner -o response.two one
	assert_contains "$stderr" "taken before"
}

@test "a batch that a host altered uses up no id: the right one runs after it" {
	requires tar
	local at letter
	at=$(($(grep -abo '"mac":"' sealed | head -n 1 | cut -d: -f1) + 7))
	letter=$(tail -c +$((at + 1)) sealed | head -c 1)
	cp sealed altered
	tr A-Za B-ZAb <<<"$letter" | head -c 1 | dd of=altered bs=1 seek="$at" conv=notrunc status=none
	[ "$letter" != "$(tail -c +$((at + 1)) altered | head -c 1)" ] || printf A | dd of=altered bs=1 seek="$at" conv=notrunc status=none
	run --separate-stderr -4 runner -o response altered
	assert_contains "$stderr" "mac"
	run -0 runner -o response sealed
}

@test "a batch that is killed while it runs does not run again" {
	head -c $(($(stat -c %s sealed) - 1024)) sealed >endless
	mkfifo pipe
	runner -o response pipe 2>message &
	local pid=$! i
	exec 7>pipe
	cat endless >&7
	for ((i = 0; i < 600; i++)); do
		[ -z "$(ls state/batches 2>/dev/null)" ] || break
		sleep 0.05
	done
	[ -n "$(ls state/batches)" ]
	kill -KILL $pid
	wait $pid || true
	exec 7>&-
	run --separate-stderr -4 runner -o response sealed
	assert_contains "$stderr" "taken before"
}

@test "of several runners with one folder, one takes the batch" {
	local i done=0 pids=()
	for i in 1 2 3 4; do
		runner --device cpu -j 1 -q -o "response.$i" sealed 2>"message.$i" &
		pids+=($!)
	done
	for i in 1 2 3 4; do
		status=0
		wait "${pids[i - 1]}" || status=$?
		[ $status -eq 0 ] || [ $status -eq 4 ]
		done=$((done + (status == 0)))
	done
	[ $done -eq 1 ]
	[ "$(find . -name 'response.*' | wc -l)" -eq 1 ]
}

@test "a batch that is older than the window is refused, with and without a folder" {
	run --separate-stderr -4 runner --replay-window 1ms -o response sealed
	assert_contains "$stderr" "too old"
	run --separate-stderr -4 sgpu-run -k runner.jwk --owners owners --replay-window 1ms -o response sealed
	assert_no_file response
	run -0 runner --replay-window 10d -o response sealed
}

@test "--state needs --owners and a folder of this user alone" {
	run --separate-stderr -2 sgpu-run -k runner.jwk --state state -o response sealed
	run --separate-stderr -2 sgpu-run -k runner.jwk --replay-window 1d -o response sealed
	run --separate-stderr -2 runner --replay-window never -o response sealed
	mkdir -m 755 state
	run --separate-stderr -4 runner -o response sealed
	assert_contains "$stderr" "does not belong to this user alone"
	run --separate-stderr -3 sgpu-run -k runner.jwk --owners owners --state owners -o response sealed
	assert_no_file response
}

@test "a batch that is refused for another reason is not used up" {
	sgpu-seal keygen -q --x25519 -o other.jwk
	run -4 sgpu-run -k other.jwk --owners owners --state state -o response sealed
	run -0 runner -o response sealed
}

@test "a folder of --state that another user could put away is refused" {
	requires root setpriv
	chmod 711 "$TEST_SHM"
	mkdir "$TEST_SHM/shared" mine
	chmod 1777 "$TEST_SHM/shared"
	setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \
		"cd '$TEST_SHM/shared' && umask 0 && mkdir theirs && ln -s '$PWD/mine' way"
	for folder in theirs/state theirs way/state way; do
		run --separate-stderr -4 sgpu-run -k runner.jwk --owners owners --state "$TEST_SHM/shared/$folder" \
			-o response sealed
		assert_contains "$stderr" "of another user"
		assert_no_file response
	done
	[ -z "$(find mine "$TEST_SHM/shared/theirs" -mindepth 1)" ]
	run -0 runner -o response sealed
}
