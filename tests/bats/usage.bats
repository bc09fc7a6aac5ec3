#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats sets stderr
#
# What all tools say of themselves: help, version, and what was meant by a word that they do not know.

load helpers

tools() {
	local main
	for main in "$SGPU_TOP"/tools/sgpu{,-*}/main.c; do
		basename "$(dirname "$main")"
	done
}

# of_help FUNCTION: called with the help of each tool and verb on standard input, and what printed it as argument.
of_help() {
	local tool verb
	for tool in $(tools); do
		"$tool" --help | "$1" "$tool"
		for verb in $("$tool" --list-options | awk -F '\t' '$2 == "" && $1 != "" { print $1 }'); do
			"$tool" "$verb" --help | "$1" "$tool $verb"
		done
	done
}

within_80() {
	awk -v of="$1" 'length($0) > 80 { print of " --help: " length($0) " columns: " $0; bad = 1 } END { exit bad }' >&2
}

balanced() {
	awk -v of="$1" '{
		depth = 0
		for (i = 1; i <= length($0); i++) {
			c = substr($0, i, 1)
			depth += (c == "[" || c == "(") - (c == "]" || c == ")")
			if (depth < 0) break
		}
		if (depth) { print of " --help: brackets do not match: " $0; bad = 1 }
	} END { exit bad }' >&2
}

@test "every help text keeps to 80 columns" {
	of_help within_80
	# What checks that can fail.
	run ! within_80 it <<<"$(printf 'x%.0s' $(seq 81))"
}

@test "the brackets of every usage line match" {
	usage_balanced() { grep '^Usage:' | balanced "$1"; }
	of_help usage_balanced
	run ! balanced it <<<'Usage: x [y [OPTION]... [FILE]'
}

@test "a wrong verb says which one was meant" {
	run --separate-stderr -2 sgpu-seal opne
	assert_contains "$stderr" "unknown verb 'opne'"
	assert_contains "$stderr" "did you mean 'open'?"
	run --separate-stderr -2 sgpu-manifest zzzzz
	assert_contains "$stderr" "try 'sgpu-manifest --help'"
	run --separate-stderr -2 sgpu hots
	assert_contains "$stderr" "unknown verb 'hots'"
	assert_contains "$stderr" "did you mean 'host'?"
	# A tool with verbs and a mode without one that takes no arguments.
	run --separate-stderr -2 sgpu-serve stauts
	assert_contains "$stderr" "did you mean 'status'?"
	run --separate-stderr -3 sgpu-run ./inof
	assert_contains "$stderr" "cannot open './inof'"
}

@test "a wrong option says which one was meant" {
	run --separate-stderr -2 sgpu-seal open --ouptut x
	assert_contains "$stderr" "unknown option '--ouptut'"
	assert_contains "$stderr" "did you mean '--output'?"
	run --separate-stderr -2 sgpu-manifest init --tehn copy
	assert_contains "$stderr" "did you mean '--then'?"
	run --separate-stderr -2 sgpu-seal open --quiet=3
	assert_contains "$stderr" "option '--quiet' takes no argument"
	run --separate-stderr -2 sgpu-seal open --xyzxyz
	assert_contains "$stderr" "try 'sgpu-seal open --help'"
}

@test "--version tells the version, the commit and what is built in" {
	local version commit tool
	version=$(sed -n 's/.*define SGPU_VERSION "\(.*\)"/\1/p' "$SGPU_TOP/include/sgpu/version.h")
	commit=$(sed -n 's/^SGPU_COMMIT=//p' "$SGPU_BUILD/settings")
	[ -n "$commit" ]
	for tool in $(tools); do
		run -0 "$tool" --version
		[ "${lines[0]}" = "$tool (sgpu) $version, commit $commit" ]
		case $tool in
		sgpu-run | sgpu-serve) [[ $output != *OpenSSL* ]] ;; # they hold no key, and link no cryptography
		*) assert_contains "$output" "OpenSSL " ;;
		esac
	done
	# Every feature is in one of the two lines, and NUMA in that of what was set.
	for feature in IPSEC_MB BLAS NUMA CLONES CUDA; do
		[ "$(grep -c "^Built with.*\b$feature\b" <<<"$output")" -eq 1 ]
	done
	case $(sed -n 's/^NUMA=//p' "$SGPU_BUILD/settings") in
	1) grep -q '^Built with:.* NUMA\b' <<<"$output" ;;
	*) grep -q '^Built without:.*\bNUMA\b' <<<"$output" ;;
	esac
}

@test "the commit comes from git, or from what git packed, or is unknown" {
	requires git
	mkdir -p tree/scripts
	cp "$SGPU_TOP/scripts/commit.sh" tree/scripts/
	cp "$SGPU_TOP/.gitattributes" tree/
	run -0 tree/scripts/commit.sh
	[ "$output" = unknown ]
	git() { command git -C tree -c user.name=a -c user.email=a@example.org -c commit.gpgsign=false "$@"; }
	git init -q .
	git add .
	git commit -qm one
	run -0 tree/scripts/commit.sh
	[ "$output" = "$(git rev-parse --short=12 HEAD)" ]
	echo "# changed" >>tree/scripts/commit.sh
	run -0 tree/scripts/commit.sh
	[ "$output" = "$(git rev-parse --short=12 HEAD)-dirty" ]
	mkdir packed
	git archive HEAD | tar xf - -C packed
	run -0 packed/scripts/commit.sh
	[ "$output" = "$(git rev-parse --short=12 HEAD)" ]
}

@test "the table of operations aligns, whatever the names" {
	sgpu-manifest ops >table
	# The last heading stands where the last column of each row begins, behind two blanks.
	awk 'NR == 1 { at = index($0, "help") }
		substr($0, at - 2, 2) != "  " || substr($0, at, 1) == " " { print; bad = 1 }
		END { exit bad || at < 20 || NR < 10 }' table
}

@test "the README says how the programs get into the path, before its session, and names pipefail" {
	local session path pipefail
	line() { grep -n -m 1 -- "$1" "$SGPU_TOP/README.md" | cut -d: -f1; }
	session=$(line '<!-- session -->')
	# shellcheck disable=SC2016 # as it stands there
	path=$(line 'export PATH="$PWD/build/bin:$PATH"')
	pipefail=$(line 'set -o pipefail')
	[ "$path" -lt "$session" ]
	[ "$pipefail" -lt "$session" ]
	# The line does what it says.
	cd "$SGPU_TOP"
	[ "$(basename "$SGPU_BUILD")" != build ] || (
		PATH=/usr/bin:/bin
		eval "$(sed -n "${path}p" README.md)"
		command -v sgpu-seal
	)
}
