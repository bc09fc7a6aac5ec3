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

/* Where results go at once, in the file that the response is for, so that they wait nowhere:
 * offsets by segment of the batch, from malloc, 0 for those that do not. They are right if all goes
 * well; sgpu_respond sees to it if not. *places is NULL where nothing can be said, or it is not
 * worth it: for a pipe or a file that cannot be read, when a module may break a rule, when the size
 * of a result is not known. */
SGPU_MUST_CHECK int sgpu_respond_plan(struct sgpu_run_base *base, int fd, uint64_t **places,
				      struct sgpu_error *error);
/* Takes the space that the response will need, in a file that has no name yet, where the file
 * system can tell: a batch that is recorded runs once, and that run should not find the disk full.
 * Errors: SGPU_ENOSPACE. */
SGPU_MUST_CHECK int sgpu_respond_reserve(struct sgpu_run_base *base, int fd, const char *name,
					 struct sgpu_error *error);
/* Writes what became of each output, with the payloads of those that came through. Returns 0;
 * SGPU_ESEGMENTS when some failed; or why the response could not be written. */
SGPU_MUST_CHECK int sgpu_respond(struct sgpu_run_base *base, const struct sgpu_graph *graph,
				 struct sgpu_outputs *outputs, int fd, const char *name,
				 struct sgpu_error *error);
/* Cuts off what lies behind the file's position, where results may have been. */
SGPU_MUST_CHECK int sgpu_respond_cut(int fd, const char *name, struct sgpu_error *error);

#endif
