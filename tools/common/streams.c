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
#include <sys/signalfd.h>
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

bool cli_binary_output(int fd)
{
	if (isatty(fd)) {
		cli_usage("refusing to write binary data to a terminal; redirect it or use -o");
		return false;
	}
	return true;
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

bool cli_output_apart(const char *path)
{
	if (cli_is_input(path)) {
		cli_usage("'%s' is both input and output",
			  cli_is_standard(path) ? "standard output" : path);
		return false;
	}
	return true;
}

bool cli_binary_apart(const char *path)
{
	return cli_output_apart(path) &&
	       (!cli_is_standard(path) || cli_binary_output(STDOUT_FILENO));
}

/* Sets *status to that of the file or, if there is none, of the directory where it will be, which
 * only an open output knows. */
static bool find_file(const char *path, struct stat *status, struct sgpu_output *output)
{
	struct sgpu_error ignored;

	if (cli_is_standard(path)) {
		return fstat(STDOUT_FILENO, status) == 0;
	}
	return stat(path, status) == 0 ||
	       (!sgpu_output_open(output, path, 0600, false, &ignored) && output->regular &&
		fstat(output->directory, status) == 0);
}

bool cli_outputs_apart(const char *what, const char *path, const char *other,
		       const char *other_path)
{
	struct sgpu_output a = SGPU_OUTPUT_INIT, b = SGPU_OUTPUT_INIT;
	struct stat status, other_status;
	bool same = cli_is_standard(path) && cli_is_standard(other_path);

	if (!same && find_file(path, &status, &a) && find_file(other_path, &other_status, &b)) {
		same = status.st_dev == other_status.st_dev &&
		       status.st_ino == other_status.st_ino &&
		       (a.name ? b.name && !strcmp(a.name, b.name) : S_ISREG(status.st_mode));
	}
	/* In this order, so that directories that only they need are gone again. */
	sgpu_output_close(&b);
	sgpu_output_close(&a);
	if (!same) {
		return true;
	}
	cli_usage("%s and %s cannot both go to '%s'", what, other,
		  cli_is_standard(other_path) ? "standard output" : other_path);
	return false;
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

int cli_signal_fd(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool cli_take_signal(int fd)
{
	struct signalfd_siginfo signal;

	return read(fd, &signal, sizeof(signal)) == (ssize_t)sizeof(signal);
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
	const char *path;
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

int cli_output_prepare(const char *path, mode_t mode, bool is_new)
{
	struct sgpu_error error = { 0 };
	struct prepared *grown;
	struct stat status;

	/* Opening a pipe waits for its reader, which may wait for another of our outputs. */
	if (cli_is_standard(path) || (stat(path, &status) == 0 && S_ISFIFO(status.st_mode))) {
		return 0;
	}
	grown = realloc(prepared, (prepared_count + 1) * sizeof(*grown));
	if (!grown) {
		return cli_fail_nomem();
	}
	prepared = grown;
	grown += prepared_count;
	grown->path = path;
	if (sgpu_output_open(&grown->output, path, mode, is_new, &error)) {
		return cli_error(&error);
	}
	prepared_count++;
	return 0;
}

int cli_output_take(struct sgpu_output *output, const char *path, mode_t mode,
		    struct sgpu_error *error)
{
	for (size_t i = 0; !cli_is_standard(path) && i < prepared_count; i++) {
		if (prepared[i].path && !strcmp(prepared[i].path, path)) {
			*output = prepared[i].output;
			prepared[i].path = NULL;
			return 0;
		}
	}
	return sgpu_output_open(output, cli_is_standard(path) ? "-" : path, mode, false, error);
}

const struct sgpu_output *cli_output_prepared(size_t i)
{
	return i < prepared_count ? &prepared[i].output : NULL;
}
