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
 * arrived: handles the note of an input that has ended; the note's index is the segment. */
SGPU_MUST_CHECK int sgpu_inputs_create(struct sgpu_run_base *base,
				       void (*arrived)(struct sgpu_note *note), void *owner,
				       struct sgpu_inputs **inputs, struct sgpu_error *error);
/* Every input must have ended. Accepts a pointer to NULL. */
void sgpu_inputs_free(struct sgpu_inputs **inputs);

/* On the reader's thread: starts to bring in the payloads in files, regions and leases, then brings
 * in those that the batch contains. Every input ends, whatever this returns. Errors: those of
 * reading the batch, or why the run was stopped. */
SGPU_MUST_CHECK int sgpu_inputs_bring(struct sgpu_inputs *inputs, struct sgpu_tar_reader *tar,
				      struct sgpu_error *error);

/* On the loop's thread. Returns the outcome of an input; *text lives as long as the inputs. */
int sgpu_input_end(const struct sgpu_inputs *inputs, int segment, const char **text);
/* Frees the resources of an input that has ended. Nothing waits for them. */
void sgpu_input_drop(struct sgpu_inputs *inputs, int segment);
/* Cancels the inputs that are under way. */
void sgpu_inputs_stop(struct sgpu_inputs *inputs, int code);

/* The leases of a batch: those that it names for its inputs, and one for its results if the options
 * ask for that. */

struct sgpu_lent;

/* Takes all leases that the batch names, and makes one for its results, in which results without a
 * place get theirs; must be called before it
 * runs. *lent is NULL if the runner gives no leases. Errors: those of sgpu_lease_take;
 * SGPU_EINVALID if a payload does not lie in its lease. */
SGPU_MUST_CHECK int sgpu_lent_create(const struct sgpu_run_base *base, struct sgpu_lent **lent,
				     struct sgpu_error *error);
/* Ends the leases, except the results' lease if it was offered. Accepts a pointer to NULL. */
void sgpu_lent_free(struct sgpu_lent **lent);

/* Returns where the payload of an input is. */
const uint8_t *sgpu_lent_input(const struct sgpu_lent *lent, const struct sgpu_location *location);
/* Returns where an output goes whose place is in the results' lease. */
uint8_t *sgpu_lent_output(const struct sgpu_lent *lent, const struct sgpu_location *location);
/* Lets others take the results' lease from now on. `lent` may be NULL. */
void sgpu_lent_offer(struct sgpu_lent *lent);
/* Ends the results' lease, unless somebody has taken it. */
void sgpu_lent_withdraw(struct sgpu_lent *lent);

#endif
