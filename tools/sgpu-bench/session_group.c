/* SPDX-License-Identifier: Apache-2.0
 *
 * A sealed command group of the case session by itself: sealed, sent, its number compared, opened,
 * and nothing done with what is in it.
 */
#include <string.h>

#include <channel/processor/request.h>

#include "cases.h"

enum { GROUPS = 256, BIG_PAGES = 2, FILLER = 0x5a };

struct sender {
	struct bench_channel *channel;
	size_t size; /* of the items */
	uint8_t items[SGPU_GROUP_MAX - SGPU_TAG_SIZE], group[SGPU_GROUP_MAX],
		opened[SGPU_GROUP_MAX];
};

static int send_groups(void *argument, struct sgpu_error *error)
{
	struct sender *s = argument;
	const struct bench_channel *channel = s->channel;
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					.via = channel->number,
					.channel = channel->number,
					.submit = { .group = s->group,
						    .size = (uint32_t)s->size + SGPU_TAG_SIZE } };
	struct sgpu_reply reply = { 0 };
	size_t size = 0;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < GROUPS; i++) {
		rc = sgpu_session_seal(channel->session, s->items, s->size, s->group,
				       &command.submit.counter, error);
		if (rc == SGPU_OK &&
		    sgpu_processor_open_group(channel->processor, &command, s->opened, &size,
					      &reply) != SGPU_OK) {
			rc = sgpu_fail(error, SGPU_EDIFFERS, "a group was refused: %s",
				       reply.error.text);
		}
		if (rc == SGPU_OK &&
		    (size != s->size || s->opened[0] != FILLER || s->opened[size - 1] != FILLER)) {
			rc = sgpu_fail(error, SGPU_EDIFFERS,
				       "a group did not arrive as it was sent");
		}
	}
	return rc;
}

int bench_session_group(struct sgpu_bench *bench, struct sgpu_error *error)
{
	/* A launch with one range; the most that fits. */
	static const size_t sizes[] = { 72, SGPU_GROUP_MAX - SGPU_TAG_SIZE };
	const size_t mark = sgpu_bench_mark(bench);
	struct sender s = { .size = 0 };
	const struct sgpu_bench_variant variant = { .name = "sealed group",
						    .work = send_groups,
						    .argument = &s };
	int rc = bench_new_channel(bench, BIG_PAGES, &s.channel, error);

	memset(s.items, FILLER, sizeof(s.items));
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(sizes); i++) {
		struct sgpu_bench_point point = { .parameters = { { "what", "group", 0 },
								  { "group_bytes", NULL, sizes[i] },
								  { "groups", NULL, GROUPS } },
						  .operations = GROUPS };

		s.size = sizes[i];
		rc = sgpu_bench_measure(bench, &point, &variant, 1, error);
	}
	sgpu_bench_release(bench, mark);
	return rc;
}
