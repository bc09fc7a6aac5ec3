/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as a drawing, by gnuplot.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/io.h>

#include "verbs.h"

extern char **environ;

/* Runs gnuplot with these two as its standard input and output. */
static int run_gnuplot(const char *argument, int in, int out, struct sgpu_error *error)
{
	char *const argv[] = { (char *)(uintptr_t)"gnuplot", (char *)(uintptr_t)"-d", (char *)(uintptr_t)argument, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t pipe;
	int rc, status = 0;
	pid_t child;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attributes, &pipe);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	rc = posix_spawnp(&child, "gnuplot", &files, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (rc) {
		sgpu_fail(error, SGPU_ESYSTEM, "cannot start 'gnuplot', which draws: %s", strerror(rc));
		return sgpu_hint(error, "install the package gnuplot-nox; 'sgpu-bench table --gnuplot' needs none and gives "
				 "the script");
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	return status == 0 ? SGPU_OK : sgpu_fail(error, SGPU_ESYSTEM, "'gnuplot' has failed");
}

int draw_check(struct sgpu_error *error)
{
	const int nowhere = memfd_create("version", MFD_CLOEXEC);
	const int rc = nowhere < 0 ? sgpu_fail_errno(error, "cannot start 'gnuplot'") :
		       run_gnuplot("--version", STDIN_FILENO, nowhere, error);

	close(nowhere);
	return rc;
}

int draw_script(const struct sgpu_bench_results *results, int fd, const char *name, struct sgpu_error *error)
{
	char *script = NULL;
	size_t size = 0;
	int rc = sgpu_bench_plot(results, &script, &size, error);

	rc = rc ? rc : sgpu_write(fd, name, script, size, error);
	free(script);
	return rc;
}

int draw(const struct sgpu_bench_results *results, struct sgpu_output *output, struct sgpu_error *error)
{
	const int script = memfd_create("script", MFD_CLOEXEC);
	int rc = script < 0 ? sgpu_fail_errno(error, "cannot keep the script of a drawing") :
		 draw_script(results, script, "script", error);

	if (rc == SGPU_OK) {
		lseek(script, 0, SEEK_SET);
		rc = run_gnuplot("-", script, output->fd, error);
	}
	rc = rc ? rc : sgpu_output_commit(output, error);
	if (script >= 0) {
		close(script);
	}
	return rc;
}
