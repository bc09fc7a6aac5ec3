#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fresh-machine.sh [--keep] [--folder DIR] [TARGET...]: shows that nothing is missing from scripts/install-deps.sh. Makes
# a minimal Debian 12 with git and make in a folder, clones the committed tree there, and makes demo and check (or the
# targets named) in it. Needs root and debootstrap.
set -eu
cd "$(dirname "$0")/.."
folder=/var/tmp/sgpu-fresh-machine
keep=0
targets=()
while [ $# -gt 0 ]; do
	case $1 in
	--keep) keep=1 ;;
	--folder)
		folder=${2:?}
		shift
		;;
	-*)
		echo "usage: fresh-machine.sh [--keep] [--folder DIR] [TARGET...]" >&2
		exit 2
		;;
	*) targets+=("$1") ;;
	esac
	shift
done
[ ${#targets[@]} -gt 0 ] || targets=(demo check)
[ "$(id -u)" -eq 0 ] || {
	echo "fresh-machine.sh: needs root" >&2
	exit 3
}
command -v debootstrap >/dev/null || {
	echo "fresh-machine.sh: needs debootstrap" >&2
	exit 3
}

if [ ! -e "$folder/etc/debian_version" ]; then
	[ ! -e "$folder" ] || [ -z "$(ls -A "$folder")" ] || {
		echo "fresh-machine.sh: '$folder' is not empty and not a Debian" >&2
		exit 3
	}
	echo "== debootstrap into $folder"
	debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$folder" >"$folder.log" 2>&1 || {
		tail -n 20 "$folder.log" >&2
		exit 3
	}
	rm -f "$folder.log"
fi

# How this machine reaches its packages: names, a proxy, certificates.
cp -L /etc/resolv.conf "$folder/etc/resolv.conf"
grep -lsE 'Proxy|Check-(Valid|Date)' /etc/apt/apt.conf.d/* | while IFS= read -r file; do
	cp "$file" "$folder/etc/apt/apt.conf.d/"
done
for file in /usr/local/share/ca-certificates/*.crt; do
	[ ! -e "$file" ] || cp "$file" "$folder/usr/local/share/ca-certificates/"
done

rm -rf "$folder/root/sgpu" "$folder/root/sgpu.bundle"
git bundle create -q "$folder/root/sgpu.bundle" HEAD
cat >"$folder/root/run.sh" <<'END'
set -u
update-ca-certificates >/dev/null 2>&1
cd /root && git clone -q sgpu.bundle sgpu && cd sgpu || exit 1
status=0
for target in "$@"; do
	start=$(date +%s)
	echo "== make $target"
	make "$target" </dev/null || status=1
	echo "== make $target: $(($(date +%s) - start)) s"
done
git status --short
exit $status
END

status=0
proxies=()
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
	[ -z "${!name:-}" ] || proxies+=("$name=${!name}")
done
# Mounts and processes of the chroot end with it.
# shellcheck disable=SC2016 # expanded in the inner shell
unshare --mount --pid --fork --kill-child sh -eu -c '
	folder=$1
	shift
	mount --bind "$folder" "$folder"
	mount -t proc proc "$folder/proc"
	mount -t sysfs -o ro sysfs "$folder/sys"
	mount -t tmpfs -o mode=1777 tmpfs "$folder/dev/shm"
	mkdir -p "$folder/dev/pts"
	mount -t devpts devpts "$folder/dev/pts"
	exec chroot "$folder" "$@"
' sh "$folder" /usr/bin/env -i HOME=/root TERM=dumb PATH=/usr/sbin:/usr/bin:/sbin:/bin "${proxies[@]}" \
	bash /root/run.sh "${targets[@]}" || status=$?
[ $keep = 1 ] || rm -rf "$folder"
[ $status -eq 0 ] && echo "fresh machine: all good" || echo "fresh machine: failed"
exit $status
