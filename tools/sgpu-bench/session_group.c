/* SPDX-License-Identifier: Apache-2.0
 *
 * A sealed command group of the case session by itself: sealed, sent, its number compared, opened, and nothing done
 * with what is in it.
 */
#include <string.h>

#include <channel/processor/request.h>

#include "cases.h"

enum { GROUPS = 256, FRAMES = 64, APART = 16, FILLER = 0x5a };

struct sender {
	struct sgpu_pager pager;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	struct sgpu_key owner;
	struct sgpu_session *session;
	uint32_t channel;
	size_t size;               /* of the items */
	uint64_t arrived;          /* groups with the right bytes in them */
	uint8_t items[SGPU_GROUP_MAX - SGPU_TAG_SIZE], group[SGPU_GROUP_MAX], opened[SGPU_GROUP_MAX];
};

static int send_command(void *processor, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	return sgpu_processor_command(processor, command, reply);
}

static int run(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct sender *s = argument;
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT, .via = s->channel, .channel = s->channel,
					.submit = { .group = s->group, .size = (uint32_t)s->size + SGPU_TAG_SIZE } };
	struct sgpu_reply reply = { 0 };
	uint64_t begin = sgpu_now_ns();
	size_t size = 0;
	int rc = SGPU_OK;

	s->arrived = 0;
	for (int i = 0; rc == SGPU_OK && i < GROUPS; i++) {
		rc = sgpu_session_seal(s->session, s->items, s->size, s->group, &command.submit.counter, error);
		if (rc == SGPU_OK &&
		    sgpu_processor_open_group(s->processor, &command, s->opened, &size, &reply) != SGPU_OK) {
			rc = sgpu_fail(error, SGPU_EDIFFERS, "a group was refused: %s", reply.error.text);
		}
		s->arrived += rc == SGPU_OK && size == s->size && s->opened[0] == FILLER && s->opened[size - 1] == FILLER;
	}
	*ns = sgpu_now_ns() - begin;
	return rc;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct sender *s = argument;

	return s->arrived == GROUPS ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "%llu groups of %d arrived as they were sent",
			 (unsigned long long)s->arrived, GROUPS);
}

static int set_up(struct sgpu_bench *bench, struct sender *s, struct sgpu_error *error)
{
	const struct sgpu_processor_config config = { .frames = FRAMES, .unprotected = APART, .hidden = APART };
	struct sgpu_grant grant;
	int rc = sgpu_pager_of(bench->device, &s->pager, error);

	rc = rc == SGPU_OK ? sgpu_processor_create(&s->pager, &config, &s->processor, error) : rc;
	rc = rc == SGPU_OK ? sgpu_key_generate(SGPU_KEY_X25519, &s->owner, error) : rc;
	if (rc == SGPU_OK) {
		rc = sgpu_allocator_create(&s->pager.info, &config, send_command, s->processor, &s->allocator, error);
	}
	rc = rc ? rc : sgpu_allocator_channel(s->allocator, s->owner.public_half, &grant, error);
	if (rc == SGPU_OK) {
		s->channel = grant.channel;
		rc = sgpu_session_open(&s->owner, &grant, &s->session, error);
	}
	return rc;
}

int bench_session_group(struct sgpu_bench *bench, struct sgpu_error *error)
{
	/* A launch with one range; the most that fits. */
	static const size_t sizes[] = { 72, SGPU_GROUP_MAX - SGPU_TAG_SIZE };
	struct sender s = { .size = 0 };
	const struct sgpu_bench_variant variant = { .name = "sealed group", .run = run, .verify = verify,
						    .argument = &s };
	int rc = set_up(bench, &s, error);

	memset(s.items, FILLER, sizeof(s.items));
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(sizes); i++) {
		struct sgpu_bench_point point = { .parameters = { { "what", "group", 0 },
								  { "group_bytes", NULL, sizes[i] },
								  { "groups", NULL, GROUPS } },
						  .operations = GROUPS };

		s.size = sizes[i];
		rc = sgpu_bench_measure(bench, &point, &variant, 1, error);
	}
	sgpu_session_close(&s.session);
	sgpu_allocator_free(&s.allocator);
	sgpu_processor_free(&s.processor);
	sgpu_pager_close(&s.pager);
	sgpu_key_clear(&s.owner);
	return rc;
}
