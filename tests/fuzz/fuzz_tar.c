/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the archive reader up to the payloads: headers, skipping, reading, the end, the head of a
 * batch, and a refusal, which is written as the same bytes again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "batch/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(int fd)
{
	struct sgpu_tar_reader *reader = NULL;
	const char *member = NULL;
	uint64_t member_size = 0, total = 0;
	uint8_t byte = 0;
	if (sgpu_tar_open(fd, "fuzz", &reader, NULL)) {
		abort();
	}
	while (!sgpu_tar_next(reader, &member, &member_size, NULL) && member) {
		total += member_size;
		if (member_size && sgpu_tar_read(reader, &byte, 1, NULL)) {
			break;
		}
	}
	if (total > INT64_MAX) {
		abort();
	}
	sgpu_tar_close(&reader);
}

static void read_batch(int fd)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;
	int segment = 0;
	if (sgpu_tar_open(fd, "fuzz", &reader, NULL)) {
		abort();
	}
	int code = sgpu_batch_read(reader, SGPU_READ_EITHER, &batch, NULL);
	while (!code && segment >= 0) {
		code = sgpu_batch_next_payload(reader, batch, &segment, NULL);
	}
	sgpu_batch_free(&batch);
	sgpu_tar_close(&reader);
}

static void read_refusal(int fd, const uint8_t *data, size_t size)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;
	struct sgpu_batch_refusal refusal;
	uint8_t again[1 << 13];
	if (sgpu_tar_open(fd, "fuzz", &reader, NULL)) {
		abort();
	}
	if (sgpu_batch_read(reader, SGPU_READ_RESPONSE, &batch, NULL) == SGPU_EREFUSED &&
	    !sgpu_batch_refusal_read(reader, &refusal, NULL)) {
		const size_t head = SGPU_TAR_BLOCK; /* the header may name times and owners */
		const int copy = memfd_create("fuzz", 0);
		const ssize_t got =
			copy < 0 || sgpu_batch_refusal_write(copy, "fuzz", &refusal, NULL)
				? -1
				: pread(copy, again, sizeof(again), 0);
		if (got <= (ssize_t)head || (size_t)got > size ||
		    memcmp(again + head, data + head, (size_t)got - head)) {
			abort();
		}
		close(copy);
	}
	sgpu_batch_free(&batch);
	sgpu_tar_close(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const int fd = memfd_create("fuzz", 0);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET)) {
		abort();
	}
	walk(fd);
	if (lseek(fd, 0, SEEK_SET) == 0) {
		read_batch(fd);
	}
	if (lseek(fd, 0, SEEK_SET) == 0) {
		read_refusal(fd, data, size);
	}
	close(fd);
	return 0;
}
