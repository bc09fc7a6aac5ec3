#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh [--json] [--rounds N] [CASE...]: whole programs against those of others, as ratios of two things that are
# timed in turns in one run. Each figure is the median of its rounds. What needs no other program is a case of
# sgpu-bench.
# shellcheck disable=SC2317 # the cases are called by their names
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
build=${SGPU_BUILD:-build}
case $build in
/*) ;;
*) build=$PWD/$build ;;
esac
PATH=$build/bin:$PATH
json=0
rounds=5
cases=()
while [ $# -gt 0 ]; do
	case $1 in
	--json) json=1 ;;
	--rounds)
		rounds=$2
		shift
		;;
	-*)
		echo "usage: bench.sh [--json] [--rounds N] [CASE...]" >&2
		exit 2
		;;
	*) cases+=("$1") ;;
	esac
	shift
done

work=$(mktemp -d /dev/shm/sgpu-bench.XXXXXX 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
export XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$XDG_RUNTIME_DIR"
results=$work/results
: >"$results"
failed=0

# timed NAME COMMAND...: appends the seconds that it took to $work/NAME.times.
timed() {
	local name=$1 start=$EPOCHREALTIME
	shift
	"$@" >"$work/$name.out" 2>"$work/$name.err" || {
		echo "bench.sh: '$*' failed: $(head -n 1 "$work/$name.err")" >&2
		failed=1
		return 1
	}
	echo "$start $EPOCHREALTIME" | awk '{ printf "%.6f\n", $2 - $1 }' >>"$work/$name.times"
}

median() {
	sort -n "$work/$1.times" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# ratio A B: the median of A's time by B's, round by round, so that a slow minute slows both sides.
ratio() {
	paste "$work/$1.times" "$work/$2.times" | awk '{ printf "%.4f\n", $1 / $2 }' >"$work/ratio.times"
	median ratio
}

divide() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", a / b }'
}

# result NAME WHAT VALUE UNIT GOAL: GOAL is "<= 1.3", ">= 5", or empty.
result() {
	local met=
	[ -z "$5" ] || met=$(awk -v v="$3" -v op="${5%% *}" -v g="${5##* }" \
		'BEGIN { print (op == "<=" ? v <= g : v >= g) ? "yes" : "no" }')
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5" "$met" >>"$results"
	[ "$json" = 1 ] || printf '%-10s  %-62s  %10s %-6s  %-8s %s\n' "$1" "$2" "$3" "$4" "$5" "$met"
}

make_key() {
	[ -e "$work/key.jwk" ] || sgpu-seal keygen -o "$work/key.jwk"
}

# ---- sealing a file of 1 GiB, whole process, on tmpfs ----
copy_file() { cat "$work/plain" >"$work/copy"; }
age_file() { age -r "$age_recipient" -o "$work/plain.age" "$work/plain"; }

file_job() {
	cat >"$work/file.json" <<END
{ "version": 1, "manifest_id": "file", "segments": [
  { "segment_id": "in", "data_location_client": "plain", "sensitivity_level": "HIGH", "direction": "INPUT",
    "data_type_info": { "dtype": "u8", "shape": [1073741824] } },
  { "segment_id": "out", "sensitivity_level": "HIGH", "direction": "OUTPUT" } ], "operations": [
  { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "in", "output": "out" } } ] }
END
	sgpu-manifest pack -o "$work/file.batch" "$work/file.json"
}

case_seal() {
	local i peak
	make_key || return 1
	openssl enc -aes-128-ctr -pass pass:x -nosalt </dev/zero 2>/dev/null | head -c 1073741824 >"$work/plain"
	file_job || return 1
	age_recipient=
	if command -v age >/dev/null; then
		age-keygen -o "$work/age.key" 2>/dev/null
		age_recipient=$(age-keygen -y "$work/age.key")
	fi
	# Every output is removed before the next one is made: each then finds as much memory that was in use before.
	for ((i = 0; i < rounds; i++)); do
		timed copy copy_file || return 1
		rm -f "$work/copy"
		timed seal sgpu-seal seal-file -q -k "$work/key.jwk" "$work/plain" "$work/sealed" || return 1
		mv "$work/sealed" "$work/to-open"
		timed open sgpu-seal open-file -q -k "$work/key.jwk" "$work/to-open" "$work/opened" || return 1
		rm -f "$work/opened" "$work/to-open"
		timed batch-seal sgpu-seal seal -q -k "$work/key.jwk" -o "$work/sealed" "$work/file.batch" || return 1
		rm -f "$work/sealed"
		timed floor dd if=/dev/zero of="$work/copy" bs=256k count=4096 || return 1
		rm -f "$work/copy"
		[ -z "$age_recipient" ] || timed age age_file || return 1
		rm -f "$work/plain.age"
	done
	result seal "seal-file of 1 GiB, of the time of cat" "$(ratio seal copy)" x "<= 1.3"
	result seal "seal of a batch of 1 GiB, of the time of cat" "$(ratio batch-seal copy)" x "<= 1.3"
	result seal "seal-file of 1 GiB, of the time to write 1 GiB of zeros" "$(ratio seal floor)" x ""
	result seal "open-file of 1 GiB, of the time of cat" "$(ratio open copy)" x ""
	[ -z "$age_recipient" ] || {
		result seal "seal-file of 1 GiB, times the rate of age" "$(ratio age seal)" x ">= 5"
		result seal "writing 1 GiB of zeros, times the rate of age" "$(ratio age floor)" x ""
	}
	if [ -x /usr/bin/time ]; then
		peak=$(/usr/bin/time -f %M sgpu-seal seal-file -q -k "$work/key.jwk" "$work/plain" "$work/sealed" 2>&1 | tail -n 1)
		result seal "peak memory of seal-file" "$(divide "$peak" 1024)" MiB "<= 128"
	fi
	rm -f "$work/plain" "$work/sealed"
}

# ---- AES-256-GCM, one core, in cache ----
case_aead() {
	local i rate other goal=
	for ((i = 0; i < rounds; i++)); do
		rate=$(sgpu-bench run -q --json --size 16K --time 250ms aead-cpu | awk -F '[:,}]' '
			/"direction":"seal"/ { for (i = 1; i < NF; i++) if ($i == "\"bytes_per_second\"") rate = $(i + 1) }
			END { print rate }')
		[ -n "$rate" ] || return 1
		other=$(openssl speed -elapsed -mr -seconds 1 -bytes 16384 -evp aes-256-gcm 2>/dev/null | awk -F : '/^\+F:/ { print $NF }')
		divide "$rate" "$other" >>"$work/aead.times"
	done
	! grep -qw vaes /proc/cpuinfo || case $(openssl version) in "OpenSSL 3.0"*) goal=">= 2.4" ;; esac
	result aead "AES-256-GCM on one core in cache, times openssl speed" "$(median aead)" x "$goal"
}

[ ${#cases[@]} -gt 0 ] || cases=(aead seal)
about="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors, $(openssl version | cut -d ' ' -f 1-2)"
[ "$json" = 1 ] || echo "# $about; medians of $rounds rounds"
for case in "${cases[@]}"; do
	declare -F "case_$case" >/dev/null || {
		echo "bench.sh: unknown case '$case'" >&2
		exit 2
	}
	"case_$case" || failed=1
done
if [ $json = 1 ]; then
	awk -F '\t' -v about="$about" -v rounds="$rounds" '
	function text(s) { gsub(/[\\"]/, "\\\\&", s); return "\"" s "\"" }
	BEGIN { printf "{\"machine\":%s,\"rounds\":%d,\"results\":[", text(about), rounds }
	{
		printf "%s{\"case\":%s,\"what\":%s,\"value\":%s,\"unit\":%s", (NR > 1 ? "," : ""), text($1), text($2), $3, text($4)
		if ($5 != "") printf ",\"goal\":%s,\"met\":%s", text($5), $6 == "yes" ? "true" : "false"
		printf "}"
	}
	END { print "]}" }' "$results"
fi
exit $failed
