/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads on their way to the device.
 */
#ifndef SGPU_RUN_INPUTS_H
#define SGPU_RUN_INPUTS_H

#include <sgpu/run.h>

struct sgpu_note;
struct sgpu_run_base;
struct sgpu_transfers;

struct sgpu_transfers_config {
	struct sgpu_run_base *base;
	void (*arrived)(struct sgpu_note *note); /* handles the note, whose index is the segment, of an input that ended */
	void (*left)(void *owner);               /* called on the loop's thread when an output has ended */
	void *owner;
};

SGPU_MUST_CHECK int sgpu_transfers_create(const struct sgpu_transfers_config *config, struct sgpu_transfers **transfers,
					  struct sgpu_error *error);
/* Waits for all that is enqueued, and gives its streams and buffers back. What results are stays. */
void sgpu_transfers_settle(struct sgpu_transfers *transfers);
/* After settle. Gives the memory of results back. Accepts a pointer to NULL. */
void sgpu_transfers_free(struct sgpu_transfers **transfers);

/* On a reader: brings in the payloads that travel in the batch, to its end. Errors: those of reading the batch. */
SGPU_MUST_CHECK int sgpu_inputs_read(struct sgpu_transfers *transfers, struct sgpu_tar_reader *tar,
				     struct sgpu_error *error);
/* On another: brings in payloads from files and regions, where there are any. */
bool sgpu_inputs_elsewhere(const struct sgpu_transfers *transfers);
void sgpu_inputs_fetch(struct sgpu_transfers *transfers);
/* Ends the inputs, those of the batch itself or those elsewhere, that nobody will bring any more. */
void sgpu_inputs_miss(struct sgpu_transfers *transfers, bool elsewhere, int code, const char *text);
/* Takes every region that the batch names, so that none outlives the run however it ends. */
SGPU_MUST_CHECK int sgpu_inputs_lease(struct sgpu_run_base *base, const struct sgpu_files *files,
				      struct sgpu_error *error);

/* On the loop's thread, when an input's note came: what became of it. *text lives as long as the transfers. */
int sgpu_input_end(struct sgpu_transfers *transfers, int segment, const char **text);

void sgpu_transfers_rows(const struct sgpu_transfers *transfers, struct sgpu_run_rows *rows);
const char *sgpu_transfers_row_name(const struct sgpu_transfers *transfers, int row, int *number);

#endif
