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

# build FOLDER BUILD TARGET: without ccache, which would give the first one's objects to the second.
build() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL CCACHE_DISABLE=1 make -s -C "$1" -j"$(nproc)" BUILD="$2" CUDA=0 DEPS=0 \
		CC="${CC:-cc}" "$2/$3"
}

@test "two builds of the runner in two places are the same bytes" {
	requires no-sanitizer
	copy one
	copy "a/longer/name-of-another"
	build one build bin/sgpu-run &
	build a/longer/name-of-another out/of-it bin/sgpu-run
	wait $!
	cmp one/build/bin/sgpu-run a/longer/name-of-another/out/of-it/bin/sgpu-run
	readelf -n one/build/bin/sgpu-run | grep -q 'Build ID: [0-9a-f]\{40\}'
	# No name of either place is in it.
	run ! grep -aqF "$BATS_TEST_TMPDIR" one/build/bin/sgpu-run
}

@test "two builds of device code are the same bytes" {
	requires no-sanitizer
	local nvcc kernel=lib/ops/cuda/copy.cu section
	nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
	[ -x "$nvcc" ] || skip "needs nvcc"
	copy one
	copy "a/longer/name-of-another"
	for folder in one/build a/longer/name-of-another/out; do
		env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "${folder%/*}" BUILD="${folder##*/}" CUDA=1 NVCC="$nvcc" \
			CUDA_ARCH='-gencode arch=compute_90,code=sm_90' "${folder##*/}/cuda/${kernel%.cu}.o"
	done
	for section in .nv_fatbin .nvFatBinSegment; do
		objcopy -O binary --only-section="$section" "one/build/cuda/${kernel%.cu}.o" one.bin
		objcopy -O binary --only-section="$section" "a/longer/name-of-another/out/cuda/${kernel%.cu}.o" other.bin
		[ "$section" != .nv_fatbin ] || [ -s one.bin ]
		cmp one.bin other.bin
	done
}
