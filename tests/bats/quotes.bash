# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2119,SC2120,SC2154 # bats sets stderr; tests that load this pass owners
#
# Servers that give quotes: keys and authority of a machine, and a policy that accepts its runner.

load serve
load authority

# evidence: an attestation key, and a policy that accepts the server of it
evidence() {
	cp "$BATS_FILE_TMPDIR"/{ak.pem,ak.crt,ca.crt} .
	sgpu-seal keyinfo --owner -o owners owner.jwk
	sgpu-measure policy -q --build "$SGPU_BUILD" --owners owners --at-least plain -o policy.json 2>/dev/null
	# A build for a sanitizer can be debugged.
	[ -z "${SGPU_SANITIZE:-}" ] || sed -i 's/"debug": false/"debug": true/; s/"confinement": true/"confinement": false/' policy.json
}

# serve_quotes OPTION...
serve_quotes() {
	start_server --device cpu --owners owners --state "$PWD/state" --attestation-key ak.pem --certificate ak.crt "$@"
}

attested_server() {
	evidence
	serve_quotes "$@"
}

appraise() {
	sgpu-measure appraise -p policy.json --roots ca.crt --nonce "$NONCE" --recipient recipient.jwk quote
}

# quoted_batch NAME: sealed to the worker of this user, after its quote was appraised.
quoted_batch() {
	sgpu-serve quote --nonce "$NONCE" -o quote
	appraise
	seal_to_quote >"$1"
}

seal_to_quote() {
	sgpu-seal seal -k owner.jwk -r recipient.jwk packed
}

# signer_of WORKER: the process that has the attestation key.
signer_of() {
	tr -d ' ' <"/proc/$1/task/$1/children"
}

opens() {
	sgpu-seal open -k owner.jwk -C "out.$1" "$1"
	assert_same "out.$1/out.f32" expected.f32
}
