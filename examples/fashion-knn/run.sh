#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [DIR]: names 2000 pictures of clothes by their 5 nearest neighbours among 10000 known ones, all of them
# sealed. Results stay in DIR, if it is given.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
data=${DATA:-/usr/share/datasets/fashion-mnist}
if [ ! -r "$data/train-images-idx3-ubyte.gz" ]; then
	echo "fashion-knn: no '$data/train-images-idx3-ubyte.gz': install the package dataset-fashion-mnist" >&2
	exit 3
fi
folder=${1:-$(mktemp -d)}
[ -n "${1:-}" ] || trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$folder"
cd "$folder"

# The job takes its windows out of the files: the first images behind a header of 16 bytes, their labels behind 8.
gunzip -c "$data/train-images-idx3-ubyte.gz" >train-images
gunzip -c "$data/train-labels-idx1-ubyte.gz" >train-labels
gunzip -c "$data/t10k-images-idx3-ubyte.gz" >test-images
gunzip -c "$data/t10k-labels-idx1-ubyte.gz" >test-labels
cp "$here/job.json" job.json
rm -f shared.jwk
sgpu-seal keygen -q --no-sign -o shared.jwk

# Owner and runner share one key here; ../brain-mri has one for each.
sgpu-manifest pack job.json | sgpu-seal seal -k shared.jwk | sgpu-run -q -k shared.jwk |
	sgpu-seal open -k shared.jwk --force -C out

# One line a picture: the label that came out, the label that is right.
od -An -v -w4 -t d4 out/labels.i32 >got
od -An -v -w1 -t u1 -j 8 -N 2000 test-labels | paste got - |
	awk '$1 == $2 { right++ } END { printf "accuracy: %.4f (%d of %d)\n", right / NR, right, NR }'
