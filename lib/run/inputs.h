/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads on their way to the device.
 */
#ifndef SGPU_RUN_INPUTS_H
#define SGPU_RUN_INPUTS_H

#include "run/run.h"

struct sgpu_inputs;
struct sgpu_note;
struct sgpu_run_base;

/* Takes every region that the batch names: none outlives the run. arrived: handles the note of an
 * input, whose index is the segment, that has ended. */
SGPU_MUST_CHECK int sgpu_inputs_create(struct sgpu_run_base *base,
				       void (*arrived)(struct sgpu_note *note), void *owner,
				       struct sgpu_inputs **inputs, struct sgpu_error *error);
/* Every input has ended. Accepts a pointer to NULL. */
void sgpu_inputs_free(struct sgpu_inputs **inputs);

/* On a reader: starts to bring in what lies in files and regions, then brings in what travels in
 * the batch. Every input ends, however this returns. Errors: those of reading the batch, or why the
 * run was stopped. */
SGPU_MUST_CHECK int sgpu_inputs_bring(struct sgpu_inputs *inputs, struct sgpu_tar_reader *tar,
				      struct sgpu_error *error);

/* On the loop's thread. What became of an input; *text lives as long as the inputs. */
int sgpu_input_end(const struct sgpu_inputs *inputs, int segment, const char **text);
/* Gives back what it needed: nothing waits for that. */
void sgpu_input_drop(struct sgpu_inputs *inputs, int segment);
/* Ends those that are under way soon. */
void sgpu_inputs_stop(struct sgpu_inputs *inputs, int code);

/* The leases of a batch: those that it names for its inputs, and one for its results where that was
 * asked for. */

struct sgpu_lent;

/* Before the batch runs: takes all that it names, and makes one for its results. *lent is NULL
 * where it has none. Errors: those of sgpu_lease_take; SGPU_EINVALID if a payload does not lie in
 * its lease. */
SGPU_MUST_CHECK int sgpu_lent_create(const struct sgpu_run_base *base, struct sgpu_lent **lent,
				     struct sgpu_error *error);
/* Ends them, but for the results' if it is offered. Accepts a pointer to NULL. */
void sgpu_lent_free(struct sgpu_lent **lent);

/* Where the payload of an input is. */
const uint8_t *sgpu_lent_input(const struct sgpu_lent *lent, const struct sgpu_location *location);
/* The place of an output in a lease, by its index in the batch, and the location for the response;
 * NULL: none. `lent` may be NULL. */
uint8_t *sgpu_lent_output(const struct sgpu_lent *lent, int in_batch,
			  struct sgpu_location *location);
/* From now on the results can be taken. `lent` may be NULL. */
void sgpu_lent_offer(struct sgpu_lent *lent);
/* They end with the batch after all. */
void sgpu_lent_withdraw(struct sgpu_lent *lent);

#endif
