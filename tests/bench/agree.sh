#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# agree.sh [ROUNDS]: figures of sgpu-bench beside those of programs that measure the same by themselves: cpuid_exit and
# aead_bare in this folder, perf bench, openssl speed. Each round runs both, one after the other. Of all rounds the least counts, since other
# programs on the machine only make a time longer. Prints both in nanoseconds, and the ratio with its goal; ends with 1 if a
# ratio misses its goal. What the machine lacks is left out, which is said.
#   SGPU_BUILD   folder with the built programs, and those of `make benches` (build)
#   ONLY         some of: cpuid syscall aead openssl
set -u
export LC_ALL=C
build=$(cd "$(dirname "$0")/../.." && cd "${SGPU_BUILD:-build}" && pwd) || exit 1
PATH=$build/bin:$build/bench:$PATH
rounds=${1:-10}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
missed=0

# of CASE FILTER: nanoseconds of an operation, by the median of the samples of the measurement that the filter selects.
of() {
	sgpu-bench run -q --json --device cpu "$1" |
		jq -s "[.[] | select(.status == \"passed\") | select($2)][0] | .median_ns / .operations"
}

ours() {
	case $1 in
	cpuid) of transition '.variant == "cpuid"' ;;
	syscall) of transition '.variant == "system call"' ;;
	aead | openssl) of aead-cpu '.variant == "openssl" and .parameters.direction == "seal" and .parameters.threads == 1' ;;
	esac
}

# of_perf COMMAND...: of some short runs the least.
of_perf() {
	for _ in 1 2 3 4 5; do
		"$@" | awk '$2 == "usecs/op" { print $1 * 1000 }'
	done | sort -g | head -n 1
}

theirs() {
	case $1 in
	cpuid) cpuid_exit ;;
	syscall) of_perf perf bench syscall basic -l 50000 ;;
	aead) aead_bare ;;
	openssl) openssl speed -mr -seconds 1 -bytes "$chunk" -aead -evp aes-256-gcm 2>/dev/null |
		awk -F: -v size="$chunk" '$1 == "+F" { print size / $4 * 1e9 }' ;;
	esac
}

can() {
	case $1 in
	cpuid) command -v cpuid_exit && grep -qw hypervisor /proc/cpuinfo ;;
	syscall) perf bench syscall basic -l 1 ;;
	aead) command -v aead_bare ;;
	openssl) command -v openssl ;;
	esac >/dev/null 2>&1
}

# compare WHAT MORE [LESS]: by how many per cent our figure may be more, and less (as many), than theirs
compare() {
	local what=$1 goal=$2 less=${3:-$2}
	case " ${ONLY:-$what} " in *" $what "*) ;; *) return ;; esac
	if ! can "$what"; then
		echo "$what: not compared: its program is not here, or what it measures"
		return
	fi
	rm -f "$work/ours" "$work/theirs"
	for ((round = 0; round < rounds; round++)); do
		ours "$what" >>"$work/ours"
		theirs "$what" >>"$work/theirs"
	done
	awk -v what="$what" -v goal="$goal" -v less="$less" -v a="$(sort -g "$work/ours" | head -n 1)" -v b="$(sort -g "$work/theirs" | head -n 1)" '
		BEGIN {
			if (!(a > 0 && b > 0)) { print what ": no figure"; exit 1 }
			printf "%-8s ours %9.1f ns, theirs %9.1f ns, ratio %.3f (goal: -%d %% to +%d %%)\n", what, a, b, a / b, less, goal
			exit a / b > 1 + goal / 100 || a / b < 1 - less / 100
		}' || missed=1
}

chunk=16384 # of the sealed format
compare cpuid 5
compare syscall 5
compare aead 3
# Of OpenSSL 3.0 the program sets the key anew for each message, which we do not: 5 to 8 % of a chunk's time.
compare openssl 3 10
exit $missed
