#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# man-synopsis.sh HEADER...: prints the section SYNOPSIS of the manual page of each public header, from its prototypes.
# man-synopsis.sh --update [HEADER...]: puts it into man/sgpu_HEADER.3; without a name, into every page that there is.
# man-synopsis.sh --functions HEADER...: prints the names of the functions alone.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."

# The functions of a header in their order, one on each line: type, name and parameters, parted by tabs.
prototypes() {
	awk '
	# Without comments and preprocessor lines.
	{
		line = $0
		if (continued || line ~ /^[ \t]*#/) { continued = line ~ /\\$/; next }
		while (line != "") {
			if (inside) {
				if (!(i = index(line, "*/"))) break
				line = substr(line, i + 2)
				inside = 0
			} else if ((i = index(line, "/*"))) {
				text = text substr(line, 1, i - 1)
				line = substr(line, i + 2)
				inside = 1
			} else {
				text = text line
				break
			}
		}
		text = text " "
	}
	function declare(words,  at, open) {
		gsub(/[ \t]+/, " ", words)
		gsub(/SGPU_MUST_CHECK |SGPU_PRINTF\([0-9, ]*\)|^ | $/, "", words)
		gsub(/ $/, "", words)
		if (words ~ /^(typedef|extern|struct [a-z0-9_]+$|enum)/ && words !~ /\) *$/) return
		if (words ~ /^typedef/ || !match(words, /sgpu_[a-z0-9_]+\(/)) return
		at = RSTART
		open = RSTART + RLENGTH - 1
		type = substr(words, 1, at - 1)
		sub(/^static inline /, "", type)
		sub(/ $/, "", type)
		parameters = substr(words, open + 1)
		sub(/\) *$/, "", parameters)
		print type "\t" substr(words, at, open - at) "\t" parameters
	}
	END {
		gsub(/extern "C" \{/, "", text)
		depth = 0
		for (i = 1; i <= length(text); i++) {
			c = substr(text, i, 1)
			if (c == "{") {
				if (!depth++) { body = declaration; declaration = "" }
			} else if (c == "}") {
				if (depth && !--depth && body ~ /\)[ \t]*$/) { declare(body); body = "" }
			} else if (depth) {
				continue
			} else if (c == ";") {
				declare(declaration)
				declaration = ""
			} else {
				declaration = declaration c
			}
		}
	}' "include/sgpu/$1.h"
}

synopsis() {
	echo '.Sh SYNOPSIS'
	echo ".In sgpu/$1.h"
	prototypes "$1" | awk -F '\t' '{
		print ".Ft " $1
		line = ".Fn " $2
		depth = 0
		parameter = ""
		for (i = 1; i <= length($3); i++) {
			c = substr($3, i, 1)
			depth += (c == "(") - (c == ")")
			if (c == "," && !depth) {
				line = line " \"" parameter "\""
				parameter = ""
			} else if (c != " " || parameter != "") {
				parameter = parameter c
			}
		}
		print line " \"" parameter "\""
	}'
}

update() {
	local name page
	for name in "$@"; do
		page=man/sgpu_$name.3
		{
			sed '/^\.Sh SYNOPSIS/,$d' "$page"
			synopsis "$name"
			sed '1,/^\.Sh SYNOPSIS/d' "$page" | sed -n '/^\.Sh /,$p'
		} >"$page.new"
		mv "$page.new" "$page"
	done
}

case ${1:-} in
--update)
	shift
	if [ $# -eq 0 ]; then
		for page in man/sgpu_*.3; do
			page=${page#man/sgpu_}
			set -- "$@" "${page%.3}"
		done
	fi
	update "$@"
	;;
--functions)
	shift
	for name in "$@"; do prototypes "$name" | cut -f 2; done
	;;
-* | "")
	echo "usage: man-synopsis.sh [--update | --functions] HEADER..." >&2
	exit 2
	;;
*)
	for name in "$@"; do synopsis "$name"; done
	;;
esac
