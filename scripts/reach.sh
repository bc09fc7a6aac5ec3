#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# reach.sh BUILD PROGRAM...: lists the functions of lib that none of the programs holds, as `file: name`. `make reach`
# links the programs so that they hold only what they reach. lib/bench is exempt. scripts/reach.except names the
# exceptions; one that is not needed any more is listed, too. Exit 1 when something is listed.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
build=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Only objects whose source is there: others are left over from it.
while IFS= read -r source; do
	[ ! -e "$build/obj/${source%.c}.o" ] || printf '%s\n' "$build/obj/${source%.c}.o"
done < <(find lib -name '*.c' ! -path 'lib/bench/*') >"$work/objects"
xargs -a "$work/objects" nm -A --defined-only >"$work/defined"
nm --defined-only "$@" >"$work/held"

awk -v build="$build/obj/" '
FILENAME == ARGV[1] { if ($2 ~ /^[tTiW]$/) held[$3] = 1; next }
FILENAME == ARGV[2] {
	if (/^#/ || !NF) next
	if (NF < 2) { print FILENAME ": no reason: " $1; bad = 1 }
	except[$1] = 1
	next
}
$2 ~ /^[TiW]$/ && !($3 in held) {
	file = substr($1, length(build) + 1)
	sub(/\.o:.*/, ".c", file)
	needed[$3] = 1
	if (!($3 in except)) { print file ": " $3; bad = 1 }
}
END {
	for (name in except) if (!(name in needed)) { print ARGV[2] ": reached, or gone: " name; bad = 1 }
	exit bad
}' "$work/held" scripts/reach.except "$work/defined"
