#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-deps.sh [build|demo|check|fuzz|interop|bench|all]...: installs the Debian packages that each needs.
# Says nothing when all of them are there.
set -u

packages_for() {
	case $1 in
	build) echo gcc make libc6-dev libssl-dev libjansson-dev zlib1g-dev libnuma-dev libseccomp-dev libjs-chart.js "$(on_amd64 libipsec-mb-dev)" ;;
	demo) echo mricron-data dataset-fashion-mnist libopenblas0-pthread libpng-dev ;;
	check) echo bats clang-format mandoc shellcheck python3 python3-cryptography python3-jsonschema jq openssl g++ pkg-config git procps spin \
		swtpm tpm2-openssl libtss2-tcti-swtpm0 time ;;
	fuzz) echo clang libclang-rt-14-dev lld ;;
	interop) echo python3 python3-torch python3-venv age openssl chromium ;;
	bench) echo age openssl time jq linux-perf ;;
	all)
		for group in build demo check fuzz interop bench; do
			packages_for "$group"
		done
		;;
	*)
		echo "install-deps.sh: unknown group '$1'" >&2
		echo "usage: install-deps.sh [build|demo|check|fuzz|interop|bench|all]..." >&2
		exit 2
		;;
	esac
}

on_amd64() {
	case $(uname -m) in
	x86_64) echo "$1" ;;
	esac
}

# Only called where there is dpkg-query.
missing_of() {
	for package in "$@"; do
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
	done | sort -u | tr '\n' ' '
}

# Shows what apt-get wrote only when it fails.
apt_get() {
	log=$(mktemp) || exit 1
	if $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 "$@" </dev/null >"$log" 2>&1; then
		rm -f "$log"
		return 0
	fi
	cat "$log" >&2
	rm -f "$log"
	return 1
}

by_hand() {
	echo "install-deps.sh: $1" >&2
	echo "install-deps.sh: these Debian packages, or what your system calls them, are needed: $2" >&2
	echo "install-deps.sh: with them in place, 'make DEPS=0 ...' skips this step" >&2
	exit 1
}

[ $# -gt 0 ] || set -- build
wanted=
for group in "$@"; do
	names=$(packages_for "$group") || exit $?
	wanted="$wanted $names"
done

{ command -v dpkg-query && command -v apt-get; } >/dev/null 2>&1 ||
	by_hand "this is not Debian or one of its children, so nothing can be installed from here" "$wanted"
# shellcheck disable=SC2086 # a list of names
missing=$(missing_of $wanted)
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null 2>&1 || by_hand "neither root nor sudo, so nothing can be installed" "$missing"
	sudo=sudo
	[ -t 0 ] || sudo="sudo -n"
fi
echo "installing: $missing"
apt_get update || echo "install-deps.sh: warning: apt-get update failed, trying with the lists that are there" >&2
# shellcheck disable=SC2086 # a list of names
apt_get install -y --no-install-recommends $missing || by_hand "apt-get could not install them" "$missing"
