/* SPDX-License-Identifier: Apache-2.0
 *
 * Someone between a secure context and the command processor: he loses, doubles, reorders, cuts, alters and replays what
 * passes, and lies about it. What he makes of a message is refused; the true one, sent again, does its work.
 */
#include "secure_harness.h"

enum { SIZE = 3 * SGPU_CHUNK + 77, SEALED = SIZE + 4 * SGPU_TAG_SIZE };

enum attack { NONE, DROP, LIE, DOUBLE, OLD, AHEAD, CUT, EMPTY, LONGER, ALTER, OTHER_CHANNEL, FROM_ELSEWHERE, ATTACKS };

static struct {
	struct sgpu_secure *context;
	struct sgpu_key owner;         /* of the context; he knows its public half */
	enum attack attack;
	int at;                        /* the group that it happens to */
	int position;                  /* ALTER: which byte, from the begin, or before the end */
	int groups;                    /* seen */
	int refused, done;             /* what he made of a group */
	bool drop_all;
	uint8_t old[SGPU_GROUP_MAX], last[2][SGPU_GROUP_MAX], held[SGPU_GROUP_MAX];
	struct sgpu_command old_command, held_command;
	struct sgpu_command last_command[2]; /* of the stream's channel, and of the context's first */
	void (*meddle)(struct sgpu_command *command); /* with commands of the allocator */
	void (*forge)(struct sgpu_reply *reply);      /* with what CH_PTE answers */
	void (*forge_grant)(struct sgpu_grant *grant);
	uint32_t created;              /* the last channel that was made */
	enum attack word;              /* DROP or LIE: what becomes of the owner's word that pages may go; */
	struct sgpu_command word_command; /* he keeps the first one */
	uint32_t word_pages[SGPU_CHANNEL_PAGES_MAX];
} he;

static struct sgpu_device *device;
static struct sgpu_stream *stream;

static int forward(const struct sgpu_command *command, struct sgpu_reply *reply)
{
	return sgpu_processor_command(sgpu_secure_processor(he.context), command, reply);
}

static void keep(struct sgpu_command *to, uint8_t *bytes, const struct sgpu_command *from)
{
	*to = *from;
	memcpy(bytes, from->submit.group, from->submit.size);
	to->submit.group = bytes;
}

/* Sends something that must be refused. */
static void send_false(const struct sgpu_command *command)
{
	struct sgpu_reply reply;

	memset(&reply, 0, sizeof(reply));
	he.done++;
	he.refused += forward(command, &reply) != SGPU_OK && reply.refusal != SGPU_REFUSED_NOT;
}

static int lose(enum attack attack, struct sgpu_reply *reply)
{
	he.done++;
	he.refused++;
	memset(reply, 0, sizeof(*reply));
	reply->refusal = attack == LIE ? SGPU_REFUSED_NOT : SGPU_REFUSED_DEVICE;
	reply->code = attack == LIE ? SGPU_OK : SGPU_EDEVICE;
	return reply->code;
}

static bool is_first(const struct sgpu_command *command)
{
	return command->channel == sgpu_secure_grant(he.context)->channel;
}

static void send_changed(const struct sgpu_command *command)
{
	static uint8_t bytes[SGPU_GROUP_MAX + 64];
	struct sgpu_command changed = *command;
	uint32_t size = command->submit.size;

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, command->submit.group, size);
	changed.submit.group = bytes;
	switch (he.attack) {
	case OLD:
		changed = he.old_command;
		break;
	case AHEAD:
		changed.submit.counter++;
		break;
	case CUT:
		changed.submit.size--;
		break;
	case EMPTY:
		changed.submit.size = 0;
		break;
	case LONGER:
		changed.submit.size++;
		break;
	case ALTER:
		bytes[he.position >= 0 ? he.position : (int)size + he.position] ^= 0x10;
		break;
	case OTHER_CHANNEL:
		changed.channel = changed.via = he.last_command[!is_first(command)].channel;
		break;
	case FROM_ELSEWHERE:
		memcpy(bytes, he.last[!is_first(command)], he.last_command[!is_first(command)].submit.size);
		changed.submit.size = he.last_command[!is_first(command)].submit.size;
		break;
	default:
		return;
	}
	send_false(&changed);
}

static int between_groups(const struct sgpu_command *command, struct sgpu_reply *reply)
{
	int number = he.groups++, rc;

	keep(&he.last_command[is_first(command)], he.last[is_first(command)], command);
	if (he.drop_all || ((he.attack == DROP || he.attack == LIE) && number == he.at)) {
		keep(&he.held_command, he.held, command);
		return lose(he.attack, reply);
	}
	if (number == he.at) {
		send_changed(command);
	}
	rc = forward(command, reply);
	if (number == he.at && he.attack == DOUBLE) {
		send_false(command);
	}
	keep(&he.old_command, he.old, command);
	return rc;
}

static int between(void *argument, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	struct sgpu_command changed;
	int rc;

	(void)argument;
	if (command->op == SGPU_CH_SUBMIT) {
		return between_groups(command, reply);
	}
	if (he.word != NONE && command->op == SGPU_CH_PTE && command->pte.has_mac) {
		if (he.word_command.op == 0) {
			he.word_command = *command;
			memcpy(he.word_pages, command->pte.pages, command->pte.count * sizeof(*he.word_pages));
			he.word_command.pte.pages = he.word_pages;
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

/* ---- what a batch does: in, opened, changed, sealed, out ---- */
static int nothing(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	++*(int *)argument;
	return SGPU_OK;
}

static struct sgpu_sealed_keys keys;
static uint8_t plain[SIZE], sealed[SEALED], back[SEALED];

static bool batch(void)
{
	struct sgpu_device_range ranges[2] = { { 0, SEALED }, { 0, SIZE } };
	struct sgpu_task tasks[5] = { { 0 } };
	struct sgpu_device_key *key = NULL;
	int launched = 0;
	bool good;

	memset(back, 0, sizeof(back));
	good = sgpu_device_alloc(device, SEALED, &ranges[0].address, &error) == SGPU_OK &&
	       sgpu_device_alloc(device, SIZE, &ranges[1].address, &error) == SGPU_OK &&
	       sgpu_device_key_load(stream, &keys, &key, &error) == SGPU_OK &&
	       sgpu_copy_in(stream, ranges[0].address, sealed, SEALED, &tasks[0]) == SGPU_OK &&
	       sgpu_device_open_chunks(stream, key, 0, true, ranges[0].address, SEALED, ranges[1].address, &tasks[1]) ==
		       SGPU_OK &&
	       sgpu_device_clear(stream, ranges[0].address, SEALED, &tasks[2]) == SGPU_OK &&
	       sgpu_device_launch_on(stream, nothing, &launched, ranges, 2, &tasks[3]) == SGPU_OK &&
	       sgpu_device_seal_chunks(stream, key, 0, true, ranges[1].address, SIZE, ranges[0].address, NULL) ==
		       SGPU_OK &&
	       sgpu_copy_out(stream, back, ranges[0].address, SEALED, &tasks[4]) == SGPU_OK;
	good = sgpu_stream_sync(stream, &error) == SGPU_OK && good;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(tasks); i++) {
		good = good && tasks[i].code == SGPU_OK;
	}
	sgpu_device_key_free(&key);
	sgpu_device_free(device, &ranges[0].address, SEALED);
	sgpu_device_free(device, &ranges[1].address, SIZE);
	return good && launched == 1 && !memcmp(back, sealed, SEALED);
}

/* An attack on each group of the batch in turn. */
static void attack_each(enum attack attack, int position)
{
	int groups, bad = 0;

	he.groups = 0;
	he.at = -1;
	he.attack = NONE;
	CHECK(batch());
	groups = he.groups;
	CHECK(groups == 10);
	he.attack = attack;
	he.position = position;
	for (int i = 0; i < groups; i++) {
		he.groups = he.done = he.refused = 0;
		he.at = i;
		if (!batch() || he.done != 1 || he.refused != 1) {
			printf("# attack %d on group %d: %d done, %d refused: %s\n", (int)attack, i, he.done, he.refused,
			       error.text);
			bad++;
		}
	}
	he.attack = NONE;
	CHECK(bad == 0);
}

UNIT_TEST(a_group_that_is_lost_is_sent_again)
{
	attack_each(DROP, 0);
	attack_each(LIE, 0);
}

UNIT_TEST(a_group_is_carried_out_once)
{
	attack_each(DOUBLE, 0);
	attack_each(OLD, 0);
	attack_each(AHEAD, 0);
}

UNIT_TEST(a_group_of_another_size_is_refused)
{
	attack_each(CUT, 0);
	attack_each(EMPTY, 0);
	attack_each(LONGER, 0);
}

UNIT_TEST(a_group_that_was_altered_is_refused_wherever_that_was)
{
	/* The ticket, the number of items, the item's kind and size, what follows; the tag. */
	static const int positions[] = { 0, 7, 8, 16, 20, 24, 31, 32, -40, -17, -16, -1 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(positions); i++) {
		attack_each(ALTER, positions[i]);
	}
}

UNIT_TEST(a_group_of_another_channel_is_refused)
{
	attack_each(OTHER_CHANNEL, 0);
	attack_each(FROM_ELSEWHERE, 0);
}

UNIT_TEST(a_group_that_never_comes_through_breaks_its_stream_and_is_refused_later)
{
	struct sgpu_stream *other = NULL;
	struct sgpu_task task = { 0 };
	struct sgpu_reply reply;
	uint8_t data[100] = { 1, 2, 3 };
	sgpu_devptr memory = 0;

	REQUIRE(sgpu_stream_create(device, &other, &error) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, 100, &memory, &error) == SGPU_OK);
	he.groups = 0;
	he.drop_all = true;
	CHECK(sgpu_copy_in(other, memory, data, 100, &task) == SGPU_EAUTH && task.code == SGPU_EAUTH);
	CHECK(strstr(task.error.text, "did not get through") != NULL && he.groups == 3);
	he.drop_all = false;
	CHECK(sgpu_copy_in(other, memory, data, 100, &task) == SGPU_EAUTH && strstr(task.error.text, "broken"));
	/* He kept it. Its seal and its number are right, and what it points at may be gone. */
	memset(&reply, 0, sizeof(reply));
	CHECK(forward(&he.held_command, &reply) != SGPU_OK && reply.refusal == SGPU_REFUSED_GROUP);
	CHECK(get(stream, data, memory, 100) == SGPU_OK && all_zero(data, 100));
	CHECK(batch());
	sgpu_stream_free(&other);
	CHECK(sgpu_stream_create(device, &other, &error) == SGPU_OK && put(other, memory, "x", 1) == SGPU_OK);
	sgpu_stream_free(&other);
	sgpu_device_free(device, &memory, 100);
}

/* ---- the allocator's commands ---- */
static void unprotected_page(struct sgpu_command *command)
{
	static uint32_t pages[SGPU_CHANNEL_PAGES_MAX];

	if (command->op == SGPU_CH_PTE && !command->pte.big && command->pte.pages[0] != SGPU_NO_FRAME) {
		memcpy(pages, command->pte.pages, command->pte.count * sizeof(*pages));
		pages[0] = 1;
		command->pte.pages = pages;
	}
}

static void swapped_pages(struct sgpu_command *command)
{
	static uint32_t pages[SGPU_CHANNEL_PAGES_MAX];

	if (command->op == SGPU_CH_PTE && command->pte.count > 1 && command->pte.pages[0] != SGPU_NO_FRAME) {
		memcpy(pages, command->pte.pages, command->pte.count * sizeof(*pages));
		pages[0] = command->pte.pages[1];
		pages[1] = command->pte.pages[0];
		command->pte.pages = pages;
	}
}

static void fewer_pages(struct sgpu_command *command)
{
	if (command->op == SGPU_CH_PTE && command->pte.count > 1) {
		command->pte.count--;
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
	reply->summary.protected_pages--;
}

static void forge_address(struct sgpu_reply *reply)
{
	reply->summary.va += 4096;
}

static void forge_hash(struct sgpu_reply *reply)
{
	reply->summary.hash[31] ^= 1;
}

static void forge_mac(struct sgpu_reply *reply)
{
	reply->summary.mac[0] ^= 1;
}

static void forge_number(struct sgpu_reply *reply)
{
	reply->summary.counter--;
}

/* A context of its own, since memory that was mapped by a lie is not used again. */
static void lie_about_pages(void (*meddle)(struct sgpu_command *), void (*forge)(struct sgpu_reply *), uint64_t size)
{
	struct sgpu_secure_config config = { .between = between, .beside = he.context };
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
	CHECK(rc != SGPU_OK && memory == 0);
	he.meddle = NULL;
	he.forge = NULL;
	CHECK(sgpu_secure_malloc(other, 4096, &memory, &error) == SGPU_OK);
	sgpu_secure_free(other, &memory);
	sgpu_secure_destroy(&other);
	he.context = kept;
	CHECK(sgpu_processor_check(sgpu_secure_processor(kept), &error) == SGPU_OK);
}

UNIT_TEST(pages_that_are_not_what_the_allocator_says_are_not_used)
{
	lie_about_pages(swapped_pages, NULL, (uint64_t)160 << 20);
	lie_about_pages(fewer_pages, NULL, (uint64_t)160 << 20);
	lie_about_pages(NULL, forge_count, 4096);
	lie_about_pages(NULL, forge_address, 4096);
	lie_about_pages(NULL, forge_hash, 4096);
	lie_about_pages(NULL, forge_mac, 4096);
	lie_about_pages(NULL, forge_number, 4096);
}

UNIT_TEST(a_page_that_the_host_reads_is_not_taken)
{
	struct sgpu_device_config config = { .jobs = 1, .memory_limit = 6 << 20 };
	struct sgpu_secure_config between_config = { .between = between };
	struct sgpu_device *small = NULL, *whole = inner;
	struct sgpu_secure *kept = he.context;
	sgpu_devptr memory = 0;

	CPU_ONLY("its memory is limited to few small pages");
	REQUIRE(sgpu_device_open(test_device(), &config, &small, &error) == SGPU_OK);
	inner = small;
	CHECK(sgpu_secure_create(small, &between_config, &he.context, &error) == SGPU_OK);
	he.meddle = unprotected_page;
	/* More than the big pages: some come as small ones. */
	CHECK(sgpu_secure_malloc(he.context, (9 << 20) / 2, &memory, &error) == SGPU_EAUTH && memory == 0);
	CHECK(strstr(error.text, "protected") != NULL);
	he.meddle = NULL;
	sgpu_secure_destroy(&he.context);
	sgpu_device_close(&small);
	inner = whole;
	he.context = kept;
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
	CHECK(batch());
}

/* He keeps the owner's word back, and takes the pages away with it when they are, so he hopes, in use again. */
static void keep_a_word(enum attack word)
{
	const uint64_t size = 16 << 20; /* what one command maps */
	struct sgpu_secure_config config = { .between = between, .beside = he.context };
	struct sgpu_secure *kept = he.context, *other = make_context(&config);
	uint8_t *data = malloc(size), *seen = malloc(size);
	struct sgpu_reply reply = { .refusal = SGPU_REFUSED_NOT };
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
	/* An allocator that was told that the pages are free again gives them again. */
	CHECK(word != LIE || sgpu_secure_malloc(other, size, &memory, &error) == SGPU_EAUTH);
	CHECK(sgpu_secure_malloc(other, size, &memory, &error) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(other, data, memory, size, SGPU_SECURE_TO_DEVICE, &error) == SGPU_OK);
	CHECK(he.word_command.op == SGPU_CH_PTE && forward(&he.word_command, &reply) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(other, seen, memory, size, SGPU_SECURE_TO_HOST, &error) == SGPU_OK);
	CHECK(memcmp(data, seen, size) == 0);
	sgpu_secure_free(other, &memory);
	/* Where pages are large, copies still have a part of that one: this one is all free again. */
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
	grant->channel = sgpu_secure_grant(he.context)->channel;
}

/* All of it right but the key, which he has. */
static void own_key(struct sgpu_grant *grant)
{
	static const uint8_t key[SGPU_KEY_SIZE] = { 1, 2, 3 };
	uint8_t bind[SGPU_GRANT_BIND_SIZE];

	sgpu_grant_bind(grant, bind);
	CHECK(sgpu_hpke_seal(he.owner.public_half, "sgpu channel v1", 15, bind, sizeof(bind), key, sizeof(key), grant->enc,
			     grant->sealed_cek, NULL) == SGPU_OK);
}

UNIT_TEST(a_grant_that_was_altered_is_refused)
{
	static void (*const forgeries[])(struct sgpu_grant *) = { false_key, false_owner, false_serial, false_channel,
								  own_key };
	struct sgpu_stream *spare[SGPU_ARRAY_LENGTH(forgeries) + 8], *other = NULL;
	size_t spares = 0;

	/* Streams that were kept need no channel; these are made until one is. */
	for (uint32_t before = he.created; spares < SGPU_ARRAY_LENGTH(spare) && he.created == before; spares++) {
		REQUIRE(sgpu_stream_create(device, &spare[spares], &error) == SGPU_OK);
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(forgeries); i++) {
		struct sgpu_command nowhere = { .op = SGPU_CH_PDE, .pde = { .index = UINT32_MAX } };
		struct sgpu_reply reply = { .refusal = SGPU_REFUSED_NOT };

		he.forge_grant = forgeries[i];
		CHECK(sgpu_stream_create(device, &other, &error) == SGPU_EAUTH);
		he.forge_grant = NULL;
		nowhere.channel = he.created;
		/* Nothing of it stays, unless it was given as another's. */
		(void)forward(&nowhere, &reply);
		CHECK((reply.refusal == SGPU_REFUSED_NO_CHANNEL) == (forgeries[i] != false_channel));
	}
	while (spares > 0) {
		sgpu_stream_free(&spare[--spares]);
	}
	CHECK(batch());
}

static void make_payload(void)
{
	uint8_t secret[SGPU_KEY_SIZE] = { 7 };
	struct sgpu_aead *aead = NULL;

	fill(plain, SIZE, 9);
	if (sgpu_sealed_keys_new(secret, "test", 4, &keys, &error) || sgpu_aead_create(NULL, keys.key, &aead, &error) ||
	    sgpu_seal_chunks(aead, &keys, 0, true, plain, SIZE, sealed)) {
		abort();
	}
	sgpu_aead_free(&aead);
}

int main(void)
{
	struct sgpu_secure_config config = { .between = between, .owner = &he.owner };

	DEVICE_OR_SKIP();
	make_payload();
	if (!open_inner() || sgpu_key_generate(SGPU_KEY_X25519, &he.owner, &error) != SGPU_OK ||
	    sgpu_secure_create(inner, &config, &he.context, &error) != SGPU_OK ||
	    sgpu_stream_create(device = sgpu_secure_device(he.context), &stream, &error) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(a_group_that_is_lost_is_sent_again);
	UNIT_RUN(a_group_is_carried_out_once);
	UNIT_RUN(a_group_of_another_size_is_refused);
	UNIT_RUN(a_group_that_was_altered_is_refused_wherever_that_was);
	UNIT_RUN(a_group_of_another_channel_is_refused);
	UNIT_RUN(a_group_that_never_comes_through_breaks_its_stream_and_is_refused_later);
	UNIT_RUN(pages_that_are_not_what_the_allocator_says_are_not_used);
	UNIT_RUN(a_page_that_the_host_reads_is_not_taken);
	UNIT_RUN(a_grant_that_was_altered_is_refused);
	UNIT_RUN(a_word_that_was_kept_back_takes_nothing_away_that_is_in_use);
	UNIT_RUN(pages_go_back_with_the_owners_word_alone);
	sgpu_stream_free(&stream);
	sgpu_secure_destroy(&he.context);
	sgpu_device_close(&inner);
	sgpu_key_clear(&he.owner);
	return unit_done();
}
