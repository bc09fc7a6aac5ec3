/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files are written through a mapping: those in memory that nobody can cut short, and whose
 * pages all are there. A processor that touched another one could be killed by it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transfer/transfer.h"

#include "unit.h"

enum { SIZE = 2 << 20, OFFSET = 777 };

/* Whether a payload at OFFSET is mapped; if so, it is written. */
static bool is_mapped(int fd, bool shared)
{
	const struct sgpu_engine_config config = { .workers = 8, .shared_files = shared };
	const struct sgpu_device_config jobs = { .jobs = 8 };
	struct sgpu_endpoint sink;
	struct sgpu_device *device = NULL;
	struct sgpu_engine *engine = NULL;
	bool registered = true;
	void *memory = NULL;

	if (sgpu_device_open("cpu", &jobs, &device, NULL) == SGPU_OK &&
	    sgpu_engine_create(device, &config, &engine, NULL) == SGPU_OK &&
	    sgpu_endpoint_in_file(engine, fd, "output", OFFSET, false, &sink, NULL) == SGPU_OK) {
		memory = sink.view(sink.context, SIZE, true, &registered);
		if (memory) {
			memset(memory, 7, SIZE);
		}
		CHECK(!registered);
		sink.close(sink.context);
	}
	sgpu_engine_free(&engine);
	sgpu_device_close(&device);
	return memory != NULL;
}

UNIT_TEST(a_file_of_this_process_alone_is_mapped_and_no_shared_one)
{
	const int fd = memfd_create("output", MFD_CLOEXEC);
	uint8_t last[2];

	CHECK(!is_mapped(fd, true) && lseek(fd, 0, SEEK_END) == 0);
	CHECK(is_mapped(fd, false) && lseek(fd, 0, SEEK_END) == OFFSET + SIZE); /* it grows */
	CHECK(ftruncate(fd, OFFSET + SIZE - 1) == 0); /* the rest of the last page would be lost */
	CHECK(is_mapped(fd, false) && lseek(fd, 0, SEEK_END) == OFFSET + SIZE);
	CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, OFFSET + SIZE + 1) == 0);
	CHECK(!is_mapped(fd, true));
	CHECK(pread(fd, last, 2, OFFSET + SIZE - 1) == 2 && last[0] == 0);
	CHECK(is_mapped(fd, false));
	CHECK(pread(fd, last, 2, OFFSET + SIZE - 1) == 2 && last[0] == 7 && last[1] == 0);
	CHECK(pread(fd, last, 2, OFFSET - 1) == 2 && last[0] == 0 && last[1] == 7);
	CHECK(lseek(fd, 0, SEEK_END) == OFFSET + SIZE + 1);
	close(fd);
}

UNIT_TEST(a_file_with_a_name_is_not_mapped)
{
	char name[] = "/dev/shm/sgpu-test-XXXXXX";
	const int fd = mkstemp(name);

	CHECK(fd >= 0 && ftruncate(fd, OFFSET + SIZE) == 0);
	CHECK(!is_mapped(fd, false));
	unlink(name);
	CHECK(is_mapped(fd, false));
	close(fd);
}

int main(void)
{
	UNIT_RUN(a_file_of_this_process_alone_is_mapped_and_no_shared_one);
	UNIT_RUN(a_file_with_a_name_is_not_mapped);
	return unit_done();
}
