# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # the tests that load this use what it sets
#
# What the tests of sgpu-worker share: a small batch, a directory full of it, and what must be there in the end.

load helpers

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	make_keys 2>/dev/null
	small_job 64
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >sealed
	mkdir spool
}

worker() {
	sgpu-worker -k runner.jwk --device cpu "$@"
}

# fill COUNT [DIR]: so many batches, of one content.
fill() {
	# shellcheck disable=SC2016
	seq -f "${2:-spool}/b%.0f" "$1" | xargs sh -c 'tee "$@" <sealed >/dev/null' sh
}

# opens RESPONSE...: each of them verifies, and is right.
opens() {
	local response
	for response in "$@"; do
		rm -rf opened
		sgpu-seal open -q -k owner.jwk -C opened "$response" && assert_same expected.f32 opened/out.f32 || return 1
	done
}

# all_answered COUNT: every batch is done and has a response, and there is nothing else.
all_answered() {
	[ "$(find spool/done -type f | wc -l)" -eq "$1" ] &&
		[ "$(find spool -maxdepth 1 -name 'b*.response' | wc -l)" -eq "$1" ] &&
		[ -z "$(find spool/failed spool/.claimed -mindepth 1)" ] &&
		[ -z "$(find spool -maxdepth 1 -type f ! -name '*.response')" ]
}
