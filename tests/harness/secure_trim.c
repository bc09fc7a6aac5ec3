/* SPDX-License-Identifier: Apache-2.0
 *
 * Has a context give its pages back now. This object stands in place of the library's, whose own
 * way to do that nobody calls from outside.
 */
#include "channel/heap.c"

#include "channel_check.h"

int sgpu_secure_trim(struct sgpu_secure *context, struct sgpu_error *error)
{
	int rc;

	pthread_mutex_lock(&context->arena_lock);
	rc = trim(context, error);
	pthread_mutex_unlock(&context->arena_lock);
	return rc;
}
