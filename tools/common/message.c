/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints all messages, on standard error. The rules:
 * - `sgpu-seal: error: cannot open 'x': No such file or directory`: lower case, the value quoted,
 * no full stop;
 * - a hint stands on a line of its own, indented by four;
 * - a quoted value is cut unless it is a name: sgpu_vfail does this;
 * - control characters are escaped; unless the locale is UTF-8, also all that is not ASCII;
 * - with --json, one object on one line: {"error":{...}}, {"warning":{...}}, {"note":{...}};
 * - one write per message, so that messages of several processes do not mix.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/manifest.h>

#include "cli.h"

enum { NAMES_MAX = 256 };

bool cli_quiet, cli_verbose, cli_json;
int cli_error_fd = STDERR_FILENO;

/* Whether the environment names a UTF-8 locale, which need not be installed. */
static bool is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	const char *value = NULL;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(names) && (!value || !*value); i++) {
		value = getenv(names[i]);
	}
	return value && (strcasestr(value, ".utf-8") || strcasestr(value, ".utf8"));
}

char *cli_shown(const char *text)
{
	const size_t size = strlen(text), room = 4 * size + 1;
	char *shown = malloc(room);

	if (shown) {
		sgpu_escape(text, size, shown, room, is_utf8());
	}
	return shown;
}

static void emit(const char *kind, const char *text, const char *hint)
{
	char *shown = cli_shown(text), *hinted = cli_shown(hint);

	cli_progress_pause();
	dprintf(cli_error_fd, "%s: %s%s%s%s\n", cli_tool_name(), kind,
		shown ? shown : "out of memory", *hint ? "\n    hint: " : "", hinted ? hinted : "");
	free(shown);
	free(hinted);
}

static void emit_json(const char *kind, const struct sgpu_error *message)
{
	const bool failed = message->code != SGPU_OK;
	json_t *object = json_pack(
		"{s:{s:o, s:s, s:s*, s:o*, s:o*}}", kind, "text", cli_json_text(message->text),
		"tool", cli_tool_name(), "code", failed ? sgpu_error_name(message->code) : NULL,
		"hint", *message->hint ? cli_json_text(message->hint) : NULL, "retryable",
		failed ? json_boolean(sgpu_retryable(message)) : NULL);
	char *line = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII);

	cli_progress_pause();
	dprintf(cli_error_fd, "%s\n", line);
	free(line);
	json_decref(object);
}

int cli_error(const struct sgpu_error *error)
{
	const char *verb = cli_verb_name();
	struct sgpu_error full = *error;
	struct rlimit limit;

	/* On the CPU device, a failed mapping is EDEVICE. */
	if ((full.code == SGPU_ENOMEM || full.code == SGPU_EDEVICE) && !full.hint[0] &&
	    getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		sgpu_hint(&full,
			  "'ulimit -v' leaves %llu MiB of addresses; a run reserves more than the "
			  "machine has memory, and uses little of it: limit memory by a cgroup "
			  "instead",
			  (unsigned long long)limit.rlim_cur >> 20);
	}
	if (error->code == SGPU_ESYSTEM && cli_reader_gone()) {
		return sgpu_exit_status(error->code); /* cli_finish then ends the process */
	}
	if (full.code == SGPU_EUSAGE && !full.hint[0]) {
		sgpu_hint(&full, "try '%s%s%s --help'", cli_tool_name(), *verb ? " " : "", verb);
	}
	if (!full.text[0]) {
		snprintf(full.text, sizeof(full.text), "%s", sgpu_strerror(error->code));
	}
	if (cli_json) {
		emit_json("error", &full);
	} else {
		emit("error: ", full.text, full.hint);
	}
	return sgpu_exit_status(error->code);
}

int cli_fail(int rc, const char *format, ...)
{
	struct sgpu_error error = { .code = rc };
	va_list arguments;

	va_start(arguments, format);
	sgpu_vfail(&error, rc, format, arguments);
	va_end(arguments);
	return cli_error(&error);
}

int cli_unknown(const char *what, const char *given, const char *dashes, const void *rows,
		size_t row_size)
{
	const char *names[NAMES_MAX + 1] = { NULL }, *near;
	struct sgpu_error error = { .code = SGPU_EUSAGE };
	size_t count = 0;

	for (const char *row = rows; count < NAMES_MAX && *(const char *const *)row;
	     row += row_size) {
		names[count] = *(const char *const *)row;
		count += *names[count] != '\0';
	}
	names[count] = NULL;
	near = sgpu_nearest_name(given, names);
	sgpu_fail(&error, SGPU_EUSAGE, "%s '%s%s'", what, dashes, SGPU_EXCERPT(given));
	if (near) {
		sgpu_hint(&error, "did you mean '%s%s'?", dashes, near);
	}
	return cli_error(&error);
}

void cli_say(enum cli_kind kind, const char *format, ...)
{
	static const char *const members[] = { "warning", "note", "detail" };
	struct sgpu_error line = { .code = SGPU_OK };
	va_list arguments;

	if ((kind == CLI_NOTE && cli_quiet) || (kind == CLI_DETAIL && !cli_verbose)) {
		return;
	}
	va_start(arguments, format);
	sgpu_vfail(&line, SGPU_OK, format, arguments);
	va_end(arguments);
	if (cli_json) {
		emit_json(members[kind], &line);
	} else {
		emit(kind == CLI_WARNING ? "warning: " : "", line.text, "");
	}
}

void cli_print_line(FILE *file, const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0) {
		text = NULL;
	}
	va_end(arguments);
	cli_print_text(file, text ? text : "out of memory");
	putc('\n', file);
	free(text);
}

void cli_print_text(FILE *file, const char *text)
{
	char *shown = cli_shown(text ? text : "");

	fputs(shown ? shown : "out of memory", file);
	free(shown);
}
