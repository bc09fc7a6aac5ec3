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
/* Writes all of it. EPIPE is an error like any other (the tools ignore SIGPIPE), and sgpu_io_reader_gone tells of it. */
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
/* While it is set, sgpu_read and sgpu_write of this thread never block on a pipe, a terminal or a socket for longer than
 * `ended` allows: it is asked before each wait and whenever wake_fd, an eventfd that does not block, becomes readable;
 * and it is asked at deadline_ns (sgpu_now_ns() clock, 0: none). Once it returns a code, they fail with it. NULL ends it. */
struct sgpu_io_guard {
	int wake_fd;
	uint64_t deadline_ns;
	int (*ended)(void *argument);
	void *argument;
};
void sgpu_io_set_guard(const struct sgpu_io_guard *guard);
/* Whether a write has failed since nobody reads that pipe any more; whoever writes by other means notes it with errno. */
bool sgpu_io_reader_gone(void);
void sgpu_io_note_failure(void);

/* ---- an output that appears only on success ----
 * For a path that names a regular file or nothing: a file without a name in the same folder (O_TMPFILE), to which commit
 * gives the path's name, so that even a killed process leaves nothing. A file system that has no such files gets a
 * temporary name, see sgpu_output_has_name. For "-", "/dev/stdout", a pipe, a device or a socket: the thing itself.
 *
 * The path is walked by descriptors. What another user may have planted is refused (SGPU_EPOLICY): their links, pipes
 * and devices anywhere, and anything of theirs in a folder that everybody can write to. The user's own links are followed
 * where they lie in a folder of the user's own: the link stays, its target is replaced. Folders that are missing are made,
 * and removed again unless the output is committed. From then on no path is looked up: commit uses linkat and renameat in
 * the folder that open walked to. Under Landlock that takes MAKE_REG, and REMOVE_FILE to replace. */
struct sgpu_output {
	int fd;          /* to write to; -1 when closed */
	bool regular;    /* positioned writes are possible and commit makes it appear */
	char *path;      /* as given, for messages */
	char *temporary; /* the temporary name, or NULL while it has none */
	int folder;      /* descriptor of the folder, or -1 */
	char *name;      /* that it will have in the folder */
	int kept_mode;   /* permission bits of the user's own file that it replaces, or -1 */
	bool is_new;     /* commit does not replace */
	bool unsynced;   /* commit leaves it to the caller to bring data and names to the disk */
	struct sgpu_output_made *made; /* folders */
	int made_count;
};

/* mode: permission bits for a new file (those of a file of the user's own that is replaced are kept unless mode is 0600,
 * which is forced). Folders get mode 0700 if that is 0600, else 0777 less the umask. Errors: SGPU_ESYSTEM, SGPU_EPOLICY. */
SGPU_MUST_CHECK int sgpu_output_open(struct sgpu_output *output, const char *path, mode_t mode,
				     struct sgpu_error *error);
/* The same for a file that must not exist: SGPU_ESYSTEM if it does now, or when it is committed. Pipes and devices are
 * written to all the same. */
SGPU_MUST_CHECK int sgpu_output_open_new(struct sgpu_output *output, const char *path, mode_t mode,
					 struct sgpu_error *error);
/* A regular file at a relative path below an open folder. Folders that are missing are made (0700); nothing leads out
 * and no link is followed, neither on the way nor at the end: SGPU_EPOLICY, and so is what is there and is no regular
 * file. Whoever swaps a component meanwhile changes nothing about that. `shown` is for messages. */
SGPU_MUST_CHECK int sgpu_output_open_beneath(struct sgpu_output *output, int root, const char *path,
					     const char *shown, mode_t mode, bool is_new, struct sgpu_error *error);
/* As though it had been opened with this mode. */
SGPU_MUST_CHECK int sgpu_output_set_mode(struct sgpu_output *output, mode_t mode, struct sgpu_error *error);
/* Whether its bytes stand under a (temporary) name before they are committed, where a process that is killed leaves
 * them: there is no O_TMPFILE on vfat, NFS and most of FUSE. */
bool sgpu_output_has_name(const struct sgpu_output *output);
/* The folder in which the output's i-th missing folder was made, to be removed if it is not committed; -1 ends. */
int sgpu_output_made_in(const struct sgpu_output *output, int i);
/* Flushes to the disk and makes the file appear. On an error nothing appears. */
SGPU_MUST_CHECK int sgpu_output_commit(struct sgpu_output *output, struct sgpu_error *error);
/* Closes, and removes what was not committed. Accepts one that is closed or zeroed by sgpu_output_init. */
void sgpu_output_close(struct sgpu_output *output);
#define SGPU_OUTPUT_INIT { .fd = -1, .folder = -1, .kept_mode = -1 }

/* Removes the regular file that an output at this path would replace, by the same rules: it is no error if there is none. */
SGPU_MUST_CHECK int sgpu_output_remove(const char *path, struct sgpu_error *error);

/* A folder for outputs, at a path with the same rules. Made with `mode`, and its parents, when absent. */
struct sgpu_output_folder {
	int fd;
	struct sgpu_output_made *made;
	int made_count;
};
SGPU_MUST_CHECK int sgpu_output_folder_open(struct sgpu_output_folder *folder, const char *path, mode_t mode,
					    struct sgpu_error *error);
/* Removes the folders that were made and are empty, unless they are kept. */
void sgpu_output_folder_close(struct sgpu_output_folder *folder, bool keep);
#define SGPU_OUTPUT_FOLDER_INIT { .fd = -1 }

#ifdef __cplusplus
}
#endif
#endif
