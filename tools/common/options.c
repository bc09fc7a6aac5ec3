/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the options of a verb.
 */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "cli.h"

unsigned cli_passphrase_fd = UINT_MAX;

enum { OPTIONS_MAX = 48 };

/* getopt_long returns a short option's letter, WORD, or ROW plus a long option's row number. */
enum { WORD = 1, ROW = 256 };

static const struct cli_option *words_row(const struct cli_option *options)
{
	while (options->name && *options->name) {
		options++;
	}
	return options->name ? options : NULL;
}

static void fill_tables(const struct cli_option *options, struct option longs[OPTIONS_MAX + 1],
			char shorts[2 * OPTIONS_MAX + 3])
{
	int row = 0;

	if (words_row(options)) {
		*shorts++ = '-'; /* getopt then returns other arguments where they stand */
	}
	*shorts++ = ':'; /* getopt then returns ':' for a missing argument */
	for (; row < OPTIONS_MAX && options[row].name && *options[row].name; row++) {
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

static const struct cli_option *find_row(const struct cli_option *options, int key)
{
	if (key >= ROW || key == WORD) {
		return key == WORD ? words_row(options) : &options[key - ROW];
	}
	while (options->letter != key) {
		options++;
	}
	return options;
}

/* Names the known option that is nearest to an unknown one. Returns 2. */
static int refuse_option(const struct cli_option *options, const char *text, int kind)
{
	const char *names[OPTIONS_MAX];
	char name[64];
	size_t count = 0;

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
	for (; options->name && *options->name && count + 1 < OPTIONS_MAX; options++) {
		names[count++] = options->name;
	}
	names[count] = NULL;
	text += strspn(text, "-");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
	return cli_unknown("unknown option", name, "--", names);
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
		return error.hint[0] ? cli_error(&error) : cli_usage("%s", error.text);
	}
	if (option->size == sizeof(uint64_t)) {
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
		if (option->max) {
			return store_number(option, &cli_passphrase_fd, value, name);
		}
	}
	switch (option->letter) {
	case 'h':
	case 'V':
		cli_print_help(option->letter == 'V');
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
static int check_arguments(const struct cli_verb *verb, int count)
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
	const struct cli_verb *verb = cli_verb();
	struct option longs[OPTIONS_MAX + 1];
	char shorts[2 * OPTIONS_MAX + 3];
	int key, status = 0;

	*arguments = argv + argc;
	fill_tables(verb->options, longs, shorts);
	opterr = 0;
	optind = 0;
	while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const struct cli_option *option =
			key == '?' || key == ':' ? NULL : find_row(verb->options, key);

		/* After an error, only paths are stored: appraise removes earlier outputs in any
		 * case. */
		if (status == 0) {
			status = option ? store_value(option, values, optarg)
					: refuse_option(verb->options, argv[optind - 1], key);
		} else if (option &&
			   (option->kind == CLI_IS_TEXT || option->kind == CLI_IS_INPUT)) {
			store_value(option, values, optarg);
		}
	}
	*arguments = argv + optind;
	if (words_row(verb->options)) {
		for (; status == 0 && **arguments; ++*arguments) {
			status = words_row(verb->options)->take(values, **arguments);
		}
		return status;
	}
	return status ? status : check_arguments(verb, argc - optind);
}

const char *cli_given(const struct cli_option *options, const void *values, const char *among)
{
	static const char zeros[sizeof(struct cli_bytes)];
	char name[64];

	for (; options->name; options++) {
		/* All bytes of a value that was not given are zero; of cli_bytes, those of its
		 * size. */
		const bool has_size = options->kind == CLI_IS_BYTES;
		const size_t skipped = has_size ? offsetof(struct cli_bytes, size) : 0;

		snprintf(name, sizeof(name), " %s ", options->name);
		if (options->kind != CLI_IS_COMMON && options->kind != CLI_IS_TAKEN &&
		    memcmp((const char *)values + options->offset + skipped, zeros,
			   has_size ? sizeof(size_t) : options->size) != 0 &&
		    !strstr(among, name)) {
			return options->name;
		}
	}
	return NULL;
}
