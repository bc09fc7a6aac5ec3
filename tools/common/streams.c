/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs, binary outputs and signals, alike in all tools.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/io.h>

#include "cli.h"

bool cli_binary_output(int fd)
{
	if (isatty(fd)) {
		cli_usage("refusing to write binary data to a terminal; redirect it or use -o");
		return false;
	}
	return true;
}

int cli_input(const char *path, const char **name)
{
	struct stat status;
	int fd;

	if (!path || !strcmp(path, "-")) {
		*name = "standard input";
		if (isatty(STDIN_FILENO)) {
			cli_usage("refusing to read binary data from a terminal; name a file or redirect");
			return -1;
		}
		return STDIN_FILENO;
	}
	*name = path;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		cli_fail(SGPU_ESYSTEM, "cannot open '%s': %s", path, strerror(errno));
		return -1;
	}
	if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
		cli_fail(SGPU_ESYSTEM, "cannot read '%s': it is a folder", path);
		close(fd);
		return -1;
	}
	return fd;
}

static volatile sig_atomic_t caught;
static void (*stop_function)(void);

static void on_signal(int number)
{
	caught = number;
	sgpu_io_interrupt();
	if (stop_function) {
		stop_function();
	}
}

void cli_signals(void (*stop)(void))
{
	/* No SA_RESTART: a blocked read must return. SA_RESETHAND: a second signal kills. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	stop_function = stop;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < 3; i++) {
		static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
		struct sigaction before;
		/* A shell starts background jobs with SIGINT ignored, nohup with SIGHUP: leave them so. */
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
			sigaction(numbers[i], &action, NULL);
		}
	}
}

int cli_finish(int status)
{
	if (caught) {
		signal(caught, SIG_DFL);
		raise(caught);
	}
	return status;
}
