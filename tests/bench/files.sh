#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# files.sh [ROUNDS]: sgpu-run, sgpu-seal seal and open, from files to files in memory, beside cp of the same files:
# black_scholes on 768 MiB, with 512 MiB of results. Prints milliseconds, round after round; for sgpu-run also what it
# says itself, which is without the start of the device. At the end of each round, the whole pipe (pack, seal, submit,
# open) by leases of a server that is there, from the files to the files, as a ratio to cp of these files.
#   DEVICE       cuda (the default), cpu
#   COUNT        options to price (67108864)
#   SGPU_BUILD   folder with the built programs (build)
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
build=${SGPU_BUILD:-build}
PATH=$(cd "$build" && pwd)/bin:$PATH || exit 1
device=${DEVICE:-cuda}
count=${COUNT:-67108864}
work=$(mktemp -d /dev/shm/sgpu-files.XXXXXX) || exit 1
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work" || exit 1

# segment NAME LEVEL DIRECTION
segment() {
	printf '{ "segment_id": "%s", "data_location_client": "%s.f32", "sensitivity_level": "%s", "direction": "%s",
		"data_type_info": { "dtype": "f32", "shape": [%d] } }' "$1" "$1" "$2" "$3" "$count"
}

# job LEVEL
job() {
	echo "{ \"version\": 1, \"manifest_id\": \"files\", \"segments\": [ $(segment price "$1" INPUT), $(segment strike "$1" INPUT),
		$(segment years "$1" INPUT), $(segment call "$1" OUTPUT), $(segment put "$1" OUTPUT) ],
		\"operations\": [ { \"gpu_operation_id\": \"PRICE\", \"kernel\": \"black_scholes\",
		\"params\": { \"rate\": 0.02, \"volatility\": 0.3 }, \"arguments\": { \"price\": \"price\", \"strike\": \"strike\",
		\"years\": \"years\", \"output_call\": \"call\", \"output_put\": \"put\" } } ] }"
}

# options NAME BYTES: so many of the same float, whose bytes are as of printf's %b.
options() {
	printf %b "$2" >"$1.part"
	while [ "$(stat -c %s "$1.part")" -lt $((4 * count)) ]; do
		cat "$1.part" "$1.part" >"$1.f32"
		mv "$1.f32" "$1.part"
	done
	head -c $((4 * count)) "$1.part" >"$1.f32"
	rm "$1.part"
}

# took COMMAND...: milliseconds.
took() {
	local begin=$EPOCHREALTIME end
	"$@" >output 2>message || {
		cat message >&2
		exit 1
	}
	end=$EPOCHREALTIME
	echo $(((${end/./} - ${begin/./}) / 1000))
}

# The pipes are what is measured.
copy_both() { cp HIGH.batch copy && cp HIGH.response copied; }
# shellcheck disable=SC2002
pipe_copy() { cat HIGH.batch | cat >copy; }
run_file() { sgpu-run --device "$device" -k owner.jwk -o "$1.response" "$1.batch"; }
# shellcheck disable=SC2002
run_pipe() { cat HIGH.batch | sgpu-run --device "$device" -k owner.jwk >response; }
copy_files() { cp price.f32 strike.f32 years.f32 copies/ && cp leased/call.f32 leased/put.f32 copies/; }
pipe_leases() {
	sgpu-manifest pack -q "$1.json" | sgpu-seal seal -q --lease -k owner.jwk | sgpu-run -q --lease |
		sgpu-seal open -q -k owner.jwk -C "$2"
}
inside() { sed -nE 's/.* ([0-9.]+) ms, OK$/\1/p' message; }

options price '\0\0\0120\0101'  # 13.0
options strike '\0\0\0220\0101' # 18.0
options years '\0\0\0200\077'   # 1.0
sgpu-seal keygen -o owner.jwk 2>/dev/null
for level in HIGH LOW; do
	job $level >$level.json
	sgpu-manifest pack $level.json >$level.packed && sgpu-seal seal -q -k owner.jwk -o $level.batch $level.packed || exit 1
done
took run_file HIGH >/dev/null
export SGPU_SOCKET=$work/sgpu.sock
sgpu-serve -q --device "$device" -k owner.jwk --leases $((48 * count + (16 << 20))) --ahead 0 2>served &
server=$!
while [ ! -S "$SGPU_SOCKET" ]; do
	kill -0 $server || exit 1
	sleep 0.1
done
took pipe_leases HIGH leased >/dev/null # starts the worker
for ((round = 0; round < ${1:-3}; round++)); do
	echo "cp of batch and response            $(took copy_both)"
	for level in HIGH LOW; do
		rm -f $level.response.old
		[ ! -e $level.response ] || mv $level.response $level.response.old
		whole=$(took run_file $level)
		echo "sgpu-run, $level                      $(inside), as a process $whole"
	done
	rm -f copied
	echo "cat batch | cat                     $(took pipe_copy)"
	whole=$(took run_pipe)
	echo "cat batch | sgpu-run, HIGH          $(inside), as a process $whole"
	rm -f copy
	echo "cp of the batch                     $(took cp HIGH.batch copy)"
	rm -f copy sealed
	echo "sgpu-seal seal                      $(took sgpu-seal seal -q -k owner.jwk -o sealed HIGH.packed)"
	rm -f sealed
	echo "cp of the response                  $(took cp response copy)"
	rm -rf copy out
	echo "sgpu-seal open                      $(took sgpu-seal open -q -k owner.jwk -C out response)"
	rm -rf out response
	for level in HIGH LOW; do
		rm -rf copies again
		mkdir copies
		whole=$(took copy_files)
		rm -rf copies
		pipe=$(took pipe_leases $level again)
		echo "cp of inputs and results            $whole"
		echo "pipe by leases, $level                $pipe, $((100 * pipe / (whole ? whole : 1))) % of cp"
	done
	rm -rf again
done
