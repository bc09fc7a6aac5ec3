/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as bytes, one after another, each with its length before it: the processor may refuse
 * them, and after each the invariants hold (hostile.h, sgpu_processor_check). What no owner
 * authorised is never unmapped.
 */
#include <channel/codec.h>
#include <sgpu/channel.h>

#include "../unit/hostile.h"

/* The fuzzer knows no key: only a destruction may take away what is locked. */
static void permit(struct world *world, struct sgpu_processor *processor, const uint8_t *command,
		   size_t size)
{
	static uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
	struct sgpu_command c = { .op = 0 };
	struct sgpu_frame frame;
	bool destroys = sgpu_command_decode(command, size, pages, &c, NULL) == SGPU_OK &&
			c.op == SGPU_CH_DESTROY;

	for (uint32_t i = 0; i < WORLD_FRAMES; i++) {
		world->locked[i] = !destroys &&
				   sgpu_processor_frame(processor, i, &frame) == SGPU_OK &&
				   frame.locked;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world world;
	struct sgpu_processor *processor = NULL;
	struct sgpu_error error = { 0 };
	struct sgpu_reply reply;
	struct sgpu_pager pager;

	memset(&world, 0, sizeof(world));
	pager = world_pager(&world);
	world.may_all = true;
	if (sgpu_processor_create(&pager, world_config(), &processor, NULL) < 0) {
		return 0;
	}
	for (size_t at = 0, length; at + 2 <= size; at += length) {
		length = data[at] | (size_t)data[at + 1] << 8;
		at += 2;
		length = length < size - at ? length : size - at;
		permit(&world, processor, data + at, length);
		sgpu_processor_execute(processor, data + at, length, &reply);
		if (world.broken || sgpu_processor_check(processor, &error) < 0) {
			fprintf(stderr, "%s\n", world.broken ? world.broken : error.text);
			abort();
		}
	}
	memset(world.locked, 0, sizeof(world.locked));
	sgpu_processor_free(&processor);
	return 0;
}
