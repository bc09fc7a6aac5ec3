#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-size.sh: is any folder larger than its line in scripts/size.budget? Prints what is too large, then the sums.
# Exit 1 when something is. The files that git knows are counted: code in include, lib and tools, with "other" for what
# lies beside it; in tests also scripts and texts; in python, scripts, examples and man all of them.
#   --report  a table of all folders besides
#   --update  lowers the budgets to what there is, and drops those of folders that are gone
#   --write   makes all budgets what there is; what goes up by that needs a commit of its own that says why
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
mode=${1:---check}
case $mode in
--check | --report | --update | --write) ;;
*)
	echo "usage: check-size.sh [--report | --update | --write]" >&2
	exit 2
	;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folders=(include lib tools python scripts examples man tests)
if [ -e .git ]; then
	git ls-files -- "${folders[@]}"
else
	find "${folders[@]}" -type f
fi >"$work/files"

status=0
awk -v files="$work/files" -v new="$work/new" -v mode="${mode#--}" -v budget=scripts/size.budget '
function fault(text) { print text | "sort"; bad = 1 }
# The name that a file counts for; none when it does not.
function place(file,  part) {
	split(file, part, "/")
	if (file == budget) return ""
	if (file ~ /^tests\//) return file ~ text && file !~ /\/(corpus|vectors)\// ? "tests" : ""
	if (file !~ /^(include|lib|tools)\//) return part[1]
	if (file !~ code) return "other"
	return part[1] == "include" ? part[1] : part[1] "/" part[2]
}
# Whether a declaration of a function ends with this line. It began in the first column.
function declares(line) {
	sub(/[ \t]*\/\*.*/, "", line)
	statement = line ~ /^[a-zA-Z]/ ? line : line ~ /^[ \t]/ && statement != "" ? statement line : ""
	return line ~ /\);$/ && statement != "" && statement !~ /^(static|typedef)|\{/
}
function count(file,  at, n, size, line, limit) {
	if ((at = place(file)) == "") return
	while ((getline line < file) > 0) {
		n++
		size += length(line) + 1
		if (file ~ /^include\// && declares(line)) functions++
	}
	close(file)
	if (!n) return
	lines[at] += n
	bytes[at] += size
	limit = file ~ /^tests/ ? 700 : 650
	if (file ~ code && n > limit) fault(file ": " n " lines; a file may have " limit)
	if (file ~ /^(lib|tools)\/.*\.h$/ && n < 45) headers++
}
function compare(name, now, limit, what) {
	if (now > limit) fault(sprintf("%s: %d %s; the budget has %d", name, now, what, limit))
}
function dense(name, size, n, limit) {
	if (size > limit * n) fault(sprintf("%s: %.1f bytes a line; it may have %d", name, size / n, limit))
}
function least(a, b) { return mode == "write" || a < b ? a : b }
BEGIN {
	code = "\\.(c|h|cu|cuh|js|css)$"
	text = "\\.(c|h|cu|cuh|py|sh|bash|bats|zsh|pml|txt)$"
	while ((getline file < files) > 0) count(file)
	lines["public-functions"] = functions + 0
	lines["private-headers-under-45"] = headers + 0
	while ((getline < budget) > 0) if (!/^#/ && NF) {
		max[$1] = $2
		max_bytes[$1] = $3
		if (!($1 in lines) && mode !~ /update|write/) fault($1 ": a budget without a folder")
	}
	for (name in lines) {
		if (!(name in max) && mode != "write") fault(name ": no budget, but " lines[name] " lines, " bytes[name] " bytes")
		if (name in max && mode != "write") {
			compare(name, lines[name], max[name], bytes[name] ? "lines" : "of them")
			compare(name, bytes[name], max_bytes[name], "bytes")
		}
		if (name !~ /^(include|lib|tools)/) continue
		dense(name, bytes[name], lines[name], name == "include" ? 52 : 36)
		sum += lines[name]
		sum_bytes += bytes[name]
	}
	dense("lib, include and tools", sum_bytes, sum, 34)
	for (name in lines) {
		if (mode == "report") printf("%-25s %7d of %7d lines, %8d of %8d bytes, %.1f a line\n", name, lines[name], max[name],
			bytes[name], max_bytes[name], bytes[name] / (lines[name] + !lines[name])) | "sort"
		if (mode == "write" || name in max) printf("%-25s %7d %s\n", name, least(lines[name], max[name]),
			bytes[name] ? sprintf("%9d", least(bytes[name], max_bytes[name])) : "") >new
	}
	close("sort")
	printf("lib, include and tools: %d lines, %d bytes, %.1f a line; %d public functions, %d headers under 45 lines\n", sum,
		sum_bytes, sum_bytes / (sum + !sum), functions, headers)
	exit bad
}' || status=$?
case $mode in
--update | --write)
	{
		echo "# What each folder may have, in lines and bytes: scripts/check-size.sh."
		sort "$work/new" | sed 's/ *$//'
	} >scripts/size.budget
	;;
esac
exit $status
