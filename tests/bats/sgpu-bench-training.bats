#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats sets stderr
#
# sgpu-bench run training verifies what it trains, and graviton finds its figures.

load helpers

# told REGEX: the first number after it on standard error.
told() {
	sed -n "s/.*$1 \([0-9.]*\).*/\1/p" <<<"$stderr"
}

@test "both networks are trained sealed and unsealed, and their loss falls" {
	# One training takes a minute under the thread checker, where "every case passes or is waived" has one, too.
	[ "${SGPU_SANITIZE:-}" != thread ] || skip "all cases are run by sgpu-bench.bats, and training is among them"
	run --separate-stderr -0 sgpu-bench run training --quick --samples 1 --device cpu --json
	[ "$(grep -c '"status":"passed"' <<<"$output")" -eq 4 ]
	[ "$(grep -c '"variant":"sealed"' <<<"$output")" -eq 2 ]
	for network in cnn autoencoder; do
		awk "BEGIN { exit !($(told "$network: loss .* before,") < $(told "$network: loss")) }"
	done
	printf '%s\n' "$output" >run.json
	run -0 --separate-stderr sgpu-bench graviton run.json
	grep -q '^| figure 10 *| Cifar-10, training .* x *| here a step' <<<"$output"
	grep -q '^| figure 11 *| MNIST autoencoder .* x *| here a step' <<<"$output"
}
