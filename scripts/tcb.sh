#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tcb.sh BUILD [PROGRAM]: the trusted code base. Counts the project's own files that are linked into sgpu-enclave (or
# PROGRAM) and into what it loads, the plug-in where it was built, and their lines: sources, by the debugging information,
# and each header of the project that one of them includes, once.
set -eu
export LC_ALL=C
build=$1
program=${2:-$build/bin/sgpu-enclave}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# sources_of FILE: what it was compiled from.
sources_of() {
	readelf --debug-dump=info --dwarf-depth=1 "$1" 2>/dev/null | sed -n 's/.*DW_AT_name .*: \(\.\/\)\{0,1\}\(\(lib\|tools\)\/[^ ]*\.c\)$/\2/p'
}

{
	sources_of "$program"
	if [ -e "$build/lib/sgpu/sgpu-cuda.so" ]; then
		sources_of "$build/lib/sgpu/sgpu-cuda.so"
		ls lib/*/cuda/kernels/*.cu
	fi
} | sort -u >"$work/sources"
grep -q 'tools/.*/main\.c' "$work/sources" || {
	echo "tcb.sh: '$program' has no debugging information: build with -g" >&2
	exit 3
}
while IFS= read -r source; do
	cat "$build/obj/${source%.c}.d" "$build/cuda/${source%.cu}.d" 2>/dev/null || :
done <"$work/sources" | tr ' ' '\n' | grep -E '^(\./)?(include|lib|tools)/.*\.(h|cuh)$' | sed 's|^\./||; s|[^/]*/\.\./||' | sort -u >"$work/headers"
sort -u "$work/sources" "$work/headers" >"$work/all"
# By part, and in all.
xargs -d '\n' wc -l <"$work/all" | awk '$2 != "total" {
	split($2, path, "/")
	part = path[1] "/" path[2]
	files[part]++; lines[part] += $1; all_files++; all_lines += $1
} END {
	for (part in files) printf "%-22s %5d files %7d lines\n", part, files[part], lines[part] | "sort"
	close("sort")
	printf "%-22s %5d files %7d lines\n", "trusted in all", all_files, all_lines
}'
