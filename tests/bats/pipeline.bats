#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The tools together, in every arrangement that a user may choose: pipes, files, one key, with and without staging.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys
	small_job 50000
	set -o pipefail
}

# results DIR: what the job must have made.
results() {
	assert_same "$1/out.f32" expected.f32 && assert_same "$1/bias.copy.f32" bias.f32
}

no_region() {
	[ -z "$(sgpu-stage list --json | tr -d '[] \n')" ] ||
		[ "$(sgpu-stage list -q | grep -cE '[0-9a-f]{32}')" -eq 0 ]
}

@test "manifest, seal, stage, run and open work as one pipe" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | sgpu-stage load |
		sgpu-run -k runner.jwk | sgpu-seal open -k owner.jwk -C out
	results out
	no_region
}

@test "one shared symmetric key does in place of the three" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk | sgpu-stage load | sgpu-run -k owner.jwk |
		sgpu-seal open -k owner.jwk -C out
	results out
	no_region
}

@test "sgpu-stage can be left out" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk | sgpu-run -k runner.jwk |
		sgpu-seal open -k owner.jwk -C out
	results out
}

@test "files can stand between any two tools, and tar lists each" {
	sgpu-manifest pack -o packed job.json
	tar tvf packed >list
	grep -q ' batch.json$' list
	run ! grep -q 'segments/scan' list
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o sealed packed
	tar tvf sealed >list
	grep -q ' segments/scan$' list
	sgpu-stage load -o staged sealed
	tar tvf staged >list
	grep -q ' manifest.json$' list
	run ! grep -q 'segments/' list
	sgpu-run -k runner.jwk -o response staged
	tar tvf response >list
	grep -q ' segments/result$' list
	grep -q ' response.json$' list
	sgpu-seal open -k owner.jwk -C out response
	results out
	no_region
}

@test "standard input and output do in place of names" {
	sgpu-manifest pack job.json >packed
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk <packed >sealed
	sgpu-stage load <sealed >staged
	sgpu-run submit -k runner.jwk - <staged >response
	sgpu-seal open -k owner.jwk -C out <response
	results out
}

@test "the response never holds what is HIGH in the clear" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed
	sgpu-run -k runner.jwk sealed >response
	tar xOf response segments/result >result
	[ "$(stat -c %s result)" -gt 200000 ]
	tail -c +57 result >opaque
	run ! cmp -s -n 4096 opaque expected.f32
	tar xOf response segments/bias_copy | cmp - bias.f32
}

@test "a job of LOW segments alone needs no key" {
	sed 's/"HIGH"/"LOW"/' job.json >low.json
	sgpu-manifest pack low.json | sgpu-stage load --files . | sgpu-run >response
	tar xOf response segments/result | cmp - expected.f32
	no_region
}

@test "runs give the same bytes whatever the number of workers" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk >sealed
	for jobs in 1 2 7; do
		sgpu-run -j $jobs -k owner.jwk sealed | sgpu-seal open -k owner.jwk -C out$jobs
		results out$jobs
	done
}

@test "a staged batch that is run twice fails the second time" {
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk | sgpu-stage load >staged
	sgpu-run -k owner.jwk -o response staged
	no_region
	run --separate-stderr -5 sgpu-run -k owner.jwk -o again staged
	run --separate-stderr -5 sgpu-seal open -k owner.jwk -C out again
	[ ! -e out/out.f32 ]
}
