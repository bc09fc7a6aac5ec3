#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The runner must turn red when a test is bad: if it did not, every other test would be worth nothing.

load helpers

# suite: runs the runner over the files in the current folder alone.
suite() {
	SGPU_TEST_DIRS=$PWD "$SGPU_TOP/scripts/run-tests.sh" "$@"
}

@test "a good suite is green, and its last line counts" {
	printf '@test "one" { true; }\n@test "two" { true; }\n' >good.bats
	run -0 --separate-stderr suite
	[ "${lines[-1]}" = "2 passed, 0 failed" ]
}

@test "a test that fails turns the suite red" {
	printf '@test "one" { true; }\n@test "two" { false; }\n' >bad.bats
	run -1 suite
	[ "${lines[-1]}" = "1 passed, 1 failed" ]
	assert_contains "$output" "not ok 2 - bad: two"
}

@test "a skipped test counts as skipped, with its reason" {
	printf '@test "one" { true; }\n@test "two" { skip "needs a moon"; }\n' >some.bats
	run -0 suite
	[ "${lines[-1]}" = "1 passed, 0 failed, 1 skipped" ]
	assert_contains "$output" "1 needs a moon"
}

@test "a bats file that does not parse turns the suite red" {
	printf '@test "one" { true; }\n@test "two" { if; }\n' >broken.bats
	run -1 suite
}

@test "a unit program that was not built turns the suite red" {
	touch test_nowhere.c
	run -1 suite
	assert_contains "$output" "was not built"
}

@test "a unit program that crashes, stops early or lies about its status turns the suite red" {
	mkdir -p built/unit
	touch test_x.c
	for body in 'echo "ok 1 - a"; kill -SEGV $$' 'echo "ok 1 - a"' 'echo "ok 1 - a"; echo "1..2"' \
		'echo "ok 1 - a"; echo "1..1"; exit 99' 'echo "not ok 1 - a"; echo "1..1"'; do
		printf '#!/bin/sh\n%s\n' "$body" >built/unit/test_x
		chmod +x built/unit/test_x
		SGPU_BUILD=$PWD/built run -1 suite
	done
	printf '#!/bin/sh\necho "ok 1 - a"; echo "1..1"\n' >built/unit/test_x
	SGPU_BUILD=$PWD/built run -0 suite
}

@test "a unit program that plans nothing and says why counts as one skipped test" {
	mkdir -p built/unit
	touch test_x.c
	printf '#!/bin/sh\necho "1..0 # SKIP needs a moon"; exit 77\n' >built/unit/test_x
	chmod +x built/unit/test_x
	SGPU_BUILD=$PWD/built run -0 suite
	[ "${lines[-1]}" = "0 passed, 0 failed, 1 skipped" ]
	assert_contains "$output" "1 needs a moon"
}

@test "a name that no test has is an error, not an empty success" {
	printf '@test "one" { true; }\n' >good.bats
	run -2 suite no-such-test
	run -2 suite good no-such-test
	assert_contains "$output" "no such test: no-such-test"
}

@test "a file that takes too long turns the suite red, and what it started is ended" {
	# shellcheck disable=SC2016 # the inner shell expands it
	printf '@test "hangs" { bash -c '\''trap "" TERM; echo $$ >pid; sleep 60; sleep 60'\''; }\n' >slow.bats
	sed -i "s|>pid|>$PWD/pid|" slow.bats
	local seconds
	# A slow machine may not have come to the test in the first of these times.
	for seconds in 3 30 120; do
		SGPU_TEST_TIMEOUT=$seconds run -1 suite
		assert_contains "$output" "slow: took too long"
		[ ! -s pid ] || break
	done
	[[ $(ps -o stat= -p "$(cat pid)") != [!Z]* ]]
}

# fake PATH LINE...: a program that does no more than these lines.
fake() {
	printf '#!/bin/sh\n' >"$1"
	printf '%s\n' "${@:2}" >>"$1"
	chmod +x "$1"
}

@test "check-gpu leaves the record of a whole run, and none of a part of it" {
	mkdir -p tree/{scripts,tests/gpu} build/bin path
	cp "$SGPU_TOP"/scripts/{check-gpu,run-tests}.sh tree/scripts/
	printf '@test "one" { true; }\n@test "two" { skip "needs a moon"; }\n@test "three" { false; }\n' >tree/tests/gpu/some.bats
	# shellcheck disable=SC2016 # the programs expand it
	fake path/nvidia-smi 'case $1 in -L) echo "GPU 0: Moon" ;; *memory*) echo 1 ;; *) echo "Moon, 1.2" ;; esac'
	fake path/nvcc 'echo "release 13.0, V13.0.1"'
	# shellcheck disable=SC2016
	fake build/bin/sgpu-run 'case $1 in -V) echo "sgpu-run (sgpu) 1, commit abc" ;; *) echo "  selector  cuda:0" ;; esac'
	# shellcheck disable=SC2030,SC2031 # for this test alone
	export PATH=$PWD/path:$PATH NVCC=$PWD/path/nvcc SGPU_BUILD=$PWD/build
	run -1 tree/scripts/check-gpu.sh bats
	[ ! -e build/check-gpu.md ]
	run -1 tree/scripts/check-gpu.sh
	[ "${lines[-1]}" = "3 passed, 1 failed, 2 skipped" ]
	grep -x -e '- commit: abc' build/check-gpu.md
	grep -x -e '- GPUs, driver: 1 Moon, 1.2' build/check-gpu.md
	grep -x -e '- compiler: CUDA 13.0' build/check-gpu.md
	grep '^| bats | 1 | 1 | 1 | ' build/check-gpu.md
	grep '^| all | 3 | 1 | 2 | ' build/check-gpu.md
	grep -x -e '- 1: needs a moon' build/check-gpu.md
}
