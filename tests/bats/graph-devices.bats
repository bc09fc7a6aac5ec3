#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# One batch on several devices: the same bytes as on one, what the plan says of it, and what a failure on one device leaves.
# shellcheck disable=SC2154 # bats sets stderr

load serve

# tree_job BRANCHES: an input for each branch, three operations behind it, and sums of neighbours, which have to meet
# somewhere; sums and branches leave. HIGH, but for the first branch.
tree_job() {
	python3 - "$1" <<-'END'
	import json, struct, sys
	n, size = int(sys.argv[1]), 4096
	segments, operations = [], []
	def segment(name, direction, level):
	    segments.append({"segment_id": name, "sensitivity_level": level, "direction": direction,
	                     "data_type_info": {"dtype": "f32", "shape": [size]}})
	    if direction != "INTERMEDIATE":
	        segments[-1]["data_location_client"] = name + ".f32"
	def operation(name, kernel, **arguments):
	    operations.append({"gpu_operation_id": name, "kernel": kernel, "arguments": arguments})
	for i in range(n):
	    level = "HIGH" if i else "LOW"
	    with open("x%d.f32" % i, "wb") as out:
	        out.write(struct.pack("<%df" % size, *[(i + 1) * (k % 97) for k in range(size)]))
	    segment("x%d" % i, "INPUT", level)
	    segment("t%d" % i, "INTERMEDIATE", level)
	    segment("y%d" % i, "OUTPUT", level)
	    operation("C%d" % i, "copy", input="x%d" % i, output="t%d" % i)
	    operation("A%d" % i, "vector_add", a="t%d" % i, b="x%d" % i, output="y%d" % i)
	for i in range(n - 1):
	    segment("s%d" % i, "OUTPUT", "HIGH")
	    operation("S%d" % i, "vector_add", a="y%d" % i, b="y%d" % (i + 1), output="s%d" % i)
	json.dump({"version": 1, "manifest_id": "tree", "segments": segments, "operations": operations},
	          open("job.json", "w"))
	END
	sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk >tree
}

# answers DEVICES FOLDER: the tree on these devices, opened into FOLDER.
answers() {
	sgpu-run -q --device "$1" -k runner.jwk -o "$2.response" tree
	sgpu-seal open -q -k owner.jwk -C "$2" "$2.response"
}

@test "a graph over several devices gives the bytes that one device gives" {
	requires python3
	tree_job 7
	answers cpu one
	answers cpu,cpu two
	answers cpu,cpu,cpu three
	[ "$(find one -type f | wc -l)" -eq 13 ]
	diff -r one two
	diff -r one three
}

@test "the trace names the device of each operation, and what moves between two" {
	requires python3
	tree_job 3
	sgpu-run -q --device cpu,cpu --trace trace.json --stats --json -k runner.jwk -o response tree 2>stats
	sgpu-manifest show --json --devices 2 job.json >plan.json
	python3 - <<-'END'
	import json
	plan = json.load(open("plan.json"))
	stats = next(line["stats"] for line in map(json.loads, open("stats")) if "stats" in line)
	events = json.load(open("trace.json"))["traceEvents"]
	names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
	boxes = [e for e in events if e["ph"] == "X"]
	planned = {o["gpu_operation_id"]: o["device"] for o in plan["operations"]}
	ran = {e["args"]["operation"]: names[e["tid"]] for e in boxes if e["cat"] == "kernel"}
	assert set(planned) == set(ran) and set(planned.values()) == {0, 1}, planned
	assert all(ran[o].startswith("device %d, stream" % planned[o]) for o in planned), ran
	moves = sorted((m["segment_id"], "device %d, move to device %d" % (m["from"], m["to"])) for m in plan["moves"])
	assert moves and moves == sorted((e["args"]["segment"], names[e["tid"]]) for e in boxes if e["cat"] == "move")
	assert stats["devices"] == 2 and stats["stages"]["move"]["count"] == len(moves)
	assert stats["stages"]["move"]["bytes"] == sum(m["bytes"] for m in plan["moves"]) == 16384 * len(moves)
	used = [0, 0]
	for buffer in plan["buffers"]:
	    used[buffer["device"]] += buffer["size"]
	assert all(used) and sum(used) == plan["device_memory_bytes"]
	END
}

@test "a plan shows devices and moves" {
	tree_job 2
	run --separate-stderr -0 sgpu-manifest show --devices 2 job.json
	assert_contains "$output" "gpu_operation_id  kernel"
	[[ $output =~ devices\ +2 ]]
	[ "$(sed '1,/^segment_id  from/d' <<<"$output" | wc -l)" -eq 1 ]
	run --separate-stderr -0 sgpu-manifest show job.json
	[[ $output =~ devices\ +1 ]]
	[ -z "$(sed '1,/^segment_id  from/d' <<<"$output")" ]
}

@test "a server with several devices spreads the operations of each batch" {
	requires python3
	tree_job 4
	answers cpu one
	start_server -k runner.jwk --device cpu,cpu,cpu
	run --separate-stderr -0 sgpu-run --stats -o response tree
	assert_contains "$stderr" "devices                     3"
	sgpu-seal open -q -k owner.jwk -C served response
	diff -r one served
}

@test "a payload that does not verify fails what depends on it on every device, and nothing else" {
	requires python3
	local offset
	tree_job 4
	answers cpu one
	# The last input of the batch lies in front of the two blocks that end the archive.
	offset=$(($(stat -c %s tree) - 1024 - 2000))
	printf '\377\377\377\377' | dd of=tree bs=1 seek=$offset conv=notrunc status=none
	run --separate-stderr -5 sgpu-run -q --device cpu,cpu -k runner.jwk -o two.response tree
	run --separate-stderr -5 sgpu-seal open -q -k owner.jwk -C two two.response
	for name in y0 y1 y2 s0 s1; do
		assert_same two/$name.f32 one/$name.f32
	done
	assert_no_file two/y3.f32 two/s2.f32
}

@test "a session and a quote take one device" {
	run --separate-stderr -2 sgpu-enclave --session -k key --device cpu,cpu </dev/null
	assert_contains "$stderr" "a quote names one device, and a session has one"
	run --separate-stderr -2 sgpu-run --local --device cuda:all --quote quote --nonce 00112233445566778899aabbccddeeff \
		--attestation-key runner.jwk --certificate runner.jwk -o response batch.tar
	assert_contains "$stderr" "a quote names one device"
	run --separate-stderr -2 sgpu-serve -k runner.jwk --device cpu,cpu --attestation-key runner.jwk --certificate runner.jwk
	assert_contains "$stderr" "a quote names one device"
	assert_no_file response quote
}
