#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats sets stderr
#
# sgpu run: operations on files of one's own, in one command.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	export XDG_CONFIG_HOME=$PWD/config
	head -c 64 /dev/zero | tr '\0' '\5' >a.u8
}

# npy FILE DTYPE SHAPE: a .npy file of the numbers on standard input, in C order.
npy() {
	python3 -c 'import struct, sys
name, dtype, shape = sys.argv[1], sys.argv[2], eval(sys.argv[3])
code = {"f4": "f", "f8": "d", "u1": "B", "i2": "h", "i4": "i", "i8": "q"}[dtype[1:]]
values = [float(x) if code in "fd" else int(x) for x in sys.stdin.read().split()]
text = str({"descr": dtype, "fortran_order": len(sys.argv) > 4, "shape": shape})
text += " " * (-(len(text) + 11) % 64) + "\n"
open(name, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + struct.pack("<%d%s" % (len(values), code), *values))' "$@"
}

# The elements of a .npy file behind its header.
elements() {
	tail -c "+$((129))" "$1"
}

nothing_left() {
	local found
	found=$(find . -path ./config -prune -o -type f ! -name 'separate-stderr-*' -print | sort | tr '\n' ' ')
	[ "$found" = "$1" ] || { echo "there is: $found" && false; }
}

@test "an operation of a file prints a few elements, or writes a file" {
	requires python3
	seq 0 11 | npy a.npy '<f4' '(3, 4)'
	run --separate-stderr -0 sgpu run reduce operation=sum a.npy
	[ "$output" = 66 ]
	assert_contains "$stderr" "keep a copy: without it nothing that was sealed to you opens"
	[ "$(stat -c %a config/sgpu config/sgpu/owner.jwk | tr '\n' ' ')" = "700 600 " ]
	run --separate-stderr -0 sgpu run reduce operation=mean axis=1 a.npy
	[ "$output" = "1.5 5.5 9.5" ]
	[ -z "$stderr" ]
	run --separate-stderr -0 sgpu run --json reduce operation=mean axis=1 a.npy
	[ "$output" = '{"dtype":"f32","values":[1.5,5.5,9.5]}' ]
	run --separate-stderr -0 sgpu run threshold low=5 high=7 a.u8:u8:64 -o mask.u8
	[ "$(od -An -v -tu1 mask.u8 | tr -d ' \n' | tr -d 1)" = "" ]
	head -c 65 /dev/zero >b.u8
	run --separate-stderr -2 sgpu run copy b.u8:u8:65
	assert_contains "$stderr" "the output is u8[65], more than is printed: -o FILE names its file"
}

@test "one operation follows another, and takes its output by name where it has to" {
	requires python3
	seq 0 11 | npy a.npy '<f4' '(3, 4)'
	run --separate-stderr -0 sgpu run softmax a.npy --then argmax
	[ "$output" = "3 3 3" ]
	run --separate-stderr -0 sgpu run scale gain=2 a.npy --then gemm a=@ b=a.npy transpose_b=true
	[ "$output" = "28 76 124 76 252 428 124 428 732" ]
	run --separate-stderr -2 sgpu run gemm a=@ b=a.npy
	assert_contains "$stderr" "there is no operation before"
	run --separate-stderr -2 sgpu run scale a.npy --then gemm b=a.npy
	assert_contains "$stderr" "'gemm' has no argument 'input' for what the operation before writes: NAME=@, of a b [c]"
}

@test "outputs have names where there are several, and those that nobody names are not computed" {
	requires python3
	echo 100 100 | npy p.npy '<f4' '(2,)'
	echo 90 110 | npy k.npy '<f4' '(2,)'
	echo 1 1 | npy t.npy '<f4' '(2,)'
	set -- black_scholes rate=0 volatility=0.5 price=p.npy strike=k.npy years=t.npy
	run --separate-stderr -0 sgpu run "$@" -o output_call=call.npy
	[ "$(wc -c <call.npy)" -eq 136 ]
	run --separate-stderr -0 sgpu run "$@" -o output_call=c2.npy -o output_put=put.npy
	assert_same call.npy c2.npy
	run --separate-stderr -2 sgpu run "$@" -o one.npy
	assert_contains "$stderr" "has the outputs [output_call] [output_put]: -o NAME=FILE"
	run --separate-stderr -2 sgpu run "$@" -o output_cll=one.npy
	run --separate-stderr -2 sgpu run "$@"
	assert_no_file one.npy
}

@test "what --dry-run prints does the same" {
	requires python3
	seq 0 59 | npy a.npy '<i2' '(3, 4, 5)'
	run --separate-stderr -0 sgpu run gaussian3d sigma=1 a.npy -o "it's one.npy"
	mv "it's one.npy" one.npy
	run --separate-stderr -0 sgpu run --dry-run gaussian3d sigma=1 a.npy -o "it's one.npy"
	printf '%s\n' "$output" >commands
	nothing_left "./a.npy ./a.u8 ./commands ./one.npy "
	run --separate-stderr -0 bash -e -o pipefail commands
	assert_same one.npy "it's one.npy"
}

@test "a manifest runs as it is, with its outputs below a directory" {
	requires python3
	sgpu-manifest init -q threshold low=5 a.u8:u8:64 >job.json
	run --separate-stderr -0 sgpu run job.json -C out
	[ "$(wc -c <out/a.threshold.u8)" -eq 64 ]
	run --separate-stderr -3 sgpu run job.json -C out
	assert_contains "$stderr" "exists"
	run --separate-stderr -0 sgpu run job.json -C out --force
	run --separate-stderr -2 sgpu run copy a.u8:u8:64 -C out
}

@test "the status is that of the cause, with one message, and nothing is left half-written" {
	requires python3
	seq 0 11 | npy a.npy '<f4' '(3, 4)'
	cp a.npy cut.npy && truncate -s -1 cut.npy
	mkdir dir
	: >exists
	printf '{ "a"' >broken.json
	local status command
	while read -r status command; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr "-$status" sgpu run $command
		[ -z "$output" ]
		[ "$(grep -c 'error: \|:1:' <<<"$stderr")" -eq 1 ] || { echo "$command: $stderr" && false; }
	done <<-'END'
		3 reduce operation=sum none.npy
		1 reduce operation=sum cut.npy
		1 reduce operation=sum dir
		1 reduce operation=som a.npy
		2 reduc operation=sum a.npy
		2 reduce operatio=sum a.npy
		2
		2 --on nowhere reduce operation=sum a.npy
		3 reduce operation=sum a.npy -o exists
		3 reduce operation=sum a.npy -o a.npy/x
		3 --device cuda:99 reduce operation=sum a.npy
		1 broken.json
		2 reduce operation=sum a.npy --timeout never
		2 reduce operation=sum a.npy --like b -o x.nii
		2 gaussian3d sigma=4mm a.npy -o x.nii
	END
	nothing_left "./a.npy ./a.u8 ./broken.json ./cut.npy ./exists "
}

@test "keys that others could have changed are refused" {
	requires root
	run --separate-stderr -0 sgpu run copy a.u8:u8:64
	chmod 0755 config/sgpu
	run --separate-stderr -4 sgpu run copy a.u8:u8:64
	assert_contains "$stderr" "is not yours alone"
	chmod 0700 config/sgpu
	chown 65534 config/sgpu/owner.jwk
	run --separate-stderr -4 sgpu run copy a.u8:u8:64
	rm config/sgpu/owner.jwk
	ln -s /dev/null config/sgpu/owner.jwk
	run --separate-stderr -4 sgpu run copy a.u8:u8:64
	assert_contains "$stderr" "is not a regular file"
}

@test "another verb is the program of that name beside this one, whatever PATH says" {
	mkdir bin
	printf '#!/bin/sh\necho wrong\n' >bin/sgpu-seal
	chmod +x bin/sgpu-seal
	PATH=$PWD/bin:$PATH run -0 "$SGPU_BUILD/bin/sgpu" seal --version
	assert_contains "$output" "sgpu-seal "
	run --separate-stderr -2 sgpu sael
	assert_contains "$stderr" "sgpu: error: unknown verb 'sael'"
	run --separate-stderr -2 sgpu ../bin/sgpu-seal
	PATH=$PWD/bin:$PATH run -0 "$SGPU_BUILD/bin/sgpu" run copy a.u8:u8:64
}

@test "a map takes bool as bool, and a type that holds every value is chosen" {
	requires python3
	python3 - <<-'END'
		text = str({"descr": "|b1", "fortran_order": False, "shape": (3,)})
		text += " " * (-(len(text) + 11) % 64) + "\n"
		open("m.npy", "wb").write(b"\x93NUMPY\1\0" + bytes([len(text), 0]) + text.encode() + b"\1\0\1")
	END
	echo 1 2 3 | npy a.npy '<f4' '(3,)'
	run --separate-stderr -0 sgpu run --map 'where(~m, a, 0) + 0 * mm' m=m.npy a=a.npy mm=a.npy
	[ "$output" = "0 2 0" ]
	head -c 8 /dev/zero | tr '\0' '\377' >b.u16
	run --separate-stderr -0 sgpu run reduce operation=sum b.u16:u16:4
	[ "$output" = 262140 ]
	run --separate-stderr -0 sgpu run threshold low=3 mode=indices a.npy
	[ "$output" = 2 ]
	run --separate-stderr -1 sgpu run --map '-(-9223372036854775807 - 1) + i' i=a.u8:i64:8
}

# started: the sgpu-run, by now sgpu-enclave, of the job in the background works.
started() {
	pgrep -s "$job" -x sgpu-run >/dev/null
}

@test "a job that is stopped, from the terminal or by its process alone, ends with all of its programs" {
	head -c 64000000 /dev/zero >big.f32
	local how status
	for how in "" -; do # it alone; all of its group, as a terminal does
		setsid sgpu run gaussian3d sigma=30 big.f32:f32:400,400,100 -o out.nii.gz 3>&- 2>said &
		job=$!
		wait_for started
		kill -HUP -- "$how$job"
		status=0
		wait "$job" || status=$?
		[ "$status" -ge 128 ]
		run ! pgrep -s "$job"
		assert_no_file out.nii.gz
	done
	nothing_left "./a.u8 ./big.f32 ./said "
	run --separate-stderr -0 sgpu run gaussian3d sigma=1 big.f32:f32:400,400,100 -o out.nii.gz
}

@test "a full disk, and a place that cannot be written to, are named, and leave nothing" {
	requires root mount
	mkdir small
	mount -t tmpfs -o size=64k none small
	head -c 1000000 /dev/zero >b.u8
	run --separate-stderr -3 sgpu run copy b.u8:u8:1000000 -o small/out.npy
	left=$(find small -type f)
	umount small
	[ -z "$left" ]
	assert_contains "$stderr" "small/out.npy"
	[ "$(grep -c 'error: ' <<<"$stderr")" -eq 1 ]
	XDG_CONFIG_HOME=/proc/nowhere run --separate-stderr -3 sgpu run copy a.u8:u8:64
	assert_contains "$stderr" "/proc/nowhere"
}
