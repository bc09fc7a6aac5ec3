#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure: keys of machines, the small certificate authority, and enrolment.
# shellcheck disable=SC2154 # variables that run sets

load helpers

# An authority, and a machine that it knows.
setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	sgpu-measure ca init -o CA.pem --certificate CA.crt
	sgpu-measure provision -o EK.pem --public EK.pub.pem
}

enroll() {
	sgpu-measure enroll -k EK.pem -o AK.pem --request AK.request
}

sign() {
	sgpu-measure ca sign -k CA.pem --certificate CA.crt --ek EK.pub.pem "$@"
}

@test "private keys are files for their owner alone, whatever the umask" {
	umask 000
	sgpu-measure provision -o other.pem
	sgpu-measure enroll -k EK.pem -o AK.pem --request AK.request
	sgpu-measure ca init -o CA2.pem --certificate CA2.crt
	for key in other.pem AK.pem CA2.pem; do
		[ "$(stat -c %a $key)" = 600 ]
		grep -q 'BEGIN PRIVATE KEY' $key
	done
	for file in AK.request CA2.crt; do
		[ "$(stat -c %a $file)" = 644 ]
		run ! grep -q PRIVATE $file
	done
}

@test "a key that exists is never overwritten, and what goes with it does not appear" {
	cp EK.pem before
	run --separate-stderr -3 sgpu-measure provision -o EK.pem --public new.pub.pem
	assert_contains "$stderr" "never overwritten"
	assert_no_file new.pub.pem
	run -3 sgpu-measure enroll -k EK.pem -o EK.pem --request new.request
	assert_no_file new.request
	run -3 sgpu-measure ca init -o EK.pem --certificate new.crt
	assert_no_file new.crt
	assert_same EK.pem before
	ln -s elsewhere dangling
	run -3 sgpu-measure provision -o dangling
	assert_no_file elsewhere
}

@test "one file by two names is not written twice" {
	run --separate-stderr -2 sgpu-measure provision -o two.pem --public ./two.pem
	assert_contains "$stderr" "cannot both go to"
	run -2 sgpu-measure enroll -k EK.pem -o two.pem --request "$PWD/two.pem"
	run -2 sgpu-measure ca init -o two.pem --certificate ./two.pem
	assert_no_file two.pem
}

@test "names of files that are not UTF-8 leave the records JSON" {
	requires jq
	local name=$'n\xff'
	run -0 --separate-stderr sgpu-measure provision --json -o "$name.pem" --public "$name.pub.pem"
	run -0 jq -er '.file + " " + .public' <<<"$output"
	[ "$output" = "n?.pem n?.pub.pem" ]
	printf data >"$name"
	run -0 --separate-stderr sgpu-measure memory --device cpu --json "$name"
	run -0 jq -er '.measurements[0].label' <<<"$output"
	[ "$output" = "n?" ]
}

@test "when the public part cannot be written, no key is left" {
	run --separate-stderr -3 sgpu-measure provision -o new.pem --public EK.pem/folder
	assert_no_file new.pem
	run --separate-stderr -3 sgpu-measure provision -o new.pem --public /dev/full
	assert_contains "$stderr" "No space left"
	assert_no_file new.pem
	run -3 sgpu-measure enroll -k EK.pem -o new.pem --request /dev/full
	assert_no_file new.pem
	run -3 sgpu-measure ca init -o new.pem --certificate /dev/full
	assert_no_file new.pem
}

@test "a key that others can read is refused" {
	chmod 0640 EK.pem CA.pem
	run --separate-stderr -4 sgpu-measure enroll -k EK.pem -o AK.pem --request AK.request
	assert_contains "$stderr" "EK.pem"
	assert_no_file AK.pem AK.request
	chmod 0600 EK.pem
	enroll
	run -4 sign -o AK.crt AK.request
	assert_no_file AK.crt
}

@test "keys go to a pipe and come from one" {
	sgpu-measure provision --public p.pub.pem | cat >piped
	grep -q 'BEGIN PRIVATE KEY' piped
	run -0 bash -c 'cat EK.pem | sgpu-measure enroll -k - -o AK.pem --request AK.request'
	sign AK.request >/dev/null
	exec 7<EK.pem
	run -0 sgpu-measure enroll -k fd:7 -o AK2.pem --request -
	exec 7<&-
	[ "$(printf %s "$output" | tr -dc . | wc -c)" -eq 2 ]
}

@test "a secret is not shown on a terminal" {
	requires script pty
	run bash -c "script -qec 'sgpu-measure provision' /dev/null </dev/null"
	assert_contains "$output" "refusing to show a secret key on a terminal"
	run ! grep -q 'BEGIN PRIVATE' <<<"$output"
}

@test "--json tells the fingerprint, which is the digest of the public key" {
	requires openssl jq
	run --separate-stderr -0 sgpu-measure provision --json -o new.pem --public new.pub.pem
	[ "$(jq -r .kind <<<"$output")" = EK ]
	[ "$(jq -r .tpm <<<"$output")" = false ]
	[ "$(jq -r .file <<<"$output")" = new.pem ]
	fingerprint=$(openssl pkey -pubin -in new.pub.pem -outform DER | sha256sum | cut -d ' ' -f 1)
	[ "$(jq -r .fingerprint <<<"$output")" = "$fingerprint" ]
	run --separate-stderr -0 sgpu-measure provision --json
	assert_contains "$stderr" '"kind":"EK"'
	run ! grep -q PRIVATE <<<"$stderr"
}

@test "what ca sign writes is the certificate of the key, then the authority's" {
	requires openssl
	enroll
	sign -o AK.crt AK.request
	[ "$(grep -c 'BEGIN CERTIFICATE' AK.crt)" -eq 2 ]
	run -0 openssl verify -CAfile CA.crt AK.crt
	openssl x509 -in AK.crt -noout -pubkey >from-certificate
	openssl pkey -in AK.pem -pubout >from-key
	assert_same from-certificate from-key
	openssl x509 -in AK.crt -noout -checkend $((29 * 86400))
	run ! openssl x509 -in AK.crt -noout -checkend $((31 * 86400))
}

@test "the name and the days of certificates are those asked for" {
	requires openssl
	sgpu-measure ca init -o named.pem --certificate named.crt --name "Clinic authority" --days 100
	run -0 openssl x509 -in named.crt -noout -subject
	assert_contains "$output" "Clinic authority"
	openssl x509 -in named.crt -noout -checkend $((99 * 86400))
	run ! openssl x509 -in named.crt -noout -checkend $((101 * 86400))
	enroll
	sgpu-measure ca sign -k named.pem --certificate named.crt --ek EK.pub.pem --days 2 -o AK.crt AK.request
	run ! openssl x509 -in AK.crt -noout -checkend $((3 * 86400))
	# Those of machines are short when nothing was asked for: the authority cannot take them back.
	sgpu-measure ca sign -k named.pem --certificate named.crt --ek EK.pub.pem -o short.crt AK.request
	openssl x509 -in short.crt -noout -checkend $((29 * 86400))
	run ! openssl x509 -in short.crt -noout -checkend $((31 * 86400))
	# None outlives the authority.
	run --separate-stderr -2 sgpu-measure ca sign -k named.pem --certificate named.crt --ek EK.pub.pem --days 9999 -o long.crt \
		AK.request
	assert_contains "$stderr" "the CA's certificate ends in 100 days, and none that it signs may last longer"
	assert_no_file long.crt
	sgpu-measure ca sign -k named.pem --certificate named.crt --ek EK.pub.pem --days 100 -o whole.crt AK.request
	run -2 sgpu-measure ca sign -k named.pem --certificate named.crt --ek EK.pub.pem --days 101 -o long.crt AK.request
}

@test "a request of a machine that is not known is refused" {
	enroll
	sgpu-measure provision -o stranger.pem --public stranger.pub.pem
	run --separate-stderr -4 sgpu-measure ca sign --json -k CA.pem --certificate CA.crt --ek stranger.pub.pem -o AK.crt AK.request
	assert_contains "$stderr" '"EPOLICY"'
	assert_no_file AK.crt
	# One among several is enough, in one file or in two.
	sign --ek stranger.pub.pem -o AK.crt AK.request
	cat stranger.pub.pem EK.pub.pem >known.pem
	sgpu-measure ca sign -k CA.pem --certificate CA.crt --ek known.pem -o AK2.crt AK.request
}

@test "a request that was altered is refused" {
	enroll
	# In the middle of the last part, the signature.
	size=$(stat -c %s AK.request)
	at=$((size - 40))
	sed -E "s/^(.{$at})./\1$([ "$(tail -c +$((at + 1)) AK.request | head -c 1)" = A ] && echo B || echo A)/" AK.request >altered
	run ! cmp -s AK.request altered
	run --separate-stderr -4 sign --json -o AK.crt altered
	assert_contains "$stderr" '"ESIGNATURE"'
	assert_no_file AK.crt
}

@test "a request that is too old is refused" {
	enroll
	sleep 2
	run --separate-stderr -4 sign --json --max-age 1s -o AK.crt AK.request
	assert_contains "$stderr" '"EEXPIRED"'
	assert_no_file AK.crt
	sign --max-age 1h -o AK.crt AK.request
}

@test "hostile requests and files are malformed, and nothing is written" {
	enroll
	: >empty
	printf 'a.b.c\n' >short
	head -c 100000 /dev/zero | tr '\0' . >dots
	head -c 3000 /dev/urandom >noise
	head -c 2000000 /dev/zero | tr '\0' A >long
	cut -d . -f 1,2 AK.request >headless
	for file in empty short dots noise long headless CA.crt; do
		run --separate-stderr -1 sign -o AK.crt "$file"
		[ "$(wc -l <<<"$stderr")" -le 2 ]
		assert_no_file AK.crt
	done
	for file in empty noise CA.crt dots; do
		run -1 sgpu-measure ca sign -k CA.pem --certificate CA.crt --ek "$file" -o AK.crt AK.request
		run -1 sgpu-measure ca sign -k CA.pem --certificate EK.pub.pem --ek EK.pub.pem -o AK.crt AK.request
		assert_no_file AK.crt
	done
	chmod 600 noise empty
	for file in empty noise; do
		run -1 sgpu-measure enroll -k "$file" -o AK3.pem --request AK3.request
		assert_no_file AK3.pem AK3.request
	done
}

@test "the authority signs only with the key of its certificate" {
	enroll
	run -4 sgpu-measure ca sign -k EK.pem --certificate CA.crt --ek EK.pub.pem -o AK.crt AK.request
}

@test "a list of known machines that others can write to certifies nobody" {
	enroll
	chmod 664 EK.pub.pem
	run -4 --separate-stderr sgpu-measure ca sign -k CA.pem --certificate CA.crt --ek EK.pub.pem -o AK.crt AK.request
	# shellcheck disable=SC2154 # bats sets it
	assert_contains "$stderr" "others can write to 'EK.pub.pem', which says which machines are known"
	assert_no_file AK.crt
}

@test "what makes no sense is a usage error, and writes nothing" {
	run -2 sgpu-measure
	run -2 sgpu-measure nonsense
	run -2 sgpu-measure provision extra
	run -2 sgpu-measure provision -o one.out --public one.out
	assert_no_file one.out
	run -2 sgpu-measure provision --public -
	run -2 sgpu-measure enroll -o one.out --request two.out
	run -2 sgpu-measure enroll -k EK.pem -o one.out
	run -2 sgpu-measure enroll -k EK.pem -o one.out --request one.out
	run -2 sgpu-measure enroll -k EK.pem -o one.out --request EK.pem
	run -2 sgpu-measure ca
	run -2 sgpu-measure ca make
	run -2 sgpu-measure ca init -o one.out
	run -2 sgpu-measure ca init -o one.out --certificate one.out
	run -2 sgpu-measure ca init -o one.out --certificate two.out --days 0
	run -2 sgpu-measure ca init -o one.out --certificate two.out --days 1x
	run -2 sgpu-measure ca init -o one.out --certificate two.out extra
	run -2 sgpu-measure ca init -k CA.pem -o one.out --certificate two.out
	run -2 sgpu-measure ca sign -k CA.pem --certificate CA.crt x
	run -2 sgpu-measure ca sign -k CA.pem --ek EK.pub.pem x
	run -2 sgpu-measure ca sign --name x -k CA.pem --certificate CA.crt --ek EK.pub.pem x
	run -2 sign -o EK.pub.pem EK.pub.pem
	run -2 sign --max-age 0s x
	run -2 sgpu-measure ca sign -k - --certificate CA.crt --ek EK.pub.pem
	assert_no_file one.out two.out
}

@test "input and output that fail are exit status 3" {
	enroll
	run -3 sign no-such-file
	run -3 sign -o /dev/full AK.request
	run -3 sign -o AK.request/folder AK.request
	run -3 bash -c 'sgpu-measure provision >/dev/full'
	run -3 sgpu-measure enroll -k no-such-key -o one.out --request two.out
	assert_no_file one.out two.out
}

@test "a key in a TPM is asked for only with --tpm, and its absence is told with the remedy" {
	[ ! -e /dev/tpm0 ] || skip "there is a TPM"
	export TPM2OPENSSL_TCTI=device:/nonexistent
	run --separate-stderr -3 sgpu-measure provision --tpm -o tpm.pem
	assert_contains "$stderr" "tpm2-openssl"
	[ "$(wc -l <<<"$stderr")" -le 2 ]
	assert_no_file tpm.pem
}
