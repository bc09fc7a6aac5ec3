/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups as messages, keys and MACs of a channel, and the owner's side of it.
 */
#include <channel/keys.h>
#include <channel/group.h>

#include "channel_harness.h"

UNIT_TEST(a_group_comes_back_from_its_message_and_from_no_other)
{
	static uint8_t message[SGPU_MESSAGE_MAX], group[SGPU_GROUP_MAX] = "a group with its tag";
	const struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					      .channel = 0x55667788,
					      .submit = { group, SGPU_TAG_SIZE, 1ULL << 40 } };
	static const uint8_t head[24] = { 1,	6,    0,    0,	  0x88, 0x77, 0x66, 0x55,
					  0x88, 0x77, 0x66, 0x55, 0,	0,    0,    0,
					  0,	1,    0,    0,	  16,	0,    0,    0 };
	struct sgpu_command back;
	size_t size = sgpu_submit_encode(&command, message);

	CHECK(size == sizeof(head) + SGPU_TAG_SIZE && !memcmp(message, head, sizeof(head)));
	REQUIRE(sgpu_submit_decode(message, size, &back));
	CHECK(back.op == SGPU_CH_SUBMIT && back.channel == command.channel &&
	      back.submit.counter == command.submit.counter && back.submit.size == SGPU_TAG_SIZE &&
	      !memcmp(back.submit.group, group, SGPU_TAG_SIZE));
	for (size_t other = 0; other <= size + 1; other++) {
		CHECK(sgpu_submit_decode(message, other, &back) == (other == size));
	}
	for (int i = 0; i < 12; i++) { /* all that is fixed, and the channel in both places */
		message[i] ^= 1;
		CHECK(!sgpu_submit_decode(message, size, &back));
		message[i] ^= 1;
	}
	message[20]--;
	CHECK(!sgpu_submit_decode(message, size - 1, &back));
	message[20] = 0;
	message[21] = 0x40;
	CHECK(sgpu_submit_decode(message, sizeof(head) + SGPU_GROUP_MAX, &back));
	message[20] = 1;
	CHECK(!sgpu_submit_decode(message, sizeof(head) + SGPU_GROUP_MAX + 1, &back));
}

UNIT_TEST(keys_depend_on_the_processor_and_differ_from_each_other)
{
	const uint8_t cek[SGPU_KEY_SIZE] = { 1 }, processor[16] = { 2 }, other[16] = { 3 };
	struct sgpu_channel_keys a, b, c;
	const uint8_t *all[5] = { a.group, a.owner, a.report, a.measure, a.answer };

	REQUIRE(sgpu_channel_derive(cek, processor, &a, NULL) == SGPU_OK);
	REQUIRE(sgpu_channel_derive(cek, processor, &b, NULL) == SGPU_OK);
	REQUIRE(sgpu_channel_derive(cek, other, &c, NULL) == SGPU_OK);
	CHECK(!memcmp(&a, &b, sizeof(a)));
	CHECK(memcmp(a.group, c.group, sizeof(a.group)) &&
	      memcmp(a.owner, c.owner, sizeof(a.owner)));
	for (int i = 0; i < 5; i++) {
		for (int j = 0; j < i; j++) {
			CHECK(memcmp(all[i], all[j], SGPU_KEY_SIZE));
		}
	}
}

UNIT_TEST(a_nonce_is_serial_and_counter_big_endian)
{
	static const uint8_t expected[SGPU_NONCE_SIZE] = { 1,	 2,    3,    4,	   0x11, 0x12,
							   0x13, 0x14, 0x15, 0x16, 0x17, 0x18 };
	uint8_t nonce[SGPU_NONCE_SIZE];

	sgpu_group_nonce(0x01020304, 0x1112131415161718, nonce);
	CHECK(!memcmp(nonce, expected, sizeof(nonce)));
}

UNIT_TEST(a_mac_depends_on_all_that_it_covers)
{
	const struct sgpu_channel_keys keys = { .owner = { 1 }, .report = { 1 } },
				       other = { .owner = { 2 }, .report = { 2 } };
	struct sgpu_report summary = { .channel = 1,
				       .serial = 2,
				       .counter = 3,
				       .va = 4,
				       .size = 5,
				       .pages = 7,
				       .digest = { 8 } };
	uint8_t seen[16][SGPU_CHANNEL_MAC_SIZE];
	int n = 0;

	sgpu_mac_owner(&keys, 1, 2, (const uint64_t[]){ 3, 4 }, seen[n++]);
	sgpu_mac_owner(&other, 1, 2, (const uint64_t[]){ 3, 4 }, seen[n++]);
	sgpu_mac_owner(&keys, 9, 2, (const uint64_t[]){ 3, 4 }, seen[n++]);
	sgpu_mac_owner(&keys, 1, 9, (const uint64_t[]){ 3, 4 }, seen[n++]);
	sgpu_mac_owner(&keys, 1, 2, (const uint64_t[]){ 9, 4 }, seen[n++]);
	sgpu_mac_owner(&keys, 1, 2, (const uint64_t[]){ 3, 9 }, seen[n++]);
	sgpu_mac_owner(&keys, 1, 2, NULL, seen[n++]);
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	summary.channel++;
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	summary.counter++;
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	summary.va++;
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	summary.size++;
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	summary.pages++;
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	summary.digest[31]++;
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	summary.serial++;
	sgpu_mac_report(&keys, SGPU_CH_PTE, &summary, seen[n++]);
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < i; j++) {
			CHECK(memcmp(seen[i], seen[j], sizeof(seen[i])));
		}
	}
}

UNIT_TEST(a_mask_covers_and_uncovers_and_is_another_for_each_report)
{
	const struct sgpu_channel_keys keys = { .report = { 1 } };
	struct sgpu_report a = { .serial = 1, .counter = 1, .digest = { 5 } },
			   b = { .serial = 1, .counter = 2, .digest = { 5 } };

	sgpu_mask_report(&keys, &a);
	sgpu_mask_report(&keys, &b);
	CHECK(memcmp(a.digest, b.digest, sizeof(a.digest)));
	sgpu_mask_report(&keys, &a);
	sgpu_mask_report(&keys, &b);
	CHECK(a.digest[0] == 5 && b.digest[0] == 5 && !a.digest[31]);
}

UNIT_TEST(a_grant_opens_with_its_owners_key_alone)
{
	struct bench b;
	struct sgpu_session *session = NULL;
	struct sgpu_grant grant;

	bench_open(&b);
	REQUIRE(create(&b, 1, 10, &b.owner[0]) == SGPU_REFUSED_NOT);
	CHECK(b.reply.grant.channel == 1 && b.reply.grant.serial);
	CHECK(sgpu_session_open(&b.owner[1], &b.reply.grant, &session, NULL) == SGPU_EKEY &&
	      !session);
	for (size_t i = 0; i < sizeof(grant); i++) {
		grant = b.reply.grant;
		((uint8_t *)&grant)[i] ^= 1;
		const int rc = sgpu_session_open(&b.owner[0], &grant, &session, NULL);
		const bool of_hash =
			i - offsetof(struct sgpu_grant, owner_hash) < sizeof(grant.owner_hash);

		CHECK(!session && (of_hash ? rc == SGPU_EKEY : rc != SGPU_OK));
	}
	REQUIRE(sgpu_session_open(&b.owner[0], &b.reply.grant, &session, NULL) == SGPU_OK);
	sgpu_session_close(&session);
	CHECK(!session);
	bench_close(&b);
}

UNIT_TEST(a_session_believes_each_report_once_and_in_order)
{
	const uint32_t page = 20, next = 21;
	struct bench b;
	struct sgpu_report first, second, altered;

	bench_open(&b);
	REQUIRE(create(&b, 1, 10, &b.owner[0]) == SGPU_REFUSED_NOT);
	struct sgpu_session *session = session_of(&b, &b.owner[0]);
	REQUIRE(pde(&b, 1, 0, 11, false) == SGPU_REFUSED_NOT);
	REQUIRE(pte(&b, 1, 0, 0, false, 1, &page) == SGPU_REFUSED_NOT);
	first = b.reply.report;
	REQUIRE(pte(&b, 1, 0, 1, false, 1, &next) == SGPU_REFUSED_NOT);
	second = b.reply.report;
	CHECK(first.counter == 1 && second.counter == 2);
	CHECK(first.va == 0 && second.va == SMALL && first.size == SMALL && first.pages == 1);
	for (size_t i = 0; i < offsetof(struct sgpu_report, mac) + sizeof(altered.mac); i++) {
		altered = first;
		((uint8_t *)&altered)[i] ^= 1;
		CHECK(sgpu_session_report(session, SGPU_CH_PTE, &altered, NULL) == SGPU_EAUTH);
	}
	/* Another channel's, and another serial number's, under the right key. */
	for (int i = 0; i < 2; i++) {
		altered = first;
		altered.channel += i == 0;
		altered.serial += i == 1;
		sgpu_mac_report(b.processor->channels[1]->keys, SGPU_CH_PTE, &altered, altered.mac);
		CHECK(sgpu_session_report(session, SGPU_CH_PTE, &altered, NULL) == SGPU_EAUTH);
	}
	CHECK(sgpu_session_report(session, SGPU_CH_PTE, &first, NULL) == SGPU_OK);
	CHECK(sgpu_session_report(session, SGPU_CH_PTE, &first, NULL) == SGPU_EAUTH);
	CHECK(sgpu_session_report(session, SGPU_CH_PTE, &second, NULL) == SGPU_OK);
	CHECK(sgpu_session_report(session, SGPU_CH_PTE, &first, NULL) == SGPU_EAUTH);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(what_is_too_large_for_a_group_is_not_sealed)
{
	static uint8_t items[SGPU_GROUP_MAX], group[SGPU_GROUP_MAX];
	struct bench b;
	uint64_t counter = 0;

	bench_open(&b);
	REQUIRE(create(&b, 1, 10, &b.owner[0]) == SGPU_REFUSED_NOT);
	struct sgpu_session *session = session_of(&b, &b.owner[0]);
	CHECK(sgpu_session_seal(session, items, SGPU_GROUP_MAX - SGPU_TAG_SIZE + 1, group, &counter,
				NULL) == SGPU_EUSAGE);
	CHECK(sgpu_session_seal(session, items, SGPU_GROUP_MAX - SGPU_TAG_SIZE, group, &counter,
				NULL) == SGPU_OK);
	CHECK(counter == 1);
	sgpu_session_close(&session);
	bench_close(&b);
}

int main(void)
{
	UNIT_RUN(a_group_comes_back_from_its_message_and_from_no_other);
	UNIT_RUN(keys_depend_on_the_processor_and_differ_from_each_other);
	UNIT_RUN(a_nonce_is_serial_and_counter_big_endian);
	UNIT_RUN(a_mac_depends_on_all_that_it_covers);
	UNIT_RUN(a_mask_covers_and_uncovers_and_is_another_for_each_report);
	UNIT_RUN(a_grant_opens_with_its_owners_key_alone);
	UNIT_RUN(a_session_believes_each_report_once_and_in_order);
	UNIT_RUN(what_is_too_large_for_a_group_is_not_sealed);
	return unit_done();
}
