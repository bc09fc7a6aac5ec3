/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for all tools: tables of verbs and options, for --help and completions, too; all
 * messages.
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

/* One option of a verb: a row of its table, which CLI_END ends. The members from `kind` on say how
 * to parse and store the value. One of the macros below sets them and names a member of the struct
 * that is passed to cli_read(). */
struct cli_option {
	/* The long name without the dashes. "": last row, CLI_TAKE: gets every argument that is no
	 * option, in order between the options; cli_read() then returns none of them. */
	const char *name;
	char letter;	      /* its short form, or 0 */
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
	size_t offset, size; /* of the member */
	uint64_t min, max;
	int (*take)(void *values, const char *value);
};

/* All values of an option that may be repeated. The caller frees `items`. */
struct cli_list {
	const char **items;
	int count;
};
/* False: out of memory. */
bool cli_list_add(struct cli_list *list, const char *value);

/* Bytes that are given in hexadecimal. */
enum { CLI_BYTES_MAX = 4096 };
struct cli_bytes {
	uint8_t data[CLI_BYTES_MAX];
	size_t size; /* 0: none were given */
};

/* bool: set to true. */
#define CLI_FLAG(type, member) CLI_MEMBER(type, member, bool, CLI_IS_FLAG)
/* const char *: the text as given. */
#define CLI_TEXT(type, member) CLI_MEMBER(type, member, const char *, CLI_IS_TEXT)
/* The same for an input file, which no output may overwrite. */
#define CLI_INPUT(type, member) CLI_MEMBER(type, member, const char *, CLI_IS_INPUT)
/* struct cli_list: every value that is given. */
#define CLI_LIST(type, member) CLI_MEMBER(type, member, struct cli_list, CLI_IS_LIST)
/* unsigned or uint64_t: a whole number; uint64_t: a size in bytes, also with K, M, G or T. */
#define CLI_NUMBER(type, member, least, most)                                                  \
	.kind = _Generic(((type *)0)->member, unsigned                                         \
			 : CLI_IS_NUMBER, uint64_t                                             \
			 : CLI_IS_NUMBER),                                                     \
	.offset = offsetof(type, member), .size = sizeof(((type *)0)->member), .min = (least), \
	.max = (most)
#define CLI_SIZE(type, member, least, most) \
	CLI_MEMBER(type, member, uint64_t, CLI_IS_SIZE), .min = (least), .max = (most)
/* uint64_t: a duration in ns, at least `least`; see sgpu_parse_duration(). */
#define CLI_DURATION(type, member, least) \
	CLI_MEMBER(type, member, uint64_t, CLI_IS_DURATION), .min = (least)
/* struct cli_bytes: from `least` to `most` bytes. */
#define CLI_BYTES(type, member, least, most) \
	CLI_MEMBER(type, member, struct cli_bytes, CLI_IS_BYTES), .min = (least), .max = (most)
/* Anything else: a function that stores the value; returns 0, or the exit status after a message.
 */
#define CLI_TAKE(function) .kind = CLI_IS_TAKEN, .take = (function)

#define CLI_MEMBER(type, member, wanted, its_kind)   \
	.kind = _Generic(((type *)0)->member, wanted \
			 : its_kind),                \
	.offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* Options of every verb, first in its table; cli_read() handles them. */
#define CLI_COMMON                                                                      \
	{ "help", 'h', NULL, "show this help", .kind = CLI_IS_COMMON },                 \
		{ "version", 'V', NULL, "show the version", .kind = CLI_IS_COMMON },    \
		{ "quiet", 'q', NULL, "no progress, no notes", .kind = CLI_IS_COMMON }, \
		{ "verbose", 'v', NULL, "say more", .kind = CLI_IS_COMMON },            \
	{                                                                               \
		"json", 0, NULL, "results and errors as JSON", .kind = CLI_IS_COMMON    \
	}
/* The option of verbs that load a person's keys. It is stored in cli_passphrase_fd, which is more
 * than INT_MAX if it was not given. */
#define CLI_PASSPHRASE                                                                 \
	{                                                                              \
		"passphrase-fd", 0, "N", "read passphrases of keys there, one a line", \
			.kind = CLI_IS_COMMON, .size = sizeof(unsigned), .max = 65535  \
	}
extern unsigned cli_passphrase_fd;
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
	const char *summary;	      /* one line */
	const struct cli_verb *verbs; /* ends with a NULL name */
	bool holds_secrets;	      /* whether cli_harden() is called before any verb */
};

/* Runs a tool; returns the value for main(). Opens descriptors 0 to 2 if closed. A write to a pipe
 * without a reader is an error without a message; after clean-up the process dies by SIGPIPE. */
int cli_main(const struct cli_tool *tool, int argc, char **argv);

/* Reads the options of the running verb into `values`; *arguments receives the other arguments, as
 * many as the verb's row says, then NULL. Returns 0, or the exit status after a message; `values`
 * then holds the options before the error, and all paths. -h and -V print and exit. */
int cli_read(int argc, char **argv, void *values, char ***arguments);

/* Returns the first option of a table that has a value and is not in `among`, names with a blank
 * before and after each; NULL: there is none. Options with CLI_TAKE and the common ones are not
 * looked at. */
const char *cli_given(const struct cli_option *options, const void *values, const char *among);

extern bool cli_quiet, cli_verbose, cli_json;

/* Adds facts about the program to a record of measurements: commit, tree ("clean", "modified",
 * "unknown"), compilers and flags, what is built in; and `command`, the command line. */
void cli_describe_build(json_t *object);

/* ---- messages, on standard error: rules in message.c ---- */
/* The descriptors of results and messages: 1 and 2, until cli_silence() has moved them. */
extern int cli_output_fd, cli_error_fd;
/* Replaces descriptors 1 and 2 by /dev/null, which discards what drivers, libraries and kernels
 * print. The originals stay open as cli_output_fd and cli_error_fd. */
SGPU_MUST_CHECK int cli_silence(struct sgpu_error *error);
/* Prints `TOOL: error: TEXT` and the hint on its own line, or {"error":{"code","text","hint"}} with
 * --json. Returns the exit status. */
int cli_error(const struct sgpu_error *error);
int cli_fail(int code, const char *format, ...) SGPU_PRINTF(2, 3); /* the same from a format */
int cli_usage(const char *format, ...)
	SGPU_PRINTF(1, 2); /* adds "try 'TOOL VERB --help'"; returns 2 */
int cli_fail_nomem(void);
enum cli_kind { CLI_WARNING, CLI_NOTE, CLI_DETAIL };
void cli_say(enum cli_kind kind, const char *format, ...) SGPU_PRINTF(2, 3);
#define cli_warning(...) cli_say(CLI_WARNING, __VA_ARGS__)
#define cli_note(...) cli_say(CLI_NOTE, __VA_ARGS__)	 /* unless -q */
#define cli_detail(...) cli_say(CLI_DETAIL, __VA_ARGS__) /* with -v */

/* Escape text from outside for a terminal (see sgpu_escape). All such text is printed by these, or
 * as JSON. cli_shown returns memory from malloc, NULL when out of memory. */
char *cli_shown(const char *text);
void cli_print_text(FILE *file, const char *text);			    /* nothing for NULL */
void cli_print_line(FILE *file, const char *format, ...) SGPU_PRINTF(2, 3); /* adds the line feed */

/* ---- progress ----
 * A line on standard error if that is a terminal, not with -q or --json. `label` is static
 * memory. */
void cli_progress_begin(const char *label, uint64_t total_bytes); /* total 0: unknown */
void cli_progress(void *unused, uint64_t bytes);		  /* fits sgpu_host_move.progress */
void cli_progress_of(uint64_t bytes, uint64_t total_bytes);	  /* if it is known only now */
void cli_progress_end(void);
/* Erases the line, so that something else can be printed. */
void cli_progress_pause(void);

/* Refuses to write binary data to a terminal: prints a message and returns false. */
bool cli_binary_output(int fd);

/* Refuses to write a secret to a terminal, likewise. path "-" or NULL: standard output. */
bool cli_secret_output(const char *path);
/* Writes a secret to standard output, or to a new file of mode 0600. */
SGPU_MUST_CHECK int cli_write_secret(const char *path, const char *text, size_t size,
				     struct sgpu_error *error);

/* For sgpu_key_ask: reads a passphrase from the descriptor, or asks on the terminal. */
int cli_ask_passphrase(const char *name, char text[SGPU_PASSPHRASE_MAX], size_t *size,
		       struct sgpu_error *error);
/* Encrypts the text of keys by a new passphrase, for which it asks twice. */
SGPU_MUST_CHECK int cli_protect(const char *name, char **text, size_t *size,
				struct sgpu_error *error);

/* Opens a file in $TMPDIR or /tmp that has no name, so that it ends with the process. */
SGPU_MUST_CHECK int cli_temporary_file(int *fd, struct sgpu_error *error);
/* Copies the next `size` bytes of a file or a pipe to another. At the end of `from`, *copied
 * receives how many there were; if `copied` is NULL, fewer are SGPU_ESYSTEM. */
SGPU_MUST_CHECK int cli_copy(int from, const char *from_name, uint64_t size, int to,
			     const char *to_name, uint64_t *copied, struct sgpu_error *error);

/* Opens an input ("-" or NULL: standard input, which must not be a terminal). Returns 0, or the
 * exit status after a message, with *fd -1. *name is for messages. */
int cli_input(const char *path, const char **name, int *fd);
/* Reads a whole input of at most `limit` bytes, of which there must be some. what: the expected
 * content, for messages. *text from malloc. Returns an exit status. */
int cli_read_input(const char *path, size_t limit, const char *what, char **text, size_t *size);

/* ---- no output may replace a file that is read ----
 * Remembers a file that the verb reads: a path, "-" or NULL for standard input, or a key's "fd:N".
 * Only regular files are remembered. */
void cli_remember_input(const char *path);
struct stat;
void cli_remember_file(const struct stat *status); /* by its device and inode */
/* Remembers an argument that is read, and refuses a second one that is standard input. Options of
 * CLI_INPUT and cli_input do so by themselves. Returns 0, or the exit status after a message. */
int cli_take_input(const char *path);
bool cli_input_stat(const char *path, struct stat *status);
/* cli_is_input: whether an output ("-" or NULL: standard output) is a remembered input.
 * cli_output_apart: whether it is not; prints a message if it is. */
bool cli_is_input(const char *path);
bool cli_output_apart(const char *path);
/* As cli_output_apart; also refuses to write binary data to a terminal. */
bool cli_binary_apart(const char *path);
/* Whether two outputs ("-" or NULL: standard output) are two files, whatever their paths; prints a
 * message if not. Two outputs may share a pipe or a device, but not standard output. `what` and
 * `other` name them in the message: "the key". */
bool cli_outputs_apart(const char *what, const char *path, const char *other,
		       const char *other_path);
bool cli_is_standard(const char *path);

/* "unknown verb 'sael'", with the nearest known name or --help as the hint. Returns 2. */
int cli_unknown(const char *what, const char *given, const char *dashes, const char *const *names);

/* Returns the operation of that name; NULL after a message with the nearest name, when the exit
 * status is to be 2. */
struct sgpu_op;
const struct sgpu_op *cli_find_op(const char *name);
/* Writes the names of an operation's inputs or outputs: "input weights [bias]". */
enum { CLI_OP_TEXT_MAX = 160 };
const char *cli_op_arguments(const struct sgpu_op *op, bool outputs, char text[CLI_OP_TEXT_MAX]);

/* ---- outputs that are opened before the input is read ----
 * Opens the output `path`, which is written much later, so that a path that cannot be written to is
 * reported early. Returns 0, or the exit status after a message. Standard output and pipes are
 * opened only by cli_output_take. `path` must stay valid until then. */
int cli_output_prepare(const char *path, mode_t mode, bool is_new);
/* Returns a prepared output that is not taken yet, by its number; NULL: there are no more. */
const struct sgpu_output *cli_output_prepared(size_t i);
/* Gives the caller a prepared output, or else opens `path` ("-" or NULL: standard output). */
SGPU_MUST_CHECK int cli_output_take(struct sgpu_output *output, const char *path, mode_t mode,
				    struct sgpu_error *error);

/* ---- results ----
 * Prints one JSON value and a line feed, in ASCII. Takes over the reference; NULL: out of memory.
 * Returns an exit status. */
int cli_print_json(json_t *value, FILE *out, size_t flags);
/* Makes a JSON string of a text. If it is not UTF-8, which a file's name need not be, '?' replaces
 * bytes that are not ASCII. NULL for NULL. */
json_t *cli_json_text(const char *text);
/* Returns a member's text; "" when it is no string. */
const char *cli_text_of(const json_t *object, const char *key);
/* Appends to a text in an array, and cuts what has no room. */
void cli_append(char *text, size_t size, const char *format, ...) SGPU_PRINTF(3, 4);
/* What --json prints, for people. cli_table prints a row for each object of a list, and below their
 * names its members in `columns`, which blanks separate. cli_record prints a line for each member
 * of an object, and for each member of an object or of objects in it. */
void cli_table(FILE *out, const json_t *list, const char *columns);
void cli_record(FILE *out, const json_t *record);
/* Prints a record, and below it each of `lists`, a member and its columns, as a table. */
void cli_lists(FILE *out, const json_t *record, const char *const lists[][2]);
/* Writes a whole text to a file, which appears when it is complete, or to standard output ("-" or
 * NULL); neither may be an input. */
SGPU_MUST_CHECK int cli_write_text(const char *path, mode_t mode, const char *text, size_t size,
				   struct sgpu_error *error);
/* Writes a JSON value as cli_write_text does, indented, and in ASCII on standard output. Takes over
 * the reference; NULL: out of memory. */
SGPU_MUST_CHECK int cli_write_json(const char *path, mode_t mode, json_t *value,
				   struct sgpu_error *error);

/* ---- signals: SIGINT, SIGTERM and SIGHUP ----
 * The handler calls `stop`, which is async-signal-safe (NULL: sgpu_io_interrupt); a second signal
 * kills the process. */
void cli_signals(void (*stop)(void));
/* Blocks a signal in this thread and those that it starts. Returns a signalfd for it; -1 with
 * errno. */
int cli_signal_fd(int number);
/* Takes a signal from the descriptor; false: none has come. */
bool cli_take_signal(int fd);
/* Raises the limit of descriptors to the hard limit, and returns it. */
uint64_t cli_raise_descriptors(void);
/* Called after clean-up. Dies by the signal that came, or by SIGPIPE when the reader of an output
 * has gone; else returns status. */
int cli_finish(int status);

/* Returns why the process is not hardened, or NULL. Reasons are SGPU_DEBUG and a sanitizer, whose
 * leak checker attaches to its own process. A quote states it, too. */
const char *cli_harden_off(void);

/* Before any thread starts: no core file, no attaching, no new privileges; warns if one of these
 * fails. cli_main calls it for tools with holds_secrets. */
void cli_harden(void);

/* ---- between the files of tools/common ---- */
/* The tool's name, "sgpu-seal"; the running verb's, or ""; the verb, or NULL. */
const char *cli_tool_name(void);
const char *cli_verb_name(void);
const struct cli_verb *cli_verb(void);
_Noreturn void cli_print_help(bool version);

/* Writes the command line, cut to `size`, in printable ASCII; for people. */
void cli_command_text(char *text, size_t size);

void cli_print_version(const char *tool);

/* Whether the reader of an output has gone; failed writes then need no message. */
bool cli_reader_gone(void);

#endif
