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

/* Makes the inputs, and takes every region that the batch names, so that none outlives the run.
 * arrived: handles the note of an input that has ended; its index is the segment. */
SGPU_MUST_CHECK int sgpu_inputs_create(struct sgpu_run_base *base,
				       void (*arrived)(struct sgpu_note *note), void *owner,
				       struct sgpu_inputs **inputs, struct sgpu_error *error);
/* Every input must have ended. Accepts a pointer to NULL. */
void sgpu_inputs_free(struct sgpu_inputs **inputs);

/* On a reader: starts to bring in what lies in files and regions, then brings in what travels in
 * the batch. Every input ends, however this returns. Errors: those of reading the batch, or why the
 * run was stopped. */
SGPU_MUST_CHECK int sgpu_inputs_bring(struct sgpu_inputs *inputs, struct sgpu_tar_reader *tar,
				      struct sgpu_error *error);

/* On the loop's thread. Returns what became of an input; *text lives as long as the inputs. */
int sgpu_input_end(const struct sgpu_inputs *inputs, int segment, const char **text);
/* Gives back what an input that has ended needed. Nothing waits for that. */
void sgpu_input_drop(struct sgpu_inputs *inputs, int segment);
/* Cancels the inputs that are under way. */
void sgpu_inputs_stop(struct sgpu_inputs *inputs, int code);

/* The leases of a batch: those that it names for its inputs, and one for its results where that was
 * asked for. */

struct sgpu_lent;

/* Before the batch runs: takes all leases that it names, and makes one for its results. *lent is
 * NULL if it has no leases. Errors: those of sgpu_lease_take; SGPU_EINVALID if a payload does not
 * lie in its lease. */
SGPU_MUST_CHECK int sgpu_lent_create(const struct sgpu_run_base *base, struct sgpu_lent **lent,
				     struct sgpu_error *error);
/* Ends the leases, except that of the results if it is offered. Accepts a pointer to NULL. */
void sgpu_lent_free(struct sgpu_lent **lent);

/* Returns where the payload of an input is. */
const uint8_t *sgpu_lent_input(const struct sgpu_lent *lent, const struct sgpu_location *location);
/* Returns the place of an output, given by its index in the batch, in the lease of the results, and
 * *location for the response; NULL: there is no such lease. `lent` may be NULL. */
uint8_t *sgpu_lent_output(const struct sgpu_lent *lent, int in_batch,
			  struct sgpu_location *location);
/* Lets others take the lease of the results from now on. `lent` may be NULL. */
void sgpu_lent_offer(struct sgpu_lent *lent);
/* Ends the lease of the results, unless somebody has taken it. */
void sgpu_lent_withdraw(struct sgpu_lent *lent);

#endif
