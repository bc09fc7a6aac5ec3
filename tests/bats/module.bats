#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kernels that a batch brings, on the CPU device: what they compute, and when they are not even loaded.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

# Built twice: trap.so cannot be loaded without a word, since its constructor does what is refused.
setup_file() {
	has_compiler || return 0
	cat >"$BATS_FILE_TMPDIR/kernels.c" <<-'END'
	#include <stdint.h>
	#include <unistd.h>

	#include <sgpu/device.h>

	#define KERNEL(name) int name(const struct sgpu_module_shape *shape, void *const *args, int count)

	int not_a_function = 5;

	#ifdef TRAP
	__attribute__((constructor)) static void be_seen(void)
	{
		(void)fork();
	}
	#endif

	/* How often a function was called since it was loaded. */
	KERNEL(counts)
	{
		static float calls;

		(void)shape;
		**(float **)args[0] = ++calls;
		return count == 1 ? 0 : 1;
	}

	KERNEL(scale)
	{
		float *output = *(float **)args[0];
		const float *input = *(const float **)args[1];

		(void)shape;
		for (uint64_t i = 0; count == 4 && i < *(uint64_t *)args[2]; i++) {
			output[i] = input[i] * *(float *)args[3];
		}
		return 0;
	}

	/* What it was told, as numbers: shape, then every kind of parameter. */
	KERNEL(report)
	{
		double *output = *(double **)args[0];

		for (int i = 0; i < 3; i++) {
			output[i] = shape->grid[i];
			output[3 + i] = shape->block[i];
		}
		output[6] = shape->shared_bytes;
		output[7] = count;
		output[8] = *(int32_t *)args[2];
		output[9] = *(uint32_t *)args[3];
		output[10] = (double)*(int64_t *)args[4];
		output[11] = (double)*(uint64_t *)args[5];
		output[12] = *(float *)args[6];
		output[13] = *(double *)args[7];
		output[14] = (double)*(uint64_t *)args[8];
		output[15] = (double)*(uint64_t *)args[9];
		return 0;
	}

	KERNEL(nothing)
	{
		(void)shape;
		(void)args;
		return count == 2 ? 0 : 1;
	}

	KERNEL(forever)
	{
		volatile const int *again = &count;

		(void)shape;
		(void)args;
		while (*again) {
		}
		return 0;
	}

	KERNEL(fails)
	{
		(void)shape;
		(void)args;
		(void)count;
		return 7;
	}
	END
	compile -shared -fPIC -I"$SGPU_TOP/include" -o "$BATS_FILE_TMPDIR/kernels.so" "$BATS_FILE_TMPDIR/kernels.c" &&
		compile -DTRAP -shared -fPIC -I"$SGPU_TOP/include" -o "$BATS_FILE_TMPDIR/trap.so" "$BATS_FILE_TMPDIR/kernels.c"
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	requires cc
	cp "$BATS_FILE_TMPDIR/kernels.so" .
	sgpu-seal keygen -o owner.jwk
	seq 0 999 | floats >x.f32
	awk 'BEGIN { for (i = 0; i < 1000; i++) print i * 3 }' | floats >expected.f32
}

# trap_module: from here on a module that was loaded, for whatever reason, ends the runner with status 4.
trap_module() {
	cp "$BATS_FILE_TMPDIR/trap.so" kernels.so
}

# What a run says whose module was not loaded.
assert_not_loaded() {
	[[ $stderr != *"refused: no module needs it"* ]]
}

# job FUNCTION PARAMS [LEVEL]: job.json, x.f32 by a function of kernels.so.
job() {
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "module", "segments": [
	  { "segment_id": "code", "data_location_client": "kernels.so", "sensitivity_level": "${3:-HIGH}",
	    "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "${3:-HIGH}", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [1000] } },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "${3:-HIGH}", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [1000] } },
	  { "segment_id": "z", "data_location_client": "z.f32", "sensitivity_level": "${3:-HIGH}", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "RUN", "kernel": "module:code:$1", "grid": [4], "block": [256],
	    "arguments": { "input": "x", "output": "y" }, "params": $2 },
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "x", "output": "z" } } ] }
	END
	sgpu-manifest check job.json
}

scale='["output", "input", { "elements": "input" }, { "f32": 3 }]'

# seal: job.json to batch.tar
seal() {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
}

submit() {
	sgpu-run --device cpu -k owner.jwk "$@" -o response batch.tar
}

results() {
	sgpu-seal open -k owner.jwk -C out response
}

@test "a sealed module computes what a sealed segment becomes" {
	job scale "$scale"
	seal
	submit --allow-modules
	results
	assert_same out/y.f32 expected.f32
	assert_same out/z.f32 x.f32
}

@test "modules run where few descriptors may be open" {
	local limited=()
	if [ "$(id -u)" -eq 0 ]; then # which may have more all the same
		requires setpriv
		limited=(setpriv --bounding-set -sys_resource --inh-caps -sys_resource)
	fi
	job scale "$scale"
	seal
	ulimit -n 200
	"${limited[@]}" sgpu-run --device cpu -k owner.jwk --allow-modules -o response batch.tar
	results
	assert_same out/y.f32 expected.f32
}

@test "a module that is loaded and does what is refused ends the runner: else the tests below say nothing" {
	trap_module
	job scale "$scale"
	seal
	run --separate-stderr -4 submit --allow-modules
	assert_contains "$stderr" "module 'code': system call"
	assert_contains "$stderr" "(clone) refused: no module needs it"
	assert_no_file response
}

@test "a LOW module runs under the MAC of its batch" {
	job scale "$scale" LOW
	seal
	submit --allow-modules
	results
	assert_same out/y.f32 expected.f32
}

@test "without --allow-modules a batch with a module is refused and none is loaded" {
	trap_module
	job scale "$scale"
	seal
	run --separate-stderr -4 submit
	assert_contains "$stderr" "modules are not allowed"
	assert_contains "$stderr" "--allow-modules"
	assert_not_loaded
	assert_no_file response
}

@test "a module in a batch that nobody signed is refused and not loaded" {
	trap_module
	job scale "$scale" LOW
	sgpu-manifest pack job.json | sgpu-stage load --files . -o batch.tar
	run --separate-stderr -4 submit --allow-modules
	assert_contains "$stderr" "no MAC"
	assert_not_loaded
	assert_no_file response
}

@test "a sealed module that was tampered with is never loaded, and the rest answers" {
	local block
	trap_module
	job scale "$scale"
	seal
	block=$(tar -tRf batch.tar | sed -n 's,^block \([0-9]*\): segments/code$,\1,p')
	flip_byte batch.tar $((block * 512 + 512 + 9000))
	run --separate-stderr -5 submit --allow-modules
	assert_contains "$stderr" "'code'"
	assert_not_loaded
	run -5 results
	assert_same out/z.f32 x.f32
	assert_no_file out/y.f32
}

@test "a LOW module that was tampered with is never loaded" {
	local block
	trap_module
	job scale "$scale" LOW
	seal
	block=$(tar -tRf batch.tar | sed -n 's,^block \([0-9]*\): segments/code$,\1,p')
	if [ -n "$block" ]; then
		flip_byte batch.tar $((block * 512 + 512 + 9000))
	else
		flip_byte kernels.so 9000
	fi
	run --separate-stderr -5 submit --allow-modules
	assert_contains "$stderr" "its kt128 is not the one"
	assert_not_loaded
}

@test "a module is loaded once for all of its operations" {
	job scale "$scale"
	sed -i -e '/"segment_id": "z"/s/.*/{ "segment_id": "w", "data_location_client": "w.f32", "sensitivity_level": "HIGH",\
		"direction": "OUTPUT", "data_type_info": { "dtype": "f32", "shape": [1] } },\
		{ "segment_id": "v", "data_location_client": "v.f32", "sensitivity_level": "HIGH",\
		"direction": "OUTPUT", "data_type_info": { "dtype": "f32", "shape": [1] } } ],/' \
		-e '/"gpu_operation_id": "COPY"/s/.*/{ "gpu_operation_id": "FIRST", "kernel": "module:code:counts",\
		"arguments": { "output": "w" }, "params": ["output"] },\
		{ "gpu_operation_id": "SECOND", "kernel": "module:code:counts",\
		"arguments": { "output": "v" }, "params": ["output"] } ] }/' job.json
	sgpu-manifest check job.json
	seal
	submit --allow-modules
	results
	assert_same out/y.f32 expected.f32
	[ "$(cat out/w.f32 out/v.f32 | od -An -t f4 | tr -s ' ' '\n' | sort -n | xargs)" = "1 2" ]
}

@test "what a module does not write is zero, in memory that held other data, too" {
	cat >job.json <<-'END'
	{ "version": 1, "manifest_id": "zero", "segments": [
	  { "segment_id": "code", "data_location_client": "kernels.so", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [1000] } },
	  { "segment_id": "first", "sensitivity_level": "HIGH", "direction": "INTERMEDIATE" },
	  { "segment_id": "second", "sensitivity_level": "HIGH", "direction": "INTERMEDIATE" },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [1000] } } ],
	  "operations": [
	  { "gpu_operation_id": "A", "kernel": "copy", "arguments": { "input": "x", "output": "first" } },
	  { "gpu_operation_id": "B", "kernel": "copy", "arguments": { "input": "first", "output": "second" } },
	  { "gpu_operation_id": "RUN", "kernel": "module:code:nothing",
	    "arguments": { "input": "second", "output": "y" }, "params": ["output", "input"] } ] }
	END
	seal
	sgpu-manifest show --json job.json >plan.json
	[ "$(grep -c '"size": 4000' plan.json)" -eq 2 ] # so 'y' is where another of the four values was
	submit --allow-modules
	results
	head -c 4000 /dev/zero >zeros
	assert_same out/y.f32 zeros
}

@test "a function gets its grid, its block and every kind of parameter" {
	cat >job.json <<-'END'
	{ "version": 1, "manifest_id": "report", "segments": [
	  { "segment_id": "code", "data_location_client": "kernels.so", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10, 100] } },
	  { "segment_id": "y", "data_location_client": "y.f64", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f64", "shape": [16] } } ],
	  "operations": [
	  { "gpu_operation_id": "RUN", "kernel": "module:code:report", "grid": [9, 8, 7], "block": [6, 5, 4],
	    "shared_bytes": 1234, "arguments": { "input": "x", "output": "y" },
	    "params": ["output", "input", { "i32": -5 }, { "u32": 4294967295 }, { "i64": -9007199254740991 },
		       { "u64": 9007199254740991 }, { "f32": 0.5 }, { "f64": -0.25 }, { "elements": "input" },
		       { "bytes": "input" }] } ] }
	END
	seal
	submit --allow-modules
	results
	run -0 bash -c "od -An -v -w8 -t f8 out/y.f64 | tr -d ' ' | tr '\n' ' '"
	[ "$output" = "9 8 7 6 5 4 1234 10 -5 4294967295 -9007199254740991 9007199254740991 0.5 -0.25 1000 4000 " ]
}

@test "a function that is not there fails by name, and the rest answers" {
	for name in no_such_function not_a_function malloc; do
		job "$name" "$scale"
		seal
		run --separate-stderr -5 submit --allow-modules
		assert_contains "$stderr" "module 'code'"
		assert_contains "$stderr" "'$name'"
		run -5 results
		assert_same out/z.f32 x.f32
		assert_no_file out/y.f32
		rm -r out
	done
}

@test "a function that fails fails its operation, with its number" {
	job fails "$scale"
	seal
	run --separate-stderr -5 submit --allow-modules
	assert_contains "$stderr" "operation 'RUN' failed"
	assert_contains "$stderr" "module 'code', function 'fails'"
	assert_contains "$stderr" "7"
	run -5 results
	assert_same out/z.f32 x.f32
}

@test "what is no shared object is no module" {
	for bytes in "" 10 64 3000; do
		job scale "$scale"
		head -c "${bytes:-0}" "$BATS_FILE_TMPDIR/kernels.so" >kernels.so
		seal
		run --separate-stderr -5 submit --allow-modules
		assert_contains "$stderr" "module 'code'"
		assert_not_loaded
	done
	job scale "$scale"
	echo '.version 7.0' >kernels.so
	seal
	run --separate-stderr -5 submit --allow-modules
	assert_contains "$stderr" "not an ELF shared object"
}

@test "a shared object for another processor is told as one" {
	# EI_CLASS, and e_machine.
	for at in 4 18; do
		job scale "$scale"
		cp "$BATS_FILE_TMPDIR/kernels.so" .
		flip_byte kernels.so "$at"
		seal
		run --separate-stderr -5 submit --allow-modules
		assert_contains "$stderr" "another processor"
		assert_not_loaded
	done
}

@test "a function that never ends is ended at the deadline, and the rest answers" {
	job forever "$scale"
	seal
	local time
	# A slow machine may not have done the rest in the first of these times, or not even begun.
	for time in 2s 20s 120s; do
		run --separate-stderr submit --allow-modules --timeout $time
		[ "$status" -eq 5 ] && sgpu-seal open -q -k owner.jwk --only z response >/dev/null && break
	done
	[ "$status" -eq 5 ]
	assert_contains "$stderr" "deadline"
	run -5 results
	assert_same out/z.f32 x.f32
	assert_no_file out/y.f32
}

# below PID: its processes, and theirs.
below() {
	local pid
	for pid in $(pgrep -P "$1"); do
		echo "$pid"
		below "$pid"
	done
}

@test "a function that never ends does not hold up a runner that was told to stop, and nothing of it is left" {
	local runner status=0 pids pid i
	job forever "$scale"
	seal
	sgpu-run --device cpu -k owner.jwk --allow-modules -o response batch.tar 2>message &
	runner=$!
	for ((i = 0; i < 2400; i++)); do
		pids=$(below "$runner")
		# The host, its first process in the namespace if there is one, the worker.
		[ "$(wc -w <<<"$pids")" -lt 2 ] || break
		sleep 0.05
	done
	[ "$i" -lt 2400 ]
	kill -TERM "$runner"
	wait "$runner" || status=$?
	[ "$status" -ne 0 ]
	assert_no_file response
	for pid in $pids; do
		for ((i = 0; i < 2400; i++)); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.05
		done
		[ "$i" -lt 2400 ]
	done
}

@test "a module has one size when its manifest says so" {
	job scale "$scale"
	sed -i 's/"kernels.so",/& "data_type_info": { "dtype": "u8", "shape": [100] },/' job.json
	run --separate-stderr -1 sgpu-manifest pack -o batch.tar job.json
	assert_contains "$stderr" "u8[100] needs 100"
	sed -i "s/\[100\]/[$(stat -c %s kernels.so)]/" job.json
	seal
	submit --allow-modules
	results
	assert_same out/y.f32 expected.f32
}

@test "diagnostics of a module have their places and hints" {
	job scale "$scale"
	sed -i 's/module:code:scale/module:cod:scale/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "/operations/0/kernel: 'cod' is not a segment"
	assert_contains "$stderr" "job.json:10:"
	job scale "$scale"
	sed -i 's/module:code:scale/module:code:1a/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "no digit first"
	[[ $stderr != *"no operation's argument"* ]]
	for size in 0 268435457; do
		job scale "$scale"
		sed -i "s/\"kernels.so\",/& \"data_type_info\": { \"dtype\": \"u8\", \"shape\": [$size] },/" job.json
		run --separate-stderr -1 sgpu-manifest check job.json
		assert_contains "$stderr" "has $size bytes, a module has 1 to 268435456"
	done
}

@test "show tells how a module is started" {
	job scale "$scale"
	run -0 jq -c '.operations[0] | .module.segment_id, .grid, .block' <(sgpu-manifest show --json job.json)
	[ "${lines[*]}" = '"code" [4,1,1] [256,1,1]' ]
	run -0 sgpu-manifest show --json job.json
	assert_contains "$output" '"function": "scale"'
	assert_contains "$output" '"size_of_file": true'
}

@test "a job is split with its module" {
	job scale "$scale"
	sgpu-manifest split job.json
	grep -q '"segment_id": "code"' shard-000.json
	run -1 grep -q '"segment_id": "code"' shard-001.json
}

@test "the example with a module of its own agrees with the operation of sgpu" {
	run --separate-stderr -0 "$SGPU_TOP/examples/module/run.sh" here
	assert_contains "$output" "1000000 numbers as expected"
}
