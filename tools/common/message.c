/* SPDX-License-Identifier: Apache-2.0
 *
 * The one place that prints messages. The rules:
 * - everything goes to standard error; data go to standard output and never here;
 * - `sgpu-seal: error: cannot open 'x': No such file or directory`: lower case, the value quoted, no full stop;
 * - a hint stands on a line of its own, indented by four;
 * - with --json an error is one object on one line;
 * - one write a message, so that messages of several processes do not mix.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli.h"
#include "cli_private.h"

bool cli_quiet, cli_verbose, cli_json;

static void emit(const char *kind, const char *text, const char *hint)
{
	char line[SGPU_ERROR_TEXT_MAX + SGPU_ERROR_HINT_MAX + 128];
	int size = snprintf(line, sizeof(line), "%s: %s%s%s%s%s\n", cli_tool_name(), kind, text, *hint ? "\n    " : "",
			    *hint ? "hint: " : "", hint);

	if (size > (int)sizeof(line) - 1) {
		size = (int)sizeof(line) - 1;
	}
	cli_progress_pause();
	(void)!write(STDERR_FILENO, line, (size_t)size);
}

/* File names, and texts that were cut, need not be UTF-8, which JSON is: what is not ASCII in those becomes '?'. */
static json_t *text_json(const char *text)
{
	json_t *json = json_string(text);
	char copy[SGPU_ERROR_TEXT_MAX];

	if (!json) {
		snprintf(copy, sizeof(copy), "%s", text);
		for (char *p = copy; *p; p++) {
			*p = (unsigned char)*p < 0x80 ? *p : '?';
		}
		json = json_string(copy);
	}
	return json;
}

static void emit_json(const struct sgpu_error *error)
{
	json_t *object = json_pack("{s:{s:s, s:o, s:s}}", "error", "code", sgpu_error_name(error->code), "text",
				   text_json(error->text), "tool", cli_tool_name());

	if (object && *error->hint) {
		json_object_set_new(json_object_get(object, "error"), "hint", text_json(error->hint));
	}
	char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
	if (line) {
		cli_progress_pause();
		dprintf(STDERR_FILENO, "%s\n", line);
	} else {
		emit("error: ", error->text, error->hint);
	}
	free(line);
	json_decref(object);
}

int cli_error(const struct sgpu_error *error)
{
	if (cli_json) {
		emit_json(error);
	} else {
		emit("error: ", error->text[0] ? error->text : sgpu_strerror(error->code), error->hint);
	}
	return sgpu_exit_status(error->code);
}

int cli_fail(int code, const char *format, ...)
{
	struct sgpu_error error = { .code = code };
	char text[SGPU_ERROR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	sgpu_fail(&error, code, "%s", text);
	return cli_error(&error);
}

int cli_usage(const char *format, ...)
{
	struct sgpu_error error = { .code = SGPU_EUSAGE };
	char text[SGPU_ERROR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	sgpu_fail(&error, SGPU_EUSAGE, "%s", text);
	const char *verb = cli_verb_name();
	sgpu_hint(&error, "try '%s%s%s --help'", cli_tool_name(), *verb ? " " : "", verb);
	return cli_error(&error);
}

static void SGPU_PRINTF(2, 0) print_line(const char *kind, const char *format, va_list arguments)
{
	struct sgpu_error line = { .code = SGPU_OK };
	char text[SGPU_ERROR_TEXT_MAX];

	vsnprintf(text, sizeof(text), format, arguments);
	sgpu_fail(&line, SGPU_OK, "%s", text); /* control characters */
	emit(kind, line.text, "");
}

void cli_warning(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line("warning: ", format, arguments);
	va_end(arguments);
}

void cli_note(const char *format, ...)
{
	va_list arguments;

	if (!cli_quiet) {
		va_start(arguments, format);
		print_line("", format, arguments);
		va_end(arguments);
	}
}

void cli_detail(const char *format, ...)
{
	va_list arguments;

	if (cli_verbose) {
		va_start(arguments, format);
		print_line("", format, arguments);
		va_end(arguments);
	}
}
