/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes, checks and maps the memory of a ring; checks descriptors.
 */
#include "ring/private.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the generation is the upper half of the last word");
_Static_assert(sizeof(struct sgpu_ring_descriptor) == SGPU_RING_DESCRIPTOR_SIZE, "a cache line");
_Static_assert(offsetof(struct sgpu_ring_descriptor, generation) == 60, "the last four bytes");
_Static_assert(sizeof(struct sgpu_ring_completion) == SGPU_RING_COMPLETION_SIZE,
	       "half a cache line");
_Static_assert(offsetof(struct sgpu_ring_completion, generation) == 28, "the last four bytes");
_Static_assert(offsetof(struct sgpu_ring_header, client) == 256, "sgpu-ring(5)");
_Static_assert(offsetof(struct sgpu_ring_header, worker) == 512, "sgpu-ring(5)");
_Static_assert(sizeof(struct sgpu_ring_header) == 768, "sgpu-ring(5)");

static bool is_count(uint32_t count, uint32_t most)
{
	return count >= SGPU_RING_ENTRIES_MIN && count <= most && (count & (count - 1)) == 0;
}

static bool are_counts(uint32_t submissions, uint32_t completions)
{
	return is_count(submissions, SGPU_RING_SUBMISSIONS_MAX) &&
	       is_count(completions, SGPU_RING_COMPLETIONS_MAX) && completions >= submissions;
}

static size_t size_of(uint32_t submissions, uint32_t completions)
{
	const size_t size = SGPU_RING_PAGE + (size_t)submissions * SGPU_RING_DESCRIPTOR_SIZE +
			    (size_t)completions * SGPU_RING_COMPLETION_SIZE;

	return (size + SGPU_RING_PAGE - 1) / SGPU_RING_PAGE * SGPU_RING_PAGE;
}

int sgpu_ring_memory_create(uint32_t submissions, uint32_t completions, int *fd,
			    struct sgpu_error *error)
{
	const struct sgpu_ring_header header = { .magic = SGPU_RING_MAGIC,
						 .version = SGPU_RING_VERSION,
						 .submissions = submissions,
						 .completions = completions };
	int rc;

	*fd = -1;
	if (!are_counts(submissions, completions)) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a ring of %u submissions and %u completions: powers of two are "
				 "wanted, at most %d and %d, and no fewer completions",
				 submissions, completions, SGPU_RING_SUBMISSIONS_MAX,
				 SGPU_RING_COMPLETIONS_MAX);
	}
	rc = sgpu_memory_file_create("sgpu-ring", size_of(submissions, completions), true, fd,
				     error);
	if (rc == SGPU_OK && pwrite(*fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header)) {
		rc = sgpu_fail_errno(error, "cannot make the memory of a ring");
		close(*fd);
		*fd = -1;
	}
	return rc;
}

/* By a checked copy of the header's fixed part, since the other side may be changing it. */
static int set_queues(struct sgpu_ring_memory *memory, struct sgpu_error *error)
{
	_Atomic uint64_t *places = (_Atomic uint64_t *)((char *)memory->header + SGPU_RING_PAGE);
	struct sgpu_ring_header header;
	volatile const uint64_t *words = (volatile const uint64_t *)memory->header;
	uint64_t copy[64 / sizeof(uint64_t)];
	uint32_t other = 0;

	for (size_t i = 0; i < sizeof(copy) / sizeof(copy[0]); i++) {
		copy[i] = words[i];
	}
	memcpy(&header, copy, sizeof(copy));
	for (size_t i = 0; i < sizeof(header.reserved) / sizeof(header.reserved[0]); i++) {
		other |= header.reserved[i];
	}
	if (memcmp(header.magic, SGPU_RING_MAGIC, sizeof(header.magic)) != 0 || other) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the memory of a ring does not begin with a ring's header");
	}
	if (header.version != SGPU_RING_VERSION) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the ring has version %u, and this program knows %d",
				 header.version, SGPU_RING_VERSION);
	}
	if (!are_counts(header.submissions, header.completions) ||
	    size_of(header.submissions, header.completions) != memory->size) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a ring of %u submissions and %u completions in %zu bytes",
				 header.submissions, header.completions, memory->size);
	}
	sgpu_queue_set(&memory->submissions, places, SGPU_DESCRIPTOR_WORDS, header.submissions,
		       &memory->header->worker.head);
	places += (size_t)header.submissions * SGPU_DESCRIPTOR_WORDS;
	sgpu_queue_set(&memory->completions, places, SGPU_COMPLETION_WORDS, header.completions,
		       &memory->header->client.head);
	return SGPU_OK;
}

int sgpu_ring_map(int fd, struct sgpu_ring_memory *memory, struct sgpu_error *error)
{
	void *base;
	int rc;

	memset(memory, 0, sizeof(*memory));
	rc = sgpu_memory_file_map(fd, "the memory of a ring", SGPU_RING_PAGE,
				  size_of(SGPU_RING_SUBMISSIONS_MAX, SGPU_RING_COMPLETIONS_MAX),
				  &base, &memory->size, error);
	if (rc < 0) {
		return rc;
	}
	memory->header = base;
	rc = set_queues(memory, error);
	if (rc < 0) {
		sgpu_ring_unmap(memory);
	}
	return rc;
}

void sgpu_ring_unmap(struct sgpu_ring_memory *memory)
{
	if (memory->header) {
		munmap(memory->header, memory->size);
		memory->header = NULL;
	}
}

static uint8_t members_of(const struct sgpu_ring_descriptor *d)
{
	return (uint8_t)((d->handle ? SGPU_RING_HANDLE : 0) | (d->offset ? SGPU_RING_OFFSET : 0) |
			 (d->length ? SGPU_RING_LENGTH : 0) |
			 (d->argument ? SGPU_RING_ARGUMENT : 0));
}

int sgpu_ring_check(const struct sgpu_ring_descriptor *descriptor, const uint8_t *members, int rc,
		    struct sgpu_error *error)
{
	const struct sgpu_ring_descriptor *d = descriptor;
	const bool is_opcode =
		d->opcode >= SGPU_RING_OPCODE_SERVICE && d->opcode < SGPU_RING_OPCODES;
	const uint8_t known = !is_opcode ? 0 : members ? members[d->opcode] : UINT8_MAX;
	uint64_t end;

	if (!(known & SGPU_RING_KNOWN)) {
		return sgpu_fail(error, rc, "a descriptor has the unknown opcode %u", d->opcode);
	}
	if (d->reserved || d->reserved2 || d->reserved3 || d->generation) {
		return sgpu_fail(error, rc,
				 "a descriptor of opcode %u has reserved members that are not 0",
				 d->opcode);
	}
	if (members_of(d) & ~known) {
		return sgpu_fail(error, rc,
				 "a descriptor of opcode %u has members that it does not use",
				 d->opcode);
	}
	if (!sgpu_add_u64(d->offset, d->length, &end)) {
		return sgpu_fail(error, rc,
				 "a descriptor of opcode %u has a range that does not end",
				 d->opcode);
	}
	return SGPU_OK;
}
