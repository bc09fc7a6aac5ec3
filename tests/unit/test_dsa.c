/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs on a work queue of an accelerator, over a portal in ordinary memory: the descriptors'
 * layout, refusals, and a device that lies or does not answer.
 */
#include <stddef.h>

#include "dsa_harness.h"

enum { SIZE = 300000, JOBS = 200 };

static struct sgpu_error error;
static uint8_t from[SIZE], to[SIZE];

static void fill(void)
{
	for (unsigned i = 0; i < SIZE; i++) {
		from[i] = (uint8_t)(i * 7 + i / 256);
		to[i] = 0;
	}
}

/* ---- layout ---- */
UNIT_TEST(a_descriptor_has_the_bytes_that_the_device_reads)
{
	struct sgpu_dsa *dsa = fake_open();
	uint8_t bytes[64];
	uint64_t word;
	uint32_t half;

	_Static_assert(sizeof(struct dsa_hw_desc) == 64 &&
			       sizeof(struct dsa_completion_record) == 32,
		       "sizes");
	_Static_assert(offsetof(struct dsa_completion_record, bytes_completed) == 4,
		       "bytes completed");
	fill();
	CHECK(sgpu_dsa_copy(dsa, to, from, 1000, 1000, 1, &error) == SGPU_OK);
	memcpy(bytes, &fake->seen[0], sizeof(bytes));
	CHECK(bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 0 &&
	      bytes[3] == 0); /* PASID: the CPU's or the kernel's */
	CHECK(bytes[4] == 0x0c && bytes[5] == 0 && bytes[6] == 0 &&
	      bytes[7] == 3); /* record wanted; memory move */
	memcpy(&word, bytes + 8, 8);
	CHECK(word % 32 == 0 && word == (uintptr_t)&dsa->slots[0].record);
	memcpy(&word, bytes + 16, 8);
	CHECK(word == (uintptr_t)from);
	memcpy(&word, bytes + 24, 8);
	CHECK(word == (uintptr_t)to);
	memcpy(&half, bytes + 32, 4);
	CHECK(half == 1000);
	for (int i = 36; i < 64; i++) {
		CHECK(bytes[i] == 0);
	}
	fake_close(&dsa);
}

/* ---- what goes well ---- */
UNIT_TEST(many_jobs_of_any_size_are_done_at_every_depth)
{
	for (unsigned depth = 1; depth <= SGPU_DSA_DEPTH_MAX; depth = depth * 2 + 1) {
		struct sgpu_dsa *dsa = fake_open();

		fill();
		for (size_t at = 0, round = 0; at < SIZE; round++) {
			const size_t left = SIZE - at, size = left < 60000 ? left : 60000;

			CHECK(sgpu_dsa_copy(dsa, to + at, from + at, size, 301 + round * 77, depth,
					    &error) == SGPU_OK);
			at += size;
		}
		CHECK(memcmp(from, to, SIZE) == 0);
		fake_close(&dsa);
	}
}

/* ---- a full queue ---- */
UNIT_TEST(a_full_queue_is_asked_again)
{
	struct sgpu_dsa *dsa = fake_open();

	fill();
	fake->refusals = 100;
	CHECK(sgpu_dsa_copy(dsa, to, from, JOBS * 1000, 1000, 8, &error) == SGPU_OK);
	CHECK(memcmp(from, to, JOBS * 1000) == 0 && fake->refusals == 0);
	fake_close(&dsa);
}

UNIT_TEST(a_queue_that_stays_full_is_left_to_others_and_may_be_tried_again)
{
	struct sgpu_dsa *dsa = fake_open();

	fill();
	fake_be_impatient(dsa);
	fake->refusals = UINT32_MAX;
	CHECK(sgpu_dsa_copy(dsa, to, from, 20, 10, 8, &error) == SGPU_ERETRY);
	CHECK(strstr(error.text, "wq7.3 stays full") && !to[1]);
	fake->refusals = 0;
	fake_be_patient(dsa);
	CHECK(sgpu_dsa_copy(dsa, to, from, 20, 10, 8, &error) == SGPU_OK &&
	      memcmp(from, to, 20) == 0);
	fake_close(&dsa);
}

/* ---- a hostile device ---- */
static void check_ends(struct order order, const char *text)
{
	struct sgpu_dsa *dsa = fake_open();

	fill();
	fake_order(order);
	CHECK(sgpu_dsa_copy(dsa, to, from, 5000, 5000, 1, &error) == SGPU_EDEVICE);
	CHECK(strstr(error.text, text) != NULL);
	CHECK(fake->stopped);
	CHECK(sgpu_dsa_copy(dsa, to, from, 5000, 5000, 1, &error) == SGPU_EUNAVAILABLE);
	CHECK(strstr(error.text, text) != NULL);
	fake_close(&dsa);
}

UNIT_TEST(a_device_that_answers_with_an_error_is_not_used_again)
{
	check_ends((struct order){ .deed = STATUS, .number = 0x10 }, "status 0x10");
	check_ends((struct order){ .deed = STATUS, .number = 0x7f }, "status 0x7f");
	check_ends((struct order){ .deed = STATUS, .number = 0x80 }, "status 0x00");
	check_ends((struct order){ .deed = STATUS, .number = 0x0100 }, "status 0x00");
}

/* What the device claims to have done of the job before is not looked at. */
UNIT_TEST(a_page_that_is_missing_leaves_the_job_to_the_caller)
{
	struct sgpu_dsa *dsa = fake_open();

	fill();
	fake_order((struct order){ .deed = STATUS, .number = DSA_COMP_PAGE_FAULT_NOBOF });
	fake_order((struct order){ .deed = STATUS,
				   .number = DSA_COMP_PAGE_FAULT_NOBOF | DSA_COMP_STATUS_WRITE });
	for (int i = 0; i < 2; i++) {
		CHECK(sgpu_dsa_copy(dsa, to, from, 8192, 8192, 1, &error) == SGPU_ESYSTEM);
	}
	CHECK(sgpu_dsa_copy(dsa, to, from, 8192, 8192, 1, &error) == SGPU_OK);
	CHECK(memcmp(from, to, 8192) == 0);
	fake_close(&dsa);
}

UNIT_TEST(a_device_that_lies_about_its_work_does_not_pass_the_proof)
{
	struct sgpu_dsa *dsa = fake_open();

	CHECK(sgpu_dsa_prove(dsa, &error) == SGPU_OK);
	fake->order_count = fake->taken + 1;
	fake->orders[fake->taken] = (struct order){ .deed = LIE };
	CHECK(sgpu_dsa_prove(dsa, &error) == SGPU_EDEVICE && strstr(error.text, "wrong copy"));
	fake_close(&dsa);
}

/* The late copy comes while the queue is stopped, which is before the call returns; nothing comes
 * after that. */
UNIT_TEST(a_device_that_does_not_answer_is_stopped_and_writes_nothing_afterwards)
{
	struct sgpu_dsa *dsa = fake_open();
	uint8_t *memory = malloc(12 * 1000);

	fill();
	fake_be_impatient(dsa);
	fake->order_count = 6;
	fake->orders[5] = (struct order){ .deed = MUTE };
	CHECK(sgpu_dsa_copy(dsa, memory, from, 12 * 1000, 1000, 4, &error) == SGPU_ETIMEOUT);
	CHECK(strstr(error.text, "wq7.3 did not answer") && fake->stopped);
	CHECK(memcmp(from, memory, 5 * 1000) == 0);
	memset(memory, 0x77, 12 * 1000); /* what a core does then is not overwritten */
	CHECK(sgpu_dsa_copy(dsa, memory, from, 12 * 1000, 1000, 4, &error) == SGPU_EUNAVAILABLE);
	sgpu_dsa_close(&dsa);
	fake_end();
	for (int i = 0; i < 12 * 1000; i++) {
		CHECK(memory[i] == 0x77);
	}
	free(memory);
}

int main(void)
{
	UNIT_RUN(a_descriptor_has_the_bytes_that_the_device_reads);
	UNIT_RUN(many_jobs_of_any_size_are_done_at_every_depth);
	UNIT_RUN(a_full_queue_is_asked_again);
	UNIT_RUN(a_queue_that_stays_full_is_left_to_others_and_may_be_tried_again);
	UNIT_RUN(a_device_that_answers_with_an_error_is_not_used_again);
	UNIT_RUN(a_page_that_is_missing_leaves_the_job_to_the_caller);
	UNIT_RUN(a_device_that_lies_about_its_work_does_not_pass_the_proof);
	UNIT_RUN(a_device_that_does_not_answer_is_stopped_and_writes_nothing_afterwards);
	return unit_done();
}
