#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The digest of a module in its manifest: who fills it in, who compares it.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	seq 0 9 | floats >x.f32
	printf 'an image of 22 bytes..' >code.bin
}

# job [MORE]: job.json, with more members of its operation.
job() {
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "digest", "segments": [
	  { "segment_id": "code", "data_location_client": "code.bin", "sensitivity_level": "HIGH", "direction": "INPUT" },
	  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } },
	  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [10] } } ],
	  "operations": [
	  { "gpu_operation_id": "RUN", "kernel": "module:code:f", ${1:-}
	    "arguments": { "input": "x", "output": "y" }, "params": ["output", "input"] } ] }
	END
}

# digest FILE: what a packed batch says.
digest() {
	tar -xOf "$1" manifest.json | sed -n 's/.*"module_digest":"\([A-Za-z0-9_-]*\)".*/\1/p'
}

# Digests of the image above, whole and its bytes 3 to 7, computed by another implementation of KT128.
whole=Lp3a61Od7nB2GRukbXe03xdj54vDMPrKp_jYnPqxrjk
window=uhBqZtLWlohv7mypyEVMKxUI1_weZoNzimpfes-3jZQ

@test "pack takes the digest of the window that is the payload" {
	job
	sed -i 's/"code.bin",/& "data_type_info": { "dtype": "u8", "shape": [5], "offset": 3 },/' job.json
	sgpu-manifest pack -o batch.tar job.json
	[ "$(digest batch.tar)" = "$window" ]
}

@test "a stated digest stays, and packing with it or without it gives the same manifest" {
	job
	sgpu-manifest pack -o filled.tar job.json
	job "\"module_digest\": \"$whole\","
	sgpu-manifest pack -o stated.tar job.json
	[ "$(digest stated.tar)" = "$whole" ]
	cmp <(tar -xOf filled.tar manifest.json) <(tar -xOf stated.tar manifest.json)
}

@test "a digest that is not the image's is refused by pack, which names both" {
	job "\"module_digest\": \"$window\","
	run --separate-stderr -1 sgpu-manifest pack -o batch.tar job.json
	assert_contains "$stderr" "operation 'RUN'"
	assert_contains "$stderr" "'$window'"
	assert_contains "$stderr" "'$whole'"
	assert_no_file batch.tar
}

@test "check needs no image, pack does" {
	job "\"module_digest\": \"$whole\","
	rm code.bin
	sgpu-manifest check job.json
	run --separate-stderr -3 sgpu-manifest pack -o batch.tar job.json
	assert_contains "$stderr" "code.bin"
	assert_no_file batch.tar
}

@test "show prints the digest" {
	job "\"module_digest\": \"$whole\","
	run -0 sgpu-manifest show --json job.json
	assert_contains "$output" "\"module_digest\": \"$whole\""
	job
	run -0 sgpu-manifest show --json job.json
	[[ $output != *module_digest* ]]
}
