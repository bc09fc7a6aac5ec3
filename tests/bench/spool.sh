#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spool.sh [COUNT [ROUNDS]]: sgpu-worker over COUNT batches (10000) of 64 KiB, and cp of the same files, in turns. Prints
# for each batches a second, wall and processor time of a batch, and the load of the machine before.
#   DEVICE       cpu (the default), cuda
#   WORKERS      how many share the directory (1)
#   WORK         directory for the files (one of its own in /dev/shm)
#   OPTIONS      more options of the worker (-q)
#   SGPU_BUILD   directory with the built programs (build)
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
PATH=$(cd "${SGPU_BUILD:-build}" && pwd)/bin:$PATH || exit 1
count=${1:-10000}
rounds=${2:-3}
work=$(mktemp -d "${WORK:-/dev/shm}/sgpu-spool.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
read -ra options <<<"${OPTIONS:--q}"

# One input and one output, HIGH, of 64 KiB.
segment() {
	printf '{ "segment_id": "%s", "data_location_client": "%s", "sensitivity_level": "HIGH", "direction": "%s",
		"data_type_info": { "dtype": "f32", "shape": [16384] } }' "$1" "$1" "$2"
}
cat >job.json <<END
{ "version": 1, "manifest_id": "spool", "segments": [ $(segment in INPUT), $(segment out OUTPUT) ],
  "operations": [ { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "in", "output": "out" } } ] }
END
head -c 65536 /dev/zero >in
{
	sgpu-seal keygen -q -o owner.jwk && sgpu-seal keygen -q --x25519 -o runner.jwk &&
		sgpu-seal pubkey -q -o runner.pub.jwk runner.jwk
} || exit 1
sgpu-manifest pack job.json | sgpu-seal seal -q -k owner.jwk -r runner.pub.jwk -o sealed || exit 1

# tee writes many copies a process.
fill() {
	rm -rf spool copies && mkdir spool copies
	seq -f 'spool/b%.0f' "$count" | xargs sh -c 'tee "$@" <sealed >/dev/null' sh
}

# took NAME COMMAND...
took() {
	local name=$1 load begin end
	read -r load _ </proc/loadavg
	times >before
	begin=$EPOCHREALTIME
	"${@:2}" || exit 1
	end=$EPOCHREALTIME
	times >after
	awk -v name="$name" -v n="$count" -v us=$((${end/./} - ${begin/./})) -v before="$(tail -n 1 before)" -v after="$(tail -n 1 after)" -v load="$load" '
		function seconds(text, part) { split(text, part, /[ms]/); return part[1] * 60 + part[2] }
		BEGIN {
			split(before, b, " "); split(after, a, " ")
			cpu = seconds(a[1]) + seconds(a[2]) - seconds(b[1]) - seconds(b[2])
			printf "%-6s %8.0f batches/s  %7.1f us a batch, %7.1f us of processors  load %s\n",
				name, n * 1e6 / us, us / n, cpu * 1e6 / n, load
		}'
}

work_all() {
	local pids=() i
	for ((i = 0; i < ${WORKERS:-1}; i++)); do
		sgpu-worker "${options[@]}" -k runner.jwk --device "${DEVICE:-cpu}" spool 2>>messages &
		pids+=($!)
	done
	wait "${pids[@]}"
}

copy_all() { cp -r spool/. copies; }

for ((round = 0; round < rounds; round++)); do
	fill
	took cp copy_all
	took worker work_all
	[ "$(find spool -name '*.response' | wc -l)" -eq "$count" ] || { tail messages >&2; exit 1; }
done
