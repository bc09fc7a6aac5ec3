# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# The cases and options of sgpu-bench that are about GPUs, on a device that is none: what they measure and what they waive.

load helpers

# quick CASE... [OPTION...]: few samples of small sizes.
quick() {
	sgpu-bench run --device cpu --samples 3 "$@"
}

@test "run --timer takes the three timers, and a CPU device has one of its own" {
	requires python3
	for timer in auto events globaltimer; do
		run -0 --separate-stderr quick -q --json --size 64K --timer "$timer" measure
		[[ ${lines[0]} == *'"device_timer":"host"'* ]]
		[ -z "$stderr" ]
	done
	run -2 --separate-stderr quick --timer clock measure
	[[ $stderr == *"--timer 'clock' is none of 'auto', 'events' and 'globaltimer'"* ]]
	[ -z "$output" ]
}

@test "bandwidth on a device that pins no memory is of pageable memory, and says so once" {
	run -0 --separate-stderr quick --size 4K:64K bandwidth
	[ "$(grep -c "pins no memory" <<<"$output")" -eq 1 ]
	[ "$(grep -c "| pageable  *|" <<<"$output")" -eq 9 ]
	[[ $output != *" x pinned"* ]]
}

@test "a point of what only a GPU does is waived with its reason" {
	run -0 --separate-stderr quick transition
	[[ $output == *"| gpu "*"waived: no GPU: the device is 'cpu'"* ]]
	[[ $stderr == *"1 passed, 0 waived, 0 failed"* ]]
}
