/* SPDX-License-Identifier: Apache-2.0
 *
 * Has every thread of the process do something, as the kernel's Landlock is one of threads.
 */
#ifndef SGPU_RUN_EVERY_THREAD_H
#define SGPU_RUN_EVERY_THREAD_H

#include <stdbool.h>

#include <sgpu/error.h>

/* `body` is called in each thread, in a signal handler of the others, and last in the calling one,
 * until no thread is left that was not called; those that it starts are expected to inherit what it
 * does. Errors: SGPU_ESYSTEM: one of them said false, or did not come. */
SGPU_MUST_CHECK int every_thread(bool (*body)(void), struct sgpu_error *error);

#endif
