#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# sgpu-manifest: diagnostics and their places, information flow, packing.

load helpers

# one_op [SEGMENT_MORE [OPERATION_MORE]]: a job of one copy, a.u8 of 4 bytes to b.u8, as one.json.
one_op() {
	printf '\1\2\3\4' >a.u8
	cat >one.json <<END
{ "version": 1, "manifest_id": "one",
  "segments": [
    { "segment_id": "a", "sensitivity_level": "LOW", "direction": "INPUT", "data_location_client": "a.u8",
      "data_type_info": { "dtype": "u8", "shape": [4] } ${1:-} },
    { "segment_id": "b", "sensitivity_level": "LOW", "direction": "OUTPUT", "data_location_client": "b.u8" } ],
  "operations": [
    { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "a", "output": "b" } ${2:-} } ] }
END
}

# edit PATTERN REPLACEMENT: one.json with one text changed, which must have been there.
edit() {
	one_op
	grep -q -- "$1" one.json
	sed -i "s|$1|$2|" one.json
}

# place TEXT: line and column of the only place where one.json has the text.
place() {
	awk -v text="$1" '{ at = index($0, text) } at { print NR ":" at; found++ } END { exit found != 1 }' one.json
}

# diagnostic TEXT MESSAGE: check reports exactly one diagnostic of one.json, where the text is and with that message.
diagnostic() {
	local where
	where=$(place "$1")
	run --separate-stderr -1 sgpu-manifest check one.json
	[ -z "$output" ]
	assert_contains "$stderr" "one.json:$where: $2"
	[ "$(grep -c '^one.json:[0-9]' <<<"$stderr")" -eq 1 ]
}

# big SEGMENTS: as many segments in chains of scale and threshold, each with two operations on three segments.
big() {
	awk -v n="$1" 'BEGIN {
		printf "{\"version\":1,\"manifest_id\":\"big\",\"segments\":["
		for (i = 0; 3 * i < n; i++) {
			printf "%s\n{\"segment_id\":\"scan_%d\",\"sensitivity_level\":\"HIGH\",\"direction\":\"INPUT\"," \
				"\"data_location_client\":\"in/%d.f32\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[8,8,8]}}," \
				"\n{\"segment_id\":\"smooth_%d\",\"sensitivity_level\":\"HIGH\",\"direction\":\"INTERMEDIATE\"}," \
				"\n{\"segment_id\":\"mask_%d\",\"sensitivity_level\":\"HIGH\",\"direction\":\"OUTPUT\"," \
				"\"data_location_client\":\"out/%d.u8\"}", (i ? "," : ""), i, i, i, i, i
		}
		printf "],\n\"operations\":["
		for (i = 0; 3 * i < n; i++) {
			printf "%s\n{\"gpu_operation_id\":\"SMOOTH_%d\",\"kernel\":\"gaussian3d\",\"params\":{\"sigma\":1.5}," \
				"\"arguments\":{\"input\":\"scan_%d\",\"output\":\"smooth_%d\"}}," \
				"\n{\"gpu_operation_id\":\"BAND_%d\",\"kernel\":\"threshold\",\"params\":{\"low\":1}," \
				"\"arguments\":{\"input\":\"smooth_%d\",\"output\":\"mask_%d\"}}", (i ? "," : ""), i, i, i, i, i, i
		}
		print "]}"
	}'
}

# ---- check ----

@test "check is silent about a good manifest and says more with -v" {
	small_job
	run --separate-stderr -0 sgpu-manifest check job.json
	[ -z "$output" ]
	[ -z "$stderr" ]
	run --separate-stderr -0 sgpu-manifest check -v job.json
	assert_contains "$stderr" "5 segments, 3 operations"
}

@test "check reads standard input and more than one file" {
	small_job
	one_op
	run --separate-stderr -0 sgpu-manifest check <job.json
	run --separate-stderr -0 sgpu-manifest check - <job.json
	run --separate-stderr -0 sgpu-manifest check one.json job.json
	sed -i 's/"copy"/"cpy"/' one.json
	run --separate-stderr -1 sgpu-manifest check job.json one.json
	assert_contains "$stderr" "one.json:$(place '"kernel"'): /operations/0/kernel: 'cpy' is not an operation"
	assert_contains "$stderr" "hint: did you mean 'copy'?"
}

# faulty TEXT MESSAGE: both as of printf; the message with its place.
faulty() {
	# shellcheck disable=SC2059
	printf "$1" >faulty.json
	run --separate-stderr -1 sgpu-manifest check faulty.json
	# shellcheck disable=SC2059
	[ "$stderr" = "$(printf "faulty.json:$2")" ] || { echo "$1: $stderr"; return 1; }
}

@test "what is no JSON is told in plain words" {
	faulty 'batch' '1:5: what is here is not JSON'
	faulty '{"a":1,\n }' "2:2: JSON has no '}' at this place"
	faulty "{'a':1}" "1:2: JSON has no ''' at this place"
	faulty '{"a":"secret "secret"}' '1:20: what is here is not JSON'
	faulty '{"a":1' '1:6: the text ends before its JSON does'
	faulty '{"a":1} {' '1:9: more text follows where the JSON has ended'
	faulty '{"a":1,"a":2}' '1:10: an object has this name twice'
	faulty '{"a":1e999}' '1:10: the number is too large'
	faulty '{"a":"\\u0000"}' '1:13: \\u0000 is not allowed in a text'
	faulty '{"\\u0000":1}' '1:9: \\u0000 is not allowed in a name'
	faulty '\xef\xbb\xbf{}' '1:2: a byte order mark stands before the JSON'
	faulty '\xff\xfe{\0' '1:1: the text is not UTF-8'
	run --separate-stderr -1 sgpu-manifest check <faulty.json
	[ "$stderr" = "standard input:1:1: the text is not UTF-8" ]
}

@test "every kind of wrong value is told with its place" {
	edit '"version": 1' '"version": 2' && diagnostic '"version"' "/version: 2 is not a version"
	edit '"one"' '""' && diagnostic '"manifest_id"' "/manifest_id: "
	edit '"LOW", "direction": "INPUT"' '"MEDIUM", "direction": "INPUT"'
	diagnostic '"sensitivity_level": "MEDIUM"' "/segments/0/sensitivity_level: 'MEDIUM' is not one of LOW, HIGH"
	edit '"dtype": "u8"' '"dtype": "uint8"' && diagnostic '"dtype"' "/segments/0/data_type_info/dtype: 'uint8'"
	edit '\[4\]' '[4, -1]' && diagnostic '-1' "/segments/0/data_type_info/shape/1: -1"
	edit '\[4\]' '[1,1,1,1,1]' && diagnostic '"shape"' "/segments/0/data_type_info/shape: the rank is 5"
	edit '"input": "a"' '"input": "aa"' && diagnostic '"input"' "/operations/0/arguments/input: 'aa' is not a segment"
	edit '"arguments"' '"args": 1, "arguments"' && diagnostic '"args"' "/operations/0/args: unknown field 'args'"
	edit '"kernel": "copy", ' '' && diagnostic '{ "gpu_operation_id"' "/operations/0: missing field 'kernel'"
}

@test "every kind of wrong reference is told with its place" {
	one_op ', "gpu_operation_id": "COPPY"' && diagnostic '"gpu_operation_id": "COPPY"' "/segments/0/gpu_operation_id: 'COPPY' is not an operation"
	one_op ', "dependencies": ["nobody"]' && diagnostic '"nobody"' "/segments/0/dependencies/0: 'nobody' is neither"
	one_op '' ', "dependencies": ["COPY"]' && diagnostic '{ "gpu_operation_id"' "/operations/0: the operations wait for each other in a cycle: COPY -> COPY"
	edit '"segment_id": "b"' '"segment_id": "a"'
	run --separate-stderr -1 sgpu-manifest check one.json
	assert_contains "$stderr" "one.json:5:7: /segments/1/segment_id: 'a' is the id of /segments/0 already"
	edit '"COPY"' '"a"' && diagnostic '"gpu_operation_id"' "/operations/0/gpu_operation_id: 'a' is the id of a segment already"
}

@test "all diagnostics are reported in one run, in the order of the text" {
	cat >many.json <<'END'
{ "version": 1, "manifest_id": "many", "extra": true,
  "segments": [
    { "segment_id": "a b", "sensitivity_level": "LOW", "direction": "INPUT" },
    { "segment_id": "b", "sensitivity_level": "HIHG", "direction": "OUTPUT", "dependencies": ["none"] } ],
  "operations": [
    { "gpu_operation_id": "X", "kernel": "gausian3d", "arguments": { "input": "c", "output": "b" }, "declassify": 0 } ] }
END
	run --separate-stderr -1 sgpu-manifest check many.json
	printf '%s\n' "$stderr" >messages
	run -0 grep -c '^many.json:' messages
	[ "$(grep -o '^many.json:[0-9]*:[0-9]*' messages | sort -t: -k2,2n -k3,3n -s)" = \
		"$(grep -o '^many.json:[0-9]*:[0-9]*' messages)" ]
	for text in "/extra: unknown field" "'a b' is not an id" "'HIHG' is not one of" "'none' is neither" \
		"'gausian3d' is not an operation" "'c' is not a segment" "0 is not true or false"; do
		assert_contains "$stderr" "$text"
	done
}

@test "check --json writes one record a line" {
	requires python3
	edit '"INPUT"' '"IN"'
	run --separate-stderr -1 sgpu-manifest check --json one.json
	[ -z "$stderr" ]
	python3 - "$output" "$(place '"direction": "IN"')" <<'END'
import json, sys
(record,) = [json.loads(line) for line in sys.argv[1].splitlines()]
line, column = map(int, sys.argv[2].split(":"))
assert record == {"file": "one.json", "line": line, "column": column, "pointer": "/segments/0/direction",
	"text": "'IN' is not one of INPUT, OUTPUT, INPUT_OUTPUT, INTERMEDIATE", "hint": "did you mean 'INPUT'?"}, record
END
}

@test "a path from HIGH data to a LOW output is refused with the path" {
	small_job
	sed -i 's/"out.f32", "sensitivity_level": "HIGH"/"out.f32", "sensitivity_level": "LOW"/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "/segments/3/sensitivity_level: HIGH data flow into the LOW output 'result': \
scan -> ADD -> sum -> COPY -> result"
	run --separate-stderr -1 sgpu-manifest pack -o leak.tar job.json
	assert_no_file leak.tar
	sed -i 's/"gpu_operation_id": "COPY", "kernel"/"gpu_operation_id": "COPY", "declassify": true, "kernel"/' job.json
	run --separate-stderr -0 sgpu-manifest check job.json
}

@test "a LOW intermediate that carries HIGH data is refused" {
	small_job
	sed -i 's/"sum", "sensitivity_level": "HIGH"/"sum", "sensitivity_level": "LOW"/' job.json
	run --separate-stderr -1 sgpu-manifest check job.json
	assert_contains "$stderr" "HIGH data flow into the LOW segment 'sum': scan -> ADD -> sum"
}

@test "locations outside the folder need --allow-outside, outputs never may" {
	edit '"a.u8"' '"../a.u8"'
	diagnostic '"data_location_client": "../a.u8"' "/segments/0/data_location_client: '../a.u8' is outside the manifest's directory"
	run --separate-stderr -0 sgpu-manifest check --allow-outside one.json
	edit '"b.u8"' '"/tmp/b.u8"'
	run --separate-stderr -1 sgpu-manifest check --allow-outside one.json
	assert_contains "$stderr" "outside the directory of the outputs"
}

@test "ten thousand segments are checked, diagnostics included" {
	big 10000 >big.json
	run --separate-stderr -0 sgpu-manifest check big.json
	sed 's/"INPUT"/"IN"/; s/"sigma"/"sigmo"/; s/"smooth_/"smoth_/' big.json >diagnostics.json
	run --separate-stderr -1 sgpu-manifest check diagnostics.json
	[ "$(grep -c '^diagnostics.json:' <<<"$stderr")" -eq 101 ]
	assert_contains "$stderr" "there are more diagnostics than can be listed"
}

# ---- show, canon, schema, ops ----

@test "show prints segments, operations and the graph" {
	small_job
	run --separate-stderr -0 sgpu-manifest show job.json
	assert_contains "$output" "manifest_id                 small-job"
	[[ $output =~ f32\ +1024\ +4096 ]]
	assert_contains "$output" "a=scan b=bias output=sum"
}

@test "show --json has types, bytes, writers and order" {
	requires python3
	small_job
	sgpu-manifest show --json job.json >show.json
	python3 - <<'END'
import json
show = json.load(open("show.json"))
sum_ = next(s for s in show["segments"] if s["segment_id"] == "sum")
assert (sum_["bytes"], sum_["dtype"], sum_["shape"]) == (4096, "f32", [1024]), sum_
assert (sum_["writer"], sum_["readers"], sum_["high_flow"]) == ("ADD", ["COPY"], True), sum_
assert show["order"].index("ADD") < show["order"].index("COPY")
assert (show["devices"], show["streams"], show["moves"]) == (1, 1, []), show
assert show["device_memory_bytes"] == sum(b["size"] for b in show["buffers"]) <= sum(s["bytes"] for s in show["segments"])
assert all(o["device"] == 0 and o["stream"] == 0 for o in show["operations"])
END
	run --separate-stderr -2 sgpu-manifest show --devices 17 job.json
}

@test "the canonical form is that of no spelling, and its hash is shown" {
	small_job
	sgpu-manifest canon -o canon.json job.json
	assert_contains "$(sgpu-manifest show --json job.json)" "\"sha256\": \"$(sha256sum <canon.json | cut -d' ' -f1)\""
	sgpu-manifest canon canon.json | assert_same canon.json /dev/stdin
	sed 's/  */ /g' job.json >other.json
	[ "$(sgpu-manifest canon other.json)" = "$(cat canon.json)" ]
	sed -i 's/small-job/small-jot/' other.json
	[ "$(sgpu-manifest canon other.json)" != "$(cat canon.json)" ]
	sed -i 's/"copy"/"cppy"/' other.json
	run --separate-stderr -1 sgpu-manifest canon -o wrong.json other.json
	assert_no_file wrong.json
	run --separate-stderr -2 sgpu-manifest canon -o job.json job.json
	run --separate-stderr -2 bash -c 'sgpu-manifest canon -o job.json <job.json'
}

@test "ops lists the operations and explains one" {
	run --separate-stderr -0 sgpu-manifest ops
	assert_contains "$output" "gaussian3d"
	run --separate-stderr -0 sgpu-manifest ops gaussian3d
	assert_contains "$output" "sigma"
	[[ $output =~ name\ +kind\ +required\ +default\ +min\ +max\ +choices\ +help ]]
	run --separate-stderr -2 sgpu-manifest ops gausian3d
	assert_contains "$stderr" "did you mean 'gaussian3d'?"
}

# ---- pack ----

@test "pack writes references, digests of LOW payloads and nothing of HIGH ones" {
	small_job
	sgpu-manifest pack -o batch.tar job.json
	[ "$(tar tf batch.tar | tr '\n' ' ')" = "seal.json batch.json manifest.json note locations.json " ]
	index=$(tar xOf batch.tar batch.json)
	assert_contains "$(tar xOf batch.tar locations.json)" "\"file\":\"$(pwd -P)/scan.f32\""
	# Of the owner's paths, those of outputs are in the note, and nothing else has any.
	run -0 jq -c '[.version, .outputs[] | .segment_id?, .path?]' <(tar xOf batch.tar note)
	assert_contains "$output" '"result","out.f32"'
	run ! grep -q 'f32"' <(tar xOf batch.tar batch.json manifest.json | sed 's/"dtype":"f32"//g')
	assert_contains "$index" '"masking_level":"MASKING_AES_GCM"'
	# By PyCryptodome's KangarooTwelve.
	digest=FgTRbABrAlJSckIxgXhf_5_jx_MkacQ5Sdg3Ao49Okg
	assert_contains "$index" "\"kt128\":\"$digest\""
	[ "$(grep -o '"kt128"' <<<"$index" | wc -l)" -eq 1 ]
	[ "$(tar xOf batch.tar manifest.json)" = "$(sgpu-manifest canon job.json)" ]
}

@test "two packs differ in the batch id alone" {
	small_job
	sgpu-manifest pack -o 1.tar job.json
	sgpu-manifest pack -o 2.tar job.json
	run ! cmp -s 1.tar 2.tar
	for i in 1 2; do
		tar xOf $i.tar seal.json | jq -r .payload | tr -- -_ +/ | base64 -d 2>/dev/null | jq 'del(.batch_id)' >$i.json
		tar xOf $i.tar batch.json manifest.json note locations.json >$i.rest
	done
	assert_same 1.json 2.json
	assert_same 1.rest 2.rest
}

@test "pack from another folder finds the files beside the manifest" {
	mkdir sub
	(cd sub && one_op)
	sgpu-manifest pack sub/one.json >batch.tar
	assert_contains "$(tar xOf batch.tar locations.json)" "$(pwd -P)/sub/a.u8"
}

@test "payloads of a wrong size are refused with both lengths" {
	small_job
	truncate -s 4095 scan.f32
	truncate -s 4097 bias.f32
	run --separate-stderr -1 sgpu-manifest pack -o batch.tar job.json
	assert_contains "$stderr" "'scan.f32' has 4095 bytes, f32[1024] needs 4096"
	assert_contains "$stderr" "'bias.f32' has 4097 bytes, f32[1024] needs 4096"
	assert_no_file batch.tar
}

@test "with an offset the payload is a window of the file" {
	edit '\[4\]' '[2], "offset": 1'
	sgpu-manifest pack -o batch.tar one.json
	digest=Hbtkjw4-kE70idGrRpZf7478-QWaOQQaePLut52wpcw # of the bytes 2 and 3, by PyCryptodome's KangarooTwelve
	assert_contains "$(tar xOf batch.tar batch.json)" "\"kt128\":\"$digest\""
	edit '\[4\]' '[2], "offset": 3'
	run --separate-stderr -1 sgpu-manifest pack -o wrong.tar one.json
	assert_contains "$stderr" "'a.u8' has 4 bytes, u8[2] at offset 3 needs 5"
	edit '\[4\]' '[0], "offset": 5'
	run --separate-stderr -1 sgpu-manifest pack -o wrong.tar one.json
	assert_no_file wrong.tar
}

@test "a missing file is exit 3 and an input without a location exit 1" {
	one_op
	rm a.u8
	run --separate-stderr -3 sgpu-manifest pack -o batch.tar one.json
	assert_contains "$stderr" "segment 'a': cannot open 'a.u8': No such file or directory"
	edit '"data_location_client": "a.u8",' ''
	run --separate-stderr -0 sgpu-manifest check one.json
	run --separate-stderr -1 sgpu-manifest pack -o batch.tar one.json
	assert_contains "$stderr" "has no data_location_client"
	assert_no_file batch.tar
}

@test "a symbolic link out of the folder is refused without --allow-outside" {
	mkdir job
	printf '\1\2\3\4' >secret
	(cd job && one_op && ln -sf ../secret a.u8)
	run --separate-stderr -4 sgpu-manifest pack -o batch.tar job/one.json
	assert_contains "$stderr" "leads outside the manifest's directory"
	assert_no_file batch.tar
	run --separate-stderr -0 sgpu-manifest pack --allow-outside -o batch.tar job/one.json
	assert_contains "$(tar xOf batch.tar locations.json)" "$(pwd -P)/secret"
	rm -f job/a.u8 batch.tar
	mkdir job2 && printf '\1\2\3\4' >job2/a.u8
	ln -s ../job2/a.u8 job/a.u8
	run --separate-stderr -4 sgpu-manifest pack -o batch.tar job/one.json
	assert_no_file batch.tar
}

@test "what is not a regular file is no payload" {
	one_op
	rm a.u8 && mkfifo a.u8
	run --separate-stderr -1 timeout 10 sgpu-manifest pack -o batch.tar one.json
	assert_contains "$stderr" "is not a regular file"
	rm a.u8 && mkdir a.u8
	run --separate-stderr -1 sgpu-manifest pack -o batch.tar one.json
	small_job
	rm scan.f32 && mkfifo scan.f32
	run --separate-stderr -4 timeout 10 sgpu-manifest pack -o batch.tar job.json
	assert_no_file batch.tar
}

@test "a batch replaces neither its manifest nor a payload" {
	small_job
	cp job.json before.json && cp bias.f32 before.f32
	run --separate-stderr -2 sgpu-manifest pack -o job.json job.json
	run --separate-stderr -2 bash -c 'sgpu-manifest pack -o job.json <job.json'
	run --separate-stderr -2 sgpu-manifest pack -o bias.f32 job.json
	ln -s scan.f32 link
	run --separate-stderr -2 sgpu-manifest pack -o link job.json
	assert_same job.json before.json
	assert_same bias.f32 before.f32
}

@test "a batch goes to no terminal" {
	requires script pty
	small_job
	run script -qec 'sgpu-manifest pack job.json' /dev/null
	[ "$status" -eq 2 ]
	assert_contains "$output" "refusing to write binary data to a terminal"
}
