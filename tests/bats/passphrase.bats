# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154
#
# Key files that are protected by a passphrase, which comes from a terminal or a descriptor.

load helpers

# owner.jwk and person.jwk, which "secret" opens: made once, since a passphrase takes its time.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-seal keygen -q --passphrase-fd 0 -o owner.jwk <<<secret
	sgpu-seal keygen -q --passphrase-fd 0 --x25519 -o person.jwk <<<secret
	sgpu-seal pubkey --passphrase-fd 0 -o person.pub.jwk person.jwk <<<secret
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	cp -a "$BATS_FILE_TMPDIR"/*.jwk .
}

on_terminal() {
	python3 "$BATS_TEST_DIRNAME/on_terminal.py" "$@"
}

@test "each program of an owner opens a protected key, wherever the option stands" {
	small_job 10
	sgpu-seal keygen -q --x25519 -o runner.jwk
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.jwk --passphrase-fd 0 -o sealed packed <<<secret
	sgpu-run --local -k runner.jwk -o response sealed
	sgpu-seal open --passphrase-fd 0 -k owner.jwk -C out --batch sealed response <<<secret
	sgpu-seal rewrap -k owner.jwk -r person.pub.jwk -o wider --passphrase-fd 0 sealed <<<secret
	# Of two keys, each has its line.
	printf 'secret\nsecret\nrest' | sgpu-seal inspect --json -k person.jwk -k owner.jwk wider --passphrase-fd 0 >shown
	jq -e '.mac == "verified"' shown
	head -c 1000 /dev/urandom >in
	sgpu-seal seal-file -r person.pub.jwk in one
	sgpu-seal open-file -k person.jwk --passphrase-fd 3 one back 3<<<secret
	assert_same in back
	sgpu-measure release --build "$SGPU_BUILD" -k owner.jwk -o release --passphrase-fd 0 <<<secret
	jq -e '.signatures | length == 1' release
}

@test "keyinfo says what protects a file, which tells nothing of its keys" {
	sgpu-seal keygen -q -o plain.jwk
	run -0 sgpu-seal keyinfo --passphrase-fd 0 owner.jwk <<<secret
	[[ ${lines[0]} =~ ^passphrase\ +yes$ ]]
	run -0 bash -c 'sgpu-seal keyinfo --json --passphrase-fd 0 owner.jwk <<<secret | jq -e ".passphrase and (.keys | length == 2)"'
	run -0 bash -c 'sgpu-seal keyinfo --json plain.jwk | jq -e ".passphrase | not"'
	jq -e 'keys == ["ciphertext", "encrypted_key", "iv", "protected", "tag"]' owner.jwk
	[ "$(stat -c %a owner.jwk)" = 600 ]
	chmod 0640 owner.jwk
	run --separate-stderr -4 sgpu-seal keyinfo --passphrase-fd 0 owner.jwk <<<secret
	assert_contains "$stderr" "chmod"
}

@test "a wrong passphrase, a bad one and a bad descriptor are refused, and nothing is made" {
	echo text >in
	run --separate-stderr -4 sgpu-seal seal-file -k owner.jwk --passphrase-fd 0 in out <<<Secret
	assert_contains "$stderr" "wrong passphrase"
	run -1 sgpu-seal seal-file -k owner.jwk --passphrase-fd 0 in out <<<""
	run -1 sgpu-seal seal-file -k owner.jwk --passphrase-fd 0 in out </dev/null
	run -3 sgpu-seal seal-file -k owner.jwk --passphrase-fd 77 in out
	run -2 sgpu-seal seal-file -k owner.jwk --passphrase-fd x in out
	# What is wrong with the command line is said before anybody is asked.
	run -2 sgpu-seal inspect -k owner.jwk --passphrase-fd 77 --nothing in
	assert_no_file out
	for length in 1024 1025; do
		run "-$((length > 1024))" sgpu-seal keygen -q --passphrase-fd 0 -o "$length.jwk" < <(head -c "$length" /dev/zero | tr '\0' x)
	done
	assert_no_file 1025.jwk
	run -0 sgpu-seal keyinfo --passphrase-fd 0 1024.jwk < <(head -c 1024 /dev/zero | tr '\0' x)
	run -1 sgpu-seal keygen --passphrase-fd 0 -o new.jwk </dev/null
	assert_no_file new.jwk
}

@test "a runner, a signer and a server refuse a protected key with the reason" {
	small_job 10
	sgpu-manifest pack job.json | sgpu-seal seal -q -r person.pub.jwk >sealed
	sgpu-measure keygen -o AK.pem 2>/dev/null
	for command in "sgpu-enclave -o out sealed" "sgpu-run -o out sealed" "sgpu-serve --socket socket" "sgpu-worker spool"; do
		mkdir -p spool
		# shellcheck disable=SC2086 # several words
		run --separate-stderr timeout 60 $command -k person.jwk </dev/null
		[ "$status" -ne 0 ] && [ "$status" -lt 100 ]
		assert_contains "$stderr" "protected by a passphrase"
	done
	run --separate-stderr -1 sgpu-measure quote -k person.jwk --certificate AK.pem --nonce 0011223344556677 -o out
	assert_no_file out
}

@test "a terminal is asked without an echo, twice for a new file, and has its echo after any signal" {
	requires python3 pty
	run -0 on_terminal opensesame opensesame -- sgpu-seal keygen --passphrase -o new.jwk
	assert_contains "$output" "Passphrase of 'new.jwk': "
	[[ $output != *opensesame* ]]
	run -0 on_terminal opensesame -- sgpu-seal keyinfo new.jwk
	[[ $output =~ passphrase\ +yes ]]
	[[ $output != *opensesame* ]]
	run -4 on_terminal other -- sgpu-seal keyinfo new.jwk
	run -3 on_terminal opensesame other -- sgpu-seal keygen --passphrase -o none.jwk
	for signal in SIGINT SIGTERM SIGHUP SIGQUIT SIGTSTP; do
		run on_terminal "$signal" -- sgpu-seal keygen --passphrase -o none.jwk
		[ "$status" -ne 0 ]
		[[ $output != *"the echo is off"* ]]
	done
	assert_no_file none.jwk
}

@test "without a terminal, --passphrase-fd is the hint" {
	run --separate-stderr -3 setsid -w sgpu-seal keyinfo owner.jwk <<<secret
	assert_contains "$stderr" "--passphrase-fd"
	run --separate-stderr -3 setsid -w sgpu-seal keygen --passphrase -o new.jwk <<<secret
	assert_no_file new.jwk
}
