/* SPDX-License-Identifier: Apache-2.0
 *
 * client_dma_*_var: names of shell variables that the stage assigns. The caller's shell evaluates
 * the assignments, so a name with a meaning for a shell, a loader or an interpreter is refused.
 */
#include <string.h>

#include "manifest/manifest.h"
#include "manifest/reader.h"

/* Variables with a meaning for other programs; NAME* stands for every name that begins so. */
/* Several names a line, since one a line would fill several screens. */
/* clang-format off */
static const char *const meanings[] = {
	"aliases", "ALL_PROXY", "all_proxy", "argv", "ASAN_*", "BASH*", "BLIS_*", "BROWSER", "CARGO_*", "CDPATH",
	"cdpath", "CLASSPATH", "COLUMNS", "commands", "COMP_*", "CUDA_*", "CURL_*", "DBUS_*", "DEBUGINFOD_*",
	"DISPLAY", "DYLD_*", "EDITOR", "EMACS", "ENV", "EUID", "EXECIGNORE", "FCEDIT", "FIGNORE", "fignore", "FPATH",
	"fpath", "FTP_PROXY", "ftp_proxy", "FUNCNEST", "functions", "GCONV_PATH", "GEM_*", "GETCONF_DIR", "GIT_*",
	"GLIBC_TUNABLES", "GLOBIGNORE", "GOMP_*", "GOPATH", "GOROOT", "GREP_OPTIONS", "GROUPS", "HISTCMD",
	"HISTCONTROL", "HISTFILE", "HISTFILESIZE", "HISTIGNORE", "HISTSIZE", "HISTTIMEFORMAT", "HOME", "HOSTALIASES",
	"HOSTNAME", "HOSTTYPE", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "IFS", "IGNOREEOF",
	"INPUTRC", "INSIDE_EMACS", "JAVA_*", "JDK_JAVA_OPTIONS", "KRB5_*", "KSH_*", "LANG", "LANGUAGE", "LC_*",
	"LD_*", "LESS*", "LIBPATH", "LINENO", "LINES", "LOCALDOMAIN", "LOCPATH", "LOGNAME", "LSAN_*", "LUA_*",
	"MACHTYPE", "MAIL*", "mailpath", "MAKEFLAGS", "MALLOC_*", "MANPAGER", "MANPATH", "manpath", "MKL_*",
	"module_path", "NIS_PATH", "NLSPATH", "NODE_*", "NO_PROXY", "no_proxy", "NULLCMD", "NVIDIA_*", "OLDPWD",
	"OMP_*", "OPENBLAS_*", "OPENSSL_*", "OPTARG", "OPTERR", "OPTIND", "options", "OSTYPE", "PAGER", "parameters",
	"PATH", "path", "PERL*", "PIPESTATUS", "pipestatus", "PKG_CONFIG_*", "POSIXLY_CORRECT", "PPID", "PROMPT",
	"prompt", "PROMPT_*", "PS0", "PS1", "PS2", "PS3", "PS4", "psvar", "PWD", "PYTHON*", "QEMU_*", "RANDOM",
	"READLINE_*", "READNULLCMD", "REPLY", "RESOLV_HOST_CONF", "RES_OPTIONS", "RUBY*", "RUST*", "SECONDS",
	"SGPU_*", "SHELL", "SHELLOPTS", "SHLIB_PATH", "SHLVL", "signals", "SRANDOM", "SSH_*", "SSL_*", "status",
	"STTY", "SUDO_*", "TCL*", "TERM*", "TIMEFORMAT", "TMOUT", "TMPDIR", "TSAN_*", "TZ", "TZDIR", "UBSAN_*",
	"UID", "USER", "VISUAL", "watch", "XAUTHORITY", "XDG_*", "ZDOTDIR", "ZSH*", "_",
};
/* clang-format on */

static bool has_meaning(const char *name)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(meanings); i++) {
		size_t length = strlen(meanings[i]);

		if (meanings[i][length - 1] == '*' ? strncmp(name, meanings[i], length - 1) == 0
						   : strcmp(name, meanings[i]) == 0) {
			return true;
		}
	}
	return false;
}

bool sgpu_variable_is_free(const char *name)
{
	return sgpu_identifier(name) && strlen(name) <= SGPU_DMA_VAR_MAX && !has_meaning(name);
}

void sgpu_reader_variable(struct sgpu_reader *reader, const char *field, const json_t *value,
			  const char *id, const char **variable)
{
	const char *name = sgpu_reader_string(reader, field, value);
	const json_t *other;

	if (!name) {
		return;
	}
	if (!sgpu_identifier(name) || strlen(name) > SGPU_DMA_VAR_MAX) {
		sgpu_reader_refuse(reader, field, NULL, value,
				   "is not the name of a shell variable: 1 to %d letters, digits "
				   "and '_', no digit first",
				   (int)SGPU_DMA_VAR_MAX);
		return;
	}
	if (has_meaning(name)) {
		sgpu_reader_report(reader, field, NULL,
				   "'%s' has a meaning to shells or other programs", name);
		return;
	}
	other = json_object_get(reader->variables, name);
	if (other) {
		sgpu_reader_report(reader, field, NULL,
				   "'%s' is a variable of segment '%s' already", name,
				   json_string_value(other));
		return;
	}
	if (json_object_set_new_nocheck(reader->variables, name, json_string_nocheck(id)) < 0) {
		reader->no_memory = true;
	}
	*variable = sgpu_reader_keep(reader, name);
}
