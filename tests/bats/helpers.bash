# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What every bats file loads: the built programs on PATH, a private folder for runtime files, keys and a small job.
#
# A file with a setup() or teardown() of its own that starts something must still end it; the folders made here are
# removed by the default teardown(), by sgpu_teardown(), or at the latest by scripts/run-tests.sh.

bats_require_minimum_version 1.5.0

# The top of the source tree, and the folder that make built into.
SGPU_TOP=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
SGPU_BUILD=${SGPU_BUILD:-build}
case $SGPU_BUILD in
/*) ;;
*) SGPU_BUILD=$SGPU_TOP/$SGPU_BUILD ;;
esac
export SGPU_TOP SGPU_BUILD
case $PATH in
"$SGPU_BUILD/bin:"*) ;;
*) PATH=$SGPU_BUILD/bin:$PATH ;;
esac
export PATH LC_ALL=C
unset SGPU_AEAD SGPU_SOCKET
umask 077

# Per test: $TEST_SHM, a folder on tmpfs, and in it XDG_RUNTIME_DIR, where staged regions live.
if [ -n "${BATS_TEST_TMPDIR:-}" ] && [ -z "${SGPU_TEST_OF:-}" ]; then
	TEST_SHM=$(mktemp -d "${SGPU_TEST_SHM:-/dev/shm}/sgpu-test.XXXXXX")
	XDG_RUNTIME_DIR=$TEST_SHM/run
	mkdir -m 0700 "$XDG_RUNTIME_DIR"
	XDG_CONFIG_HOME=$TEST_SHM/config # keys and hosts of `sgpu`
	SGPU_TEST_OF=$BATS_TEST_TMPDIR
	export TEST_SHM XDG_RUNTIME_DIR XDG_CONFIG_HOME SGPU_TEST_OF
fi

# Starts in the test's own empty folder.
setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
}

# For files with a teardown() of their own.
sgpu_teardown() {
	cd / || return 1
	case ${TEST_SHM:-} in
	*/sgpu-test.*) rm -rf "$TEST_SHM" ;;
	esac
}

teardown() {
	sgpu_teardown
}

# use_roots: from here on, programs look for the kernel's files where SGPU_TSM_ROOT and its like say (tests/harness).
use_roots() {
	PATH=$SGPU_BUILD/test/bin:$PATH
}

# requires WORD...: skips the test, with the reason, when the machine lacks one of them. An unknown word fails.
requires() {
	local word
	for word in "$@"; do
		case $word in
		root) [ "$(id -u)" -eq 0 ] || skip "needs root" ;;
		not-root) [ "$(id -u)" -ne 0 ] || skip "needs a user other than root" ;;
		mount) can_mount || skip "needs the right to mount a tmpfs" ;;
		tmpfs) [ "$(stat -f -c %T /dev/shm)" = tmpfs ] || skip "needs a tmpfs on /dev/shm" ;;
		memory-4g) [ "$(available_mib MemAvailable)" -ge 6144 ] || skip "needs 6 GiB of free memory" ;;
		shm-2g) [ "$(free_mib /dev/shm)" -ge 2560 ] || skip "needs 2.5 GiB free on /dev/shm" ;;
		shm-4g) [ "$(free_mib /dev/shm)" -ge 5120 ] || skip "needs 5 GiB free on /dev/shm" ;;
		disk-6g) [ "$(free_mib "$BATS_TEST_TMPDIR")" -ge 6144 ] || skip "needs 6 GiB of free disk" ;;
		no-sanitizer) [ -z "${SGPU_SANITIZE:-}" ] || skip "not measured under a sanitizer" ;;
		vaes) grep -qw vaes /proc/cpuinfo || skip "needs a CPU with VAES" ;;
		gpu) [ -e /dev/nvidiactl ] || skip "needs an NVIDIA GPU" ;;
		vectors) [ -d "${SGPU_VECTORS:-}" ] || skip "needs published vectors in SGPU_VECTORS" ;;
		brain-mri) [ -r /usr/share/mricron/templates/ch2.nii.gz ] || skip "needs the package mricron-data" ;;
		fashion-mnist) [ -d /usr/share/datasets/fashion-mnist ] || [ -d /usr/share/dataset-fashion-mnist ] ||
			skip "needs the package dataset-fashion-mnist" ;;
		tpm2-openssl) find /usr/lib /usr/local/lib -name tpm2.so -path '*ossl-modules*' 2>/dev/null | grep -q . ||
			skip "needs OpenSSL's provider tpm2 (package tpm2-openssl)" ;;
		python-cryptography) python3 -c 'import cryptography' 2>/dev/null || skip "needs Python's cryptography" ;;
		numpy) python3 -c 'import numpy' 2>/dev/null || skip "needs Python's numpy" ;;
		gnu-time) [ -x /usr/bin/time ] || skip "needs GNU time" ;;
		c++) command -v "${CXX:-c++}" >/dev/null || skip "needs a C++ compiler" ;;
		pty) script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "needs a pseudo-terminal (and script)" ;;
		cc) has_compiler || skip "needs a C compiler" ;;
		age | bash | chromium | clang | fish | gcc | git | jq | make | mandoc | openssl | pkg-config | python3 | script | \
			setpriv | shellcheck | spin | ssh | strace | swtpm | tar | unshare | zsh)
			command -v "$word" >/dev/null || skip "needs $word" ;;
		*)
			echo "requires: unknown word '$word'" >&2
			return 1
			;;
		esac
	done
}

# For setup_file, too, where bats before 1.9 cannot skip: there, return 0 without a compiler, and skip in setup.
has_compiler() {
	local words
	read -ra words <<<"${CC:-cc}"
	command -v "${words[0]}" >/dev/null
}

# compile OPTION...: by the compiler that CC names, which may have options of its own or stand behind ccache.
compile() {
	local words
	read -ra words <<<"${CC:-cc}"
	"${words[@]}" "$@"
}

# The number behind a name in /proc/meminfo; MiB where it counts kB.
available_mib() {
	awk -v name="$1:" '$1 == name { print $3 == "kB" ? int($2 / 1024) : $2 }' /proc/meminfo
}

free_mib() {
	df -P -m "$1" | awk 'NR == 2 { print $4 }'
}

can_mount() {
	unshare --mount true 2>/dev/null
}

# wait_for COMMAND...: until it succeeds, for as long as the slowest machine may need.
wait_for() {
	local end=$((SECONDS + 120))
	until "$@"; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "still not: $*" >&2
			return 1
		fi
		sleep 0.05
	done
}

# tsm_driver AMD [CONDITION]: makes the reports of the folder tsm, for programs that start no process (fake_tsm.c:
# "elsewhere"), once the file CONDITION is there; `asked` says that one was asked for. $DRIVER is its process.
tsm_driver() {
	cat >driver <<-END
		while sleep 0.05; do
			for folder in tsm/*/; do
				[ -s "\$folder/inblob" ] && [ ! -e "\$folder/made" ] || continue
				touch asked
				[ -e "${2:-asked}" ] || continue
				python3 '$SGPU_TOP/tests/bats/fake_tsm.py' report '$1' "\$folder/inblob" "\$folder/outblob" \\
					"\$folder/auxblob" && touch "\$folder/made"
			done
		done
	END
	sh driver 3>&- 2>driver.log &
	# shellcheck disable=SC2034 # for the caller
	DRIVER=$!
}

# waits_in_poll PID: a runner that has confined itself and waits, as for its batch.
waits_in_poll() {
	[ "$(awk '{ print $3 }' "/proc/$1/stat")" = S ] && grep -q '^Seccomp:[[:space:]]*2' "/proc/$1/status"
}

# runs_as PID PROGRAM: what was started has become that program.
runs_as() {
	[ "$(cat "/proc/$1/comm")" = "$2" ]
}

# assert_no_file PATH...: none of them exists, whatever it is, and no temporary file of its name is left beside it.
assert_no_file() {
	local path left
	for path in "$@"; do
		if [ -e "$path" ] || [ -L "$path" ]; then
			echo "'$path' exists and should not" >&2
			return 1
		fi
		# Not the files of bats itself, whose random names may hold any letter.
		left=$(find "$(dirname "$path")" -maxdepth 1 -name "*$(basename "$path")*" \
			! -name 'separate-stderr-??????' 2>/dev/null)
		if [ -n "$left" ]; then
			echo "left beside '$path': $left" >&2
			return 1
		fi
	done
}

# assert_contains TEXT PART: PART stands somewhere in TEXT.
# assert_plain TEXT: ends of lines, and of other characters printable ASCII in the locale C; elsewhere UTF-8, and nothing
# that a terminal obeys or that turns the direction of writing.
assert_plain() {
	local bad='[^\n -~]'
	[ "$LC_ALL" = C ] || bad='[\x00-\x09\x0b-\x1f\x7f-\x9f\x{61c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}]'
	if ! iconv -f UTF-8 -t UTF-8 <<<"$1" >/dev/null || grep -qzP "$bad" <<<"$1"; then
		printf 'not plain: %q\n' "$1" >&2
		return 1
	fi
}

assert_contains() {
	case $1 in
	*"$2"*) ;;
	*)
		printf "expected to find: %s\nin: %s\n" "$2" "$1" >&2
		return 1
		;;
	esac
}

# assert_same FILE FILE: the same bytes.
assert_same() {
	cmp -- "$1" "$2" >&2
}

# make_keys: owner.jwk (symmetric), runner.jwk and runner.pub.jwk (X25519) in the current folder.
make_keys() {
	sgpu-seal keygen -o owner.jwk &&
		sgpu-seal keygen --x25519 -o runner.jwk &&
		sgpu-seal pubkey -o runner.pub.jwk runner.jwk
}

# run_job: sealed and response from packed.
run_job() {
	sgpu-seal seal -k owner.jwk -r runner.pub.jwk packed >sealed &&
		sgpu-run -k runner.jwk sealed >response
}

# rewrite FROM TO CODE: a batch or a response, changed by somebody who makes digests good again, but can sign nothing.
rewrite() {
	python3 "$SGPU_TOP/tests/bats/rewrite_batch.py" "$@"
}

# small_job [ELEMENTS]: job.json and its files in the current folder: out.f32 = (scan + bias) * 1, HIGH, by way of an
# intermediate segment; and bias.copy.f32, LOW. The numbers are small whole ones, so that sums are exact.
small_job() {
	local n=${1:-1024} period=1757 # 251 * 7
	[ "$n" -gt $period ] || period=$n
	awk -v n="$period" 'BEGIN { for (i = 0; i < n; i++) print i % 251 }' | floats >scan.f32
	awk -v n="$period" 'BEGIN { for (i = 0; i < n; i++) print i % 7 }' | floats >bias.f32
	awk -v n="$period" 'BEGIN { for (i = 0; i < n; i++) print i % 251 + i % 7 }' | floats >expected.f32
	repeat $((4 * n)) scan.f32 bias.f32 expected.f32
	cat >job.json <<END
{ "version": 1, "manifest_id": "small-job",
  "segments": [
    { "segment_id": "scan", "data_location_client": "scan.f32", "sensitivity_level": "HIGH", "direction": "INPUT",
      "gpu_operation_id": "ADD", "data_type_info": { "dtype": "f32", "shape": [$n] } },
    { "segment_id": "bias", "data_location_client": "bias.f32", "sensitivity_level": "LOW", "direction": "INPUT",
      "gpu_operation_id": "ADD", "data_type_info": { "dtype": "f32", "shape": [$n] } },
    { "segment_id": "sum", "sensitivity_level": "HIGH", "direction": "INTERMEDIATE",
      "gpu_operation_id": "ADD", "data_type_info": { "dtype": "f32", "shape": [$n] } },
    { "segment_id": "result", "data_location_client": "out.f32", "sensitivity_level": "HIGH", "direction": "OUTPUT",
      "gpu_operation_id": "COPY", "data_type_info": { "dtype": "f32", "shape": [$n] } },
    { "segment_id": "bias_copy", "data_location_client": "bias.copy.f32", "sensitivity_level": "LOW",
      "direction": "OUTPUT", "gpu_operation_id": "PUBLISH", "data_type_info": { "dtype": "f32", "shape": [$n] } } ],
  "operations": [
    { "gpu_operation_id": "ADD", "kernel": "vector_add", "arguments": { "a": "scan", "b": "bias", "output": "sum" } },
    { "gpu_operation_id": "COPY", "kernel": "copy", "arguments": { "input": "sum", "output": "result" } },
    { "gpu_operation_id": "PUBLISH", "kernel": "copy", "arguments": { "input": "bias", "output": "bias_copy" } } ] }
END
}

# repeat SIZE FILE...: makes each file as large as that by more of the same.
repeat() {
	local size=$1 file
	for file in "${@:2}"; do
		while [ "$(stat -c %s "$file")" -lt "$size" ]; do
			cat "$file" "$file" >"$file.twice"
			mv "$file.twice" "$file"
		done
		truncate -s "$size" "$file"
	done
}

# floats: whole numbers from 0 to 16777215, one a line, to little-endian f32. Without Python: the tests of the core
# need only what Debian's base has.
floats() {
	awk '{
		v = $1; exponent = 0; mantissa = 0
		if (v > 0) {
			for (p = 1; p * 2 <= v; p *= 2) exponent++
			mantissa = (v - p) * 8388608 / p
			exponent += 127
		}
		b3 = int(exponent / 2); rest = (exponent % 2) * 128 + int(mantissa / 65536)
		printf "%02x%02x%02x%02x\n", mantissa % 256, int(mantissa / 256) % 256, rest, b3
	}' | unhex
}

# unhex: hexadecimal digits, two a byte, on any number of lines, to bytes.
unhex() {
	local escapes
	tr -d '\n' | sed 's/../\\x&/g' | fold -w 65536 | while IFS= read -r escapes || [ -n "$escapes" ]; do
		# shellcheck disable=SC2059 # the format is made of escapes on purpose
		printf "$escapes"
	done
}

# flip_byte FILE OFFSET: changes one byte in place.
flip_byte() {
	local old
	old=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
	# shellcheck disable=SC2059 # the format is an escape on purpose
	printf "\\x$(printf %02x $((old ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
