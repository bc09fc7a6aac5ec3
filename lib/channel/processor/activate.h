/* SPDX-License-Identifier: Apache-2.0
 *
 * Which context kernels reach: by writers, when no request is being enqueued. Requests have
 * request.h.
 */
#ifndef SGPU_PROCESSOR_ACTIVATE_H
#define SGPU_PROCESSOR_ACTIVATE_H

#include "channel/processor/processor.h"

/* Makes it the one that kernels reach; NULL: none. Waits for the device. */
int sgpu_activate_now(struct sgpu_processor *processor, struct sgpu_context *context,
		      struct sgpu_error *error);
/* Nothing is reachable any more; waits for the device. */
int sgpu_deactivate(struct sgpu_processor *processor, struct sgpu_error *error);

#endif
