#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-seal: keys, and single files in the bare sealed format.
# shellcheck disable=SC2002,SC2016,SC2030,SC2031,SC2094,SC2154 # pipes and variables as tests use them

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	sgpu-seal keygen -o key.jwk
}

# bytes N: that many bytes that do not compress and are the same every time.
bytes() {
	head -c "$1" </dev/zero | openssl enc -aes-128-ctr -K 00112233445566778899aabbccddeeff -iv 00 2>/dev/null
}

# ---- keys ----

@test "keygen makes a key file for its owner alone" {
	[ "$(stat -c %a key.jwk)" = 600 ]
	[ "$(wc -l <key.jwk)" -eq 1 ]
	grep -q '"kty":"oct"' key.jwk
	(
		umask 000
		sgpu-seal keygen --x25519 -o open.jwk
	)
	[ "$(stat -c %a open.jwk)" = 600 ]
}

@test "keygen never overwrites a file, nor follows a link to write one" {
	cp key.jwk before
	run --separate-stderr -3 sgpu-seal keygen -o key.jwk
	assert_contains "$stderr" "never overwritten"
	assert_same key.jwk before
	ln -s elsewhere dangling
	run -3 sgpu-seal keygen -o dangling
	assert_no_file elsewhere
}

@test "keygen --json says the kid on standard output when the key goes to a file" {
	run --separate-stderr -0 sgpu-seal keygen --x25519 --json -o pair.jwk
	kid=${output#*\"kid\":\"}
	kid=${kid%%\"*}
	[ "${#kid}" -eq 43 ]
	grep -qF -e "$kid" pair.jwk
	assert_contains "$output" '"file":"pair.jwk"'
}

@test "pubkey gives the public half, from a file, a descriptor or standard input, and no secret" {
	sgpu-seal keygen --x25519 -o pair.jwk
	sgpu-seal pubkey pair.jwk >a
	sgpu-seal pubkey <pair.jwk >b
	sgpu-seal pubkey fd:7 7<pair.jwk >c
	assert_same a b
	assert_same a c
	run ! grep -q '"d"' a
	sgpu-seal pubkey a >again
	assert_same a again
	run --separate-stderr -2 sgpu-seal pubkey pair.jwk -o pair.jwk
}

@test "pubkey of a symmetric key is refused and leaves no file" {
	sgpu-seal keygen --no-sign -o shared.jwk
	run --separate-stderr -1 sgpu-seal pubkey -o half.jwk shared.jwk
	assert_contains "$stderr" "no public half"
	assert_no_file half.jwk
}

@test "keygen makes a key to encrypt and one to sign, and keyinfo says their ids and no secret" {
	run --separate-stderr -0 sgpu-seal keygen -o owner.jwk
	[ -z "$output" ]
	said=$stderr
	run --separate-stderr -0 sgpu-seal keyinfo owner.jwk
	[ "${#lines[@]}" -eq 4 ]
	read -r kind use secret kid <<<"${lines[2]}"
	[ "$kind $use $secret" = "oct enc yes" ]
	assert_contains "$said" "oct key $kid"
	read -r kind use secret kid <<<"${lines[3]}"
	[ "$kind $use $secret" = "Ed25519 sig yes" ]
	assert_contains "$said" "Ed25519 key $kid"
	[ "$(sgpu-seal keyinfo --owner owner.jwk)" = "$kid" ]
	for member in k d; do
		value=$(grep -o "\"$member\":\"[^\"]*" owner.jwk | cut -d'"' -f4)
		[ "${#value}" -eq 43 ]
		run ! grep -qF -- "$value" <<<"$said$(sgpu-seal keyinfo owner.jwk)$(sgpu-seal keyinfo --json owner.jwk)"
	done
	run -2 sgpu-seal keyinfo -o owner.jwk owner.jwk
	(umask 002 && sgpu-seal keyinfo --owner -o owners owner.jwk)
	[ "$(cat owners)" = "$kid" ]
	[ "$(stat -c %a owners)" = 644 ]
	sgpu-seal keygen -q -o quiet.jwk 2>noise
	[ ! -s noise ]
}

@test "the kinds of key files: alone, with a key that signs, shared, and their public halves" {
	kinds() {
		sgpu-seal keyinfo "$1" | awk 'NR > 3 { printf "%s %s;", $1, $3 }'
	}
	sgpu-seal keygen --x25519 -o pair.jwk
	sgpu-seal keygen --x25519 --sign -o both.jwk
	sgpu-seal keygen --no-sign -o shared.jwk
	[ "$(kinds pair.jwk)" = "X25519 yes;" ]
	[ "$(kinds both.jwk)" = "X25519 yes;Ed25519 yes;" ]
	[ "$(kinds shared.jwk)" = "oct yes;" ]
	for key in key both; do
		sgpu-seal pubkey -o $key.pub.jwk $key.jwk
		[ "$(sgpu-seal keyinfo --owner $key.pub.jwk)" = "$(sgpu-seal keyinfo --owner $key.jwk)" ]
		run ! grep -q '"[dk]"' $key.pub.jwk
	done
	[ "$(kinds both.pub.jwk)" = "X25519 no;Ed25519 no;" ]
	[ "$(kinds key.pub.jwk)" = "Ed25519 no;" ]
	run -1 sgpu-seal keyinfo --owner pair.jwk
	run -2 sgpu-seal keygen --sign --no-sign -o never.jwk
	assert_no_file never.jwk
	chmod 644 key.jwk
	run -4 sgpu-seal keyinfo key.jwk
}

@test "a key that only signs seals no file, and says so" {
	sgpu-seal pubkey -o half.jwk key.jwk
	run --separate-stderr -1 sgpu-seal seal-file -k half.jwk in out
	assert_contains "$stderr" "none to encrypt with"
	assert_no_file out
}

@test "a secret key that others may read is refused with the remedy" {
	for mode in 0640 0604 0660; do
		chmod "$mode" key.jwk
		run --separate-stderr -4 sgpu-seal seal-file -k key.jwk /dev/null out
		assert_contains "$stderr" "chmod 600"
		assert_no_file out
	done
	chmod 0400 key.jwk
	sgpu-seal seal-file -k key.jwk /dev/null out
}

@test "a key may come through a link, a descriptor, standard input or a pipe" {
	ln -s key.jwk link.jwk
	echo text >in
	sgpu-seal seal-file -k link.jwk in a
	sgpu-seal open-file -k fd:5 a 5<key.jwk >b
	assert_same in b
	sgpu-seal open-file -k - a c <key.jwk
	assert_same in c
	cat key.jwk | sgpu-seal open-file -k - a d
	assert_same in d
	sgpu-seal open-file -k <(cat key.jwk) a e
	assert_same in e
	run -2 sgpu-seal open-file -k - <a
	run -3 sgpu-seal open-file -k fd:99 a f
	run -3 sgpu-seal open-file -k missing.jwk a f
	assert_no_file f
}

@test "a broken key file is refused without showing what is in it" {
	sed 's/"}/",}/' key.jwk >broken.jwk
	secret=$(sed 's/.*"k":"\([^"]*\)".*/\1/' key.jwk)
	run --separate-stderr -1 sgpu-seal seal-file -k broken.jwk /dev/null out
	run -1 grep -qF -e "${secret:0:10}" <<<"$stderr"
	echo '{"kty":"RSA","n":"AQAB","e":"AQAB"}' >rsa.jwk
	run --separate-stderr -1 sgpu-seal seal-file -k rsa.jwk /dev/null out
	assert_contains "$stderr" "'RSA'"
	assert_no_file out
}

# ---- single files ----

@test "files of every size come back as they were, with each provider, by file and by pipe" {
	for size in 0 1 16383 16384 16385 262144 1048576; do
		bytes "$size" >in
		for provider in "" openssl; do
			export SGPU_AEAD=$provider
			sgpu-seal seal-file -k key.jwk in sealed
			[ "$(stat -c %s sealed)" -eq $((56 + size + 16 * (size / 16384 + 1))) ]
			unset SGPU_AEAD
			sgpu-seal open-file -k key.jwk sealed out
			assert_same in out
			sgpu-seal seal-file -j 3 -k key.jwk <in | sgpu-seal open-file -j 3 -k key.jwk | cmp - in
			cat in | sgpu-seal seal-file -j 1 -k key.jwk - sealed
			sgpu-seal open-file -k key.jwk -o - sealed | cat >out
			assert_same in out
		done
	done
}

@test "libipsec-mb is taken where the CPU has VAES" {
	requires vaes
	run --separate-stderr -0 sgpu-seal seal-file --json -k key.jwk /dev/null out
	case $stderr in *ipsec-mb*) ;; *) skip "built without libipsec-mb" ;; esac
}

@test "any changed byte of the header means another key, and no output appears" {
	bytes 20000 >in
	sgpu-seal seal-file -k key.jwk in sealed
	for ((at = 0; at < 56; at++)); do
		cp sealed bad
		flip_byte bad "$at"
		run --separate-stderr -4 sgpu-seal open-file -k key.jwk bad out
		assert_contains "$stderr" "key or the context"
		assert_no_file out
	done
}

@test "any changed byte of a chunk is refused by its place, and no output appears" {
	bytes 400000 >in
	sgpu-seal seal-file -k key.jwk in sealed
	size=$(stat -c %s sealed)
	for at in 56 16455 16456 278856 278860 393660 $((size - 17)) $((size - 1)); do
		cp sealed bad
		flip_byte bad "$at"
		run --separate-stderr -4 sgpu-seal open-file -k key.jwk bad out
		chunk=$(((at - 56) / 16400))
		assert_contains "$stderr" "authentication failed at chunk $chunk (offset $((56 + chunk * 16400)))"
		assert_no_file out
	done
}

@test "to a pipe only the chunks before a bad one are released, and the exit status is 4" {
	bytes 400000 >in
	sgpu-seal seal-file -k key.jwk in sealed
	flip_byte sealed 278900
	for jobs in 1 2 4; do
		run -4 bash -o pipefail -c "sgpu-seal open-file -j $jobs -k key.jwk sealed | cat >out"
		head -c $((17 * 16384)) in | cmp - out
		run -4 bash -o pipefail -c "cat sealed | sgpu-seal open-file -j $jobs -k key.jwk - | cat >out"
		head -c $((17 * 16384)) in | cmp - out
		run -4 bash -c "sgpu-seal open-file -j $jobs -k key.jwk sealed >out"
		head -c $((17 * 16384)) in | cmp - out
	done
}

@test "a file that was cut short at any border, or anywhere else, is refused" {
	bytes 100000 >in
	sgpu-seal seal-file -k key.jwk in sealed
	size=$(stat -c %s sealed)
	for cut in 0 1 55 56 71 72 16456 32856 49256 65656 82056 98456 98471 98472 50000 $((size - 1)); do
		head -c "$cut" sealed >bad
		run --separate-stderr -4 sgpu-seal open-file -k key.jwk bad out
		assert_no_file out
		run --separate-stderr -4 sgpu-seal open-file -k key.jwk -o out <bad
		# An empty pipe is one whose writer has failed, and said so.
		run --separate-stderr "-$((cut ? 4 : 6))" bash -o pipefail -c "cat bad | sgpu-seal open-file -k key.jwk -o out"
		assert_no_file out
	done
}

@test "a file that was made longer is refused" {
	for size in 100 16384; do
		bytes "$size" >in
		sgpu-seal seal-file -k key.jwk in sealed
		for extra in 1 16 100 16400; do
			(cat sealed && bytes "$extra") >bad
			run -4 sgpu-seal open-file -k key.jwk bad out
			assert_no_file out
		done
	done
	cat sealed sealed >bad
	run -4 sgpu-seal open-file -k key.jwk bad out
	assert_no_file out
}

@test "chunks in each other's place, and chunks of another file, are refused" {
	bytes 60000 >in
	sgpu-seal seal-file -k key.jwk in sealed
	sgpu-seal seal-file -k key.jwk in other
	chunk() { tail -c +$((57 + $2 * 16400)) "$1" | head -c 16400; }
	(head -c 56 sealed && chunk sealed 1 && chunk sealed 0 && tail -c +$((57 + 2 * 16400)) sealed) >swapped
	(head -c 56 sealed && chunk sealed 0 && chunk other 1 && tail -c +$((57 + 2 * 16400)) sealed) >mixed
	(head -c 56 sealed && chunk sealed 0 && chunk sealed 0 && tail -c +$((57 + 2 * 16400)) sealed) >repeated
	for bad in swapped mixed repeated; do
		[ "$(stat -c %s $bad)" -eq "$(stat -c %s sealed)" ]
		run -4 sgpu-seal open-file -k key.jwk $bad out
		assert_no_file out
	done
}

@test "another key or another context is told as such" {
	sgpu-seal keygen -o other.jwk
	echo text >in
	sgpu-seal seal-file -k key.jwk --context 00ff in sealed
	sgpu-seal open-file -k key.jwk --context 00FF sealed out
	assert_same in out
	rm out
	for wrong in "-k other.jwk --context 00ff" "-k key.jwk" "-k key.jwk --context 00fe"; do
		# shellcheck disable=SC2086 # several words
		run --separate-stderr -4 sgpu-seal open-file $wrong sealed out
		assert_contains "$stderr" "the key or the context is not the one"
		assert_no_file out
	done
}

@test "a context that is not hexadecimal, or too long, is a usage error" {
	for context in 0 xyz0 "$(head -c 8194 /dev/zero | tr '\0' 0)"; do
		run -2 sgpu-seal seal-file -k key.jwk --context "$context" /dev/null out
		assert_no_file out
	done
	sgpu-seal seal-file -k key.jwk --context "$(head -c 8192 /dev/zero | tr '\0' a)" /dev/null out
}

@test "neither a secret nor binary data go to a terminal" {
	requires script pty
	bytes 100 >in
	sgpu-seal seal-file -k key.jwk in sealed
	for command in "keygen" "seal-file -k key.jwk in" "open-file -k key.jwk sealed"; do
		run -2 script -qec "sgpu-seal $command" /dev/null
		assert_contains "$output" "terminal"
	done
	run -2 script -qec "sgpu-seal seal-file -k key.jwk >out" /dev/null
	[ ! -s out ]
}

@test "wrong usage is exit status 2 and changes nothing" {
	echo text >in
	cp in before
	run -2 sgpu-seal seal-file in out
	run -2 sgpu-seal seal-file -k key.jwk in in
	run -2 sgpu-seal seal-file -k key.jwk -o in in
	ln in hard
	run -2 sgpu-seal seal-file -k key.jwk in hard
	run -2 sgpu-seal seal-file -k key.jwk -o out in out
	run -2 sgpu-seal seal-file -k key.jwk in out more
	run -2 sgpu-seal seal-file -k key.jwk -j 0 in out
	run -2 sgpu-seal seal-file -k key.jwk -j x in out
	assert_same in before
	assert_no_file out
}

@test "a key that is redirected to a file that others can read is warned about" {
	run --separate-stderr -0 bash -c 'umask 022; sgpu-seal keygen >open.jwk'
	assert_contains "$stderr" "mode 0644"
	run --separate-stderr -0 bash -c 'umask 077; sgpu-seal keygen -q >closed.jwk'
	[ -z "$stderr" ]
}

@test "an error or record about a name that is no UTF-8 is JSON with --json, too" {
	requires python3
	run --separate-stderr -3 sgpu-seal seal-file --json -k key.jwk $'absent\xff'
	printf '%s' "$stderr" | python3 -c 'import json, sys; assert "absent\\xff" in json.load(sys.stdin)["error"]["text"]'
	run --separate-stderr -0 sgpu-seal keygen --json -o $'new\xff'
	assert_contains "$output" '"file":"new?"'
}

# make_pair: pair.jwk and pair.pub.jwk
make_pair() {
	sgpu-seal keygen -q --x25519 -o pair.jwk
	sgpu-seal pubkey -o pair.pub.jwk pair.jwk
}

@test "a file that is sealed to a public key opens with its private key, from files and pipes" {
	make_pair
	for size in 0 1 16384 300000; do
		bytes "$size" >in
		sgpu-seal seal-file -r pair.pub.jwk --context 00ff in sealed
		[ "$(stat -c %s sealed)" -eq $((128 + 56 + size + 16 * (size / 16384 + 1))) ]
		sgpu-seal open-file -k pair.jwk --context 00ff sealed out
		assert_same in out
		sgpu-seal seal-file -r pair.jwk <in | sgpu-seal open-file -k pair.jwk | cmp - in
		cat in | sgpu-seal seal-file -r pair.pub.jwk | cat >sealed
		cat sealed | sgpu-seal open-file -k pair.jwk | cat >out
		assert_same in out
	done
	# One behind the other, on one descriptor each way.
	(sgpu-seal seal-file -r pair.pub.jwk in && sgpu-seal seal-file -r pair.pub.jwk in) >both
	tail -c "$(stat -c %s sealed)" both | sgpu-seal open-file -k pair.jwk | cmp - in
	run --separate-stderr -0 sgpu-seal seal-file --json -r pair.pub.jwk in sealed
	jq -e --arg kid "$(jq -r .kid pair.jwk)" --argjson size "$(stat -c %s sealed)" '.recipient == $kid and .bytes_out == $size' <<<"$stderr"
	# A symmetric key that is shared seals as with -k.
	sgpu-seal seal-file -r key.jwk in sealed
	sgpu-seal open-file -k key.jwk sealed out
	assert_same in out
}

@test "what is sealed to a public key opens with no other key, and not when it was changed or cut" {
	make_pair
	sgpu-seal keygen -q --x25519 -o other.jwk
	bytes 20000 >in
	sgpu-seal seal-file -r pair.pub.jwk in sealed
	for wrong in "-k other.jwk" "-k key.jwk" "-k pair.pub.jwk" "-k pair.jwk --context 00"; do
		# shellcheck disable=SC2086 # several words
		run --separate-stderr -4 sgpu-seal open-file $wrong sealed out
		assert_no_file out
		# shellcheck disable=SC2086
		run -4 bash -o pipefail -c "cat sealed | sgpu-seal open-file $wrong | cat >piped"
		[ ! -s piped ]
	done
	run --separate-stderr -4 sgpu-seal open-file -k key.jwk sealed out
	assert_contains "$stderr" "sealed to the public key '$(jq -r .kid pair.jwk)'"
	for at in 0 15 16 47 48 79 80 127 128 183 184 20000 $(($(stat -c %s sealed) - 1)); do
		cp sealed bad
		flip_byte bad "$at"
		run -4 sgpu-seal open-file -k pair.jwk bad out
		head -c "$at" sealed >bad
		run -4 sgpu-seal open-file -k pair.jwk bad out
		run "-$((at ? 4 : 6))" bash -o pipefail -c "cat bad | sgpu-seal open-file -k pair.jwk -o out"
		assert_no_file out
	done
	# The header of another file brings another key.
	sgpu-seal seal-file -r pair.pub.jwk in second
	(head -c 128 second && tail -c +129 sealed) >bad
	run -4 sgpu-seal open-file -k pair.jwk bad out
	tail -c +129 sealed >bad
	run --separate-stderr -4 sgpu-seal open-file -k pair.jwk bad out
	assert_contains "$stderr" "not sealed to a public key"
	assert_no_file out
}

@test "seal-file takes a recipient that is trusted, and one key" {
	make_pair
	echo text >in
	chmod 0666 pair.pub.jwk
	run --separate-stderr -4 sgpu-seal seal-file -r pair.pub.jwk in out
	assert_contains "$stderr" "others can write"
	run -2 sgpu-seal seal-file -k key.jwk -r pair.jwk in out
	run --separate-stderr -2 sgpu-seal seal-file -k pair.jwk in out
	assert_contains "$stderr" "-r seals to it"
	run -2 sgpu-seal open-file -r pair.jwk in out
	assert_no_file out
}

@test "inspect says whose a sealed file is" {
	make_pair
	bytes 20000 >in
	sgpu-seal seal-file -r pair.pub.jwk in sealed
	run -0 sgpu-seal inspect sealed
	[[ ${lines[3]} =~ ^\ \ kid\ +$(jq -r .kid pair.jwk)$ ]]
	run --separate-stderr -0 sgpu-seal inspect --json <sealed
	jq -e --arg kid "$(jq -r .kid pair.jwk)" '. == {kind: "file", recipients: [{kind: "hpke", kid: $kid}]}' <<<"$output"
	head -c 127 sealed >short
	run --separate-stderr -1 sgpu-seal inspect short
	assert_contains "$stderr" "sealed to a public key"
	run --separate-stderr -1 bash -c 'cat sealed | sgpu-seal inspect'
	assert_contains "$stderr" "open-file"
}

@test "a file has one key" {
	echo text >plain
	run --separate-stderr -2 sgpu-seal seal-file -k key.jwk -k key.jwk plain sealed
	assert_no_file sealed
}

@test "an existing output is replaced on success only, and keeps its mode" {
	echo old >out
	chmod 0640 out
	bytes 30000 >in
	sgpu-seal seal-file -k key.jwk in sealed
	cp sealed bad
	flip_byte bad 20000
	run -4 sgpu-seal open-file -k key.jwk bad out
	[ "$(cat out)" = old ]
	sgpu-seal open-file -k key.jwk sealed out
	assert_same in out
	[ "$(stat -c %a out)" = 640 ]
}

@test "a file that is opened is new for its owner alone" {
	echo text >in
	sgpu-seal seal-file -k key.jwk in sealed
	(
		umask 022
		sgpu-seal open-file -k key.jwk sealed out
	)
	[ "$(stat -c %a out)" = 600 ]
}

@test "what is sealed twice in a row on one descriptor stands one behind the other" {
	echo one >a
	echo two >b
	(sgpu-seal seal-file -k key.jwk a && sgpu-seal seal-file -k key.jwk b) >both
	[ "$(stat -c %s both)" -eq 152 ]
	head -c 76 both | sgpu-seal open-file -k key.jwk | cmp - a
	tail -c 76 both | sgpu-seal open-file -k key.jwk | cmp - b
	echo head >appended
	sgpu-seal seal-file -k key.jwk a >>appended
	tail -c 76 appended | sgpu-seal open-file -k key.jwk | cmp - a
}

@test "files whose size says nothing are sealed whole" {
	sgpu-seal seal-file -k key.jwk /proc/cpuinfo sealed
	sgpu-seal open-file -k key.jwk sealed out
	[ "$(wc -l <out)" -gt 5 ]
}

@test "a sparse file above 4 GiB is sealed, and opened to holes again" {
	requires no-sanitizer
	truncate -s 4294983679 in
	printf 'end' | dd of=in bs=1 seek=4294983676 conv=notrunc status=none
	run --separate-stderr -0 bash -o pipefail -c \
		'sgpu-seal seal-file -k key.jwk in | sgpu-seal open-file -k key.jwk -o out'
	[ "$(stat -c %s out)" -eq 4294983679 ]
	[ "$(tail -c 3 out)" = end ]
	[ "$(stat -c %b out)" -lt 2048 ]
}

@test "1 GiB through pipes stays in little memory" {
	requires no-sanitizer
	# The limit covers code and libraries too.
	run -0 bash -o pipefail -c 'head -c 1G /dev/zero | (ulimit -v 262144 && sgpu-seal seal-file -j 2 -k key.jwk) |
		(ulimit -v 262144 && sgpu-seal open-file -j 2 -k key.jwk) | tail -c 1 | wc -c'
	[ "$output" = 1 ]
}

@test "a killed process leaves no file" {
	for signal in TERM INT KILL; do
		mkfifo feed
		# INT would be ignored in a background job of a shell without job control.
		env --default-signal=INT sgpu-seal seal-file -j 2 -k key.jwk feed out &
		pid=$!
		exec 9>feed
		bytes 1000000 >&9
		kill -s "$signal" "$pid"
		status=0
		wait "$pid" || status=$?
		exec 9>&-
		[ "$status" -eq $((128 + $(kill -l "$signal"))) ]
		assert_no_file out
		[ -z "$(find . -name '.sgpu*')" ]
		rm feed
	done
}
