#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The runner alone: what it refuses, what fails alone, signals, deadlines, trace, statistics, plan, info, ops.

load helpers

# bats sets it.
stderr=""

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 20000
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >batch.tar
}

teardown() {
	if [ -n "${BACKGROUND:-}" ]; then
		kill -9 "$BACKGROUND" 2>/dev/null || true
	fi
	sgpu_teardown
}

# member FILE NAME: where the payload of a member starts.
member() {
	local block
	block=$(tar -tRf "$1" | sed -n "s,^block \([0-9]*\): $2\$,\1,p")
	echo $((block * 512 + 512))
}

# two_jobs: a job of two operations that do not depend on each other.
two_jobs() {
	cat >two.json <<-END
	{ "version": 1, "manifest_id": "two", "segments": [
	  { "segment_id": "a", "data_location_client": "scan.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [20000] } },
	  { "segment_id": "b", "data_location_client": "bias.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "f32", "shape": [20000] } },
	  { "segment_id": "c", "data_location_client": "c.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [20000] } },
	  { "segment_id": "d", "data_location_client": "d.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
	    "data_type_info": { "dtype": "f32", "shape": [20000] } } ],
	  "operations": [
	  { "gpu_operation_id": "LEFT", "kernel": "copy", "arguments": { "input": "a", "output": "c" } },
	  { "gpu_operation_id": "RIGHT", "kernel": "copy", "arguments": { "input": "b", "output": "d" } } ] }
	END
}

# ---- refusals ----

@test "HIGH data that are not sealed are refused, with a hint" {
	run --separate-stderr -4 sgpu-run -k runner.jwk -o response packed
	assert_contains "$stderr" "the batch has HIGH segments and is packed, but not sealed"
	assert_contains "$stderr" "sgpu-seal seal"
	assert_no_file response
}

@test "a scan or an array is no batch, and the hint is sgpu run" {
	local file
	truncate -s 600 scan.nii scan2.nii
	printf 'n+1' | dd of=scan.nii bs=1 seek=344 conv=notrunc status=none
	printf 'n+2\0\r\n\032\n' | dd of=scan2.nii bs=1 seek=4 conv=notrunc status=none
	printf '\x93NUMPY\1\0' >array.npy
	gzip -k scan.nii
	for file in scan.nii scan2.nii array.npy scan.nii.gz; do
		run --separate-stderr -1 sgpu-run -k runner.jwk -o response "$file"
		assert_contains "$stderr" "'$file' is "
		assert_contains "$stderr" "hint: 'sgpu run"
		assert_no_file response
	done
}

@test "the output may not be the input" {
	cp batch.tar same
	run --separate-stderr -2 sgpu-run -k runner.jwk -o same same
	run --separate-stderr -2 sgpu-run -k runner.jwk -o response --trace same same
	assert_same batch.tar same
	assert_no_file response
}

@test "no output takes the place of a key" {
	cp runner.jwk before
	run --separate-stderr -2 sgpu-run -k runner.jwk -o runner.jwk batch.tar
	run --separate-stderr -2 bash -c 'sgpu-run -k fd:7 -o runner.jwk batch.tar 7<runner.jwk'
	run --separate-stderr -2 sgpu-run -k runner.jwk -o response --trace ./runner.jwk batch.tar
	assert_same runner.jwk before
	assert_no_file response
}

@test "response and trace both appear, or neither" {
	run --separate-stderr -3 sgpu-run -k runner.jwk -o response --trace batch.tar/trace batch.tar
	assert_no_file response
	run --separate-stderr -3 sgpu-run -k runner.jwk -o response --trace /dev/full batch.tar
	assert_no_file response
	run --separate-stderr -3 sgpu-run -k runner.jwk -o batch.tar/response --trace trace batch.tar
	assert_no_file trace
	run --separate-stderr -2 sgpu-run -k runner.jwk -o response --trace ./response batch.tar
	assert_no_file response
}

@test "an unknown implementation of AES-GCM is refused before anything runs" {
	SGPU_AEAD=toaster run --separate-stderr -3 sgpu-run -k runner.jwk -o response batch.tar
	assert_contains "$stderr" "toaster"
	assert_no_file response
}

@test "a limit on the size of files is an error and no death by a signal" {
	run --separate-stderr -3 bash -c 'ulimit -f 8; sgpu-run -k runner.jwk -o response batch.tar'
	assert_contains "$stderr" "File too large"
	assert_no_file response
}

@test "wrong usage is told from everything else" {
	run --separate-stderr -2 sgpu-run --device toaster -k runner.jwk -o response batch.tar
	run --separate-stderr -2 sgpu-run -j 0 -o response batch.tar
	run --separate-stderr -2 sgpu-run -j many -o response batch.tar
	run --separate-stderr -2 sgpu-run --timeout never -o response batch.tar
	run --separate-stderr -2 sgpu-run -o response batch.tar batch.tar
	run --separate-stderr -2 sgpu-run --no-such-option
	run --separate-stderr -2 sgpu-run --trace - batch.tar
	run --separate-stderr -2 sgpu-run -k - -o response <batch.tar
	run --separate-stderr -3 sgpu-run -o response nowhere
	assert_no_file response
}

@test "words that name no device are usage errors" {
	for word in cuda: cuda:x cuda:-1 cuda:GPU- cuda:gpu-5d0c cuda:GPU-5d0x gpu CUDA ''; do
		run --separate-stderr -2 sgpu-run --device "$word" -k runner.jwk -o response batch.tar
		assert_contains "$stderr" "names no device"
	done
	assert_no_file response
}

@test "without a visible GPU the CPU device is taken, and cuda says why not" {
	CUDA_VISIBLE_DEVICES='' run --separate-stderr -3 sgpu-run --device cuda -k runner.jwk -o response batch.tar
	assert_contains "$stderr" "hint"
	assert_no_file response
	CUDA_VISIBLE_DEVICES='' run --separate-stderr -0 sgpu-run -k runner.jwk -o response batch.tar
}

@test "a public half is called one, and a batch for other keys says for which, and which were given" {
	run --separate-stderr -4 sgpu-run -k runner.pub.jwk -o response batch.tar
	assert_contains "$stderr" "'runner.pub.jwk' is the public half"
	assert_no_file response
	sgpu-seal keygen -q --x25519 -o other.jwk
	run --separate-stderr -4 sgpu-run -k other.jwk -o response batch.tar
	for key in owner.jwk other.jwk; do
		assert_contains "$stderr" "$(sgpu-seal keyinfo $key | awk 'NR == 1 { print $4 }')"
	done
	assert_no_file response
	sgpu-run -k other.jwk -k runner.jwk -o response batch.tar
	run --separate-stderr -4 sgpu-seal open -k runner.pub.jwk -C out batch.tar
	assert_contains "$stderr" "public half"
}

# ---- what fails alone ----

@test "what fails alone does so wherever the response goes, however large it is" {
	small_job 700000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >batch.tar
	flip_byte batch.tar $(($(member batch.tar segments/scan) + 30000))
	run --separate-stderr -5 sgpu-run -k runner.jwk -o response batch.tar
	assert_contains "$stderr" "segment 'scan' failed"
	run --separate-stderr -5 bash -c 'sgpu-run -k runner.jwk batch.tar >redirected'
	run --separate-stderr -5 bash -c 'set -o pipefail; sgpu-run -k runner.jwk batch.tar | cat >piped'
	for file in response redirected piped; do
		run --separate-stderr -5 sgpu-seal open -k owner.jwk -C "out.$file" "$file"
		assert_no_file "out.$file/out.f32"
		assert_same "out.$file/bias.copy.f32" bias.f32
	done
}

@test "a file that changed since it was packed fails what reads it" {
	two_jobs
	sed 's/"HIGH"/"LOW"/' two.json >low.json
	mv owner.jwk "$TEST_SHM"
	rm runner.jwk
	sgpu-seal keyinfo --owner "$TEST_SHM/owner.jwk" >owners
	sgpu-manifest pack low.json | sgpu-seal seal -k "$TEST_SHM/owner.jwk" --by-reference >low
	flip_byte scan.f32 77
	run --separate-stderr -5 sgpu-run -k "$TEST_SHM/owner.jwk" --owners owners --files . -o response low
	tar xOf response segments/d | cmp - bias.f32
	run -2 tar xOf response segments/c
	rm scan.f32
	run --separate-stderr -5 sgpu-run -k "$TEST_SHM/owner.jwk" --owners owners --files . -o response low
	assert_contains "$stderr" "segment 'a' failed: cannot open"
	tar xOf response segments/d | cmp - bias.f32
}

@test "a batch with a handle that leads nowhere is refused, and is not recorded" {
	local id
	mkdir -m 700 state
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-stage load batch.tar >staged
	rewrite staged beyond 'for one in places["locations"]:
    one["handle"] = "sgpu:{1}:900000:{3}".format(*one["handle"].split(":"))'
	run --separate-stderr -4 sgpu-run -k runner.jwk --owners owners --state state -o response beyond
	assert_contains "$stderr" "are not in region"
	# A result that is to be sealed needs room for its seal.
	sgpu-stage load --keep batch.tar >kept
	rewrite kept small 'id = places["locations"][0]["handle"].split(":")[1]
for one in index["segments"]:
    if one["segment_id"] == "result":
        places["locations"].append({"segment_id": "result", "handle": "sgpu:%s:0:%d" % (id, one["size"])})'
	run --separate-stderr -1 sgpu-run -k runner.jwk --owners owners --state state -o response small
	assert_contains "$stderr" "the handle has"
	sgpu-stage list -q | grep -oE '[0-9a-f]{32}' | sort -u | while read -r id; do sgpu-stage release "$id"; done
	run --separate-stderr -4 sgpu-run -k runner.jwk --owners owners --state state -o response staged
	assert_contains "$stderr" "segment 'scan': "
	assert_no_file response
	run -0 sgpu-run -k runner.jwk --owners owners --state state -o response batch.tar
}

# ---- time and signals ----

@test "without even a head there is no response when time is over" {
	mkfifo pipe
	exec 7<>pipe
	run --separate-stderr -3 sgpu-run -k runner.jwk --timeout 200ms -o response pipe
	assert_contains "$stderr" "deadline"
	assert_no_file response
	exec 7>&-
}

@test "a reader that hangs does not hold a run past its deadline" {
	local time
	mkfifo full
	exec 8<>full
	# A slow machine may not have come to the response in the first of these times.
	for time in 1s 10s 60s; do
		run --separate-stderr -3 timeout 600 bash -c "sgpu-run -k runner.jwk --timeout $time batch.tar >&8"
		[[ $stderr == *"before the batch was admitted"* ]] || break
	done
	assert_contains "$stderr" "the deadline passed before 'standard output' could be written"
	assert_contains "$stderr" "nothing reads it"
	# What came into the pipe is no whole response.
	head -c 10000 <&8 >partial
	exec 8>&-
	run --separate-stderr -1 sgpu-seal open -k owner.jwk -C out partial
	assert_contains "$stderr" "'partial' is cut short"
}

# start_endless BATCH: a runner whose batch never ends; its process id in $RUNNER.
start_endless() {
	mkfifo pipe
	sgpu-run "${@:2}" -k runner.jwk -o response pipe 2>message 3>&- &
	RUNNER=$!
	BACKGROUND=$RUNNER
	exec 7>pipe
	cat "$1" >&7
}

@test "SIGTERM ends a run by the signal and leaves no output and no region" {
	sgpu-stage load batch.tar >staged
	head -c $(($(stat -c %s staged) - 1024)) staged >endless
	start_endless endless
	wait_for waits_in_poll "$RUNNER"
	kill -TERM "$RUNNER"
	status=0
	wait "$RUNNER" || status=$?
	exec 7>&-
	[ "$status" -eq $((128 + 15)) ]
	assert_no_file response
}

@test "SIGINT ends a run by the signal" {
	head -c 20000 batch.tar >endless
	set -m
	start_endless endless
	set +m
	wait_for waits_in_poll "$RUNNER"
	kill -INT "$RUNNER"
	status=0
	wait "$RUNNER" || status=$?
	exec 7>&-
	[ "$status" -eq $((128 + 2)) ]
	assert_no_file response
}

all_regions() {
	find "$XDG_RUNTIME_DIR" /dev/shm/sgpu-"$(id -u)" -type f 2>/dev/null | grep -E '/[0-9a-f]{32}' || true
}

# Those of the test, not of whoever else stages something on this machine.
region_files() {
	all_regions | grep -cvxFf others || true
}

has_taken() {
	[ "$(region_files)" -eq 0 ]
}

@test "a runner that is killed leaves no region and no output" {
	all_regions >others
	sgpu-stage load batch.tar >staged
	[ "$(region_files)" -gt 0 ]
	head -c $(($(stat -c %s staged) - 1024)) staged >endless
	start_endless endless
	wait_for has_taken
	kill -KILL "$RUNNER"
	wait "$RUNNER" || true
	exec 7>&-
	[ "$(region_files)" -eq 0 ]
	[ -z "$(find . -name '*response*')" ]
}

# ---- what it says about a run ----

@test "a trace is valid JSON with a box for every stage" {
	requires python3
	sgpu-run -k runner.jwk --trace trace.json -o response batch.tar
	python3 - <<-END
	import json
	events = json.load(open("trace.json"))["traceEvents"]
	boxes = [e for e in events if e["ph"] == "X"]
	names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
	assert {"read", "copy_in", "open", "kernel", "seal", "copy_out", "write"} == {e["cat"] for e in boxes}
	assert all(e["tid"] in names and e["ts"] >= 0 and e["dur"] >= 0 and e["args"]["bytes"] >= 0 for e in boxes)
	assert {e["args"]["operation"] for e in boxes if e["cat"] == "kernel"} == {"ADD", "COPY", "PUBLISH"}
	assert all(names[e["tid"]].startswith("stream") for e in boxes if e["cat"] == "kernel")
	END
}

@test "operations that do not depend on each other are on rows of their own, a chain is on one" {
	requires python3
	two_jobs
	sgpu-manifest pack two.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >two
	sgpu-run -k runner.jwk --trace two.trace -o response two
	sgpu-run -k runner.jwk --trace trace.json -o response batch.tar
	python3 - <<-END
	import json
	def rows(path):
	    events = json.load(open(path))["traceEvents"]
	    return {e["args"]["operation"]: e["tid"] for e in events if e["ph"] == "X" and e["cat"] == "kernel"}
	two, chain = rows("two.trace"), rows("trace.json")
	assert two["LEFT"] != two["RIGHT"], two
	assert chain["ADD"] == chain["COPY"] != chain["PUBLISH"], chain
	END
}

@test "statistics name the stages, as a table and as JSON" {
	run --separate-stderr -0 sgpu-run -k runner.jwk --device cpu --stats -o response batch.tar
	[ "$output" = "" ]
	for stage in read copy_in open kernel seal copy_out write registered pinned pageable; do
		assert_contains "$stderr" "$stage"
	done
	requires python3
	sgpu-run -k runner.jwk --device cpu --stats --json -o response batch.tar 2>stats
	python3 - <<-END
	import json
	stats = next(line["stats"] for line in map(json.loads, open("stats")) if "stats" in line)
	assert stats["operations_done"] == 3 and stats["operations_failed"] == 0
	assert stats["stages"]["kernel"]["count"] == 3 and stats["stages"]["seal"]["bytes"] == 80080
	assert stats["device"] == "cpu" and stats["elapsed_ns"] > 0
	staging = stats["staging"]
	assert set(staging) == {"registered", "pinned", "pageable"}
	# What is sealed is opened where it lies.
	copied = stats["stages"]["copy_in"]["bytes"] + stats["stages"]["open"]["bytes"]
	assert sum(way["bytes_in"] for way in staging.values()) == staging["pageable"]["bytes_in"] == copied
	assert sum(way["bytes_out"] for way in staging.values()) == staging["pageable"]["bytes_out"] > 160000
	END
}

# ---- info and ops ----

@test "info says what is there, what is missing, and what is protected" {
	run --separate-stderr -0 sgpu-run --info
	grep -q "^  selector *cpu$" <<<"$output"
	assert_contains "$output" "protection"
	requires python3
	sgpu-run --info --json >info.json
	python3 - <<-END
	import json
	info = json.load(open("info.json"))
	devices = {d["selector"].split(":")[0]: d for d in info["devices"]}
	assert devices["cpu"]["available"] and devices["cpu"]["compute_units"] >= 1
	assert devices["cuda"]["available"] or devices["cuda"]["missing"] and devices["cuda"]["hint"]
	parts = {p["name"]: p for p in info["cuda"]}
	assert all(p["text"] and (p["found"] or p["hint"]) for p in info["cuda"])
	assert not devices["cuda"]["available"] or parts["plugin"]["found"] and parts["driver"]["found"]
	gpus = [d for d in info["devices"] if "uuid" in d]
	assert len([d for d in gpus if d["default"]]) == min(1, len(gpus))
	if info["platform"]["kind"] == "plain machine":
	    assert not info["protection"]["protects_runner_memory"]
	    assert "yes" in info["protection"]["host_reads_runner_memory"]
	assert info["aead"]["provider"].split()[0] in info["aead"]["available"]
	END
	run --separate-stderr -2 sgpu-run --info surplus
}

# row_of: in which this process finds itself.
row_of() {
	sgpu-run --info | grep -A 4 '^platform'
}

@test "no variable of the environment has programs that are installed look for evidence elsewhere" {
	mkdir -p root/dev
	: >root/dev/sev-guest
	here=$(row_of)
	export SGPU_PLATFORM_ROOT=$PWD/root
	[ "$(row_of)" = "$here" ]
	run ! grep -lE 'SGPU_[A-Z]+_ROOT' "$SGPU_BUILD"/bin/*
	use_roots # else what is above says nothing
	assert_contains "$(row_of)" "SEV-SNP guest"
}

@test "a batch that names its manifest by hash runs with that manifest alone, and is not taken before" {
	sgpu-seal keyinfo --owner owner.jwk >owners
	sgpu-manifest pack --by-hash --manifest-out manifest job.json >packed
	cmp manifest <(sgpu-manifest canon job.json)
	[ "$(tar tf packed | grep -c manifest.json)" -eq 0 ]
	sgpu-seal seal -q -k owner.jwk packed >sealed
	sgpu-seal inspect --json sealed | jq -e '.manifest_id == null and .segments[0].direction == "INPUT"'
	run -3 --separate-stderr sgpu-run -q -k owner.jwk --owners owners --state state -o response sealed
	assert_contains "$stderr" "names its manifest by the hash alone"
	[ ! -e response ]
	# Another manifest, and the right one with one more blank.
	sed 's/"manifest_id":"[^"]*"/"manifest_id":"other"/' manifest >other
	run -4 --separate-stderr sgpu-run -q -k owner.jwk --owners owners --state state --manifest other sealed
	assert_contains "$stderr" "the manifest is not the one that batch.json names"
	{ cat manifest && printf ' '; } >other
	run -4 --separate-stderr sgpu-run -q -k owner.jwk --owners owners --state state --manifest other sealed
	# It was not recorded by any of these.
	sgpu-run -q -k owner.jwk --owners owners --state state --manifest manifest -o response sealed
	sgpu-seal open -q -k owner.jwk --batch sealed -C out response
	run -4 --separate-stderr sgpu-run -q -k owner.jwk --owners owners --state state --manifest manifest sealed
	assert_contains "$stderr" "taken before"
	run -2 sgpu-manifest pack --by-hash job.json
	run -2 sgpu-manifest pack --manifest-out manifest job.json
	run -2 sgpu-run -k owner.jwk --manifest - <sealed
}
