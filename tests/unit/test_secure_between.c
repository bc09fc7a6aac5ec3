/* SPDX-License-Identifier: Apache-2.0
 *
 * An attacker between the allocator of a secure context and the command processor, who alters
 * commands and replies, keeps them back, and lies about them. Nothing that they make of a message
 * is believed where it matters.
 */
#include "crypto/crypto.h"
#include "channel_check.h"
#include <channel/keys.h>

#include "channel/context.h"

#include "secure_harness.h"

enum attack { NONE, DROP, LIE };

static struct {
	struct sgpu_secure *context;
	struct sgpu_key other; /* of another channel; the attacker knows its public half */
	void (*meddle)(struct sgpu_command *command); /* with commands of the allocator */
	void (*forge)(struct sgpu_reply *reply);      /* with what CH_PTE answers */
	void (*forge_grant)(struct sgpu_grant *grant);
	uint32_t created; /* the last channel that was made */
	enum attack
		word; /* DROP or LIE: what becomes of the owner's authorisation to unmap pages; */
	struct sgpu_command word_command; /* the first one is kept */
} he;

static struct sgpu_device *device;
static struct sgpu_stream *stream;

static int forward(const struct sgpu_command *command, struct sgpu_reply *reply)
{
	return sgpu_processor_command(sgpu_secure_processor(he.context), command, reply);
}

static int lose(enum attack attack, struct sgpu_reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	reply->refusal = attack == LIE ? SGPU_REFUSED_NOT : SGPU_REFUSED_DEVICE;
	reply->code = attack == LIE ? SGPU_OK : SGPU_EDEVICE;
	return reply->code;
}

static int between(void *argument, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	struct sgpu_command changed;
	int rc;

	(void)argument;
	if (he.word != NONE && command->op == SGPU_CH_PTE && command->pte.has_mac) {
		if (he.word_command.op == 0) {
			he.word_command = *command;
		}
		return lose(he.word, reply);
	}
	changed = *command;
	if (he.meddle) {
		he.meddle(&changed);
	}
	rc = forward(&changed, reply);
	if (command->op == SGPU_CH_CREATE && rc == SGPU_OK) {
		he.created = command->channel;
		if (he.forge_grant) {
			he.forge_grant(&reply->grant);
		}
	}
	if (he.forge && command->op == SGPU_CH_PTE && rc == SGPU_OK) {
		he.forge(reply);
	}
	return rc;
}

/* What was attacked still works. */
static bool works(void)
{
	uint8_t data[1000], back[1000] = { 0 };
	sgpu_devptr memory = 0;
	bool good;

	fill(data, sizeof(data), 9);
	good = sgpu_device_alloc(device, sizeof(data), &memory, &error) == SGPU_OK &&
	       put(stream, memory, data, sizeof(data)) == SGPU_OK &&
	       get(stream, back, memory, sizeof(data)) == SGPU_OK &&
	       !memcmp(data, back, sizeof(data));
	sgpu_device_free(device, &memory, sizeof(data));
	return good;
}

/* ---- the allocator's commands ---- */
enum { ORDERS_LEAST = 8 }; /* pages of which some other order's hash begins as that of this one */

/* Puts pages into another order, of which the hash begins as before, if there are enough. */
static void shuffled_pages(struct sgpu_command *command)
{
	static uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
	const uint32_t count = command->pte.count;
	uint8_t before[SGPU_KT128_SIZE], after[SGPU_KT128_SIZE];

	if (command->op != SGPU_CH_PTE || count < 2 || !command->pte.pages) {
		return;
	}
	memcpy(pages, command->pte.pages, count * sizeof(*pages));
	sgpu_kt128(pages, count * sizeof(*pages), NULL, 0, before, sizeof(before));
	memcpy(after, before, sizeof(after));
	pages[0] = command->pte.pages[1];
	pages[1] = command->pte.pages[0];
	while (count >= ORDERS_LEAST &&
	       (after[0] != before[0] || memcmp(after, before, sizeof(after)) == 0)) {
		const uint32_t one = (uint32_t)rand() % count, other = (uint32_t)rand() % count;
		const uint32_t page = pages[one];

		pages[one] = pages[other];
		pages[other] = page;
		sgpu_kt128(pages, count * sizeof(*pages), NULL, 0, after, sizeof(after));
	}
	command->pte.pages = pages;
}

static void fewer_pages(struct sgpu_command *command)
{
	if (command->op == SGPU_CH_PTE && command->pte.count > 1) {
		command->pte.count--;
	}
}

/* All that is said of them is true, but where they are. */
static void other_addresses(struct sgpu_command *command)
{
	if (command->op == SGPU_CH_PTE) {
		command->pte.table_index++;
	}
}

static void no_word_of_the_owner(struct sgpu_command *command)
{
	if (command->op == SGPU_CH_PTE) {
		command->pte.mac[5] ^= 1;
	}
}

static void forge_count(struct sgpu_reply *reply)
{
	reply->report.pages--;
}

static void forge_address(struct sgpu_reply *reply)
{
	reply->report.va += 4096;
}

static void forge_hash(struct sgpu_reply *reply)
{
	reply->report.digest[31] ^= 1;
}

static void forge_mac(struct sgpu_reply *reply)
{
	reply->report.mac[0] ^= 1;
}

static void forge_number(struct sgpu_reply *reply)
{
	reply->report.counter--;
}

/* A context of its own, since memory that was mapped by a lie is not used again. */
static void lie_about_pages(void (*meddle)(struct sgpu_command *),
			    void (*forge)(struct sgpu_reply *), uint64_t size)
{
	struct sgpu_secure_config config = { .between = between, .sibling = he.context };
	struct sgpu_secure *kept = he.context, *other = make_context(&config);
	sgpu_devptr memory = 0;
	int rc;

	REQUIRE(other != NULL);
	he.context = other;
	he.meddle = meddle;
	he.forge = forge;
	rc = sgpu_secure_malloc(other, size, &memory, &error);
	if (rc == SGPU_OK || memory != 0) {
		printf("# it was believed\n");
	}
	CHECK((forge || meddle == other_addresses ? rc == SGPU_EAUTH : rc != SGPU_OK) &&
	      memory == 0);
	he.meddle = NULL;
	he.forge = NULL;
	/* Where he has put pages, the allocator would put the next. */
	CHECK(meddle == other_addresses ||
	      sgpu_secure_malloc(other, 4096, &memory, &error) == SGPU_OK);
	sgpu_secure_free(other, &memory);
	sgpu_secure_destroy(&other);
	he.context = kept;
	CHECK(sgpu_processor_check(sgpu_secure_processor(kept), &error) == SGPU_OK);
}

UNIT_TEST(pages_that_are_not_what_the_allocator_says_are_not_used)
{
	lie_about_pages(shuffled_pages, NULL, (uint64_t)160 << 20);
	lie_about_pages(fewer_pages, NULL, (uint64_t)160 << 20);
	lie_about_pages(other_addresses, NULL, 4096);
	lie_about_pages(NULL, forge_count, 4096);
	lie_about_pages(NULL, forge_address, 4096);
	lie_about_pages(NULL, forge_hash, 4096);
	lie_about_pages(NULL, forge_mac, 4096);
	lie_about_pages(NULL, forge_number, 4096);
}

UNIT_TEST(pages_go_back_with_the_owners_word_alone)
{
	struct sgpu_secure_stats before, after;
	sgpu_devptr memory = 0;

	REQUIRE(sgpu_secure_malloc(he.context, 64 << 20, &memory, &error) == SGPU_OK);
	sgpu_secure_free(he.context, &memory);
	sgpu_secure_get_stats(he.context, &before);
	he.meddle = no_word_of_the_owner;
	CHECK(sgpu_secure_trim(he.context, &error) != SGPU_OK);
	he.meddle = NULL;
	sgpu_secure_get_stats(he.context, &after);
	CHECK(before.mapped_bytes == after.mapped_bytes && after.refused > before.refused);
	CHECK(works());
}

UNIT_TEST(the_owner_authorises_the_unmapping_that_it_asked_for_alone)
{
	struct sgpu_command command = { .op = SGPU_CH_PTE, .pte = { .count = 1 } };
	struct sgpu_pages_info pages;

	REQUIRE(sgpu_device_pages(inner, &pages, &error) == SGPU_OK);
	sgpu_secure_authorise(he.context, &command); /* nothing was asked for */
	CHECK(!command.pte.has_mac);
	he.context->next = pages.big;
	he.context->end = he.context->next + pages.small;
	command.pte.count = 2;
	sgpu_secure_authorise(he.context, &command);
	CHECK(!command.pte.has_mac);
	command.pte.count = 1;
	command.pte.big = true;
	sgpu_secure_authorise(he.context, &command);
	CHECK(!command.pte.has_mac);
	/* As while memory is mapped. */
	he.context->end = 0;
	sgpu_secure_authorise(he.context, &command);
	CHECK(!command.pte.has_mac);
	he.context->next = 0;
	CHECK(works());
}

/* He keeps the owner's word back, and takes the pages away with it when they are, so he hopes, in
 * use again. */
static void keep_a_word(enum attack word)
{
	const uint64_t size = 16 << 20; /* what one command maps */
	struct sgpu_secure_config config = { .between = between, .sibling = he.context };
	struct sgpu_secure *kept = he.context, *other = make_context(&config);
	uint8_t *data = malloc(size), *seen = malloc(size);
	struct sgpu_reply reply = { .refusal = SGPU_REFUSED_NOT };
	struct sgpu_stream *theirs = NULL;
	struct sgpu_pages_info pages;
	sgpu_devptr memory = 0;

	REQUIRE(other != NULL && data && seen);
	he.context = other;
	fill(data, size, 3);
	CHECK(sgpu_secure_malloc(other, size, &memory, &error) == SGPU_OK);
	sgpu_secure_free(other, &memory);
	he.word = word;
	CHECK(sgpu_secure_trim(other, &error) == (word == LIE ? SGPU_EAUTH : SGPU_EDEVICE));
	he.word = NONE;
	CHECK(sgpu_secure_malloc(other, size, &memory, &error) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(other, data, memory, size, &error) == SGPU_OK);
	CHECK(he.word_command.op == SGPU_CH_PTE && forward(&he.word_command, &reply) == SGPU_OK);
	CHECK(sgpu_stream_create(sgpu_secure_device(other), &theirs, &error) == SGPU_OK);
	CHECK(get(theirs, seen, memory, size) == SGPU_OK);
	sgpu_stream_free(&theirs);
	CHECK(memcmp(data, seen, size) == 0);
	sgpu_secure_free(other, &memory);
	/* Where pages are large, copies still have a part of that one: this one is all free again.
	 */
	CHECK(sgpu_device_pages(inner, &pages, &error) == SGPU_OK);
	CHECK(sgpu_secure_malloc(other, pages.big, &memory, &error) == SGPU_OK);
	sgpu_secure_free(other, &memory);
	CHECK(sgpu_secure_trim(other, &error) == SGPU_EAUTH && strstr(error.text, "was lost"));
	sgpu_secure_destroy(&other);
	he.context = kept;
	he.word_command.op = 0;
	CHECK(sgpu_processor_check(sgpu_secure_processor(kept), &error) == SGPU_OK);
	free(data);
	free(seen);
}

UNIT_TEST(a_word_that_was_kept_back_takes_nothing_away_that_is_in_use)
{
	keep_a_word(DROP);
	keep_a_word(LIE);
}

static void false_key(struct sgpu_grant *grant)
{
	grant->sealed_cek[3] ^= 1;
}

static void false_owner(struct sgpu_grant *grant)
{
	grant->owner_hash[0] ^= 1;
}

static void false_serial(struct sgpu_grant *grant)
{
	grant->serial++;
}

static void false_channel(struct sgpu_grant *grant)
{
	grant->channel = he.context->grant.channel;
}

/* The grant of another channel of the same owner: all of it is true, and a second session would
 * share its keys. */
static void old_grant(struct sgpu_grant *grant)
{
	*grant = he.context->grant;
}

/* All of it is right but the key, which the attacker has. */
static void own_key(struct sgpu_grant *grant)
{
	static const uint8_t key[SGPU_KEY_SIZE] = { 1, 2, 3 };
	uint8_t bind[SGPU_GRANT_BIND_SIZE];

	memcpy(bind, grant, sizeof(bind));
	CHECK(sgpu_hpke_seal(he.other.public_half, "sgpu channel v1", 15, bind, sizeof(bind), key,
			     sizeof(key), grant->enc, grant->sealed_cek, NULL) == SGPU_OK);
}

UNIT_TEST(a_grant_that_was_altered_is_refused)
{
	static const struct {
		void (*forge)(struct sgpu_grant *grant);
		bool own, stays;
	} cases[] = {
		{ false_key, false, false },	{ false_owner, false, false },
		{ false_serial, false, false }, { own_key, false, false },
		{ false_channel, false, true }, { old_grant, true, true },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		const uint8_t *key =
			cases[i].own ? he.context->owner.public_half : he.other.public_half;
		struct sgpu_command nowhere = { .op = SGPU_CH_PDE, .pde = { .index = UINT32_MAX } };
		struct sgpu_reply reply = { .refusal = SGPU_REFUSED_NOT };
		struct sgpu_grant grant;

		he.forge_grant = cases[i].forge;
		CHECK(sgpu_secure_channel_open(he.context, key, &grant, &error) == SGPU_EAUTH);
		he.forge_grant = NULL;
		nowhere.channel = he.created;
		/* Nothing of it stays, unless it was given as another's. */
		(void)forward(&nowhere, &reply);
		CHECK((reply.refusal == SGPU_REFUSED_NO_CHANNEL) == !cases[i].stays);
	}
	CHECK(works() &&
	      sgpu_processor_check(sgpu_secure_processor(he.context), &error) == SGPU_OK);
}

int main(void)
{
	struct sgpu_secure_config config = { .between = between };

	DEVICE_OR_SKIP();
	if (!open_inner() || sgpu_key_generate(SGPU_KEY_X25519, &he.other, &error) != SGPU_OK ||
	    sgpu_secure_create(inner, &config, &he.context, &error) != SGPU_OK ||
	    sgpu_stream_create(device = sgpu_secure_device(he.context), &stream, &error) !=
		    SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(pages_that_are_not_what_the_allocator_says_are_not_used);
	UNIT_RUN(a_grant_that_was_altered_is_refused);
	UNIT_RUN(the_owner_authorises_the_unmapping_that_it_asked_for_alone);
	UNIT_RUN(a_word_that_was_kept_back_takes_nothing_away_that_is_in_use);
	UNIT_RUN(pages_go_back_with_the_owners_word_alone);
	sgpu_stream_free(&stream);
	sgpu_secure_destroy(&he.context);
	sgpu_device_close(&inner);
	sgpu_key_clear(&he.other);
	return unit_done();
}
