#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# man3.sh HEADER: prints the manual page of a public header, sgpu_HEADER(3), which is made of its prototypes and comments.
# man3.sh --functions HEADER...: the names of its functions alone.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."

# The header as lines "text ...", "title ..." and "code ...": its comments, without the licence, and its declarations. An
# empty "text" is a paragraph's end, an empty "code" that of a group of declarations.
parse() {
	awk '
	function comment_line(line) {
		if (sub(/ *\*\/.*$/, "", line)) comment = 0
		sub(/^[ \t]*\/?\*+ ?/, "", line)
		if (line ~ /^SPDX-/) return
		if (line ~ /^-+ .* -+$/) {
			gsub(/^-+ | -+$/, "", line)
			print "title " line
			return
		}
		print "text " line
	}
	function close_comment() { if (!comment) print "text " }
	comment { comment_line($0); close_comment(); next }
	preprocessor || /^#/ {
		# Constants are part of the interface; guards, includes and conditions are not.
		if (/^#[ \t]*define/ && !/_H$/ && !/MUST_CHECK|SGPU_PRINTF/) { define = 1 }
		if (define) print "code " $0
		preprocessor = /\\$/
		define = define && preprocessor
		next
	}
	/^extern "C"/ { next }
	!depth && !statement && /^}/ { next }
	!statement && /^\/\*/ { comment = 1; comment_line($0); close_comment(); next }
	/^[ \t]*$/ && !statement { print "code "; next }
	{
		print "code " $0
		bare = $0
		gsub(/\/\*.*\*\//, "", bare)
		sub(/\/\*.*/, "", bare)
		depth += gsub(/{/, "{", bare) - gsub(/}/, "}", bare)
		statement = depth > 0 || bare !~ /[;}][ \t]*$/
	}' "include/sgpu/$1.h"
}

# The functions of those lines: type, name, parameters, parted by tabs.
prototypes() {
	awk '
	sub(/^code /, "") && !/^#/ {
		gsub(/\/\*[^*]*\*\//, "")
		depth_before = depth
		depth += gsub(/{/, "{") - gsub(/}/, "}")
		if (depth_before || /^(struct|enum|union) [a-z_]+ {|^enum {/) next
		text = text " " $0
		if (/[;{}][ \t]*$/) { declare(text); text = "" }
	}
	/^code $/ { text = "" }
	function declare(words,  at, open) {
		gsub(/[ \t]+/, " ", words)
		gsub(/SGPU_MUST_CHECK |SGPU_PRINTF\([0-9, ]*\)|^ static inline |^ /, "", words)
		if (words ~ /^typedef/ || !match(words, /sgpu_[a-z0-9_]+\(/)) return
		at = RSTART
		open = RSTART + RLENGTH - 1
		type = substr(words, 1, at - 1)
		sub(/ $/, "", type)
		parameters = substr(words, open + 1)
		sub(/\)[^)]*$/, "", parameters)
		print type "\t" substr(words, at, open - at) "\t" parameters
	}'
}

page() {
	parse "$1" >"$work/parsed"
	prototypes <"$work/parsed" >"$work/functions"
	printf '.\\" SPDX-License-Identifier: Apache-2.0\n.Dd %s\n.Dt %s 3\n.Os\n' "$(date -u -r "include/sgpu/$1.h" '+%B %-d, %Y')" \
		"$(tr '[:lower:]' '[:upper:]' <<<"SGPU_$1")"
	printf '.Sh NAME\n.Nm sgpu_%s\n.Nd %s\n' "$1" "$(awk 'sub(/^text /, "") && NF { text = text " " $0; next }
		text != "" { sub(/^ (The |A |An )?/, "", text); sub(/[.:;,(].*/, "", text); sub(/ $/, "", text)
			print (text ~ /^[A-Z][a-z]/ ? tolower(substr(text, 1, 1)) substr(text, 2) : text); exit }' "$work/parsed")"
	printf '.Sh LIBRARY\nlibsgpu\n.Pq Fl lsgpu ; Ql pkg-config --cflags --libs sgpu\n.Sh SYNOPSIS\n.In sgpu/%s.h\n' "$1"
	awk -F '\t' '{
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
	}' "$work/functions"
	echo '.Sh DESCRIPTION'
	describe
	printf '.Sh RETURN VALUES\nA function whose result must be checked returns 0, or a negative code of\n.In sgpu/error.h .\n'
	printf '.Sh SEE ALSO\n.Xr sgpu 7\n'
}

# Text as it stands; what is indented, and declarations, in a literal block. A group of functions becomes a list of their
# names before the text that stood above it.
describe() {
	awk '
	function escape(line) {
		gsub(/\\/, "\\e", line)
		return (line ~ /^[.\047]/ ? "\\\\&" : "") line
	}
	function literal(on) {
		if (on == inside) return
		print on ? ".Bd -literal" : ".Ed"
		inside = on
		fresh = !on
	}
	# Each sentence begins a line, and no line is longer than a terminal.
	function fill(line, last,  n, i, words, out) {
		pending = pending (pending == "" ? "" : " ") line
		if (!last) return
		n = split(pending, words, / +/)
		for (i = 1; i <= n; i++) {
			sub(/\(\)/, "", words[i])
			if (out != "" && (length(out words[i]) > 76 || out ~ /[.!?][)"]? $/)) {
				print escape(substr(out, 1, length(out) - 1))
				out = ""
			}
			out = out words[i] " "
		}
		print escape(substr(out, 1, length(out) - 1))
		pending = ""
	}
	function flush(  i, names) {
		if (codes && prototype) {
			for (i = 1; i <= codes && code[i] != "{"; i++) while (match(code[i], /sgpu_[a-z0-9_]+\(/)) {
				names = names (names == "" ? "" : " ,\n") ".Fn " substr(code[i], RSTART, RLENGTH - 1)
				code[i] = substr(code[i], RSTART + RLENGTH)
				if (code[i] !~ /;[^;]*$/ || code[i] ~ /\(\*/) break
			}
			if (fresh != 2) print ".Pp"
			print names
		}
		while (texts && text[texts] ~ /^ *$/) texts--
		if (texts) {
			if (!(codes && prototype) && fresh != 2) print ".Pp"
			if (codes && prototype) print ".br"
			for (i = 1; i <= texts; i++) {
				if (text[i] ~ /^ ? ?$/) {
					literal(0)
					if (i < texts && text[i + 1] !~ /^   /) print ".Pp"
					continue
				}
				literal(text[i] ~ /^   /)
				if (inside) print escape(text[i])
				else fill(substr(text[i], match(text[i], /[^ ]/)), i == texts || text[i + 1] ~ /^(   .*)? ?$/)
			}
			literal(0)
			fresh = 0
		}
		if (codes && !prototype) {
			print ".Bd -literal"
			for (i = 1; i <= codes; i++) print escape(code[i])
			print ".Ed"
			fresh = 0
		}
		texts = codes = prototype = 0
	}
	BEGIN { fresh = 2 }
	/^title / { flush(); sub(/^title /, ""); print ".Ss " toupper(substr($0, 1, 1)) substr($0, 2); fresh = 2; next }
	/^text/ {
		if (codes) flush()
		sub(/^text ?/, "")
		if ($0 == "" && !texts) next
		text[++texts] = $0
		next
	}
	/^code $/ { flush(); next }
	sub(/^code /, "") {
		code[++codes] = $0
		if (/^[A-Za-z].*sgpu_[a-z0-9_]+\(/ && !/^(typedef|#)/) prototype = 1
	}
	END { flush() }' "$work/parsed"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case ${1:-} in
--functions)
	shift
	for name in "$@"; do parse "$name" | prototypes | cut -f 2; done
	;;
-* | "")
	echo "usage: man3.sh HEADER | man3.sh --functions HEADER..." >&2
	exit 2
	;;
*) page "$1" ;;
esac
