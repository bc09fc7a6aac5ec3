/* SPDX-License-Identifier: Apache-2.0
 *
 * What one step leaves for the next: items of a group, contents of a frame, words and reports that
 * were kept back.
 */
#include "channel_check.h"

#include "channel_harness.h"

#define OK SGPU_REFUSED_NOT

UNIT_TEST(a_group_that_does_not_verify_leaves_none_of_its_items)
{
	static const char items[] = "items of a group";
	uint8_t group[sizeof(items) + SGPU_TAG_SIZE];
	struct bench b;
	uint64_t counter;

	bench_open(&b);
	CHECK(create(&b, 1, 20, &b.owner[0]) == OK);
	struct sgpu_session *session = session_of(&b, &b.owner[0]);
	CHECK(sgpu_session_seal(session, items, sizeof(items), group, &counter, NULL) == SGPU_OK);
	group[sizeof(items)] ^= 1;
	CHECK(submit(&b, 1, group, sizeof(group), counter) == SGPU_REFUSED_SEAL &&
	      b.items_size == 0);
	CHECK(!memcmp(b.items, (char[sizeof(items)]){ 0 }, sizeof(items)));
	group[sizeof(items)] ^= 1;
	CHECK(submit(&b, 1, group, sizeof(group), counter) == OK &&
	      !memcmp(b.items, items, sizeof(items)));
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(a_report_of_the_channel_that_took_the_number_is_not_believed)
{
	struct bench b;
	const uint32_t page = 40, other = 41;

	bench_open(&b);
	CHECK(create(&b, 1, 20, &b.owner[0]) == OK);
	struct sgpu_session *first = session_of(&b, &b.owner[0]);
	CHECK(create(&b, 2, 22, &b.owner[0]) == OK); /* keeps the context, and with it the keys */
	CHECK(destroy(&b, 1, NULL) == OK);
	CHECK(create(&b, 1, 20, &b.owner[0]) == OK);
	struct sgpu_session *second = session_of(&b, &b.owner[0]);
	CHECK(pde(&b, 1, 0, 21, false) == OK);
	CHECK(pte(&b, 1, 0, 0, false, 1, &page) == OK);
	CHECK(sgpu_session_report(first, SGPU_CH_PTE, &b.reply.report, NULL) == SGPU_EAUTH);
	CHECK(sgpu_session_report(second, SGPU_CH_PTE, &b.reply.report, NULL) == SGPU_OK);
	CHECK(pte(&b, 1, 0, 1, false, 1, &other) == OK);
	CHECK(measure(&b, 1, 0, SMALL, true) == OK);
	CHECK(sgpu_session_report(first, SGPU_CH_MEASURE, &b.reply.report, NULL) == SGPU_EAUTH);
	sgpu_session_close(&first);
	sgpu_session_close(&second);
	bench_close(&b);
}

UNIT_TEST(the_processor_vouches_for_its_own_grants_alone)
{
	struct bench b;
	struct sgpu_grant grant, forged;

	bench_open(&b);
	CHECK(create(&b, 1, 20, &b.owner[0]) == OK);
	grant = b.reply.grant;
	CHECK(sgpu_processor_vouch(b.processor, &grant, NULL) == SGPU_OK);
	forged = grant;
	forged.serial++;
	CHECK(sgpu_processor_vouch(b.processor, &forged, NULL) == SGPU_EAUTH);
	forged = grant;
	forged.sealed_cek[sizeof(forged.sealed_cek) - 1] ^= 1;
	CHECK(sgpu_processor_vouch(b.processor, &forged, NULL) == SGPU_EAUTH);
	forged = grant;
	forged.enc[0] ^= 1;
	CHECK(sgpu_processor_vouch(b.processor, &forged, NULL) == SGPU_EAUTH);
	forged = grant;
	forged.owner_hash[31] ^= 1;
	CHECK(sgpu_processor_vouch(b.processor, &forged, NULL) == SGPU_EAUTH);
	forged = grant;
	forged.channel = 7;
	CHECK(sgpu_processor_vouch(b.processor, &forged, NULL) == SGPU_EAUTH);
	CHECK(create(&b, 2, 22, &b.owner[1]) == OK);
	forged = b.reply.grant;
	forged.channel = 1;
	CHECK(sgpu_processor_vouch(b.processor, &forged, NULL) == SGPU_EAUTH);
	bench_close(&b);
}

int main(void)
{
	UNIT_RUN(a_group_that_does_not_verify_leaves_none_of_its_items);
	UNIT_RUN(a_report_of_the_channel_that_took_the_number_is_not_believed);
	UNIT_RUN(the_processor_vouches_for_its_own_grants_alone);
	return unit_done();
}
