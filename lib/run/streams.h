/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams that operations run on: a runner keeps them from one batch for the next.
 */
#ifndef SGPU_RUN_STREAMS_H
#define SGPU_RUN_STREAMS_H

#include <sgpu/device.h>

struct sgpu_run_streams;

SGPU_MUST_CHECK int sgpu_streams_create(struct sgpu_device *device,
					struct sgpu_run_streams **streams,
					struct sgpu_error *error);
/* All streams have been given back. Accepts a pointer to NULL. */
void sgpu_streams_free(struct sgpu_run_streams **streams);
/* Any thread may call these. */
SGPU_MUST_CHECK int sgpu_streams_take(struct sgpu_run_streams *streams, struct sgpu_stream **stream,
				      struct sgpu_error *error);
/* Waits for its work first unless that is known to have ended (`idle`); a stream that fails then is
 * not kept. Accepts a pointer to NULL. */
void sgpu_streams_give(struct sgpu_run_streams *streams, struct sgpu_stream **stream, bool idle);

#endif
