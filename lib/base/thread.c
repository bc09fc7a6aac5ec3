/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that take no signals.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/base.h"

void sgpu_signals_block(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

int sgpu_thread_start(pthread_t *thread, void *(*function)(void *), void *argument,
		      struct sgpu_error *error)
{
	sigset_t before;
	pthread_t own;

	sgpu_signals_block(&before);
	errno = pthread_create(thread ? thread : &own, NULL, function, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (errno == 0 && !thread) {
		pthread_detach(own);
	}
	return errno == 0 ? SGPU_OK : sgpu_fail_errno(error, "cannot start a thread");
}
