/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command processor costs besides the device's own calls: `channel_costs` prints, one a
 * line, the median and the least nanoseconds of a CH_PTE that maps 8 pages (checks, summary
 * with its MAC, one call of the device, which is host memory here), of
 * the one that unmaps them with the owner's word, and of a sealed group of 100 bytes: sealed,
 * opened, both.
 */
#include <stdio.h>
#include <stdlib.h>

#include "crypto/crypto.h"
#include "channel/group.h"
#include "channel_check.h"
#include <sgpu/base.h>

#include "../unit/fake_pager.h"

enum { FRAMES = 1024, ROUNDS = 2000, GROUPS = 200000, PAGES = 8, ITEMS = 100, CHANNEL = 1 };

struct bench {
	struct fake_pager fake;
	struct sgpu_device *device;
	struct sgpu_processor *processor;
	struct sgpu_session *session;
	struct sgpu_reply reply;
};

static void must(int code, const struct sgpu_error *error)
{
	if (code != SGPU_OK) {
		fprintf(stderr, "channel_costs: %s\n",
			error && error->text[0] ? error->text : sgpu_strerror(code));
		exit(3);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print(const char *what, uint64_t *times, uint64_t each)
{
	qsort(times, ROUNDS, sizeof(*times), by_value);
	printf("%-40s median %6.0f ns, least %6.0f ns\n", what,
	       (double)times[ROUNDS / 2] / (double)each, (double)times[0] / (double)each);
}

static void open_channel(struct bench *b)
{
	const struct sgpu_processor_config config = { .frames = FRAMES };
	struct sgpu_command command = { .op = SGPU_CH_CREATE, .channel = CHANNEL };
	struct sgpu_error error = { 0 };
	struct sgpu_key owner;

	b->device = fake_pager_init(&b->fake, FRAMES, 4096, 16);
	must(sgpu_processor_create(b->device, &config, &b->processor, &error), &error);
	must(sgpu_key_generate(SGPU_KEY_X25519, &owner, &error), &error);
	command.create.directory = 1;
	memcpy(command.create.owner_key, owner.public_half, 32);
	must(sgpu_processor_command(b->processor, &command, &b->reply), &b->reply.error);
	must(sgpu_session_open(&owner, &b->reply.grant, &b->session, &error), &error);
	sgpu_key_clear(&owner);
	command = (struct sgpu_command){ .op = SGPU_CH_PDE,
					 .channel = CHANNEL,
					 .pde = { .table = 2 } };
	must(sgpu_processor_command(b->processor, &command, &b->reply), &b->reply.error);
}

/* Maps and unmaps by turns. */
static void time_pages(struct bench *b, uint64_t *up, uint64_t *down)
{
	uint32_t pages[PAGES];

	for (uint32_t i = 0; i < PAGES; i++) {
		pages[i] = 100 + 3 * i;
	}
	for (int i = 0; i < 2 * ROUNDS; i++) {
		struct sgpu_command command = { .op = SGPU_CH_PTE,
						.channel = CHANNEL,
						.pte = { .count = PAGES,
							 .pages = i % 2 ? NULL : pages } };

		if (i % 2) {
			command.pte.has_mac = true;
			sgpu_session_authorise(b->session, (const uint64_t[]){ 0, PAGES * 4096 },
					       &command.pte.mac_counter, command.pte.mac);
		}
		uint64_t begin = sgpu_now_ns();
		must(sgpu_processor_command(b->processor, &command, &b->reply), &b->reply.error);
		(i % 2 ? down : up)[i / 2] = sgpu_now_ns() - begin;
		must(sgpu_session_report(b->session, SGPU_CH_PTE, &b->reply.report,
					 &b->reply.error),
		     &b->reply.error);
	}
}

static void time_groups(struct bench *b, uint64_t *seal, uint64_t *open, uint64_t *total)
{
	enum { BATCH = GROUPS / ROUNDS };
	static uint8_t groups[BATCH][ITEMS + SGPU_TAG_SIZE];
	static const uint8_t items[ITEMS] = "items of a group";
	static uint8_t opened[SGPU_GROUP_MAX];
	uint64_t first = 0;
	size_t size;

	for (int i = 0; i < ROUNDS; i++) {
		struct sgpu_command command = { .op = SGPU_CH_SUBMIT, .channel = CHANNEL };
		uint64_t begin = sgpu_now_ns(), middle, counter;

		for (int g = 0; g < BATCH; g++) {
			must(sgpu_session_seal(b->session, items, ITEMS, groups[g], &counter, NULL),
			     NULL);
		}
		middle = sgpu_now_ns();
		for (int g = 0; g < BATCH; g++) {
			command.submit.group = groups[g];
			command.submit.size = sizeof(groups[g]);
			command.submit.counter = ++first;
			must(sgpu_processor_open_group(b->processor, &command, opened, &size,
						       &b->reply),
			     &b->reply.error);
			*total += size;
		}
		seal[i] = middle - begin;
		open[i] = sgpu_now_ns() - middle;
	}
}

int main(void)
{
	static uint64_t times[3][ROUNDS];
	static struct bench bench;
	uint64_t total = 0;

	open_channel(&bench);
	printf("%s\n", sgpu_aead_provider());
	time_pages(&bench, times[0], times[1]);
	print("CH_PTE, 8 pages mapped", times[0], 1);
	print("CH_PTE, 8 pages unmapped", times[1], 1);
	time_groups(&bench, times[0], times[1], &total);
	for (int i = 0; i < ROUNDS; i++) {
		times[2][i] = times[0][i] + times[1][i];
	}
	print("group of 100 bytes, sealed", times[0], GROUPS / ROUNDS);
	print("group of 100 bytes, opened", times[1], GROUPS / ROUNDS);
	print("group of 100 bytes, both", times[2], GROUPS / ROUNDS);
	if (total != (uint64_t)GROUPS * ITEMS) {
		fprintf(stderr, "channel_costs: %llu bytes arrived\n", (unsigned long long)total);
		return 3;
	}
	sgpu_session_close(&bench.session);
	sgpu_processor_free(&bench.processor);
	fake_pager_clear(&bench.fake);
	return 0;
}
