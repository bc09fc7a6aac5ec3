#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Users of one server who share a GPU, one of whom brings kernels that touch what is not theirs.
# shellcheck disable=SC2154 # bats sets stderr

load ../bats/serve

honest="1 2 3 4 5 6 7"
batches=8

# seal_job NAME: batches NAME.1 to NAME.$batches of NAME.json.
seal_job() {
	local i
	sgpu-manifest pack "$1.json" >"$1.packed"
	for i in $(seq $batches); do
		sgpu-seal seal -k owner.jwk -r runner.pub.jwk "$1.packed" >"$1.$i"
	done
}

# honest_job N: of a user of their own data, an operation and a copy.
honest_job() {
	head -c 4194304 /dev/urandom >"$1.f32"
	cat >"honest$1.json" <<-END
	{ "version": 1, "manifest_id": "honest-$1", "segments": [
	  { "segment_id": "x", "data_location_client": "$1.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "u8", "shape": [4194304] } },
	  { "segment_id": "y", "data_location_client": "y", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "x", "output": "y" } } ] }
	END
	seal_job "honest$1"
}

# stray_job FUNCTION: FUNCTION.json, a batch whose kernel goes astray.
stray_job() {
	cat >"$1.json" <<-END
	{ "version": 1, "manifest_id": "$1", "segments": [
	  { "segment_id": "code", "data_location_client": "code.ptx", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "1.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "u8", "shape": [4194304] } },
	  { "segment_id": "y", "data_location_client": "y", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "u8", "shape": [4194304] } } ],
	  "operations": [
	  { "gpu_operation_id": "RUN", "kernel": "module:code:$1", "grid": [256], "block": [256],
	    "arguments": { "input": "x", "output": "y" }, "params": ["output", "input"] } ] }
	END
	seal_job "$1"
}

# Each writes where nothing is its own: far behind its output; all over the first 64 GiB of addresses; before its input.
write_module() {
	cat >code.ptx <<-'END'
	.version 7.0
	.target sm_70
	.address_size 64
	.visible .entry behind(.param .u64 output, .param .u64 input)
	{
		.reg .b64 %at;
		.reg .b32 %n;
		.reg .b64 %far;
		ld.param.u64 %at, [output];
		mov.u32 %n, %ctaid.x;
		cvt.u64.u32 %far, %n;
		shl.b64 %far, %far, 32;
		add.s64 %at, %at, %far;
		add.s64 %at, %at, 68719476736;
		st.global.u64 [%at], %far;
		ret;
	}
	.visible .entry everywhere(.param .u64 output, .param .u64 input)
	{
		.reg .b64 %at;
		.reg .b32 %n;
		mov.u32 %n, %ctaid.x;
		cvt.u64.u32 %at, %n;
		shl.b64 %at, %at, 28;
		st.global.u64 [%at], %at;
		ret;
	}
	.visible .entry before(.param .u64 output, .param .u64 input)
	{
		.reg .b64 %at;
		.reg .b32 %n;
		.reg .b64 %far;
		ld.param.u64 %at, [input];
		mov.u32 %n, %ctaid.x;
		cvt.u64.u32 %far, %n;
		shl.b64 %far, %far, 30;
		sub.s64 %at, %at, %far;
		sub.s64 %at, %at, 34359738368;
		st.global.u64 [%at], %far;
		ret;
	}
	END
}

# stray: a user sends such batches for as long as the others have work.
stray() {
	while [ ! -e enough ]; do
		client_of 64000 queue behind.{1..8} everywhere.{1..8} before.{1..8} || true
	done >stray.out 2>&1
}

@test "eight users share a GPU, and kernels of one that go astray take nothing from the others" {
	local i k clients=()
	requires gpu root python3
	share_socket
	write_module
	for i in $honest; do
		honest_job "$i"
	done
	for i in behind everywhere before; do
		stray_job "$i"
	done
	start_server -k runner.jwk --everybody --allow-modules --device cuda --workers 9 --running 16
	stray 3>&- &
	SERVERS+=($!)
	wait_for grep -qs 'behind.8 ' stray.out
	for i in $honest; do
		# shellcheck disable=SC2046 # names of batches
		client_of "$((64000 + i))" queue $(for k in $(seq $batches); do echo "honest$i.$k"; done) >"honest$i.out" 3>&- &
		clients+=($!)
	done
	for i in "${clients[@]}"; do
		wait "$i"
	done
	touch enough
	for i in $honest; do
		[ "$(grep -c ' 0 $' "honest$i.out")" -eq $batches ] || { cat "honest$i.out" >&2 && return 1; }
		for k in $(seq $batches); do
			rm -rf out
			sgpu-seal open -k owner.jwk -C out "honest$i.$k.response"
			assert_same out/y "$i.f32"
		done
	done
	[ "$(grep -c ' -[0-9]' stray.out)" -gt 0 ]
}
