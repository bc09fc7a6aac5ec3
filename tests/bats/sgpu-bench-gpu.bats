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
		run -0 --separate-stderr quick -q --json --size 4K --timer "$timer" alloc
		[[ ${lines[0]} == *'"device_timer":"host","device_timer_difference":null'* ]]
		[ -z "$stderr" ]
	done
	run -2 --separate-stderr quick --timer clock alloc
	[[ $stderr == *"--timer 'clock' is none of 'auto', 'events' and 'globaltimer'"* ]]
	[ -z "$output" ]
}
