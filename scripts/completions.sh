#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# completions.sh bash|zsh|fish PROGRAM: prints the shell completion of a tool, made from its option tables.
set -eu
[ $# -eq 2 ] || {
	echo "usage: completions.sh bash|zsh|fish PROGRAM" >&2
	exit 2
}
tool=$(basename "$2")
default=$("$2" --help | sed -n 's/^  \([a-z0-9-]*\) .*(the default)$/\1/p')
table=$("$2" --list-options)

# Lines of the table: verb, long, short, argument, help; a verb's own line has neither long nor short.
generate() {
	printf '%s\n' "$table" | awk -F '\t' -v tool="$tool" -v default_verb="$default" "$common $1"
}

# kind(): what completes an option's argument: words (a|b|c), a folder, a file, or nothing that can be known.
# shellcheck disable=SC2016 # these are awk's
common='
function kind(argument) {
	if (argument == "") return "none"
	if (index(argument, "|")) return "words"
	if (argument ~ /^DIR/) return "dir"
	if (argument ~ /^(FILE|KEY|PATH|MANIFEST|BATCH|RESPONSE|POLICY)/) return "file"
	return "other"
}
function words(argument) { gsub(/\|/, " ", argument); return argument }
function identifier(name) { gsub(/-/, "_", name); return "_" name }
function quoted(text) { gsub(/\047/, "\047\\\047\047", text); return "\047" text "\047" }
$2 == "" { verb[++verbs] = $1; verb_help[$1] = $5; next }
{ row[++rows] = $0 }
'

# shellcheck disable=SC2016 # these are awk's
bash='
END {
	names = ""
	for (v = 1; v <= verbs; v++) names = names verb[v] " "
	print "# bash completion for " tool ": made from its option tables."
	print identifier(tool) "()"
	print "{"
	print "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} options="
	print "\tCOMPREPLY=()"
	print "\tif [ \"$COMP_CWORD\" -eq 1 ] && [[ $word != */* ]]; then"
	print "\t\tmapfile -t COMPREPLY < <(compgen -W \"" names "--help --version\" -- \"$word\")"
	print "\t\t[ ${#COMPREPLY[@]} -eq 0 ] || return 0"
	print "\tfi"
	if (default_verb != "") {
		print "\t[[ \" " names "\" == *\" $verb \"* ]] || verb=" default_verb
	}
	print "\tcase $verb:$before in"
	for (r = 1; r <= rows; r++) {
		split(row[r], f, "\t")
		what = kind(f[4])
		if (what == "none") continue
		printf "\t%s:--%s%s) ", f[1], f[2], f[3] == "" ? "" : " | " f[1] ":-" f[3]
		if (what == "file") print "mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return 0 ;;"
		else if (what == "dir") print "mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); return 0 ;;"
		else if (what == "words") print "mapfile -t COMPREPLY < <(compgen -W \"" words(f[4]) "\" -- \"$word\"); return 0 ;;"
		else print "return 0 ;;"
	}
	print "\tesac"
	print "\tcase $verb in"
	for (v = 1; v <= verbs; v++) {
		options = ""
		for (r = 1; r <= rows; r++) {
			split(row[r], f, "\t")
			if (f[1] == verb[v]) options = options " --" f[2] (f[3] == "" ? "" : " -" f[3])
		}
		print "\t" verb[v] ") options=\"" substr(options, 2) "\" ;;"
	}
	print "\tesac"
	print "\tcase $word in"
	print "\t-*) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\") ;;"
	print "\t*) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;"
	print "\tesac"
	print "}"
	print "complete -o filenames -F " identifier(tool) " " tool
}'

# shellcheck disable=SC2016 # these are awk's
zsh='
function spec(f,   what, action, text) {
	what = kind(f[4])
	action = what == "none" ? "" : ":" f[4] ":" (what == "file" ? "_files" : what == "dir" ? "_files -/" : \
		what == "words" ? "(" words(f[4]) ")" : " ")
	text = f[5]
	gsub(/[][\\:]/, "\\\\&", text)
	if (f[3] == "") return quoted("--" f[2] "[" text "]" action)
	return quoted("(-" f[3] " --" f[2] ")") "{-" f[3] ",--" f[2] "}" quoted("[" text "]" action)
}
END {
	print "#compdef " tool
	print "# zsh completion for " tool ": made from its option tables."
	print identifier(tool) "() {"
	print "\tlocal -a verbs"
	print "\tverbs=("
	for (v = 1; v <= verbs; v++) {
		text = verb_help[verb[v]]
		gsub(/:/, "\\\\&", text)
		print "\t\t" quoted(verb[v] ":" text)
	}
	print "\t)"
	print "\tif (( CURRENT == 2 )); then"
	print "\t\t_describe verb verbs" (default_verb == "" ? "" : "; _files")
	print "\t\treturn"
	print "\tfi"
	print "\tlocal verb=$words[2]"
	if (default_verb != "") {
		print "\tif [[ -z ${(M)verbs:#$verb:*} ]]; then"
		print "\t\tverb=" default_verb
		print "\telse"
		print "\t\tshift words; (( CURRENT-- ))"
		print "\tfi"
	} else {
		print "\tshift words; (( CURRENT-- ))"
	}
	print "\tcase $verb in"
	for (v = 1; v <= verbs; v++) {
		print "\t" verb[v] ")"
		print "\t\t_arguments -s \\"
		for (r = 1; r <= rows; r++) {
			split(row[r], f, "\t")
			if (f[1] == verb[v]) print "\t\t\t" spec(f) " \\"
		}
		print "\t\t\t" quoted("*:file:_files")
		print "\t\t;;"
	}
	print "\tesac"
	print "}"
	print identifier(tool) " \"$@\""
}'

# shellcheck disable=SC2016 # these are awk's
fish='
END {
	print "# fish completion for " tool ": made from its option tables."
	names = ""
	for (v = 1; v <= verbs; v++) names = names " " verb[v]
	for (v = 1; v <= verbs; v++)
		printf "complete -c %s -n \"not __fish_seen_subcommand_from%s\" -a %s -d %s\n", tool, names, verb[v],
			quoted(verb_help[verb[v]])
	for (r = 1; r <= rows; r++) {
		split(row[r], f, "\t")
		what = kind(f[4])
		when = "__fish_seen_subcommand_from " f[1]
		if (f[1] == default_verb) when = when "; or not __fish_seen_subcommand_from" names
		printf "complete -c %s -n \"%s\" -l %s%s%s -d %s\n", tool, when, f[2], f[3] == "" ? "" : " -s " f[3],
			what == "none" ? "" : what == "file" ? " -r -F" : what == "dir" ? " -x -a \"(__fish_complete_directories)\"" : \
			what == "words" ? " -x -a " quoted(words(f[4])) : " -x", quoted(f[5])
	}
}'

case $1 in
bash) generate "$bash" ;;
zsh) generate "$zsh" ;;
fish) generate "$fish" ;;
*)
	echo "completions.sh: unknown shell '$1'" >&2
	exit 2
	;;
esac
