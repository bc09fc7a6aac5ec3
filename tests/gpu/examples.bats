#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The jobs of the examples on a GPU: the same bytes come out as on the CPU device. With made-up data, so that no package
# is needed.

load ../bats/helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu
	set -o pipefail
	sgpu-seal keygen -o shared.jwk
}

# on DEVICE: runs job.json there; results in the folder of its name.
on() {
	sgpu-manifest pack job.json | sgpu-seal seal -k shared.jwk | sgpu-run --device "$1" -k shared.jwk |
		sgpu-seal open -k shared.jwk -C "$1"
}

# A noisy ellipsoid in a noisy shell with bridges between them, as bytes that are letters (23 to 50 % of the range) or
# blanks; 181 x 217 x 181 of them behind a header of 352.
make_scan() {
	awk 'BEGIN {
		srand(1)
		for (i = 0; i < 4096; i++) noise = noise sprintf("%c", 66 + int(rand() * 55))
		for (i = 0; i < 352; i++) blank = blank " "
		printf "%s", blank
		for (z = 0; z < 181; z++) for (y = 0; y < 217; y++) {
			r = 1 - ((z - 90) / 80) ^ 2 - ((y - 108) / 95) ^ 2
			brain = r > 0.15 ? int(65 * sqrt(r - 0.15)) : 0
			shell = r > 0 ? int(80 * sqrt(r)) : 0
			gap = (y + z) % 61 < 3 ? 0 : shell - brain < 9 ? shell - brain : 9
			ring = shell - brain - gap
			row = substr(blank, 1, 90 - shell) substr(noise, 1 + (y * 31 + z * 57) % 3000, ring)
			row = row substr(blank, 1, gap)
			row = row substr(noise, 1 + (y * 17 + z * 91) % 3000, 2 * brain) substr(blank, 1, gap)
			row = row substr(noise, 1 + (y * 7 + z * 3) % 3000, ring)
			printf "%s%s", row, substr(blank, 1, 181 - length(row))
		}
	}' >ch2.nii
	[ "$(stat -c %s ch2.nii)" -eq $((352 + 181 * 217 * 181)) ]
}

# make_pictures SEED COUNT IMAGES LABELS: ten patterns, each of its 28 rows more often than not replaced by noise. The
# random numbers are our own: every awk has others.
make_pictures() {
	awk -v seed="$1" -v count="$2" -v images="$3" -v labels="$4" '
	function random(bound) {
		state = state * 16807 % 2147483647
		return int(state / 2147483647 * bound)
	}
	BEGIN {
		state = 7
		for (i = 0; i < 7840; i++) patterns = patterns sprintf("%c", 33 + random(94))
		for (i = 0; i < 5000; i++) noise = noise sprintf("%c", 33 + random(94))
		state = 1000 + seed
		printf "%16s", "" >images
		printf "%8s", "" >labels
		for (i = 0; i < count; i++) {
			class = random(10)
			printf "%d", class >labels
			picture = ""
			for (row = 0; row < 28; row++) {
				if (random(100) < 25) picture = picture substr(patterns, 1 + 784 * class + 28 * row, 28)
				else picture = picture substr(noise, 1 + random(4900), 28)
			}
			printf "%s", picture >images
		}
	}'
	[ "$(stat -c %s "$3")" -eq $((16 + 784 * $2)) ]
	[ "$(stat -c %s "$4")" -eq $((8 + $2)) ]
}

compare_brains() {
	cp "$SGPU_TOP/examples/brain-mri/job.json" job.json
	printf '\311\310\310\076\000\000\000\000' >calibration.f32
	on cpu
	on cuda
	assert_same cpu/histogram.i32 cuda/histogram.i32
	assert_same cpu/mask.u8 cuda/mask.u8
	# and there is a brain in it
	[ "$(tr -d '\000' <cuda/mask.u8 | wc -c)" -gt 100000 ]
}

compare_clothes() {
	cp "$SGPU_TOP/examples/fashion-knn/job.json" job.json
	on cpu
	on cuda
	assert_same cpu/labels.i32 cuda/labels.i32
	[ "$(stat -c %s cuda/labels.i32)" -eq 8000 ]
}

# right LABELS: how many of the 2000 labels that came out are those behind the header of a file.
right() {
	od -An -v -w4 -t d4 cuda/labels.i32 >got
	od -An -v -w1 -t u1 -j 8 -N 2000 "$1" | paste got - | awk '$1 == $2 { n++ } END { print n + 0 }'
}

@test "a made-up scan gives the same mask and the same histogram on the GPU" {
	make_scan
	compare_brains
}

@test "made-up pictures get the same names on the GPU" {
	make_pictures 1 10000 train-images train-labels
	make_pictures 2 2000 test-images test-labels
	compare_clothes
	[ "$(right test-labels)" -gt 1000 ]
}
