#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# The process that signs the quotes of sgpu-serve: it alone has the attestation key, and can do nothing else.

load quotes

@test "worker and signer keep no descriptor of the attestation key, and a worker without its signer gives way to another" {
	attested_server -k runner.jwk
	sgpu-serve quote --nonce "$NONCE" -o quote
	pid=$(serving_pid)
	signer=$(signer_of "$pid")
	run ! grep -q ak.pem <(ls -l "/proc/$pid/fd" "/proc/$signer/fd" "/proc/$SERVER/fd")
	run ! grep -q eventfd <(ls -l "/proc/$signer/fd") # by which the worker wakes
	kill -9 "$signer"
	wait_for has_ended "$pid"
	grep -q "the process that signs quotes has ended" log
	wait_for sgpu-serve quote -q --nonce "$NONCE" -o later
	[ "$(serving_pid)" != "$pid" ]
	run -0 sgpu-run -o response batch.tar
	opens response
}

# Code in the signer: where a report would be made it tries what TRY names, and tells its errno in the folder of reports.
hostile_signer() {
	requires no-sanitizer cc
	sgpu-run --info | grep -q '^  confined_files  *yes$' || skip "needs Landlock"
	cat >hostile.c <<-'END'
	#include <errno.h>
	#include <fcntl.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	#include <sys/mman.h>
	#include <sys/socket.h>
	#include <sys/stat.h>
	#include <sys/syscall.h>
	#include <unistd.h>

	static int attempt(const char *what)
	{
		char *const none[] = { NULL };

		if (!strcmp(what, "execve")) {
			return execve("/bin/true", none, none);
		} else if (!strcmp(what, "socket")) {
			return socket(AF_UNIX, SOCK_STREAM, 0);
		} else if (!strcmp(what, "mprotect")) {
			void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			return mprotect(page, 4096, PROT_READ | PROT_EXEC);
		} else if (!strcmp(what, "fork")) {
			int child = fork();
			if (child == 0) {
				_exit(0);
			}
			return child;
		}
		return open(what, O_RDONLY | O_CLOEXEC);
	}

	int mkdir(const char *path, mode_t mode)
	{
		const char *root = getenv("SGPU_TSM_ROOT");
		char name[4096];
		int told;

		if (strncmp(path, root, strlen(root))) {
			return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
		}
		errno = 0;
		(void)attempt(getenv("TRY"));
		told = errno;
		snprintf(name, sizeof(name), "%s/%s", root, strerrorname_np(told) ? strerrorname_np(told) : "none");
		close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		errno = ENXIO;
		return -1;
	}
	END
	compile -D_GNU_SOURCE -shared -fPIC -o hostile.so hostile.c
	mkdir reports
	evidence
}

# tries WHAT [NAME=VALUE]: asks for a quote from a server whose signers try that: its errno is in $TOLD.
tries() {
	local status=0
	rm -f reports/* refused
	SERVERS=()
	use_roots
	TRY=$1 SGPU_TSM_ROOT=$PWD/reports LD_PRELOAD=$PWD/hostile.so serve_quotes "${@:2}"
	sgpu-serve quote --nonce "$NONCE" -o quote 2>refused || status=$?
	TOLD=$(ls reports)
	kill "$SERVER"
	wait "$SERVER" || true
	return "$status"
}

@test "the signer is confined: the kernel shows it, and code in it opens nothing of its user" {
	local signer try
	hostile_signer
	attested_server
	sgpu-serve quote --nonce "$NONCE" -o quote
	signer=$(signer_of "$(serving_pid)")
	grep -q '^Seccomp:[[:space:]]*2$' "/proc/$signer/status"
	grep -q '^NoNewPrivs:[[:space:]]*1$' "/proc/$signer/status"
	kill "$SERVER"
	wait "$SERVER" || true
	SGPU_DEBUG=1 tries "$PWD/ak.pem"
	[ "$TOLD" = 0 ] # else what is refused below says nothing
	for try in "$PWD/ak.pem" "$PWD/owners" /etc/passwd "/proc/self/root$PWD/ak.pem" /proc/self/maps; do
		tries "$try"
		[ "$TOLD" = EACCES ]
	done
	tries fork
	[ "$TOLD" = ENOSYS ]
}

@test "a signer that starts programs, opens sockets or makes code is ended, and signs nothing" {
	local try
	hostile_signer
	for try in execve socket mprotect; do
		run -3 tries "$try"
		[ -z "$(ls reports)" ]
		assert_contains "$(cat refused)" "the process that signs quotes has ended"
		assert_contains "$(cat log)" "($try) refused: no runner needs it"
	done
}

@test "a signer whose key is in a TPM is confined, too, and signs" {
	local signer
	requires swtpm tpm2-openssl
	mkdir tpm
	swtpm socket --tpm2 --tpmstate "dir=$PWD/tpm" --server "type=unixio,path=$PWD/tpm/socket" \
		--ctrl "type=unixio,path=$PWD/tpm/socket.ctrl" --flags not-need-init,startup-clear --daemon --pid "file=$PWD/tpm/pid"
	SERVERS+=("$(cat tpm/pid)")
	export TSS2_LOG=all+NONE TPM2OPENSSL_TCTI=swtpm:path=$PWD/tpm/socket
	evidence
	sgpu-measure keygen --tpm -o ak.new.pem |
		sgpu-measure certify -k "$BATS_FILE_TMPDIR/ek.pem" --certificate "$BATS_FILE_TMPDIR/ek.crt" -o ak.crt
	mv ak.new.pem ak.pem
	serve_quotes
	quoted_batch sealed
	quoted_batch again
	run -0 sgpu-run -o response sealed
	opens response
	[ -z "${SGPU_SANITIZE:-}" ] || return 0
	sgpu-run --info | grep -q '^  filtered_system_calls  *yes$' || return 0
	signer=$(signer_of "$(serving_pid)")
	grep -q '^Seccomp:[[:space:]]*2$' "/proc/$signer/status"
}

# has_key PID PEM: prints whether the process has the private number of the key in memory that can be read, in either order.
has_key() {
	python3 - "$1" "$2" <<-'END'
		import base64, sys
		pid, pem = sys.argv[1:]
		der = base64.b64decode("".join(l for l in open(pem).read().splitlines() if not l.startswith("-")))
		at = der.index(b"\x02\x01\x01\x04\x30") + 5
		number = der[at:at + 48]
		found = False
		with open(f"/proc/{pid}/mem", "rb", 0) as memory:
		    for line in open(f"/proc/{pid}/maps"):
		        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
		        if line.split()[1][0] != "r" or end - begin > 1 << 28:
		            continue
		        try:
		            memory.seek(begin)
		            content = memory.read(end - begin)
		        except (OSError, ValueError, OverflowError):
		            continue
		        found = found or number in content or number[::-1] in content
		print("yes" if found else "no")
	END
}

@test "only the signer has the attestation key in its memory, and neither worker nor supervisor" {
	requires root python3 no-sanitizer
	attested_server
	sgpu-serve quote --nonce "$NONCE" -o quote
	pid=$(serving_pid)
	[ "$(has_key "$(signer_of "$pid")" ak.pem)" = yes ]
	[ "$(has_key "$pid" ak.pem)" = no ]
	[ "$(has_key "$SERVER" ak.pem)" = no ]
}
