#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh [EXAMPLE...]: shows a service with two tenants (demo-service.sh), and runs the examples on real data, with the
# programs in $SGPU_BUILD, each in a folder of its own below $SGPU_BUILD/demo. The brain comes last: it ends with the Dice figure and a picture.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
build=${SGPU_BUILD:-build}
case $build in
/*) ;;
*) build=$top/$build ;;
esac
export PATH=$build/bin:$build/examples:$PATH
[ $# -gt 0 ] || set -- service fashion-knn fashion-train attested session parameter-server brain-mri
for example in "$@"; do
	folder=$build/demo/$example
	rm -rf "$folder"
	mkdir -p "$folder"
	script=examples/$example/run.sh
	[ "$example" != service ] || script=scripts/demo-service.sh
	echo "== $example: $script, in '${folder#"$top"/}'"
	"$script" "$folder"
done
