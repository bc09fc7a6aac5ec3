#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The project does not grow by accident: scripts/check-size.sh, scripts/reach.sh, and the table of planted mistakes.

load helpers

# tree: a small project within its budget.
setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	mkdir -p tree/{include/sgpu,lib/x,tools/sgpu-x,python,scripts,examples,man,tests/mutate,build/obj/lib/x}
	cp "$SGPU_TOP"/scripts/{check-size.sh,reach.sh,mutate.py} tree/scripts/
	echo 'int sgpu_one(int a, int b);' >tree/include/sgpu/x.h
	printf 'int sgpu_one(int a, int b)\n{\n\treturn a + b;\n}\n' >tree/lib/x/x.c
	printf '#pragma once\n' >tree/lib/x/x.h
	printf 'int main(void)\n{\n}\n' >tree/tools/sgpu-x/main.c
	echo '[]' >tree/tools/sgpu-x/table.json
	tree/scripts/check-size.sh --write >written
}

# over TEXT: the check says TEXT, and nothing else but the sums.
over() {
	run -1 tree/scripts/check-size.sh
	assert_contains "$output" "$1"
	[ "${#lines[@]}" -eq 2 ]
}

@test "the folders keep to their budgets" {
	run -0 "$SGPU_TOP/scripts/check-size.sh"
}

@test "the planted mistakes fit the sources" {
	run -0 "$SGPU_TOP/scripts/mutate.py" --check
}

@test "what was just written is within the budget, and its sums are right" {
	run -0 tree/scripts/check-size.sh
	[ "$output" = "lib, include and tools: 9 lines, 106 bytes, 11.8 a line; 1 public functions, 1 headers under 45 lines" ]
	grep -qx 'lib/x  *5  *59' tree/scripts/size.budget
	run -2 tree/scripts/check-size.sh --none
}

@test "a folder above its budget is found, in lines and in bytes" {
	sed -i 's/a + b/b + a + 0/' tree/lib/x/x.c
	over "lib/x: 63 bytes; the budget has 59"
	sed -i 's/ + 0/ /; 1s/^/\n/; s/int b/int/' tree/lib/x/x.c
	over "lib/x: 6 lines; the budget has 5"
}

@test "code that moves to other text, to scripts or to examples is found" {
	local file name
	for file in tools/sgpu-x/table.json:other scripts/x.py:scripts examples/x.c:examples tests/x.bash:tests man/x.1:man; do
		name=${file#*:}
		file=tree/${file%:*}
		tree/scripts/check-size.sh --write >written
		echo >>"$file"
		run -1 tree/scripts/check-size.sh
		assert_contains "$output" "$name: "
	done
}

@test "a file of 651 lines is found, and one of 650 is not" {
	yes '/* some words of a comment */' | head -n 646 >>tree/lib/x/x.c
	tree/scripts/check-size.sh --write >written
	run -0 tree/scripts/check-size.sh
	echo >>tree/lib/x/x.c
	run -1 tree/scripts/check-size.sh --write
	over "lib/x/x.c: 651 lines; a file may have 650"
}

@test "a folder without a budget is found, and a budget without a folder" {
	mkdir tree/lib/y
	echo 'int y;' >tree/lib/y/y.c
	over "lib/y: no budget, but 1 lines, 7 bytes"
	mv tree/lib/y/y.c tree/lib/x/
	sed -i 's/^\(lib.x\).*/\1 100 1000/; s/^other.*/&\nlib\/y 1 7/' tree/scripts/size.budget
	over "lib/y: a budget without a folder"
}

@test "lines that are dense are found, in a folder and in all" {
	printf '%s\n' "$(printf '/* %0400d */' 0)" >>tree/lib/x/x.c
	run -1 tree/scripts/check-size.sh --write
	assert_contains "$output" "lib/x: 77.7 bytes a line; it may have 36"
	assert_contains "$output" "lib, include and tools: 51.3 bytes a line; it may have 34"
}

@test "one more public function is found, and one more small header" {
	printf 'int sgpu_two(int a,\n             int b); /* two */\n' >>tree/include/sgpu/x.h
	printf 'static int sgpu_three(void);\ntypedef int (*sgpu_four)(void);\n' >>tree/include/sgpu/x.h
	printf '\n%.0s' {1..44} >tree/tools/sgpu-x/x.h
	printf '\n%.0s' {1..45} >tree/tools/sgpu-x/y.h
	sed -i 's/^\(include\|tools[^ ]*\) .*/\1 100 1000/' tree/scripts/size.budget
	run -1 tree/scripts/check-size.sh
	assert_contains "$output" "public-functions: 2 of them; the budget has 1"
	assert_contains "$output" "private-headers-under-45: 2 of them; the budget has 1"
	[ "${#lines[@]}" -eq 3 ]
}

@test "an update lowers budgets and raises none" {
	sed -i '1d' tree/lib/x/x.c
	echo >>tree/tools/sgpu-x/main.c
	echo 'lib/gone 10 100' >>tree/scripts/size.budget
	run -1 tree/scripts/check-size.sh --update
	grep -qx 'lib/x  *4  *32' tree/scripts/size.budget
	grep -qx 'tools/sgpu-x  *3  *19' tree/scripts/size.budget
	run -1 grep gone tree/scripts/size.budget
}

@test "a function that no program holds is found, and an exception that is not needed" {
	requires cc
	cd tree
	printf 'int sgpu_two(void)\n{\n\treturn 2;\n}\n' >>lib/x/x.c
	printf 'int sgpu_one(int a, int b);\nint main(void)\n{\n\treturn sgpu_one(1, 2);\n}\n' >tools/sgpu-x/main.c
	mkdir lib/bench build/obj/lib/bench
	echo 'int sgpu_bench(void) { return 3; }' >lib/bench/b.c
	local file
	for file in x/x bench/b; do
		cc -O0 -ffunction-sections -c -o "build/obj/lib/$file.o" "lib/$file.c"
	done
	cp build/obj/lib/x/x.o build/obj/lib/x/gone.o
	cc -O0 -Wl,--gc-sections -o build/x tools/sgpu-x/main.c build/obj/lib/x/x.o
	: >scripts/reach.except
	run -1 scripts/reach.sh build build/x
	[ "$output" = "lib/x/x.c: sgpu_two" ]
	echo 'sgpu_two  it is for later' >scripts/reach.except
	run -0 scripts/reach.sh build build/x
	[ "$output" = "" ]
	printf 'sgpu_two\nsgpu_one  a reason\nsgpu_none  a reason\n' >scripts/reach.except
	run -1 scripts/reach.sh build build/x
	assert_contains "$output" "no reason: sgpu_two"
	assert_contains "$output" "reached, or gone: sgpu_one"
	assert_contains "$output" "reached, or gone: sgpu_none"
	[ "${#lines[@]}" -eq 3 ]
}

@test "a planted mistake whose line is gone, or stands twice, is found" {
	cd tree
	printf 'name: a\nfile: lib/x/x.c\ntests: x\n- return a + b;\n+ return a;\n' >tests/mutate/x.txt
	run -0 scripts/mutate.py --check
	sed -i 's/.*return a + b;/&\n&/' lib/x/x.c
	run -1 scripts/mutate.py --check
	[ "$output" = "x.txt:1: 'a' does not apply to lib/x/x.c" ]
	sed -i '/return/d' lib/x/x.c
	run -1 scripts/mutate.py --check
	rm lib/x/x.c
	run -1 scripts/mutate.py --check a
}
