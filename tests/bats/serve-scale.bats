#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# sgpu-serve with many users at once, eight of them hostile. SGPU_SCALE=full: 56 others with 24024 batches, and a worker
# for each. The figures are of this machine in this hour, so none of them is judged: tests/bench/tenants.sh has the goals.

load serve

# make_crashing: crash.1 to crash.4, batches whose modules end their process, or the worker.
make_crashing() {
	local i
	cat >crash.c <<-'END'
	#define _GNU_SOURCE
	#include <stdlib.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	#include <sgpu/device.h>

	int crash(const struct sgpu_module_shape *shape, void *const *args, int count)
	{
		(void)shape, (void)count;
		switch (*(const int *)args[2]) {
		case 1: abort();
		case 2: *(volatile int *)16 = 1; break;
		case 3: _exit(0);
		default: syscall(SYS_execve, "/bin/true", NULL, NULL);
		}
		return 0;
	}
	END
	compile -shared -fPIC -I"$SGPU_TOP/include" -o crash.so crash.c
	seq 1 10 | floats >x.f32
	for i in 1 2 3 4; do
		cat >crash.json <<-END
		{ "version": 1, "manifest_id": "crash", "segments": [
		  { "segment_id": "code", "data_location_client": "crash.so", "sensitivity_level": "HIGH", "direction": "INPUT" },
		  { "segment_id": "x", "data_location_client": "x.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
		    "data_type_info": { "dtype": "f32", "shape": [10] } },
		  { "segment_id": "y", "data_location_client": "y.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
		    "data_type_info": { "dtype": "f32", "shape": [10] } } ],
		  "operations": [ { "gpu_operation_id": "RUN", "kernel": "module:code:crash",
		    "arguments": { "input": "x", "output": "y" }, "params": ["output", "input", { "i32": $i }] } ] }
		END
		sgpu-manifest pack crash.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >"crash.$i"
	done
}

# hostile USER WHAT...: until the test ends.
hostile() {
	client_of "$1" endlessly "${@:2}" >"hostile.$1" 2>"errors.$1" 3>&- &
	SERVERS+=($!)
}

# The hostile ones have done all that they know.
had_a_round() {
	grep -q '^round$' "hostile.$1"
}

@test "many users, eight of them hostile: no batch is lost, none is mixed up, and each result is of its own input" {
	requires root python3 cc
	local last=65103 each=25 depth=3 elements=1000 workers=8 user
	if [ "${SGPU_SCALE:-}" = full ]; then
		last=65155 each=429 depth=4 elements=4096 workers=72
	elif [ -n "${SGPU_TEST_SMALL:-}${SGPU_SANITIZE:-}" ]; then
		each=8
	fi
	share_socket
	make_crashing
	start_server -k runner.jwk --everybody --allow-modules --workers "$workers" --stall 300ms
	hostile 65401 garbage
	hostile 65402 descriptors batch.tar
	hostile 65403 shrinking batch.tar 4
	hostile 65404 many batch.tar 20
	hostile 65405 dying batch.tar 20
	hostile 65406 damaged batch.tar 20
	hostile 65407 refused crash.1 crash.2 crash.3 crash.4
	client_of 65408 silent 20 600 >silent.out 3>&- &
	SERVERS+=($!)
	client_of 65404 flood batch.tar 32 >flood.out 3>&- &
	SERVERS+=($!)
	for user in 65401 65402 65403 65404 65405 65406 65407; do
		wait_for had_a_round $user
	done
	"$SGPU_BUILD/bench/tenants" "$SOCKET" runner.pub.jwk "$elements" "65100-$last:$each:$depth" >figures
	[ "$(awk '$1 == "all" { print $2 }' figures)" -eq $(((last - 65100 + 1) * each)) ]
	for user in $(seq 65100 "$last"); do
		[ "$(status tenants | awk -v user="$user" '$1 == user { print $4, $5 }')" = "$((each + 1)) 0" ]
	done
	grep -q answered flood.out
	run ! grep -vE 'answered|the limit' flood.out
	run ! grep -h '^taken' hostile.65401 hostile.65407
	run -0 sgpu-run -o response batch.tar
	if [ "${SGPU_SCALE:-}" = full ]; then
		awk '$1 == "all" { print "# " $2 " batches in " $3 " s"; next }
			{ sum += $3; n++; least = n == 1 || $3 < least ? $3 : least; most = $3 > most ? $3 : most }
			END { printf "# when the first had %d: %.2f to %.2f of the mean\n", most, least * n / sum,
				most * n / sum }' figures >&3
	fi
}
