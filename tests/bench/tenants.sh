#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tenants.sh [ROUNDS]: what users of sgpu-serve get of the CPU device beside each other, as root. In each round, in turns:
#   alone      one user with 8 batches at once: batches a second
#   3:1        two such users, of weight 3 and 1: batches of the first for each of the second, batches a second of both, and
#              the time of their turns; goals: 2.9 to 3.1, and 0.95 of alone
#   latency    a user of high priority with one batch at a time, alone and beside the flood of another: median and 99th
#              percentile in microseconds; goal: 1.1 of alone
# SGPU_SCALE=full scripts/run-tests.sh serve-scale has 64 users.
#   COUNT        batches of a user (2000)
#   ELEMENTS     numbers in each of two inputs and an output (4096)
#   RUNNING      of the server (its default)
#   SGPU_BUILD   directory with the built programs (build)
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
build=$(cd "${SGPU_BUILD:-build}" && pwd) || exit 1
PATH=$build/bin:$PATH
rounds=${1:-3}
count=${COUNT:-2000} elements=${ELEMENTS:-4096}
work=$(mktemp -d /tmp/sgpu-tenants.XXXXXX) || exit 1
server=
trap 'stop; rm -rf "$work"' EXIT
cd "$work" && chmod 0755 . && mkdir -m 0755 service || exit 1
sgpu-seal keygen -q --x25519 -o runner.jwk && sgpu-seal pubkey -q -o runner.pub.jwk runner.jwk || exit 1

start() {
	printf '%s\n' "$@" >tenants
	: >log
	sgpu-serve -k runner.jwk --everybody --tenants tenants --socket "$work/service/socket" \
		${RUNNING:+--running "$RUNNING"} 2>log &
	server=$!
	until grep -q 'serving at' log; do
		kill -0 $server || exit 1
		sleep 0.05
	done
}

stop() {
	[ -z "$server" ] || kill "$server"
	wait
	server=
}

# load LOAD...: into `figures`.
load() {
	"$build/bench/tenants" "$work/service/socket" runner.pub.jwk "$elements" "$@" >figures || exit 1
}

shares() {
	start '65001 weight=3'
	load "65001:$count:8"
	awk '$1 == "all" { printf "alone    %.0f batches/s\n", $2 / $3 }' figures | tee alone
	stop
	start '65001 weight=3'
	load "65001:$count:8" +65002:0:8
	sgpu-serve status --json --socket "$work/service/socket" |
		jq -r '[.status.tenants | sort_by(.uid)[].busy_ns] | .[0] / .[1]' >turns
	awk -v turns="$(cat turns)" -v alone="$(awk '{ print $2 }' alone)" '
		NR == 1 { n = $2 } NR == 2 { m = $2 }
		$1 == "all" { printf "3:1      %.2f, turns %.2f, %.0f batches/s, %.2f of alone\n", n / m, turns, (n + m) / $3,
			(n + m) / $3 / alone }' figures
	stop
}

latency() {
	start '65001 priority=high'
	load "65001:$count:1"
	awk 'NR == 1 { printf "latency  alone %d, %d us\n", $4, $5 }' figures
	load "65001:$count:1" +65002:0:8
	awk 'NR == 1 { printf "latency  beside a flood %d, %d us\n", $4, $5 }' figures
	stop
}

for ((round = 0; round < rounds; round++)); do
	read -r load _ </proc/loadavg
	echo "load $load"
	shares
	latency
done
