/* SPDX-License-Identifier: Apache-2.0
 *
 * What --help prints of an option, within 80 columns, and what was meant by a verb or an option
 * that there is not.
 */
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/manifest.h>

#include "cli.h"

enum { COLUMNS = 80, LEFT = 30, NAMES_MAX = 64 };

/* Words up to the last column; what follows stands below them. Blanks within the text stay. */
static void print_wrapped(const char *text)
{
	while (strlen(text) > COLUMNS - LEFT) {
		size_t length = COLUMNS - LEFT;

		while (length && text[length] != ' ') {
			length--;
		}
		if (!length) {
			break;
		}
		printf("%.*s\n%*s", (int)length, text, LEFT, "");
		text += length + 1;
	}
	printf("%s\n", text);
}

void cli_print_option(const struct cli_option *option)
{
	char left[64];
	char short_form[8] = "    ";

	if (option->letter) {
		snprintf(short_form, sizeof(short_form), "-%c, ", option->letter);
	}
	snprintf(left, sizeof(left), "%s--%s%s%s", short_form, option->name,
		 option->argument ? " " : "", option->argument ? option->argument : "");
	if (strlen(left) > LEFT - 4) {
		printf("  %s\n%*s", left, LEFT, "");
	} else {
		printf("  %-*s", LEFT - 2, left);
	}
	print_wrapped(option->help);
}

int cli_unknown(const char *what, const char *given, const char *dashes, const char *const *names)
{
	const char *near = sgpu_nearest_name(given, names), *verb = cli_verb_name();
	struct sgpu_error error = { .code = SGPU_EUSAGE };

	sgpu_fail(&error, SGPU_EUSAGE, "%s '%s%s'", what, dashes, SGPU_EXCERPT(given));
	if (near) {
		sgpu_hint(&error, "did you mean '%s%s'?", dashes, near);
	} else {
		sgpu_hint(&error, "try '%s%s%s --help'", cli_tool_name(), *verb ? " " : "", verb);
	}
	return cli_error(&error);
}

static void verb_names(const struct cli_tool *tool, const char *names[NAMES_MAX])
{
	size_t count = 0;

	for (const struct cli_verb *v = tool->verbs; v->name && count + 1 < NAMES_MAX; v++) {
		names[count++] = v->name;
	}
	names[count] = NULL;
}

int cli_unknown_verb(const struct cli_tool *tool, const char *given)
{
	const char *names[NAMES_MAX];

	verb_names(tool, names);
	return cli_unknown("unknown verb", given, "", names);
}

bool cli_meant_verb(const struct cli_tool *tool, const char *given)
{
	const char *names[NAMES_MAX];

	verb_names(tool, names);
	return *given != '-' && !strpbrk(given, "/.") && access(given, F_OK) &&
	       sgpu_nearest_name(given, names);
}

int cli_unknown_option(const struct cli_option *options, const char *given)
{
	const char *names[NAMES_MAX];
	char name[64];
	size_t count = 0;

	for (; options->name && count + 1 < NAMES_MAX; options++) {
		names[count++] = options->name;
	}
	names[count] = NULL;
	given += strspn(given, "-");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(given, "="), given);
	return cli_unknown("unknown option", name, "--", names);
}
