#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# commit.sh: prints the commit that this source is of, with "-dirty" when files were changed since; what `make dist` packed
# has it in this file, put there by git. "unknown" where neither says.
# shellcheck disable=SC2016 # what git replaces is no variable
exported='$Format:%H$'
cd "$(dirname "$0")/.." || exit 1
# The tree may be another user's: root installs what a user built.
if [ -e .git ] && git -c safe.directory="$PWD" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null; then
	exit 0
fi
case $exported in
*[!0-9a-f]*) echo unknown ;;
*) printf '%.12s\n' "$exported" ;;
esac
