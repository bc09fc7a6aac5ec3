#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-docs.sh [CHECK...]: do manual pages, headers, library, README and sources say the same? Prints what does not,
# and exits 1. Without a name, every check runs. SGPU_BUILD is the folder with the built programs.
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
SGPU_BUILD=${SGPU_BUILD:-build}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# All faults go through one file, since much here runs in subshells.
fault() {
	printf '%s\n' "$*" >>"$work/faults"
}

# Each line of standard input is a fault, told after these words.
faults_after() {
	sed "s|^|$1|" >>"$work/faults"
}

tools() {
	local main
	for main in tools/sgpu{,-*}/main.c; do
		[ -e "$main" ] || continue
		basename "$(dirname "$main")"
	done
}

# The files of the project: what git knows and, before it does, what is new and not ignored.
sources() {
	if [ -e .git ]; then
		git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
			[ ! -f "$file" ] || printf '%s\n' "$file"
		done
	else
		find . -type f ! -path './build*' | sed 's|^\./||'
	fi
}

# The flags that a page names with the macro Fl, as "o" and "-output".
page_flags() {
	awk '/^\./ {
		flags = 0
		for (i = 1; i <= NF; i++) {
			word = $i
			sub(/^\./, "", word)
			gsub(/\\-/, "-", word)
			gsub(/\\&/, "", word)
			if (word == "Fl") { flags = 1; continue }
			if (!flags) continue
			if (word ~ /^-[a-z0-9][a-z0-9-]+$/ || word ~ /^[A-Za-z0-9]$/) print word
			else flags = 0
		}
	}' "$1" | sort -u
}

tool_flags() {
	{
		printf '%s\n' h V -help -version
		"$SGPU_BUILD/bin/$1" --list-options | awk -F '\t' '$2 != "" { print "-" $2; if ($3 != "") print $3 }'
	} | sort -u
}

check_options() {
	local tool page
	for tool in $(tools); do
		page=man/$tool.1
		[ -e "$page" ] || { fault "'$page' is missing"; continue; }
		page_flags "$page" >"$work/page"
		tool_flags "$tool" >"$work/tool"
		comm -13 "$work/page" "$work/tool" | faults_after "$page: not described: -"
		comm -23 "$work/page" "$work/tool" | faults_after "$page: described, but $tool has no -"
	done
}

check_verbs() {
	local tool verb
	for tool in $(tools); do
		[ -e "man/$tool.1" ] || continue
		"$SGPU_BUILD/bin/$tool" --list-options | awk -F '\t' '$2 == "" && $1 != "" { print $1 }' >"$work/verbs"
		while IFS= read -r verb; do
			grep -Eq "^\..*\b(Cm|Ic|Nm|Ss|Sx)\b.*(^|[ \"])$verb([ \"]|$)" "man/$tool.1" ||
				fault "man/$tool.1: the verb '$verb' is not described"
			"$SGPU_BUILD/bin/$tool" "$verb" --help >"$work/help" 2>&1 || fault "$tool $verb --help fails"
			grep -q '^Usage: ' "$work/help" || fault "$tool $verb --help shows no usage"
		done <"$work/verbs"
	done
}

# The table of exit statuses of a page, from its first row to the end of the list.
exit_table() {
	awk '/^\.Sh / { inside = /EXIT STATUS/ } inside && /^\.It 0/ { row = 1 } row && /^\.El/ { exit } inside && row' "$1"
}

check_exits() {
	local tool
	exit_table man/sgpu.7 >"$work/want"
	[ "$(grep '^\.It' "$work/want" | tr -dc '0-9')" = 0123456 ] ||
		fault "man/sgpu.7: the table of exit statuses has not the rows 0 to 6"
	for tool in $(tools); do
		exit_table "man/$tool.1" | cmp -s - "$work/want" ||
			fault "man/$tool.1: the table of exit statuses is not that of sgpu(7)"
	done
}

# Whether a page that is referred to exists is for check_pages to say: these are not installed yet.
check_lint() {
	mandoc -T lint man/*.[157] "$SGPU_BUILD"/man/*.3 >"$work/lint" 2>"$work/errors"
	cat "$work/lint" "$work/errors" | grep -vE 'referenced manual not found|lacks .* entry' | faults_after ""
}

# Every page has its sections in the one order, and every page that it refers to is there or is another project's. Pages
# of section 1 begin with an example.
check_pages() {
	local page
	for page in man/*.[157]; do
		grep '^\.Sh ' "$page" | sed 's/^\.Sh //' | awk -v page="$page" '
		BEGIN {
			split("NAME,LIBRARY,SYNOPSIS,DESCRIPTION,OPTIONS,FORMAT,RETURN VALUES,ENVIRONMENT,FILES," \
				"EXIT STATUS,EXAMPLES,ERRORS,SEE ALSO,STANDARDS,CAVEATS", names, ",")
			for (i in names) place[names[i]] = i + 0
		}
		{ gsub(/"/, "") }
		!($0 in place) { next }
		place[$0] < last { print page ": section " $0 " is out of order" }
		{ last = place[$0] }' | faults_after ""
		case $page in
		*.1) awk -v page="$page" '/^\.Sh / { at = /DESCRIPTION/ ? NR : 0 } at && NR < at + 9 && /^\.(Dl|Bd)/ { found = 1 }
			END { if (!found) print page ": does not begin with an example" }' "$page" | faults_after "" ;;
		esac
		grep -oE '^\.Xr sgpu[a-z_-]* [0-9]' "$page" | while read -r _ name section; do
			[ -e "man/$name.$section" ] || [ -e "$SGPU_BUILD/man/$name.$section" ] || echo "$page: refers to $name($section), which is missing"
		done | faults_after ""
	done
}

# As a terminal of 80 columns shows the pages: no line is longer, and brackets and quotation marks match. Bytes are counted,
# so the marks become one byte each. What an example pipes, it pipes with pipefail.
check_width() {
	local page
	for page in man/*.[157]; do
		mandoc -T utf8 -O width=78 "$page" | LC_ALL=C sed -e 's/\xe2\x80\x9c/\x01/g; s/\xe2\x80\x9d/\x02/g' \
			-e 's/[\xc2-\xf4][\x80-\xbf]*/?/g' -e 's/.\x08//g' >"$work/rendered"
		awk -v page="$page" '
		length($0) > 80 { print page ": " length($0) " columns: " $0 }
		function judge() {
			depth[1] = depth[2] = depth[3] = 0
			for (i = 1; i <= length(text); i++) {
				c = substr(text, i, 1)
				depth[1] += (c == "(") - (c == ")")
				depth[2] += (c == "[") - (c == "]")
				depth[3] += (c == "\001") - (c == "\002")
				if (depth[1] < 0 || depth[2] < 0 || depth[3] < 0 || depth[3] > 1) break
			}
			if (depth[1] || depth[2] || depth[3]) print page ": marks do not match: " substr(text, 1, 90)
			text = ""
		}
		NF { text = text " " $0; next }
		{ judge() }
		END { judge() }' "$work/rendered" | tr '\001\002' '""' | faults_after ""
		awk '/^\.Sh / { inside = /EXAMPLES/ } inside' "$page" >"$work/examples"
		if grep -q '[^|]|\( \|$\)' "$work/examples" && ! grep -q 'set -o pipefail' "$work/examples"; then
			fault "$page: the examples have pipes, and do not say 'set -o pipefail'"
		fi
	done
}

# Symbols that are not the compiler's own.
symbols() {
	nm -g --defined-only "$SGPU_BUILD/libsgpu.a" 2>/dev/null | awk 'NF == 3 && $3 !~ /^__/ { print $2, $3 }' | sort -u
}

check_symbols() {
	symbols >"$work/symbols"
	[ -s "$work/symbols" ] || fault "'$SGPU_BUILD/libsgpu.a' defines nothing"
	awk '$2 !~ /^sgpu_/ { print $2 }' "$work/symbols" | faults_after "libsgpu.a: exported, but not named sgpu_: "
}

# What a public header declares is in the library, and what the library exports is declared in a header.
check_functions() {
	local header
	for header in include/sgpu/*.h; do
		scripts/man3.sh --functions "$(basename "$header" .h)"
	done | sort -u >"$work/declared"
	symbols >"$work/symbols"
	[ -s "$work/symbols" ] || fault "'$SGPU_BUILD/libsgpu.a' defines nothing"
	awk '$1 ~ /[TWi]/ { print $2 }' "$work/symbols" | sort -u >"$work/defined"
	cat include/sgpu/*.h | without_comments | grep -oE 'static inline [^(]*' | grep -oE 'sgpu_[a-z0-9_]+$' | sort -u >"$work/inline"
	comm -23 "$work/declared" "$work/inline" | comm -23 - "$work/defined" |
		faults_after "declared in a public header, but not in libsgpu.a: "
	find include lib -name '*.h' -exec cat {} + | without_comments | grep -oE '\bsgpu_[A-Za-z0-9_]+|\bX\([a-z0-9_]+\)' |
		sed 's/^X(\(.*\))/sgpu_op_\1/' | sort -u >"$work/words"
	awk '{ print $2 }' "$work/symbols" | grep '^sgpu_' | sort -u | comm -23 - "$work/words" |
		faults_after "libsgpu.a: exported, but in no header (static?): "
}

without_comments() {
	sed -e 's|//.*||' | awk '{
		line = $0
		out = ""
		while (line != "") {
			if (inside) {
				i = index(line, "*/")
				if (!i) { line = ""; break }
				line = substr(line, i + 2)
				inside = 0
			} else {
				i = index(line, "/*")
				if (!i) { out = out line; break }
				out = out substr(line, 1, i - 1)
				line = substr(line, i + 2)
				inside = 1
			}
		}
		print out
	}'
}

check_headers() {
	local header name cc cxx
	read -ra cc <<<"${CC:-cc}"
	read -ra cxx <<<"${CXX:-c++}"
	for header in include/sgpu/*.h; do
		name=sgpu/$(basename "$header")
		printf '#include <%s>\n#include <%s>\n' "$name" "$name" |
			"${cc[@]}" -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c - >"$work/lines" 2>&1 ||
			fault "<$name> does not compile alone as C: $(head -n 3 "$work/lines")"
		printf '#include <%s>\n' "$name" |
			"${cxx[@]}" -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - >"$work/lines" 2>&1 ||
			fault "<$name> does not compile alone as C++: $(head -n 3 "$work/lines")"
	done
}

# box FILE NAME: the lines after <!-- NAME --> in a document, as they stand there.
box() {
	awk -v mark="<!-- $2 -->" '$0 == mark { armed = 1; next } armed && /^```/ { if (inside) exit; inside = 1; next } inside' "$1"
}

# run_sessions NAME...: boxes of the README one after another, in one empty folder, with the laxest umask that systems give
# their users.
run_sessions() {
	local lines name
	for name in "$@"; do
		box README.md "$name" >"$work/one"
		lines=$(wc -l <"$work/one")
		if [ "$lines" -lt 10 ] || [ "$lines" -gt 30 ]; then
			fault "README.md: the session '$name' has $lines lines, not 10 to 30"
		fi
		cat "$work/one" >>"$work/session"
	done
	mkdir -p "$work/folder" "$work/run"
	(
		path=$(cd "$SGPU_BUILD/bin" && pwd):$PATH
		cd "$work/folder" && umask 002 && env PATH="$path" XDG_RUNTIME_DIR="$work/run" bash -eu "$work/session"
	) </dev/null >"$work/lines" 2>&1 || fault "README.md: the session fails: $(cat "$work/lines")"
	rm -rf "$work/session" "$work/folder" "$work/run"
}

# host_by_ssh: what the boxes below call ssh: a host whose server starts when it is first asked, for this owner.
host_by_ssh() {
	cat <<-'END'
		#!/bin/bash
		# Called as ssh -T -- ADDRESS COMMAND; what sgpu lets ssh write to files is no limit of a host.
		set -eu
		ulimit -S -f unlimited
		mkdir -p -m 700 "$FOLDER/host"
		cd "$FOLDER/host"
		export XDG_RUNTIME_DIR=$PWD
		if [ ! -e pid ]; then
			sgpu-seal keyinfo -q --owner -o owners "$HOME/.config/sgpu/owner.jwk"
			sgpu-measure keygen -q -o ca.pem --authority ca.crt
			sgpu-measure keygen -q -o ek.pem | sgpu-measure certify -q -k ca.pem --certificate ca.crt -o ek.crt
			sgpu-measure keygen -q -o ak.pem | sgpu-measure certify -q -k ek.pem --certificate ek.crt -o ak.crt
			setsid sgpu-serve -q --owners owners --state state --attestation-key ak.pem --certificate ak.crt </dev/null >log 2>&1 &
			echo $! >pid
			until sgpu-serve status >/dev/null 2>&1; do
				kill -0 "$(cat pid)" || exit 3
				sleep 0.05
			done
		fi
		exec bash -c "$4"
	END
}

# run_console FILE NAME...: boxes in which "$ " is before what is typed and "> " before its further lines; the others are
# what is printed, where "..." stands for what differs from time to time. What ends in "[y/N] y" is asked on the terminal.
# They run one after another in one folder with the scan scan.nii.gz.
run_console() {
	local file=$1 name line want scan=/usr/share/mricron/templates/ch2.nii.gz
	[ -e "$scan" ] || { echo "# the boxes of $file are not run: there is no '$scan'" && return; }
	for name in "${@:2}"; do
		box "$file" "$name" >"$work/one"
		[ -s "$work/one" ] || fault "$file: there is no box '$name'"
		cat "$work/one" >>"$work/session"
	done
	sed -n 's/^[$>] //p' "$work/session" >"$work/typed"
	grep -v '^[$>] ' "$work/session" | grep -v '\[y/N\] y$' >"$work/want"
	mkdir "$work/folder" "$work/run" "$work/home" "$work/fake"
	chmod 700 "$work/run"
	cp "$scan" "$work/folder/scan.nii.gz"
	host_by_ssh >"$work/fake/ssh"
	chmod +x "$work/fake/ssh"
	grep -o 'y/N\] y$' "$work/session" | sed 's/.* //' | (
		path=$work/fake:$(cd "$SGPU_BUILD/bin" && pwd):$PATH
		cd "$work/folder" && env -u XDG_CONFIG_HOME -u SGPU_SOCKET PATH="$path" FOLDER="$work" HOME="$work/home" \
			XDG_RUNTIME_DIR="$work/run" script -qec "bash -eu '$work/typed' >'$work/lines' 2>&1" "$work/terminal" >/dev/null
	) || fault "$file: a box of $* fails: $(tail -n 3 "$work/lines")"
	while IFS= read -r want <&3; do
		IFS= read -r line <&4 || line="nothing"
		want=$(sed 's/[][*?\\]/\\&/g; s/\.\.\./*/g' <<<"$want")
		# shellcheck disable=SC2053 # it is a pattern
		[[ $line == $want ]] || fault "$file: '$line' is printed, and not '$want'"
	done 3<"$work/want" 4<"$work/lines"
	[ "$(wc -l <"$work/want")" -ge "$(wc -l <"$work/lines")" ] || fault "$file: more is printed: $(tail -n 1 "$work/lines")"
	grep '\[y/N\] y$' "$work/session" | sed 's/ y$//' | while IFS= read -r line; do
		grep -qF -- "$line" "$work/terminal" || fault "$file: not asked: $line"
	done
	[ ! -e "$work/host/pid" ] || kill "$(cat "$work/host/pid")"
	(cd "$work" && rm -rf session folder run fake home host)
}

has_map() {
	"$SGPU_BUILD/bin/sgpu-manifest" ops map >/dev/null 2>&1
}

check_door() {
	# shellcheck disable=SC2046 # one name or none
	run_console README.md door $(! has_map || echo door-map)
}

check_tutorial() {
	# shellcheck disable=SC2046 # one name or none
	run_console docs/tutorial.md scan steps $(! has_map || echo map) inside sealed raw machine serve add show
}

# The lines in Python, where numpy is.
check_python() {
	box docs/tutorial.md python >"$work/python.txt"
	env PATH="$SGPU_BUILD/bin:$PATH" PYTHONPATH=python python3 -m doctest "$work/python.txt" >"$work/lines" 2>&1 ||
		fault "docs/tutorial.md: $(cat "$work/lines")"
}

check_session() {
	run_sessions session
}

# With what comes before it, whose files it uses.
check_attested() {
	run_sessions session attested
}

# What a document promises, a test holds. Each paragraph, list item and table row under a heading ends in references
# like [^name], which the end of the file defines as the tests that hold it: a file and a name in quotation marks, several
# parted by "; ", on one line or on indented ones. [^limit] stands where nothing is promised. What ends in a colon
# introduces what follows, and sections of this list only describe.
no_promises="Who is trusted for what|Parties and messages|What depends on where the runner runs|Reporting|What counts|How it is tested|Executed where the machine has it"

# promises_of FILE: its "use LINE NAME", "bare LINE TEXT", "define LINE NAME" and "test LINE PATH \"TEST".
promises_of() {
	awk -v skip="^($no_promises)\$" '
	function judge(  rest, found) {
		rest = text
		while (match(rest, /\[\^[^]]*\]/)) {
			print "use " start " " substr(rest, RSTART + 2, RLENGTH - 3)
			rest = substr(rest, RSTART + RLENGTH)
			found = 1
		}
		if (text != "" && !found && promising && text !~ /:$/) print "bare " start " " substr(text, 1, 60)
		text = ""
	}
	function tests(list) {
		while (match(list, /[^ ;"]+ "[^"]+"/)) {
			print "test " NR " " substr(list, RSTART, RLENGTH - 1)
			tested = 1
			list = substr(list, 1, RSTART - 1) substr(list, RSTART + RLENGTH)
		}
		gsub(/[; ]/, "", list)
		if (list != "") print "test " NR " " list
	}
	function close_definition() {
		if (defining && !tested) print "test " NR - 1 " none for " name
		defining = 0
	}
	/^```/ { judge(); fenced = !fenced; next }
	fenced { next }
	/^#/ { judge(); row = 0; sub(/^#+ */, ""); promising = headings++ && $0 !~ skip; next }
	/^\[\^[^]]*\]:/ {
		judge()
		close_definition()
		tested = 0
		name = $1
		gsub(/^\[\^|\]:$/, "", name)
		print "define " NR " " name
		sub(/^[^ ]* */, "")
		defining = name != "limit"
		if (defining) tests($0)
		next
	}
	defining && /^    / { sub(/^ */, ""); tests($0); next }
	{ close_definition() }
	/^ *$/ { judge(); row = 0; next }
	/^\|/ { judge(); if (++row > 2) { text = $0; start = NR; judge() } next }
	/^(- |[0-9]+\. )/ { judge() }
	/^    / && text == "" { next }
	{ if (text == "") start = NR; text = text (text == "" ? "" : " ") $0 }
	END { judge(); close_definition() }' "$1"
}

check_promises() {
	local file kind line rest name path
	for file in docs/threat-model.md SECURITY.md docs/not-executed.md; do
		promises_of "$file" >"$work/promises"
		[ -s "$work/promises" ] || fault "'$file' promises nothing"
		sed -n 's/^use [0-9]* //p' "$work/promises" | sort -u >"$work/used"
		sed -n 's/^define [0-9]* //p' "$work/promises" | sort >"$work/defined"
		uniq -d "$work/defined" | faults_after "$file: defined twice: "
		sort -u "$work/defined" | comm -23 "$work/used" - | faults_after "$file: named, but not defined: "
		sort -u "$work/defined" | comm -13 "$work/used" - | faults_after "$file: defined, but promised nowhere: "
		while read -r kind line rest; do
			case $kind in
			bare) fault "$file:$line: neither a test nor [^limit]: $rest" ;;
			test)
				path=${rest%% *}
				name=${rest#*\"}
				case $rest in
				tests/*.bats\ \"*) name="@test \"$name\" {" ;;
				tests/*.c\ \"*) name="UNIT_TEST($name)" ;;
				*)
					fault "$file:$line: no file and name of a test: $rest"
					continue
					;;
				esac
				grep -Fqx -- "$name" "$path" 2>/dev/null || fault "$file:$line: '$path' has no $name"
				;;
			esac
		done <"$work/promises"
	done
}

# What the tests and the records of a GPU machine lacked of hardware is in the tables of docs/not-executed.md.
check_executed() {
	local reason
	{
		sources | grep -E '^tests/.*\.(c|bats|bash)$' | xargs -d '\n' cat |
			grep -oE '(SKIP\(|\|\| skip |&& skip |# SKIP )"?[^"%\\]*' | sed -E 's/^(SKIP\(|.*[Ss][Kk][Ii][Pp] )"?//' |
			grep -E '^(this|the|there|needs|no|KVM) ?' | grep -wE 'CPU|GPUs?|KVM|NUMA|TPM|guest|huge pages' |
			grep -v "GPU's driver"
		sed -n 's/.*"status":"waived".*"reason":"\([^"(:]*[^"(: ]\).*/\1/p' docs/benchmarks/h[12]00-*.json
	} | sort -u >"$work/reasons"
	while IFS= read -r reason; do
		grep -qF -- "\"${reason%%,*}" docs/not-executed.md || fault "docs/not-executed.md: nothing about '$reason'"
	done <"$work/reasons"
}

# Links to files of the project lead somewhere.
check_links() {
	local file target
	scripts/pictures.py --check | faults_after ""
	sources | grep '\.md$' >"$work/files"
	while IFS= read -r file; do
		grep -oE '\]\([^)#]+' "$file" | sed 's/^](//' | grep -vE '^[a-z]+:' >"$work/targets"
		while IFS= read -r target; do
			[ -e "$(dirname "$file")/$target" ] || fault "$file: the link '$target' leads nowhere"
		done <"$work/targets"
	done <"$work/files"
}

# The newest section of the change log is that of the version in version.h; while it is of what is not released, the
# version is a later one, with "-dev".
check_version() {
	local version released
	version=$(sed -n 's/.*define SGPU_VERSION "\(.*\)"/\1/p' include/sgpu/version.h)
	released=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)
	if [ "$(grep -m 1 '^## ' CHANGELOG.md)" != "## Unreleased" ]; then
		[ "$version" = "$released" ] || fault "version.h says '$version', CHANGELOG.md '$released'"
	elif [ "${version%-dev}" = "$version" ]; then
		fault "version.h: '$version' without '-dev', while CHANGELOG.md has what is not released"
	elif [ "${version%-dev}" = "$released" ] ||
		[ "$(printf '%s\n' "${version%-dev}" "$released" | sort -V | tail -n 1)" = "$released" ]; then
		fault "version.h: '$version' is not after '$released', the newest of CHANGELOG.md"
	fi
}

# Text of another process or of a document reaches a terminal through cli_print_text, cli_print_line, a table or a message,
# which escape it, or as JSON in ASCII. No other call that prints has a string of a JSON value: neither the value itself, nor
# a variable that it was put into in the same function, nor what a function of the file returns that returns one. CSV and
# Markdown of records have marks of their own; sgpu_bench_read has refused what a terminal obeys.
check_foreign() {
	sources | grep -E '^(tools|examples)/.*\.c$' | grep -v '^tools/sgpu-bench/print\.c$' >"$work/files"
	while IFS= read -r file; do
		without_comments <"$file" | awk -v file="$file" '
		function has_foreign(part,  i, n, words) {
			n = split(part, words, /[^A-Za-z0-9_]+/)
			for (i = 1; i <= n; i++) if (words[i] in foreign) return words[i]
			return ""
		}
		function taint(word) {
			gsub(/[^A-Za-z0-9_]/, "", word)
			foreign[word]
			own[word]
		}
		function judge(  part, n, i, parts) {
			if (text ~ /json_dumpf *\(.*(stdout|stderr)/ && text !~ /JSON_ENSURE_ASCII/)
				print file ":" NR ": JSON that is not in ASCII"
			gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
			if (text ~ /(^|[^A-Za-z0-9_])(v?f?printf|f?puts|f?putc|putchar|fwrite|dprintf|write) *\(/ && (part = has_foreign(text)) != "")
				print file ":" NR ": printed as it came: " part
			if (match(text, /json_object_foreach\([^,]*, */)) {
				part = substr(text, RSTART + RLENGTH)
				taint(substr(part, 1, index(part, ",") - 1))
			}
			if (match(text, /snprintf\([^,+ ]*/) && has_foreign(substr(text, RSTART + RLENGTH)) != "")
				taint(substr(text, RSTART + 9, RLENGTH - 9))
			n = split(text, parts, /, \*/)
			for (i = 1; i <= n; i++)
				if (match(parts[i], /[A-Za-z0-9_]+ = /) && (text ~ /char \*/ || parts[i] ~ /= *json_string_value/) &&
					parts[i] !~ /str(n?cmp|len)|[=!]=/ && has_foreign(substr(parts[i], RSTART + RLENGTH)) != "")
					taint(substr(parts[i], RSTART, RLENGTH - 3))
			if (text ~ /return/ && pointer && has_foreign(text) != "") foreign[name]
			text = ""
		}
		BEGIN { foreign["json_string_value"]; foreign["json_object_iter_key"] }
		/^[a-z].*\(/ { pointer = / \*/; name = $0; sub(/\(.*/, "", name); sub(/.*[^A-Za-z0-9_]/, "", name) }
		/^}/ { for (word in own) delete foreign[word]; split("", own) }
		{ text = text " " $0 }
		/[;{}] *$/ { judge() }'
	done <"$work/files" | faults_after ""
}

check_shell() {
	sources | grep -E '\.(sh|bash|bats)$|^\.ci/run$' >"$work/files"
	xargs -d '\n' shellcheck -x -f gcc <"$work/files" 2>&1 | faults_after ""
}

# Words and paths that no file of the project may hold. They are put together here so as not to find themselves.
check_words() {
	local words
	words="\\b(TO""DO|FIX""ME|XX""X|HA""CK)\\b|(^|[^A-Za-z0-9_.])/(wo""rk|fa""rm|ho""me)/"
	sources | grep -vE '^LICENSE$|^tests/(fuzz/corpus|vectors)/' | xargs -d '\n' grep -nIE "$words" | faults_after ""
}

# The limits of the coding style, and a licence tag in every source.
check_style() {
	sources | grep -E '\.(c|h)$' | xargs -d '\n' awk '
		FNR == 1 { start = 0 }
		/^\{/ { start = FNR }
		/^\}/ { if (start && FNR - start > 80) print FILENAME ":" start ": a function of " FNR - start " lines"; start = 0 }
		' | faults_after ""
	# Other versions lay some lines out differently.
	if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
		sources | grep -E '\.(c|h|cu|cuh)$' | xargs -d '\n' clang-format --dry-run 2>&1 |
			sed -n 's/: warning: .*/: not in the layout: make format/p' | faults_after ""
	else
		echo "# the layout is not checked: there is no clang-format 14"
	fi
	sources | grep -E '\.(c|h|sh|bash|bats|py)$|^Makefile$|^\.ci/run$' | xargs -d '\n' grep -L 'SPDX-License-Identifier: Apache-2.0' |
		sed 's/$/: no licence tag/' | faults_after ""
}

all=(version options verbs exits lint pages width symbols functions headers session attested door tutorial promises executed links foreign shell words style)
: >"$work/faults"
[ $# -gt 0 ] || set -- "${all[@]}"
for check in "$@"; do
	declare -F "check_$check" >/dev/null || {
		echo "check-docs.sh: unknown check '$check': there are ${all[*]}" >&2
		exit 2
	}
	"check_$check"
done
cat "$work/faults"
[ ! -s "$work/faults" ]
