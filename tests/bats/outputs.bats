#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# Where outputs go when somebody else has prepared the place: links, pipes and folders of other users, names that are
# swapped while a tool works, file systems that give every file a name, places that cannot be.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 500
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	sgpu-run -q -k owner.jwk -o response sealed
}

teardown() {
	[ -z "${swapper:-}" ] || kill "$swapper" 2>/dev/null || true
	[ -z "${reader:-}" ] || kill "$reader" 2>/dev/null || true
	sgpu_teardown
}

# swap exchange A B, swap link NAME TARGET: from now on, in the background.
swap() {
	compile -O2 -o swapper "$BATS_TEST_DIRNAME/swapper.c"
	./swapper "$@" &
	swapper=$!
}

end_swap() {
	kill "$swapper"
	wait "$swapper" || true
	swapper=
}

# open_often [OPTION]...: the outcome of each does not matter.
open_often() {
	local i
	for ((i = 0; i < 150; i++)); do
		sgpu-seal open -q -k owner.jwk "$@" response 2>/dev/null || true
	done
}

@test "a last component that is swapped for a link leads nowhere" {
	requires cc no-sanitizer
	mkdir out elsewhere
	echo mine >elsewhere/out.f32
	echo old >out/out.f32
	swap link out/out.f32 ../elsewhere/out.f32
	open_often --force -C out
	end_swap
	[ "$(cat elsewhere/out.f32)" = mine ]
	[ "$(ls elsewhere)" = out.f32 ]
}

@test "a folder on the way that is swapped for a link leads nowhere" {
	requires cc no-sanitizer
	sed 's|"out.f32"|"sub/deep/out.f32"|' job.json >sub.json
	sgpu-manifest pack sub.json | sgpu-seal seal -k owner.jwk | sgpu-run -q -k owner.jwk >response
	mkdir -p out/sub/deep target/deep
	ln -s ../target link
	swap exchange out/sub link
	open_often --force --only result -C out
	end_swap
	[ -z "$(ls target/deep)" ]
	[ -n "$(find out link -name out.f32)" ]
}

# A folder like /tmp, in which user 65534 has put what the tools may be told to write to.
planted_by_nobody() {
	requires root setpriv
	chmod 711 "$TEST_SHM"
	mkdir "$TEST_SHM/shared" private
	chmod 1777 "$TEST_SHM/shared"
	ln -s "$TEST_SHM/shared" shared
	echo mine >private/file
	nobody sh -c "cd $TEST_SHM/shared && umask 0 && ln -s $PWD/private/file link && ln -s $PWD/private way && mkfifo pipe &&
		mkdir folder && echo theirs >file"
}

nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

@test "what another user planted in a folder that all can write to is refused by every tool" {
	planted_by_nobody
	local place
	for place in link way/file way/new pipe folder/new file; do
		for command in "sgpu-seal open -k owner.jwk --only result -o PLACE response" \
			"sgpu-seal open -k owner.jwk --only result --force -o PLACE response" \
			"sgpu-seal open-file -k owner.jwk single PLACE" "sgpu-seal seal -k owner.jwk -o PLACE packed" \
			"sgpu-run -q -k owner.jwk -o PLACE sealed" "sgpu-stage load -o PLACE sealed" \
			"sgpu-manifest pack -o PLACE job.json" "sgpu-measure policy --owners any --build $SGPU_BUILD -o PLACE"; do
			sgpu-manifest pack job.json >packed
			sgpu-seal seal-file -k owner.jwk scan.f32 single
			# shellcheck disable=SC2086 # words on purpose
			run --separate-stderr timeout 20 ${command/PLACE/shared\/$place}
			# shellcheck disable=SC2154 # bats sets stderr
			echo "$command at $place: $status $stderr"
			[ "$status" -eq 4 ]
		done
	done
	[ "$(ls private)" = file ]
	[ "$(cat private/file)" = mine ]
	[ -z "$(ls shared/folder)" ]
	run -4 sgpu-seal open -k owner.jwk -C shared/folder response
	run -4 sgpu-seal open -k owner.jwk -C shared/way response
	[ -z "$(find shared/folder private -name '*.f32')" ]
}

@test "pipes, devices and descriptors of the user's own are written to" {
	mkfifo pipe
	cat pipe >got &
	run -0 sgpu-seal open -k owner.jwk --only result -o pipe response
	wait
	assert_same got expected.f32
	sgpu-seal open -k owner.jwk --only result -o /dev/stdout response | cmp - expected.f32
	sgpu-seal open -k owner.jwk --only result -o /dev/fd/7 response 7>seven
	assert_same seven expected.f32
	sgpu-seal open -k owner.jwk --only result -o >(cat >other; touch "$PWD/ended") response
	while [ ! -e ended ]; do sleep 0.1; done
	assert_same other expected.f32
	run -0 sgpu-seal open -k owner.jwk --only result -o /dev/null response
	run -3 sgpu-seal open -k owner.jwk --only result -o /dev/full response
}

@test "a link of the user's own stays, and its target is replaced" {
	mkdir elsewhere
	echo old >elsewhere/real
	ln -s elsewhere/real link
	ln -s elsewhere way
	run -0 sgpu-seal open -k owner.jwk --only result --force -o link response
	[ -L link ]
	assert_same elsewhere/real expected.f32
	run -0 sgpu-seal open -k owner.jwk --only result -o way/new response
	assert_same elsewhere/new expected.f32
}

# with_names COMMAND...: where every file has a name.
with_names() {
	LD_PRELOAD=$PWD/named_files.so "$@"
}

@test "where every file has a name, secret data are refused unless that is allowed" {
	requires cc no-sanitizer
	compile -shared -fPIC -O2 -o named_files.so "$BATS_TEST_DIRNAME/named_files.c"
	sgpu-seal seal-file -k owner.jwk scan.f32 single
	run --separate-stderr -4 with_names sgpu-seal open -k owner.jwk -C out response
	assert_contains "$stderr" "--allow-named-temporary"
	assert_no_file out
	run -4 with_names sgpu-seal open -k owner.jwk --only result -o one response
	run -4 with_names sgpu-seal open-file -k owner.jwk single one
	assert_no_file one
	# It is known before the response has come.
	run -4 with_names sgpu-seal open -k owner.jwk -C out /dev/null
	run -0 with_names sgpu-seal open --allow-named-temporary -k owner.jwk -C out response
	assert_same out/out.f32 expected.f32
	[ "$(find out | wc -l)" -eq 3 ]
	run -0 with_names sgpu-seal open --allow-named-temporary -k owner.jwk --only result -o one response
	run -0 with_names sgpu-seal open-file --allow-named-temporary -k owner.jwk single two
	assert_same two scan.f32
	run -3 with_names sgpu-seal open --allow-named-temporary -k owner.jwk -C out response
	run -0 with_names sgpu-run -q -k owner.jwk -o again sealed
	run -0 with_names sgpu-seal open -k owner.jwk --only result response
}

@test "while open waits for the end of a pipe after it has failed, no file of it is there" {
	requires cc no-sanitizer
	compile -shared -fPIC -O2 -o named_files.so "$BATS_TEST_DIRNAME/named_files.c"
	local payload
	payload=$(tar tRf response | sed -n 's/^block \([0-9]*\): segments.*/\1/p' | head -1)
	flip_byte response $(((payload + 1) * 512 + 1999))
	mkfifo pipe
	exec 7<>pipe
	with_names sgpu-seal open --allow-named-temporary -k owner.jwk -C out <pipe 2>said 3>&- 7>&- & reader=$!
	cat response >&7
	wait_for grep 'authentication failed' said
	wait_for assert_no_file out
	kill -0 "$reader"
	exec 7>&-
	wait "$reader" || [ $? -eq 4 ]
}

@test "a temporary name that a killed process left is gone after the next run" {
	requires cc no-sanitizer
	compile -shared -fPIC -O2 -o named_files.so "$BATS_TEST_DIRNAME/named_files.c"
	mkdir out
	echo old >out/out.f32
	LD_PRELOAD=$PWD/named_files.so SGPU_TEST_NAMELESS=1 SGPU_TEST_KILL=1 \
		run -137 sgpu-seal open --force -k owner.jwk -C out response
	[ -n "$(find out -name '.sgpu-*')" ]
	[ "$(cat out/out.f32)" = old ]
	run -0 sgpu-seal open --force -k owner.jwk -C out response
	[ "$(find out -type f | wc -l)" -eq 2 ]
}

@test "a made-up response that names a file of the owner copies nothing" {
	requires tar python3
	sed 's/HIGH/LOW/' job.json >low.json
	sgpu-manifest pack low.json | sgpu-stage load --files . | sgpu-run -q >response
	tar -xOf response segments/result >secret.f32
	rewrite response made-up "del members['segments/result'];
places = {'locations': [{'segment_id': 'result', 'file': '$PWD/secret.f32', 'offset': 0}]}"
	local status=0
	sgpu-seal open -C out made-up 2>message || status=$?
	[ "$status" -eq 1 ] || [ "$status" -eq 4 ]
	cat message
	grep "file" message
	assert_no_file out
	sgpu-seal open --only result made-up >got || status=$?
	[ ! -s got ]
}

# unread COMMAND...: fails before the first byte of its standard input, which is a pipe, is taken.
unread() {
	local status=0
	rm -f status
	# Nothing comes before the command has ended.
	{ wait_for test -e status; printf 'untouched\n'; } | { timeout 20 "$@" >/dev/null 2>message || echo $? >status; cat >left; }
	status=$(cat status)
	echo "$*: status $status, $(cat message)"
	[ "$status" -eq 3 ]
	[ "$(cat left)" = untouched ]
}

@test "an output that cannot be made is told before the first byte of input is read" {
	sgpu-seal seal-file -k owner.jwk scan.f32 single
	unread sgpu-seal open -k owner.jwk -C job.json/out
	unread sgpu-seal open -k owner.jwk --only result -o job.json/out
	unread sgpu-seal seal -k owner.jwk -o job.json/out
	unread sgpu-seal rewrap -k owner.jwk -r runner.pub.jwk -o job.json/out
	unread sgpu-seal seal-file -k owner.jwk -o job.json/out
	unread sgpu-seal open-file -k owner.jwk -o job.json/out
	unread sgpu-seal pubkey -o job.json/out
	unread sgpu-stage load -o job.json/out
	unread sgpu-run -q -k owner.jwk -o job.json/out
	unread sgpu-run -q -k owner.jwk --trace job.json/out
	unread sgpu-manifest pack -o job.json/out
	unread sgpu-manifest canon -o job.json/out
	unread sgpu-measure policy -o job.json/out
	unread sgpu-measure appraise -p job.json -o job.json/out
	unread sgpu-measure appraise -p job.json --recipient job.json/out
	unread sgpu-measure certify -k x --certificate x -o job.json/out
	unread sgpu-bench report -o job.json/out -
}

@test "standard output that is full or closed is told in the same words by every tool" {
	small_job
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk packed >sealed
	sgpu-run -q -k owner.jwk -o response sealed
	sgpu-seal seal-file -k owner.jwk scan.f32 single
	local command where
	for command in "sgpu-manifest schema" "sgpu-manifest show job.json" "sgpu-manifest pack job.json" \
		"sgpu-manifest ops --json" "sgpu-stage load sealed" "sgpu-stage list --json" "sgpu-seal seal -k owner.jwk packed" \
		"sgpu-seal open -k owner.jwk --only result response" "sgpu-seal open-file -k owner.jwk single" \
		"sgpu-seal inspect sealed" "sgpu-run -q -k owner.jwk sealed" "sgpu-run --info" \
		"sgpu-measure policy -q --owners any --build $SGPU_BUILD" "sgpu-bench --version" \
		"sgpu-bench list --json" "sgpu-bench run -q --samples 3 --size 64K --device cpu measure"; do
		for where in ">/dev/full No space left on device" ">&- Bad file descriptor"; do
			run -3 --separate-stderr bash -c "$command ${where%% *}"
			[[ $stderr == *"cannot write to standard output: ${where#* }"* ]] ||
				{ echo "$command ${where%% *}: $stderr"; return 1; }
		done
	done
	# By a name that only the kernel knows for it, too.
	run -3 bash -c "sgpu-seal open -k owner.jwk --only result -o /proc/thread-self/fd/1 response >&-"
}

# closed_early COMMAND...: dies by SIGPIPE when nobody reads its standard output, and says nothing.
closed_early() {
	local status=0
	{ ( "$@" ) 2>message || echo $? >status; } | true || true
	status=$(cat status)
	rm status
	echo "$*: status $status, $(cat message)"
	[ "$status" -eq 141 ]
	[ ! -s message ]
}

@test "a reader that has gone ends every tool quietly by SIGPIPE" {
	# More than the mebibyte that the tools have a pipe hold, or else the end may come before the reader has gone.
	small_job 400000
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk packed >sealed
	sgpu-run -q -k owner.jwk -o response sealed
	sgpu-seal seal-file -k owner.jwk scan.f32 single
	closed_early sgpu-seal seal -k owner.jwk packed
	closed_early sgpu-seal open -k owner.jwk --only result response
	closed_early sgpu-seal rewrap -k owner.jwk -r runner.pub.jwk sealed
	closed_early sgpu-seal seal-file -k owner.jwk scan.f32
	closed_early sgpu-seal open-file -k owner.jwk single
	closed_early sgpu-run -q -k owner.jwk sealed
	for command in "sgpu-manifest schema" "sgpu-manifest canon job.json" "sgpu-manifest pack job.json" \
		"sgpu-stage load sealed" "sgpu-measure policy -q --owners any --build $SGPU_BUILD" "sgpu-bench --help" \
		"sgpu-run --info" "sgpu-seal inspect sealed"; do
		# shellcheck disable=SC2086 # words on purpose
		unread_from_the_start $command
	done
	[ -z "$(ls "$XDG_RUNTIME_DIR/sgpu")" ]
	# What goes to a file meanwhile does not stay half-written.
	closed_early sgpu-run -q --trace trace -k owner.jwk sealed
	assert_no_file trace
}

# unread_from_the_start COMMAND...: the same with a pipe whose reader has gone before the command begins.
unread_from_the_start() {
	local status=0
	rm -f unread
	mkfifo unread
	exec 5<>unread
	exec 6>unread
	exec 5<&-
	( "$@" ) >&6 2>message || status=$?
	exec 6>&-
	echo "$*: status $status, $(cat message)"
	[ "$status" -eq 141 ]
	[ ! -s message ]
}

@test "folders that are missing are made, and go again when the command fails" {
	run -0 sgpu-seal open -k owner.jwk --only result -o new/folder/one response
	assert_same new/folder/one expected.f32
	run -0 sgpu-seal open -k owner.jwk -C newer/folder response
	assert_same newer/folder/out.f32 expected.f32
	run -0 sgpu-run -q -k owner.jwk -o run/to/response sealed
	run -0 sgpu-seal keygen -o keys/of/mine.jwk
	[ "$(stat -c %a keys/of keys/of/mine.jwk)" = "700
600" ]
	head -c 3000 response >short
	run -1 sgpu-seal open -k owner.jwk -C not/here short
	run -1 sgpu-seal open -k owner.jwk --only result -o nor/here short
	run -1 sgpu-run -q -k owner.jwk -o neither/here short
	assert_no_file not nor neither
}

@test "a response that finds its file system full leaves nothing, however many cores write it" {
	requires root mount
	small_job 2000000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	local jobs
	for jobs in 1 8; do
		# shellcheck disable=SC2016 # the shell inside expands it
		run --separate-stderr unshare --mount bash -c '
			mkdir -p full && mount -t tmpfs -o size=9m tmpfs full || exit 77
			ended=0
			sgpu-run --device cpu -j "$1" -k owner.jwk -o full/response batch.tar || ended=$?
			[ -z "$(ls -A full)" ] || exit 1
			exit $ended' bash $jobs
		# shellcheck disable=SC2154
		[ "$status" -ne 77 ] || skip "cannot mount a tmpfs"
		[ "$status" -eq 3 ]
		assert_contains "$stderr" "No space left"
		sgpu-run --device cpu -j $jobs -k owner.jwk -o response batch.tar
		sgpu-seal open -k owner.jwk -C "out$jobs" response
		assert_same "out$jobs/out.f32" expected.f32
	done
}

@test "whoever cuts standard output, a file in memory, ends no runner" {
	requires python3
	small_job 8000000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	python3 - <<-'END'
	import os, subprocess, sys
	for _ in range(3):
	    out = os.memfd_create("response")
	    run = subprocess.Popen(["sgpu-run", "-q", "--device", "cpu", "-j", "8", "-k", "owner.jwk", "batch.tar"], stdout=out)
	    while run.poll() is None:
	        if os.fstat(out).st_blocks * 512 > 31500000:  # nearly all of its pages
	            os.ftruncate(out, 4096)
	    if run.returncode < 0:
	        sys.exit("ended by signal %d" % -run.returncode)
	END
}

@test "a batch that is refused because it has run leaves no space to its response" {
	requires python3
	small_job 500000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	mkdir state
	sgpu-seal keyinfo --owner owner.jwk >owners
	python3 - <<-'END'
	import os, subprocess
	for status in 0, 4:
	    out = os.open(".", os.O_RDWR | os.O_TMPFILE, 0o600)
	    done = subprocess.run(["sgpu-run", "-q", "--device", "cpu", "--state", "state", "--owners", "owners", "-k", "owner.jwk", "batch.tar"], stdout=out)
	    assert done.returncode == status, done
	    assert (os.fstat(out).st_blocks * 512 < 100000) == (status == 4), os.fstat(out)
	END
}

@test "with on_failure all, no output leaves if one fails, and all do if none does" {
	add() {
		jq -n --arg id "$1" '{segments: [
			{segment_id: "in\($id)", data_location_client: "in.f32", sensitivity_level: $level, direction: "INPUT",
			 data_type_info: {dtype: "f32", shape: [500]}},
			{segment_id: "out\($id)", data_location_client: "out\($id)", sensitivity_level: $level, direction: "OUTPUT"}],
			operations: [{gpu_operation_id: "ADD\($id)", kernel: "vector_add",
				arguments: {a: "in\($id)", b: "in\($id)", output: "out\($id)"}}]}' --arg level "$2"
	}
	head -c 2000 /dev/urandom >in.f32
	{ add 1 HIGH && add 2 LOW && add 3 HIGH; } | jq -s --arg how all '{version: 1, manifest_id: "t", on_failure: $how,
		segments: map(.segments) | add, operations: map(.operations) | add}' >all.json
	sgpu-manifest pack all.json | sgpu-seal seal -k owner.jwk >good
	sgpu-run -q -k owner.jwk good | sgpu-seal open -q -k owner.jwk -C all
	cmp all/out1 all/out2
	cmp all/out1 all/out3
	# The last byte of the last payload: its tag.
	cp good bad
	flip_byte bad $(($(grep -abo "segments/in3" bad | tail -n 1 | cut -d : -f 1) + 512 + 56 + 2000))
	run -5 --separate-stderr sgpu-run -q -k owner.jwk -o response bad
	run -5 --separate-stderr sgpu-seal open -q -k owner.jwk -C none response
	assert_contains "$stderr" "withheld, since 'out3' failed: the manifest's on_failure is 'all'"
	[ ! -e none ]
	[ "$(tar tf response | grep -c segments/)" -eq 0 ]
	tar xOf response response.json | jq -e '.batch_status == "ALL_FAILED"'
	# By default only the output that needs it fails.
	jq '.on_failure = "segments"' all.json >each.json
	sgpu-manifest pack each.json | sgpu-seal seal -k owner.jwk >bad
	flip_byte bad $(($(grep -abo "segments/in3" bad | tail -n 1 | cut -d : -f 1) + 512 + 56 + 2000))
	run -5 --separate-stderr sgpu-run -q -k owner.jwk -o response bad
	tar xOf response response.json | jq -e '.batch_status == "SOME_FAILED"'
	[ "$(tar tf response | grep -c segments/)" -eq 2 ]
	# Shards would fail one by one, and nobody can take a result back from a region.
	run -1 --separate-stderr sgpu-manifest split -n 2 all.json
	assert_contains "$stderr" "on_failure is 'all'"
	jq '.segments[3].client_dma_output_pinned_host_ptr_var = "OUT"' all.json >region.json
	sgpu-manifest pack region.json | sgpu-seal seal -k owner.jwk | sgpu-stage load -o staged
	run -4 --separate-stderr sgpu-run -q -k owner.jwk -o response staged
	assert_contains "$stderr" "'out2' is to be left in a region, and the manifest's on_failure is 'all'"
	jq '.on_failure = "none"' all.json >other.json
	run -1 --separate-stderr sgpu-manifest check other.json
}
