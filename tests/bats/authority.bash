# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the tests that load this use what it sets
#
# What tests of quotes share: an attestation key with its certificate, and the authority that made this.

NONCE=000102030405060708090a0b0c0d0e0f

# The machine's keys and the authority's, once.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-measure provision -o ek.pem --public ek.pub.pem
	sgpu-measure enroll -k ek.pem -o ak.pem --request request
	sgpu-measure ca init -o ca.pem --certificate ca.crt
	sgpu-measure ca sign -k ca.pem --certificate ca.crt --ek ek.pub.pem -o ak.crt request
}
