#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# map: expressions in documents, where their mistakes are, and what becomes of them.

load helpers

# job EXPRESSION [MORE]: a map of scan, f32 of three elements and HIGH, and mask, u8, to out, as job.json.
job() {
	cat >job.json <<END
{ "version": 1, "manifest_id": "map", "segments": [
  { "segment_id": "scan", "sensitivity_level": "${SCAN:-HIGH}", "direction": "INPUT", "data_location_client": "scan.f32",
    "data_type_info": { "dtype": "f32", "shape": [3] } },
  { "segment_id": "mask", "sensitivity_level": "${MASK:-LOW}", "direction": "INPUT", "data_location_client": "mask.u8",
    "data_type_info": { "dtype": "u8", "shape": [3] } },
  { "segment_id": "out", "sensitivity_level": "${OUT:-HIGH}", "direction": "OUTPUT", "data_location_client": "out" } ],
  "operations": [
    { "gpu_operation_id": "MAP", "kernel": "map",
      "params": { "expression": "$1" },
      "arguments": { "a": "scan", "m": "mask", "output": "out" } ${2:-} } ] }
END
	printf '\0\0\310\102\0\0\240\101\0\0\310\102' >scan.f32 # 100, 20, 100
	printf '\1\1\0' >mask.u8
}

@test "a document's expression is carried out" {
	SCAN=LOW OUT=LOW job 'where((a > 70) & (m > 0), a * 0.5, 0)'
	sgpu-manifest pack job.json | sgpu-stage load --files . | sgpu-run -q >response.tar
	[ "$(tar xOf response.tar segments/out | od -An -tf4 | xargs)" = "50 0 0" ]
}

@test "a sealed batch with a map gives its results to the owner alone" {
	job 'm * (a - 20) // 3'
	sgpu-seal keygen -o key.jwk
	sgpu-manifest pack job.json | sgpu-seal seal -k key.jwk | sgpu-run -q -k key.jwk >response.tar
	sgpu-seal open -k key.jwk -C results <response.tar
	[ "$(od -An -tf4 results/out | xargs)" = "26 0 0" ]
}

@test "the manifest of a batch has byte code, and neither the expression nor its names" {
	job 'where(m, a, 0)'
	sgpu-manifest canon job.json >canon.json
	assert_contains "$(cat canon.json)" '"arguments":{"output":"out","x0":"mask","x1":"scan"}'
	assert_contains "$(cat canon.json)" '"params":{"code":"AAEQ'
	run ! grep expression canon.json
	sgpu-manifest canon canon.json | cmp - canon.json
}

@test "a mistake in an expression is shown at its column, with a hint" {
	job 'a > 70 & m > 0'
	run --separate-stderr -1 sgpu-manifest check job.json
	# shellcheck disable=SC2154 # bats sets it
	assert_contains "$stderr" "job.json:9:19: /operations/0/params/expression: column 3: a comparison beside"
	assert_contains "$stderr" "hint: comparisons are joined as (a < b) & (b < c)"
	job 'a + n + m'
	run --separate-stderr -1 sgpu-manifest pack -o batch.tar job.json
	assert_contains "$stderr" "column 5: 'n' is not an argument that is read"
	assert_no_file batch.tar
	job 'a + 1'
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "the argument 'm' is not in the expression"
	job 'max(a, sin(m))'
	sed -i 's/"m": "mask"/"sin": "mask"/; s/sin(m)/sin(sin)/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "'sin' is a function, '(' is missing"
	sed -i 's/sin(sin)/1/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "an argument has the name of the function 'sin'"
}

@test "a mistake of types or shapes is one of the operation" {
	job 'a + (m + 300)'
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "job.json:9:19: /operations/0/params/expression: "
	assert_contains "$stderr" "300 does not fit u8"
	job 'a + m'
	sed -i 's/"u8", "shape": \[3\]/"u8", "shape": [2]/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "the shape of 'x1' does not go with those before it"
}

@test "what is neither a string nor alone is refused" {
	job x
	sed -i 's/"expression": "x"//' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "/operations/0/params/expression: a map needs a string of at most 4096 bytes here"
	job x
	sed -i 's/"expression": "x"/"expression": 7/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "a map needs a string of at most 4096 bytes here, and no 'code'"
	sed -i 's/"expression": 7/"code": 7/; s/"a": /"x0": /; s/"m": /"x1": /' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "/operations/0/params/code: 7 is not a string"
	sed -i "s/\"code\": 7/\"code\": \"$(head -c 3073 /dev/zero | tr '\0' A)\"/" job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "has 3073 characters, at most 3072 are possible"
	sed -i 's/"code": "A*"/"code": "_w"/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "the byte code is not valid"
}

@test "HIGH data flow through a map, by its values and by its conditions" {
	OUT=LOW job 'a * m'
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "HIGH data flow into the LOW output"
	SCAN=LOW MASK=HIGH OUT=LOW job 'where(m > 0, a, 0)'
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "HIGH data flow into the LOW output"
	SCAN=LOW MASK=HIGH OUT=LOW job 'where(m > 0, a, 0)' ', "declassify": true'
	run -0 sgpu-manifest check job.json
}

@test "init takes an expression of the arguments of the table" {
	printf '\1\2\3' >a.u8
	sgpu-manifest init map 'x * 2' a.u8:u8:3 >made.json
	assert_contains "$(cat made.json)" '"expression": "x * 2"'
	run -0 sgpu-manifest check made.json
}
