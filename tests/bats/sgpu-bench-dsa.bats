# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets stderr
#
# Intel's Data Streaming Accelerator: sgpu-bench run dsa, and sgpu-stage load of large files. Where there is none, the reason
# is told, and the data are the same.

load helpers

@test "dsa is measured, or waived with the reason" {
	run -0 --separate-stderr sgpu-bench run --device cpu --samples 3 --size 64 dsa
	[[ $output == *"dsa poll"*"B/s"* || $output == *"waived: no work queue"* ||
		$output == *"waived: the accelerator is not trusted"* ]]
	[[ $stderr == *" 0 failed"* ]]
}

@test "in a confidential guest dsa is waived" {
	mkdir -p root/sys/devices/system/cpu/sev
	echo 0 >root/sys/devices/system/cpu/sev/vmpl
	use_roots
	SGPU_PLATFORM_ROOT=$PWD/root run -0 --separate-stderr sgpu-bench run --device cpu dsa
	[[ $output == *"waived: the accelerator is not trusted in a confidential VM or enclave"* ]]
	[[ $stderr == *"0 passed, 1 waived, 0 failed"* ]]
}

# pack_job ELEMENTS FILE: a sealed batch of so many elements.
pack_job() {
	small_job "$1"
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o "$2"
}

@test "sgpu-stage says with -v what an accelerator copied of large files, or why none" {
	make_keys
	pack_job 5000 small.sgpu
	run -0 --separate-stderr sgpu-stage load -v small.sgpu -o staged.sgpu
	[[ $stderr != *accelerator* ]]
	pack_job 9000000 large.sgpu
	[ "$(stat -c %s large.sgpu)" -gt $((64 << 20)) ]
	run -0 --separate-stderr sgpu-stage load -v large.sgpu -o staged.sgpu
	[[ $stderr == *"no accelerator copies: "* || $stderr == *"an accelerator copied "* ]]
	sgpu-run -k runner.jwk staged.sgpu | sgpu-seal open -k owner.jwk -C out
	assert_same out/out.f32 expected.f32
}
