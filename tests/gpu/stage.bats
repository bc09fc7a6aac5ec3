#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Payloads and results in pinned regions: the device fetches and leaves them itself, registered once for all batches.
# shellcheck disable=SC2154 # bats sets stderr

load ../bats/serve

# copy_job NAME BYTES: NAME.batch, which copies so many HIGH bytes, in a region for inputs; $IN is its handle.
copy_job() {
	head -c "$2" /dev/urandom >"$1.in"
	cat >"$1.json" <<-END
	{ "version": 1, "manifest_id": "$1", "segments": [
	  { "segment_id": "x", "data_location_client": "$1.in", "sensitivity_level": "HIGH", "direction": "INPUT",
	    "data_type_info": { "dtype": "u8", "shape": [$2] } },
	  { "segment_id": "y", "data_location_client": "$1.out", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ],
	  "operations": [
	  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "x", "output": "y" } } ] }
	END
	IN=$(sgpu-stage pin $(($2 + $2 / 1000 + 4096)))
	sgpu-manifest pack --at "x=$IN" "$1.json" | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >"$1.batch"
}

# cpu_ns PID: what its threads have taken.
cpu_ns() {
	cat "/proc/$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d", sum }'
}

# mappings PID HANDLE: of the region, in that process.
mappings() {
	grep "/sgpu/$(cut -d : -f 2 <<<"$2")$" "/proc/$1/maps"
}

@test "batches go through pinned regions by the device's own copies, registered once" {
	copy_job large $((64 << 20))
	local large=$IN out pid before spent=() size
	copy_job small $((64 << 10))
	out=$(sgpu-stage pin --results 66M)
	start_server --device cuda -k runner.jwk
	sgpu-run -q -o "$out" large.batch >response
	sgpu-seal open -q -k owner.jwk -C . response
	cmp large.in large.out
	pid=$(serving_pid)
	mappings "$pid" "$large" >first
	[ "$(wc -l <first)" -eq 1 ]
	[ "$(mappings "$pid" "$out" | wc -l)" -eq 1 ]
	for size in small large; do
		before=$(cpu_ns "$pid")
		for _ in {1..50}; do
			sgpu-run -q -o "$out" "$size.batch" >response
		done
		spent+=($((($(cpu_ns "$pid") - before) / 50)))
	done
	[ "$(serving_pid)" = "$pid" ]
	mappings "$pid" "$large" | cmp - first
	echo "# CPU time of a batch: ${spent[0]} ns for 64 KiB, ${spent[1]} ns for 64 MiB" >&3
	[ $((spent[1] - spent[0])) -lt 10000000 ] # a processor that copies takes more
	sgpu-seal open -q -k owner.jwk -C . --force response
	cmp large.in large.out
}

@test "a payload in a region is one copy of the device, and the report calls it registered" {
	requires python3
	copy_job large $((64 << 20))
	out=$(sgpu-stage pin --results 66M)
	sgpu-run -q -k runner.jwk --device cuda --stats --json -o "$out" large.batch >response 2>report
	python3 - <<'END'
import json
staging = next(line["stats"] for line in map(json.loads, open("report")) if "stats" in line)["staging"]
sealed = (64 << 20) + (64 * 64 + 1) * 16
assert staging["registered"] == {"bytes_in": sealed, "bytes_out": sealed}, staging
assert all(way == {"bytes_in": 0, "bytes_out": 0} for name, way in staging.items() if name != "registered")
END
	sgpu-seal open -q -k owner.jwk -C . response
	cmp large.in large.out
}
