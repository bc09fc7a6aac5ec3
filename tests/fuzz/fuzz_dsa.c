/* SPDX-License-Identifier: Apache-2.0
 *
 * What an accelerator answers. Whatever comes, a copy that ends well has not stopped it, nothing is
 * handed to a device that was stopped, and a call ends. The first byte is left out.
 */
#include <stdlib.h>
#include <string.h>

#include "dsa/dsa.h"

enum { SIZE = 3 * 4096, JOBS = 3 };

static const uint8_t *input;
static size_t left;
static bool stopped;
static struct dsa_completion_record
	*last; /* answered already: a hostile device writes there again */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(void *to, size_t size)
{
	size_t got = left < size ? left : size;

	memset(to, 0, size);
	memcpy(to, input, got);
	input += got;
	left -= got;
}

/* Answers at once. A first byte of 255 is a queue that is full; without input the device is mute.
 */
static int submit(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	struct dsa_completion_record *record = (void *)(uintptr_t)descriptor->completion_addr;
	uint8_t answer[sizeof(*record)];
	uint8_t kind = 0;

	(void)dsa;
	if (stopped || (uintptr_t)record % 32 != 0 || descriptor->xfer_size == 0 ||
	    descriptor->xfer_size > SIZE) {
		abort();
	}
	take(&kind, 1);
	if (kind == 255) {
		return SGPU_ERETRY;
	}
	take(answer, sizeof(answer));
	if (kind & 1 && last) {
		memcpy(last, answer, sizeof(answer));
	}
	memcpy(record, answer, sizeof(answer));
	last = record;
	return kind == 254 ? SGPU_EUNAVAILABLE : SGPU_OK;
}

static void stop(struct sgpu_dsa *dsa)
{
	(void)dsa;
	stopped = true;
}

static void try_answers(void)
{
	static uint8_t from[SIZE], to[SIZE];
	struct sgpu_dsa *dsa = NULL;
	uint8_t depth = 0;

	take(&depth, 1);
	if (sgpu_dsa_create(&dsa, NULL) != SGPU_OK) {
		return;
	}
	dsa->submit = submit;
	dsa->stop = stop;
	dsa->timeout_ns = dsa->patience_ns = 1;
	stopped = false;
	last = NULL;
	for (int round = 0; round < 2; round++) {
		int code = sgpu_dsa_copy(dsa, to, from, SIZE, SIZE / JOBS, 1 + depth % 4u, NULL);

		if (code == SGPU_OK && stopped) {
			abort();
		}
	}
	sgpu_dsa_close(&dsa);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0) {
		input = data + 1;
		left = size - 1;
		try_answers();
	}
	return 0;
}
