#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Payloads in files of the runner's machine: from the folders of --owners owners --files alone, for sealed batches alone, never keys.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

# Keys in keys/, data in data/, and what is to stay secret in secrets/.
setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir keys data secrets
	sgpu-seal keygen -o keys/owner.jwk
	sgpu-seal keygen --x25519 -o keys/runner.jwk
	sgpu-seal pubkey -o runner.pub.jwk keys/runner.jwk
	sgpu-seal keyinfo --owner keys/owner.jwk >owners
	seq 0 99 | floats >data/scan.f32
	printf 'correct horse' >secrets/token
}

# file_job FILE: packs a job whose LOW payload is FILE, as it is.
file_job() {
	cat >file.json <<-END
	{ "version": 1, "manifest_id": "file", "segments": [
	  { "segment_id": "a", "data_location_client": "$1", "sensitivity_level": "LOW", "direction": "INPUT",
	    "data_type_info": { "dtype": "u8", "shape": [$(stat -Lc %s "$1")] } },
	  { "segment_id": "b", "sensitivity_level": "LOW", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "C", "kernel": "copy", "arguments": { "input": "a", "output": "b" } } ] }
	END
	sgpu-manifest pack --allow-outside file.json
}

# sealed_job FILE [LOCATION]: the same, sealed, its payload left where it is, or where LOCATION says.
sealed_job() {
	file_job "$1" >packed
	if [ -n "${2:-}" ]; then
		relocate packed "$2"
	fi
	sgpu-seal seal -k keys/owner.jwk -r runner.pub.jwk --by-reference packed
}

# relocate PACKED PATH: has the batch name another file, which sealing will look at.
relocate() {
	rewrite "$1" "$1" "places['locations'][0]['file'] = '$2'"
}

# refuses STATUS TEXT ARGUMENT...: the runner ends so, says so, and no response is left; with 5, no output in it.
refuses() {
	run --separate-stderr "-$1" sgpu-run -k keys/runner.jwk "${@:3}" -o response
	assert_contains "$stderr" "$2"
	if [ "$1" -eq 5 ]; then
		[ "$(tar tf response)" = "response.json" ] || tar tf response | grep -c segments/ | grep -qx 0
		rm response
	fi
	assert_no_file response
}

@test "without --owners owners --files no payload in a file is fetched, sealed batch or not" {
	file_job data/scan.f32 >packed
	sealed_job data/scan.f32 >sealed
	refuses 4 "segment 'a' is in a file" packed
	refuses 4 "segment 'a' is in a file" sealed
	assert_contains "$stderr" "sgpu-stage load --files"
	sgpu-seal seal -k keys/owner.jwk -r runner.pub.jwk packed >inline
	run -0 sgpu-run -k keys/runner.jwk -o response inline
	run -0 sgpu-run -k keys/runner.jwk -o response <(sgpu-stage load --files data sealed)
}

@test "with --owners owners --files a sealed batch's payload beneath it is fetched" {
	mkdir data/deep
	cp data/scan.f32 data/deep
	sealed_job data/scan.f32 >sealed
	sealed_job data/deep/scan.f32 >deep
	run -0 sgpu-run -k keys/runner.jwk --owners owners --files data -o response sealed
	tar xOf response segments/b | cmp - data/scan.f32
	run -0 sgpu-run -k keys/runner.jwk --owners owners --files secrets --files "$PWD/data/" -o response deep
	tar xOf response segments/b | cmp - data/scan.f32
	run -0 sgpu-seal open -k keys/owner.jwk -C out response
}

@test "a relative location is looked for in each folder" {
	requires python3
	cp data/scan.f32 .
	sealed_job scan.f32 scan.f32 >sealed
	rm scan.f32
	refuses 4 "is in a file" sealed
	refuses 5 "cannot open 'scan.f32'" --owners owners --files secrets sealed
	run -0 sgpu-run -k keys/runner.jwk --owners owners --files secrets --files data -o response sealed
	tar xOf response segments/b | cmp - data/scan.f32
}

@test "a batch that nobody signed gets no file even with --files" {
	file_job data/scan.f32 >packed
	refuses 4 "is not signed" --owners owners --files data packed
	sgpu-seal keygen -q --no-sign -o keys/mute.jwk
	sgpu-seal seal -k keys/mute.jwk -r runner.pub.jwk --by-reference packed >sealed
	refuses 4 "is not signed" --owners owners --files data sealed
	sgpu-seal keygen -q -o keys/stranger.jwk
	sgpu-seal seal -k keys/stranger.jwk -r runner.pub.jwk --by-reference packed >sealed
	refuses 4 "none of the owners" --owners owners --files data sealed
	run --separate-stderr -2 sgpu-run -k keys/runner.jwk --files data -o response sealed
	assert_contains "$stderr" "--files, --state and --replay-window need --owners"
	assert_no_file response
}

@test "what lies elsewhere is refused, and so are '..', links, and names that only begin like the folder" {
	requires python3
	mkdir data-twin
	cp secrets/token data-twin/token
	ln -s ../secrets/token data/link
	ln -s ../secrets data/way
	sealed_job secrets/token >sealed
	refuses 5 "is not in a directory that is open to batches" --owners owners --files data sealed
	sealed_job data-twin/token >sealed
	refuses 5 "is not in a directory" --owners owners --files data sealed
	sealed_job secrets/token "$PWD/data/../secrets/token" >sealed
	refuses 5 "it has a '..'" --owners owners --files data sealed
	sealed_job secrets/token "$PWD/data/link" >sealed
	refuses 5 "is a link" --owners owners --files data sealed
	sealed_job secrets/token "$PWD/data/way/token" >sealed
	refuses 5 "it contains a link" --owners owners --files data sealed
	sealed_job secrets/token "/proc/self/root$PWD/secrets/token" >sealed
	refuses 5 "is not in a directory" --owners owners --files data sealed
}

@test "a folder that is mounted onto the one of --owners owners --files is not entered" {
	requires mount python3
	mkdir data/on
	cp secrets/token data/on/token
	sealed_job data/on/token >sealed
	run -0 sgpu-run -k keys/runner.jwk --owners owners --files data -o response sealed
	run --separate-stderr unshare --mount bash -c \
		'mount --bind secrets data/on && sgpu-run -k keys/runner.jwk --owners owners --files data -o other sealed'
	[ "$status" -eq 5 ]
	assert_contains "$stderr" "leaves the directory or its file system"
}

@test "pipes and folders are no payloads, and a pipe that is named has no reader" {
	requires python3
	mkfifo data/pipe
	mkdir data/folder
	sealed_job data/scan.f32 >sealed
	mv data/scan.f32 data/kept
	mkfifo data/scan.f32
	refuses 5 "is no regular file" --owners owners --files data --timeout 20s sealed
	rm data/scan.f32
	mkdir data/scan.f32
	refuses 5 "is no regular file" --owners owners --files data sealed
}

@test "folders of the kernel, and what is no folder, are refused at once" {
	local folder
	for folder in /proc /proc/self /sys /dev; do
		run --separate-stderr -4 sgpu-run -k keys/runner.jwk --owners owners --files "$folder" -o response /dev/null
		assert_contains "$stderr" "directory '$folder' holds no data"
	done
	run --separate-stderr -3 sgpu-run -k keys/runner.jwk --owners owners --files missing -o response /dev/null
	assert_contains "$stderr" "cannot open directory 'missing'"
	run --separate-stderr -3 sgpu-run -k keys/runner.jwk --owners owners --files secrets/token -o response /dev/null
	assert_no_file response
}

# landlock: skips where the kernel has none.
landlock() {
	sgpu-run --info | grep -q '^  confined_files  *yes$' || skip "needs Landlock"
}

@test "a key may not lie in a folder of --files" {
	landlock
	ln -s ../keys data/link
	run --separate-stderr -4 sgpu-run -k keys/runner.jwk --owners owners --files keys -o response /dev/null
	assert_contains "$stderr" "a run can read the key 'keys/runner.jwk' again"
	run --separate-stderr -4 sgpu-run -k data/link/runner.jwk --owners owners --files . -o response /dev/null
	assert_contains "$stderr" "a run can read the key 'data/link/runner.jwk' again"
	run --separate-stderr -4 sgpu-run -k data/link/runner.jwk --owners owners --files data --files keys -o response /dev/null
	assert_contains "$stderr" "a run can read the key 'data/link/runner.jwk' again"
	assert_no_file response
	# By descriptors it comes all the same: they are closed, and a memory file has no name.
	run --separate-stderr -1 sgpu-run -k /dev/fd/7 --owners owners --files data -o response /dev/null 7<keys/runner.jwk
	assert_contains "$stderr" "'/dev/null' is empty"
	run --separate-stderr -1 sgpu-run -k fd:7 --owners owners --files keys -o response /dev/null 7<keys/runner.jwk
	assert_contains "$stderr" "'/dev/null' is empty"
	requires python3
	# shellcheck disable=SC2016
	run --separate-stderr -1 python3 -c '
import os, sys
os.set_inheritable(fd := os.memfd_create("key"), True)
os.write(fd, open("keys/runner.jwk", "rb").read())
os.fchmod(fd, 0o600)
os.execvp("sgpu-run", ["sgpu-run", "-k", f"/dev/fd/{fd}", "-o", "response", "/dev/null"])'
	assert_contains "$stderr" "'/dev/null' is empty"
}

@test "a key is not fetched: not by another name of its file, renamed, or given by a descriptor" {
	ln keys/runner.jwk data/other
	sealed_job data/other >sealed
	refuses 5 "private to the runner" --owners owners --files data sealed
	run --separate-stderr -5 sgpu-run -k fd:7 --owners owners --files data -o response sealed 7<keys/runner.jwk
	assert_contains "$stderr" "private to the runner"
	run --separate-stderr -5 sgpu-run -k - --owners owners --files data -o response sealed <keys/runner.jwk
	assert_contains "$stderr" "private to the runner"
}

# waits_for_batch PID: its keys are loaded.
@test "a key file that is renamed into the folder after it was loaded is not fetched" {
	local status=0 runner
	cp keys/runner.jwk data/same
	sealed_job data/same >sealed
	rm data/same
	mkfifo pipe
	sgpu-run -k keys/runner.jwk --owners owners --files data -o response pipe 2>message 3>&- &
	runner=$!
	exec 7>pipe
	wait_for waits_in_poll "$runner"
	mv keys/runner.jwk data/same
	cat sealed >&7
	exec 7>&-
	wait "$runner" || status=$?
	[ "$status" -eq 5 ]
	assert_contains "$(cat message)" "private to the runner"
}

@test "a key file is not fetched through another mount" {
	requires mount
	mkdir mounted
	cp keys/runner.jwk mounted/runner.jwk
	sealed_job mounted/runner.jwk >sealed
	rm mounted/runner.jwk
	run --separate-stderr unshare --mount bash -c \
		'mount --bind keys mounted && sgpu-run -k keys/runner.jwk --owners owners --files data -o response sealed'
	[ "$status" -eq 5 ]
	assert_contains "$stderr" "is not in a directory"
	run --separate-stderr unshare --mount bash -c \
		'mount --bind keys mounted && sgpu-run -k keys/runner.jwk --owners owners --files mounted -o response sealed'
	landlock
	[ "$status" -eq 4 ]
	assert_contains "$stderr" "a run can read the key 'keys/runner.jwk' again"
}

@test "a sealed payload in a file needs --files, too" {
	cat >high.json <<-END
	{ "version": 1, "manifest_id": "high", "segments": [
	  { "segment_id": "a", "data_location_client": "data/scan.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [100] } },
	  { "segment_id": "b", "sensitivity_level": "HIGH", "direction": "OUTPUT", "data_location_client": "b.f32" } ],
	  "operations": [
	  { "gpu_operation_id": "C", "kernel": "copy", "arguments": { "input": "a", "output": "b" } } ] }
	END
	requires python3
	sgpu-manifest pack high.json | sgpu-seal seal -k keys/owner.jwk -r runner.pub.jwk >inline
	# Nothing authenticates a location, so whoever carries a batch can put a sealed payload into a file.
	tar xOf inline segments/a >data/sealed
	rewrite inline moved "del members['segments/a'];
places = {'locations': [{'segment_id': 'a', 'file': '$PWD/data/sealed', 'offset': 0}]}"
	refuses 4 "segment 'a' is in a file" moved
	run -0 sgpu-run -k keys/runner.jwk --owners owners --files data -o response moved
	run -0 sgpu-seal open -k keys/owner.jwk -C out response
	assert_same out/b.f32 data/scan.f32
}

@test "what is no regular file is looked at and never opened" {
	requires strace python3
	local -x ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # the leak checker would trace, too
	sealed_job data/scan.f32 >sealed
	rm data/scan.f32
	mkfifo data/scan.f32
	strace -f -o trace sgpu-run --device cpu -k keys/runner.jwk --owners owners --files data -o response sealed || [ $? -eq 5 ]
	grep 'scan\.f32' trace | grep -q O_PATH
	run ! grep -E 'open(at|at2)?\(.*scan\.f32' <(grep -v O_PATH trace)
	# Neither is a region.
	sgpu-stage list -q
	mkfifo "$XDG_RUNTIME_DIR/sgpu/00000000000000000000000000000000"
	strace -f -o trace sgpu-stage release 00000000000000000000000000000000 || true
	run ! grep -E 'open(at|at2)?\(.*00000000000000000000000000000000' <(grep -v O_PATH trace)
	run ! grep -E 'open.*"/proc/self/fd/' trace
}
