#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure: keys of authorities and machines, and their certificates, which openssl(1) makes and checks, too.
# shellcheck disable=SC2154 # variables that run sets

load helpers

# An authority, a machine that it certified, and a request of an attestation key.
setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	sgpu-measure keygen -o CA.pem --authority CA.crt
	sgpu-measure keygen -o EK.pem --request EK.csr
	sgpu-measure keygen -o AK.pem --request AK.csr
	authorize -o EK.crt EK.csr
}

# What the authority certifies, and what the machine does.
authorize() {
	sgpu-measure certify -k CA.pem --certificate CA.crt "$@"
}

endorse() {
	sgpu-measure certify -k EK.pem --certificate EK.crt "$@"
}

# lasts FILE DAYS: the certificate is valid for so many days, give or take one.
lasts() {
	openssl x509 -in "$1" -noout -checkend $((($2 - 1) * 86400))
	run ! openssl x509 -in "$1" -noout -checkend $((($2 + 1) * 86400))
}

@test "private keys are files for their owner alone, whatever the umask" {
	umask 000
	sgpu-measure keygen -o other.pem --request other.csr
	sgpu-measure keygen -o CA2.pem --authority CA2.crt
	for key in other.pem CA2.pem; do
		[ "$(stat -c %a $key)" = 600 ]
		grep -q 'BEGIN PRIVATE KEY' $key
	done
	for file in other.csr CA2.crt; do
		[ "$(stat -c %a $file)" = 644 ]
		run ! grep -q PRIVATE $file
	done
}

@test "a key that exists is never overwritten, and what goes with it does not appear" {
	cp EK.pem before
	run --separate-stderr -3 sgpu-measure keygen -o EK.pem --request new.csr
	assert_contains "$stderr" "never overwritten"
	run -3 --separate-stderr sgpu-measure keygen -o EK.pem
	[ -z "$output" ]
	run -3 sgpu-measure keygen -o EK.pem --authority new.crt
	assert_no_file new.csr new.crt
	assert_same EK.pem before
	ln -s elsewhere dangling
	run -3 sgpu-measure keygen -o dangling
	assert_no_file elsewhere
}

@test "one file by two names is not written twice" {
	run --separate-stderr -2 sgpu-measure keygen -o two.pem --request "$PWD/two.pem"
	assert_contains "$stderr" "cannot both go to"
	ln -s two.pem link
	for name in ./two.pem link "$PWD/link" new/../two.pem new/../link; do
		run -2 sgpu-measure keygen -o two.pem --authority "$name"
		run -2 sgpu-measure keygen -o new/../two.pem --request "$name"
	done
	assert_no_file two.pem new
	run -0 sgpu-measure keygen -o new/two.pem --authority new/link
}

@test "names of files that are not UTF-8 leave the records JSON" {
	requires jq
	local name=$'n\xff'
	run -0 --separate-stderr sgpu-measure keygen --json -o "$name.pem" --request "$name.csr"
	run -0 jq -er '.file + " " + .public' <<<"$output"
	[ "$output" = "n?.pem n?.csr" ]
	printf data >"$name"
	run -0 --separate-stderr sgpu-measure memory --device cpu --json "$name"
	run -0 jq -er '.label' <<<"$output"
	[ "$output" = "n?" ]
}

@test "when the public part cannot be written, no key is left" {
	run --separate-stderr -3 sgpu-measure keygen -o new.pem --request EK.pem/folder
	assert_no_file new.pem
	run --separate-stderr -3 sgpu-measure keygen -o new.pem --request /dev/full
	assert_contains "$stderr" "No space left"
	assert_no_file new.pem
	run -3 bash -c 'sgpu-measure keygen -o new.pem >/dev/full'
	assert_no_file new.pem
	run -3 sgpu-measure keygen -o new.pem --authority /dev/full
	assert_no_file new.pem
}

@test "requests go through a pipe, and keys come from one" {
	sgpu-measure keygen -o piped.pem | endorse | grep -q 'BEGIN CERTIFICATE'
	run -0 bash -c 'cat EK.pem | sgpu-measure certify -k - --certificate EK.crt AK.csr'
	exec 7<EK.pem
	run -0 sgpu-measure certify -k fd:7 --certificate EK.crt AK.csr
	exec 7<&-
	run -6 bash -c 'true | sgpu-measure certify -k EK.pem --certificate EK.crt'
}

@test "standard output does not write into a file that is read" {
	for name in EK.pem EK.crt AK.csr; do
		cp "$name" kept
		run --separate-stderr -2 bash -c "sgpu-measure certify -k EK.pem --certificate EK.crt AK.csr 1<>$name"
		assert_contains "$stderr" "'standard output' is both input and output"
		assert_same "$name" kept
	done
}

@test "--json tells the fingerprint, which is the digest of the public key" {
	requires openssl jq
	run --separate-stderr -0 sgpu-measure keygen --json -o new.pem --request new.csr
	[ "$(jq -r .tpm <<<"$output")" = false ]
	[ "$(jq -r .file <<<"$output")" = new.pem ]
	fingerprint=$(openssl pkey -in new.pem -pubout -outform DER | sha256sum | cut -d ' ' -f 1)
	[ "$(jq -r .fingerprint <<<"$output")" = "$fingerprint" ]
	run --separate-stderr -0 sgpu-measure keygen --json -o new2.pem
	assert_contains "$stderr" '"fingerprint":'
	run ! grep -q PRIVATE <<<"$stderr$output"
}

@test "openssl accepts what sgpu-measure makes, step by step" {
	requires openssl
	endorse -o AK.crt AK.csr
	for key in EK AK; do
		run -0 openssl req -in $key.csr -noout -verify
		openssl x509 -in $key.crt -noout -pubkey >from-certificate
		openssl pkey -in $key.pem -pubout >from-key
		assert_same from-certificate from-key
	done
	run -0 openssl verify -x509_strict -CAfile CA.crt EK.crt
	run -0 openssl verify -x509_strict -CAfile CA.crt -untrusted AK.crt AK.crt
	run ! openssl verify -x509_strict -CAfile CA.crt AK.crt
	# The certificate of the key first, then those above it.
	[ "$(grep -c 'BEGIN CERTIFICATE' EK.crt)" -eq 2 ]
	[ "$(grep -c 'BEGIN CERTIFICATE' AK.crt)" -eq 3 ]
	run -0 openssl x509 -in EK.crt -noout -ext basicConstraints
	assert_contains "$output" "CA:TRUE, pathlen:0"
	run -0 openssl x509 -in AK.crt -noout -ext basicConstraints,keyUsage
	assert_contains "$output" "CA:FALSE"
	assert_contains "$output" "Digital Signature"
}

# by_openssl NAME ISSUER DAYS PROFILE: a key, and its certificate, by openssl(1) alone. Its file ends with the authority's.
by_openssl() {
	cat >openssl.cnf <<-'END'
	[req]
	distinguished_name = name
	[name]
	[ca]
	basicConstraints = critical, CA:TRUE
	keyUsage = critical, keyCertSign
	subjectKeyIdentifier = hash
	[ek]
	basicConstraints = critical, CA:TRUE, pathlen:0
	keyUsage = critical, keyCertSign
	subjectKeyIdentifier = hash
	authorityKeyIdentifier = keyid
	[ak]
	basicConstraints = critical, CA:FALSE
	keyUsage = critical, digitalSignature
	subjectKeyIdentifier = hash
	authorityKeyIdentifier = keyid
	END
	[ -e "$1.pem" ] || (umask 077 && openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out "$1.pem")
	openssl req -new -config openssl.cnf -key "$1.pem" -subj "/CN=$1" -out "$1.csr"
	if [ "$1" = "$2" ]; then
		openssl x509 -req -in "$1.csr" -signkey "$1.pem" -days "$3" -extfile openssl.cnf -extensions "$4" -out "$1.crt"
	else
		openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.pem" -CAcreateserial -days "$3" -extfile openssl.cnf \
			-extensions "$4" -out one.crt
		cat one.crt "$2.crt" >"$1.crt"
	fi
} 2>/dev/null

# appraised AK CA: a quote with the first key is accepted under the second's certificate.
appraised() {
	local nonce=00112233445566778899aabbccddeeff
	sgpu-measure quote -k "$1.pem" --certificate "$1.crt" --nonce "$nonce" --device cpu -o quote || return
	sgpu-measure policy -o policy.json quote
	sgpu-measure appraise -p policy.json --roots "$2.crt" --nonce "$nonce" quote
}

@test "openssl alone makes an authority, an EK and an AK whose quote is accepted" {
	requires openssl
	by_openssl ca ca 365 ca
	by_openssl ek ca 31 ek
	by_openssl ak ek 30 ak
	run -0 openssl verify -x509_strict -CAfile ca.crt -untrusted ek.crt ak.crt
	run -0 appraised ak ca
	# Each of ours continues one of theirs, and theirs ours.
	sgpu-measure certify -k ca.pem --certificate ca.crt -o EK.crt EK.csr
	endorse -o AK.crt AK.csr
	run -0 appraised AK ca
	authorize -o ek.crt ek.csr
	by_openssl ak ek 29 ak
	run -0 appraised ak CA
}

@test "an AK whose certificate lasts above 30 days, or outlives its EK's, is refused, though openssl accepts it" {
	requires openssl
	by_openssl ca ca 365 ca
	by_openssl ek ca 200 ek
	by_openssl ak ek 31 ak
	run -0 openssl verify -x509_strict -CAfile ca.crt -untrusted ek.crt ak.crt
	run --separate-stderr -4 appraised ak ca
	assert_contains "$stderr" "certificate 1 of the chain is valid for more than 30 days"
	by_openssl ek ca 10 ek
	by_openssl ak ek 11 ak
	run -0 openssl verify -x509_strict -CAfile ca.crt -untrusted ek.crt ak.crt
	run --separate-stderr -4 appraised ak ca
	assert_contains "$stderr" "certificate 1 of the chain outlives that of its endorsement key"
}

@test "an authority's certificate is no endorsement key's" {
	requires openssl
	# One that certifies AKs itself, as those of version 1 did; and a machine that could make others.
	by_openssl ca ca 365 ek
	by_openssl ak ca 20 ak
	run --separate-stderr -1 appraised ak ca
	assert_contains "$stderr" "certificate 2 of the chain is not that of an endorsement key"
	run --separate-stderr -1 sgpu-measure certify -k ca.pem --certificate ca.crt -o AK.crt AK.csr
	assert_contains "$stderr" "its path length is 0"
	by_openssl ca ca 365 ca
	by_openssl ek ca 31 ca
	by_openssl ak ek 20 ak
	run --separate-stderr -1 appraised ak ca
	assert_contains "$stderr" "certificate 2 of the chain is not that of an endorsement key"
}

@test "the name and the days of certificates are those asked for" {
	requires openssl
	lasts CA.crt 3650
	lasts EK.crt 30
	sgpu-measure keygen -o named.pem --authority named.crt --name "Clinic authority" --days 100
	run -0 openssl x509 -in named.crt -noout -subject
	assert_contains "$output" "Clinic authority"
	lasts named.crt 100
	# None outlives its issuer.
	run --separate-stderr -2 sgpu-measure certify -k named.pem --certificate named.crt --days 9999 -o EK2.crt EK.csr
	assert_contains "$stderr" "the issuer's certificate ends in 100 days, and none that it signs may last longer"
	assert_no_file EK2.crt
	run -2 sgpu-measure certify -k named.pem --certificate named.crt --days 101 -o EK2.crt EK.csr
	sgpu-measure certify -k named.pem --certificate named.crt --days 100 -o EK2.crt EK.csr
	lasts EK2.crt 100
	# Those of attestation keys are short: nobody can take them back.
	sgpu-measure certify -k EK.pem --certificate EK2.crt -o AK.crt AK.csr
	lasts AK.crt 30
	run --separate-stderr -2 sgpu-measure certify -k EK.pem --certificate EK2.crt --days 31 -o long.crt AK.csr
	assert_contains "$stderr" "at most 30 days"
	authorize --days 10 -o EK3.crt EK.csr
	sgpu-measure certify -k EK.pem --certificate EK3.crt -o AK.crt AK.csr
	lasts AK.crt 10
	sgpu-measure certify -k EK.pem --certificate EK3.crt --days 2 -o AK.crt AK.csr
	lasts AK.crt 2
}

@test "a request that its key did not sign is refused" {
	requires openssl
	# The last byte of the signature.
	openssl req -in AK.csr -outform DER >request.der
	size=$(stat -c %s request.der)
	printf '%b' "\\x$(tail -c 1 request.der | xxd -p | tr 0-9a-f 1-9a-f0)" |
		dd of=request.der bs=1 seek=$((size - 1)) conv=notrunc status=none
	openssl req -inform DER -in request.der -out altered 2>/dev/null
	for who in endorse authorize; do
		run --separate-stderr -4 $who --json -o new.crt altered
		assert_contains "$stderr" '"ESIGNATURE"'
		assert_no_file new.crt
	done
	# Nor does a key certify itself.
	run -1 endorse -o new.crt EK.csr
}

@test "hostile requests and files are malformed, and nothing is written" {
	: >empty
	head -c 3000 /dev/urandom >noise
	head -c 900000 /dev/zero | tr '\0' A >long
	head -n 3 AK.csr >headless
	cat EK.pem AK.csr >key-first
	cat AK.csr EK.pem >key-last
	cat AK.csr EK.csr >two
	sed '1a Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00112233445566778899AABBCCDDEEFF\n' AK.csr >encrypted
	# Without a terminal, a prompt for a password would be seen on standard error.
	for file in empty noise long headless CA.crt key-first key-last two encrypted; do
		run --separate-stderr -1 setsid -w sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt "$file" </dev/null
		[ "$(wc -l <<<"$stderr")" -le 2 ]
		[[ "$stderr" = "sgpu-measure: error: "* ]]
		assert_no_file AK.crt
	done
	for file in empty noise AK.csr; do
		run -1 sgpu-measure certify -k EK.pem --certificate "$file" -o AK.crt AK.csr
		assert_no_file AK.crt
	done
	chmod 600 noise empty
	for file in empty noise; do
		run -1 sgpu-measure certify -k "$file" --certificate EK.crt -o AK.crt AK.csr
		assert_no_file AK.crt
	done
}

@test "a key certifies only with its own certificate" {
	run -4 sgpu-measure certify -k EK.pem --certificate CA.crt -o AK.crt AK.csr
	run -4 sgpu-measure certify -k CA.pem --certificate EK.crt -o AK.crt AK.csr
	endorse -o AK.crt AK.csr
	run -1 sgpu-measure certify -k AK.pem --certificate AK.crt -o other.crt EK.csr
	assert_no_file other.crt
}

@test "what makes no sense is a usage error, and writes nothing" {
	run -2 sgpu-measure
	run -2 sgpu-measure nonsense
	run -2 sgpu-measure keygen
	run -2 sgpu-measure keygen -o -
	run -2 sgpu-measure keygen -o one.out extra
	run -2 sgpu-measure keygen -o one.out --request one.out
	run -2 sgpu-measure keygen -o one.out --authority one.out
	run -2 sgpu-measure keygen -o one.out --authority two.out --request two.out
	run -2 sgpu-measure keygen -o one.out --authority two.out --days 0
	run -2 sgpu-measure keygen -o one.out --authority two.out --days 1x
	run -2 sgpu-measure keygen -o one.out --days 1
	run -2 sgpu-measure keygen -o one.out --name x
	run -2 sgpu-measure certify -k EK.pem AK.csr
	run -2 sgpu-measure certify --certificate EK.crt AK.csr
	run -2 sgpu-measure certify -k - --certificate EK.crt
	run -2 endorse -o AK.csr AK.csr
	run -2 endorse -o EK.crt AK.csr
	run -2 endorse --days 0 AK.csr
	assert_no_file one.out two.out
}
