#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sgpu-measure: keys that live in a TPM 2.0, here one in software.
# shellcheck disable=SC2154 # variables that run sets

load helpers

nonce=00112233445566778899aabbccddeeff

# start_tpm NAME: a TPM with a seed of its own, which listens on sockets in the test's folder and is used from now on.
start_tpm() {
	mkdir -p "$1"
	swtpm socket --tpm2 --tpmstate "dir=$PWD/$1" --server "type=unixio,path=$PWD/$1/socket" \
		--ctrl "type=unixio,path=$PWD/$1/socket.ctrl" --flags not-need-init,startup-clear --daemon --pid "file=$PWD/$1/pid"
	use_tpm "$1"
}

use_tpm() {
	export TPM2OPENSSL_TCTI=swtpm:path=$PWD/$1/socket
}

setup() {
	requires swtpm tpm2-openssl
	cd "$BATS_TEST_TMPDIR" || return 1
	export TSS2_LOG=all+NONE
	start_tpm tpm
}

teardown() {
	local pid
	for pid in "$BATS_TEST_TMPDIR"/*/pid; do
		[ ! -s "$pid" ] || kill "$(cat "$pid")" || true
	done
	sgpu_teardown
}

@test "a machine whose keys are in a TPM is certified, and its quote verifies" {
	sgpu-measure keygen -o CA.pem --authority CA.crt
	sgpu-measure keygen --tpm -o EK.pem | sgpu-measure certify -k CA.pem --certificate CA.crt -o EK.crt
	sgpu-measure keygen --tpm -o AK.pem | sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt
	grep -q "BEGIN TSS2 PRIVATE KEY" EK.pem
	grep -q "BEGIN TSS2 PRIVATE KEY" AK.pem
	[ "$(stat -c %a AK.pem)" = 600 ]
	sgpu-measure quote -k AK.pem --certificate AK.crt --nonce "$nonce" --device cpu -o quote.json
	# Who verifies has no TPM.
	unset TPM2OPENSSL_TCTI
	run -0 --separate-stderr sgpu-measure verify --roots CA.crt --nonce "$nonce" quote.json
	[ -z "$stderr" ]
	run -4 sgpu-measure verify --roots CA.crt --nonce "ff$nonce" quote.json
}

@test "a key file is of no use without the TPM that made it" {
	sgpu-measure keygen -o CA.pem --authority CA.crt
	sgpu-measure keygen --tpm -o EK.pem | sgpu-measure certify -k CA.pem --certificate CA.crt -o EK.crt
	sgpu-measure keygen -o AK.pem --request AK.csr
	start_tpm other
	run --separate-stderr ! sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt AK.csr
	assert_contains "$stderr" "this TPM"
	assert_no_file AK.crt
	use_tpm tpm
	sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt AK.csr
	grep -q "BEGIN PRIVATE KEY" AK.pem
}

@test "keys in a TPM and in files work together" {
	sgpu-measure keygen -o CA.pem --authority CA.crt
	sgpu-measure keygen -o EK.pem | sgpu-measure certify -k CA.pem --certificate CA.crt -o EK.crt
	sgpu-measure keygen --tpm -o AK.pem | sgpu-measure certify -k EK.pem --certificate EK.crt -o AK.crt
	sgpu-measure quote -k AK.pem --certificate AK.crt --nonce "$nonce" --device cpu -o quote.json
	run -0 sgpu-measure verify --roots CA.crt --nonce "$nonce" quote.json
}

@test "without a TPM the reason and the way out are told, and no file is left" {
	TPM2OPENSSL_TCTI=swtpm:path=$PWD/nowhere
	run --separate-stderr -3 sgpu-measure keygen --tpm -o new.pem --request new.csr
	assert_contains "$stderr" "TPM2OPENSSL_TCTI"
	assert_contains "$stderr" "tpm2-openssl"
	assert_no_file new.pem new.csr
	# Keys in files need none.
	sgpu-measure keygen -o file.pem --request file.csr
}

@test "without the provider the package is named" {
	mkdir modules
	OPENSSL_MODULES=$PWD/modules run --separate-stderr -3 sgpu-measure keygen --tpm -o new.pem
	assert_contains "$stderr" "tpm2-openssl"
	assert_no_file new.pem
}
