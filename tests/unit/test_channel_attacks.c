/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks of the Graviton paper, each by its name, on a real device: whose memory they would
 * reach holds a secret, and what became of that is looked at through the device itself.
 * SGPU_TEST_DEVICE names the device.
 */
#include "channel_check.h"
#include "channel/channel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "channel_scene.h"
#include "device_harness.h"

enum { SECRET_SIZE = 4096 };

static const char secret[] = "what Alice keeps in her pages";

struct stage {
	struct sgpu_device *device;
	struct sgpu_stream *stream;
	struct scene scene;
	struct sgpu_processor_config config;
	uint32_t per_big;
};

static bool begin(struct stage *s)
{
	struct sgpu_error error = { 0 };

	memset(s, 0, sizeof(*s));
	s->device = open_test_device(0, 0);
	if (!s->device || sgpu_stream_create(s->device, &s->stream, &error) < 0 ||
	    sgpu_device_pages(s->device, &s->scene.pages, &error) < 0) {
		printf("# %s\n", error.text);
		return false;
	}
	s->scene.device = s->device;
	s->per_big = (uint32_t)(s->scene.pages.big / s->scene.pages.small);
	s->config = (struct sgpu_processor_config){
		.frames = 8 * s->per_big - 1,
		.space_size = 2 * SGPU_CHANNEL_ENTRIES * s->scene.pages.small,
	};
	return scene_begin(&s->scene, &s->config);
}

static void end(struct stage *s)
{
	sgpu_stream_free(&s->stream);
	sgpu_processor_free(&s->scene.processor);
	sgpu_device_close(&s->device);
}

static uint32_t frame(uint32_t number)
{
	return SCENE_DATA + number;
}

static sgpu_devptr address(struct stage *s, uint32_t channel, uint32_t place)
{
	sgpu_devptr base = 0;

	CHECK(sgpu_processor_space(s->scene.processor, channel, &base, NULL) == SGPU_OK);
	return base + place * s->scene.pages.small;
}

/* As the owner's own kernel would: with the context active. */
static int write_secret(struct stage *s, uint32_t channel, uint32_t place)
{
	static uint8_t data[SECRET_SIZE];
	struct sgpu_task task = { 0 };
	int rc = sgpu_processor_activate(s->scene.processor, channel, NULL);

	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)secret[i % (sizeof(secret) - 1)];
	}
	if (rc == SGPU_OK) {
		rc = sgpu_copy_in(s->stream, address(s, channel, place), data, sizeof(data), &task);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_sync(s->stream, NULL);
	}
	return rc == SGPU_OK ? task.code : rc;
}

static int read_bytes(struct stage *s, uint32_t channel, uint32_t place, uint8_t data[SECRET_SIZE])
{
	struct sgpu_task task = { 0 };
	int rc = sgpu_processor_activate(s->scene.processor, channel, NULL);

	memset(data, 0x77, SECRET_SIZE);
	if (rc == SGPU_OK) {
		rc = sgpu_copy_out(s->stream, data, address(s, channel, place), SECRET_SIZE, &task);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_sync(s->stream, NULL);
	}
	return rc == SGPU_OK ? task.code : rc;
}

static bool is_secret(struct stage *s, uint32_t channel, uint32_t place)
{
	static uint8_t data[SECRET_SIZE];

	return read_bytes(s, channel, place, data) == SGPU_OK &&
	       memcmp(data, secret, sizeof(secret) - 1) == 0;
}

static bool is_zero(struct stage *s, uint32_t channel, uint32_t place)
{
	static uint8_t data[SECRET_SIZE];
	static const uint8_t zeros[SECRET_SIZE];

	return read_bytes(s, channel, place, data) == SGPU_OK &&
	       memcmp(data, zeros, sizeof(zeros)) == 0;
}

UNIT_TEST(aliasing_a_page_of_another_context_is_refused)
{
	struct stage s;

	REQUIRE(begin(&s));
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(scene_map(&s.scene, BOB, 0, frame(0)) == SGPU_REFUSED_FOREIGN);
	/* Alice's MAC does not make it Bob's, nor does his own. */
	const uint32_t page = frame(0);
	CHECK(scene_pte(&s.scene, BOB, 0, &page, 1, false, ALICE) != SGPU_REFUSED_NOT);
	CHECK(scene_pte(&s.scene, BOB, 0, &page, 1, false, BOB) != SGPU_REFUSED_NOT);
	CHECK(is_secret(&s, ALICE, 0));
	end(&s);
}

UNIT_TEST(aliasing_through_a_big_page_is_refused)
{
	struct stage s;
	uint32_t big, inside;

	REQUIRE(begin(&s));
	big = 2 * s.per_big;
	inside = big + 3;
	CHECK(scene_pde(&s.scene, BOB, 0, SCENE_BOB_BIG, true) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, ALICE, 0, inside) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(scene_pte(&s.scene, BOB, 1, &big, 1, true, -1) == SGPU_REFUSED_FOREIGN);
	CHECK(is_secret(&s, ALICE, 0));
	/* The other way round: a small page out of a big one. */
	big = 3 * s.per_big;
	CHECK(scene_pte(&s.scene, BOB, 1, &big, 1, true, -1) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, ALICE, 1, big + 1) == SGPU_REFUSED_FOREIGN);
	end(&s);
}

UNIT_TEST(mapping_one_page_at_two_addresses_is_refused)
{
	struct stage s;

	REQUIRE(begin(&s));
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(scene_map(&s.scene, ALICE, 1, frame(0)) == SGPU_REFUSED_ALIAS);
	const uint32_t twice[2] = { frame(1), frame(1) };
	CHECK(scene_pte(&s.scene, ALICE, 2, twice, 2, false, -1) == SGPU_REFUSED_ALIAS);
	CHECK(is_secret(&s, ALICE, 0));
	end(&s);
}

UNIT_TEST(mapping_two_pages_at_one_address_is_refused)
{
	struct stage s;
	uint32_t big;

	REQUIRE(begin(&s));
	big = 2 * s.per_big;
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(scene_map(&s.scene, ALICE, 0, frame(1)) != SGPU_REFUSED_NOT);
	CHECK(scene_pde(&s.scene, ALICE, 0, SCENE_ALICE_BIG, true) == SGPU_REFUSED_NOT);
	CHECK(scene_pte(&s.scene, ALICE, 0, &big, 1, true, -1) == SGPU_REFUSED_ALIAS);
	CHECK(is_secret(&s, ALICE, 0));
	end(&s);
}

UNIT_TEST(unmapping_without_the_owners_mac_is_refused)
{
	struct stage s;

	REQUIRE(begin(&s));
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(scene_unmap(&s.scene, ALICE, 0, -1) == SGPU_REFUSED_LOCKED);
	CHECK(scene_unmap(&s.scene, ALICE, 0, BOB) == SGPU_REFUSED_MAC);
	CHECK(scene_pde(&s.scene, ALICE, 0, SGPU_NO_FRAME, false) != SGPU_REFUSED_NOT);
	CHECK(scene_pde(&s.scene, ALICE, 0, SCENE_SPARE, false) != SGPU_REFUSED_NOT);
	CHECK(is_secret(&s, ALICE, 0));
	CHECK(scene_unmap(&s.scene, ALICE, 0, ALICE) == SGPU_REFUSED_NOT);
	end(&s);
}

UNIT_TEST(an_old_authorisation_is_refused)
{
	struct stage s;
	uint64_t before;

	REQUIRE(begin(&s));
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	before = s.scene.channels[ALICE].authorised;
	CHECK(scene_unmap(&s.scene, ALICE, 0, ALICE) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	s.scene.channels[ALICE].authorised = before;
	CHECK(scene_unmap(&s.scene, ALICE, 0, ALICE) == SGPU_REFUSED_MAC);
	CHECK(is_secret(&s, ALICE, 0));
	end(&s);
}

UNIT_TEST(stale_translations_in_a_table_are_cleared)
{
	struct stage s;
	const uint32_t spare = SCENE_SPARE;

	REQUIRE(begin(&s));
	/* Bob fills a table, leaves, and the driver gives its frame to Alice as hers. */
	CHECK(scene_map(&s.scene, BOB, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, BOB, 0) == SGPU_OK);
	CHECK(scene_destroy(&s.scene, BOB, -1) == SGPU_REFUSED_NOT);
	CHECK(scene_pde(&s.scene, ALICE, 0, SGPU_NO_FRAME, false) == SGPU_REFUSED_NOT);
	CHECK(scene_pde(&s.scene, ALICE, 0, SCENE_BOB_TABLE, false) == SGPU_REFUSED_NOT);
	CHECK(scene_measure(&s.scene, ALICE, 0, s.scene.pages.small) == SGPU_REFUSED_NOT_MAPPED);
	CHECK(!sgpu_processor_reaches(s.scene.processor, ALICE, address(&s, ALICE, 0), 1));
	/* Nor can a page that holds data become a table, or a directory. */
	CHECK(scene_map(&s.scene, ALICE, 0, frame(1)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(scene_pde(&s.scene, ALICE, 1, frame(1), false) != SGPU_REFUSED_NOT);
	CHECK(scene_create(&s.scene, BOB, 1, frame(1)) == SGPU_REFUSED_FOREIGN);
	CHECK(scene_create(&s.scene, BOB, 1, spare) == SGPU_REFUSED_NOT);
	CHECK(is_secret(&s, ALICE, 0));
	end(&s);
}

UNIT_TEST(reused_pages_hold_nothing_of_their_last_owner)
{
	struct stage s;

	REQUIRE(begin(&s));
	/* Given back with the owner's word. */
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK && is_secret(&s, ALICE, 0));
	CHECK(scene_unmap(&s.scene, ALICE, 0, ALICE) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, BOB, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(is_zero(&s, BOB, 0));
	/* And without: the channel is destroyed while Alice still uses it, and while Bob's context
	 * is the active one. */
	CHECK(scene_map(&s.scene, ALICE, 1, frame(1)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 1) == SGPU_OK);
	CHECK(sgpu_processor_activate(s.scene.processor, BOB, NULL) == SGPU_OK);
	CHECK(scene_destroy(&s.scene, ALICE, -1) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, BOB, 1, frame(1)) == SGPU_REFUSED_NOT);
	CHECK(is_zero(&s, BOB, 1));
	end(&s);
}

/* A kernel of Alice, which writes her secret when it is let go. */
struct kernel {
	sgpu_devptr memory;
	atomic_bool goes, ended;
};

static int write_late(struct sgpu_launch *launch, void *argument)
{
	struct kernel *k = argument;

	(void)launch;
	while (!k->goes) {
		sched_yield();
	}
	memcpy((void *)(uintptr_t)k->memory, secret, sizeof(secret));
	k->ended = true;
	return SGPU_OK;
}

struct unmapping {
	struct stage *stage;
	struct kernel kernel;
	bool destroys;
	bool ended; /* the kernel had ended when the page was gone */
	enum sgpu_refusal refusal;
};

static void *unmap(void *argument)
{
	struct unmapping *u = argument;

	u->refusal = u->destroys ? scene_destroy(&u->stage->scene, ALICE, -1)
				 : scene_unmap(&u->stage->scene, ALICE, 0, ALICE);
	u->ended = u->kernel.ended;
	return NULL;
}

/* The command comes while the request is being enqueued, and waits; then it waits for the kernel.
 */
UNIT_TEST(a_page_that_queued_work_names_stays_until_the_work_has_ended)
{
	const struct timespec moment = { .tv_nsec = 20000000 };
	struct stage s;
	pthread_t thread;

	CPU_ONLY("its kernels are host functions");
	for (int destroys = 0; destroys < 2; destroys++) {
		REQUIRE(begin(&s));
		CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
		struct unmapping u = { .stage = &s, .destroys = destroys };
		const struct sgpu_device_range range = { address(&s, ALICE, 0), sizeof(secret) };

		u.kernel.memory = range.address;
		REQUIRE(sgpu_processor_enter(s.scene.processor, ALICE, &range, 1, NULL) == SGPU_OK);
		REQUIRE(pthread_create(&thread, NULL, unmap, &u) == 0);
		nanosleep(&moment, NULL);
		CHECK(sgpu_device_launch_on(s.stream, write_late, &u.kernel, NULL, 0, NULL) ==
		      SGPU_OK);
		sgpu_processor_leave(s.scene.processor);
		nanosleep(&moment, NULL);
		u.kernel.goes = true;
		pthread_join(thread, NULL);
		CHECK(u.refusal == SGPU_REFUSED_NOT && u.ended);
		CHECK(scene_map(&s.scene, BOB, 0, frame(0)) == SGPU_REFUSED_NOT);
		CHECK(is_zero(&s, BOB, 0));
		end(&s);
	}
}

UNIT_TEST(a_big_page_is_cleared_before_another_gets_it)
{
	struct stage s;
	uint32_t big;

	REQUIRE(begin(&s));
	big = 2 * s.per_big;
	CHECK(scene_pde(&s.scene, ALICE, 0, SCENE_ALICE_BIG, true) == SGPU_REFUSED_NOT);
	CHECK(scene_pde(&s.scene, BOB, 0, SCENE_BOB_BIG, true) == SGPU_REFUSED_NOT);
	CHECK(scene_pte(&s.scene, ALICE, 0, &big, 1, true, -1) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, s.per_big - 1) == SGPU_OK);
	CHECK(scene_pte(&s.scene, ALICE, 0, NULL, 1, true, ALICE) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, BOB, 0, big + s.per_big - 1) == SGPU_REFUSED_NOT);
	CHECK(is_zero(&s, BOB, 0));
	CHECK(scene_unmap(&s.scene, BOB, 0, BOB) == SGPU_REFUSED_NOT);
	CHECK(scene_pte(&s.scene, BOB, 0, &big, 1, true, -1) == SGPU_REFUSED_NOT);
	CHECK(is_zero(&s, BOB, s.per_big - 1));
	end(&s);
}

UNIT_TEST(memory_beyond_the_processors_is_mapped_for_nobody)
{
	struct stage s;
	uint32_t big;

	REQUIRE(begin(&s));
	big = 7 * s.per_big;
	CHECK(scene_map(&s.scene, ALICE, 0, s.config.frames) == SGPU_REFUSED_RANGE);
	CHECK(scene_pde(&s.scene, ALICE, 1, s.config.frames, false) == SGPU_REFUSED_RANGE);
	CHECK(scene_create(&s.scene, ALICE_2, 0, s.config.frames) == SGPU_REFUSED_RANGE);
	CHECK(scene_pde(&s.scene, ALICE, 0, SCENE_ALICE_BIG, true) == SGPU_REFUSED_NOT);
	CHECK(scene_pte(&s.scene, ALICE, 1, &big, 1, true, -1) == SGPU_REFUSED_RANGE);
	end(&s);
}

UNIT_TEST(dropped_replayed_reordered_and_foreign_groups_are_refused)
{
	struct stage s;

	REQUIRE(begin(&s));
	CHECK(scene_submit(&s.scene, ALICE, ALICE, 0) == SGPU_REFUSED_NOT);
	CHECK(scene_submit(&s.scene, ALICE, ALICE, 1) == SGPU_REFUSED_COUNTER);
	CHECK(scene_submit(&s.scene, ALICE, ALICE, 3) == SGPU_REFUSED_COUNTER);
	CHECK(scene_submit(&s.scene, ALICE, BOB, 2) == SGPU_REFUSED_SEAL);
	s.scene.channels[BOB].submitted = 0;
	CHECK(scene_submit(&s.scene, ALICE, ALICE, 2) == SGPU_REFUSED_NOT);
	CHECK(scene_submit(&s.scene, BOB, BOB, 0) == SGPU_REFUSED_NOT);
	end(&s);
}

UNIT_TEST(a_second_channel_of_an_owner_shares_nothing_with_the_first)
{
	struct stage s;

	REQUIRE(begin(&s));
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(scene_create(&s.scene, ALICE_2, 0, SCENE_SPARE) == SGPU_REFUSED_NOT);
	CHECK(memcmp(&s.scene.channels[ALICE].keys, &s.scene.channels[ALICE_2].keys,
		     sizeof(struct sgpu_channel_keys)) != 0);
	CHECK(scene_pde(&s.scene, ALICE_2, 0, SCENE_ALICE_TABLE, false) == SGPU_REFUSED_FOREIGN);
	CHECK(scene_pde(&s.scene, ALICE_2, 0, SCENE_SPARE_2, false) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, ALICE_2, 0, frame(0)) == SGPU_REFUSED_FOREIGN);
	CHECK(scene_unmap(&s.scene, ALICE, 0, ALICE_2) == SGPU_REFUSED_MAC);
	CHECK(scene_destroy(&s.scene, ALICE_2, ALICE_2) == SGPU_REFUSED_NOT);
	CHECK(is_secret(&s, ALICE, 0));
	end(&s);
}

UNIT_TEST(a_context_does_not_reach_another_ones_addresses)
{
	struct stage s;
	struct sgpu_task task = { 0 };
	uint8_t data[64];

	REQUIRE(begin(&s));
	CHECK(scene_map(&s.scene, ALICE, 0, frame(0)) == SGPU_REFUSED_NOT);
	CHECK(scene_map(&s.scene, BOB, 0, frame(1)) == SGPU_REFUSED_NOT);
	CHECK(write_secret(&s, ALICE, 0) == SGPU_OK);
	CHECK(sgpu_processor_reaches(s.scene.processor, ALICE, address(&s, ALICE, 0), 64));
	CHECK(!sgpu_processor_reaches(s.scene.processor, BOB, address(&s, ALICE, 0), 64));
	CHECK(sgpu_processor_activate(s.scene.processor, BOB, NULL) == SGPU_OK);
	/* The mapping itself refuses, whoever asks. */
	memset(data, 0x11, sizeof(data));
	CHECK(sgpu_copy_out(s.stream, data, address(&s, ALICE, 0), sizeof(data), &task) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_stream_sync(s.stream, NULL) == SGPU_OK && data[0] == 0x11);
	CHECK(is_secret(&s, ALICE, 0));
	end(&s);
}

int main(void)
{
	UNIT_RUN(aliasing_a_page_of_another_context_is_refused);
	UNIT_RUN(aliasing_through_a_big_page_is_refused);
	UNIT_RUN(mapping_one_page_at_two_addresses_is_refused);
	UNIT_RUN(mapping_two_pages_at_one_address_is_refused);
	UNIT_RUN(unmapping_without_the_owners_mac_is_refused);
	UNIT_RUN(an_old_authorisation_is_refused);
	UNIT_RUN(stale_translations_in_a_table_are_cleared);
	UNIT_RUN(reused_pages_hold_nothing_of_their_last_owner);
	UNIT_RUN(a_page_that_queued_work_names_stays_until_the_work_has_ended);
	UNIT_RUN(a_big_page_is_cleared_before_another_gets_it);
	UNIT_RUN(memory_beyond_the_processors_is_mapped_for_nobody);
	UNIT_RUN(dropped_replayed_reordered_and_foreign_groups_are_refused);
	UNIT_RUN(a_second_channel_of_an_owner_shares_nothing_with_the_first);
	UNIT_RUN(a_context_does_not_reach_another_ones_addresses);
	return unit_done();
}
