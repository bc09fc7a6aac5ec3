/* SPDX-License-Identifier: Apache-2.0
 *
 * The leases of a batch: those that it names for its inputs, and one for its results where that was
 * asked for.
 */
#ifndef SGPU_RUN_LENT_H
#define SGPU_RUN_LENT_H

#include <sgpu/lease.h>
#include <sgpu/run.h>

struct sgpu_lent;
struct sgpu_run_base;

/* Takes all that the batch names, and makes one for its results: nothing of the batch has run.
 * *lent is NULL where it has to do with none. Errors: those of sgpu_lease_take; SGPU_EINVALID if a
 * payload does not lie in its lease. */
SGPU_MUST_CHECK int sgpu_lent_create(const struct sgpu_run_base *base, struct sgpu_lent **lent,
				     struct sgpu_error *error);
/* Ends those of the inputs, and the results' unless it is offered. Accepts a pointer to NULL. */
void sgpu_lent_free(struct sgpu_lent **lent);

/* Where the payload of an input is. */
const uint8_t *sgpu_lent_input(const struct sgpu_lent *lent, const struct sgpu_location *location);
/* Where that of an output goes, by its index in the batch, and the location that the response
 * gives; NULL: it has no place in a lease. `lent` may be NULL. */
uint8_t *sgpu_lent_output(const struct sgpu_lent *lent, int in_batch,
			  struct sgpu_location *location);
/* Whether the device reaches the leases by itself. */
bool sgpu_lent_registered(const struct sgpu_lent *lent);
/* From now on the results can be taken. `lent` may be NULL. */
void sgpu_lent_offer(struct sgpu_lent *lent);
/* They end with the batch after all. */
void sgpu_lent_withdraw(struct sgpu_lent *lent);

#endif
