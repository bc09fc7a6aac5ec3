#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [DIR]: trains an autoencoder, or the NETWORK cnn, on pictures of clothes, sealed and then unsealed; prints loss
# and accuracy after each of EPOCHS epochs of STEPS steps. Results stay in DIR, if it is given.
set -eu
umask 077
data=${DATA:-/usr/share/datasets/fashion-mnist}
if [ ! -r "$data/train-images-idx3-ubyte.gz" ]; then
	echo "fashion-train: no '$data/train-images-idx3-ubyte.gz': install the package dataset-fashion-mnist" >&2
	exit 3
fi
folder=${1:-$(mktemp -d)}
[ -n "${1:-}" ] || trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
rm -rf "$folder/HIGH" "$folder/LOW"
mkdir -p "$folder/HIGH" "$folder/LOW"
folder=$(cd "$folder" && pwd)

# Each epoch is a batch; its first parameters are the last ones of the batch before.
for level in HIGH LOW; do
	cd "$folder/$level"
	gunzip -c "$data/train-images-idx3-ubyte.gz" >train-images
	gunzip -c "$data/train-labels-idx1-ubyte.gz" >train-labels
	gunzip -c "$data/t10k-images-idx3-ubyte.gz" >test-images
	gunzip -c "$data/t10k-labels-idx1-ubyte.gz" >test-labels
	fashion-train "${NETWORK:-autoencoder}" $level "${STEPS:-40}" >job.json
	sgpu-seal keygen -q --no-sign -o key.jwk
	for epoch in $(seq "${EPOCHS:-3}"); do
		sgpu-manifest pack job.json | sgpu-seal seal -q -k key.jwk | sgpu-run -q -k key.jwk |
			sgpu-seal open -k key.jwk --force -C .
		echo "$level, epoch $epoch: loss $(od -An -v -t f4 after.f32 | tr -d ' ')"
		[ ! -e classes.i32 ] || od -An -v -w4 -t d4 classes.i32 >got
		[ ! -e classes.i32 ] || od -An -v -w1 -t u1 -j 8 -N 400 test-labels | paste got - |
			awk '$1 == $2 { right++ } END { printf "accuracy: %.4f (%d of %d)\n", right / NR, right, NR }'
	done
	cat w?.f32 b?.f32 >../parameters.$level
done
cmp ../parameters.HIGH ../parameters.LOW && echo "sealed and unsealed parameters are equal"
