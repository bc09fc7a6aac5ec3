#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure channel: scripts of channel commands, what they print, and how they fail.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	cat >two.txt <<-END
		# a bootstrap channel, and a channel each of two owners
		owner alice
		owner bob
		create 0 directory 0
		create 1 directory 16 owner alice
		create 2 directory 17 owner bob
		pde 1 0 18
		pde 2 0 19
	END
}

# script LINE...: the scene above and then these lines, in a file.
script() {
	{
		cat two.txt
		printf '%s\n' "$@"
	} >script.txt
}

@test "channel: pages of one owner are refused to the other" {
	script 'pte 1 0 0 32 33' 'expect done' 'pte 2 0 0 32' 'expect foreign' 'pte 2 0 0 34' 'expect done' check
	run -0 --separate-stderr sgpu-measure channel script.txt
	[[ $output == *'pte 1: done'* ]]
	[[ $output == *'2 pages mapped, 2 of them protected'* ]]
	[[ $output == *'pte 2: refused (foreign): '* ]]
	[[ $output == *'check: tables, pages and mappings agree'* ]]
}

@test "channel: only the owner's word unmaps" {
	script 'pte 1 0 0 32' 'pte 1 0 0 none' 'expect locked' 'pte 1 0 0 none mac 2' 'expect mac' \
		'pte 1 0 0 none mac' 'expect done' 'measure 1 0 64' 'expect not-mapped'
	run -0 sgpu-measure channel script.txt
}

@test "channel: pages that come from another owner are zero" {
	script 'pte 1 0 0 32' 'destroy 1' 'pte 2 0 0 32' 'measure 2 0 4096'
	run -0 sgpu-measure channel script.txt
	digest=$(sed -n 's/^ *digest *//p' <<<"$output")
	run -0 sgpu-measure memory <(head -c 4096 /dev/zero)
	[[ $output == *"$digest"* ]]
}

@test "channel: groups that were altered, cut, dropped or sent again are refused" {
	script 'submit 1' 'expect done' 'submit 1 altered' 'expect seal'
	run -0 sgpu-measure channel script.txt
	script 'submit 1 cut' 'expect malformed'
	run -0 sgpu-measure channel script.txt
	script 'submit 1 early' 'expect counter'
	run -0 sgpu-measure channel script.txt
	script 'submit 1 twice' 'expect counter'
	run -0 sgpu-measure channel script.txt
}

@test "channel: a keyed digest differs from the plain one, and from another owner's" {
	script 'pte 1 0 0 32' 'pte 2 0 0 33' 'measure 1 0 4096' 'measure 1 0 4096 keyed' 'measure 2 0 4096 keyed'
	run -0 sgpu-measure channel script.txt
	[ "$(grep -c '^ *digest' <<<"$output")" -eq 3 ]
	[ "$(grep '^ *digest' <<<"$output" | sort -u | wc -l)" -eq 3 ]
}

@test "channel: the host's window ends where protected memory begins" {
	script 'host 0 4096' 'host 65536 1' 'host 65535 2'
	run -0 sgpu-measure channel script.txt
	[ "$(grep -c 'host: read' <<<"$output")" -eq 1 ]
	[ "$(grep -c 'host: refused' <<<"$output")" -eq 2 ]
}

@test "channel: --json gives an object a line" {
	requires jq
	script 'pte 1 0 0 32' 'pte 2 0 0 32' 'frame 32'
	run -0 sgpu-measure channel --json script.txt
	[ "$(jq -s 'map(select(.command == "pte"))[0].result.protected_pages' <<<"$output")" -eq 1 ]
	[ "$(jq -rs 'map(select(.command == "pte"))[1].refused' <<<"$output")" = foreign ]
	[ "$(jq -rs 'last.state' <<<"$output")" = mapped ]
}

@test "channel: what came out otherwise than expected ends with 1" {
	script 'pte 1 0 0 32' 'expect foreign'
	run -1 --separate-stderr sgpu-measure channel script.txt
	[[ $output == *"not as expected: it is 'done', not 'foreign'"* ]]
	[[ $stderr == *'1 of the commands came out otherwise than expected'* ]]
}

@test "channel: faults of a script are told with their line" {
	script 'jump 1'
	run -1 --separate-stderr sgpu-measure channel script.txt
	[[ $stderr == *"script.txt:9: 'jump' is no command"* ]]
	script 'pte 1 0 0 32 frog'
	run -1 --separate-stderr sgpu-measure channel script.txt
	[[ $stderr == *"'frog' is too much"* ]]
	script 'create 3 directory 40 owner carol'
	run -1 --separate-stderr sgpu-measure channel script.txt
	[[ $stderr == *"there is no owner 'carol'"* ]]
	script 'measure 1 99999999999999999999 1'
	run -1 --separate-stderr sgpu-measure channel script.txt
	head -c 9000 /dev/zero | tr '\0' x >script.txt
	run -1 --separate-stderr sgpu-measure channel script.txt
	[[ $stderr == *'a line of more than'* ]]
	printf 'check\ncreate\0 0 directory 0\n' >script.txt
	run -1 --separate-stderr sgpu-measure channel script.txt
	[[ $stderr == *'script.txt:2: a zero byte'* ]]
	printf 'owner \377\n' >script.txt
	run -1 --separate-stderr sgpu-measure channel --json script.txt
	[[ $stderr == *'script.txt:1: an owner needs a name'* ]]
}

@test "channel: numbers of any size are refused or read, never cut" {
	script "host $((1 << 62)) 65536" 'pte 1 4294967295 4294967295 20' 'expect range' \
		'measure 1 18446744073709551615 18446744073709551615' 'expect range' \
		'create 4294967295 directory 4294967294' 'expect range' 'pte 1 0 4095 32 33' 'expect range' check
	run -0 --separate-stderr sgpu-measure channel script.txt
	for line in 'create 4294967296 directory 40' 'create 3 directory 4294967295' 'pde 1 4294967296 20' \
		'measure 1 0 18446744073709551616' 'frame 1024' 'host 0 65537'; do
		script "$line"
		run -1 --separate-stderr sgpu-measure channel script.txt
		[[ $stderr == *"script.txt:9: '"*"' is no "* ]]
	done
}

@test "channel: a script may be long, and end without a line's end" {
	{
		cat two.txt
		yes 'pte 1 0 0 32' | head -20000
		printf 'expect done'
	} >script.txt
	run -0 --separate-stderr sgpu-measure channel script.txt
	[[ $output == *'20008: pte 1: done'* ]]
	[ -z "$stderr" ]
}

@test "channel: usage, missing files and full outputs" {
	run -2 sgpu-measure channel one two
	run -2 sgpu-measure channel --frames many two.txt
	run -3 sgpu-measure channel no-such-file
	run -3 sgpu-measure channel --frames 16777216 --device cpu two.txt
	[ ! -c /dev/full ] || run -3 bash -c 'sgpu-measure channel two.txt >/dev/full'
}

@test "a key that is given for a script is not shown" {
	sgpu-seal keygen -o owner.jwk
	head -c 30 /dev/urandom | base64 >secret
	printf 'create %s\nowner a\nowner %s\n' "$(cat secret)" "$(cat secret)" >words
	for file in owner.jwk secret words; do
		for option in -q --json; do
			run -1 sgpu-measure channel "$option" "$file"
			run ! grep -qF -e "$(cut -c 20-40 "$file" | head -n 1)" -e "$(cut -c 10-30 secret)" <<<"$output"
		done
	done
	printf 'craete 1\n' >typo
	run -1 sgpu-measure channel typo
	assert_contains "$output" "'craete' is no command"
}
