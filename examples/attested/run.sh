#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [DIR]: the job of ../fashion-knn, sealed only to a runner that proved what it is. Results stay in DIR, if it
# is given. RUNNER is the program that runs (default: sgpu-run), DEVICE "cpu" (the default) or "cuda".
set -eu; umask 077
knn=$(cd "$(dirname "$0")/../fashion-knn" && pwd)
folder=${1:-$(mktemp -d)}
trap 'kill ${runner:-} 2>/dev/null || true; [ -n "${1:-}" ] || rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
accuracy=$("$knn/run.sh" "$folder") # the payloads, and what is to come out
cd "$folder"
rm -rf expected ./*.pem ./*.jwk ./*.crt quote pipe response; mv out expected

# An authority certifies a key that names the machine (ek), and that key certifies the one that signs quotes (ak).
sgpu-measure keygen -o ca.pem --authority ca.crt
sgpu-measure keygen -o ek.pem | sgpu-measure certify -k ca.pem --certificate ca.crt -o ek.crt
sgpu-measure keygen -o ak.pem | sgpu-measure certify -k ek.pem --certificate ek.crt -o ak.crt

# The owner: which programs may have the data, whose work they take, and a number that no old quote can know.
sgpu-seal keygen -q -o owner.jwk
sgpu-seal keyinfo --owner -o owners owner.jwk
sgpu-measure policy -q --build "$(dirname "$(command -v sgpu-run)")/.." --owners owners --at-least plain -o policy.json
nonce=$(od -An -N 32 -t x1 /dev/urandom | tr -d ' \n')

# The machine: a runner that quotes first, and then waits for a batch.
mkfifo pipe
"${RUNNER:-sgpu-run}" -q --device "${DEVICE:-cpu}" --quote quote --nonce "$nonce" --attestation-key ak.pem \
	--certificate ak.crt --owners owners -o response pipe &
runner=$!
while [ ! -e quote ]; do kill -0 $runner; sleep 0.1; done

# The owner: only a quote that verifies and that the policy accepts gives the key to seal to.
sgpu-measure appraise -p policy.json --roots ca.crt --nonce "$nonce" --recipient recipient.jwk quote
sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r recipient.jwk >pipe
wait $runner
sgpu-seal open -k owner.jwk -C out response
cmp out/labels.i32 expected/labels.i32
echo "attested: $accuracy, as without"
