#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# examples/channel: scripts of channel commands, what they print, and how they fail.
# shellcheck disable=SC2154 # bats sets stderr

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	cat >two.txt <<-END
		# a channel each of two owners
		owner alice
		owner bob
		create 1 directory 16 owner alice
		create 2 directory 17 owner bob
		pde 1 0 18
		pde 2 0 19
	END
}

# script STATUS LINE...: the scene above and then these lines.
script() {
	local status=$1
	shift
	{
		cat two.txt
		printf '%s\n' "$@"
	} >script.txt
	run "-$status" --separate-stderr "$SGPU_BUILD/examples/channel" <script.txt
}

@test "channel: pages of one owner are refused to the other" {
	script 0 'pte 1 0 0 32 33' 'expect done' 'pte 2 0 0 32' 'expect foreign' 'pte 2 0 0 34' 'expect done'
	assert_contains "$output" 'pte 1: done'
	assert_contains "$output" '2 pages mapped'
	assert_contains "$output" 'pte 2: refused (foreign): '
}

@test "channel: only the owner's word unmaps" {
	script 0 'pte 1 0 0 32' 'pte 1 0 0 none' 'expect locked' 'pte 1 0 0 none mac 2' 'expect mac' \
		'pte 1 0 0 none mac' 'expect done' 'measure 1 0 64' 'expect not-mapped'
}

@test "channel: pages that come from another owner are zero" {
	script 0 'pte 1 0 0 32' 'destroy 1' 'pte 2 0 0 32' 'measure 2 0 4096'
	digest=$(sed -n 's/^ *digest *//p' <<<"$output")
	run -0 sgpu-measure memory <(head -c 4096 /dev/zero)
	assert_contains "$output" "$digest"
}

@test "channel: groups that were altered, cut, dropped or sent again are refused" {
	script 0 'submit 1' 'expect done' 'submit 1 altered' 'expect seal'
	script 0 'submit 1 cut' 'expect malformed'
	script 0 'submit 1 early' 'expect counter'
	script 0 'submit 1 twice' 'expect counter'
}

@test "channel: a keyed digest differs from the plain one, and from another owner's" {
	script 0 'pte 1 0 0 32' 'pte 2 0 0 33' 'measure 1 0 4096' 'measure 1 0 4096 keyed' 'measure 2 0 4096 keyed'
	[ "$(grep -c '^ *digest' <<<"$output")" -eq 3 ]
	[ "$(grep '^ *digest' <<<"$output" | sort -u | wc -l)" -eq 3 ]
}

@test "channel: what came out otherwise than expected ends with 1" {
	script 1 'pte 1 0 0 32' 'expect foreign'
	assert_contains "$output" "not as expected: it is 'done', not 'foreign'"
}

@test "channel: faults of a script are told with their line" {
	for line in 'jump 1' 'pte 1 0 0 32 frog' 'create 3 directory 40 owner carol' 'owner alice' 'expect nothing' \
		'measure 1 99999999999999999999 1' 'create 4294967296 directory 40' 'create 3 directory 4294967295' \
		'measure 1 0 18446744073709551616' 'pde 1 4294967296 20'; do
		script 1 "$line"
		assert_contains "$stderr" 'channel: line 8, word '
	done
}

@test "channel: numbers of any size are refused or read, never cut" {
	script 0 'pte 1 4294967295 4294967295 20' 'expect range' \
		'measure 1 18446744073709551615 18446744073709551615' 'expect range' \
		'create 4294967295 directory 4294967294 owner bob' 'expect range' 'pte 1 0 4095 32 33' 'expect range'
}

@test "channel: a key that is given for a script is not shown" {
	sgpu-seal keygen -o owner.jwk
	head -c 30 /dev/urandom | base64 >secret
	for file in owner.jwk secret; do
		run -1 "$SGPU_BUILD/examples/channel" <"$file"
		run ! grep -qF -e "$(cut -c 20-40 "$file" | head -n 1)" <<<"$output"
	done
}
