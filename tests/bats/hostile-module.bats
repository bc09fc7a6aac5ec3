#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Modules that mean harm, or are broken, on the CPU device: what they cannot do, and whom they take with them.
# shellcheck disable=SC2154 # bats sets stderr

load hostile-module

@test "what a module may do it does: compute, in threads, print to nobody; it sees no file, no variable, no descriptor" {
	local number
	for number in 100 101 102 103 104 105 106; do
		run --separate-stderr -0 try "$number"
		[[ $stderr$output != *"out of line"* && $stderr != *"and here"* ]]
		results
		assert_same out/y.f32 zeros
	done
}

@test "what a module prints and asserts of HIGH data reaches neither the log nor the response" {
	batch 209
	# shellcheck disable=SC2016
	run -5 bash -c 'sgpu-run --device cpu --allow-modules -k owner.jwk batch.tar 2>log | tee response >/dev/null
		exit "${PIPESTATUS[0]}"'
	assert_contains "$(cat log)" "SIGABRT"
	run -1 grep -aq 'read 7\|Assertion' log response
	run -5 results
	assert_same out/w.f32 x.f32
}

@test "what a driver or a library prints in the process of the runner goes nowhere, what the runner prints arrives" {
	local runner fd
	requires root no-sanitizer
	batch 108 # which sleeps until it is ended here
	sgpu-run --device cpu --allow-modules -k owner.jwk batch.tar >response 2>log 3>&- & runner=$!
	is_silenced() {
		[ "$(readlink "/proc/$runner/fd/2")" = /dev/null ] || [ ! -d "/proc/$runner" ]
	}
	wait_for is_silenced
	for fd in 1 2; do
		[ "$(readlink "/proc/$runner/fd/$fd")" = /dev/null ]
	done
	kill -TERM "$runner"
	wait "$runner" || [ $? -eq 143 ]
	grep -q '^sgpu-run: batch .* ECANCELED' log
}

@test "a call that no module needs ends the runner with status 4 and is named, and no response is given" {
	local number
	for number in $refused; do
		run --separate-stderr -4 try "${number%%:*}"
		assert_contains "$stderr" "module 'code', function 'does': system call"
		assert_contains "$stderr" "(${number#*:}) refused: no module needs it"
		assert_no_file response
	done
}

@test "no memory is both written and run, whatever a constructor prepares" {
	local how
	[ "$(uname -m)" = x86_64 ] || skip "for x86-64"
	cat >code.c <<-'END'
	#define _GNU_SOURCE
	#include <pthread.h>
	#include <stdint.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/prctl.h>
	#include <sys/socket.h>
	#include <unistd.h>

	#include <device/cpu/module_wire.h>
	#include <host.h>

	static char *writable, *code;

	static int run_it(void)
	{
		static const unsigned char returns_42[] = { 0xb8, 42, 0, 0, 0, 0xc3 };
		int (*function)(void);

		if (!writable || !code || writable == MAP_FAILED || code == MAP_FAILED) {
			return 0;
		}
		memcpy(writable, returns_42, sizeof(returns_42));
		memcpy(&function, &code, sizeof(function));
		return function();
	}

	#ifdef SHARED
	__attribute__((constructor)) static void prepare(void)
	{
		code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		writable = code == MAP_FAILED ? code : mremap(code, 0, 4096, MREMAP_MAYMOVE); /* the same, once more */
		if (writable != MAP_FAILED) {
			mprotect(writable, 4096, PROT_READ | PROT_WRITE);
		}
	}
	#elif defined THREAD || defined LOADED
	/* A call of a second thread could be made after the first one has what is written. */
	static void *second(void *argument)
	{
	#ifdef THREAD
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, -1, 0);
	#else
		prctl(HOST_ALL_LOADED);
	#endif
		return argument;
	}

	__attribute__((constructor)) static void start(void)
	{
		pthread_t thread;

		pthread_create(&thread, NULL, second, NULL);
		pthread_join(thread, NULL);
	}
	#else
	/* Never returns: it says that all is loaded, and takes the memory of a launch for code. */
	__attribute__((constructor)) static void pose(void)
	{
		union {
			struct cmsghdr head;
			char space[CMSG_SPACE(sizeof(int))];
		} passed;
		struct sgpu_host_answer answer = { .kind = SGPU_HOST_LOADED };
		struct sgpu_host_call call;
		struct iovec part = { &call, sizeof(call) };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &passed, .msg_controllen = sizeof(passed) };
		int memory;

		(void)!write(WORKER_CHANNEL, &answer, sizeof(answer));
		if (recvmsg(WORKER_CHANNEL, &message, 0) > 0 && message.msg_controllen) {
			memcpy(&memory, CMSG_DATA(&passed.head), sizeof(memory));
			writable = mmap(NULL, call.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
			code = mmap(NULL, call.size, PROT_READ | PROT_EXEC, MAP_PRIVATE, memory, 0);
		}
		_exit(run_it());
	}
	#endif

	int does(const struct sgpu_module_shape *shape, void *const *args, int count)
	{
		(void)shape;
		(void)args;
		(void)count;
		return run_it();
	}
	END
	for how in SHARED:mmap POSE:recvmsg THREAD:mmap LOADED:prctl; do
		compile -shared -fPIC -D"${how%:*}" -I"$SGPU_TOP/include" -I"$SGPU_TOP/lib" \
			-I"$SGPU_TOP/tools/module-host" -o evil.so code.c
		run --separate-stderr -4 try 0
		assert_contains "$stderr" "(${how#*:}) refused: no module needs it"
		assert_no_file response
	done
}

@test "a call that a thread makes after its function has returned ends the runner, too" {
	# Another module goes on for longer than the thread waits, beside it also on a single processor.
	batch 207
	sed -i -e 's/"kernel": "copy", "arguments": { "input": "x", "output": "w" }/"kernel": "module:again:does",\
		"arguments": { "input": "x", "output": "w" }, "params": ["output", "input", { "i32": 109 }]/' \
		-e 's/"segments": \[/&{ "segment_id": "again", "data_location_client": "evil.so", "sensitivity_level": "HIGH",\
		"direction": "INPUT" },/' job.json
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	local timeout
	for timeout in 60s 1s; do
		run --separate-stderr -4 sgpu-run --device cpu -j 4 --timeout $timeout --allow-modules -k owner.jwk -o response batch.tar
		assert_contains "$stderr" "refused, after its function had returned"
		assert_no_file response
	done
}

@test "no result goes to the response's file before all modules have kept the rules" {
	# The copy is large enough to be written to its place at once, and ends long before the other module's call.
	batch 207
	head -c 2097152 /dev/zero >large
	sed -i -e 's/"kernel": "copy", "arguments": { "input": "x", "output": "w" }/"kernel": "module:again:does",\
		"arguments": { "input": "x", "output": "w" }, "params": ["output", "input", { "i32": 109 }]/' \
		-e 's/"segments": \[/&{ "segment_id": "again", "data_location_client": "evil.so", "sensitivity_level": "HIGH",\
		"direction": "INPUT" },\
		{ "segment_id": "large", "data_location_client": "large", "sensitivity_level": "HIGH", "direction": "INPUT",\
		"data_type_info": { "dtype": "u8", "shape": [2097152] } },\
		{ "segment_id": "copied", "data_location_client": "copied", "sensitivity_level": "HIGH", "direction": "OUTPUT",\
		"data_type_info": { "dtype": "u8", "shape": [2097152] } },/' \
		-e 's/"operations": \[/&{ "gpu_operation_id": "COPY_LARGE", "kernel": "copy",\
		"arguments": { "input": "large", "output": "copied" } },/' job.json
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	run --separate-stderr -4 bash -c 'sgpu-run --device cpu -j 4 --allow-modules -k owner.jwk batch.tar 1<>response'
	assert_contains "$stderr" "refused, after its function had returned"
	[ "$(tar tf response)" = refusal.json ]
	[ "$(stat -c %s response)" -lt 4096 ]
}

@test "a module that answers what it was not asked ends its process, and makes no call that is refused" {
	run --separate-stderr try 39
	[ "$status" -eq 4 ] || [ "$status" -eq 5 ]
	[ "$status" -eq 4 ] || assert_contains "$stderr" "its process ended"
}

@test "calls by the numbers of other architectures end the runner, too" {
	local number
	[ "$(uname -m)" = x86_64 ] || skip "for x86-64"
	for number in 50 51; do
		run --separate-stderr -4 try "$number"
		assert_contains "$stderr" "a system call was refused that no module needs"
		assert_no_file response
	done
}

@test "a module that ends its process fails its operation alone, even with status 0" {
	local number
	for number in "200:status 0" "201:status 3" "202:SIGABRT" "203:SIGSEGV" "204:SIGILL" "206:SIGSEGV" "208:its process"; do
		run --separate-stderr -5 try "${number%%:*}"
		assert_contains "$stderr" "${number#*:}"
		run -5 results
		assert_same out/w.f32 x.f32
		assert_no_file out/y.f32
	done
}

@test "a module that answers a launch that it did not take gets no other: else their descriptors would pile up" {
	requires python3
	batch 210
	python3 - <<-'END'
	import json
	job = json.load(open("job.json"))
	for i in range(2):
	    job["segments"].append(dict(job["segments"][2], segment_id=f"y{i}", data_location_client=f"y{i}"))
	    job["operations"].append(dict(job["operations"][0], gpu_operation_id=f"RUN{i}", arguments={"input": "x", "output": f"y{i}"}))
	json.dump(job, open("job.json", "w"))
	END
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	run --separate-stderr -5 sgpu-run --device cpu --allow-modules -k owner.jwk --timeout 60s -o response batch.tar
	assert_contains "$stderr" "its process takes no launch"
	run -5 results
	assert_same out/w.f32 x.f32
}

# apart NUMBER: as batch, and w is a copy of v, which nothing else reads: so it goes to another device.
apart() {
	batch "$1"
	python3 - <<-'END'
	import json
	job = json.load(open("job.json"))
	job["segments"].append({"segment_id": "v", "data_location_client": "x.f32", "sensitivity_level": "HIGH",
	                        "direction": "INPUT", "data_type_info": {"dtype": "f32", "shape": [10]}})
	job["operations"][2]["arguments"]["input"] = "v"
	json.dump(job, open("job.json", "w"))
	END
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
}

@test "on one of two devices a module that ends its process fails its operation alone, and one that breaks a rule the run" {
	requires python3
	local number
	local -a run_apart=(sgpu-run --device "cpu,cpu" --allow-modules -k owner.jwk -o response batch.tar)
	for number in "201:status 3" "203:SIGSEGV" "208:its process"; do
		apart "${number%%:*}"
		sgpu-manifest show --json --devices 2 job.json >plan
		[ "$(python3 -c 'import json; print(len({o["device"] for o in json.load(open("plan"))["operations"]}))')" -eq 2 ]
		run --separate-stderr -5 "${run_apart[@]}"
		assert_contains "$stderr" "${number#*:}"
		run -5 results
		assert_same out/w.f32 x.f32
		assert_no_file out/y.f32
		rm response
	done
	apart 3
	run --separate-stderr -4 "${run_apart[@]}"
	assert_contains "$stderr" "(socket) refused: no module needs it"
	assert_no_file response
}

@test "what a module writes besides its outputs stays with it" {
	run --separate-stderr -0 try 205
	results
	assert_same out/y.f32 zeros
	assert_same out/z.f32 x.f32
	assert_same out/w.f32 x.f32
}

@test "damaged images end their own process and no other" {
	local i at size status crashed=0
	size=$(stat -c %s "$BATS_FILE_TMPDIR/evil.so")
	for ((i = 0; i < ${SGPU_DAMAGED_IMAGES:-50}; i++)); do
		cp "$BATS_FILE_TMPDIR/evil.so" .
		# Every second one in what the loader reads first; always the same ones.
		at=$(((i * 7919 + 13) % (i % 2 ? 4096 : size)))
		# shellcheck disable=SC2059 # the format is an escape on purpose
		printf "\\x$(printf %02x $((i * 37 % 256)))" | dd of=evil.so bs=1 seek="$at" conv=notrunc status=none
		status=0
		try 100 2>message || status=$?
		! grep -q 'its process was ended by signal' message || crashed=$((crashed + 1))
		case $status in
		0 | 5) ;;
		4) grep -q 'refused' message ;;
		*)
			echo "image $i, byte $at: status $status" >&2
			cat message >&2
			return 1
			;;
		esac
	done
	[ "$crashed" -gt 0 ] # else the trial says nothing
}
