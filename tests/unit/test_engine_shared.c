/* SPDX-License-Identifier: Apache-2.0
 *
 * Files whose descriptors other processes hold: they may be cut short at any time, so no processor
 * touches a mapping of one. A limit on the size of files, which a mapping does not know, tells how
 * something is written.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "transfer/transfer.h"

#include "unit.h"

enum { SIZE = 2 << 20 };

/* What a write to a file in memory without a name returns while files may not grow beyond nothing.
 */
static int write_under_limit(bool shared)
{
	const struct sgpu_engine_config config = { .workers = 8, .shared_files = shared };
	const int fd = memfd_create("output", MFD_CLOEXEC);
	const struct sgpu_device_config jobs = { .jobs = 8 };
	struct sgpu_endpoint sink;
	struct sgpu_device *device = NULL;
	struct sgpu_engine *engine = NULL;
	struct rlimit before, none;
	uint8_t *data = calloc(1, SIZE);
	void *memory;
	bool registered;
	int rc = 1;

	signal(SIGXFSZ, SIG_IGN);
	if (data && fd >= 0 && posix_fallocate(fd, 0, SIZE) == 0 &&
	    getrlimit(RLIMIT_FSIZE, &before) == 0 &&
	    sgpu_device_open("cpu", &jobs, &device, NULL) == SGPU_OK &&
	    sgpu_engine_create(device, &config, &engine, NULL) == SGPU_OK &&
	    sgpu_endpoint_in_file(engine, fd, "output", 0, false, &sink, NULL) == SGPU_OK) {
		none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
		setrlimit(RLIMIT_FSIZE, &none);
		memory = sink.view(sink.context, SIZE, true, &registered);
		if (memory) {
			memcpy(memory, data, SIZE);
			rc = registered ? SGPU_EDEVICE : SGPU_OK;
		} else {
			rc = sink.write(sink.context, 0, data, SIZE, NULL);
		}
		setrlimit(RLIMIT_FSIZE, &before);
		sink.close(sink.context);
	}
	sgpu_engine_free(&engine);
	sgpu_device_close(&device);
	free(data);
	close(fd);
	return rc;
}

UNIT_TEST(a_shared_file_is_not_written_through_a_mapping)
{
	CHECK(write_under_limit(true) == SGPU_ESYSTEM);
}

UNIT_TEST(a_file_of_this_process_alone_is)
{
	if (sysconf(_SC_PAGESIZE) != 4096) {
		SKIP("needs pages of 4 KiB");
	}
	CHECK(write_under_limit(false) == SGPU_OK);
}

int main(void)
{
	UNIT_RUN(a_shared_file_is_not_written_through_a_mapping);
	UNIT_RUN(a_file_of_this_process_alone_is);
	return unit_done();
}
