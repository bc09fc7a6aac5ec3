/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs, binary outputs and signals, the same in all tools.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "cli.h"

enum { COPIED_AT_ONCE = 1 << 20 }; /* bytes */

int cli_output_fd = STDOUT_FILENO;

int cli_silence(struct sgpu_error *error)
{
	const int nowhere = open("/dev/null", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	const int output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	const int messages = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	struct stat status;

	/* Another file in place of /dev/null would show the output to whoever put it there. */
	if (nowhere >= 0 && (fstat(nowhere, &status) != 0 || !S_ISCHR(status.st_mode) ||
			     status.st_rdev != makedev(1, 3))) {
		return sgpu_fail(error, SGPU_ESYSTEM, "'/dev/null' is not the null device");
	}
	if (output < 0 || messages < 0 || fflush(stdout) != 0 || dup2(nowhere, STDOUT_FILENO) < 0 ||
	    dup2(nowhere, STDERR_FILENO) < 0) {
		return sgpu_fail_errno(
			error, "cannot lay '/dev/null' in the place of standard output and error");
	}
	close(nowhere);
	cli_output_fd = output;
	cli_error_fd = messages;
	return SGPU_OK;
}

bool cli_is_standard(const char *path)
{
	return !path || !strcmp(path, "-");
}

/* Files that are read. A file can have several names. */
static struct {
	dev_t device;
	ino_t inode;
} * inputs;
static size_t input_count;

void cli_remember_file(const struct stat *status)
{
	if (!S_ISREG(status->st_mode)) {
		return;
	}
	void *grown = realloc(inputs, (input_count + 1) * sizeof(*inputs));
	if (grown) {
		inputs = grown;
		inputs[input_count].device = status->st_dev;
		inputs[input_count++].inode = status->st_ino;
	}
}

bool cli_input_stat(const char *path, struct stat *status)
{
	struct sgpu_error ignored;
	uint64_t fd = STDIN_FILENO;
	bool descriptor = cli_is_standard(path);

	if (path && !strncmp(path, "fd:", 3)) {
		descriptor = !sgpu_parse_u64(path + 3, "descriptor", 0, INT_MAX, &fd, &ignored);
	}
	return (descriptor ? fstat((int)fd, status) : stat(path, status)) == 0;
}

void cli_remember_input(const char *path)
{
	struct stat status;

	if (cli_input_stat(path, &status)) {
		cli_remember_file(&status);
	}
}

int cli_take_input(const char *path)
{
	static const char *standard; /* the argument that stands for it */
	const char *use = path ? path : "-";

	cli_remember_input(path);
	if (strcmp(use, "-") == 0 && standard && standard != use) {
		return cli_usage("standard input can be only one of the files that are read");
	}
	standard = strcmp(use, "-") == 0 ? use : standard;
	return 0;
}

bool cli_is_input(const char *path)
{
	struct stat status;

	if (cli_is_standard(path) ? fstat(STDOUT_FILENO, &status) : stat(path, &status)) {
		return false;
	}
	for (size_t i = 0; i < input_count; i++) {
		if (inputs[i].device == status.st_dev && inputs[i].inode == status.st_ino) {
			return true;
		}
	}
	return false;
}

int cli_binary_output(const char *path)
{
	return cli_is_standard(path) && isatty(STDOUT_FILENO)
		       ? cli_usage("refusing to write binary data to a terminal; redirect it or "
				   "use -o")
		       : 0;
}

int cli_input(const char *path, const char **name, int *fd)
{
	struct stat status;
	int taken;

	*fd = -1;
	if (cli_is_standard(path)) {
		*name = "standard input";
		if (isatty(STDIN_FILENO)) {
			return cli_usage(
				"refusing to read from a terminal; name a file or redirect");
		}
		taken = cli_take_input(path);
		*fd = taken ? -1 : STDIN_FILENO;
		return taken;
	}
	*name = path;
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0) {
		/* A signal that interrupted the wait for a pipe's writer is no error. */
		return sgpu_io_interrupted() ? sgpu_exit_status(SGPU_ESYSTEM)
					     : cli_fail(SGPU_ESYSTEM, "cannot open '%s': %s", path,
							strerror(errno));
	}
	if (fstat(*fd, &status) == 0) {
		if (S_ISDIR(status.st_mode)) {
			close(*fd);
			*fd = -1;
			return cli_fail(SGPU_ESYSTEM, "cannot read '%s': it is a directory", path);
		}
		cli_remember_file(&status);
	}
	return 0;
}

int cli_read_input(const char *path, size_t limit, const char *what, char **text, size_t *size)
{
	struct sgpu_error error = { 0 };
	const char *name = NULL;
	int fd, rc, status = cli_input(path, &name, &fd);

	*text = NULL;
	if (status) {
		return status;
	}
	rc = sgpu_read_fd(fd, name, limit, text, size, &error);
	if (!rc && !*size) {
		rc = sgpu_fail_sniffed(&error, fd, name, *text, *size, what);
		free(*text);
		*text = NULL;
	}
	if (fd > STDERR_FILENO) {
		close(fd);
	}
	return rc ? cli_error(&error) : 0;
}

int cli_temporary_file(int *fd, struct sgpu_error *error)
{
	const char *folder = getenv("TMPDIR");
	char path[PATH_MAX];

	folder = folder && *folder ? folder : "/tmp";
	snprintf(path, sizeof(path), "%s/sgpu-XXXXXX", folder);
	*fd = mkostemp(path, O_CLOEXEC);
	if (*fd < 0) {
		return sgpu_fail_errno(error, "cannot make a temporary file in '%s'", folder);
	}
	unlink(path);
	return SGPU_OK;
}

int cli_copy(int from, const char *from_name, uint64_t size, int to, const char *to_name,
	     uint64_t *copied, struct sgpu_error *error)
{
	uint8_t *buffer = malloc(COPIED_AT_ONCE);
	uint64_t done = 0;
	size_t got = 1;
	int rc = buffer ? SGPU_OK : sgpu_fail_nomem(error);

	while (!rc && got && done < size) {
		const uint64_t left = size - done;

		rc = sgpu_read(from, from_name, buffer,
			       left < COPIED_AT_ONCE ? (size_t)left : COPIED_AT_ONCE, &got, error);
		rc = rc ? rc : sgpu_write(to, to_name, buffer, got, error);
		done += got;
	}
	/* 'open' copies secrets. Pages that were not written are not made for that. */
	sgpu_free_wiped(&buffer, done < COPIED_AT_ONCE ? (size_t)done : COPIED_AT_ONCE);
	if (copied) {
		*copied = done;
	} else if (!rc && done < size) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read", from_name);
	}
	return rc;
}

static volatile sig_atomic_t caught;
static void (*stop_function)(void);

static void on_signal(int number)
{
	caught = number;
	stop_function();
}

void cli_signals(void (*stop)(void))
{
	/* No SA_RESTART: a blocked read must return. SA_RESETHAND: a second signal kills. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	stop_function = stop ? stop : sgpu_io_interrupt;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < 3; i++) {
		static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
		struct sigaction before;
		/* Shells ignore SIGINT in background jobs, and nohup SIGHUP: keep that. */
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
			sigaction(numbers[i], &action, NULL);
		}
	}
}

uint64_t cli_raise_descriptors(void)
{
	struct rlimit limit = { 0 };

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
		(void)getrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur;
}

bool cli_reader_gone(void)
{
	struct pollfd out = { .fd = cli_output_fd, .events = POLLOUT };

	/* A failed write of stdio may have left no errno, so the pipe is polled. */
	return sgpu_io_reader_gone() ||
	       (ferror(stdout) && poll(&out, 1, 0) == 1 && (out.revents & POLLERR));
}

static struct prepared {
	const char *path; /* NULL: taken */
	struct sgpu_output output;
} * prepared;
static size_t prepared_count;

int cli_finish(int status)
{
	const int number = caught							   ? caught
			   : status == sgpu_exit_status(SGPU_ESYSTEM) && cli_reader_gone() ? SIGPIPE
											   : 0;

	for (size_t i = prepared_count; i-- > 0;) {
		if (prepared[i].path) {
			sgpu_output_close(&prepared[i].output);
		}
	}
	prepared_count = 0;
	if (number) {
		signal(number, SIG_DFL);
		raise(number);
	}
	return status;
}

/* Gives the status of the directory that a regular output will be in, or of the file there. */
static bool look(const struct sgpu_output *output, bool directory, struct stat *status)
{
	return (directory	  ? fstat(output->directory, status)
		: output->regular ? fstatat(output->directory, output->name, status, 0)
				  : fstat(output->fd, status)) == 0;
}

/* Whether two outputs are one file, whatever their paths. They may share a device. */
static bool is_same(const struct sgpu_output *a, const struct sgpu_output *b)
{
	const bool by_name = a->regular && b->regular;
	struct stat of_a, of_b;

	return (!by_name || !strcmp(a->name, b->name)) && look(a, by_name, &of_a) &&
	       look(b, by_name, &of_b) && of_a.st_dev == of_b.st_dev &&
	       of_a.st_ino == of_b.st_ino && !S_ISCHR(of_a.st_mode);
}

static int refuse_input(const char *path, struct sgpu_error *error)
{
	return cli_is_input(path) ? sgpu_fail(error, SGPU_EUSAGE, "'%s' is both input and output",
					      cli_is_standard(path) ? "standard output" : path)
				  : 0;
}

static int open_output(struct sgpu_output *output, const char *path, mode_t mode, bool is_new,
		       struct sgpu_error *error)
{
	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
	int rc = refuse_input(path, error);
	rc = rc ? rc : sgpu_output_open(output, path, mode, is_new, error);
	for (size_t i = 0; !rc && i < prepared_count; i++) {
		if (prepared[i].path && is_same(output, &prepared[i].output)) {
			rc = sgpu_fail(error, SGPU_EUSAGE, "two outputs cannot both go to '%s'",
				       output->path);
			sgpu_output_close(output);
		}
	}
	return rc;
}

int cli_output_prepare(const char *path, mode_t mode, bool is_new)
{
	struct sgpu_error error = { 0 };
	struct prepared *grown;
	struct stat status;

	/* Opening a pipe waits for its reader, which may wait for another of our outputs. */
	if (!path || (stat(path, &status) == 0 && S_ISFIFO(status.st_mode))) {
		return 0;
	}
	grown = realloc(prepared, (prepared_count + 1) * sizeof(*grown));
	if (!grown) {
		return cli_fail_nomem();
	}
	prepared = grown;
	grown += prepared_count;
	grown->path = path;
	if (open_output(&grown->output, path, mode, is_new, &error)) {
		return cli_error(&error);
	}
	prepared_count++;
	return 0;
}

int cli_output_take(struct sgpu_output *output, const char *path, mode_t mode, bool is_new,
		    struct sgpu_error *error)
{
	path = cli_is_standard(path) ? "-" : path;
	for (size_t i = 0; i < prepared_count; i++) {
		if (prepared[i].path && !strcmp(prepared[i].path, path)) {
			*output = prepared[i].output;
			prepared[i].path = NULL;
			return refuse_input(path, error); /* remembered since then */
		}
	}
	return open_output(output, path, mode, is_new, error);
}

const struct sgpu_output *cli_output_prepared(size_t i)
{
	return i < prepared_count ? &prepared[i].output : NULL;
}

/* A file is never replaced: data that depend on its key would be lost. */
int cli_write_secret(const char *path, const char *text, size_t size, struct sgpu_error *error)
{
	const bool standard = cli_is_standard(path);
	struct sgpu_output output;
	struct stat status;

	if (!standard && lstat(path, &status) == 0) {
		sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists; a key is never overwritten", path);
		return sgpu_hint(
			error, "choose another name, or remove the file if nothing depends on it");
	}
	int rc = open_output(&output, standard ? "-" : path, 0600, true, error);
	rc = rc ? rc : sgpu_write(output.fd, output.path, text, size, error);
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	/* The shell's umask may let others read it. */
	if (!rc && standard && fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
	    (status.st_mode & (S_IRWXG | S_IRWXO))) {
		cli_warning("others can read the file that the key goes to (mode %04o), so it will "
			    "be refused as a key: chmod it to 600, or use -o",
			    (unsigned)status.st_mode & 07777u);
	}
	return rc;
}
