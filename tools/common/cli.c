/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs verbs and parses their options; prints --help, --version and the list of options, of which
 * the completions and the check of the man pages are made.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <sgpu/base.h>

#include "cli.h"

/* Widths of --help and of its column of options. */
enum { COLUMNS = 80, LEFT = 30, OPTIONS_MAX = 48 };

struct cli_list cli_given;

static const struct cli_option common[] = {
	{ "help", 'h', NULL, "show this help", .kind = CLI_IS_COMMON },
	{ "version", 'V', NULL, "show the version", .kind = CLI_IS_COMMON },
	{ "quiet", 'q', NULL, "no progress, no notes", .kind = CLI_IS_COMMON },
	{ "verbose", 'v', NULL, "say more", .kind = CLI_IS_COMMON },
	{ "json", 0, NULL, "results and errors as JSON", .kind = CLI_IS_COMMON },
	CLI_END,
};

static const struct cli_tool *tool;
static const struct cli_verb *verb;
static struct cli_option options[OPTIONS_MAX + 1]; /* of `verb`, the common ones first */
static const struct cli_option *words_row;	   /* of `verb`, or NULL */

const char *cli_tool_name(void)
{
	return tool ? tool->name : "sgpu";
}

const char *cli_verb_name(void)
{
	return verb ? verb->name : "";
}

static void add_options(const struct cli_option *rows, int *count)
{
	for (; rows->name && *count < OPTIONS_MAX; rows++) {
		if (rows->rows) {
			add_options(rows->rows, count);
		} else if (*rows->name) {
			options[(*count)++] = *rows;
		} else {
			words_row = rows;
		}
	}
}

static void choose_verb(const struct cli_verb *chosen)
{
	int count = 0;

	verb = chosen;
	words_row = NULL;
	memset(options, 0, sizeof(options));
	add_options(common, &count);
	add_options(verb->options, &count);
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
	for (const struct cli_option *option = options; option->name; option++) {
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
	const struct cli_verb *nameless = find_verb("");

	if (nameless) {
		choose_verb(nameless);
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
		choose_verb(v);
		printf("%s\t\t\t%s\t%s\n", v->name, v->arguments, v->help);
		for (const struct cli_option *option = options; option->name; option++) {
			printf("%s\t%s\t%.1s\t%s\t%s\n", v->name, option->name,
			       (char[]){ option->letter, '\0' },
			       option->argument ? option->argument : "", option->help);
		}
	}
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

/* ---- options ---- */
/* getopt_long returns a short option's letter, WORD, or ROW plus a long option's row number. */
enum { WORD = 1, ROW = 256 };

static void fill_tables(struct option longs[OPTIONS_MAX + 1], char shorts[2 * OPTIONS_MAX + 3])
{
	int row = 0;

	if (words_row) {
		*shorts++ = '-'; /* getopt then returns other arguments where they stand */
	}
	*shorts++ = ':'; /* getopt then returns ':' for a missing argument */
	for (; options[row].name; row++) {
		const struct cli_option *option = &options[row];

		longs[row] = (struct option){ option->name,
					      option->argument ? required_argument : no_argument,
					      NULL, ROW + row };
		if (option->letter) {
			*shorts++ = option->letter;
			if (option->argument) {
				*shorts++ = ':';
			}
		}
	}
	longs[row] = (struct option){ 0 };
	*shorts = '\0';
}

static const struct cli_option *find_row(int key)
{
	const struct cli_option *row = options;

	if (key >= ROW || key == WORD) {
		return key == WORD ? words_row : &options[key - ROW];
	}
	while (row->letter != key) {
		row++;
	}
	return row;
}

/* Names the known option that is nearest to an unknown one. Returns 2. */
static int refuse_option(const char *text, int kind)
{
	char name[64];

	if (optopt > 0 && optopt < ROW && strncmp(text, "--", 2)) {
		return cli_usage(kind == ':' ? "option '-%c' needs an argument"
					     : "unknown option '-%c'",
				 optopt);
	}
	if (kind == ':') {
		return cli_usage("option '%s' needs an argument", SGPU_EXCERPT(text));
	}
	if (optopt > 0) {
		return cli_usage("option '%.*s' takes no argument", (int)strcspn(text, "="), text);
	}
	text += strspn(text, "-");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
	return cli_unknown("unknown option", name, "--", options, sizeof(*options));
}

static int store_number(const struct cli_option *option, void *to, const char *value,
			const char *name)
{
	struct sgpu_error error = { 0 };
	uint64_t number = 0;
	int rc;

	if (option->kind == CLI_IS_DURATION) {
		rc = sgpu_parse_duration(value, name, &number, &error);
		if (rc == SGPU_OK && number < option->min) {
			rc = sgpu_fail(&error, SGPU_EUSAGE, "%s '%s' is less than %" PRIu64 " s",
				       name, SGPU_EXCERPT(value), option->min / 1000000000);
		}
	} else if (option->kind == CLI_IS_SIZE) {
		rc = sgpu_parse_size(value, name, option->min, option->max, &number, &error);
	} else {
		rc = sgpu_parse_u64(value, name, option->min, option->max, &number, &error);
	}
	if (rc != SGPU_OK) {
		return cli_error(&error);
	}
	if (option->kind == CLI_IS_DURATION || option->kind == CLI_IS_SIZE) {
		*(uint64_t *)to = number;
	} else {
		*(unsigned *)to = (unsigned)number;
	}
	return 0;
}

static int store_bytes(const struct cli_option *option, struct cli_bytes *to, const char *value,
		       const char *name)
{
	const size_t digits = strlen(value);
	char least[32] = "";

	if (digits % 2 || digits / 2 < option->min || digits / 2 > option->max ||
	    sgpu_hex_decode(value, to->data, digits / 2, NULL) != SGPU_OK) {
		if (option->min < option->max) {
			snprintf(least, sizeof(least), "%" PRIu64 " to ", option->min);
		}
		return cli_usage("%s is %s%" PRIu64
				 " bytes in hexadecimal, two digits each, not these %zu characters",
				 name, least, option->max, digits);
	}
	to->size = digits / 2;
	return 0;
}

bool cli_list_add(struct cli_list *list, const char *value)
{
	const char **grown =
		reallocarray(list->items, (size_t)list->count + 1, sizeof(*list->items));

	if (grown) {
		list->items = grown;
		list->items[list->count++] = value;
	}
	return grown;
}

static int store_value(const struct cli_option *option, void *values, const char *value)
{
	void *to = values ? (char *)values + option->offset : NULL;
	char name[64];

	snprintf(name, sizeof(name), "--%s", option->name);
	switch (option->kind) {
	case CLI_IS_FLAG:
		*(bool *)to = true;
		return 0;
	case CLI_IS_TEXT:
	case CLI_IS_INPUT:
		*(const char **)to = value;
		return option->kind == CLI_IS_INPUT ? cli_take_input(value) : 0;
	case CLI_IS_LIST:
		return cli_list_add(to, value) ? 0 : cli_fail_nomem();
	case CLI_IS_NUMBER:
	case CLI_IS_SIZE:
	case CLI_IS_DURATION:
		return store_number(option, to, value, name);
	case CLI_IS_BYTES:
		return store_bytes(option, to, value, name);
	case CLI_IS_TAKEN:
		return option->take(values, value);
	case CLI_IS_COMMON:
		break;
	}
	switch (option->letter) {
	case 'h':
		print_verb_help();
		exit(flush_output(0));
	case 'V':
		cli_print_version();
		exit(flush_output(0));
	case 'q':
		cli_quiet = true;
		return 0;
	case 'v':
		cli_verbose = true;
		return 0;
	default:
		cli_json = true;
		return 0;
	}
}

/* Words in brackets in the usage are optional; dots allow any number. Returns an exit status. */
static int check_arguments(int count)
{
	int least = 0, most = 0;

	for (const char *word = verb->arguments; *word;
	     word += strcspn(word, " "), word += strspn(word, " ")) {
		most++;
		least += *word != '[';
	}
	if (count < least) {
		return cli_usage("an argument is missing: %s", verb->arguments);
	}
	if (count > most && !strstr(verb->arguments, "...")) {
		return cli_usage("more arguments than '%s' takes",
				 *verb->name ? verb->name : cli_tool_name());
	}
	return 0;
}

int cli_read(int argc, char **argv, void *values, char ***arguments)
{
	struct option longs[OPTIONS_MAX + 1];
	char shorts[2 * OPTIONS_MAX + 3];
	int key, status = 0;

	*arguments = argv + argc;
	fill_tables(longs, shorts);
	opterr = 0;
	optind = 0;
	while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct cli_option *option = key == '?' || key == ':' ? NULL : find_row(key);

		if (option && option->kind != CLI_IS_COMMON &&
		    !(cli_list_add(&cli_given, option->name) && cli_list_add(&cli_given, optarg))) {
			return cli_fail_nomem();
		}
		/* After an error, only paths are stored: appraise removes earlier outputs in any
		 * case. */
		if (status == 0) {
			status = option ? store_value(option, values, optarg)
					: refuse_option(argv[optind - 1], key);
		} else if (option &&
			   (option->kind == CLI_IS_TEXT || option->kind == CLI_IS_INPUT)) {
			store_value(option, values, optarg);
		}
	}
	*arguments = argv + optind;
	if (!words_row) {
		return status ? status : check_arguments(argc - optind);
	}
	for (; status == 0 && **arguments; ++*arguments) {
		status = words_row->take(values, **arguments);
	}
	return status;
}

/* ---- the tool ---- */
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

static int run_verb(int argc, char **argv, const char *first)
{
	if (tool->holds_secrets) {
		cli_harden();
	}
	const struct cli_verb *named = *first ? find_verb(first) : NULL,
			      *chosen = named ? named : find_verb("");

	if (!chosen && argc < 2) {
		return cli_usage("a verb is missing");
	}
	/* What is no option would be an argument, of which it may take none. */
	if (!chosen || (!named && argc >= 2 && *first != '-' && !*chosen->arguments)) {
		return cli_unknown("unknown verb", first, "", tool->verbs, sizeof(*tool->verbs));
	}
	choose_verb(chosen);
	return named ? verb->run(argc - 1, argv + 1) : verb->run(argc, argv);
}

int cli_main(const struct cli_tool *this_tool, int argc, char **argv)
{
	const char *first = argc >= 2 ? argv[1] : "";

	json_set_alloc_funcs(take_memory, free_wiped);
	tool = this_tool;
	cli_json = asks_for_json(argc, argv);
	if (!open_standard()) {
		return 3;
	}
	/* A failed write is an error with clean-up, and does not kill the process. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* If a parent ignored SIGCHLD, the kernel would reap processes that a tool waits for. */
	signal(SIGCHLD, SIG_DFL);
	if (!strcmp(first, "--help") || !strcmp(first, "-h")) {
		print_tool_help();
	} else if (!strcmp(first, "--version") || !strcmp(first, "-V")) {
		cli_print_version();
	} else if (!strcmp(first, "--list-options")) {
		list_options();
	} else {
		return flush_output(run_verb(argc, argv, first));
	}
	return flush_output(0);
}
