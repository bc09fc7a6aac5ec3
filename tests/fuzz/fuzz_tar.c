/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the archive reader up to the payloads: headers, skipping, reading, the end, and the head of a batch.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/batch.h>

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
	int code = sgpu_batch_read_any(reader, &batch, NULL);
	while (!code && segment >= 0) {
		code = sgpu_batch_next_payload(reader, batch, &segment, NULL);
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
	close(fd);
	return 0;
}
