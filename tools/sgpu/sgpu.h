/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu: one command for what the other programs do together. See sgpu(1).
 */
#ifndef SGPU_TOOL_H
#define SGPU_TOOL_H

#include <limits.h>
#include <sys/types.h>

#include "cli.h"
#include "sgpu-seal/passphrase.h"

CLI_VERB(run);
CLI_VERB(host);
CLI_VERB(pipe);

/* ---- programs.c: the programs in this one's directory ---- */
enum { WORDS_MAX = 512 };
struct words {
	const char *list[WORDS_MAX + 1]; /* ends with NULL; list[0] is the program */
	int count;
	bool full; /* there were more */
};
void words_add(struct words *words, const char *word);
void words_add_all(struct words *words, ...) __attribute__((sentinel));
/* Prints it as a shell reads it; NONCE_WORD stands for the variable `nonce`. */
#define NONCE_WORD "NONCE"
void words_print(const struct words *words, const char *after);

struct program {
	struct words words;
	int in, out; /* its standard input and output, closed after the start; -1: a pipe from the
			one before and to the one behind, or this program's own; below: it is not
			started */
	/* Other descriptors that it inherits, or 0; `give` is then closed here. */
	int keep[2], give;
	bool speaks;   /* its messages are shown as they come; else in the end, if they matter */
	bool keeps;    /* they are not shown: its error is in `error` */
	uint64_t most; /* of ssh: bytes that it may write to a file of memory; 0: little */
	int messages;  /* a memory file, unless it speaks */
	pid_t pid;
	int status; /* exit status; above 128: by a signal */
	bool told;  /* it has said something */
	struct sgpu_error error;
	bool retryable; /* its error says that the same can succeed later */
};
/* A copy of a descriptor, or the null device for -1, as `in`. */
int program_input(int fd);
/* Runs them in a pipe, and waits for all. Returns the exit status of the cause: the first program
 * that failed by itself. Shows the messages of the programs up to that one. */
int programs_run(struct program *list, int count);
/* Runs one whose output goes to a new memory file, *out, and goes to its beginning. The caller
 * closes it also after an error. */
int program_read(struct program *program, const char *name, int *out);
/* Whether the last of these that failed can succeed later. */
extern bool programs_retryable;
/* When programs that still run are ended; 0: never. */
extern uint64_t programs_deadline_ns;
/* Replaces this process by the program NAME of its directory; returns if there is none. */
int program_become(const char *name, char **argv, struct sgpu_error *error);
SGPU_MUST_CHECK int memory_file(const char *name, int *fd, struct sgpu_error *error);

/* ---- home.c: what is kept for the user, in $XDG_CONFIG_HOME/sgpu ---- */
/* The path of a file there; the directory is made if it is missing. Errors: SGPU_EPOLICY: another
 * user can change it. */
SGPU_MUST_CHECK int home_path(const char *name, char path[PATH_MAX], struct sgpu_error *error);
/* Checks that a file (S_IFREG) or directory (S_IFDIR) is the user's alone. Errors: SGPU_EPOLICY. */
SGPU_MUST_CHECK int home_check(const char *path, mode_t kind, struct sgpu_error *error);
/* The path of the owner's key, which is made at the first use. */
SGPU_MUST_CHECK int home_owner(char path[PATH_MAX], struct sgpu_error *error);

/* Writes keys to a memory file, from which a program loads them as "fd:N". */
struct sgpu_key_set;
SGPU_MUST_CHECK int key_file(const struct sgpu_key_set *keys, int *fd, struct sgpu_error *error);

/* ---- elements.c ---- */
/* Prints the elements in a file. Returns an exit status. */
struct sgpu_type;
int print_elements(const struct sgpu_type *type, int fd);

#endif
