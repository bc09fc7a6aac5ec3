#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [DIR]: finds the brain in a scan that only its owner can read. Results stay in DIR, if it is given.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
data=${DATA:-/usr/share/mricron/templates}
if [ ! -r "$data/ch2.nii.gz" ] || [ ! -r "$data/ch2bet.nii.gz" ]; then
	echo "brain-mri: no '$data/ch2.nii.gz': install the package mricron-data" >&2
	exit 3
fi
folder=${1:-$(mktemp -d)}
[ -n "${1:-}" ] || trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$folder"
cd "$folder"

# The owner has a scan, a calibration (f32: gain 100 / 255, bias 0), a job and a key; the runner has a pair of keys.
gunzip -c "$data/ch2.nii.gz" >ch2.nii
printf '\311\310\310\076\000\000\000\000' >calibration.f32
cp "$here/job.json" job.json
rm -f owner.jwk runner.jwk runner.pub.jwk
sgpu-seal keygen -q -o owner.jwk
sgpu-seal keygen -q --x25519 -o runner.jwk
sgpu-seal pubkey -o runner.pub.jwk runner.jwk

# In real life ssh stands between the owner (first and last line) and the machine with the runner (between them).
sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk |
	sgpu-stage load | sgpu-run -q -k runner.jwk |
	sgpu-seal open -k owner.jwk --force -C out

# What everybody may know: the intensities, from 0 to 100 %, in 20 bins.
od -An -v -w80 -t d4 out/histogram.i32 | xargs echo "histogram:"

# How good is it? The same package holds a brain extracted by another program.
gunzip -c "$data/ch2bet.nii.gz" >ch2bet.nii
report=$(command -v brain-report) || report=./brain-report
[ -x "$report" ] || ${CC:-cc} -O2 -o "$report" "$here/brain-report.c" -lpng
"$report" ch2.nii out/mask.u8 ch2bet.nii ${1:+"$PWD/brain.png"}
