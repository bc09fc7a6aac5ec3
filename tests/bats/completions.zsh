# SPDX-License-Identifier: Apache-2.0
# completions.zsh LINE: what zsh offers behind LINE, one a line. A second zsh on a pseudo-terminal completes as it does for
# a user, with a compadd that writes what it is given to a file.
zmodload zsh/zpty || exit 1
hits=$(mktemp) || exit 1
trap 'zpty -d child 2>/dev/null; rm -f "$hits"' EXIT
zpty -b child zsh -f -i
child() { zpty -w child "$1" }
child "PROMPT= RPROMPT= PS2=; unsetopt zle_bracketed_paste 2>/dev/null; stty -echo"
child "fpath=(${(q)SGPU_COMPLETIONS} \$fpath); autoload -Uz compinit; compinit -u -D"
child "zstyle ':completion:*' verbose no; setopt no_list_beep no_auto_menu no_list_ambiguous"
child "compadd() { local -a __h; [[ \"\$*\" == *' -[OAD] '* || \$1 == -[OAD] ]] || { builtin compadd -O __h \"\$@\"; print -rl -- \$__h >>${(q)hits}; }; builtin compadd \"\$@\" }"
child "done-completing() { print -r -- '=done=' >>${(q)hits}; BUFFER=; }; zle -N done-completing; bindkey '^X^Y' done-completing; bindkey '^I' list-choices"
zpty -w -n child "$1"$'\t\x18\x19'
for (( i = 0; i < 300; i++ )); do
	grep -q '^=done=$' $hits && break
	sleep 0.1
	zpty -r -t child _ 2>/dev/null
done
sed '/^=done=$/d; /^$/d' $hits
