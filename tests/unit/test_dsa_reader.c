/* SPDX-License-Identifier: Apache-2.0
 *
 * Files by the accelerator: the bytes are those that pread(2) gives, whatever the device does, also
 * of a file that is cut short meanwhile.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "dsa_harness.h"

enum { SIZE = 3 << 20, ODD = 4097 };

static struct sgpu_error error;
static uint8_t content[SIZE], read_back[SIZE];
static int fd;

static void make_file(void)
{
	char name[] = "/tmp/test-dsa-reader-XXXXXX";

	for (unsigned i = 0; i < SIZE; i++) {
		content[i] = (uint8_t)(i * 13 + i / 512);
	}
	fd = mkstemp(name);
	if (fd < 0 || unlink(name) != 0 || write(fd, content, SIZE) != SIZE) {
		abort();
	}
}

static void check_reads(struct sgpu_dsa *dsa, size_t size, uint64_t offset)
{
	size_t got = 0;

	memset(read_back, 0xee, sizeof(read_back));
	CHECK(sgpu_dsa_pread(dsa, fd, "file", read_back, size, offset, &got, &error) == SGPU_OK);
	CHECK(got == size && memcmp(read_back, content + offset, size) == 0);
	CHECK(size == SIZE || read_back[size] == 0xee);
}

UNIT_TEST(large_pieces_are_read_by_the_device_at_any_offset)
{
	struct sgpu_dsa *dsa = fake_open();

	make_file();
	check_reads(dsa, SIZE - ODD, ODD); /* the first piece goes to the device */
	CHECK(dsa->copied == SIZE - ODD && !dsa->why.text[0] && fake->taken > 1);
	check_reads(dsa, SGPU_DSA_READ_LEAST - 1, 0); /* a small one never */
	CHECK(dsa->copied == SIZE - ODD);
	check_reads(dsa, SIZE / 2, 5000);
	CHECK(dsa->copied == SIZE - ODD + SIZE / 2);
	close(fd);
	fake_close(&dsa);
}

UNIT_TEST(without_a_device_it_is_pread)
{
	make_file();
	check_reads(NULL, SIZE, 0);
	close(fd);
}

static void check_core_takes_over(struct order order, const char *said)
{
	struct sgpu_dsa *dsa = fake_open();

	make_file();
	fake->always = order;
	if (order.deed == MUTE) {
		fake_be_impatient(dsa);
	}
	for (int i = 0; i < 3; i++) {
		check_reads(dsa, SIZE, 0);
	}
	CHECK(dsa->copied == 0 && strstr(dsa->why.text, said) && fake->taken <= 9);
	close(fd);
	fake_close(&dsa);
}

UNIT_TEST(a_core_reads_what_the_device_does_not)
{
	check_core_takes_over((struct order){ .deed = MUTE }, "did not answer");
	check_core_takes_over((struct order){ .deed = STATUS, .number = 0x1b }, "status 0x1b");
}

UNIT_TEST(a_full_queue_or_a_missing_page_does_not_end_the_use_of_the_device)
{
	struct sgpu_dsa *dsa = fake_open();

	make_file();
	dsa->patience_ns = 1000;
	fake->refusals = UINT32_MAX;
	check_reads(dsa, SIZE, 0);
	fake->refusals = 0;
	fake_be_patient(dsa);
	fake->orders[0] = (struct order){ .deed = STATUS, .number = DSA_COMP_PAGE_FAULT_NOBOF };
	fake->order_count = 1;
	check_reads(dsa, SIZE, 0);
	check_reads(dsa, SIZE, 0);
	CHECK(dsa->copied == SIZE && !dsa->why.text[0]);
	close(fd);
	fake_close(&dsa);
}

static void cut_short(void)
{
	CHECK(ftruncate(fd, 1000) == 0);
}

UNIT_TEST(a_file_that_is_cut_short_is_a_short_read_and_no_signal)
{
	struct sgpu_dsa *dsa = fake_open();
	size_t got = 0;

	make_file();
	/* The thread that is the device would get a signal. */
	fake->always = (struct order){ .deed = STATUS, .number = DSA_COMP_PAGE_FAULT_NOBOF };
	fake_order((struct order){
		.deed = STATUS, .number = DSA_COMP_PAGE_FAULT_NOBOF, .first = cut_short });
	CHECK(sgpu_dsa_pread(dsa, fd, "file", read_back, SIZE, 0, &got, &error) == SGPU_OK &&
	      got == 1000);
	/* Cut within a page that stays, after the copy: zeros would be there. */
	CHECK(pwrite(fd, content, SIZE, 0) == SIZE);
	fake->always = (struct order){ .deed = OBEY };
	fake->order_count = fake->taken + SIZE / (128 << 10);
	fake->orders[fake->order_count - 1] = (struct order){ .deed = LIE, .first = cut_short };
	CHECK(sgpu_dsa_pread(dsa, fd, "file", read_back, SIZE, 0, &got, &error) == SGPU_OK &&
	      got == 1000);
	/* Beyond the end from the start. */
	CHECK(sgpu_dsa_pread(dsa, fd, "file", read_back, SIZE, 500, &got, &error) == SGPU_OK &&
	      got == 500);
	CHECK(sgpu_dsa_pread(dsa, fd, "file", read_back, SIZE, UINT64_MAX - 5, &got, &error) < 0);
	CHECK(dsa->copied == 0 && !dsa->why.text[0]);
	close(fd);
	fake_close(&dsa);
}

static struct sgpu_dsa *shared;

static void *read_some(void *argument)
{
	uint8_t *own = malloc(SIZE);
	size_t got = 0;

	for (int i = 0; i < 10; i++) {
		size_t size = SIZE - (size_t)i * 999;

		if (!own ||
		    sgpu_dsa_pread(shared, fd, "file", own, size, (uint64_t)i * 999, &got, NULL) !=
			    SGPU_OK ||
		    got != size || memcmp(own, content + (size_t)i * 999, size) != 0) {
			free(own);
			return argument;
		}
	}
	free(own);
	return NULL;
}

UNIT_TEST(threads_read_beside_the_device)
{
	struct sgpu_dsa *dsa = fake_open();
	pthread_t threads[3];
	void *failed;

	make_file();
	shared = dsa;
	for (int i = 0; i < 3; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, read_some, &error) == 0);
	}
	for (int i = 0; i < 3; i++) {
		CHECK(pthread_join(threads[i], &failed) == 0 && !failed);
	}
	close(fd);
	fake_close(&dsa);
}

int main(void)
{
	UNIT_RUN(large_pieces_are_read_by_the_device_at_any_offset);
	UNIT_RUN(without_a_device_it_is_pread);
	UNIT_RUN(a_core_reads_what_the_device_does_not);
	UNIT_RUN(a_full_queue_or_a_missing_page_does_not_end_the_use_of_the_device);
	UNIT_RUN(a_file_that_is_cut_short_is_a_short_read_and_no_signal);
	UNIT_RUN(threads_read_beside_the_device);
	return unit_done();
}
