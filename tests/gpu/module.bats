#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kernels that a batch brings, on a GPU: PTX text, sealed like the data; parameters that do not fit; traps.
# shellcheck disable=SC2154 # bats sets stderr

load ../bats/helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires gpu
	sgpu-seal keygen -o owner.jwk
	seq 0 9999 | floats >x.f32
	awk 'BEGIN { for (i = 0; i < 10000; i++) print i * 3 }' | floats >expected.f32
	cp "$SGPU_TOP/examples/module/scale.ptx" code.ptx
	cat >>code.ptx <<-'END'

	.visible .entry nothing(.param .u64 output, .param .u64 input)
	{
		ret;
	}

	.visible .entry traps(.param .u64 output, .param .u64 input)
	{
		trap;
		ret;
	}

	// Adds 1 to an f32 in each of the first `words` words of dynamic shared memory, and writes the last one.
	.extern .shared .align 4 .b8 memory[];
	.visible .entry shares(.param .u64 output, .param .u64 input, .param .u32 last)
	{
		.reg .b32 %at, %base;
		.reg .b64 %to;
		.reg .f32 %value;

		ld.param.u32 %at, [last];
		shl.b32 %at, %at, 2;
		mov.u32 %base, memory;
		add.u32 %at, %at, %base;
		mov.f32 %value, 0f42280000; // 42
		st.shared.f32 [%at], %value;
		ld.shared.f32 %value, [%at];
		ld.param.u64 %to, [output];
		cvta.to.global.u64 %to, %to;
		st.global.f32 [%to], %value;
		ret;
	}
	END
}

# job FUNCTION PARAMS [MORE]: job.json, x.f32 by a function of code.ptx; and a copy of x beside it.
job() {
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "module", "segments": [
	  { "segment_id": "code", "data_location_client": "code.ptx", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10000] } },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10000] } },
	  { "segment_id": "z", "data_location_client": "z.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "RUN", "kernel": "module:code:$1", "grid": [40], "block": [256]${3:+, $3},
	    "arguments": { "input": "x", "output": "y" }, "params": $2 },
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "x", "output": "z" } } ] }
	END
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
}

scale='["output", "input", { "elements": "input" }, { "f32": 3 }]'

submit() {
	sgpu-run --device cuda -k owner.jwk --allow-modules -o response batch.tar
}

results() {
	sgpu-seal open -k owner.jwk -C out response
}

@test "a sealed PTX kernel computes what sealed data become" {
	job scale "$scale"
	run --separate-stderr -4 sgpu-run --device cuda -k owner.jwk -o response batch.tar
	assert_no_file response
	submit
	results
	assert_same out/y.f32 expected.f32
	assert_same out/z.f32 x.f32
}

@test "a cubin does the same" {
	local nvcc=${NVCC:-/usr/local/cuda/bin/nvcc} ptxas arch
	ptxas=$(dirname "$nvcc")/ptxas
	[ -x "$ptxas" ] || skip "needs ptxas"
	arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. \n')
	[ -n "$arch" ] || skip "needs nvidia-smi"
	"$ptxas" -arch="sm_$arch" -o code.cubin code.ptx
	mv code.cubin code.ptx
	job scale "$scale"
	submit
	results
	assert_same out/y.f32 expected.f32
}

@test "what a kernel does not write is zero" {
	job nothing '["output", "input"]'
	submit
	results
	head -c 40000 /dev/zero >zeros
	assert_same out/y.f32 zeros
}

@test "more shared memory than a kernel has by itself can be asked for" {
	job shares '["output", "input", { "u32": 50000 }]' '"shared_bytes": 200004'
	submit
	results
	[ "$(od -An -t f4 -N 4 out/y.f32 | tr -d ' ')" = 42 ]
}

@test "parameters that the kernel does not have are refused before it runs" {
	for params in '["output", "input"]' '["output", "input", { "elements": "input" }, { "f64": 3 }]' \
		'["output", "input", { "elements": "input" }, { "f32": 3 }, { "f32": 3 }]'; do
		job scale "$params"
		run --separate-stderr -5 submit
		assert_contains "$stderr" "module 'code'"
		assert_contains "$stderr" "'scale'"
		run -5 results
		assert_same out/z.f32 x.f32
		assert_no_file out/y.f32
		rm -r out
	done
}

@test "a function that is not there fails by name, and the rest answers" {
	job no_such_function "$scale"
	run --separate-stderr -5 submit
	assert_contains "$stderr" "no_such_function"
	run -5 results
	assert_same out/z.f32 x.f32
}

@test "what is no module for the device fails alone" {
	echo "this is no PTX" >code.ptx
	job scale "$scale"
	run --separate-stderr -5 submit
	assert_contains "$stderr" "module 'code'"
	run -5 results
	assert_same out/z.f32 x.f32
}

@test "a module that was tampered with does not run" {
	local block
	job traps '["output", "input"]' # else the copy would be lost with the context
	block=$(tar -tRf batch.tar | sed -n 's,^block \([0-9]*\): segments/code$,\1,p')
	flip_byte batch.tar $((block * 512 + 512 + 900))
	run --separate-stderr -5 submit
	assert_contains "$stderr" "'code'"
	run -5 results
	assert_same out/z.f32 x.f32
}

@test "a kernel that traps ends the context: a response says so, and the next run is none the worse" {
	job traps '["output", "input"]'
	run --separate-stderr -5 submit
	assert_contains "$stderr" "operation 'RUN' failed"
	assert_contains "$stderr" "context"
	run -5 results
	[ ! -e out/y.f32 ]
	[ ! -e out/z.f32 ] || assert_same out/z.f32 x.f32
	job scale "$scale"
	submit
	rm -rf out
	results
	assert_same out/y.f32 expected.f32
}

@test "what a kernel prints and asserts of HIGH data reaches neither the log nor the response" {
	local nvcc=${NVCC:-/usr/local/cuda/bin/nvcc}
	[ -x "$nvcc" ] || skip "needs nvcc"
	cat >code.cu <<-'END'
	#include <cassert>
	#include <cstdio>

	extern "C" __global__ void says(float *, const float *input)
	{
		if (blockIdx.x + threadIdx.x == 0) {
			printf("read %f\n", input[4711]);
		}
	}

	extern "C" __global__ void asserts(float *, const float *input)
	{
		assert(input[blockIdx.x * 256 + threadIdx.x] != 4711);
	}
	END
	"$nvcc" -ptx -arch=compute_80 -o code.ptx code.cu
	job says '["output", "input"]'
	sgpu-run -v --stats --device cuda -k owner.jwk --allow-modules batch.tar >response 2>log
	run -0 grep -Eq 'operations_done +2' log # what the runner says itself arrives
	run -1 grep -aq 'read 4711' log response
	results
	assert_same out/z.f32 x.f32
	mkdir spool
	cp batch.tar spool/
	run -0 sgpu-worker --device cuda -k owner.jwk --allow-modules spool
	assert_contains "$output" "1 batches answered"
	[[ $output != *'read 4711'* ]]
	job asserts '["output", "input"]'
	run --separate-stderr -5 submit
	assert_contains "$stderr" "operation 'RUN' failed"
	[[ $stderr$output != *Assertion* ]]
}

@test "the example with a module of its own agrees with the operation of sgpu" {
	DEVICE=cuda run --separate-stderr -0 "$SGPU_TOP/examples/module/run.sh" here
	assert_contains "$output" "1000000 numbers as expected"
}
