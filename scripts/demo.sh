#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh [EXAMPLE...]: shows a service with two tenants (demo-service.sh), and runs the examples on real data, with the
# programs in $SGPU_BUILD, each in a folder of its own below $SGPU_BUILD/demo. The brain comes last: it ends with the Dice
# figure and the path of a picture; then stands what to type next.
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
cat <<END

Next, on a scan of your own, or on this one:

    export PATH="$build/bin:\$PATH"
    sgpu run threshold low=70 high=140 /usr/share/mricron/templates/ch2.nii.gz -o mask.nii.gz
END
