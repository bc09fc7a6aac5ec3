/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as bytes, keys and MACs of a channel, and the owner's side of it.
 */
#include <channel/keys.h>
#include <channel/codec.h>

#include "channel_harness.h"

static uint8_t bytes[SGPU_COMMAND_SIZE_MAX];
static uint32_t pages[SGPU_CHANNEL_PAGES_MAX];

static struct sgpu_command sample(enum sgpu_channel_op op, bool with)
{
	static const uint32_t frames[3] = { 0x01020304, SGPU_NO_FRAME, 7 };
	static const uint8_t group[21] = "a group with its tag";
	struct sgpu_command command = { .op = op, .via = 0x11223344, .channel = 0x55667788 };

	switch (op) {
	case SGPU_CH_CREATE:
		command.create.directory = 99;
		command.create.has_key = with;
		memset(command.create.owner_key, with ? 0x5a : 0, sizeof(command.create.owner_key));
		break;
	case SGPU_CH_PDE:
		command.pde.index = 4095;
		command.pde.table = 0xfffffffe;
		command.pde.big = with;
		break;
	case SGPU_CH_PTE:
		command.pte.directory_index = 3;
		command.pte.table_index = 4;
		command.pte.big = with;
		command.pte.has_mac = with;
		command.pte.mac_counter = with ? 0x0102030405060708 : 0;
		memset(command.pte.mac, with ? 0x6b : 0, sizeof(command.pte.mac));
		command.pte.count = 3;
		command.pte.pages = frames;
		break;
	case SGPU_CH_MEASURE:
		command.measure.va = UINT64_MAX;
		command.measure.size = 1;
		command.measure.keyed = with;
		break;
	case SGPU_CH_DESTROY:
		command.destroy.has_mac = with;
		command.destroy.mac_counter = with ? UINT64_MAX : 0;
		memset(command.destroy.mac, with ? 0x7c : 0, sizeof(command.destroy.mac));
		break;
	case SGPU_CH_SUBMIT:
		command.submit.group = group;
		command.submit.size = sizeof(group);
		command.submit.counter = 1ULL << 40;
		break;
	}
	return command;
}

/* All that a command says, in one line. */
static void describe(const struct sgpu_command *c, char *text, size_t size)
{
	char mac[2 * 32 + 1] = "", more[256] = "";

	switch (c->op) {
	case SGPU_CH_CREATE:
		sgpu_hex_encode(c->create.owner_key, 32, mac);
		snprintf(more, sizeof(more), "%u %d %s", c->create.directory, c->create.has_key,
			 mac);
		break;
	case SGPU_CH_PDE:
		snprintf(more, sizeof(more), "%u %u %d", c->pde.index, c->pde.table, c->pde.big);
		break;
	case SGPU_CH_PTE:
		sgpu_hex_encode(c->pte.mac, 32, mac);
		snprintf(more, sizeof(more), "%u %u %d %d %llu %s %u: %u %u %u",
			 c->pte.directory_index, c->pte.table_index, c->pte.big, c->pte.has_mac,
			 (unsigned long long)c->pte.mac_counter, mac, c->pte.count, c->pte.pages[0],
			 c->pte.pages[1], c->pte.pages[2]);
		break;
	case SGPU_CH_MEASURE:
		snprintf(more, sizeof(more), "%llx %llx %d", (unsigned long long)c->measure.va,
			 (unsigned long long)c->measure.size, c->measure.keyed);
		break;
	case SGPU_CH_DESTROY:
		sgpu_hex_encode(c->destroy.mac, 32, mac);
		snprintf(more, sizeof(more), "%d %llx %s", c->destroy.has_mac,
			 (unsigned long long)c->destroy.mac_counter, mac);
		break;
	case SGPU_CH_SUBMIT:
		snprintf(more, sizeof(more), "%llx %u %.*s", (unsigned long long)c->submit.counter,
			 c->submit.size, (int)c->submit.size, (const char *)c->submit.group);
		break;
	}
	snprintf(text, size, "%d via %x to %x: %s", (int)c->op, c->via, c->channel, more);
}

UNIT_TEST(a_command_comes_back_from_its_bytes)
{
	for (int op = SGPU_CH_CREATE; op <= SGPU_CH_SUBMIT; op++) {
		for (int with = 0; with < 2; with++) {
			const struct sgpu_command command = sample(op, with);
			struct sgpu_command back;
			char a[512], b[512];
			size_t size;

			REQUIRE(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) ==
				SGPU_OK);
			REQUIRE(sgpu_command_decode(bytes, size, pages, &back, NULL) == SGPU_OK);
			describe(&command, a, sizeof(a));
			describe(&back, b, sizeof(b));
			CHECK(!strcmp(a, b));
		}
	}
}

UNIT_TEST(no_other_length_is_a_command)
{
	for (int op = SGPU_CH_CREATE; op <= SGPU_CH_SUBMIT; op++) {
		for (int with = 0; with < 2; with++) {
			const struct sgpu_command command = sample(op, with);
			struct sgpu_command back;
			size_t size;

			REQUIRE(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) ==
				SGPU_OK);
			bytes[size] = 0;
			CHECK(sgpu_command_decode(bytes, size + 1, pages, &back, NULL) ==
			      SGPU_EINVALID);
			for (size_t less = 0; less < size; less++) {
				uint8_t *exact = malloc(less + 1);

				memcpy(exact, bytes, less);
				CHECK(sgpu_command_decode(exact, less, pages, &back, NULL) ==
				      SGPU_EINVALID);
				free(exact);
			}
			CHECK(sgpu_command_encode(&command, bytes, size - 1, &size, NULL) ==
			      SGPU_EINVALID);
		}
	}
}

UNIT_TEST(unknown_bits_versions_and_operations_are_refused)
{
	struct sgpu_command command = sample(SGPU_CH_PDE, true), back;
	size_t size;

	REQUIRE(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) == SGPU_OK);
	CHECK(bytes[2] == 2 && bytes[3] == 0);
	for (int bit = 0; bit < 16; bit++) {
		bytes[2 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK((sgpu_command_decode(bytes, size, pages, &back, NULL) == SGPU_OK) ==
		      (bit == 1));
		bytes[2 + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	bytes[0] = 2;
	CHECK(sgpu_command_decode(bytes, size, pages, &back, NULL) == SGPU_EINVALID);
	bytes[0] = 1;
	for (int op = 0; op < 256; op++) {
		bytes[1] = (uint8_t)op;
		if (op < SGPU_CH_CREATE || op > SGPU_CH_SUBMIT) {
			CHECK(sgpu_command_decode(bytes, size, pages, &back, NULL) ==
			      SGPU_EINVALID);
		}
	}
}

UNIT_TEST(counts_of_pages_and_bytes_have_limits)
{
	static uint32_t many[SGPU_CHANNEL_PAGES_MAX + 1];
	static uint8_t group[SGPU_GROUP_MAX + 1];
	struct sgpu_command command = sample(SGPU_CH_PTE, true), back;
	size_t size;

	command.pte.pages = many;
	command.pte.count = SGPU_CHANNEL_PAGES_MAX;
	REQUIRE(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) == SGPU_OK);
	CHECK(sgpu_command_decode(bytes, size, pages, &back, NULL) == SGPU_OK);
	command.pte.count++;
	CHECK(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) == SGPU_EINVALID);
	command.pte.count = 0;
	CHECK(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) == SGPU_EINVALID);

	command = sample(SGPU_CH_SUBMIT, false);
	command.submit.group = group;
	command.submit.size = SGPU_GROUP_MAX;
	REQUIRE(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) == SGPU_OK);
	CHECK(sgpu_command_decode(bytes, size, pages, &back, NULL) == SGPU_OK);
	command.submit.size = SGPU_GROUP_MAX + 1;
	CHECK(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) == SGPU_EINVALID);
	command.submit.size = SGPU_TAG_SIZE - 1;
	CHECK(sgpu_command_encode(&command, bytes, sizeof(bytes), &size, NULL) == SGPU_EINVALID);
}

UNIT_TEST(every_refusal_has_a_name_and_a_sentence_of_its_own)
{
	for (int i = 0; i < SGPU_REFUSALS; i++) {
		REQUIRE(sgpu_refusal_name(i) && sgpu_refusal_text(i));
		for (int j = 0; j < i; j++) {
			CHECK(strcmp(sgpu_refusal_name(i), sgpu_refusal_name(j)));
			CHECK(strcmp(sgpu_refusal_text(i), sgpu_refusal_text(j)));
		}
	}
	CHECK(!strcmp(sgpu_refusal_name(SGPU_REFUSED_LOCKED), "locked"));
	CHECK(!strcmp(sgpu_refusal_name(SGPU_REFUSALS), "unknown"));
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
	struct sgpu_summary summary = { .channel = 1,
					.serial = 2,
					.counter = 3,
					.va = 4,
					.size = 5,
					.protected_pages = 6,
					.pages = 7,
					.hash = { 8 } };
	uint8_t seen[16][SGPU_CHANNEL_MAC_SIZE];
	int n = 0;

	sgpu_mac_unmap(&keys, 1, 2, 3, 4, seen[n++]);
	sgpu_mac_unmap(&other, 1, 2, 3, 4, seen[n++]);
	sgpu_mac_unmap(&keys, 9, 2, 3, 4, seen[n++]);
	sgpu_mac_unmap(&keys, 1, 9, 3, 4, seen[n++]);
	sgpu_mac_unmap(&keys, 1, 2, 9, 4, seen[n++]);
	sgpu_mac_unmap(&keys, 1, 2, 3, 9, seen[n++]);
	sgpu_mac_destroy(&keys, 1, 2, seen[n++]);
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.channel++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.counter++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.va++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.size++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.protected_pages++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.pages++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.hash[31]++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	summary.serial++;
	sgpu_mac_summary(&keys, &summary, seen[n++]);
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < i; j++) {
			CHECK(memcmp(seen[i], seen[j], sizeof(seen[i])));
		}
	}
}

UNIT_TEST(a_mask_covers_and_uncovers_and_is_another_for_each_report)
{
	const struct sgpu_channel_keys keys = { .report = { 1 } };
	struct sgpu_measurement a = { .serial = 1, .counter = 1, .digest = { 5 } },
				b = { .serial = 1, .counter = 2, .digest = { 5 } };

	sgpu_mask_measurement(&keys, &a);
	sgpu_mask_measurement(&keys, &b);
	CHECK(memcmp(a.digest, b.digest, sizeof(a.digest)));
	sgpu_mask_measurement(&keys, &a);
	sgpu_mask_measurement(&keys, &b);
	CHECK(a.digest[0] == 5 && b.digest[0] == 5 && !a.digest[31]);
}

UNIT_TEST(a_grant_opens_with_its_owners_key_alone)
{
	struct bench b;
	struct sgpu_session *session = NULL;
	struct sgpu_grant grant;

	bench_open(&b, true);
	REQUIRE(create(&b, 1, 10, &b.owner[0]) == SGPU_REFUSED_NOT);
	CHECK(b.reply.grant.channel == 1 && b.reply.grant.serial);
	CHECK(sgpu_session_open(&b.owner[1], &b.reply.grant, &session, NULL) == SGPU_EKEY &&
	      !session);
	for (size_t i = 0; i < sizeof(grant); i++) {
		grant = b.reply.grant;
		((uint8_t *)&grant)[i] ^= 1;
		CHECK(sgpu_session_open(&b.owner[0], &grant, &session, NULL) != SGPU_OK &&
		      !session);
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
	struct sgpu_summary first, second, altered;

	bench_open(&b, true);
	REQUIRE(create(&b, 1, 10, &b.owner[0]) == SGPU_REFUSED_NOT);
	struct sgpu_session *session = session_of(&b, &b.owner[0]);
	REQUIRE(pde(&b, 1, 0, 11, false) == SGPU_REFUSED_NOT);
	REQUIRE(pte(&b, 1, 0, 0, false, 1, &page) == SGPU_REFUSED_NOT);
	first = b.reply.summary;
	REQUIRE(pte(&b, 1, 0, 1, false, 1, &next) == SGPU_REFUSED_NOT);
	second = b.reply.summary;
	CHECK(first.counter == 1 && second.counter == 2);
	CHECK(first.va == 0 && second.va == SMALL && first.size == SMALL && first.pages == 1 &&
	      first.protected_pages == 1);
	for (size_t i = 0; i < sizeof(altered); i++) {
		altered = first;
		((uint8_t *)&altered)[i] ^= 1;
		CHECK(sgpu_session_summary(session, &altered, NULL) == SGPU_EAUTH);
	}
	CHECK(sgpu_session_summary(session, &first, NULL) == SGPU_OK);
	CHECK(sgpu_session_summary(session, &first, NULL) == SGPU_EAUTH);
	CHECK(sgpu_session_summary(session, &second, NULL) == SGPU_OK);
	CHECK(sgpu_session_summary(session, &first, NULL) == SGPU_EAUTH);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(what_is_too_large_for_a_group_is_not_sealed)
{
	static uint8_t items[SGPU_GROUP_MAX], group[SGPU_GROUP_MAX];
	struct bench b;
	uint64_t counter = 0;

	bench_open(&b, true);
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
	UNIT_RUN(a_command_comes_back_from_its_bytes);
	UNIT_RUN(no_other_length_is_a_command);
	UNIT_RUN(unknown_bits_versions_and_operations_are_refused);
	UNIT_RUN(counts_of_pages_and_bytes_have_limits);
	UNIT_RUN(every_refusal_has_a_name_and_a_sentence_of_its_own);
	UNIT_RUN(keys_depend_on_the_processor_and_differ_from_each_other);
	UNIT_RUN(a_nonce_is_serial_and_counter_big_endian);
	UNIT_RUN(a_mac_depends_on_all_that_it_covers);
	UNIT_RUN(a_mask_covers_and_uncovers_and_is_another_for_each_report);
	UNIT_RUN(a_grant_opens_with_its_owners_key_alone);
	UNIT_RUN(a_session_believes_each_report_once_and_in_order);
	UNIT_RUN(what_is_too_large_for_a_group_is_not_sealed);
	return unit_done();
}
