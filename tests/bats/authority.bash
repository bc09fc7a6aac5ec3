# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the tests that load this use what it sets
#
# What tests of quotes share: an attestation key with its certificate, and the authority that made this.

NONCE=000102030405060708090a0b0c0d0e0f

# The machine's keys and the authority's, once.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-measure keygen -o ca.pem --authority ca.crt
	sgpu-measure keygen -o ek.pem | sgpu-measure certify -k ca.pem --certificate ca.crt -o ek.crt
	sgpu-measure keygen -o ak.pem | sgpu-measure certify -k ek.pem --certificate ek.crt -o ak.crt
}
