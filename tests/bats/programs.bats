#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats sets stderr
#
# The four programs that run batches: which of them is what, and who starts whom.

load serve

# linked PROGRAM: the libraries that it names, those of the C library left out.
linked() {
	readelf -d "$SGPU_BUILD/bin/$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux.*|lib(a|ub|t)san)\.so' | paste -sd ' '
}

@test "the client and the server link no cryptography, no NUMA library and no filter" {
	[ "$(linked sgpu-run)" = libjansson.so.4 ]
	[ "$(linked sgpu-serve)" = libjansson.so.4 ]
	assert_contains "$(linked sgpu-enclave)" libcrypto # so that the names above could be there
	[[ "$(linked sgpu-enclave) $(linked sgpu-worker)" != *libz* ]]
	assert_contains "$(linked sgpu-seal)" libz
}

# becomes PID: the program that a process has become.
becomes() {
	[ "$(readlink "/proc/$1/exe")" = "$(realpath "$SGPU_BUILD/bin/$2")" ]
}

@test "without a server sgpu-run becomes the sgpu-enclave beside it, with its arguments and its name" {
	mkfifo pipe
	sgpu-run -k runner.jwk -o response <pipe 3>&- & pid=$!
	exec 8>pipe
	wait_for becomes "$pid" sgpu-enclave
	cat batch.tar >&8
	exec 8>&-
	wait "$pid"
	run --separate-stderr -3 sgpu-run -k nowhere -o response batch.tar
	[[ $stderr == "sgpu-run: error: "* ]]
	run --separate-stderr -3 sgpu-enclave -k nowhere -o response batch.tar
	[[ $stderr == "sgpu-enclave: error: "* ]]
}

@test "sgpu-run and sgpu-serve find no sgpu-enclave by PATH" {
	mkdir -p alone/bin path
	cp "$SGPU_BUILD"/bin/sgpu-{run,serve} alone/bin/
	printf '#!/bin/sh\ntouch %s/mark\n' "$PWD" >path/sgpu-enclave
	chmod +x path/sgpu-enclave
	PATH=$PWD/path:$PATH run --separate-stderr -3 alone/bin/sgpu-run -k runner.jwk -o response batch.tar
	assert_contains "$stderr" "which has to be beside this program"
	PATH=$PWD/path:$PATH run --separate-stderr -3 alone/bin/sgpu-serve -k runner.jwk
	assert_contains "$stderr" "which has to be beside this program"
	assert_no_file mark
	assert_no_file response
	cp "$SGPU_BUILD/bin/sgpu-enclave" alone/bin/
	run -0 alone/bin/sgpu-run --device cpu -k runner.jwk -o response batch.tar
	[ -s response ]
}

@test "what is for a server's runner, or for one's own, is refused beside the other" {
	local option
	for option in --session --info "--memory 1M" "--nonce 0011223344556677"; do
		# shellcheck disable=SC2086 # an option and its value
		run --separate-stderr -2 sgpu-run $option --socket none
		assert_contains "$stderr" "is about a runner of one's own, and --socket about a server's"
	done
	run --separate-stderr -2 sgpu-enclave --socket none batch.tar
	assert_contains "$stderr" "--socket, --lease and --wait are for 'sgpu-run' and a server"
	run --separate-stderr -2 sgpu-enclave --lease batch.tar
	run --separate-stderr -2 sgpu-enclave --memory 1M batch.tar
	assert_contains "$stderr" "--memory is for --session"
	run --separate-stderr -2 sgpu-enclave --info --session
	assert_contains "$stderr" "exclude each other"
	run --separate-stderr -2 sgpu-enclave --serve 3 3</dev/null
	assert_contains "$stderr" "--serve is for sgpu-serve and sgpu-worker"
	run --separate-stderr -2 sgpu-enclave --session -k runner.jwk --state state
	assert_contains "$stderr" "--state is about a batch"
}

@test "all workers of a server are one program, whatever lies under its name later" {
	mkdir -p here/bin
	cp "$SGPU_BUILD"/bin/sgpu-{serve,enclave} here/bin/
	PATH=$PWD/here/bin:$PATH start_server --device cpu -k runner.jwk
	printf '#!/bin/sh\ntouch %s/mark\n' "$PWD" >here/bin/other
	chmod +x here/bin/other
	mv here/bin/other here/bin/sgpu-enclave
	run -0 sgpu-serve reload
	wait_for grep -q "new workers serve" log
	run -0 sgpu-run -o response batch.tar
	assert_no_file mark
}

@test "reload has the server read its keys again; nobody else's process is told" {
	start_server --device cpu -k runner.jwk
	run -0 sgpu-serve reload
	wait_for grep -q "new workers serve" log
	run -3 sgpu-serve reload --socket none
	requires python3
	sleep 600 3>&- & other=$!
	SERVERS+=("$other")
	FAKE_PID=$other python3 "$BATS_TEST_DIRNAME/fake_server.py" fake.sock "$SOCKET" >fake.log 3>&- &
	SERVERS+=("$!")
	wait_for grep -qs ready fake.log
	run --separate-stderr -3 sgpu-serve reload --socket "$PWD/fake.sock"
	assert_contains "$stderr" "process $other, which is no server"
	kill -0 "$other"
}
