/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for all tools: tables of verbs and options, also for --help and completions; messages.
 */
#ifndef SGPU_CLI_H
#define SGPU_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>
#include <sgpu/error.h>
#include <sgpu/keys.h>

#include "base/io.h"

/* An option of a verb: a row of a table that CLI_END ends. One of the macros below sets the members
 * from `kind` on: how to parse the value, and its member in the struct for cli_read(). Options of
 * every verb, such as --help, are in no table: cli_read() handles them. */
struct cli_option {
	/* The long name without dashes. "", with CLI_TAKE in the last row: gets every argument that
	 * is no option, in order between the options; cli_read() then returns none of them. */
	const char *name;
	char letter;	      /* short form, or 0 */
	const char *argument; /* for --help, or NULL; "FILE", "DIR", "KEY" complete as paths */
	const char *help;     /* lower case, no full stop */
	enum {
		CLI_IS_COMMON,
		CLI_IS_FLAG,
		CLI_IS_TEXT,
		CLI_IS_INPUT,
		CLI_IS_LIST,
		CLI_IS_NUMBER,
		CLI_IS_SIZE,
		CLI_IS_DURATION,
		CLI_IS_BYTES,
		CLI_IS_TAKEN
	} kind;
	size_t offset; /* of the member */
	uint64_t min, max;
	int (*take)(void *values, const char *value);
	const struct cli_option *rows;
};

/* The values of a repeated option. The caller frees `items`. */
struct cli_list {
	const char **items;
	int count;
};
/* False: out of memory. */
bool cli_list_add(struct cli_list *list, const char *value);

/* Bytes given in hexadecimal. */
enum { CLI_BYTES_MAX = 4096 };
struct cli_bytes {
	uint8_t data[CLI_BYTES_MAX];
	size_t size; /* 0: none given */
};

/* bool: set to true. */
#define CLI_FLAG(type, member) CLI_MEMBER(type, member, bool, CLI_IS_FLAG)
/* const char *: the text as given. */
#define CLI_TEXT(type, member) CLI_MEMBER(type, member, const char *, CLI_IS_TEXT)
/* The same for an input file, which no output may overwrite. */
#define CLI_INPUT(type, member) CLI_MEMBER(type, member, const char *, CLI_IS_INPUT)
/* struct cli_list: every value given. */
#define CLI_LIST(type, member) CLI_MEMBER(type, member, struct cli_list, CLI_IS_LIST)
/* unsigned: a whole number; uint64_t: a size in bytes, also with K, M, G or T. */
#define CLI_NUMBER(type, member, least, most) \
	CLI_MEMBER(type, member, unsigned, CLI_IS_NUMBER), .min = (least), .max = (most)
#define CLI_SIZE(type, member, least, most) \
	CLI_MEMBER(type, member, uint64_t, CLI_IS_SIZE), .min = (least), .max = (most)
/* uint64_t: a duration in ns, at least `least`; see sgpu_parse_duration(). */
#define CLI_DURATION(type, member, least) \
	CLI_MEMBER(type, member, uint64_t, CLI_IS_DURATION), .min = (least)
/* struct cli_bytes: from `least` to `most` bytes. */
#define CLI_BYTES(type, member, least, most) \
	CLI_MEMBER(type, member, struct cli_bytes, CLI_IS_BYTES), .min = (least), .max = (most)
/* In the row's place, those of another table: for the same struct, or its first member. */
#define CLI_ROWS(table) .name = "", .rows = (table)
/* Anything else: `function` stores the value; returns 0, or the exit status after a message. */
#define CLI_TAKE(function) .kind = CLI_IS_TAKEN, .take = (function)

#define CLI_MEMBER(type, member, wanted, its_kind) \
	.kind = _Generic(((type *)0)->member, wanted : its_kind), .offset = offsetof(type, member)

#define CLI_END              \
	{                    \
		.name = NULL \
	}

struct cli_verb {
	const char *name; /* "": runs if the first argument is no verb; else that is an error */
	const char *arguments; /* "[BATCH]", "FIRST SECOND", "[REGION...]"; cli_read() checks their
				  number */
	const char *help;      /* one line */
	const struct cli_option *options;
	int (*run)(int argc, char **argv); /* argv[0] is the verb; returns an exit status */
};

#define CLI_VERB(name)                                   \
	extern const struct cli_option name##_options[]; \
	int verb_##name(int argc, char **argv)

struct cli_tool {
	const char *name;	      /* "sgpu-seal" */
	const char *summary;	      /* one line, of a tool with verbs */
	const struct cli_verb *verbs; /* ends with a NULL name */
	bool holds_secrets;	      /* cli_harden() is called before any verb */
};

/* Runs a tool; returns the value for main(). Opens descriptors 0 to 2 if closed. A write to a pipe
 * without a reader is an error without a message; after clean-up, SIGPIPE kills the process. */
int cli_main(const struct cli_tool *tool, int argc, char **argv);

/* Reads the running verb's options into `values`; *arguments receives the other arguments, as many
 * as the verb's row says, then NULL. Returns 0, or the exit status after a message; `values` then
 * holds the options before the error, and all paths. -h and -V print and exit. */
int cli_read(int argc, char **argv, void *values, char ***arguments);

/* The options that were given, without common ones: of each its name, then its value or NULL. */
extern struct cli_list cli_given;

extern bool cli_quiet, cli_verbose, cli_json;

/* ---- messages, on standard error: rules in message.c ---- */
/* Descriptors of results and messages: 1 and 2, until cli_silence() moves them. */
extern int cli_output_fd, cli_error_fd;
/* Replaces descriptors 1 and 2 by /dev/null, to discard what drivers, libraries and kernels print.
 * The originals move to the two above. */
SGPU_MUST_CHECK int cli_silence(struct sgpu_error *error);
/* Prints an error and its hint, or {"error":{"code","text","hint"}} with --json. The hint of a
 * wrong usage is "try 'TOOL VERB --help'" if it has no other. Returns the exit status. */
int cli_error(const struct sgpu_error *error);
int cli_fail(int code, const char *format, ...) SGPU_PRINTF(2, 3); /* the same from a format */
#define cli_usage(...) cli_fail(SGPU_EUSAGE, __VA_ARGS__)	   /* returns 2 */
#define cli_fail_nomem() cli_fail(SGPU_ENOMEM, "out of memory")
enum cli_kind { CLI_WARNING, CLI_NOTE, CLI_DETAIL };
void cli_say(enum cli_kind kind, const char *format, ...) SGPU_PRINTF(2, 3);
#define cli_warning(...) cli_say(CLI_WARNING, __VA_ARGS__)
#define cli_note(...) cli_say(CLI_NOTE, __VA_ARGS__)	 /* unless -q */
#define cli_detail(...) cli_say(CLI_DETAIL, __VA_ARGS__) /* with -v */

/* Escape text from outside for a terminal (see sgpu_escape). All such text is printed by these, or
 * as JSON. cli_shown: from malloc, NULL when out of memory. */
char *cli_shown(const char *text);
void cli_print_text(FILE *file, const char *text);			    /* nothing for NULL */
void cli_print_line(FILE *file, const char *format, ...) SGPU_PRINTF(2, 3); /* adds the line feed */

/* ---- progress ----
 * A line on standard error if that is a terminal, not with -q or --json. label: static memory. */
void cli_progress_begin(const char *label, uint64_t total_bytes); /* total 0: unknown */
/* Fits sgpu_host_move.progress. total_bytes: NULL, or a uint64_t that is known only now. */
void cli_progress(void *total_bytes, uint64_t bytes);
void cli_progress_end(void);
/* Erases the line, for other output. */
void cli_progress_pause(void);

/* Refuses binary data on a terminal. path "-" or NULL: standard output. Returns 0, or the exit
 * status after a message. */
int cli_binary_output(const char *path);

/* Writes a secret to standard output, or a new file of mode 0600. */
SGPU_MUST_CHECK int cli_write_secret(const char *path, const char *text, size_t size,
				     struct sgpu_error *error);

/* Opens a file without a name, which ends with the process, in $TMPDIR or /tmp. */
SGPU_MUST_CHECK int cli_temporary_file(int *fd, struct sgpu_error *error);
/* Copies the next `size` bytes of a file or pipe to another. *copied receives how many there were
 * until the end of `from`; if `copied` is NULL, fewer are SGPU_ESYSTEM. */
SGPU_MUST_CHECK int cli_copy(int from, const char *from_name, uint64_t size, int to,
			     const char *to_name, uint64_t *copied, struct sgpu_error *error);

/* Opens an input ("-" or NULL: standard input, which must not be a terminal). Returns 0, or the
 * exit status after a message, with *fd -1. *name is for messages. */
int cli_input(const char *path, const char **name, int *fd);
/* Reads a whole input of 1 to `limit` bytes. what: the expected content, for messages. *text from
 * malloc. Returns an exit status. */
int cli_read_input(const char *path, size_t limit, const char *what, char **text, size_t *size);

/* ---- no output may replace a file that is read ----
 * Remembers a regular file that is read: a path, "-" or NULL for standard input, a key's "fd:N". */
void cli_remember_input(const char *path);
struct stat;
void cli_remember_file(const struct stat *status); /* by its device and inode */
/* Remembers an argument that is read, and refuses a second that is standard input. CLI_INPUT and
 * cli_input do so themselves. Returns 0, or the exit status after a message. */
int cli_take_input(const char *path);
bool cli_input_stat(const char *path, struct stat *status);
/* Whether an output ("-" or NULL: standard output) is a remembered input. */
bool cli_is_input(const char *path);
bool cli_is_standard(const char *path);

/* "unknown verb 'sael'", with the nearest known name or --help as the hint. The rows of known
 * things begin with the name, and end with one that is NULL; "" is none. Returns 2. */
int cli_unknown(const char *what, const char *given, const char *dashes, const void *rows,
		size_t row_size);

/* ---- outputs ----
 * An output is refused if it is a remembered input or, whatever its path, the file of a prepared
 * output that is not taken yet. */
/* Opens the output `path` (NULL: none), to report a bad path before a long job. Returns 0, or the
 * exit status after a message. Only cli_output_take opens pipes by a name; `path` must be valid
 * until then. */
int cli_output_prepare(const char *path, mode_t mode, bool is_new);
/* Returns a prepared output, by its number; NULL: there are no more. */
const struct sgpu_output *cli_output_prepared(size_t i);
/* Gives the caller a prepared output, or opens `path` ("-" or NULL: standard output). */
SGPU_MUST_CHECK int cli_output_take(struct sgpu_output *output, const char *path, mode_t mode,
				    bool is_new, struct sgpu_error *error);

/* ---- results ----
 * Prints a JSON value and a line feed, in ASCII. Takes over the reference; NULL: out of memory.
 * Returns an exit status. */
int cli_print_json(json_t *value, FILE *out, size_t flags);
/* Makes a JSON string of a text; NULL for NULL. If the text is not UTF-8, as a file's name may be,
 * '?' replaces bytes that are not ASCII. */
json_t *cli_json_text(const char *text);
/* Returns a member's text; "" when it is no string. */
const char *cli_text_of(const json_t *object, const char *key);
/* Appends to a text, and cuts what has no room. */
void cli_append(char *text, size_t size, const char *format, ...) SGPU_PRINTF(3, 4);
/* For people, what --json prints. cli_table prints a row for each object of a list: its members in
 * `columns`, which blanks separate, below their names. cli_record prints a line for each member of
 * an object and of the objects in it. */
void cli_table(FILE *out, const json_t *list, const char *columns);
void cli_record(FILE *out, const json_t *record);
/* Prints a record, and below it each of `lists`, a member and its columns, by cli_table. */
void cli_lists(FILE *out, const json_t *record, const char *const lists[][2]);
/* Writes a whole text to a file, which appears only when complete, or to standard output ("-" or
 * NULL); neither may be an input. */
SGPU_MUST_CHECK int cli_write_text(const char *path, mode_t mode, const char *text, size_t size,
				   struct sgpu_error *error);
/* As cli_write_text, for a JSON value: indented, and in ASCII on standard output. Takes over the
 * reference; NULL: out of memory. */
SGPU_MUST_CHECK int cli_write_json(const char *path, mode_t mode, json_t *value,
				   struct sgpu_error *error);

/* ---- signals: SIGINT, SIGTERM and SIGHUP ----
 * The handler calls `stop`, which is async-signal-safe (NULL: sgpu_io_interrupt); a second signal
 * kills the process. */
void cli_signals(void (*stop)(void));
/* Raises the limit of descriptors to the hard limit; returns it. */
uint64_t cli_raise_descriptors(void);
/* After clean-up: dies by the signal that came, or by SIGPIPE if an output's reader has gone; else
 * returns status. */
int cli_finish(int status);

/* Returns why the process is not hardened: SGPU_DEBUG or a sanitizer; else NULL. Quotes say so,
 * too. */
const char *cli_harden_off(void);

/* Before any thread starts: no core file, no attaching, no new privileges; warns if one fails. */
void cli_harden(void);

/* ---- between the files of tools/common ---- */
/* The tool's name, "sgpu-seal"; the running verb's, or "". */
const char *cli_tool_name(void);
const char *cli_verb_name(void);

void cli_print_version(void);

/* Whether the reader of an output has gone; failed writes then need no message. */
bool cli_reader_gone(void);

#endif
