#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What keeps a module of the CPU device in, where parts of it lack, and who may not look inside.
# shellcheck disable=SC2154 # bats sets stderr

load hostile-module

@test "with SGPU_DEBUG, which leaves the runner open, modules stay where they are" {
	export SGPU_DEBUG=1
	run --separate-stderr -4 try 4
	[ -n "${SGPU_SANITIZE:-}" ] || assert_contains "$stderr" "SGPU_DEBUG is set" # such a build is always open
	assert_contains "$stderr" "(socket) refused: no module needs it"
}

@test "a run says at its start what it confines modules by only where something lacks" {
	run --separate-stderr -0 try 100
	unshare -Ur true 2>/dev/null || skip "needs user namespaces"
	[[ $stderr != *"modules are not confined"* ]]
}

@test "a file in the place of the runner, or by the name of its module host, is never run: the runner executes itself" {
	local runner place
	mkdir -p alone/bin alone/lib/sgpu
	cp "$SGPU_BUILD/bin/sgpu-enclave" alone/bin/
	printf '#!/bin/sh\ntouch %s/mark\n' "$PWD" >hostile
	chmod +x hostile
	# Wherever one might look for it.
	for place in alone/lib/sgpu alone/bin alone/lib .; do
		cp hostile "$place/sgpu-module-host"
	done
	batch 100
	mkfifo pipe
	PATH=$PWD:$PATH LD_LIBRARY_PATH=$PWD alone/bin/sgpu-enclave --device cpu --allow-modules -k owner.jwk -o response pipe 3>&- &
	runner=$!
	wait_for runs_as "$runner" sgpu-enclave
	mv hostile alone/bin/sgpu-enclave
	cat batch.tar >pipe # until then it has started no process
	wait "$runner"
	results
	assert_same out/y.f32 zeros
	assert_no_file mark
}

# has_child PID
has_child() {
	[ -n "$(cat "/proc/$1/task"/*/children)" ]
}

@test "the process of modules is there before the runner reads a key" {
	local runner
	batch 100
	mkfifo pipe
	sgpu-run --device cpu --allow-modules -k pipe -o response batch.tar 3>&- &
	runner=$!
	wait_for has_child "$runner"
	cat owner.jwk >pipe
	wait "$runner"
	results
	assert_same out/y.f32 zeros
}

@test "the process of modules is started by a runner alone" {
	run -2 bash -c 'exec -a sgpu-module-host sgpu-enclave 3>&-'
	assert_contains "$output" "sgpu-module-host runs modules of the CPU device; sgpu-enclave starts it, nobody else does"
	run -2 bash -c 'exec -a /x/sgpu-module-host sgpu-enclave --version'
	assert_contains "$output" "nobody else does"
}

@test "what a module defines is its own, even if a library of the runner defines it, too" {
	cat >own.c <<-'END'
	float json_object_size(float x)
	{
		return x - x;
	}

	int does(const void *shape, void *const *args, int count)
	{
		(void)shape;
		for (int i = 0; i < 10; i++) {
			(*(float **)args[0])[i] = json_object_size((*(float **)args[1])[i]);
		}
		return count - 3;
	}
	END
	compile -shared -fPIC -o evil.so own.c
	run --separate-stderr -0 try 0
	results
	assert_same out/y.f32 zeros
}

@test "modules run where memory files may not be executed, too" {
	requires unshare jq
	cat >setting.sh <<-'END'
	#!/bin/sh
	echo "$1" >/proc/sys/vm/memfd_noexec || exit 77
	shift
	exec "$@"
	END
	cat >without.sh <<-'END'
	#!/bin/sh
	echo 0 >/proc/sys/user/max_user_namespaces
	echo 0 >/proc/sys/user/max_mnt_namespaces
	exec "$@"
	END
	chmod +x setting.sh without.sh
	unshare -Urpf --mount-proc ./setting.sh 2 true 2>/dev/null ||
		skip "needs a kernel that forbids it by namespaces of processes"
	UNDER=(unshare -Urpf --mount-proc ./setting.sh 2)
	run --separate-stderr -0 try 100
	"${UNDER[@]}" sgpu-run --info --json >info.json
	jq -e .modules.process info.json
	# From its memory file, where it cannot be copied into a root of its own.
	UNDER+=(./without.sh)
	run --separate-stderr -0 try 100
	assert_contains "$stderr" "modules are not confined in all: namespaces, root"
}

@test "what modules print goes to no file that was laid in the place of /dev/null" {
	requires mount
	batch 105
	touch listening
	run --separate-stderr -3 unshare --mount sh -c \
		'mount --bind listening /dev/null && exec sgpu-run --device cpu --allow-modules -k owner.jwk -o response batch.tar'
	assert_contains "$stderr" "cannot open '/dev/null' for modules"
	[ ! -s listening ]
	assert_no_file response
}

# has_module PID: sets line to the processes below this runner, of which the last has loaded its module.
has_module() {
	local pid=$1 child
	line=()
	while child=$(cat "/proc/$pid/task"/*/children 2>/dev/null) && [ -n "$child" ]; do
		pid=${child%% *}
		line+=("$pid")
	done
	[ "${#line[@]}" -gt 0 ] && grep -qs '/module\.[0-9]' "/proc/$pid/maps"
}

# modules_in_namespaces: skips where they are not.
modules_in_namespaces() {
	requires jq
	sgpu-run --info --json | jq -e .modules.namespaces >/dev/null || skip "needs namespaces for modules"
}

@test "the kernel shows a module in namespaces and a root of its own, without rights, under a filter" {
	local worker kind status=0 shown line
	requires root unshare
	modules_in_namespaces
	batch 108 # which sleeps until it is ended here
	sgpu-run --device cpu --allow-modules -k owner.jwk -o response batch.tar 2>message 3>&- &
	local runner=$!
	wait_for has_module "$runner"
	worker=${line[-1]}
	mkdir seen
	for kind in user pid mnt net ipc uts; do
		readlink "/proc/$worker/ns/$kind" "/proc/$runner/ns/$kind" >"seen/$kind"
	done
	cat "/proc/$worker/status" >seen/status
	[ -n "${SGPU_SANITIZE:-}" ] || [ "/proc/$worker/exe" -ef "/proc/$runner/exe" ] # such a build has another program for it
	(cd "/proc/$worker/root" && find . -maxdepth 1 -mindepth 1 && find etc -mindepth 1) >seen/root
	tr '\0' '\n' <"/proc/$worker/environ" >seen/environ
	kill -KILL "$worker"
	wait "$runner" || status=$?
	[ "$status" -eq 5 ]
	assert_contains "$(cat message)" "SIGKILL"
	for kind in user pid mnt net ipc uts; do
		[ "$(sort -u "seen/$kind" | wc -l)" -eq 2 ]
	done
	for shown in CapInh:0 CapPrm:0 CapEff:0 CapBnd:0 CapAmb:0 NoNewPrivs:1 Seccomp:2; do
		grep -qE "^${shown%:*}:[[:space:]]*0*${shown#*:}\$" seen/status
	done
	run ! grep -vE '^(\./(lib[a-z0-9]*|usr|etc|proc|dev|nix|gnu)|etc/ld\.so\.cache)$' seen/root
	[ ! -s seen/environ ]
}

@test "the process of modules loads the libraries that the runner was started with, and keeps no variable" {
	local runner library line status=0
	requires root
	mkdir libraries
	library=$(ldd "$SGPU_BUILD/bin/sgpu-enclave" | awk '/libjansson/ { print $3 }')
	cp "$library" libraries
	batch 102 # which looks for variables
	LD_LIBRARY_PATH=$PWD/libraries sgpu-run --device cpu --allow-modules -k owner.jwk -o response batch.tar
	results
	assert_same out/y.f32 zeros
	batch 108 # which sleeps until it is ended here
	LD_LIBRARY_PATH=$PWD/libraries sgpu-run --device cpu --allow-modules -k owner.jwk -o response batch.tar 2>message 3>&- &
	runner=$!
	wait_for has_module "$runner"
	grep -q " $(stat -c %i "libraries/${library##*/}") " "/proc/${line[-1]}/maps"
	kill -KILL "${line[-1]}"
	wait "$runner" || status=$?
	[ "$status" -eq 5 ]
}

@test "info says how modules are confined here, as text and as JSON" {
	local name
	requires jq
	sgpu-run --info --json >info.json
	for name in process namespaces root landlock seccomp no_capabilities; do
		jq -e ".modules.$name | type == \"boolean\"" info.json
	done
	[ "$(jq -c '.modules | .process, .missing' info.json)" = $'true\nnull' ]
	run -0 sgpu-run --info
	grep -q '^  process  *yes$' <<<"$output"
	requires unshare
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces' 2>/dev/null || skip "needs user namespaces to be counted"
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces; sgpu-run --info --json' >info.json
	jq -e '.modules.process and (.modules.namespaces | not)' info.json
}

@test "without namespaces a module is confined all the same, and the run warns" {
	local number
	requires unshare
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces' 2>/dev/null || skip "needs user namespaces to be counted"
	cat >none.sh <<-'END'
	#!/bin/sh
	echo 0 >/proc/sys/user/max_user_namespaces
	for kind in mnt net ipc uts pid; do echo 0 >/proc/sys/user/max_${kind}_namespaces; done
	exec "$@"
	END
	chmod +x none.sh
	UNDER=(unshare -Ur ./none.sh)
	for number in 100 101 102 103 104; do
		run --separate-stderr -0 try "$number"
		assert_contains "$stderr" "modules"
		assert_contains "$stderr" "namespace"
	done
	for number in 3:socket 22:openat 25:mmap; do
		run --separate-stderr -4 try "${number%%:*}"
		assert_contains "$stderr" "(${number#*:}) refused: no module needs it"
	done
}

@test "where the kernel gives no listener, no module is run, and the run says so" {
	requires no-sanitizer
	# Who is listened to already gets no listener of its own.
	cat >listened.c <<-'END'
	#include <linux/filter.h>
	#include <linux/seccomp.h>
	#include <stddef.h>
	#include <sys/prctl.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	int main(int argc, char **argv)
	{
		struct sock_filter code[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_acct, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog program = { 4, code };
		int fd;

		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
		return argc < 2 || fd < 0 || dup(fd) < 0 ? 77 : execvp(argv[1], argv + 1);
	}
	END
	compile -o listened listened.c
	./listened true || skip "needs a kernel with seccomp listeners"
	UNDER=(./listened)
	run --separate-stderr -5 try 100
	assert_contains "$stderr" "modules are not confined in all: seccomp"
	assert_contains "$stderr" "the module cannot be loaded: the kernel gives no listener"
}

# waits_with_host PID: sets host to the process that makes workers, once this runner waits for its batch.
waits_with_host() {
	local outer
	[ "$(sed -n 's/^Seccomp:[[:space:]]*//p' "/proc/$1/status")" = 2 ] || return 1
	outer=$(cat "/proc/$1/task/$1/children")
	host=$(cat "/proc/${outer% }/task/${outer% }/children")
	host=${host% }
}

@test "no module runs without the Landlock that its runner tells of, whatever limits its user gives it meanwhile" {
	local runner racer host
	requires python3 jq
	modules_in_namespaces
	[ "$(sgpu-run --info --json | jq .modules.landlock)" = true ] || skip "needs Landlock"
	printf '%s\n' '#include <fcntl.h>' 'static int opened;' \
		'__attribute__((constructor)) static void look(void) { opened = open("/", O_RDONLY | O_DIRECTORY) >= 0; }' \
		'int does(const void *shape, float **const *args) { (*args)[0][0] = (float)opened; return shape == 0; }' >look.c
	compile -shared -fPIC -o evil.so look.c
	# Leaves each new process of the host so few descriptors that it can make a ruleset, and no rule.
	cat >few.c <<-'END'
	#define _GNU_SOURCE
	#include <fcntl.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/resource.h>
	#include <unistd.h>

	int main(int argc, char **argv)
	{
		const struct rlimit few = { 6, 6 };
		const int fd = open(argv[argc - 1], O_RDONLY);
		char text[4096], *newest;
		ssize_t size;

		for (;;) {
			size = pread(fd, text, sizeof(text) - 1, 0);
			text[size > 0 ? size - 1 : 0] = 0; /* in place of the last space */
			newest = strrchr(text, ' ');
			prlimit(atoi(newest ? newest : text), RLIMIT_NOFILE, &few, NULL); /* 0: this process */
		}
	}
	END
	compile -O2 -o few few.c
	python3 - >job.json <<-'END'
	import json
	tensor = {"dtype": "f32", "shape": [10]}
	segments = [{"segment_id": "x", "data_location_client": "x.f32", "direction": "INPUT", "data_type_info": tensor}]
	operations = []
	for i in range(60):
	    segments.append({"segment_id": f"code{i}", "data_location_client": "evil.so", "direction": "INPUT"})
	    segments.append({"segment_id": f"y{i}", "data_location_client": f"y{i}.f32", "direction": "OUTPUT", "data_type_info": tensor})
	    operations.append({"gpu_operation_id": f"RUN{i}", "kernel": f"module:code{i}:does",
	                       "arguments": {"input": "x", "output": f"y{i}"}, "params": ["output", "input"]})
	for segment in segments:
	    segment["sensitivity_level"] = "HIGH"
	print(json.dumps({"version": 1, "manifest_id": "few", "segments": segments, "operations": operations}))
	END
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -o batch.tar
	mkfifo pipe
	: >seen
	for _ in 1 2; do
		sgpu-run --device cpu --allow-modules -k owner.jwk -o response pipe 2>>messages 3>&- &
		runner=$!
		exec 7<>pipe
		wait_for waits_with_host "$runner"
		./few "/proc/$host/task/$host/children" 3>&- 7>&- &
		racer=$!
		cat batch.tar >&7
		exec 7>&-
		wait "$runner" || [ $? -eq 5 ]
		kill "$racer"
		[ ! -e response ] || results || [ $? -eq 5 ]
		[ ! -d out ] || cat out/*.f32 >>seen
		rm -rf response out
	done
	run -0 od -An -v -tx4 seen
	[[ $output != *3f800000* ]]
}

@test "no process of the same user looks into those of a module, or takes its image" {
	requires root setpriv jq
	local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups) there=$TEST_SHM/there pid line runner sleeper
	modules_in_namespaces
	# One that is still being loaded: its image has a name.
	printf '__attribute__((constructor)) static void stay(void) { for (;;) { } }\nint does(void) { return 0; }\n' >stay.c
	compile -shared -fPIC -o evil.so stay.c
	batch 0
	mkdir "$there"
	cp owner.jwk batch.tar "$SGPU_BUILD/bin/sgpu-enclave" "$there"
	chmod 711 "$TEST_SHM"
	chown -R 65534 "$there"
	"${nobody[@]}" "$there/sgpu-enclave" --device cpu --allow-modules --timeout 600s -k "$there/owner.jwk" -o "$there/response" \
		"$there/batch.tar" 2>/dev/null 3>&- &
	runner=$!
	"${nobody[@]}" sleep 600 3>&- &
	sleeper=$!
	wait_for runs_as "$sleeper" sleep
	wait_for has_module "$runner"
	[ "${#line[@]}" -eq 3 ]
	"${nobody[@]}" sh -c "exec 9</proc/$sleeper/mem && ls /proc/$sleeper/root/" >/dev/null # else the trial says nothing
	for pid in "${line[@]}"; do
		for what in mem environ maps ns/mnt; do
			run ! "${nobody[@]}" sh -c "exec 9</proc/$pid/$what"
		done
		run ! "${nobody[@]}" ls "/proc/$pid/root/"
		grep -q 'CapEff:.*0000000000000000' "/proc/$pid/status"
	done
	kill -KILL "$runner" "$sleeper"
}
