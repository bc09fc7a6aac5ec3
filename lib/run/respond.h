/* SPDX-License-Identifier: Apache-2.0
 *
 * The response to a batch.
 */
#ifndef SGPU_RUN_RESPOND_H
#define SGPU_RUN_RESPOND_H

#include <sgpu/run.h>

struct sgpu_graph;
struct sgpu_run_base;
struct sgpu_outputs;

/* Writes what became of each output, with the payloads of those that came through. Returns 0; SGPU_ESEGMENTS when some
 * failed; or why the response could not be written. */
SGPU_MUST_CHECK int sgpu_respond(struct sgpu_run_base *base, const struct sgpu_graph *graph,
				 struct sgpu_outputs *outputs, int fd, const char *name, struct sgpu_error *error);

#endif
