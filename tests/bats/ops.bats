#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The operations: the table, its page, diagnostics in manifests, and results that do not depend on who computes them.

load helpers

# The operations that the program lists, one a line.
listed() {
	sgpu-manifest ops | awk 'NR > 1 { print $1 }'
}

# The items that the page of an operation should have: `.It Fa a Pq f32, rank 2` and `.It Cm k Pq integer; default 1`.
wanted_items() {
	sgpu-manifest ops --json "$1" | jq -r '
		(.arguments[] | ".It Fa \(.name) Pq \(.dtypes | join(" ")), rank \(.min_rank)" +
			(if .max_rank > .min_rank then " to \(.max_rank)" else "" end) + (if .optional then ", optional" else "" end)),
		(.params[] | ".It Cm \(.name) Pq " + (if .kind == "choice" then "one of " + (.choices | join(", ")) else .kind end) +
			(if has("min") and has("max") then ", \(.min) to \(.max)" else "" end) + "; " +
			(if .required then "required" elif has("default") then "default \(.default)" else "default none" end))'
}

page_sections() {
	awk '/^\.Sh / { inside = $2 == "OPERATIONS" } inside && /^\.Ss / { print $2 }' "$SGPU_TOP/man/sgpu-ops.7"
}

# The items that it has.
page_items() {
	awk -v name="$1" '
		/^\.S[sh] / { inside = $1 == ".Ss" && $2 == name }
		inside && /^\.It (Fa|Cm) / { gsub(/\\/, ""); print }' "$SGPU_TOP/man/sgpu-ops.7"
}

@test "the page has a section for every operation and for nothing else" {
	run -0 page_sections
	[ "$output" = "$(listed)" ]
}

@test "the page has every argument and parameter with its types, ranks, range and default" {
	requires jq
	for name in $(listed); do
		wanted_items "$name" >wanted
		page_items "$name" >found
		[ -s wanted ]
		diff wanted found
	done
}

# manifest SEGMENTS OPERATIONS: to job.json.
manifest() {
	printf '{ "version": 1, "manifest_id": "m",\n"segments": [\n%s ],\n"operations": [\n%s ] }\n' "$1" "$2" >job.json
}

# segment ID DIRECTION [DTYPE SHAPE]
segment() {
	printf '{ "segment_id": "%s", "data_location_client": "%s.bin", "sensitivity_level": "LOW", "direction": "%s"' \
		"$1" "$1" "$2"
	[ $# -eq 2 ] || printf ', "data_type_info": { "dtype": "%s", "shape": %s }' "$3" "$4"
	printf ' }'
}

@test "a bound names the side on which it was passed" {
	cat >job.json <<-END
	{ "version": 1, "manifest_id": "t", "segments": [
	  { "segment_id": "x", "sensitivity_level": "LOW", "direction": "INPUT",
	    "data_type_info": { "dtype": "f64", "shape": [3] } },
	  { "segment_id": "h", "sensitivity_level": "LOW", "direction": "OUTPUT" } ],
	  "operations": [ { "gpu_operation_id": "H", "kernel": "histogram", "params": { "min": 0, "max": 1e301 },
	    "arguments": { "input": "x", "output": "h" } } ] }
	END
	run --separate-stderr -1 sgpu-manifest check job.json
	# shellcheck disable=SC2154 # bats sets it
	assert_contains "$stderr" "is not at most 1e+300"
}

@test "the example of the page is a valid manifest" {
	requires mandoc
	operations=$(mandoc -T ascii "$SGPU_TOP/man/sgpu-ops.7" | sed 's/.\x08//g' |
		awk '/^ *"operations": \[/ { inside = 1; next } inside { print } / \]$/ { exit }' | sed 's/ \]$//')
	[ -n "$operations" ]
	manifest "$(segment pixels INPUT u8 '[5, 4]'), $(segment w INPUT f32 '[4, 3]'), $(segment b INPUT),
		{ \"segment_id\": \"values\", \"sensitivity_level\": \"LOW\", \"direction\": \"INTERMEDIATE\" },
		{ \"segment_id\": \"scores\", \"sensitivity_level\": \"LOW\", \"direction\": \"INTERMEDIATE\" },
		$(segment classes OUTPUT i32 '[5]')" "$operations"
	run -0 sgpu-manifest check job.json
}

@test "all diagnostics against the table are reported in one run, each at its place" {
	manifest "$(segment x INPUT f32 '[4, 4]'),
$(segment y INPUT u8 '[4]'),
$(segment untyped INPUT),
$(segment o1 OUTPUT), $(segment o2 OUTPUT), $(segment o3 OUTPUT), $(segment o4 OUTPUT),
$(segment o5 OUTPUT f32 '[4, 8]'), $(segment o6 OUTPUT)" \
'{ "gpu_operation_id": "A", "kernel": "vector_ad", "arguments": { "a": "x", "b": "x", "output": "o1" } },
{ "gpu_operation_id": "B", "kernel": "softmax", "arguments": { "input": "y", "output": "o2" } },
{ "gpu_operation_id": "C", "kernel": "scale", "arguments": { "imput": "x", "output": "o3" } },
{ "gpu_operation_id": "D", "kernel": "cast", "params": { "dtype": "f23" },
  "arguments": { "input": "x", "output": "o4" } },
{ "gpu_operation_id": "E", "kernel": "gemm", "arguments": { "a": "x", "b": "x", "output": "o5" } },
{ "gpu_operation_id": "F", "kernel": "copy", "arguments": { "input": "untyped", "output": "o6" } }'
	run -1 sgpu-manifest check job.json
	assert_contains "$output" "job.json:5:1: "
	assert_contains "$output" "/operations/0/kernel: 'vector_ad' is not an operation"
	assert_contains "$output" "did you mean 'vector_add'?"
	assert_contains "$output" "/operations/1/arguments/input: is u8, but 'softmax' takes f32, f64"
	assert_contains "$output" "/operations/2/arguments/imput: 'imput' is not an argument of 'scale'"
	assert_contains "$output" "/operations/2/arguments: 'scale' needs the argument 'input'"
	assert_contains "$output" "/operations/3/params/dtype: 'f23' is not one of f32, f64, f16, i8, u8, i16, u16, i32, u32, i64, u64"
	assert_contains "$output" "/segments/7/data_type_info: is f32[4,8], but 'gemm' makes f32[4,4]"
	assert_contains "$output" "/segments/2: 'untyped' needs data_type_info"
	run -1 sgpu-manifest pack -o batch.tar job.json
	assert_no_file batch.tar
}

# A job of LOW segments whose operations split into many pieces.
many_pieces() {
	head -c 2097152 "$SGPU_TOP/man/sgpu-ops.7" >x.bin
	while [ "$(wc -c <x.bin)" -lt 1048576 ]; do
		cat x.bin x.bin >y.bin
		mv y.bin x.bin
	done
	truncate -s 1048576 x.bin
	manifest "$(segment x INPUT u8 '[1024, 1024]'),
		{ \"segment_id\": \"f\", \"sensitivity_level\": \"LOW\", \"direction\": \"INTERMEDIATE\" },
		{ \"segment_id\": \"p\", \"sensitivity_level\": \"LOW\", \"direction\": \"INTERMEDIATE\" },
		$(segment s OUTPUT), $(segment m OUTPUT), $(segment h OUTPUT)" \
'{ "gpu_operation_id": "A", "kernel": "scale", "params": { "gain": 0.01 }, "arguments": { "input": "x", "output": "f" } },
{ "gpu_operation_id": "B", "kernel": "gemm", "params": { "alpha": 0.001 },
  "arguments": { "a": "f", "b": "f", "output": "p" } },
{ "gpu_operation_id": "C", "kernel": "softmax", "arguments": { "input": "p", "output": "s" } },
{ "gpu_operation_id": "D", "kernel": "argmax", "arguments": { "input": "p", "output": "m" } },
{ "gpu_operation_id": "E", "kernel": "reduce", "params": { "operation": "mean", "axis": 0 },
  "arguments": { "input": "p", "output": "h" } }'
}

# results JOBS: hashes of the outputs.
results() {
	sgpu-manifest pack job.json | sgpu-stage load --files . | sgpu-run -q -j "$1" >response.tar || return 1
	for name in s m h; do
		tar xOf response.tar "segments/$name" | sha256sum
	done
}

@test "the results do not depend on the number of workers" {
	many_pieces
	run -0 results 1
	one=$output
	[ "$(printf '%s\n' "$one" | sort -u | wc -l)" -eq 3 ]
	for jobs in 2 5; do
		run -0 results "$jobs"
		[ "$output" = "$one" ]
	done
}

@test "without a BLAS the product is the program's own, and does not depend on the workers either" {
	many_pieces
	export SGPU_BLAS=0
	run -0 results 1
	one=$output
	run -0 results 3
	[ "$output" = "$one" ]
}
