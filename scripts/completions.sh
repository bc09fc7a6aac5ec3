#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# completions.sh bash|zsh|fish PROGRAM: prints the shell completion of a tool, made from its option tables.
set -eu
[ $# -eq 2 ] || {
	echo "usage: completions.sh bash|zsh|fish PROGRAM" >&2
	exit 2
}
tool=$(basename "$2")
# A verb without a name is what runs if the first word is none: it is "_" here.
table=$("$2" --list-options | sed 's/^\t/_\t/')
default=$(printf '%s\n' "$table" | sed -n 's/^\(_\)\t\t.*/\1/p')

# Lines of the table: verb, long, short, argument, help; a verb's own line has neither long nor short.
generate() {
	printf '%s\n' "$table" | awk -F '\t' -v tool="$tool" -v default_verb="$default" "$common $1"
}

# kind(): what completes an argument: words (a|b|c, and those of a device), a folder, a file, what the tool itself lists
# (operation, case, region, host), or nothing that can be known. positional(): the same of what is no option; "job" is an
# operation and then what it takes.
# lister(): the command behind PROGRAM that prints such a list, one name a line, of such characters alone that mean
# nothing to a shell.
# shellcheck disable=SC2016 # these are awk's
common='
function kind(argument) {
	sub(/^\[NAME=\]/, "", argument)
	if (argument == "") return "none"
	if (index(argument, "|") || argument == "DEVICE") return "words"
	if (argument ~ /^DIR/) return "dir"
	if (argument ~ /^(FILE|KEY|PATH|MANIFEST|BATCH|RESPONSE|POLICY|PROGRAM)/) return "file"
	if (argument == "OPERATION") return "operation"
	if (argument == "HOST") return "host"
	return "other"
}
function words(argument) {
	if (argument == "DEVICE") return "auto cpu cuda"
	gsub(/ *\| */, " ", argument)
	return argument
}
function positional(arguments) {
	if (arguments == "") return "none"
	if (arguments ~ /OPERATION.*FILE/) return "job"
	if (arguments ~ /OPERATION/) return "operation"
	if (arguments ~ /^[a-z]+\|/) return "words"
	if (arguments ~ /CASE/) return "case"
	if (arguments ~ /REGION/) return "region"
	return "file"
}
function first_words(arguments) { sub(/ .*/, "", arguments); return words(arguments) }
function lister(what) {
	if (what == "operation") return (tool == "sgpu" ? "manifest " : "") "ops 2>/dev/null | sed \"1d; s/[^a-z0-9_].*//\""
	if (what == "case") return "list 2>/dev/null | sed \"1d; s/[^a-z0-9-].*//\""
	if (what == "names")
		return (tool == "sgpu" ? "manifest " : "") "ops \"$operation\" 2>/dev/null | sed -n \"/^name\\|^[^ ]* *yes /d; s/^\\([a-z0-9_]*\\) .*/\\1=/p\""
	if (what == "host") return "host list 2>/dev/null | cut -f 1"
	return "list 2>/dev/null | sed \"1d; s/[^0-9a-f].*//\""
}
function is_listed(what) { return what == "operation" || what == "case" || what == "region" || what == "host" }
function identifier(name) { gsub(/-/, "_", name); return "_" name }
function quoted(text) { gsub(/\047/, "\047\\\047\047", text); return "\047" text "\047" }
$2 == "" { verb[++verbs] = $1; verb_help[$1] = $5; verb_arguments[$1] = $4; next }
{ row[++rows] = $0 }
'

# Lists come from the program that is installed: a TAB runs no file because its path was typed.
# A word behind "--option=" is completed like one behind "--option", whether bash has cut it there or not. What is no file
# is offered as it is. Of a job: operations; then the names that the last one has, and files.
# shellcheck disable=SC2016 # these are awk's
bash='
function offer(what, argument) {
	if (what == "file") return "compopt -o filenames 2>/dev/null || :; mapfile -t COMPREPLY < <(compgen -f -- \"$word\")"
	if (what == "dir") return "compopt -o filenames 2>/dev/null || :; mapfile -t COMPREPLY < <(compgen -d -- \"$word\")"
	if (what == "words") return "mapfile -t COMPREPLY < <(compgen -W \"" argument "\" -- \"$word\")"
	if (what == "job")
		return "local operation= other operations\n" \
			"\t\toperations=\" $(" tool " " lister("operation") " | tr \"\\n\" \" \")\"\n" \
			"\t\tfor other in \"${COMP_WORDS[@]:2:COMP_CWORD-2}\"; do\n" \
			"\t\t\t[[ $operations != *\" $other \"* ]] || operation=$other\n" \
			"\t\tdone\n" \
			"\t\tif [[ -z $operation ]]; then\n" \
			"\t\t\tmapfile -t COMPREPLY < <(compgen -W \"$operations\" -- \"$word\")\n" \
			"\t\telif [[ \" ${COMP_WORDS[COMP_CWORD]} $before \" != *\" = \"* && ${COMP_WORDS[COMP_CWORD-1]} != \"=\" ]]; then\n" \
			"\t\t\tmapfile -t COMPREPLY < <(compgen -W \"$(" tool " " lister("names") ")\" -- \"$word\")\n" \
			"\t\tfi\n" \
			"\t\tif [ ${#COMPREPLY[@]} -gt 0 ]; then\n" \
			"\t\t\t[[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null || :\n" \
			"\t\t\treturn 0\n" \
			"\t\tfi\n\t\t" offer("file")
	if (is_listed(what))
		return "mapfile -t COMPREPLY < <(compgen -W \"$(" tool " " lister(what) ")\" -- \"$word\")"
	return "COMPREPLY=()"
}
END {
	names = ""
	for (v = 1; v <= verbs; v++) if (verb[v] != "_") names = names verb[v] " "
	print "# bash completion for " tool ": made from its option tables."
	print identifier(tool) "()"
	print "{"
	print "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} options= prefix="
	print "\tCOMPREPLY=()"
	print "\tif [[ $word == \"=\" ]]; then"
	print "\t\tword="
	print "\telif [[ $before == \"=\" && $COMP_CWORD -gt 2 ]]; then"
	print "\t\tbefore=${COMP_WORDS[COMP_CWORD-2]}"
	print "\telif [[ $word == --*=* ]]; then"
	print "\t\tprefix=${word%%=*}= before=${word%%=*} word=${word#*=}"
	print "\tfi"
	print "\tif [ \"$COMP_CWORD\" -eq 1 ] && [[ -z $prefix && $word != " (default_verb == "" ? "" : "-* && $word != ") "*/* ]]; then"
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
		printf "\t%s:--%s%s)\n\t\t%s\n\t\t[ -z \"$prefix\" ] || COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n\t\treturn 0\n\t\t;;\n",
			f[1], f[2], f[3] == "" ? "" : " | " f[1] ":-" f[3], offer(what, words(f[4]))
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
	print "\tcase $verb:$word in"
	print "\t*:-*) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\") ;;"
	for (v = 1; v <= verbs; v++) {
		print "\t" verb[v] ":*) " offer(positional(verb_arguments[verb[v]]), first_words(verb_arguments[verb[v]])) " ;;"
	}
	print "\tesac"
	print "}"
	print "complete -F " identifier(tool) " " tool
}'

# shellcheck disable=SC2016 # these are awk's
zsh='
function action(what, argument) {
	if (what == "file") return "_files"
	if (what == "dir") return "_files -/"
	if (what == "words") return "(" argument ")"
	if (is_listed(what)) return identifier(tool) "_" what
	return " "
}
function spec(f,   what, act, text) {
	what = kind(f[4])
	act = what == "none" ? "" : ":" f[4] ":" action(what, words(f[4]))
	text = f[5]
	gsub(/[][\\:]/, "\\\\&", text)
	if (f[3] == "") return quoted("--" f[2] (what == "none" ? "" : "=") "[" text "]" act)
	return quoted("(-" f[3] " --" f[2] ")") "{-" f[3] (what == "none" ? "" : "+") ",--" f[2] (what == "none" ? "" : "=") "}" \
		quoted("[" text "]" act)
}
END {
	print "#compdef " tool
	print "# zsh completion for " tool ": made from its option tables."
	for (v = 1; v <= verbs; v++) {
		what = positional(verb_arguments[verb[v]])
		wanted[what == "job" ? "operation" : what] = 1
	}
	for (r = 1; r <= rows; r++) { split(row[r], f, "\t"); wanted[kind(f[4])] = 1 }
	for (what in wanted) if (is_listed(what)) {
		print identifier(tool) "_" what "() {"
		print "\tlocal -a found"
		print "\tfound=(${(f)\"$(" tool " " lister(what) ")\"})"
		print "\tcompadd -a found"
		print "}"
	}
	print identifier(tool) "() {"
	print "\tlocal -a verbs"
	print "\tlocal verb=$words[2] ret=1"
	print "\tverbs=("
	for (v = 1; v <= verbs; v++) {
		if (verb[v] == "_") continue
		text = verb_help[verb[v]]
		gsub(/:/, "\\\\&", text)
		print "\t\t" quoted(verb[v] ":" text)
	}
	print "\t)"
	print "\tif (( CURRENT == 2 )); then"
	print "\t\t_describe verb verbs && ret=0"
	# What the default verb takes stands beside the verbs.
	print default_verb == "" ? "\t\treturn ret" : "\t\tverb=" default_verb
	if (default_verb != "") {
		print "\telif [[ -z ${(M)verbs:#$verb:*} ]]; then"
		print "\t\tverb=" default_verb
	}
	print "\telse"
	print "\t\tshift words; (( CURRENT-- ))"
	print "\tfi"
	print "\tcase $verb in"
	for (v = 1; v <= verbs; v++) {
		print "\t" verb[v] ")"
		print "\t\t_arguments -s \\"
		for (r = 1; r <= rows; r++) {
			split(row[r], f, "\t")
			if (f[1] == verb[v]) print "\t\t\t" spec(f) " \\"
		}
		what = positional(verb_arguments[verb[v]])
		if (what == "job")
			print "\t\t\t" quoted("1:operation:" action("operation")) " " quoted("*:file:_files") " \\"
		else if (what == "words")
			print "\t\t\t" quoted("1:word:(" first_words(verb_arguments[verb[v]]) ")") " \\"
		else if (what != "none")
			print "\t\t\t" quoted("*:" (is_listed(what) ? what : "file") ":" action(what)) " \\"
		print "\t\t\t&& ret=0"
		print "\t\t;;"
	}
	print "\tesac"
	print "\treturn ret"
	print "}"
	print identifier(tool) " \"$@\""
}'

# shellcheck disable=SC2016 # these are awk's
fish='
function offer(what, argument) {
	if (what == "file") return " -r -F"
	if (what == "dir") return " -x -a \"(__fish_complete_directories)\""
	if (what == "words") return " -x -a " quoted(argument)
	if (is_listed(what)) return " -x -a " quoted("(" tool " " lister(what) ")")
	return " -x"
}
END {
	print "# fish completion for " tool ": made from its option tables."
	names = ""
	for (v = 1; v <= verbs; v++) if (verb[v] != "_") names = names " " verb[v]
	if (default_verb == "")
		printf "complete -c %s -n \"not __fish_seen_subcommand_from%s\" -f\n", tool, names
	for (v = 1; v <= verbs; v++) {
		if (verb[v] == "_") continue
		printf "complete -c %s -n \"not __fish_seen_subcommand_from%s\" -a %s -d %s\n", tool, names, verb[v],
			quoted(verb_help[verb[v]])
		what = positional(verb_arguments[verb[v]])
		when = "__fish_seen_subcommand_from " verb[v]
		if (what == "none") printf "complete -c %s -n \"%s\" -f\n", tool, when
		else if (what == "job") printf "complete -c %s -n \"%s\" -a %s\n", tool, when, quoted("(" tool " " lister("operation") ")")
		else if (what == "words" || is_listed(what))
			printf "complete -c %s -n \"%s\"%s\n", tool, when, offer(what, first_words(verb_arguments[verb[v]]))
	}
	for (r = 1; r <= rows; r++) {
		split(row[r], f, "\t")
		what = kind(f[4])
		when = f[1] == "_" ? "not __fish_seen_subcommand_from" names : "__fish_seen_subcommand_from " f[1]
		printf "complete -c %s -n \"%s\" -l %s%s%s -d %s\n", tool, when, f[2], f[3] == "" ? "" : " -s " f[3],
			what == "none" ? "" : offer(what, words(f[4])), quoted(f[5])
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
