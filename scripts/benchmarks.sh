#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# benchmarks.sh [OPTION]... [CASE...]: measures all cases of sgpu-bench on a device, each in a process of its own, and
# writes their tables into docs/benchmarks.md, between the lines `<!-- NAME-CASE -->` and `<!-- end -->`, with device,
# driver, date, commit and command; a table that has no place there yet gets one at the end. Raw records go beside it.
# At the end `sgpu-bench report` makes a page of all raw records there: benchmarks/benchmarks.html in the folder with the
# build. A case that this commit has measured here is not measured again, so a run that was cut off goes on where it stopped.
#   --device DEVICE   auto (the default), cpu, cuda, cuda:N
#   --name NAME       what the machine is called (default: the device's name, as "h200")
#   --docs FILE       docs/benchmarks.md; raw records go to the folder of that name
#   --seconds N       begin no case after that, and end one that still runs a minute later
#   --quick           fewer sizes and samples: to try it out
#   --again           measure all of them anew
#   SGPU_BUILD        folder with the built programs (build); records are kept in its folder benchmarks
# Says what could not be measured. Exit status: 0 done, 1 something failed, 3 time is up: call it again.
set -uo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
build=${SGPU_BUILD:-build}
PATH=$(cd "$build" && pwd)/bin:$PATH || exit 1
device=auto
name=
docs=docs/benchmarks.md
seconds=0
quick=
again=
cases=()
usage() {
	sed -n '3,/^set /p' "$0" | sed -n 's/^# \{0,1\}//p' >&2
	exit 2
}

while [ $# -gt 0 ]; do
	case $1 in
	--device | --name | --docs | --seconds)
		printf -v "${1#--}" '%s' "${2-}"
		shift
		;;
	--quick) quick=--quick ;;
	--again) again=1 ;;
	-*) usage ;;
	*) cases+=("$1") ;;
	esac
	shift
done
[[ $seconds =~ ^[0-9]+$ ]] || usage
[ ${#cases[@]} -gt 0 ] || mapfile -t cases < <(sgpu-bench list | sed '1d; s/ .*//')
commit=$(sgpu-bench -V | sed -n '1s/.*, commit \([^-]*\).*/\1/p')

# "NVIDIA H200 NVL" is h200; the CPU device is cpu.
if [ -z "$name" ]; then
	name=$(sgpu-run --info | sed -n 's/^  name *NVIDIA //p' | grep -oiE '[a-z]+[0-9]+' | head -n 1)
	{ [ -n "$name" ] && [ "$device" != cpu ]; } || name=cpu
	name=${name,,}
fi
kept=$build/benchmarks
raw=${docs%.md}
mkdir -p "$kept" "$raw" || exit 1

# What a case is measured with: for figures, and yet all of them in less than 20 minutes.
options_of() {
	[ -z "$quick" ] || { echo --quick --time 5ms && return; }
	case $1 in
	app) echo --samples 3 ;;
	sizes) echo --time 1s ;;
	training) echo --time 20s ;;
	bandwidth | secure-copy | aead-gpu | digest | measure | aead-cpu) echo --time 400ms ;;
	*) echo --time 200ms --size 1K:64M ;;
	esac
}

# measure CASE: status 3 when the time does not suffice.
measure() {
	local file=$kept/$name-$1.json options command left=0 status
	read -ra options < <(options_of "$1")
	command="sgpu-bench run $1 --device $device ${options[*]}"
	if [ -z "$again" ] && head -n 1 "$file" 2>/dev/null | grep -F "\"command\":\"$command\"" | grep -qF "\"commit\":\"$commit\""; then
		return 0
	fi
	[ "$seconds" -eq 0 ] || left=$((seconds + 60 - SECONDS))
	[ "$seconds" -eq 0 ] || [ $left -gt 60 ] || return 3
	echo "benchmarks.sh: $command" >&2
	timeout -k 5 "$left" sgpu-bench run "$1" --device "$device" "${options[@]}" --json -q -o "$file.0" </dev/null
	status=$?
	if [ $((status % 5)) -eq 0 ]; then
		sed "1s|,\"command\":\"[^\"]*\"|,\"command\":\"$command\"|" "$file.0" >"$file"
		status=0
	elif [ $status -eq 124 ] && [ "$SECONDS" -gt "$seconds" ] && [ "$begun" -gt 1 ]; then
		status=3
	else
		lacking+=("$1: status $status")
	fi
	rm -f "$file.0"
	return $status
}

# table FILE: where it was measured in one line, and the tables of its case: a line a point, with the variant that the
# others are compared with first.
table() {
	sgpu-bench table "$1" | awk -F ' *[|] *' '
	function flush() { if (row != "") print row " |"; row = "" }
	$2 == "case" { body = 1
		printf "%s%s, %s processors (%s); %s, commit %s%s:\n`%s`\n\n", is["device"],
			is["device_driver"] != "" ? ", " is["device_driver"] : "", is["processors"], is["processor"],
			substr(is["date"], 1, 10), is["commit"], is["tree"] == "modified" ? ", changed" : "", is["command"] }
	!body { is[$2] = $3; next }
	$2 == "case" { for (i = 3; i <= NF; i++) at[$i] = i
		line = "|"; rule = "|"; first = at["variant"]
		for (i = 3; i < first; i++) { line = line " " $i " |"; rule = rule "---|" }
		print line " variant | compared with it |"; print rule "---|---|"; next }
	/^[|] *-/ { next }
	{ key = ""; for (i = 3; i < first; i++) key = key " " $i " |"
		ratio = $at["ratio"]; cell = $first " " $at["result"]
		if ($at["result"] == "waived" || $at["result"] == "failed") cell = $first ": " $at["result"] ", " $at["median"]
		sub(/ x .*/, " x", ratio)
		if (ratio == "" || key != last) { flush(); row = "|" key " " cell " |"; more = ""; last = key }
		else { row = row more " " cell ", " ratio; more = ";" } }
	END { flush() }'
}

# place NAME-CASE COMMAND...: what the command prints, between the lines of that name.
place() {
	grep -qF "<!-- $1 -->" "$docs" || printf '\n## %s\n\n<!-- %s -->\n<!-- end -->\n' "$1" "$1" >>"$docs"
	"${@:2}" | tr -s ' ' >"$kept/table" || return 1
	awk -v mark="<!-- $1 -->" -v table="$kept/table" '
	!inside { print }
	$0 == mark {
		inside = 1
		print ""
		while ((getline line < table) > 0) if (line != "" || last != "") print last = line
		if (last != "") print ""
	}
	inside && $0 == "<!-- end -->" { inside = 0; print }' "$docs" >"$docs.new" && mv "$docs.new" "$docs"
}

# publish CASE: its records beside the docs, and its table. What has no figure, because the machine lacks all that the case
# needs, gets no table, and does not displace figures that another machine of this name gave.
publish() {
	local file=$kept/$name-$1.json figures='"status":"passed"'
	if grep -q "$figures" "$file"; then
		cp "$file" "$raw/$name-$1.json"
		place "$name-$1" table "$file"
	elif ! grep -qs "$figures" "$raw/$name-$1.json"; then
		cp "$file" "$raw/$name-$1.json"
	fi
}

[ -e "$docs" ] || echo "# Measured" >"$docs"
lacking=()
left=()
begun=0
status=0
for case in "${cases[@]}"; do
	begun=$((begun + 1))
	[ $status -ne 3 ] || { left+=("$case") && continue; }
	measure "$case"
	status=$?
	case $status in
	0)
		publish "$case"
		mapfile -t -O ${#lacking[@]} lacking < <(sed -nE \
			's/.*"case":"([^"]*)".*"status":"(waived|failed)".*"reason":"(([^"\\]|\\.)*)".*/\1: \2: \3/p' \
			"$kept/$name-$case.json" | sort | uniq -c | sed 's/^ *//')
		;;
	3) left+=("$case") ;;
	esac
done
graviton=()
for case in channel session secure-copy app training; do
	[ ! -e "$raw/$name-$case.json" ] || graviton+=("$raw/$name-$case.json")
done
if [ ${#graviton[@]} -gt 0 ]; then
	place "$name-graviton" sgpu-bench graviton "${graviton[@]}" || lacking+=("graviton: status 1")
fi
rm -f "$kept/table"
page=$kept/$(basename "$raw").html
sgpu-bench report -q "$raw"/*.json -o "$page" && echo "benchmarks.sh: $page" >&2 || lacking+=("report: status $?")
[ ${#lacking[@]} -eq 0 ] || printf 'could not be measured: %s\n' "${lacking[@]}"
if [ ${#left[@]} -gt 0 ]; then
	echo "time is up; call it again for: ${left[*]}"
	exit 3
fi
! printf '%s\n' "${lacking[@]}" | grep -qE ': (failed:|status [0-9]+$)'
