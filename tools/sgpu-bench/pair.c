/* SPDX-License-Identifier: Apache-2.0
 *
 * The other process is a fork: it shares the descriptors and the memory, and makes nothing of its
 * own.
 */
#include "pair.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "base/cores.h"

/* If the other process dies, this thread answers in its place: so no wait has to look for that,
 * which would take time. */
static void *watch(void *argument)
{
	struct pair *pair = argument;
	siginfo_t info;

	while (waitid(P_PID, (id_t)pair->child, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
	}
	pair->is_dead = true;
	if (pair->client) {
		(void)shutdown(pair->fds[1], SHUT_RDWR);
	} else {
		(void)pair->way->send(pair, PAIR_BACK);
	}
	return NULL;
}

static int open_way(struct pair *pair, struct sgpu_error *error)
{
	struct sgpu_platform platform;

	sgpu_platform_detect(&platform);
	if (platform.kind == SGPU_PLATFORM_GRAMINE_SGX ||
	    platform.kind == SGPU_PLATFORM_GRAMINE_DIRECT) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "two processes share no memory under Gramine");
	}
	pair->words = mmap(NULL, sizeof(*pair->words), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pair->words == MAP_FAILED) {
		pair->words = NULL;
		return sgpu_fail_nomem(error);
	}
	for (int d = PAIR_THERE; pair->way->make && d <= PAIR_BACK; d++) {
		if (pair->way->make(&pair->fds[2 * d]) != 0) {
			return sgpu_fail_errno(error, "cannot make a '%s'", pair->way->name);
		}
	}
	return pair->way->open ? pair->way->open(pair, error) : SGPU_OK;
}

static _Noreturn void run_child(struct pair *pair, const int *cpus,
				void (*serve)(struct pair *pair), pid_t parent)
{
	sigset_t all;

	sigfillset(&all); /* the parent says when it ends */
	if (sigprocmask(SIG_BLOCK, &all, NULL) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
	    getppid() == parent && (!cpus || sgpu_bind_to_cpu(cpus[1]))) {
		serve(pair);
	}
	_exit(1);
}

int pair_start(struct pair *pair, const struct pair_way *way, const int *cpus,
	       void (*serve)(struct pair *pair), struct sgpu_error *error)
{
	const pid_t parent = getpid();
	int rc, failed;

	*pair = (struct pair){ .way = way, .fds = { -1, -1, -1, -1 } };
	CPU_ZERO(&pair->before);
	rc = open_way(pair, error);
	if (rc < 0) {
		return rc;
	}
	if (cpus && (sched_getaffinity(0, sizeof(pair->before), &pair->before) != 0 ||
		     !sgpu_bind_to_cpu(cpus[0]))) {
		return sgpu_fail_errno(error, "cannot bind to processor %d", cpus[0]);
	}
	pair->child = fork();
	if (pair->child == 0) {
		run_child(pair, cpus, serve, parent);
	}
	if (pair->child < 0) {
		return sgpu_fail_errno(error, "cannot start another process");
	}
	failed = pthread_create(&pair->watcher, NULL, watch, pair);
	pair->is_watched = failed == 0;
	return failed ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start a thread: %s",
				  strerror(failed))
		      : SGPU_OK;
}

void pair_end(struct pair *pair)
{
	if (pair->child > 0) {
		kill(pair->child, SIGKILL);
		if (pair->is_watched) {
			pthread_join(pair->watcher, NULL);
		}
		(void)waitpid(pair->child, NULL, 0);
	}
	sgpu_ring_client_close(&pair->client);
	sgpu_ring_worker_close(&pair->worker);
	for (int i = 0; i < 4; i++) {
		close(pair->fds[i]); /* or -1 */
	}
	if (pair->words) {
		munmap(pair->words, sizeof(*pair->words));
	}
	if (CPU_COUNT(&pair->before) > 0) {
		(void)sched_setaffinity(0, sizeof(pair->before), &pair->before);
	}
}

int pair_trip(struct pair *pair, struct sgpu_error *error)
{
	if (!pair->way->send(pair, PAIR_THERE) || !pair->way->await(pair, PAIR_BACK) ||
	    pair->is_dead) {
		return sgpu_fail(error, SGPU_ESYSTEM, "%s: no answer of the other process",
				 pair->way->name);
	}
	return SGPU_OK;
}
