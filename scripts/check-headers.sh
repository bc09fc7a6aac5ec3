#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-headers.sh CC [FLAG...]: says which package is missing when a header cannot be found.
#   SGPU_CUDA_HOME   where the CUDA toolkit is, in a build with the CUDA device
set -u
command -v "$1" >/dev/null 2>&1 || {
	echo "there is no compiler '$1': Debian has it in the package gcc; scripts/install-deps.sh build installs it" >&2
	exit 1
}
status=0
for pair in stdio.h:libc6-dev openssl/evp.h:libssl-dev jansson.h:libjansson-dev zlib.h:zlib1g-dev; do
	header=${pair%:*}
	printf '#include <%s>\n' "$header" | "$@" -E -x c - >/dev/null 2>&1 || {
		echo "the header <$header> is missing: Debian has it in the package ${pair#*:}" >&2
		status=1
	}
done
for header in ${SGPU_CUDA_HOME:+cuda.h cuda_runtime.h}; do
	printf '#include <%s>\n' "$header" | "$@" -isystem "$SGPU_CUDA_HOME/include" -E -x c - >/dev/null 2>&1 || {
		echo "the header <$header> of the CUDA toolkit is not in '$SGPU_CUDA_HOME/include': give another nvcc as" \
			"NVCC=, or build with CUDA=0" >&2
		status=1
	}
done
[ $status -eq 0 ] || echo "scripts/install-deps.sh build installs what the build needs" >&2
exit $status
