#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bandwidth.sh: the case bandwidth beside bandwidth_bare, bare CUDA calls by nvbandwidth's method, in turns, ROUNDS times: for
# each direction and size both medians in GB/s and their ratio. nvbandwidth's own size is 512 MiB, which the sweep of
# sgpu-bench does not have: it is compared at 256 MiB. Exit 1 when a ratio is off by more than 2 %.
#   DEVICE       cuda (the default), or another GPU: CUDA_VISIBLE_DEVICES selects that of the bare calls
#   ROUNDS       2, of some 10 s each
#   SGPU_BUILD   folder with the built programs (build); make programs benches
set -uo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
build=${SGPU_BUILD:-build}
device=${DEVICE:-cuda}
if [ ! -x "$build/bench/bandwidth_bare" ]; then
	echo "bandwidth.sh: '$build/bench/bandwidth_bare' is missing: make benches, where nvcc is" >&2
	exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

for ((round = 0; round < ${ROUNDS:-2}; round++)); do
	for mib in 256 512; do
		"$build/bench/bandwidth_bare" "$mib" | sed "s/^/$mib /" | tee -a "$work/bare" | sed 's/^/bare, MiB: /' || exit 3
	done
	"$build/bin/sgpu-bench" run -q --device "$device" --json --size 256M --samples 11 bandwidth >"$work/json" || exit 3
	jq -r 'select(.variant == "pinned" and .status == "passed") |
		"\(.parameters.size_bytes / 1048576) \(.parameters.direction) \(.bytes_per_second)"' "$work/json" |
		tee -a "$work/sgpu" | sed 's/^/sgpu, MiB: /'
done

# median FILE MIB DIRECTION
median() {
	awk -v mib="$2" -v direction="$3" '$1 == mib && $2 == direction { print $3 }' "$1" | sort -n |
		awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

bad=0
printf '%-9s %8s %8s %12s %12s %7s\n' direction bare sgpu 'bare GB/s' 'sgpu GB/s' ratio
for direction in h2d d2h; do
	for mib in 256 512; do
		bare=$(median "$work/bare" "$mib" "$direction")
		sgpu=$(median "$work/sgpu" 256 "$direction")
		awk -v d="$direction" -v one="$mib" -v other=256 -v bare="${bare:-0}" -v sgpu="${sgpu:-0}" 'BEGIN {
			ratio = bare > 0 ? sgpu / bare : 0
			printf "%-9s %4d MiB %4d MiB %12.2f %12.2f %7.4f\n", d, one, other, bare / 1e9, sgpu / 1e9, ratio
			exit !(ratio >= 0.98 && ratio <= 1.02)
		}' || bad=1
	done
done
exit $bad
