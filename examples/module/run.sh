#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [DIR]: multiplies a million sealed numbers by a kernel that travels sealed, too, and compares with the
# operation of sgpu that does the same. DEVICE is "cpu" (the default) or "cuda". Results stay in DIR, if it is given.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
device=${DEVICE:-cpu}
folder=${1:-$(mktemp -d)}
[ -n "${1:-}" ] || trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$folder"
cd "$folder"

# The kernel in the form that the device takes: a shared object, or the text that the driver compiles.
case $device in
cpu) ${CC:-cc} -O2 -shared -fPIC -I"$here/../../include" -o code.bin "$here/cpu/scale.c" ;;
*) cp "$here/scale.ptx" code.bin ;;
esac
head -c 1000000 /dev/urandom >bytes.u8
cp "$here/job.json" job.json
rm -f shared.jwk
sgpu-seal keygen -q --no-sign -o shared.jwk

sgpu-manifest pack job.json | sgpu-seal seal -k shared.jwk |
	sgpu-run -q --device "$device" --allow-modules -k shared.jwk | sgpu-seal open -k shared.jwk --force -C out

cmp out/scaled.f32 out/expected.f32
echo "module: $(($(wc -c <out/scaled.f32) / 4)) numbers as expected"
