# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For the tests of what a GPU and a process hold: markers, jobs with them, and who uses device memory.

# shellcheck disable=SC2034 # for those who load this
residue=$SGPU_BUILD/gpu/residue
# shellcheck disable=SC2034
memory_of=$SGPU_BUILD/gpu/memory_of

# make_marker NAME MIB: NAME.marker, 32 random bytes, and NAME.f32, so many MiB of it. As floats these bytes are
# anything, and a copy keeps them.
make_marker() {
	head -c 32 /dev/urandom >"$1.marker"
	cp "$1.marker" piece
	while [ "$(stat -c %s piece)" -lt 1048576 ]; do
		cat piece piece >twice
		mv twice piece
	done
	for ((i = 0; i < $2; i++)); do
		cat piece
	done >"$1.f32"
	rm piece
}

# marker_job HIGH_MIB LOW_MIB MODULE_FUNCTION: job.json and batch.tar: `secret`, HIGH, and `open`, LOW, are copied; and a
# function of a module is given the secret, unless it is "none".
marker_job() {
	local high=$(($1 * 262144)) low=$(($2 * 262144)) run='' code=''
	if [ "$3" != none ]; then
		code='{ "segment_id": "code", "data_location_client": "code.ptx", "sensitivity_level": "HIGH", "direction": "INPUT" },
		  { "segment_id": "made", "data_location_client": "made.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
		    "data_type_info": { "dtype": "f32", "shape": ['$high'] } },'
		run='{ "gpu_operation_id": "RUN", "kernel": "module:code:'$3'", "grid": [1], "block": [32],
		  "arguments": { "input": "secret", "output": "made" }, "params": ["output", "input"] },'
	fi
	cat >code.ptx <<-'END'
	.version 7.0
	.target sm_70
	.address_size 64
	.visible .entry spins(.param .u64 output, .param .u64 input)
	{
	again:
		bra again;
	}
	.visible .entry traps(.param .u64 output, .param .u64 input)
	{
		trap;
		ret;
	}
	END
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "markers", "segments": [ $code
	  { "segment_id": "secret", "data_location_client": "secret.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [$high] } },
	  { "segment_id": "open", "data_location_client": "open.f32", "sensitivity_level": "LOW", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [$low] } },
	  { "segment_id": "secret_copy", "data_location_client": "secret.copy", "sensitivity_level": "HIGH",
	    "direction": "OUTPUT" },
	  { "segment_id": "open_copy", "data_location_client": "open.copy", "sensitivity_level": "LOW",
	    "direction": "OUTPUT" } ],
	  "operations": [ $run
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "secret", "output": "secret_copy" } },
	  { "gpu_operation_id": "SHOW", "kernel": "copy", "arguments": { "input": "open", "output": "open_copy" } } ] }
	END
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
}

# MiB of device memory in use, on all GPUs.
used_mib() {
	nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | awk '{ sum += $1 } END { print sum + 0 }'
}

# await_used LEAST: until at least so many MiB are in use; 60 s at most.
await_used() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(used_mib)" -lt "$1" ] || return 0
		sleep 0.1
	done
	echo "no more than $(used_mib) MiB in use, not $1" >&2
	return 1
}

# await_off PID: until the driver has taken back what a process had that has ended; 15 s at most.
await_off() {
	local i
	for ((i = 0; i < 150; i++)); do
		nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -qw "$1" || return 0
		sleep 0.1
	done
	echo "process $1 has ended and is still on the GPU" >&2
	return 1
}

# assert_given_back BASE: no more device memory is in use than BASE, which a driver may take a while for.
assert_given_back() {
	local i
	for ((i = 0; i < 150; i++)); do
		[ "$(used_mib)" -gt $(($1 + 16)) ] || break
		sleep 0.1
	done
	if [ "$(used_mib)" -gt $(($1 + 16)) ]; then
		echo "$(used_mib) MiB in use, $1 before" >&2
		nvidia-smi >&2
		return 1
	fi
}

# assert_nothing_left BASE: the same, and the marker of the secret is nowhere in the device's memory, which takes some
# seconds.
assert_nothing_left() {
	assert_given_back "$1" || return 1
	"$residue" look secret.marker
}
