#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The examples on real data: what they reach, and that they clean up.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

# What brain-report is built with, unless the build has it already.
requires_report() {
	PATH=$SGPU_BUILD/examples:$PATH
	command -v brain-report >/dev/null && return
	requires cc
	echo '#include <png.h>' | compile -E - >/dev/null 2>&1 || skip "needs libpng-dev"
}

# brain_run: the brain example in ./brain, with its output; it is run once for all tests.
brain_run() {
	local kept=$BATS_FILE_TMPDIR/brain
	if [ ! -e "$kept.said" ]; then
		"$SGPU_TOP/examples/brain-mri/run.sh" "$kept" >"$kept.part" || return
		mv "$kept.part" "$kept.said"
	fi
	cp -a "$kept" brain
	sed "s|$kept|$PWD/brain|" "$kept.said"
}

# figure NAME: the number behind "NAME: " in the output.
figure() {
	printf '%s\n' "$output" | sed -n "s/^$1: \([0-9.]*\).*/\1/p"
}

# above NUMBER BOUND
above() {
	awk -v number="$1" -v bound="$2" 'BEGIN { exit !(number != "" && number > bound) }'
}

@test "the brain of the scan is found, with a Dice coefficient above 0.94" {
	requires brain-mri
	requires_report
	run --separate-stderr -0 brain_run
	above "$(figure 'Dice coefficient')" 0.94
	[ "$(stat -c %s brain/out/mask.u8)" -eq $((181 * 217 * 181)) ]
	[ "$(head -c 8 brain/brain.png | od -An -t x1 | tr -d ' ')" = 89504e470d0a1a0a ]
	assert_contains "$output" "picture: $PWD/brain/brain.png"
}

@test "the histogram of the brain example counts every voxel" {
	requires brain-mri
	requires_report
	run --separate-stderr -0 brain_run
	[ "$(od -An -v -w4 -t d4 brain/out/histogram.i32 | awk '{ n++; s += $1 } END { print n, s }')" = "20 7109137" ]
}

@test "the brain example without declassify is refused as a leak" {
	sed 's/ "declassify": true,//' "$SGPU_TOP/examples/brain-mri/job.json" >job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" histogram
	run --separate-stderr -0 sgpu-manifest check "$SGPU_TOP/examples/brain-mri/job.json"
}

@test "clothes get their right names, more than 80 of 100, and an example without a folder leaves nothing behind" {
	requires fashion-mnist
	mkdir temporary
	TMPDIR=$PWD/temporary run --separate-stderr -0 "$SGPU_TOP/examples/fashion-knn/run.sh"
	above "$(figure accuracy)" 0.80
	[ -z "$stderr" ]
	[ -z "$(ls -A temporary)" ]
}

# What trains in a session is built by make alone.
requires_train() {
	PATH=$SGPU_BUILD/examples:$PATH
	requires fashion-mnist
	command -v train >/dev/null || skip "train was not built"
}

@test "a session learns what clothes look like, more than 75 of 100" {
	requires_train
	run --separate-stderr -0 "$SGPU_TOP/examples/session/run.sh" session
	assert_contains "$output" "step 100: loss "
	above "$(sed -n 's/^step 100: .* accuracy //p' session/losses)" 0.75
	awk '/^step/ { sub(",", "", $4); if (last != "" && $4 + 0 >= last) exit 1; last = $4 + 0 }' session/losses
}

requires_parameter_server() {
	PATH=$SGPU_BUILD/examples:$PATH
	command -v parameter-server parameter-client >/dev/null || skip "parameter-server was not built"
}

@test "a parameter server loses no change, whichever way its system calls go" {
	requires_parameter_server
	REQUESTS=300 CONNECTIONS=3 ITEMS=5 run --separate-stderr -0 "$SGPU_TOP/examples/parameter-server/run.sh" here
	[ "${#lines[@]}" -eq 3 ]
	for way in direct exit queue; do
		assert_contains "$output" "$way: "
	done
	# The sum is that of the same changes each time, and two requests ask for it.
	[[ "$(sed 's/.*sum \([0-9]*\) is right, \([0-9]*\) requests.*/\1 \2/' here/table | sort -u)" =~ ^[0-9]+\ 302$ ]]
	RATE=2000 REQUESTS=100 run --separate-stderr -0 "$SGPU_TOP/examples/parameter-server/run.sh"
	assert_contains "$output" "is right, 102 requests"
}

@test "a client of a parameter server that is not there says so" {
	requires_parameter_server
	run --separate-stderr -3 parameter-client 1 1 10 1 0
	assert_contains "$stderr" "parameter-client: cannot connect over the loopback interface"
	run --separate-stderr -2 parameter-client 1 0 10 1 0
	run --separate-stderr -2 parameter-server neither 1
}

# What makes the jobs that train is built by make alone.
requires_fashion_train() {
	PATH=$SGPU_BUILD/examples:$PATH
	requires fashion-mnist
	command -v fashion-train >/dev/null || skip "fashion-train was not built"
}

@test "an autoencoder learns from epoch to epoch, sealed as unsealed" {
	requires_fashion_train
	STEPS=4 EPOCHS=2 run --separate-stderr -0 "$SGPU_TOP/examples/fashion-train/run.sh" here
	assert_contains "$output" "sealed and unsealed parameters are equal"
	[ "$(grep -c '^HIGH, epoch' <<<"$output")" -eq 2 ]
	awk '/^HIGH/ { if (last != "" && $5 + 0 >= last) exit 1; last = $5 + 0 }' <<<"$output"
	[ "$(sed -n 's/^HIGH, //p' <<<"$output")" = "$(sed -n 's/^LOW, //p' <<<"$output")" ]
	[ "$(stat -c %s here/parameters.HIGH)" -eq 11349256 ]
	[ -z "$stderr" ]
}

@test "a convolutional network is trained by batches, and tells its accuracy" {
	requires_fashion_train
	[ "${SGPU_SANITIZE:-}" != thread ] || skip "takes minutes under the thread checker, as the autoencoder does"
	NETWORK=cnn STEPS=1 EPOCHS=1 run --separate-stderr -0 "$SGPU_TOP/examples/fashion-train/run.sh"
	assert_contains "$output" "accuracy: "
	assert_contains "$output" "sealed and unsealed parameters are equal"
	run --separate-stderr -2 fashion-train neither HIGH 1
	run --separate-stderr -2 fashion-train cnn MEDIUM 1
	run --separate-stderr -2 fashion-train cnn LOW 301
	assert_contains "$stderr" "not that many pictures"
	assert_no_file w0.f32
}

@test "a worker that is none is named by the program" {
	requires_train
	WORKER=false run --separate-stderr -3 "$SGPU_TOP/examples/session/run.sh" session
	assert_contains "$stderr" "train: "
	assert_contains "$stderr" "a session"
}

@test "an example without its data names the package, with status 3" {
	DATA=$PWD run --separate-stderr -3 "$SGPU_TOP/examples/brain-mri/run.sh" brain
	assert_contains "$stderr" "install the package mricron-data"
	DATA=$PWD run --separate-stderr -3 "$SGPU_TOP/examples/fashion-knn/run.sh" knn
	assert_contains "$stderr" "install the package dataset-fashion-mnist"
	assert_no_file brain knn
}

@test "each example is a pipeline of under 40 lines" {
	for script in "$SGPU_TOP"/examples/*/run.sh; do
		[ "$(wc -l <"$script")" -lt 40 ]
	done
}
