/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors as a hostile client writes them into the memory of a ring: the worker refuses or
 * takes each, and what it has taken it completes once.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring/private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENTRIES = 16, SERVICE = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t members[SGPU_RING_OPCODES] = {
		[SERVICE] = SGPU_RING_KNOWN | SGPU_RING_ARGUMENT,
		[SERVICE + 1] = SGPU_RING_KNOWN | SGPU_RING_OFFSET | SGPU_RING_LENGTH,
	};
	const struct sgpu_ring_config config = { .doorbell = -1, .members = members };
	struct sgpu_ring_memory memory = { 0 };
	struct sgpu_ring *worker = NULL;
	struct sgpu_ring_descriptor descriptor, operation;
	uint64_t taken = 0;
	int fd = -1, rc;

	rc = sgpu_ring_memory_create(ENTRIES, ENTRIES, &fd, NULL);
	rc = rc ? rc : sgpu_ring_map(fd, &memory, NULL);
	rc = rc ? rc : sgpu_ring_open(fd, &config, &worker, NULL);
	for (size_t at = 0; rc == SGPU_OK && size - at >= SGPU_RING_DESCRIPTOR_SIZE;
	     at += SGPU_RING_DESCRIPTOR_SIZE) {
		memcpy(&descriptor, data + at, sizeof(descriptor));
		descriptor.generation += (uint32_t)(taken / ENTRIES) + 1;
		memcpy((char *)memory.submissions.entries +
			       taken % ENTRIES * SGPU_RING_DESCRIPTOR_SIZE,
		       &descriptor, sizeof(descriptor));
		rc = sgpu_ring_next(worker, &operation, NULL);
		if (rc == SGPU_ERETRY) {
			rc = SGPU_OK; /* no entry yet, by its generation */
			continue;
		}
		if (rc < 0) {
			break;
		}
		taken++;
		if (operation.opcode != SERVICE && operation.opcode != SERVICE + 1) {
			abort();
		}
		rc = sgpu_ring_finish(worker, SGPU_OK, 0, NULL);
		if (sgpu_ring_finish(worker, SGPU_OK, 0, NULL) == SGPU_OK) {
			abort();
		}
		/* The client takes the completion, if it says so at all. */
		if (data[at] % 2) {
			atomic_store(&memory.header->client.head, taken);
		}
	}
	sgpu_ring_close(&worker);
	sgpu_ring_unmap(&memory);
	if (fd >= 0) {
		close(fd);
	}
	return 0;
}
