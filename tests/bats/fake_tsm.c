/* SPDX-License-Identifier: Apache-2.0
 *
 * A configfs-tsm in an ordinary folder, for tests: preloaded into a program, it stands between it
 * and the kernel for what is under SGPU_TSM_ROOT. As in the kernel a folder that is made has its
 * attributes at once; inblob takes up to 64 bytes, which the driver sees when it is closed, and
 * whether the driver took them shows in the generation alone; outblob cannot be read before; rmdir
 * takes the attributes along.
 *
 * FAKE_TSM_DRIVER    command that is given the paths of inblob, outblob and auxblob; without it,
 *                    the report is a few words and what was written. "elsewhere": another process
 *                    makes the report, and then the file `made` beside it, for programs that
 *                    start none
 * FAKE_TSM_PROVIDER  what provider says, "sev_guest" if not set
 * FAKE_TSM_FAULT     what goes wrong: busy, empty, intruder, late-error, lost-write, no-provider
 *                    or write-error
 * FAKE_TSM_LOG       a file to which each close of inblob adds a line
 */
/* Of a fortified header, read is inline, and cannot be replaced. */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FDS = 1024, INBLOB_MAX = 64 };
enum kind { KIND_NONE, KIND_INBLOB, KIND_OUTBLOB };

static struct {
	enum kind kind;
	char folder[PATH_MAX];
} fds[FDS];

static bool fault(const char *name)
{
	const char *now = getenv("FAKE_TSM_FAULT");

	return now && !strcmp(now, name);
}

/* Whether a path is a report's folder ("") or an attribute in one (its name). */
static const char *attribute(const char *path, char folder[PATH_MAX])
{
	const char *root = getenv("SGPU_TSM_ROOT");
	size_t length = root ? strlen(root) : 0;

	if (!length || strncmp(path, root, length) || path[length] != '/' || !path[length + 1]) {
		return NULL;
	}
	const char *slash = strchr(path + length + 1, '/');
	snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) : PATH_MAX - 1, path);
	return slash ? slash + 1 : "";
}

static long real_open(const char *path, int flags, mode_t mode)
{
	return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void put(const char *folder, const char *name, const void *data, size_t size)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	long fd = real_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || syscall(SYS_write, fd, data, size) != (long)size) {
		abort();
	}
	syscall(SYS_close, fd);
}

static size_t get(const char *folder, const char *name, char *data, size_t size)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	long fd = real_open(path, O_RDONLY | O_CLOEXEC, 0);
	long count = fd < 0 ? -1 : syscall(SYS_read, fd, data, size);
	if (count < 0) {
		abort();
	}
	syscall(SYS_close, fd);
	return (size_t)count;
}

int mkdir(const char *path, mode_t mode)
{
	char folder[PATH_MAX], provider[128];
	const char *name = attribute(path, folder);

	if (name && (fault("no-provider") || fault("busy"))) {
		errno = fault("busy") ? EBUSY : ENXIO;
		return -1;
	}
	int rc = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	if (rc == 0 && name && !*name) {
		const char *word = getenv("FAKE_TSM_PROVIDER");

		snprintf(provider, sizeof(provider), "%s\n", word ? word : "sev_guest");
		put(folder, "inblob", "", 0);
		put(folder, "outblob", "", 0);
		put(folder, "generation", "0\n", 2);
		put(folder, "provider", provider, strlen(provider));
		if (strcmp(provider, "tdx_guest\n")) {
			put(folder, "auxblob", "", 0);
		}
	}
	return rc;
}

int rmdir(const char *path)
{
	static const char *const names[] = { "inblob",	   "outblob",  "auxblob",
					     "generation", "provider", "made" };
	char folder[PATH_MAX], one[2 * PATH_MAX];
	const char *name = attribute(path, folder);

	for (size_t i = 0; name && !*name && i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(one, sizeof(one), "%s/%s", folder, names[i]);
		syscall(SYS_unlinkat, AT_FDCWD, one, 0);
	}
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int open(const char *path, int flags, ...)
{
	char folder[PATH_MAX];
	const char *name = attribute(path, folder);
	mode_t mode = 0;

	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	long fd = real_open(path, flags, mode);
	if (fd >= 0 && fd < FDS) {
		bool writes = (flags & O_ACCMODE) != O_RDONLY;

		fds[fd].kind = !name				   ? KIND_NONE
			       : writes && !strcmp(name, "inblob") ? KIND_INBLOB
			       : !strcmp(name, "outblob")	   ? KIND_OUTBLOB
								   : KIND_NONE;
		if (fds[fd].kind != KIND_NONE) {
			memcpy(fds[fd].folder, folder, PATH_MAX);
		}
	}
	return (int)fd;
}

static unsigned generation(const char *folder)
{
	char text[32] = "";

	get(folder, "generation", text, sizeof(text) - 1);
	return (unsigned)strtoul(text, NULL, 10);
}

/* The driver makes the report of what is in inblob. */
static void drive(const char *folder)
{
	const char *command = getenv("FAKE_TSM_DRIVER"), *log = getenv("FAKE_TSM_LOG");
	char text[4 * PATH_MAX + 64], blob[INBLOB_MAX];
	size_t size = get(folder, "inblob", blob, sizeof(blob));
	FILE *lines = log ? fopen(log, "a") : NULL;

	if (lines) {
		fprintf(lines, "%zu bytes\n", size);
		fclose(lines);
	}
	if (fault("lost-write") || !size) {
		return;
	}
	snprintf(text, sizeof(text), "%u\n", generation(folder) + (fault("intruder") ? 2 : 1));
	put(folder, "generation", text, strlen(text));
	if (fault("empty")) {
		return;
	}
	if (command && !strcmp(command, "elsewhere")) {
		snprintf(text, sizeof(text), "%s/made", folder);
		while (access(text, F_OK)) {
			usleep(10000);
		}
		return;
	}
	if (command) {
		snprintf(text, sizeof(text),
			 "unset LD_PRELOAD; %s '%s/inblob' '%s/outblob' '%s/auxblob'", command,
			 folder, folder, folder);
		if (system(text)) {
			put(folder, "generation", "0\n", 2);
		}
		return;
	}
	size_t used = (size_t)snprintf(text, sizeof(text), "a report of ");
	memcpy(text + used, blob, size);
	put(folder, "outblob", text, used + size);
	if (!getenv("FAKE_TSM_PROVIDER")) {
		put(folder, "auxblob", "certificates", 12);
	}
}

int close(int fd)
{
	bool done = fd >= 0 && fd < FDS && fds[fd].kind == KIND_INBLOB;

	if (fd >= 0 && fd < FDS) {
		fds[fd].kind = KIND_NONE;
	}
	int rc = (int)syscall(SYS_close, fd);
	if (done && rc == 0) {
		drive(fds[fd].folder);
	}
	return rc;
}

ssize_t write(int fd, const void *data, size_t size)
{
	if (fd >= 0 && fd < FDS && fds[fd].kind == KIND_INBLOB &&
	    (size > INBLOB_MAX || fault("write-error"))) {
		errno = size > INBLOB_MAX ? EFBIG : EIO;
		return -1;
	}
	return syscall(SYS_write, fd, data, size);
}

ssize_t read(int fd, void *data, size_t size)
{
	if (fd >= 0 && fd < FDS && fds[fd].kind == KIND_OUTBLOB) {
		if (!generation(fds[fd].folder) || fault("late-error")) {
			errno = fault("late-error") ? ETIMEDOUT : EINVAL;
			return -1;
		}
	}
	return syscall(SYS_read, fd, data, size);
}
