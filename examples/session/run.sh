#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [DIR]: trains a classifier of 2000 pictures of clothes in a secure session with `sgpu-enclave --session`. DEVICE names the
# device, WORKER another command than sgpu-enclave, as `ssh host sgpu-enclave -k key`. With SGPU_SOCKET, it is a session of the server
# there. RUNNER is the worker's public key, from an accepted quote or of its -k; sgpu-enclave here gets a new one. OWNER is the key file
# of an owner, for a worker with --owners.
# The losses stay in DIR, if it is given.
set -eu
umask 077
data=${DATA:-/usr/share/datasets/fashion-mnist}
if [ ! -r "$data/train-images-idx3-ubyte.gz" ]; then
	echo "session: no '$data/train-images-idx3-ubyte.gz': install the package dataset-fashion-mnist" >&2
	exit 3
fi
folder=${1:-$(mktemp -d)}
[ -n "${1:-}" ] || trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$folder"
cd "$folder"

# Pictures stand behind a header of 16 bytes, labels behind 8.
gunzip -c "$data/train-images-idx3-ubyte.gz" >images
gunzip -c "$data/train-labels-idx1-ubyte.gz" >labels
{
	tail -c +17 images | head -c 1568000
	tail -c +9 labels | head -c 2000
} >data
if [ -n "${SGPU_SOCKET:-}" ]; then
	train <data >losses
else
	[ -n "${RUNNER:-}" ] || sgpu-seal keygen -q --x25519 | tee key | sgpu-seal pubkey >runner.jwk
	# shellcheck disable=SC2086 # a command and its arguments
	RUNNER=${RUNNER:-runner.jwk} train ${WORKER:-sgpu-enclave -k key} --session --device "${DEVICE:-cpu}" <data >losses
fi
cat losses
