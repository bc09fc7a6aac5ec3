#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The same source gives the same bytes, wherever it lies and whatever the folder is called that it is built in: else the
# digest in a quote would tell an owner nothing.

load helpers

# copy FOLDER: the source, without what was built.
copy() {
	mkdir -p "$1"
	(cd "$SGPU_TOP" && cp -r Makefile include lib tools scripts sgpu.pc.in "$OLDPWD/$1/")
}

# build FOLDER VARIABLE=VALUE... TARGET: without ccache, which would give the objects of another build, and without what a
# make that runs the tests left in the environment.
build() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CUDA_BUILD CCACHE_DISABLE=1 make -s -C "$1" -j"$(nproc)" DEPS=0 "${@:2}"
}

@test "another build of the runner in another place is the same bytes" {
	requires no-sanitizer
	local settings ours=$SGPU_BUILD/bin/sgpu-enclave theirs=a/longer/name-of-another/out/of-it/bin/sgpu-enclave
	mapfile -t settings <"$SGPU_BUILD/settings"
	copy a/longer/name-of-another
	build a/longer/name-of-another "${settings[@]}" BUILD=out/of-it out/of-it/flags
	# Every sixth object is compiled there, and all are linked. A path in one of the others is found below.
	cp -r "$SGPU_BUILD/obj" a/longer/name-of-another/out/of-it/
	find a/longer/name-of-another/out/of-it/obj -name '*.o' | sort | awk 'NR % 6 == 1' | xargs rm
	build a/longer/name-of-another "${settings[@]}" BUILD=out/of-it out/of-it/bin/sgpu-enclave
	cmp "$ours" "$theirs"
	readelf -n "$theirs" | grep -q 'Build ID: [0-9a-f]\{40\}'
	run ! grep -aqF "$BATS_TEST_TMPDIR" "$theirs"
	run ! grep -aqF "$SGPU_TOP" "$ours"
}

@test "two builds of device code are the same bytes" {
	requires no-sanitizer
	# One with functions that stay functions, into whose names nvcc puts where the source lies.
	local nvcc object=cuda/lib/device/cuda/kernels/digest.o section
	nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
	[ -x "$nvcc" ] || skip "needs nvcc"
	copy one
	copy a/longer/name-of-another
	for folder in one/build a/longer/name-of-another/out; do
		build "${folder%/*}" BUILD="${folder##*/}" CUDA=1 NVCC="$nvcc" "${folder##*/}/$object" \
			CUDA_ARCH='-gencode arch=compute_90,code=sm_90'
	done
	for section in .nv_fatbin .nvFatBinSegment; do
		objcopy -O binary --only-section="$section" "one/build/$object" one.bin
		objcopy -O binary --only-section="$section" "a/longer/name-of-another/out/$object" other.bin
		[ "$section" != .nv_fatbin ] || [ -s one.bin ]
		cmp one.bin other.bin
	done
}
