#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a TAB offers, in each shell that is there.

load helpers

# bash_offers LINE: what bash offers for it, in its words as bash cuts them: at blanks, and before and behind "=".
bash_offers() {
	local words line=$1
	case $line in *' ') words=true ;; *) words= ;; esac
	# shellcheck disable=SC2206 # the words of the line
	COMP_WORDS=(${line//=/ = } ${words:+""})
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	# shellcheck source=/dev/null
	source "$SGPU_BUILD/completions/bash/${COMP_WORDS[0]}"
	"_${COMP_WORDS[0]//-/_}"
	echo "${COMPREPLY[*]}"
}

# zsh_offers LINE: the same of zsh, on a pseudo-terminal, where it asks for completions as a user does.
zsh_offers() {
	SGPU_COMPLETIONS=$SGPU_BUILD/completions/zsh timeout 60 zsh -f "$BATS_TEST_DIRNAME/completions.zsh" "$1" | sort -u | paste -sd ' '
}

fish_offers() {
	HOME=$PWD timeout 60 fish --no-config -c "source '$SGPU_BUILD/completions/fish/${1%% *}.fish'; complete -C '$1'" |
		cut -f 1 | sort -u | paste -sd ' '
}

# offers SHELL LINE WANT: exactly these.
offers() {
	local got
	got=$("$1_offers" "$2")
	if [ "$got" != "$3" ]; then
		printf '%s offers for: %s\n  %s\nand not\n  %s\n' "$1" "$2" "$got" "$3" >&2
		return 1
	fi
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return 1
	touch cpu.batch cuda.u8 gemm.txt app.json
	[ -e "$SGPU_BUILD/completions/bash/sgpu-run" ] || skip "needs the completions that 'make' builds"
}

# shell_offers SHELL: what must hold in each.
shell_offers() {
	local operations cases region
	operations=$(sgpu-manifest ops | awk 'NR > 1 { print $1 }' | sort | paste -sd ' ')
	cases=$(sgpu-bench list --json | grep -o '"case":"[^"]*' | cut -d '"' -f 4 | sort | paste -sd ' ')
	[ -n "$operations" ]
	[ -n "$cases" ]
	# Devices, and no files; an option that takes a file has those.
	offers "$1" "sgpu-bench run --device c" "cpu cuda"
	offers "$1" "sgpu-run --device c" "cpu cuda"
	# Operations.
	offers "$1" "sgpu-manifest ops ge" "gemm"
	offers "$1" "sgpu-manifest init sof" "softmax"
	# Cases, regions.
	offers "$1" "sgpu-bench run ap" "app"
	small_job
	make_keys
	sgpu-manifest pack job.json | sgpu-seal seal -k owner.jwk | sgpu-stage load -q --keep >/dev/null
	region=$(sgpu-stage list | awk 'NR == 2 { print $1 }')
	[ -n "$region" ]
	offers "$1" "sgpu-stage release ${region:0:4}" "$region"
	# Verbs; what the default verb takes; and nothing where nothing is taken.
	offers "$1" "sgpu-seal key" "$(sgpu-seal --list-options | awk -F '\t' '$2 == "" && /^key/ { print $1 }' | sort | paste -sd ' ')"
	offers "$1" "sgpu-run cp" "cpu.batch"
	offers "$1" "sgpu-run --trac" "--trace"
	offers "$1" "sgpu-run --device c" "cpu cuda"
	offers "$1" "sgpu-serve status c" ""
	offers "$1" "sgpu-serve stat" "status"
}

@test "bash offers operations, cases, regions and devices, and files only where they are taken" {
	shell_offers bash
	offers bash "sgpu-run --device=c" "cpu cuda"
	offers bash "sgpu-bench run --device=" "auto cpu cuda"
	offers bash "sgpu-manifest init --output=ap" "app.json"
	# A job: operations, then what the last one has, and files.
	offers bash "sgpu run gauss" "gaussian3d"
	offers bash "sgpu run gaussian3d s" "sigma="
	offers bash "sgpu run threshold low=7 app.json --then gaussian3d s" "sigma="
	offers bash "sgpu run threshold input=ap" "app.json"
	offers bash "sgpu run threshold ap" "app.json"
	offers bash "sgpu run ap" "app.json"
	offers bash "sgpu host up" "update"
	offers bash "sgpu-manifest ops " "$(sgpu-manifest ops | awk 'NR > 1 { print $1 }' | paste -sd ' ')"
	# Where a user took "=" out of what bash cuts at.
	# shellcheck source=/dev/null
	source "$SGPU_BUILD/completions/bash/sgpu-run"
	COMP_WORDS=(sgpu-run --device=c)
	COMP_CWORD=1
	_sgpu_run
	[ "${COMPREPLY[*]}" = "--device=cpu --device=cuda" ]
}

# The other shells' know nothing but the name of the tool.
@test "a TAB in bash runs the installed program, and not the file that was typed" {
	printf '#!/bin/sh\ntouch "%s/ran"\n' "$PWD" >sgpu-manifest
	chmod +x sgpu-manifest
	# shellcheck source=/dev/null
	source "$SGPU_BUILD/completions/bash/sgpu-manifest"
	COMP_WORDS=(./sgpu-manifest ops ge)
	COMP_CWORD=2
	_sgpu_manifest
	[ "${COMPREPLY[*]}" = gemm ]
	[ ! -e ran ]
}

@test "zsh offers the same" {
	requires zsh
	shell_offers zsh
	offers zsh "sgpu-run --device=c" "cpu cuda"
}

@test "fish offers the same" {
	requires fish
	shell_offers fish
	offers fish "sgpu-run --device=c" "--device=cpu --device=cuda"
}
