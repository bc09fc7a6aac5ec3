#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# make install and uninstall, and what is installed at work away from the source tree.

load helpers

# make with the settings that the programs under test were built with, so that nothing is built again.
top_make() {
	local settings
	mapfile -t settings <"$SGPU_BUILD/settings"
	make -C "$SGPU_TOP" --no-print-directory "$@" "${settings[@]}" BUILD="$SGPU_BUILD"
}

# compile_user NAME [FLAG...]: a program of one file, with what pkg-config says of the installed library.
compile_user() {
	local flags sanitize name=$1
	shift
	flags=$(PKG_CONFIG_PATH="$root/lib/pkgconfig" \
		pkg-config --define-variable=prefix="$BATS_TEST_TMPDIR/prefix" --cflags --libs sgpu)
	[ -e "$BATS_TEST_TMPDIR/prefix" ] || ln -s "$root" "$BATS_TEST_TMPDIR/prefix"
	sanitize=$(case ${SGPU_SANITIZE:-} in address) echo -fsanitize=address,undefined ;; thread) echo -fsanitize=thread ;; esac)
	# shellcheck disable=SC2086 # a list of flags
	compile -std=c11 "$@" $sanitize "$name.c" $flags -o "$name"
}

setup_file() {
	top_make install DESTDIR="$BATS_FILE_TMPDIR/root dir" PREFIX=/opt/sgpu >/dev/null
}

installed() {
	root="$BATS_FILE_TMPDIR/root dir/opt/sgpu"
}

@test "install puts programs, library, headers, pages and completions below DESTDIR and PREFIX" {
	installed
	for tool in "$SGPU_TOP"/tools/sgpu{,-*}/main.c; do
		tool=$(basename "$(dirname "$tool")")
		[ -x "$root/bin/$tool" ]
		[ -s "$root/share/man/man1/$tool.1" ]
		[ -s "$root/share/bash-completion/completions/$tool" ]
		[ -s "$root/share/zsh/site-functions/_$tool" ]
		[ -s "$root/share/fish/vendor_completions.d/$tool.fish" ]
	done
	[ -s "$root/lib/libsgpu.a" ]
	[ -s "$root/lib/pkgconfig/sgpu.pc" ]
	[ -s "$root/share/man/man7/sgpu.7" ]
	for header in "$SGPU_TOP"/include/sgpu/*.h; do
		case $header in */version.h) continue ;; esac
		"$SGPU_TOP/scripts/man3.sh" "$(basename "$header" .h)" | cmp - "$root/share/man/man3/sgpu_$(basename "$header" .h).3"
	done
	[ -s "$root/share/doc/sgpu/README.md" ]
	cmp "$SGPU_TOP/tools/sgpu-bench/results.schema.json" "$root/share/sgpu/bench-results.schema.json"
	for unit in "$SGPU_TOP"/systemd/*; do
		sed 's,=/usr/local/bin/,=/opt/sgpu/bin/,' "$unit" | cmp - "$root/share/doc/sgpu/systemd/$(basename "$unit")"
	done
	grep -qx "ExecStart=/opt/sgpu/bin/sgpu-serve .*" "$root/share/doc/sgpu/systemd/sgpu-serve.service"
	for header in "$SGPU_TOP"/include/sgpu/*.h; do
		cmp "$header" "$root/include/sgpu/$(basename "$header")"
	done
}

@test "nothing is written outside of DESTDIR" {
	installed
	[ "$(ls "$BATS_FILE_TMPDIR/root dir")" = opt ]
	[ "$(ls "$BATS_FILE_TMPDIR/root dir/opt")" = sgpu ]
}

@test "others can read what a careful umask installed" {
	installed
	run -0 find "$root" ! -perm -o=r
	[ "$output" = "" ]
}

@test "an installed program runs from any folder" {
	installed
	cd /
	run -0 "$root/bin/sgpu-seal" --version
	assert_contains "$output" "sgpu-seal"
}

@test "uninstall removes all that install put there, and nothing else" {
	cp -r "$BATS_FILE_TMPDIR/root dir" .
	touch "root dir/opt/sgpu"/{bin/other,include/sgpu/of-another.h}
	top_make uninstall DESTDIR="$PWD/root dir" PREFIX=/opt/sgpu >/dev/null
	[ -e "root dir/opt/sgpu/bin/other" ]
	rm "root dir/opt/sgpu"/{bin/other,include/sgpu/of-another.h}
	run -0 find "root dir" ! -type d
	[ "$output" = "" ]
}

@test "the units of systemd are ones that it takes" {
	command -v systemd-analyze >/dev/null || skip "needs systemd-analyze"
	# The programs that they name are not there.
	cp "$SGPU_TOP"/systemd/sgpu-serve.* .
	sed -i -e 's,^ExecStart=[^ ]*,ExecStart=/bin/true,' sgpu-serve.service
	run -0 systemd-analyze verify --man=no ./sgpu-serve.service ./sgpu-serve.socket
	run ! grep -q "sgpu-serve" <<<"$output"
	run -0 systemd-analyze security --offline=true --threshold=7 ./sgpu-serve.service
	# The drop-in for modules gives back namespaces and mounts, and nothing else.
	{
		sed '/^\[Install\]/,$d' sgpu-serve.service
		sed '/^\[/d' "$SGPU_TOP/systemd/modules.conf"
	} >modules.service
	run -0 systemd-analyze verify --man=no ./modules.service
	run -0 systemd-analyze security --offline=true --threshold=17 ./modules.service
}

# denied_calls: those that the unit's filter takes away, one a line, with the groups that its groups name.
denied_calls() {
	local group groups
	read -ra groups <<<"$(sed -n 's/^SystemCallFilter=~//p' "$SGPU_TOP/systemd/sgpu-serve.service")"
	[ "${#groups[@]}" -gt 0 ]
	for group in "${groups[@]}"; do
		systemd-analyze syscall-filter "$group"
	done | awk '$1 !~ /^[@#]/ && NF == 1 { print $1 }' | sort -u
}

@test "the service's filter takes away no call that a server, its workers or the runner's own filter know" {
	requires strace no-sanitizer
	command -v systemd-analyze >/dev/null || skip "needs systemd-analyze"
	local server
	denied_calls >denied
	grep -qx ptrace denied
	grep -qx settimeofday denied # by way of a group that a group names
	make_keys 2>/dev/null
	small_job 2000
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk >batch.tar
	sgpu-seal keyinfo --owner -o owners owner.jwk
	echo '1 priority=high' >tenants
	# Traced, a process cannot be hardened against tracing.
	SGPU_DEBUG=1 strace -f -qq -e signal=none -o calls sgpu-serve -k runner.jwk --owners owners --state "$PWD/state" \
		--tenants tenants 2>log 3>&- &
	wait_for grep -q 'serving at' log
	server=$(sgpu-serve status | awk 'NR == 1 { sub(",", "", $2); print $2 }')
	sgpu-run -o response batch.tar
	kill -HUP "$server"
	wait_for grep -q "new workers serve" log
	kill "$server"
	wait $!
	sed -n 's/^[0-9]* *\([a-z0-9_]*\)(.*/\1/p' calls | sort -u >called
	grep -qx accept4 called
	grep -qx futex called
	sed -n '/ \(computing\|needed\)\[\]/,/^};/p' "$SGPU_TOP/tools/sgpu-enclave/filter.c" |
		grep -oE '"[a-z0-9_]+"' | tr -d '"' | sort -u >needed
	grep -qx read needed
	run -1 grep -Fxf denied called
	run -1 grep -Fxf denied needed
}

@test "a program that uses the library builds through pkg-config" {
	requires cc pkg-config
	installed
	cat >user.c <<'END'
#include <stdio.h>
#include <sgpu/attest.h>
int main(void) { return puts(sgpu_strerror(SGPU_EAUTH)) < 0; }
END
	compile_user user
	run -0 ./user
	[ -n "$output" ]
}

@test "the examples build from an installed tree, with nothing else of the project" {
	requires cc pkg-config
	installed
	cp -r "$root/share/doc/sgpu/examples" examples
	cd examples
	compile_user session/train -Wall -Wextra -Werror -D_GNU_SOURCE
	for program in server client; do
		compile_user "parameter-server/$program" -Wall -Wextra -Werror -D_GNU_SOURCE \
			parameter-server/{model,serve,sockets,load}.c
		[ -x "parameter-server/$program" ]
	done
	mv fashion-train/job.c fashion-train/train.c
	compile_user fashion-train/train -Wall -Wextra -Werror -D_GNU_SOURCE fashion-train/network.c
	run -3 session/train
}

@test "a space in PREFIX or BUILD, or a relative PREFIX, is refused with a word about it" {
	run -2 make -C "$SGPU_TOP" -n PREFIX="/opt/my sgpu" install
	assert_contains "$output" "contains a space"
	run -2 make -C "$SGPU_TOP" -n PREFIX=usr/local install
	assert_contains "$output" "PREFIX 'usr/local' is not an absolute path"
	run -2 make -C "$SGPU_TOP" -n BUILD="my build"
	assert_contains "$output" "contains a space"
}

@test "the completions of zsh and fish parse" {
	installed
	checked=0
	for shell in zsh fish; do
		command -v $shell >/dev/null || continue
		for file in "$root"/share/zsh/site-functions/_* "$root"/share/fish/vendor_completions.d/*.fish; do
			case $shell:$file in
			zsh:*/_* | fish:*.fish) $shell -n "$file" ;;
			esac
		done
		checked=1
	done
	[ $checked = 1 ] || skip "needs zsh or fish"
}

@test "make without a header says which package has it" {
	requires cc
	mkdir none
	printf '#!/bin/sh\nexit 1\n' >none/cc
	chmod +x none/cc
	run -1 "$SGPU_TOP/scripts/check-headers.sh" "$PWD/none/cc"
	assert_contains "$output" "libjansson-dev"
	run -1 "$SGPU_TOP/scripts/check-headers.sh" "$PWD/none/no-compiler"
	assert_contains "$output" "package gcc"
}

@test "install-deps says nothing when all is there, and names the packages when it cannot install" {
	run -2 "$SGPU_TOP/scripts/install-deps.sh" nonsense
	mkdir path
	for name in sh uname sort tr env id mktemp rm cat; do
		ln -s "$(command -v $name)" path/
	done
	# No dpkg-query there: another distribution.
	PATH=$PWD/path run -1 "$SGPU_TOP/scripts/install-deps.sh" build
	assert_contains "$output" "not Debian"
	assert_contains "$output" "libssl-dev"
	# dpkg-query knows nothing, the user is not root, and there is no sudo.
	printf '#!/bin/sh\nexit 1\n' >path/dpkg-query
	cp path/dpkg-query path/apt-get
	rm path/id
	printf '#!/bin/sh\necho 1000\n' >path/id
	chmod +x path/*
	PATH=$PWD/path run -1 "$SGPU_TOP/scripts/install-deps.sh" build
	assert_contains "$output" "neither root nor sudo"
	assert_contains "$output" "libjansson-dev"
	# All is there: not a word.
	printf '#!/bin/sh\nprintf installed\n' >path/dpkg-query
	PATH=$PWD/path run -0 "$SGPU_TOP/scripts/install-deps.sh" build demo check fuzz interop bench all
	[ "$output" = "" ]
}

@test "dist packs the committed tree under one folder" {
	requires git
	git -C "$SGPU_TOP" rev-parse HEAD >/dev/null 2>&1 || skip "needs a git checkout"
	make -C "$SGPU_TOP" --no-print-directory dist BUILD="$PWD/out" >/dev/null
	run -0 tar tzf out/sgpu-*.tar.gz
	assert_contains "$output" "/Makefile"
	[ "$(printf '%s\n' "${lines[@]}" | cut -d / -f 1 | sort -u | wc -l)" -eq 1 ]
}
