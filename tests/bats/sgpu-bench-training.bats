#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats sets stderr
#
# sgpu-bench run training: what it says of its pictures, and that it verifies what it trains.

load helpers

# train: one sample of each.
train() {
	run --separate-stderr -0 sgpu-bench run training --quick --samples 1 --device cpu --json
}

# One training takes a minute under the thread checker, where "every case passes or is waived" has one, too. Pictures are
# read by one thread.
trained_elsewhere() {
	[ "${SGPU_SANITIZE:-}" != thread ] || skip "all cases are run by sgpu-bench.bats, and training is among them"
}

# told REGEX: the first number after it on standard error.
told() {
	sed -n "s/.*$1 \([0-9.]*\).*/\1/p" <<<"$stderr"
}

@test "both networks are trained sealed and unsealed, on made pictures where there are no others" {
	trained_elsewhere
	SGPU_FASHION_MNIST=$PWD train
	[ "$(grep -c '"status":"passed"' <<<"$output")" -eq 4 ]
	[ "$(grep -c '"data":"made"' <<<"$output")" -eq 4 ]
	[ "$(grep -c '"variant":"sealed"' <<<"$output")" -eq 2 ]
	assert_contains "$stderr" "training: cnn: accuracy "
}

@test "the loss falls on the pictures of Fashion-MNIST" {
	requires fashion-mnist
	train
	[ "$(grep -c '"data":"fashion-mnist"' <<<"$output")" -eq 4 ]
	for network in cnn autoencoder; do
		awk "BEGIN { exit !($(told "$network: loss .* before,") < $(told "$network: loss")) }"
	done
}

@test "files that are no pictures are not trained on" {
	trained_elsewhere
	head -c 100 /dev/zero | gzip >train-images-idx3-ubyte.gz
	echo "no gzip" >train-labels-idx1-ubyte.gz
	SGPU_FASHION_MNIST=$PWD train
	[ "$(grep -c '"data":"made"' <<<"$output")" -eq 4 ]
}
