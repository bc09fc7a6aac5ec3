/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole reads and writes, and output files that appear only on success.
 */
#ifndef SGPU_BASE_IO_H
#define SGPU_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sgpu/error.h>

#include "base/base.h"

/* Reads `size` bytes, or fewer at the end of the file; *got: how many. `name` is for messages.
 * Waits end soon after sgpu_io_interrupt, even if the thread blocks signals. */
SGPU_MUST_CHECK int sgpu_read(int fd, const char *name, void *data, size_t size, size_t *got,
			      struct sgpu_error *error);
/* The same at an offset; the file position does not move. */
SGPU_MUST_CHECK int sgpu_pread(int fd, const char *name, void *data, size_t size, uint64_t offset,
			       size_t *got, struct sgpu_error *error);
/* Writes all bytes. EPIPE is an error; sgpu_io_reader_gone is then true (the tools ignore
 * SIGPIPE). */
SGPU_MUST_CHECK int sgpu_write(int fd, const char *name, const void *data, size_t size,
			       struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_pwrite(int fd, const char *name, const void *data, size_t size,
				uint64_t offset, struct sgpu_error *error);

/* Reads a whole file or pipe into memory from malloc, with a NUL that *size does not count; the
 * caller frees it. The path "-" is standard input. More than `limit` bytes are SGPU_EINVALID.
 * Unless `trusted` is NULL, checks the file as sgpu_check_trusted does. */
SGPU_MUST_CHECK int sgpu_read_file(const char *path, const char *trusted, size_t limit, char **data,
				   size_t *size, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_read_fd(int fd, const char *name, size_t limit, char **data, size_t *size,
				 struct sgpu_error *error);
/* Whether a file is not regular, or is the user's or root's and only its owner can write to it. */
bool sgpu_is_trusted(const struct stat *status);
/* Checks a file whose content is trusted. `what` completes the message "..., which": "says whose
 * work is taken". Errors: SGPU_EPOLICY. */
SGPU_MUST_CHECK int sgpu_check_trusted(int fd, const char *name, const char *what,
				       struct sgpu_error *error);

/* For a signal handler or a deadline: from now on, all reads and writes of the process end with
 * SGPU_ECANCELED. */
void sgpu_io_interrupt(void);
bool sgpu_io_interrupted(void);
/* Under a guard, sgpu_read and sgpu_write of this thread wait for a pipe, a terminal or a socket
 * only while `ended` returns 0; else they fail with its code. They call `ended` before each wait
 * and every 50 ms. With deadline_ns (sgpu_now_ns() clock) and stall_ns, a wait of stall_ns fails
 * with SGPU_ETIMEOUT, but not before the deadline: a slow peer may go on while bytes move. NULL
 * removes the guard. */
struct sgpu_io_guard {
	uint64_t deadline_ns, stall_ns;
	int (*ended)(void *argument);
	void *argument;
};
void sgpu_io_set_guard(const struct sgpu_io_guard *guard);
/* Waits, as these do, until poll(2) finds the event, POLLIN or POLLOUT, a failure, or that the
 * other side has closed the descriptor. */
SGPU_MUST_CHECK int sgpu_io_wait(int fd, short events, const char *name, struct sgpu_error *error);
/* Whether a write failed because nobody reads the pipe any more. Code that writes by other means
 * calls sgpu_io_note_failure after a failure, while errno is set. */
bool sgpu_io_reader_gone(void);
void sgpu_io_note_failure(void);

/* Closes a descriptor; accepts -1. */
void sgpu_close(int fd);

/* ---- an output that appears only on success ----
 * For a path of a regular file or none, the data go to a nameless file in the same directory
 * (O_TMPFILE), which commit names; a killed process leaves nothing. On a file system without
 * O_TMPFILE (vfat, NFS, most of FUSE), it has a temporary name, which a killed process leaves
 * behind. "-", "/dev/stdout", pipes, devices and sockets are written directly.
 *
 * The path is walked by descriptors; sgpu(7) says which links are followed, and what of another
 * user is refused (SGPU_EPOLICY). Missing directories are made, and removed without a commit. After
 * open, no path is looked up. Under Landlock, commit needs MAKE_REG, and REMOVE_FILE to replace. */
struct sgpu_output {
	int fd;		 /* -1 when closed */
	bool regular;	 /* positioned writes are possible and commit makes it appear */
	char *path;	 /* for messages */
	char *temporary; /* the temporary name, or NULL while it has none */
	int directory;	 /* descriptor of the directory, or -1 */
	char *name;	 /* its final name in the directory */
	int kept_mode;	 /* mode of the user's own file that commit replaces, or -1 */
	bool is_new;	 /* commit must not replace */
	bool unsynced;	 /* the caller, not commit, syncs data and names to the disk */
	struct sgpu_output_made made;
};

/* mode: permission bits of a new file. A file that replaces one of the user's own keeps that file's
 * bits, unless mode is 0600. Missing directories get 0700 if mode is 0600, else 0777 less the
 * umask. is_new: no file may exist now or at commit (SGPU_ESYSTEM); existing pipes and devices are
 * accepted. Errors: SGPU_ESYSTEM, SGPU_EPOLICY. */
SGPU_MUST_CHECK int sgpu_output_open(struct sgpu_output *output, const char *path, mode_t mode,
				     bool is_new, struct sgpu_error *error);
/* The same beneath the directory `root`: missing directories are made (0700); a path that leaves
 * `root`, any link, and an existing last file that is not regular are SGPU_EPOLICY, even if
 * components are swapped meanwhile. `shown` is for messages. */
SGPU_MUST_CHECK int sgpu_output_open_beneath(struct sgpu_output *output, int root, const char *path,
					     const char *shown, mode_t mode, bool is_new,
					     struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_output_set_mode(struct sgpu_output *output, mode_t mode,
					 struct sgpu_error *error);
/* Flushes to the disk and makes the file appear, unless an error is returned. */
SGPU_MUST_CHECK int sgpu_output_commit(struct sgpu_output *output, struct sgpu_error *error);
/* Instead of commit, for an output without data: removes the file that commit would replace.
 * *removed: there was one. A pipe or a device stays. */
SGPU_MUST_CHECK int sgpu_output_remove_older(struct sgpu_output *output, bool *removed,
					     struct sgpu_error *error);
/* Closes the output and removes what was not committed. Accepts SGPU_OUTPUT_INIT and a closed
 * output. */
void sgpu_output_close(struct sgpu_output *output);
#define SGPU_OUTPUT_INIT                                   \
	{                                                  \
		.fd = -1, .directory = -1, .kept_mode = -1 \
	}

/* A directory for outputs, by the same rules; `mode` is for it and its parents. */
struct sgpu_output_directory {
	int fd;
	struct sgpu_output_made made;
};
SGPU_MUST_CHECK int sgpu_output_directory_open(struct sgpu_output_directory *directory,
					       const char *path, mode_t mode,
					       struct sgpu_error *error);
/* Unless `keep` is set, removes the empty directories that open made. */
void sgpu_output_directory_close(struct sgpu_output_directory *directory, bool keep);
#define SGPU_OUTPUT_DIRECTORY_INIT \
	{                          \
		.fd = -1           \
	}

/* ---- sniff.c: what a file is, by its first bytes ----
 * Only for messages that a file is of the wrong kind, never for decisions. */
enum { SGPU_SNIFF_SIZE = 512 };

enum sgpu_sniffed {
	SGPU_SNIFFED_OTHER,
	SGPU_SNIFFED_BATCH, /* a tar archive that begins with seal.json */
	SGPU_SNIFFED_TAR,   /* any other tar archive */
	SGPU_SNIFFED_KEY,   /* a JSON Web Key, a set of them, or PEM */
	SGPU_SNIFFED_JSON,
};

enum sgpu_sniffed sgpu_sniff(const void *first, size_t size);

/* Reports what kind of data `name`, read from fd, is instead of `wanted`, perhaps with a hint.
 * Returns SGPU_EINVALID. Empty standard input is "no input"; if it is a pipe or a socket, the
 * program at the other end has said why, so SGPU_ENOINPUT is returned. */
int sgpu_fail_sniffed(struct sgpu_error *error, int fd, const char *name, const void *first,
		      size_t size, const char *wanted);

#endif
