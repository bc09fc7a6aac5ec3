#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# interop.sh [NAME...]: runs tests/interop/test_*.py, or only those named ("sealed", "batch"), with the programs in
# $SGPU_BUILD against independent implementations in Python. These live in a virtual environment below $SGPU_BUILD,
# made on the first run, but for PyTorch (Debian's python3-torch), without which its test is skipped. Prints TAP and last
# `N passed, N failed`. Exit 1 when any failed, 3 without the environment.
#   SGPU_BUILD          folder with the built programs (build)
#   SGPU_INTEROP_VENV   another virtual environment, used as it is
set -u
cd "$(dirname "$0")/.." || exit 3
SGPU_BUILD=${SGPU_BUILD:-build}
case $SGPU_BUILD in
/*) ;;
*) SGPU_BUILD=$PWD/$SGPU_BUILD ;;
esac
export SGPU_BUILD PATH=$SGPU_BUILD/bin:$SGPU_BUILD/examples:$PATH PYTHONDONTWRITEBYTECODE=1
unset SGPU_AEAD
packages=(cryptography pyhpke jwcrypto jsonschema numpy nibabel pycryptodome scikit-learn)
modules='import cryptography, pyhpke, jwcrypto, jsonschema, numpy, nibabel, Crypto.Hash.KangarooTwelve'
venv=${SGPU_INTEROP_VENV:-$SGPU_BUILD/interop-venv}

if ! "$venv/bin/python3" -c "$modules" 2>/dev/null; then
	if [ -n "${SGPU_INTEROP_VENV:-}" ]; then
		echo "interop.sh: '$venv' lacks one of: ${packages[*]}" >&2
		exit 3
	fi
	echo "# making '$venv' with ${packages[*]}"
	if ! python3 -m venv --clear "$venv" || ! "$venv/bin/pip" install --quiet --disable-pip-version-check \
		"${packages[@]}"; then
		echo "interop.sh: cannot make '$venv': is python3-venv installed, and a package index in reach?" >&2
		exit 3
	fi
fi

passed=0
failed=0
for script in tests/interop/test_*.py; do
	name=$(basename "$script" .py)
	if [ $# -gt 0 ]; then
		case " $* " in
		*" ${name#test_} "* | *" $name "*) ;;
		*) continue ;;
		esac
	fi
	echo "# $name"
	# PyTorch is a package of the system, not of the environment.
	python=$venv/bin/python3
	[ "$name" != test_training ] || python=/usr/bin/python3
	log=$(timeout 300 "$python" "$script" 2>&1)
	status=$?
	printf '%s\n' "$log"
	passed=$((passed + $(grep -c '^ok ' <<<"$log")))
	bad=$(grep -c '^not ok ' <<<"$log")
	# A script that died before its last test is a failure too.
	[ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
	failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
