#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Documents and code say the same: see scripts/check-docs.sh.

load helpers

check() {
	"$SGPU_TOP/scripts/check-docs.sh" "$1"
}

@test "every option of every verb is in its tool's page, and every flag in the page is an option" {
	check options
}

@test "every verb is in its tool's page and shows its usage" {
	check verbs
}

@test "every page has the one table of exit statuses" {
	check exits
}

@test "mandoc finds nothing to say about the pages" {
	requires mandoc
	check lint
}

@test "the pages have their sections in order and refer to pages that exist" {
	check pages
}

@test "the pages keep to 80 columns, and their brackets and quotation marks match" {
	requires mandoc
	check width
	mkdir -p tree/scripts tree/man
	cp "$SGPU_TOP/scripts/check-docs.sh" tree/scripts/
	{
		printf '.Dd January 1, 2026\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Nd y\n.Sh DESCRIPTION\n'
		printf '.Pq Dq none , Dq not checked\n.Pp\n.Op Fl x Op Fl y\nopen [\n'
		printf '.Bd -literal\n%s\n.Ed\n.Sh EXAMPLES\n.Bd -literal\na | b\n.Ed\n' "$(printf 'x%.0s' $(seq 90))"
	} >tree/man/x.1
	run -1 tree/scripts/check-docs.sh width
	assert_contains "$output" "marks do not match:"
	assert_contains "$output" "not checked"
	assert_contains "$output" "open ["
	assert_contains "$output" "columns: "
	assert_contains "$output" "pipefail"
}

@test "the library exports only sgpu_ names, and all that the headers promise" {
	check symbols
}

@test "every public header compiles alone, as C and as C++" {
	requires cc c++
	check headers
}

@test "the session in the README runs word for word" {
	check session
}

@test "so do the lines of the README in which a runner proves itself" {
	requires no-sanitizer # whose leak checker attaches to the runner, which the policy does not accept
	check attested
}

@test "links lead somewhere" {
	check links
}

@test "the change log and the version agree" {
	check version
	# It can fail, in each way.
	mkdir -p tree/scripts tree/include/sgpu
	cp "$SGPU_TOP/scripts/check-docs.sh" tree/scripts/
	for pair in "0.1.0:Unreleased" "0.1.0-dev:Unreleased" "0.0.9-dev:Unreleased" "0.2.0:0.1.0" "0.1.0-dev:0.1.0"; do
		printf '#define SGPU_VERSION "%s"\n' "${pair%:*}" >tree/include/sgpu/version.h
		printf '# Changes\n\n## %s\n\n## 0.1.0\n' "${pair#*:}" >tree/CHANGELOG.md
		run -1 tree/scripts/check-docs.sh version
		assert_contains "$output" "version.h"
	done
	printf '#define SGPU_VERSION "0.1.0"\n' >tree/include/sgpu/version.h
	run -0 tree/scripts/check-docs.sh version
}

@test "shellcheck finds nothing to say about the scripts" {
	requires shellcheck
	check shell
}

@test "no file holds a word or a path that does not belong in it" {
	check words
}

@test "files, functions and lines keep to the limits of the style" {
	check style
}

@test "an option without a description is found" {
	mkdir -p tree/scripts tree/man tree/tools/sgpu-x build/bin
	cp "$SGPU_TOP/scripts/check-docs.sh" tree/scripts/
	touch tree/tools/sgpu-x/main.c
	printf '#!/bin/sh\nprintf "do\\t\\t\\t\\tdoes\\ndo\\toutput\\to\\tFILE\\tthe file\\n"\n' >build/bin/sgpu-x
	chmod +x build/bin/sgpu-x
	printf '.Fl h Fl V Fl -help\n.It Fl -version , Fl o Ar FILE\n.Fl -gone\n' >tree/man/sgpu-x.1
	SGPU_BUILD=$PWD/build run -1 tree/scripts/check-docs.sh options
	assert_contains "$output" "not described: --output"
	assert_contains "$output" "has no --gone"
	[ "${#lines[@]}" -eq 2 ]
}
