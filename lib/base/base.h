/* SPDX-License-Identifier: Apache-2.0
 *
 * Interfaces of lib/base besides the installed headers.
 */
#ifndef SGPU_BASE_BASE_H
#define SGPU_BASE_BASE_H

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <sgpu/error.h>

#include "base/json.h"

static inline uint64_t sgpu_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline bool sgpu_all_zero(const void *data, size_t size)
{
	const uint8_t *bytes = data;

	return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* ---- system.c: limits ----
 * Limits on memory that this process takes for the work of others. Code calls sgpu_limit_take
 * before it takes such memory. Any thread. */
enum sgpu_limited {
	SGPU_DEVICE_MEMORY, /* buffers of batches and sessions, on all devices */
	SGPU_HOST_MEMORY,   /* leases, and results until they are read */
	SGPU_LIMITED
};

/* Sets a limit; 0, the default, means no limit. Memory beyond a new limit stays taken. */
void sgpu_limit_set(enum sgpu_limited what, uint64_t bytes);
/* Moves the count of taken bytes to *counter, which other processes may read. */
void sgpu_limit_count_in(enum sgpu_limited what, _Atomic uint64_t *counter);
/* Counts bytes, in whole pages. Errors: SGPU_ENOMEM beyond the limit; nothing is counted then. */
SGPU_MUST_CHECK int sgpu_limit_take(enum sgpu_limited what, uint64_t bytes,
				    struct sgpu_error *error);
/* Gives back what one call of sgpu_limit_take took. */
void sgpu_limit_give(enum sgpu_limited what, uint64_t bytes);
/* Returns the bytes left; UINT64_MAX without a limit. */
uint64_t sgpu_limit_left(enum sgpu_limited what);

/* ---- memory_file.c ----
 * Memory files, of a sealed size, shared by two processes that do not trust each other. */
/* Makes a file of zeros. filled: all pages are allocated now. */
SGPU_MUST_CHECK int sgpu_memory_file_create(const char *name, uint64_t size, bool filled, int *fd,
					    struct sgpu_error *error);
/* Checks that a file from another process is a writable memory file of `least` to `most` bytes.
 * `what` is for messages. Errors: SGPU_EINVALID, SGPU_EPOLICY (size not sealed), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_memory_file_check(int fd, const char *what, uint64_t least, uint64_t most,
					   uint64_t *size, struct sgpu_error *error);
/* Checks and maps a memory file: *memory has *size bytes, which core dumps omit. */
SGPU_MUST_CHECK int sgpu_memory_file_map(int fd, const char *what, uint64_t least, uint64_t most,
					 void **memory, uint64_t *size, struct sgpu_error *error);

/* ---- ranges.c ----
 * A tree of address ranges that do not overlap; NULL if empty. A range is the first member of the
 * caller's record.
 */
struct sgpu_range {
	uint64_t address;
	uint64_t extent; /* bytes, at least 1; may change if ranges then do not overlap */
};

/* Returns false if the range overlaps another, or if out of memory. */
bool sgpu_ranges_insert(void **tree, struct sgpu_range *range);
void sgpu_ranges_remove(void **tree, struct sgpu_range *range);
struct sgpu_range *sgpu_ranges_find(void *const *tree, uint64_t address);
/* Returns any range, so that a loop can remove all; NULL: none. */
struct sgpu_range *sgpu_ranges_any(void *const *tree);

/* ---- thread.c: the library's threads, which leave signals to the program's ---- */
/* Starts a thread with all signals blocked, detached if `thread` is NULL. Errors: SGPU_ENOMEM,
 * SGPU_ESYSTEM, with errno. */
SGPU_MUST_CHECK int sgpu_thread_start(pthread_t *thread, void *(*function)(void *), void *argument,
				      struct sgpu_error *error);
/* Blocks all signals but SIGSYS in this thread and those that it starts meanwhile, even by another
 * library. With SIGSYS blocked, a refused system call would end the process without a message.
 * *before: the mask to set afterwards. */
void sgpu_signals_block(sigset_t *before);

/* ---- spin.c ----
 * Short waits without sleeping: waking a thread takes longer. */
static inline void sgpu_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* Waits at most `ns` until *word differs from `seen`. */
bool sgpu_spin(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns);

/* ---- message.c: messages of errors, and of the faults of a manifest ---- */
/* Formats like vsnprintf, but escapes control characters and invalid UTF-8. sgpu_excerpt shortens
 * the value of '%s' in quotes unless it can be a name. */
void sgpu_message_format(char *text, size_t size, const char *format, va_list arguments)
	SGPU_PRINTF(3, 0);

/* ---- escape.c ---- */
/* Returns the length in bytes of the first character of a UTF-8 text; 0 if it is malformed,
 * controls the terminal or is invisible. `size` is not 0. */
size_t sgpu_shown_length(const char *text, size_t size);
/* Writes the first 24 bytes of a value, escaped, and "..." if there are more; only "..." if a
 * longer value looks like a key. Returns `text`. */
#define SGPU_EXCERPT_MAX (4 * 24 + 4)
const char *sgpu_excerpt(const char *value, size_t size, char text[SGPU_EXCERPT_MAX]);
/* The same for a string that is no path. The result lasts as long as the enclosing block. */
#define SGPU_EXCERPT(value) sgpu_excerpt((value), strlen(value), (char[SGPU_EXCERPT_MAX]){ 0 })

/* Whether a text looks like a key, as JWK or PEM, or part of one. */
bool sgpu_looks_secret(const char *text, size_t size);

/* ---- json_split.c, json.c ---- */
/* Skips a string from its opening to after its closing quote, or to the end. */
const char *sgpu_json_string_end(const char *text, const char *end);
/* Parses as sgpu_json_parse does, but accepts any value if `any` is set, and at most `values_max`
 * values. After an error, *position is the offset of the fault. */
int sgpu_json_parse_at(const char *text, size_t size, bool any, size_t values_max, json_t **value,
		       size_t *position, struct sgpu_error *error);
/* Returns the line and column, in characters, of the byte at `position`. */
void sgpu_json_place(const char *text, size_t position, int *line, int *column);

/* ---- output_walk.c: the directory and name of an output ---- */
struct sgpu_output_made {
	struct {
		int directory; /* descriptor of its parent */
		char *name;
	} * list;
	int count;
};

struct sgpu_walk {
	const char *shown; /* the path, for messages */
	char *rest, *at;   /* the path, from malloc; the part still to walk */
	mode_t mode;	   /* of directories that are made */
	bool is_beneath;
	bool whole; /* the last component is a directory, too */
	int links;
	/* the result: */
	int descriptor; /* this process's descriptor that the path names, else -1 */
	int directory;	/* descriptor of the last component's directory */
	char *name;	/* the last component, from malloc */
	int found;	/* O_PATH descriptor of `name`, or -1: absent */
	struct stat status;
	struct sgpu_output_made made;
};

#define SGPU_WALK_INIT .descriptor = -1, .directory = -1, .found = -1

/* Walks along `path` by the rules in io.h and makes missing directories. */
SGPU_MUST_CHECK int sgpu_output_walk(struct sgpu_walk *walk, const char *path,
				     struct sgpu_error *error);
/* Ends a walk, even a failed one. Returns the directories made. */
struct sgpu_output_made sgpu_output_walk_end(struct sgpu_walk *walk);
/* Frees the list. Unless `keep` is set, removes the empty directories. */
void sgpu_output_made_clear(struct sgpu_output_made *made, bool keep);

/* ---- secret.c: memory for keys ----
 * Its pages come from memfd_secret(2): they are in no other process, /proc/PID/mem, core file or
 * swap. Without that call, the memory is locked and stays out of core files. A forked child has
 * none of it, and it cannot be pinned for a device. */
/* Returns zeroed pages; NULL if out of memory or if size is 0. Weaker
 * protection is no error; see sgpu_secret_kind. Any thread. */
SGPU_MUST_CHECK void *sgpu_secret_alloc(size_t size);
/* Wipes and frees memory, with the size of its allocation. Accepts NULL. */
void sgpu_secret_free(void *memory, size_t size);

/* The weakest protection of all allocations so far: "memfd_secret", "mlock", or "none" (memory can
 * be swapped, since RLIMIT_MEMLOCK leaves no room). Static. */
const char *sgpu_secret_kind(void);

#endif
