/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs verbs; prints --help, --version and the list of options, of which the completions and the
 * check of the man pages are made.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/manifest.h>

#include "cli.h"

/* Widths of --help and of its column of options; the most verbs compared with a misspelt one. */
enum { COLUMNS = 80, LEFT = 30, NAMES_MAX = 64 };

static const struct cli_tool *tool;
static const struct cli_verb *verb;
static char **words; /* the arguments after the program's name */

const char *cli_tool_name(void)
{
	return tool ? tool->name : "sgpu";
}

const char *cli_verb_name(void)
{
	return verb ? verb->name : "";
}

const struct cli_verb *cli_verb(void)
{
	return verb;
}

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

static void print_option(const struct cli_option *option)
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

static void print_verb_help(void)
{
	printf("Usage: %s%s%s [OPTION]... %s\n\n%s\n\nOptions:\n", tool->name,
	       *verb->name ? " " : "", verb->name, verb->arguments, verb->help);
	for (const struct cli_option *option = verb->options; option->name && *option->name;
	     option++) {
		print_option(option);
	}
	printf("\nSee %s(1).\n", tool->name);
}

static const struct cli_verb *find_verb(const char *name)
{
	for (const struct cli_verb *v = tool->verbs; v->name; v++) {
		if (!strcmp(v->name, name)) {
			return v;
		}
	}
	return NULL;
}

/* The options of a nameless verb come first. */
static void print_tool_help(void)
{
	const char *title = "\nVerbs:\n";

	verb = find_verb("");
	if (verb) {
		print_verb_help();
	} else {
		printf("Usage: %s VERB [OPTION]... [ARGUMENT]...\n\n%s\n", tool->name,
		       tool->summary);
	}
	for (const struct cli_verb *v = tool->verbs; v->name; v++) {
		if (*v->name) {
			printf("%s  %-10s  %s\n", title, v->name, v->help);
			title = "";
		}
	}
	if (!*title) {
		printf("\n'%s VERB --help' lists a verb's options. See %s(1).\n", tool->name,
		       tool->name);
	}
}

/* Prints tab-separated lines, first for the verb itself: verb, long, short, argument, help. */
static void list_options(void)
{
	for (const struct cli_verb *v = tool->verbs; v->name; v++) {
		printf("%s\t\t\t%s\t%s\n", v->name, v->arguments, v->help);
		for (const struct cli_option *option = v->options; option->name && *option->name;
		     option++) {
			printf("%s\t%s\t%.1s\t%s\t%s\n", v->name, option->name,
			       (char[]){ option->letter, '\0' },
			       option->argument ? option->argument : "", option->help);
		}
	}
}

int cli_unknown(const char *what, const char *given, const char *dashes, const char *const *names)
{
	const char *near = sgpu_nearest_name(given, names), *running = cli_verb_name();
	struct sgpu_error error = { .code = SGPU_EUSAGE };

	sgpu_fail(&error, SGPU_EUSAGE, "%s '%s%s'", what, dashes, SGPU_EXCERPT(given));
	if (near) {
		sgpu_hint(&error, "did you mean '%s%s'?", dashes, near);
	} else {
		sgpu_hint(&error, "try '%s%s%s --help'", cli_tool_name(), *running ? " " : "",
			  running);
	}
	return cli_error(&error);
}

static const char *const *verb_names(void)
{
	static const char *names[NAMES_MAX];
	size_t count = 0;

	for (const struct cli_verb *v = tool->verbs; v->name && count + 1 < NAMES_MAX; v++) {
		names[count] = v->name;
		count += *v->name != '\0';
	}
	names[count] = NULL;
	return names;
}

/* Opens descriptors 0 to 2 if closed, since the next file opened would get their number. */
static bool open_standard(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0) {
			/* Writes to 1 must fail, even through a name such as /dev/stdout. */
			if (open(fd == 1 ? "/dev/full" : "/dev/null",
				 fd < 2 ? O_RDONLY : O_WRONLY) != fd) {
				return false;
			}
		}
	}
	return true;
}

/* A write error replaces the status of a verb that succeeded, answered no or failed in part. */
static int flush_output(int status)
{
	const bool has_answered = !status || status == sgpu_exit_status(SGPU_EDIFFERS) ||
				  status == sgpu_exit_status(SGPU_ESEGMENTS);

	struct sgpu_error error = { 0 };

	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && has_answered) {
		errno = errno ? errno : EIO; /* the errno of an earlier write is lost */
		sgpu_fail_write(&error, "standard output");
		status = cli_error(&error);
	}
	return cli_finish(status);
}

void cli_print_help(bool version)
{
	if (version) {
		cli_print_version(tool->name);
	} else {
		print_verb_help();
	}
	exit(flush_output(0));
}

/* --json also applies to errors in options before it. */
static bool asks_for_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--json")) {
			return true;
		}
	}
	return false;
}

void cli_command_text(char *text, size_t size)
{
	size_t length = (size_t)snprintf(text, size, "%s", cli_tool_name());

	for (char **word = words; word && *word && length < size; word++) {
		length += (size_t)snprintf(text + length, size - length,
					   strpbrk(*word, " \t'\"\\$`") ? " '%s'" : " %s", *word);
	}
	for (char *c = text; *c; c++) {
		*c = *c < ' ' || *c > '~' ? '?' : *c;
	}
}

/* For jansson. Without memory, it would write past its buffers and leave members out of copies, so
 * the program ends instead. */
static void *take_memory(size_t size)
{
	static atomic_flag ends = ATOMIC_FLAG_INIT;
	void *memory = malloc(size);

	if (!memory && atomic_flag_test_and_set(&ends)) {
		_exit(sgpu_exit_status(SGPU_ENOMEM)); /* the message takes memory, too */
	}
	if (!memory) {
		_exit(cli_finish(cli_fail_nomem()));
	}
	return memory;
}

/* The JSON parser keeps copies of its input, and key files are JSON. */
static void free_wiped(void *memory)
{
	sgpu_wipe(memory, malloc_usable_size(memory));
	free(memory);
}

int cli_main(const struct cli_tool *this_tool, int argc, char **argv)
{
	json_set_alloc_funcs(take_memory, free_wiped);
	tool = this_tool;
	words = argc > 0 ? argv + 1 : NULL;
	cli_json = asks_for_json(argc, argv);
	if (!open_standard()) {
		return 3;
	}
	/* A failed write is an error with clean-up, and does not kill the process. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* If a parent ignored SIGCHLD, the kernel would reap processes that a tool waits for. */
	signal(SIGCHLD, SIG_DFL);
	if (argc >= 2) {
		if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
			print_tool_help();
			return flush_output(0);
		}
		if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
			cli_print_version(tool->name);
			return flush_output(0);
		}
		if (!strcmp(argv[1], "--list-options")) {
			list_options();
			return flush_output(0);
		}
		verb = *argv[1] ? find_verb(argv[1]) : NULL;
	}
	if (tool->holds_secrets) {
		cli_harden();
	}
	if (verb) {
		return flush_output(verb->run(argc - 1, argv + 1));
	}
	verb = find_verb("");
	if (!verb) {
		return argc < 2 ? cli_usage("a verb is missing")
				: cli_unknown("unknown verb", argv[1], "", verb_names());
	}
	/* What is no option would be an argument, of which it may take none. */
	if (argc >= 2 && *argv[1] != '-' && !*verb->arguments) {
		verb = NULL;
		return cli_unknown("unknown verb", argv[1], "", verb_names());
	}
	return flush_output(verb->run(argc, argv));
}
