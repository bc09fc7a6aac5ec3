#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2153 # bats sets stderr, serve.bash SOCKET
#
# sgpu host: what it takes from a host, what only from its owner, and when it asks again.

load quotes

# a_host: a server, the owner's key where sgpu looks for it, and an array.
a_host() {
	requires no-sanitizer # whose builds can be debugged, which no policy of sgpu host accepts
	attested_server
	mkdir -p "$XDG_CONFIG_HOME/sgpu"
	cp owner.jwk "$XDG_CONFIG_HOME/sgpu/"
	HOSTS=$XDG_CONFIG_HOME/sgpu/hosts
	printf '\1\2\3\4' >four
}

add_here() {
	sgpu host add here --socket "$SOCKET" --yes "$@" </dev/null
}

# digest_of BUILD
digest_of() {
	sgpu-measure policy -q --build "$1" --owners any --at-least plain | jq -r '.runner.digests[0]'
}

sum_there() {
	sgpu run --on here reduce operation=sum four:u8:4
}

@test "a host that shows other digests than one's own build is refused with both, and one is accepted by hand" {
	requires jq
	a_host
	local own other
	mkdir -p other/bin
	cp "$SGPU_BUILD"/bin/sgpu-enclave other/bin/
	[ ! -e "$SGPU_BUILD/lib/sgpu" ] || cp -r "$SGPU_BUILD/lib" other/
	printf x >>other/bin/sgpu-enclave
	own=$(digest_of other)
	other=$(digest_of "$SGPU_BUILD")
	run --separate-stderr -4 add_here --roots ca.crt --build other
	assert_contains "$stderr" "$own"
	assert_contains "$stderr" "$other"
	assert_no_file "$HOSTS/here"
	run --separate-stderr -4 add_here --roots ca.crt --build other --accept-digest "$own"
	assert_no_file "$HOSTS/here"
	run --separate-stderr -0 add_here --roots ca.crt --build other --accept-digest "$other"
	[ "$(sum_there)" = 10 ]
}

@test "the first use asks on a terminal, or has to be told the authority" {
	a_host
	run --separate-stderr -2 add_here
	assert_contains "$stderr" "--roots FILE"
	run --separate-stderr -2 setsid -w sgpu host add here --socket "$SOCKET" --roots ca.crt
	assert_contains "$stderr" "there is no terminal to ask on"
	assert_no_file "$HOSTS/here"
	requires script
	run script -qec "sgpu host add here --socket '$SOCKET'" /dev/null <<<n
	assert_no_file "$HOSTS/here"
	run -0 script -qec "sgpu host add here --socket '$SOCKET'" /dev/null <<<y
	# What is shown is the digest of the authority's certificate, by which a person knows it.
	assert_contains "$output" "authority  $(openssl x509 -in ca.crt -outform DER | sha256sum | cut -d ' ' -f 1)"
	[ "$(sum_there)" = 10 ]
}

@test "a host that another authority certified is refused" {
	a_host
	sgpu-measure keygen -q -o other.pem --authority other.crt
	run --separate-stderr -4 add_here --roots other.crt
	assert_no_file "$HOSTS/here"
}

@test "another server behind the address gets no batch" {
	a_host
	add_here --roots ca.crt
	[ "$(sum_there)" = 10 ]
	kill "$SERVER"
	wait_for has_ended "$SERVER"
	sgpu-measure keygen -q -o ca2.pem --authority ca2.crt
	sgpu-measure keygen -q -o ek2.pem | sgpu-measure certify -q -k ca2.pem --certificate ca2.crt -o ek2.crt
	sgpu-measure keygen -q -o ak.pem2 | sgpu-measure certify -q -k ek2.pem --certificate ek2.crt -o ak2.crt
	start_server --device cpu --owners owners --state "$PWD/state2" --attestation-key ak.pem2 --certificate ak2.crt
	run --separate-stderr -4 sum_there
	[ -z "$output" ]
	[ "$(status tenants | awk '{ sum += $4 } END { print sum + 0 }')" -eq 0 ]
	run --separate-stderr -4 sgpu host update here --yes
	assert_contains "$(sgpu host list)" here
}

@test "an update that is not confirmed changes nothing" {
	a_host
	add_here --roots ca.crt
	cp "$HOSTS/here/policy.json" before
	run --separate-stderr -2 setsid -w sgpu host update here --sessions any
	assert_contains "$output" 'changes    runner.sessions: "owners" -> "any"'
	assert_same before "$HOSTS/here/policy.json"
	[ "$(ls "$HOSTS")" = here ]
	run --separate-stderr -0 sgpu host update here --yes
	assert_contains "$output" "changes    none in the policy"
}

@test "what others could have changed of the user's directory is refused" {
	a_host
	add_here --roots ca.crt
	local path
	for path in "$XDG_CONFIG_HOME/sgpu" "$HOSTS/here" "$HOSTS/here/policy.json" "$HOSTS/here/roots.crt" "$HOSTS/here/host.json"; do
		chmod go+w "$path"
		run --separate-stderr -4 sum_there
		[ -z "$output" ]
		chmod go-w "$path"
	done
	[ "$(sum_there)" = 10 ]
}

@test "no address is an option of ssh, and no path a command of its shell" {
	mkdir bin
	# shellcheck disable=SC2016 # the script's
	printf '#!/bin/sh\nprintf "%%s\\n" "$@" >asked\nexec sh -c "$4"\n' >bin/ssh
	chmod +x bin/ssh
	PATH=$PWD/bin:$PATH
	run --separate-stderr -2 sgpu host add lab -- -v
	run --separate-stderr -2 sgpu host add lab "lab;touch mark"
	assert_no_file asked
	run --separate-stderr -3 sgpu host add lab lab --socket "/none'; touch mark; '\$(touch mark)"
	grep -qx lab asked
	assert_no_file mark
}
