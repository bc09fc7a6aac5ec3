# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2129,SC2154
#
# What all tools say: nothing of a key, no byte that a terminal obeys, one JSON object a line with --json, "no input"
# behind a program that failed, and what a file is that is not the one expected.

load helpers

# every_verb COMMAND: calls COMMAND TOOL VERB for each verb of each tool; what has no name is "-v", which changes nothing.
every_verb() {
	local tool verb
	for tool in sgpu sgpu-manifest sgpu-seal sgpu-stage sgpu-run sgpu-enclave sgpu-serve sgpu-worker sgpu-measure sgpu-bench; do
		for verb in $("$tool" --list-options | awk -F '\t' '$2 == "" { print $1 == "" ? "-v" : $1 }'); do
			"$@" "$tool" "$verb" || return 1
		done
	done
}

# secrets: the secret halves of owner.jwk and runner.jwk, one a line.
secrets() {
	[ -s secrets ] || jq -r '.. | objects | .k, .d | strings' owner.jwk runner.jwk >secrets
	cat secrets
}

# assert_untold FILE: no eight characters in a row of any secret of owner.jwk and runner.jwk are in it.
assert_untold() {
	local secret i
	for secret in $(secrets); do
		for ((i = 0; i + 8 <= ${#secret}; i += 4)); do
			if grep -m 3 -F -e "${secret:i:8}" "$1" >&2; then
				return 1
			fi
		done
	done
}

# with_keys TOOL VERB: a key's content, and its file, where the verb expects something else.
with_keys() {
	local option content limit=20
	content=$(cat owner.jwk)
	case "$1 $2" in
	"sgpu-bench run" | "sgpu-bench open") return 0 ;;
	"sgpu-serve -v") limit=2 ;; # without anything wrong, it goes on until it is ended
	esac
	timeout 20 "$1" "$2" "$content" >>said 2>&1 </dev/null
	timeout 20 "$1" "$2" owner.jwk >>said 2>&1 </dev/null
	timeout $limit "$1" "$2" <owner.jwk >>said 2>&1
	timeout 20 "$1" "$2" runner.jwk owner.jwk >>said 2>&1 </dev/null
	timeout 20 "$1" "$content" >>said 2>&1 </dev/null
	for option in $("$1" --list-options | awk -F '\t' -v verb="${2#-v}" '$1 == verb && $2 != "" && $4 != "" { print $2 }'); do
		case $option in
		output | public | request | recipient | quote | trace | results | ear | state) continue ;; # written, not read
		esac
		timeout 20 "$1" "$2" "--$option" "$content" >>said 2>&1 </dev/null
		timeout 20 "$1" "$2" "--$option=$content" "$content" >>said 2>&1 </dev/null
		timeout 20 "$1" "$2" "--$option" owner.jwk runner.jwk >>said 2>&1 </dev/null
	done
	return 0
}

@test "messages: no tool tells anything of a key, given for anything else" {
	requires jq
	make_keys
	small_job
	sgpu-manifest pack -o packed job.json
	# Files that hold a key among other things, or a half of one.
	head -c 50 owner.jwk >half
	{ cat owner.jwk; echo '{"a":1}'; } >two
	tr , '\n' <owner.jwk >lines
	: >said
	every_verb with_keys
	[ -s said ]
	for file in half two lines; do
		for command in "sgpu-manifest check" "sgpu-manifest show" "sgpu-seal pubkey" "sgpu-seal seal -k" \
			"sgpu-measure inspect" "sgpu-measure appraise -p" "sgpu-bench compare" "sgpu-run -k"; do
			# shellcheck disable=SC2086
			$command "$file" >>said 2>&1 <packed || true
		done
	done
	assert_untold said
}

@test "messages: a key's content in place of its name is refused with the reason" {
	requires jq
	make_keys
	run -2 --separate-stderr sgpu-run -k "$(cat owner.jwk)" /dev/null
	assert_contains "$stderr" "a key itself was given where the name of its file belongs"
	run -2 --separate-stderr sgpu-seal seal -k "$(cat owner.jwk)" /dev/null
	assert_contains "$stderr" "fd:N"
	local secret
	for secret in $(secrets); do
		run -2 --separate-stderr sgpu-run -k "$secret" /dev/null
		printf '%s\n' "$stderr" >said
		assert_untold said
	done
	# A file that is there may have any name.
	secret=$(printf 'x%.0s' {1..43})
	cp owner.jwk "$secret"
	sgpu-seal seal-file -k "$secret" owner.jwk sealed
}

@test "messages: what is no name is shown by its first 24 bytes" {
	local long
	long=$(printf 'x%.0s' {1..100})
	run -2 --separate-stderr sgpu-seal "$long"
	assert_contains "$stderr" "unknown verb '${long:0:24}...'"
	run -2 --separate-stderr sgpu-seal keygen "--$long"
	assert_contains "$stderr" "unknown option '"
	[ "${#stderr}" -lt 150 ]
	run -2 --separate-stderr sgpu-run --jobs "$long"
	assert_contains "$stderr" "--jobs '${long:0:24}...' is not a whole number"
	run -2 --separate-stderr sgpu-manifest ops "$long"
	assert_contains "$stderr" "unknown operation '${long:0:24}...'"
	# A path is: whoever reads the message must find the file.
	run -3 --separate-stderr sgpu-seal inspect "/nowhere/$long/$long"
	assert_contains "$stderr" "'/nowhere/$long/$long'"
}

@test "messages: bytes that a terminal obeys are escaped in every name" {
	local name
	for LC_ALL in C C.UTF-8; do
	for name in $'a\x9b31mb' $'a\xe2\x80\xaeb' $'a\x1b]0;b' $'a\nb' $'a\xffb' $'a\xc2\x9bb' $'a\xe2\x81\xa6b'; do
		run -3 --separate-stderr sgpu-seal inspect "$name"
		assert_plain "$stderr"
		assert_contains "$stderr" "'a\\x"
		run --separate-stderr sgpu-manifest check "$name"
		assert_plain "$stderr"
		run -3 --separate-stderr sgpu-stage load "$name"
		assert_plain "$stderr"
		run -3 --separate-stderr sgpu-run -k "$name" /dev/null
		assert_plain "$stderr"
		run --separate-stderr sgpu-measure inspect "$name"
		assert_plain "$stderr"
		run --separate-stderr sgpu-bench table "$name"
		assert_plain "$stderr"
		printf '{"version":1,"%s":1,"segments":[{"x":"\\u202e\\u009b"}]}' "${name//[$'\n\x1b']/}" >job.json
		run --separate-stderr sgpu-manifest check job.json
		assert_plain "$output"
		assert_plain "$stderr"
	done
	done
}

@test "messages: other characters stay where the locale is of UTF-8, and only there" {
	local name=$'\xe6\x89\xab\xe6\x8f\x8f M\xc3\xbcller.nii' spelt='\xe6\x89\xab\xe6\x8f\x8f M\xc3\xbcller.nii' variable
	run -3 --separate-stderr sgpu-seal inspect "$name"
	assert_contains "$stderr" "'$spelt'"
	for variable in LC_ALL LC_CTYPE LANG; do
		run -3 --separate-stderr env -u LC_ALL -u LC_CTYPE -u LANG "$variable=nowhere.UTF-8" sgpu-seal inspect "$name"
		assert_contains "$stderr" "'$name'"
		run -3 --separate-stderr env -u LC_ALL -u LC_CTYPE -u LANG LC_ALL=C "$variable=C.utf8" sgpu-seal inspect "$name"
		[ "$variable" = LC_ALL ] || assert_contains "$stderr" "'$spelt'"
	done
	run -3 --separate-stderr env LC_ALL=C.UTF-8 sgpu-seal inspect --json "$name"
	assert_plain "$stderr"
	[ "$(jq -r .error.text <<<"$stderr")" = "cannot open '$name': No such file or directory" ]
}

# as_json TOOL VERB: errors of a verb, each line of which must be an object.
as_json() {
	local arguments
	case "$1 $2" in
	"sgpu-bench open") return 0 ;;
	esac
	: >lines
	for arguments in "--nothing" "/nowhere" "a b c d e f" "-k /nowhere" "-o /proc/nowhere/x owner.jwk" "job.json" "-v job.batch"; do
		# shellcheck disable=SC2086
		timeout 20 "$1" "$2" --json $arguments 2>>lines </dev/null >/dev/null
	done
	assert_objects lines || {
		echo "$1 $2 --json" >&2
		return 1
	}
}

# assert_objects FILE: every line is one JSON object.
assert_objects() {
	if ! jq -Rne 'all(inputs; try (fromjson | type == "object") catch false)' "$1" >/dev/null; then
		{ echo 'not one JSON object a line:' && cat "$1"; } >&2
		return 1
	fi
}

@test "messages: with --json every line on standard error is an object, in every verb" {
	requires jq
	make_keys
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o job.batch
	every_verb as_json
}

@test "messages: with --json so are warnings, notes, counts of diagnostics and what went well" {
	requires jq
	make_keys
	small_job
	sgpu-manifest pack --json -o packed job.json 2>said
	sgpu-seal seal --json -v -k owner.jwk -r runner.pub.jwk -o job.batch packed 2>>said
	sgpu-stage load --json -v -o staged job.batch 2>>said
	sgpu-run --json -v --stats -k runner.jwk -o response staged 2>>said
	sgpu-seal open --json -v -k owner.jwk -C results response 2>>said
	sgpu-seal keygen --json -v 2>>said >other.jwk
	umask 022
	sgpu-seal keygen --json 2>warned >readable.jwk
	jq -es 'any(.[]; .warning)' warned
	cat warned >>said
	assert_objects said
	jq -es 'any(.[]; .detail)' said
	sed 's/"version": 1/"version": 7, "a": 1/' job.json >bad.json
	run -1 --separate-stderr sgpu-manifest pack --json bad.json
	printf '%s\n' "$stderr" >said
	assert_objects said
	jq -es 'any(.[]; .note.text | strings | test("faults"))' said
	run -2 --separate-stderr sgpu-seal --nothing --json
	printf '%s\n' "$stderr" >said
	assert_objects said
	[ -s said ]
}

# other_files: one of each kind that is neither a batch, a response nor sealed data.
other_files() {
	mkdir -p other
	cp job.json other/manifest
	gzip -c job.batch >other/gzip
	sgpu-measure keygen -o ek.pem --request other/request
	cp ek.pem other/pem
	printf 'some words\n%.0s' {1..20} >other/text
	head -c 1064 /dev/zero >other/zeros
	cp scan.f32 other/numbers
	printf '{"a":"%0120d"}' 1 >other/json
	cp "$(command -v sgpu-seal)" other/program
	tar cf other/tar job.json
}

@test "messages: keyinfo says of a key its kind and kid alone" {
	requires jq
	make_keys
	local key
	for key in owner.jwk runner.jwk runner.pub.jwk; do
		sgpu-seal keyinfo "$key" >said 2>&1
		sgpu-seal keyinfo --json "$key" >>said 2>&1
		sgpu-seal keyinfo <"$key" >>said 2>&1
		assert_untold said
		grep -qF -e "$(jq -r '(.keys // [.])[0].kid // empty' "$key")" said
		sgpu-seal keyinfo --json "$key" | jq -e '(.keys | length) > 0' >/dev/null
	done
	jq -c '.k = "short"' owner.jwk >bad.jwk
	run -1 sgpu-seal keyinfo bad.jwk
}

@test "messages: inspect says what else a file is, and prints nothing of it" {
	requires jq
	make_keys
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o job.batch
	other_files
	local file
	for file in other/*; do
		run -1 --separate-stderr sgpu-seal inspect "$file"
		[ -z "$output" ] || { echo "$file: $output"; return 1; }
		assert_contains "$stderr" "'$file' is "
		run -1 --separate-stderr sgpu-seal inspect --json "$file"
		[ -z "$output" ]
		jq -e .error.text <<<"$stderr" >/dev/null
	done
	local key
	for key in owner.jwk runner.jwk runner.pub.jwk; do
		run -1 sgpu-seal inspect "$key"
		printf '%s\n' "$output" >said
		assert_untold said
	done
}

@test "messages: what is given for a batch is named as what it is" {
	make_keys
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o job.batch
	sgpu-run -q -k runner.jwk -o response job.batch
	sgpu-stage load --keep -o staged job.batch
	other_files
	local command pair
	for command in "sgpu-seal seal -k owner.jwk -r runner.pub.jwk" "sgpu-stage load" "sgpu-run -k runner.jwk" \
		"sgpu-seal rewrap -k owner.jwk -r runner.pub.jwk" "sgpu-seal open -k owner.jwk -C out"; do
		for pair in other/manifest:"a manifest" other/gzip:"gzip data" owner.jwk:"a " other/text:text \
			other/pem:PEM other/tar:"tar archive" response:"a response" staged:"a batch"; do
			case "$pair $command" in
			response:*rewrap* | response:*open* | staged:*load* | staged:*run* | staged:*rewrap* | staged:*seal\ seal*)
				continue
				;;
			esac
			# shellcheck disable=SC2086
			run -1 --separate-stderr $command "${pair%%:*}"
			assert_contains "$stderr" "'${pair%%:*}' is "
			assert_contains "$stderr" "${pair#*:}"
		done
		assert_no_file out
	done
	sgpu-manifest pack -o packed other/../job.json
	run -1 --separate-stderr sgpu-seal open -k owner.jwk -C out packed
	assert_contains "$stderr" "'packed' is a batch, not a response"
}

@test "messages: nothing from a pipe is 6, an empty file is 1, and so is what is cut later" {
	make_keys
	small_job
	: >empty
	sgpu-manifest pack job.json >packed
	local command tool
	for command in "sgpu-seal inspect" "sgpu-seal rewrap -k owner.jwk -r runner.pub.jwk" "sgpu-seal seal -k owner.jwk" \
		"sgpu-seal open -k owner.jwk -C out" "sgpu-seal open-file -k owner.jwk" "sgpu-seal keyinfo" \
		"sgpu-seal pubkey" "sgpu-manifest check" "sgpu-manifest show" "sgpu-manifest canon" "sgpu-manifest pack -" \
		"sgpu-manifest merge -" "sgpu-stage load" "sgpu-measure inspect" \
		"sgpu-bench table -" "sgpu-run"; do
		tool=${command%% *}
		# shellcheck disable=SC2086
		run -6 --separate-stderr bash -c "true | $command"
		[ "$stderr" = "$tool: error: no input" ] || { echo "$command: $stderr"; return 1; }
		run -6 --separate-stderr python3 -c "import socket, subprocess, sys
a, b = socket.socketpair()
a.close()
sys.exit(subprocess.call(sys.argv[1].split(), stdin=b))" "$command"
		case $command in
		*open-file*)
			run -4 --separate-stderr bash -c "$command <empty" # no sealed file is so short
			;;
		*)
			run -1 --separate-stderr bash -c "$command <empty"
			[ "$stderr" = "$tool: error: no input" ] || { echo "$command: $stderr"; return 1; }
			;;
		esac
		case $command in
		*" -" | *stdin.json) ;;
		*)
			run --separate-stderr bash -c "$command empty"
			[ "$status" -ne 6 ] || { echo "$command: a file that the user named"; return 1; }
			;;
		esac
		run --separate-stderr bash -c "head -c 100 packed | $command"
		[ "$status" -ne 6 ] || { echo "$command: cut later"; return 1; }
	done
	assert_no_file out
	# There, nothing is something.
	true | sgpu-seal seal-file -k owner.jwk | sgpu-seal open-file -k owner.jwk | cmp - empty
}

# slow_pieces COUNT [FILE]: a MiB of it every 0.2 s.
slow_pieces() {
	local i
	for ((i = 0; i < $1; i++)); do
		head -c 1048576
		sleep 0.2
	done <"${2:-/dev/zero}"
}

# on_terminal COMMAND...: what a terminal gets to see, with standard input left as it is.
on_terminal() {
	SHELL=$(command -v bash) script -qec "$*" /dev/null </dev/null # another shell may not hand functions on
}

@test "messages: a terminal shows progress, and a dumb one none" {
	requires script pty
	make_keys
	export -f slow_pieces
	on_terminal "bash -c 'slow_pieces 4 | TERM=xterm sgpu-seal seal-file -k owner.jwk -o sealed'" >seen
	grep -q $'\r\x1b\\[Ksealing: .* [KM]iB' seen || grep -q 'sealing: .* [KM]iB/s' seen
	grep -q $'\x1b\\[K' seen
	local terminal
	for terminal in TERM=dumb TERM= -uTERM; do
		on_terminal "bash -c 'slow_pieces 4 | env $terminal sgpu-seal seal-file -k owner.jwk -o sealed'" >seen
		run ! grep -q 'sealing: ' seen
		run ! grep -q $'\x1b' seen
	done
	on_terminal "bash -c 'slow_pieces 4 | TERM=xterm sgpu-seal seal-file -q -k owner.jwk -o sealed'" >seen
	[ ! -s seen ]
	on_terminal "bash -c 'slow_pieces 4 | TERM=xterm sgpu-seal seal-file --json -k owner.jwk -o sealed'" >seen
	run ! grep -q $'\x1b' seen
}

@test "messages: of programs that share a terminal, one draws at a time" {
	requires script pty
	make_keys
	head -c 4194304 /dev/zero | sgpu-seal seal-file -k owner.jwk -o whole
	mkfifo first
	export -f slow_pieces wait_for
	# While the first draws, the second does not; its message has a line of its own. After the first it does.
	on_terminal "TERM=xterm bash -c '
		sgpu-seal seal-file -k owner.jwk -o sealed first & exec 3>first
		slow_pieces 2 >&3; wait_for grep -q sealing: seen
		slow_pieces 3 whole | sgpu-seal open-file -k owner.jwk -o opened
		exec 3>&-; wait; cp seen before
		slow_pieces 5 whole | sgpu-seal open-file -k owner.jwk -o opened'" >seen
	grep -q $'\r\e\\[Ksgpu-seal: error: ' before
	run ! grep -q opening: before
	grep -q opening: seen
}

@test "messages: the runner logs one line a batch: id, manifest, key, bytes, time, status" {
	requires jq
	make_keys
	small_job
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk -r runner.pub.jwk -o job.batch
	local id kid
	id=$(sgpu-seal inspect --json job.batch | jq -r .batch_id)
	kid=$(jq -r .kid runner.jwk)
	run -0 --separate-stderr sgpu-run -k runner.jwk -o response job.batch
	[[ $stderr =~ ^"sgpu-run: batch $id, manifest 'small-job', key $kid: "[0-9]+" bytes in, "[0-9]+" out, "[0-9.]+" ms, OK"$ ]]
	# The time lasts until all is cleared.
	run -0 --separate-stderr sgpu-run -v -k runner.jwk -o response job.batch
	[[ $stderr =~ "secure context: ".*$'\n'"sgpu-run: batch $id"[^$'\n']*$ ]]
	run -0 --separate-stderr sgpu-run -q -k runner.jwk -o response job.batch
	[ -z "$stderr" ]
	run -0 --separate-stderr sgpu-run --json -k runner.jwk -o response job.batch
	jq -es --arg id "$id" --arg kid "$kid" 'length == 1 and (.[0].batch | .batch_id == $id and .kid == $kid and
		.manifest_id == "small-job" and .bytes_in > 8000 and .elapsed_ms > 0 and .status == "OK")' <<<"$stderr"
	# One for another key is logged as what it came to; what is no batch is an error alone.
	sgpu-seal keygen -q --x25519 -o other.jwk
	run -4 --separate-stderr sgpu-run --json -k other.jwk -o response job.batch
	jq -es '[.[].batch | objects] | length == 1 and .[0].status == "EKEY" and .[0].kid == ""' <<<"$stderr"
	run -1 --separate-stderr sgpu-run -k runner.jwk -o response job.json
	run ! grep -q '^sgpu-run: batch ' <<<"$stderr"
}

@test "an error as JSON says whether the same command may succeed later" {
	make_keys 2>/dev/null
	small_job 10
	sgpu-manifest pack -o packed job.json
	echo there >exists
	mkdir -m 0500 closed
	chmod 0644 runner.jwk
	local row options
	for row in "sgpu-seal keygen -o exists|false" "sgpu-seal keygen --nothing|false" "sgpu-seal seal -k missing packed|false" \
		"sgpu-seal seal -k owner.jwk exists|false" "sgpu-seal pubkey runner.jwk|false" "sgpu-seal keyinfo -o /proc/x owner.jwk|false" \
		"sgpu-run --socket none packed|true" "sgpu-serve status --socket none|true" "sgpu-seal seal-file -k owner.jwk -o /dev/full exists|true"; do
		read -ra options <<<"${row%|*}"
		run --separate-stderr "${options[@]}" --json
		[ "$status" -ne 0 ]
		[ "$(jq -s '.[-1].error.retryable' <<<"$stderr")" = "${row#*|}" ] || { echo "$row: $stderr" && return 1; }
	done
}
