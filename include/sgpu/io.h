/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and pipes: whole reads and writes, and output files that appear only on success.
 */
#ifndef SGPU_IO_H
#define SGPU_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads until `size` bytes or the end of file; *got says how many. `name` is for the error text. Retries EINTR
 * unless sgpu_io_interrupt is set. */
SGPU_MUST_CHECK int sgpu_read(int fd, const char *name, void *data, size_t size, size_t *got,
			      struct sgpu_error *error);
/* The same at an offset; the file position does not move. */
SGPU_MUST_CHECK int sgpu_pread(int fd, const char *name, void *data, size_t size, uint64_t offset, size_t *got,
			       struct sgpu_error *error);
/* Writes all of it. EPIPE is an error like any other (the tools ignore SIGPIPE). */
SGPU_MUST_CHECK int sgpu_write(int fd, const char *name, const void *data, size_t size, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_pwrite(int fd, const char *name, const void *data, size_t size, uint64_t offset,
				struct sgpu_error *error);

/* Reads a whole file or pipe of at most `limit` bytes into memory from malloc, with a NUL behind it that *size
 * does not count; the caller frees it. path "-" is standard input. A longer file is SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_read_file(const char *path, size_t limit, char **data, size_t *size,
				   struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_read_fd(int fd, const char *name, size_t limit, char **data, size_t *size,
				 struct sgpu_error *error);

/* Set by a signal handler (or a deadline): reads and writes then end with SGPU_ECANCELED instead of retrying
 * EINTR. One for the process. */
void sgpu_io_interrupt(void);
bool sgpu_io_interrupted(void);

/* ---- an output that appears only on success ----
 * For a path that names a regular file or nothing: a temporary file in the same folder (O_TMPFILE where the file
 * system has it, so that even a killed process leaves nothing), which commit renames over the path. For "-", a
 * pipe, a device or a socket: the thing itself. */
struct sgpu_output {
	int fd;         /* to write to; -1 when closed */
	bool regular;   /* positioned writes are possible and commit makes it appear */
	char *path;     /* as given */
	char *temporary; /* the temporary's path, or NULL when it has no name */
	int folder;     /* descriptor of the folder, or -1 */
};

/* mode: permission bits for a new file (an existing file's bits are kept unless mode is 0600, which is forced).
 * Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_output_open(struct sgpu_output *output, const char *path, mode_t mode,
				     struct sgpu_error *error);
/* Flushes to the disk and makes the file appear. On an error nothing appears. */
SGPU_MUST_CHECK int sgpu_output_commit(struct sgpu_output *output, struct sgpu_error *error);
/* Closes, and removes what was not committed. Accepts one that is closed or zeroed by sgpu_output_init. */
void sgpu_output_close(struct sgpu_output *output);
#define SGPU_OUTPUT_INIT { .fd = -1, .folder = -1 }

/* Whether two descriptors are the same regular file (input equal to output is refused by the tools). */
bool sgpu_same_file(int a, int b);

#ifdef __cplusplus
}
#endif
#endif
