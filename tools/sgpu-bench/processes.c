/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that a case starts, and the processor time of them all.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "sizes.h"
#include "runner/start.h"

enum { REST_ROUNDS = 50 };
#define MS UINT64_C(1000000)
static const uint64_t at_rest_ns = 20000; /* of processor time in a millisecond */

/* ---- programs ---- */
int program_start(const char *const *words, const char *folder, int *talk, pid_t *pid,
		  struct sgpu_error *error)
{
	char beside[PATH_MAX];
	const char *path =
		strncmp(words[0], "sgpu-", 5) == 0 ? runner_beside(words[0], beside) : words[0];
	int ends[2] = { -1, -1 }, failed;
	posix_spawn_file_actions_t actions;

	failed = posix_spawn_file_actions_init(&actions);
	if (talk && !failed) {
		failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ? errno : 0;
		*talk = ends[0];
	}
	for (int i = 0; talk && !failed && i < 2; i++) {
		failed = posix_spawn_file_actions_adddup2(&actions, ends[1], i);
	}
	if (folder && !failed) {
		failed = posix_spawn_file_actions_addchdir_np(&actions, folder);
	}
	failed = failed ? failed
			: posix_spawnp(pid, path, &actions, NULL, (char *const *)words, environ);
	posix_spawn_file_actions_destroy(&actions);
	sgpu_close(ends[1]);
	*pid = failed ? 0 : *pid;
	return failed == 0	  ? SGPU_OK
	       : failed == ENOENT ? sgpu_fail(error, SGPU_EUNAVAILABLE, "there is no '%s'", path)
				  : sgpu_fail(error, SGPU_ESYSTEM, "cannot start '%s': %s", path,
					      strerror(failed));
}

int program_run(const char *const *words, const char *folder, struct sgpu_error *error)
{
	int status = -1, rc;
	pid_t pid;

	rc = program_start(words, folder, NULL, &pid, error);
	while (rc == SGPU_OK && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	return rc || status == 0
		       ? rc
		       : sgpu_fail(error, SGPU_EDEVICE, "'%s' has failed (status %d)", words[0],
				   WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* ---- processor time ---- */
static uint64_t in_ns(struct timespec time)
{
	return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

/* 0: it is gone. */
static uint64_t own_ns(pid_t pid)
{
	struct timespec now = { 0 };
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &now) == 0 ? in_ns(now)
											: 0;
}

static uint64_t started_ns(pid_t pid);

static uint64_t children_ns(pid_t pid, const char *thread)
{
	char path[SGPU_BENCH_NAME_MAX + NAME_MAX];
	uint64_t ns = 0;
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", pid, thread);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &child) == 1) {
		ns += own_ns(child) + started_ns(child);
	}
	if (file) {
		fclose(file);
	}
	return ns;
}

static uint64_t started_ns(pid_t pid)
{
	char path[SGPU_BENCH_NAME_MAX];
	const struct dirent *entry;
	uint64_t ns = 0;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	threads = opendir(path);
	while (threads && (entry = readdir(threads)) != NULL) {
		ns += entry->d_name[0] == '.' ? 0 : children_ns(pid, entry->d_name);
	}
	if (threads) {
		closedir(threads);
	}
	return ns;
}

uint64_t process_cpu_ns(pid_t pid)
{
	return own_ns(pid) + started_ns(pid);
}

/* Of all that this process has started, running or waited for. */
static uint64_t others_ns(void)
{
	struct rusage gone = { 0 };
	uint64_t us;

	(void)getrusage(RUSAGE_CHILDREN, &gone);
	us = ((uint64_t)gone.ru_utime.tv_sec + (uint64_t)gone.ru_stime.tv_sec) * 1000000 +
	     (uint64_t)gone.ru_utime.tv_usec + (uint64_t)gone.ru_stime.tv_usec;
	return started_ns(getpid()) + us * 1000;
}

void processes_rest(void)
{
	const struct timespec pause = { .tv_nsec = MS };
	uint64_t before, now = others_ns();

	for (int i = 0; i < REST_ROUNDS; i++) {
		before = now;
		(void)nanosleep(&pause, NULL);
		now = others_ns();
		if (now <= before + at_rest_ns) {
			break;
		}
	}
}

void watch_begin(struct watch *watch)
{
	watch->others_ns = others_ns();
	watch->own_ns = own_ns(getpid());
	watch->begin_ns = sgpu_now_ns();
}

void watch_end(struct sgpu_bench *bench, const struct watch *watch, int runs)
{
	const uint64_t ns = sgpu_now_ns() - watch->begin_ns, own = own_ns(getpid());
	uint64_t others;

	processes_rest();
	others = others_ns();
	/* The time of an ended process for which another one waited is gone. */
	others = others > watch->others_ns ? others - watch->others_ns : 0;
	bench->ns = ns / (uint64_t)runs;
	bench->cpu_ns = (own - watch->own_ns + others) / (uint64_t)runs;
}
