#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2030,SC2031,SC2153 # bats sets stderr; each test is a process of its own
#
# sgpu-run quote: owners seal to the worker that serves them, and programs open sessions with it, and with no other.

load serve

NONCE=000102030405060708090a0b0c0d0e0f

# The machine's keys and the authority's, once.
setup_file() {
	cd "$BATS_FILE_TMPDIR" || return 1
	sgpu-measure provision -o ek.pem --public ek.pub.pem
	sgpu-measure enroll -k ek.pem -o ak.pem --request request
	sgpu-measure ca init -o ca.pem --certificate ca.crt
	sgpu-measure ca sign -k ca.pem --certificate ca.crt --ek ek.pub.pem -o ak.crt request
}

# evidence [OWNERS]: an attestation key, and a policy that accepts the server of it; a session takes no owners: any.
evidence() {
	cp "$BATS_FILE_TMPDIR"/{ak.pem,ak.crt,ca.crt} .
	sgpu-seal keyinfo --owner -o owners owner.jwk
	sgpu-measure policy -q --build "$SGPU_BUILD" --owners "${1:-owners}" --at-least plain -o policy.json 2>/dev/null
	# A build for a sanitizer can be debugged.
	[ -z "${SGPU_SANITIZE:-}" ] || sed -i 's/"debug": false/"debug": true/; s/"confinement": true/"confinement": false/' policy.json
}

# serve_quotes OPTION...
serve_quotes() {
	start_server --device cpu --owners owners --state "$PWD/state" --attestation-key ak.pem --certificate ak.crt "$@"
}

attested_server() {
	evidence
	serve_quotes "$@"
}

appraise() {
	sgpu-measure appraise -p policy.json --roots ca.crt --nonce "$NONCE" --recipient recipient.jwk quote
}

# quoted_batch NAME: sealed to the worker of this user, after its quote was appraised.
quoted_batch() {
	sgpu-run quote --nonce "$NONCE" -o quote
	appraise
	seal_to_quote >"$1"
}

seal_to_quote() {
	sgpu-seal seal -k owner.jwk -r recipient.jwk packed
}

# signer_of WORKER: the process that has the attestation key.
signer_of() {
	tr -d ' ' <"/proc/$1/task/$1/children"
}

opens() {
	sgpu-seal open -k owner.jwk -C "out.$1" "$1"
	assert_same "out.$1/out.f32" expected.f32
}

@test "a batch is sealed to the key of the worker's quote, and runs; the key is in no file" {
	requires jq
	attested_server
	before=$(find . -type f | sort)
	quote=$(sgpu-run quote --nonce "$NONCE")
	[ "$(find . -type f | sort)" = "$before" ]
	printf '%s\n' "$quote" >quote
	run -0 jq -e '.__cmwc_t' quote
	appraise
	run -0 jq -e '.kty == "OKP" and (.d | not)' recipient.jwk
	seal_to_quote >sealed
	run -0 sgpu-run -o response sealed
	opens response
	# The same key for each batch and each quote of this worker.
	cp recipient.jwk first.jwk
	quoted_batch again
	assert_same recipient.jwk first.jwk
	run -0 sgpu-run -o again.response again
	opens again.response
}

@test "with keys of files beside it, a server opens batches for either" {
	attested_server -k runner.jwk
	quoted_batch sealed
	run -0 sgpu-run -o response sealed
	opens response
	run -0 sgpu-run -o other batch.tar
	opens other
}

@test "a quote that was kept is none for another nonce, and one that was changed gives no key" {
	attested_server
	sgpu-run quote --nonce ff0102030405060708090a0b0c0d0e0f -o quote
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "nonce"
	assert_no_file recipient.jwk
	sgpu-run quote --nonce "$NONCE" -o quote
	flip_byte quote $(($(stat -c %s quote) / 2))
	run appraise
	[ "$status" -eq 4 ] || [ "$status" -eq 1 ]
	assert_no_file recipient.jwk
}

@test "a batch for a worker that has ended is refused, and the error says to ask for a new quote" {
	requires python3
	attested_server
	quoted_batch sealed
	pid=$(serving_pid)
	signer=$(signer_of "$pid")
	[ -n "$signer" ]
	kill -9 "$pid"
	wait_for grep -q "ended by signal 9" log
	wait_for has_ended "$signer"
	run --separate-stderr -4 sgpu-run -o response sealed
	assert_contains "$stderr" "none of the keys is a recipient"
	assert_contains "$stderr" "the worker that gave the quote has ended: ask for a new one"
	assert_no_file response
	cp recipient.jwk first.jwk
	quoted_batch anew
	run ! cmp -s recipient.jwk first.jwk
	run -0 sgpu-run -o response anew
	opens response
}

@test "a batch for another server's worker opens in none of this one" {
	attested_server
	quoted_batch sealed
	run -0 sgpu-run -o response sealed
	first=$SOCKET
	export SGPU_SOCKET=$PWD/other/run.sock
	attested_server
	quoted_batch others
	run --separate-stderr -4 sgpu-run --socket "$first" -o refused others
	assert_contains "$stderr" "ask for a new one"
	assert_no_file refused
	run -0 sgpu-run -o response others
}

@test "a batch for another user's worker opens in no other, whoever carries quote and batch" {
	requires root python3
	share_socket
	attested_server --everybody
	client_of 65534 quote "$NONCE" >theirs
	mv theirs quote
	appraise
	seal_to_quote >sealed
	run --separate-stderr -4 sgpu-run -o response sealed
	assert_contains "$stderr" "ask for a new one"
	assert_no_file response
	run -0 client_of 65534 queue sealed
	assert_contains "$output" "sealed 0 "
	opens sealed.response
}

@test "quotes that are asked for without end are refused beyond a limit, and disturb nobody" {
	requires python3
	attested_server
	sgpu-run quote --nonce "$NONCE" -o quote
	pid=$(serving_pid)
	before=$(descriptors "$pid") supervisor_before=$(descriptors "$SERVER")
	run -0 client quotes "$([ -n "${SGPU_SANITIZE:-}" ] && echo 300 || echo 2000)" 60
	[ "$output" = "some 0" ]
	quoted_batch sealed
	run -0 sgpu-run -o response sealed
	opens response
	[ "$(serving_pid)" = "$pid" ]
	wait_for has_descriptors_left "$pid" "$before"
	wait_for has_descriptors_left "$SERVER" "$supervisor_before"
}

@test "while the platform takes its time for a report, batches run, and only so many quotes wait" {
	requires cc jq python3 python-cryptography
	compile -D_GNU_SOURCE -shared -fPIC -o fake_tsm.so "$SGPU_TOP/tests/bats/fake_tsm.c"
	mkdir -p amd tsm root/sys/devices/system/cpu/sev
	python3 "$SGPU_TOP/tests/bats/fake_tsm.py" init amd
	echo 0 >root/sys/devices/system/cpu/sev/vmpl
	# The signer starts no process: the driver is one of its own.
	cat >driver <<-END
		while sleep 0.05; do
			for folder in tsm/*/; do
				[ -s "\$folder/inblob" ] && [ ! -e "\$folder/made" ] || continue
				touch asked
				[ -e go ] || continue
				python3 '$SGPU_TOP/tests/bats/fake_tsm.py' report amd "\$folder/inblob" "\$folder/outblob" \\
					"\$folder/auxblob" && touch "\$folder/made"
			done
		done
	END
	sh driver 3>&- 2>driver.log &
	SERVERS+=($!)
	evidence
	(
		export SGPU_TSM_ROOT=$PWD/tsm SGPU_GRAMINE_ROOT=$PWD/none SGPU_PLATFORM_ROOT=$PWD/root
		export FAKE_TSM_DRIVER=elsewhere ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$PWD/fake_tsm.so
		serve_quotes -k runner.jwk
		echo "$SERVER" >server
	)
	SERVERS+=("$(cat server)")
	sgpu-run quote --nonce "$NONCE" -o quote 3>&- &
	first=$!
	wait_for test -e asked
	client crowded 40 15 >crowd 3>&- &
	SERVERS+=($!)
	wait_for grep -q full crowd
	run -0 sgpu-run -o response batch.tar
	opens response
	run --separate-stderr -3 sgpu-run quote --nonce "$NONCE" -o refused
	assert_contains "$stderr" "16 quotes are asked for already, which is the limit"
	assert_no_file refused quote
	touch go
	wait "$first"
	wait_for grep -q "15 quotes" crowd
	run -0 sgpu-measure verify --roots ca.crt --nonce "$NONCE" --tee-roots amd/ark.crt --json quote
	run -0 jq -e '.tee.kind == "snp"' <<<"$output"
	[ -z "$(ls tsm)" ]
}

# Or has been answered.
someone_waits() {
	grep -q '^their.tar' theirs || [ "$(status tenants | awk '{ sum += $2 } END { print sum + 0 }')" -eq 1 ]
}

@test "a worker that has just given a quote is kept for the batch, though others wait for a worker" {
	requires root python3
	share_socket
	attested_server -k runner.jwk --everybody --workers 1 --ahead 0
	# Once more where this machine was too slow: nobody waits for a quoted worker for ever.
	for _ in $(seq 20); do
		begin=$SECONDS
		: >theirs
		sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >their.tar
		quoted_batch sealed
		client_of 65534 queue their.tar >>theirs 3>&- &
		other=$!
		SERVERS+=("$other")
		wait_for someone_waits
		run sgpu-run -o response sealed
		took=$((SECONDS - begin))
		[ "$took" -gt 7 ] || break
		wait "$other"
	done
	[ "$took" -le 7 ] || skip "needs a machine that seals a batch within seconds"
	[ "$status" -eq 0 ]
	opens response
	wait "$other"
	assert_contains "$(cat theirs)" "their.tar 0 "
}

@test "SIGHUP takes a new attestation key; a wrong one changes nothing, and a server does not start with one" {
	attested_server
	sgpu-run quote --nonce "$NONCE" -o quote
	appraise
	sgpu-measure enroll -k "$BATS_FILE_TMPDIR/ek.pem" -o new.pem --request request
	sgpu-measure ca init -o new-ca.pem --certificate new-ca.crt
	sgpu-measure ca sign -k new-ca.pem --certificate new-ca.crt --ek "$BATS_FILE_TMPDIR/ek.pub.pem" -o new.crt request
	cp ak.pem old.pem
	cp new.pem ak.pem
	kill -HUP "$SERVER"
	wait_for grep -q "those from before go on" log
	assert_contains "$(cat log)" "the certificate is not that of the attestation key"
	sgpu-run quote --nonce "$NONCE" -o quote
	appraise
	cp new.crt ak.crt
	kill -HUP "$SERVER"
	wait_for grep -q "new workers serve" log
	sgpu-run quote --nonce "$NONCE" -o quote
	run --separate-stderr -4 appraise
	assert_contains "$stderr" "chain"
	cp new-ca.crt ca.crt
	appraise
	run --separate-stderr -4 sgpu-run serve --socket other/run.sock --attestation-key old.pem --certificate ak.crt
	assert_contains "$stderr" "the certificate is not that of the attestation key"
	run --separate-stderr -2 sgpu-run serve --attestation-key ak.pem
	assert_contains "$stderr" "--attestation-key needs --certificate"
	run --separate-stderr -2 sgpu-run serve --certificate ak.crt
	assert_contains "$stderr" "--certificate needs --attestation-key"
	run --separate-stderr -2 sgpu-run serve --attestation-key - --certificate ak.crt
	assert_contains "$stderr" "keys are files"
}

@test "without an attestation key there are no quotes, and what is no quote is not passed on" {
	requires python3
	start_server -k runner.jwk
	run --separate-stderr -3 sgpu-run quote --nonce "$NONCE" -o quote
	assert_contains "$stderr" "this server gives no quotes: it has no attestation key"
	run --separate-stderr -2 sgpu-run quote -o quote
	assert_contains "$stderr" "nonce is missing"
	run --separate-stderr -2 sgpu-run quote --nonce 0011 -o quote
	run --separate-stderr -3 sgpu-run quote --nonce "$NONCE" --socket nowhere -o quote
	assert_contains "$stderr" "there is no server at 'nowhere'"
	python3 "$BATS_TEST_DIRNAME/serve_client.py" "$PWD/fake.sock" pose 5 >posed 3>&- &
	SERVERS+=($!)
	wait_for grep -q posing posed
	run --separate-stderr -1 sgpu-run quote --nonce "$NONCE" --socket fake.sock -o quote
	run ! grep -q $'\e' <<<"$stderr"
	run --separate-stderr -3 sgpu-run quote --nonce "$NONCE" --socket fake.sock -o quote
	assert_contains "$stderr" "has ended"
	# A file that is not in memory may be of a file system that never answers.
	run --separate-stderr -1 sgpu-run quote --nonce "$NONCE" --socket fake.sock -o quote
	assert_contains "$stderr" "the server's answer is not in a memory file"
	run --separate-stderr -1 sgpu-run prepare --list --socket fake.sock
	assert_contains "$stderr" "the server's answer is not in a memory file"
	run --separate-stderr -1 sgpu-run status --socket fake.sock
	assert_contains "$stderr" "the server's status is not in a memory file"
	assert_no_file quote
}

@test "worker and signer keep no descriptor of the attestation key, and a worker without its signer gives way to another" {
	attested_server -k runner.jwk
	sgpu-run quote --nonce "$NONCE" -o quote
	pid=$(serving_pid)
	signer=$(signer_of "$pid")
	run ! grep -q ak.pem <(ls -l "/proc/$pid/fd" "/proc/$signer/fd" "/proc/$SERVER/fd")
	kill -9 "$signer"
	wait_for has_ended "$pid"
	grep -q "the process that signs quotes has ended" log
	wait_for sgpu-run quote -q --nonce "$NONCE" -o later
	[ "$(serving_pid)" != "$pid" ]
	run -0 sgpu-run -o response batch.tar
	opens response
}

# quote_worker: the key of this user's worker in recipient.jwk, once its quote was appraised.
quote_worker() {
	sgpu-run quote --nonce "$NONCE" -o quote
	appraise
}

has_program() {
	[ -x "$SGPU_BUILD/unit/test_remote_connect" ] || skip "test_remote_connect was not built"
}

# program ARGUMENT...: test_remote_connect, whose sessions are bound to the key in recipient.jwk.
program() {
	SERVE_WORKER=recipient.jwk "$SGPU_BUILD/unit/test_remote_connect" "$@"
}

not_the_quoted() {
	assert_contains "$output" "whoever answers does not have the key of the worker that was quoted"
	assert_contains "$output" "ask for a new quote"
}

@test "a program has a session with the worker that was quoted, and not with the one that takes its place" {
	has_program
	attested_server
	quote_worker
	run -0 program run 5
	[ "$output" = "done" ]
	pid=$(serving_pid)
	kill -9 "$pid"
	wait_for grep -q "ended by signal 9" log
	run -4 program run 5
	not_the_quoted
	quote_worker
	run -0 program run 5
	[ "$(serving_pid)" != "$pid" ]
}

@test "a program has no session with another server's worker, nor with one that gives no quotes" {
	has_program
	attested_server
	quote_worker
	run -0 program run 1
	first=$SOCKET
	export SGPU_SOCKET=$PWD/other/run.sock
	attested_server
	run -4 program run 1
	not_the_quoted
	export SGPU_SOCKET=$PWD/third/run.sock
	start_server --device cpu
	run -4 program run 1
	not_the_quoted
	SGPU_SOCKET=$first run -0 program run 1
}

@test "a program has no session with another user's worker" {
	has_program
	requires root python3
	share_socket
	attested_server --everybody
	client_of 65534 quote "$NONCE" >theirs
	mv theirs quote
	appraise
	run -4 program run 1
	not_the_quoted
	chmod a+rx "$SGPU_BUILD/unit" 2>/dev/null || true
	SERVE_UID=65534 run -0 program run 1
}

# piped_session OPTION...: a worker on a pair of pipes, and a program that is bound to recipient.jwk.
piped_session() {
	rm -f to from
	mkfifo to from
	sgpu-run session --device cpu "$@" <to >from 2>session.log 3>&- &
	SERVERS+=($!)
	exec 7>to 8<from
}

@test "a session over pipes proves itself first, and takes a program that is bound to its quote" {
	has_program
	evidence any
	piped_session --quote quote --nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt
	wait_for test -e quote
	appraise
	program piped 3 <&8 >&7 2>said
	[ "$(cat said)" = "done" ]
	exec 7>&- 8<&-
	# Another one, and one that was never quoted.
	piped_session --quote quote --nonce "$NONCE" --attestation-key ak.pem --certificate ak.crt
	run -4 program_piped
	not_the_quoted
	piped_session
	run -4 program_piped
	not_the_quoted
	run --separate-stderr -2 sgpu-run session --device cpu --quote quote </dev/null
	assert_contains "$stderr" "--quote needs --nonce"
	run --separate-stderr -2 sgpu-run session --device cpu --quote ak.pem --nonce "$NONCE" --attestation-key ak.pem \
		--certificate ak.crt </dev/null
	grep -q "PRIVATE KEY" ak.pem
}

program_piped() {
	local ended=0
	program piped 1 <&8 >&7 2>said || ended=$?
	exec 7>&- 8<&-
	cat said
	return "$ended"
}

@test "the example trains in a session with the worker that was quoted, and with no other" {
	PATH=$SGPU_BUILD/examples:$PATH
	requires fashion-mnist
	command -v train >/dev/null || skip "train was not built"
	attested_server
	quote_worker
	SGPU_SOCKET=$SOCKET QUOTED=$PWD/recipient.jwk run --separate-stderr -0 "$SGPU_TOP/examples/session/run.sh" bound
	grep -q "^step 100" bound/losses
	kill -9 "$(serving_pid)"
	wait_for grep -q "ended by signal 9" log
	SGPU_SOCKET=$SOCKET QUOTED=$PWD/recipient.jwk run --separate-stderr -4 "$SGPU_TOP/examples/session/run.sh" refused
	assert_contains "$stderr" "ask for a new quote"
	[ ! -s refused/losses ]
}

# Code in the signer: where a report would be made it tries what TRY names, and tells its errno in the folder of reports.
hostile_signer() {
	requires no-sanitizer cc
	sgpu-run --version | grep -q '^Built with:.* SECCOMP' || skip "needs libseccomp"
	sgpu-run info | grep -q '^  files *a run opens none but' || skip "needs Landlock"
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
	TRY=$1 SGPU_TSM_ROOT=$PWD/reports LD_PRELOAD=$PWD/hostile.so serve_quotes "${@:2}"
	sgpu-run quote --nonce "$NONCE" -o quote 2>refused || status=$?
	TOLD=$(ls reports)
	kill "$SERVER"
	wait "$SERVER" || true
	return "$status"
}

@test "the signer is confined: the kernel shows it, and code in it opens nothing of its user" {
	local signer try
	hostile_signer
	attested_server
	sgpu-run quote --nonce "$NONCE" -o quote
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
	sgpu-measure enroll -k "$BATS_FILE_TMPDIR/ek.pem" --tpm -o ak.new.pem --request request
	sgpu-measure ca sign -k "$BATS_FILE_TMPDIR/ca.pem" --certificate ca.crt --ek "$BATS_FILE_TMPDIR/ek.pub.pem" -o ak.crt request
	mv ak.new.pem ak.pem
	serve_quotes
	quoted_batch sealed
	quoted_batch again
	run -0 sgpu-run -o response sealed
	opens response
	[ -z "${SGPU_SANITIZE:-}" ] || return 0
	sgpu-run info | grep -q 'system calls: *those' || return 0
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
	sgpu-run quote --nonce "$NONCE" -o quote
	pid=$(serving_pid)
	[ "$(has_key "$(signer_of "$pid")" ak.pem)" = yes ]
	[ "$(has_key "$pid" ak.pem)" = no ]
	[ "$(has_key "$SERVER" ak.pem)" = no ]
}
