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

@test "the library exports only sgpu_ names" {
	check symbols
}

@test "headers, their pages and the library have the same functions" {
	check functions
}

@test "a function that a header or the library lacks is found" {
	requires cc
	mkdir -p tree/{scripts,include/sgpu,lib/x,build}
	cp "$SGPU_TOP"/scripts/{check-docs,man3}.sh tree/scripts/
	cat >tree/include/sgpu/x.h <<-'END'
	/* A comment with sgpu_none(), and a "quotation". */
	int sgpu_one(const char *text, void (*body)(int a, int b)); /* one; two */
	static inline int sgpu_two(void)
	{
		return sgpu_one("", 0);
	}
	typedef int (*sgpu_type)(int a);
	END
	printf 'int sgpu_one(int a) { return a; }\nint sgpu_three(void) { return 3; }\n' >library.c
	echo 'int sgpu_three(void);' >tree/lib/x/private.h
	# planted [TEXT]: with these files, the check says TEXT and nothing else; or nothing at all.
	planted() {
		cc -c -o library.o library.c
		rm -f tree/build/libsgpu.a
		ar rc tree/build/libsgpu.a library.o
		if [ $# -eq 0 ]; then
			SGPU_BUILD=build run -0 tree/scripts/check-docs.sh functions
		else
			SGPU_BUILD=build run -1 tree/scripts/check-docs.sh functions
			assert_contains "$output" "$1"
		fi
		[ "${#lines[@]}" -eq $# ]
	}
	planted
	: >tree/lib/x/private.h
	planted "exported, but in no header (static?): sgpu_three"
	printf 'int sgpu_three(void);\nint sgpu_four(int a);\n' >tree/lib/x/private.h
	sed -i s/sgpu_one/sgpu_four/ library.c
	planted "declared in a public header, but not in libsgpu.a: sgpu_one"
}

@test "the page of a header has its prototypes, constants and comments" {
	mkdir -p tree/{scripts,include/sgpu}
	cp "$SGPU_TOP/scripts/man3.sh" tree/scripts/
	cat >tree/include/sgpu/x.h <<-'END'
	/* SPDX-License-Identifier: Apache-2.0
	 *
	 * The example, which is short. */
	#ifndef SGPU_X_H
	#define SGPU_X_H
	#define SGPU_X_MAX 7 /* seven */
	/* ---- the first part ---- */
	struct sgpu_x {
		int a; /* bytes */
	};
	/* Frees it. NULL is
	 * accepted. */
	SGPU_MUST_CHECK int sgpu_one(const char *text,
				     void (*body)(int a, int b));
	static inline int sgpu_two(void)
	{
		return sgpu_one("\n", 0);
	}
	#endif
	END
	tree/scripts/man3.sh x >x.3
	mandoc -T lint <x.3 >lint.txt || :
	run -1 grep -v 'referenced manual not found' lint.txt
	for line in '.Nd example' '.Fn sgpu_one "const char *text" "void (*body)(int a, int b)"' '.Fn sgpu_two "void"' \
		'#define SGPU_X_MAX 7 /* seven */' '.Ss The first part' 'Frees it.' 'NULL is accepted.' 'int a; /* bytes */'; do
		grep -Fqx -- "$line" x.3
	done
	run -1 grep -E 'return sgpu|X_H' x.3
	[ "$(grep -c '^\.Fn sgpu_one' x.3)" -eq 2 ]
	[ "$(tree/scripts/man3.sh --functions x)" = "$(printf 'sgpu_one\nsgpu_two')" ]
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

@test "the first lines of the README and those of the tutorial print what stands there" {
	requires brain-mri script no-sanitizer
	check door
	check tutorial
}

@test "the lines of the tutorial in Python do, too" {
	requires numpy
	check python
}

@test "the program in sgpu-pipe(5) runs as it stands there" {
	requires python3
	sed -n '/^from json/,/^\.Ed/{/^\.Ed/!p}' "$SGPU_TOP/man/sgpu-pipe.5" >job.py
	run -0 --separate-stderr python3 job.py
	[ "$output" = "(10.0,)" ]
}

@test "what the threat model, SECURITY.md and not-executed.md promise, tests hold" {
	check promises
}

@test "what tests and records lacked of hardware is in docs/not-executed.md" {
	check executed
	mkdir -p tree/{scripts,docs/benchmarks,tests/unit}
	cp "$SGPU_TOP/scripts/check-docs.sh" tree/scripts/
	cp "$SGPU_TOP/docs/not-executed.md" tree/docs/
	printf 'SKIP("%s");\n' "not in an enclave" "this CPU has no flux" "not root" >tree/tests/unit/test_a.c
	echo '{"status":"waived","reason":"no moon is up: new moon"}' >tree/docs/benchmarks/h200-a.json
	run -1 tree/scripts/check-docs.sh executed
	[ "$output" = "docs/not-executed.md: nothing about 'no moon is up'
docs/not-executed.md: nothing about 'this CPU has no flux'" ]
}

@test "a promise without a test, or with one that is not there, is found" {
	mkdir -p tree/{scripts,docs,tests/bats,tests/unit}
	cp "$SGPU_TOP/scripts/check-docs.sh" tree/scripts/
	printf '@test "it holds; so there" {\n@test "another" {\n' >tree/tests/bats/a.bats
	printf 'UNIT_TEST(it_holds)\n' >tree/tests/unit/test_a.c
	printf '# S\n\n## What protects\n\nThis. [^a]\n\n[^a]: tests/bats/a.bats "another"\n' >tree/SECURITY.md
	cat >whole.md <<-'END'
	# Threat model

	An introduction.

	## Who is trusted for what

	Nothing is promised here.

	## What is protected

	These hold:

	- **One.** It goes over
	  two lines. [^one]
	- A limit. [^limit]

	| what | how |
	|---|---|
	| a row | held [^two] |

	    an example

	A paragraph. [^one]

	[^limit]: No promise.
	[^one]: tests/bats/a.bats "it holds; so there"
	[^two]: tests/bats/a.bats "another";
	    tests/unit/test_a.c "it_holds"
	END
	cp whole.md tree/docs/threat-model.md
	cp tree/SECURITY.md tree/docs/not-executed.md
	run -0 tree/scripts/check-docs.sh promises
	# planted EXPRESSION TEXT: this change is found, and told so.
	planted() {
		sed "$1" whole.md >tree/docs/threat-model.md
		run ! cmp -s whole.md tree/docs/threat-model.md
		run -1 tree/scripts/check-docs.sh promises
		assert_contains "$output" "$2"
		[ "${#lines[@]}" -eq "${3:-1}" ]
	}
	planted 's/two lines. .*/two lines./' ":13: neither a test nor [^limit]: - **One.**"
	planted 's/A limit. .*/A limit./' ":15: neither a test nor [^limit]: - A limit." 2 # and [^limit] is used nowhere
	planted 's/held .*/held |/' ":19: neither a test nor [^limit]: | a row" 2
	planted 's/A paragraph. .*/A paragraph./' ":23: neither a test nor [^limit]: A paragraph."
	planted 's/held .*/held [^three] |/' "named, but not defined: three" 2
	planted 's/^\[^one\]/[^four]/' "defined, but promised nowhere: four" 2
	planted 's/^\[^two\]/[^one]/' "defined twice: one" 2
	planted 's/so there"/so where"/' "'tests/bats/a.bats' has no @test \"it holds; so where\" {"
	planted 's/"another"/"anothe"/' "'tests/bats/a.bats' has no @test \"anothe\" {"
	planted 's/"it_holds"/"it_hold"/' "'tests/unit/test_a.c' has no UNIT_TEST(it_hold)"
	planted 's|unit/test_a.c|unit/test_b.c|' "'tests/unit/test_b.c' has no"
	planted 's|tests/unit/test_a.c|test_a.c|' "no file and name of a test: test_a.c"
	planted 's/tests.*so there"/the tests of hostile batches/' "no file and name of a test" 2
	planted 's/^\[^one\].*/[^one]:/' "no file and name of a test"
	# SECURITY.md is read, too.
	cp whole.md tree/docs/threat-model.md
	sed -i 's/"another"/"none"/' tree/SECURITY.md
	run -1 tree/scripts/check-docs.sh promises
	assert_contains "$output" "SECURITY.md"
}

@test "no string of a document or of another process is printed as it came" {
	check foreign
	mkdir -p tree/{scripts,tools/x}
	cp "$SGPU_TOP/scripts/check-docs.sh" tree/scripts/
	cat >tree/tools/x/x.c <<-'END'
	static const char *text_of(const json_t *object)
	{
	    const char *text = json_string_value(object);

	    return text ? text : "";
	}

	static void one(const json_t *object)
	{
	    printf("%s, version %s\n", "x",
	           json_string_value(object));
	}

	static void two(const json_t *object)
	{
	    const char *a = "a", *b = json_string_value(object), *c = b;

	    fputs(c, stdout);
	    json_dumpf(object, stdout, JSON_COMPACT);
	}

	static void three(const json_t *object)
	{
	    char line[80];

	    snprintf(line, sizeof(line), "%s", text_of(object));
	    puts(line);
	}

	static void four(const json_t *object)
	{
	    json_object_foreach(object, key, value) {
	        fprintf(stderr, "%s", key);
	    }
	}

	static void good(const json_t *object)
	{
	    const char *a = "a", *b = json_string_value(object);
	    size_t c = strlen(b);

	    printf("%s, %zu\n", a, c);
	    cli_print_line(stdout, "%s %s", b, text_of(object)); /* printf(b) */
	    cli_error("printf %s", b);
	    json_dumpf(object, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	}
	END
	run -1 tree/scripts/check-docs.sh foreign
	[ "${#lines[@]}" -eq 5 ]
	local name
	for name in json_string_value c line key; do
		assert_contains "$output" "printed as it came: $name"
	done
	assert_contains "$output" "JSON that is not in ASCII"
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
