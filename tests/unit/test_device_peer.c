/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed copies between two devices: what arrives, what passes between, and what a change there
 * leaves. On two CPU devices, or on the two that SGPU_TEST_DEVICE and SGPU_TEST_PEER name.
 */
#include <stdint.h>

#include <sgpu/device.h>
#include "channel_check.h"
#include "channel/channel.h"

#include "device_harness.h"
#include "fake_backend.h"

enum { C = SGPU_CHUNK, RUN = 4 * C, LARGEST = 50 * RUN + 77, SEEN = 4096 };
static const uint64_t sizes[] = { 0,   1,	C - 1,	 C,	      C + 1,	    RUN - 1,
				  RUN, RUN + 1, 9 * RUN, 9 * RUN + C, 40 * RUN - 5, LARGEST };
static const enum sgpu_peer_path paths[] = { SGPU_PEER_STORED, SGPU_PEER_HOST };

struct fixture {
	struct sgpu_device *from, *to;
	struct sgpu_stream *in, *out;
	sgpu_devptr source, target;
	uint8_t *plain, *result;
};

static bool set_up(struct fixture *f)
{
	const char *second = getenv("SGPU_TEST_PEER");
	const struct sgpu_device_config config = { .jobs = 2, .memory_limit = UNIT_MEMORY };

	memset(f, 0, sizeof(*f));
	f->plain = malloc(LARGEST);
	f->result = malloc(LARGEST);
	for (uint64_t i = 0; i < LARGEST; i++) {
		f->plain[i] = (uint8_t)(i * 7 + i / 251);
	}
	f->from = open_test_device(2, 0);
	return f->from &&
	       sgpu_device_open(second ? second : "cpu", &config, &f->to, NULL) == SGPU_OK &&
	       sgpu_stream_create(f->from, &f->in, NULL) == SGPU_OK &&
	       sgpu_stream_create(f->to, &f->out, NULL) == SGPU_OK &&
	       sgpu_device_alloc(f->from, LARGEST, &f->source, NULL) == SGPU_OK &&
	       sgpu_device_alloc(f->to, LARGEST, &f->target, NULL) == SGPU_OK &&
	       sgpu_copy_in(f->in, f->source, f->plain, LARGEST, NULL) == SGPU_OK &&
	       sgpu_stream_sync(f->in, NULL) == SGPU_OK;
}

static void tear_down(struct fixture *f)
{
	sgpu_stream_free(&f->in);
	sgpu_stream_free(&f->out);
	sgpu_device_free(f->from, &f->source, LARGEST);
	sgpu_device_free(f->to, &f->target, LARGEST);
	sgpu_device_close(&f->from);
	sgpu_device_close(&f->to);
	free(f->plain);
	free(f->result);
}

/* Fills the target with a value that no copy leaves. */
static bool spoil(struct fixture *f)
{
	memset(f->result, 0xa5, LARGEST);
	return sgpu_copy_in(f->out, f->target, f->result, LARGEST, NULL) == SGPU_OK &&
	       sgpu_stream_sync(f->out, NULL) == SGPU_OK;
}

static bool fetch(struct fixture *f)
{
	memset(f->result, 0x5a, LARGEST);
	return sgpu_copy_out(f->out, f->result, f->target, LARGEST, NULL) == SGPU_OK &&
	       sgpu_stream_sync(f->out, NULL) == SGPU_OK;
}

/* Whether the first `size` bytes of the target are those of `expected` (NULL: zeros), and no other
 * was touched. */
static bool holds(struct fixture *f, const uint8_t *expected, uint64_t size)
{
	bool right = fetch(f);

	for (uint64_t i = 0; i < size; i++) {
		right = right && f->result[i] == (expected ? expected[i] : 0);
	}
	for (uint64_t i = size; i < LARGEST; i++) {
		right = right && f->result[i] == 0xa5;
	}
	return right;
}

static uint64_t memory_left(struct sgpu_device *device)
{
	struct sgpu_device_info info;

	CHECK(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	return info.memory_free;
}

static void arrives(struct fixture *f, enum sgpu_peer_path path)
{
	const uint64_t left_there = memory_left(f->from), left_here = memory_left(f->to);
	const struct sgpu_peer_config config = { .path = path, .run = RUN + 5 };
	struct sgpu_error error = { 0 };
	struct sgpu_peer *peer = NULL;

	CHECK(sgpu_peer_open(f->from, f->to, &config, &peer, &error) == SGPU_OK);
	CHECK(peer);
	for (size_t i = 0; peer && i < SGPU_ARRAY_LENGTH(sizes); i++) {
		CHECK(spoil(f));
		CHECK(sgpu_peer_copy(peer, f->target, f->source, sizes[i], &error) == SGPU_OK);
		CHECK(holds(f, f->plain, sizes[i]));
	}
	sgpu_peer_close(&peer);
	CHECK(!peer);
	CHECK(!on_cpu() || (memory_left(f->from) == left_there && memory_left(f->to) == left_here));
}

UNIT_TEST(what_is_copied_arrives_whatever_its_size_and_its_way)
{
	struct fixture f;

	CHECK(set_up(&f));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(paths); i++) {
		arrives(&f, paths[i]);
	}
	tear_down(&f);
}

/* ---- what passes between ---- */
/* Each of the first chunks' begin, as it passes; and one byte that is changed. */
struct between {
	struct fixture *fixture;
	uint8_t seen[SEEN][32];
	unsigned count, runs;
	uint64_t bad_run, bad_byte; /* bad_run UINT64_MAX: none */
	uint64_t replayed;	    /* run that is put in the place of the next; UINT64_MAX: none */
	uint8_t *kept;
	uint64_t kept_size;
};

static void look_between(void *argument, uint64_t run, sgpu_devptr sealed, uint64_t size)
{
	struct between *b = argument;
	struct sgpu_stream *stream = b->fixture->out;
	uint8_t *bytes = malloc(size);

	CHECK(sgpu_copy_out(stream, bytes, sealed, size, NULL) == SGPU_OK &&
	      sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (uint64_t at = 0; at + 32 <= size && b->count < SEEN; at += SGPU_SEALED_CHUNK) {
		memcpy(b->seen[b->count++], bytes + at, 32);
	}
	b->runs++;
	if (run == b->replayed) {
		free(b->kept);
		b->kept = malloc(size);
		memcpy(b->kept, bytes, size);
		b->kept_size = size;
	}
	if (run == b->bad_run) {
		bytes[b->bad_byte < size ? b->bad_byte : size - 1] ^= 1;
	}
	if (b->kept && run == b->replayed + 1 && size == b->kept_size) {
		memcpy(bytes, b->kept, size);
	}
	CHECK(sgpu_copy_in(stream, sealed, bytes, size, NULL) == SGPU_OK &&
	      sgpu_stream_sync(stream, NULL) == SGPU_OK);
	free(bytes);
}

static int compare(const void *one, const void *other)
{
	return memcmp(one, other, 32);
}

UNIT_TEST(no_two_chunks_are_sealed_under_the_same_key_and_nonce)
{
	static struct between b;
	struct sgpu_peer_config config = {
		.run = RUN, .key_chunks = 420, .between = look_between, .argument = &b
	};
	struct sgpu_peer *peer = NULL;
	unsigned changes = 0;
	struct fixture f;

	b = (struct between){ .fixture = &f, .bad_run = UINT64_MAX, .replayed = UINT64_MAX };
	CHECK(set_up(&f));
	/* Equal plaintext everywhere: what the same key and nonce seal is equal, too. */
	CHECK(sgpu_device_clear(f.in, f.source, LARGEST, NULL) == SGPU_OK &&
	      sgpu_stream_sync(f.in, NULL) == SGPU_OK);
	CHECK(sgpu_peer_open(f.from, f.to, &config, &peer, NULL) == SGPU_OK);
	for (int i = 0; peer && i < 6; i++) {
		const uint64_t size = i % 2 ? LARGEST : 3 * RUN + 40;

		/* Also behind a copy that fails, which has used its numbers. */
		b.bad_run = i == 2 || i == 3 ? 2 : UINT64_MAX;
		CHECK(sgpu_peer_copy(peer, f.target, f.source, size, NULL) ==
		      (b.bad_run == 2 ? SGPU_EAUTH : SGPU_OK));
	}
	CHECK(b.count > 400);
	qsort(b.seen, b.count, sizeof(b.seen[0]), compare);
	for (unsigned i = 1; i < b.count; i++) {
		changes += memcmp(b.seen[i - 1], b.seen[i], 32) != 0;
	}
	CHECK(b.count > 0 && changes == b.count - 1);
	sgpu_peer_close(&peer);
	tear_down(&f);
}

/* ---- keys ---- */
static const struct sgpu_device_key_calls *real_keys;
static unsigned loads, loads_until_failure;

static int count_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
		      int count, struct sgpu_device_key **keys, struct sgpu_error *error)
{
	if (++loads == loads_until_failure) {
		return sgpu_fail(error, SGPU_ENOMEM, "no memory for a key");
	}
	return real_keys->load(stream, material, count, keys, error);
}

UNIT_TEST(a_key_is_replaced_before_it_has_sealed_too_much)
{
	const struct sgpu_peer_config config = { .run = RUN, .key_chunks = 450 };
	struct fake_backend fake;
	struct sgpu_error error = { 0 };
	struct sgpu_peer *peer = NULL;
	struct fixture f;

	CPU_ONLY("the calls of a GPU are not replaced");
	CHECK(set_up(&f));
	real_keys = sgpu_device_backend_of(f.to)->key;
	fake_backend_copy(&fake, sgpu_device_backend_of(f.to));
	fake.key.load = count_load;
	fake_backend_give(f.to, &fake);
	loads = loads_until_failure = 0;
	CHECK(sgpu_peer_open(f.from, f.to, &config, &peer, NULL) == SGPU_OK);
	/* 201 chunks: each key seals two copies. */
	for (unsigned i = 0; i < 6; i++) {
		CHECK(spoil(&f));
		CHECK(sgpu_peer_copy(peer, f.target, f.source, LARGEST, &error) == SGPU_OK &&
		      loads == i / 2 + 1);
		CHECK(holds(&f, f.plain, LARGEST));
	}
	/* Where there is no fresh key, nothing more is sealed under the old one. */
	loads_until_failure = 4;
	CHECK(spoil(&f));
	CHECK(sgpu_peer_copy(peer, f.target, f.source, LARGEST, &error) == SGPU_ENOMEM &&
	      loads == 4);
	CHECK(strstr(error.text, "no memory for a key"));
	CHECK(holds(&f, NULL, LARGEST));
	CHECK(sgpu_peer_copy(peer, f.target, f.source, LARGEST, &error) == SGPU_OK && loads == 5);
	CHECK(holds(&f, f.plain, LARGEST));
	sgpu_peer_close(&peer);
	tear_down(&f);
}

UNIT_TEST(what_was_changed_on_its_way_is_refused_and_nothing_of_it_is_left)
{
	static const uint64_t runs[] = { 0, 5, 12, 50 },
			      bytes[] = { 0, 2 * SGPU_SEALED_CHUNK + 77, UINT64_MAX };
	struct sgpu_error error = { 0 };
	struct fixture f;

	CHECK(set_up(&f));
	for (size_t p = 0; p < SGPU_ARRAY_LENGTH(paths); p++) {
		static struct between b;
		const struct sgpu_peer_config config = {
			.path = paths[p], .run = RUN, .between = look_between, .argument = &b
		};
		struct sgpu_peer *peer = NULL;

		b = (struct between){ .fixture = &f, .replayed = UINT64_MAX };
		CHECK(sgpu_peer_open(f.from, f.to, &config, &peer, NULL) == SGPU_OK);
		for (size_t i = 0; peer && i < SGPU_ARRAY_LENGTH(runs) * SGPU_ARRAY_LENGTH(bytes);
		     i++) {
			b.bad_run = runs[i / SGPU_ARRAY_LENGTH(bytes)];
			b.bad_byte = bytes[i % SGPU_ARRAY_LENGTH(bytes)];
			CHECK(spoil(&f));
			CHECK(sgpu_peer_copy(peer, f.target, f.source, LARGEST, &error) ==
			      SGPU_EAUTH);
			CHECK(strstr(error.text, "does not verify"));
			CHECK(holds(&f, NULL, LARGEST));
		}
		/* The next one is right. */
		b.bad_run = UINT64_MAX;
		CHECK(peer && sgpu_peer_copy(peer, f.target, f.source, LARGEST, &error) == SGPU_OK);
		CHECK(holds(&f, f.plain, LARGEST));
		sgpu_peer_close(&peer);
	}
	tear_down(&f);
}

UNIT_TEST(a_chunk_run_in_the_place_of_another_is_refused)
{
	static struct between b;
	const struct sgpu_peer_config config = { .run = RUN,
						 .between = look_between,
						 .argument = &b };
	struct sgpu_peer *peer = NULL;
	struct fixture f;

	b = (struct between){ .fixture = &f, .bad_run = UINT64_MAX, .replayed = 3 };
	CHECK(set_up(&f));
	CHECK(spoil(&f));
	CHECK(sgpu_peer_open(f.from, f.to, &config, &peer, NULL) == SGPU_OK);
	CHECK(peer && sgpu_peer_copy(peer, f.target, f.source, 9 * RUN, NULL) == SGPU_EAUTH);
	CHECK(holds(&f, NULL, 9 * RUN));
	/* And what a copy sent before, in the same place of the next. */
	b.replayed = UINT64_MAX - 1;
	CHECK(peer && sgpu_peer_copy(peer, f.target, f.source, 9 * RUN, NULL) == SGPU_OK);
	b.replayed = 3;
	CHECK(peer && sgpu_peer_copy(peer, f.target, f.source, 9 * RUN, NULL) == SGPU_EAUTH);
	CHECK(holds(&f, NULL, 9 * RUN));
	free(b.kept);
	sgpu_peer_close(&peer);
	tear_down(&f);
}

/* ---- who may, and what is refused ---- */
UNIT_TEST(a_copy_needs_two_devices_and_ranges_of_theirs)
{
	const struct sgpu_peer_config config = { .run = RUN, .key_chunks = 3 };
	struct sgpu_error error = { 0 };
	struct sgpu_peer *peer = (void *)&error;
	sgpu_devptr shared = 0;
	struct fixture f;

	CHECK(set_up(&f));
	CHECK(sgpu_peer_open(f.from, f.from, NULL, &peer, &error) == SGPU_EUSAGE && !peer);
	CHECK(sgpu_peer_open(f.from, f.to, &config, &peer, &error) == SGPU_OK);
	CHECK(sgpu_peer_copy(peer, f.target, f.source, 3 * C, &error) == SGPU_OK);
	CHECK(sgpu_peer_copy(peer, f.target, f.source, 3 * C + 1, &error) == SGPU_EUSAGE);
	sgpu_peer_close(&peer);
	CHECK(sgpu_peer_open(f.from, f.to, NULL, &peer, &error) == SGPU_OK);
	CHECK(spoil(&f));
	CHECK(sgpu_peer_copy(peer, f.target, f.source, LARGEST + 1, &error) == SGPU_EUSAGE);
	CHECK(sgpu_peer_copy(peer, f.source, f.source, C, &error) == SGPU_EUSAGE);
	CHECK(sgpu_peer_copy(peer, f.target, f.target, C, &error) == SGPU_EUSAGE);
	CHECK(sgpu_peer_copy(peer, f.target, f.source, LARGEST, &error) == SGPU_OK);
	CHECK(holds(&f, f.plain, LARGEST));
	sgpu_peer_close(&peer);
	/* Memory that both reach is the second's no more once it is freed. */
	CHECK(sgpu_shared_alloc(f.from, f.to, C, &shared, &error) == SGPU_OK);
	CHECK(sgpu_device_clear(f.out, shared, C, NULL) == SGPU_OK &&
	      sgpu_stream_sync(f.out, NULL) == SGPU_OK);
	CHECK(sgpu_device_clear(f.out, shared, C + 1, NULL) == SGPU_EUSAGE);
	{
		const sgpu_devptr before = shared;

		sgpu_shared_free(f.from, f.to, &shared);
		CHECK(shared == 0 && sgpu_device_clear(f.out, before, C, NULL) == SGPU_EUSAGE);
	}
	tear_down(&f);
}

/* The runs that fit would have gone well before the first that does not. */
UNIT_TEST(a_copy_past_either_end_begins_with_no_run)
{
	enum { WHOLE = 20 * RUN };
	static struct between b;
	struct sgpu_error error = { 0 };
	sgpu_devptr source = 0, target = 0;
	struct fixture f;

	CHECK(set_up(&f));
	CHECK(sgpu_device_alloc(f.from, WHOLE / 2, &source, NULL) == SGPU_OK);
	CHECK(sgpu_device_alloc(f.to, WHOLE / 2, &target, NULL) == SGPU_OK);
	CHECK(sgpu_copy_in(f.in, source, f.plain, WHOLE / 2, NULL) == SGPU_OK &&
	      sgpu_stream_sync(f.in, NULL) == SGPU_OK);
	for (size_t p = 0; p < SGPU_ARRAY_LENGTH(paths); p++) {
		const struct sgpu_peer_config config = {
			.path = paths[p], .run = RUN, .between = look_between, .argument = &b
		};
		struct sgpu_peer *peer = NULL;

		b = (struct between){ .fixture = &f,
				      .bad_run = UINT64_MAX,
				      .replayed = UINT64_MAX };
		CHECK(sgpu_peer_open(f.from, f.to, &config, &peer, NULL) == SGPU_OK);
		/* Too short a target keeps what it has. */
		memset(f.result, 0xa5, WHOLE);
		CHECK(sgpu_copy_in(f.out, target, f.result, WHOLE / 2, NULL) == SGPU_OK);
		CHECK(sgpu_stream_sync(f.out, NULL) == SGPU_OK);
		CHECK(peer &&
		      sgpu_peer_copy(peer, target, f.source, WHOLE, &error) == SGPU_EUSAGE &&
		      b.runs == 0);
		CHECK(strstr(error.text, "are not allocated"));
		CHECK(peer &&
		      sgpu_peer_copy(peer, target, f.source, WHOLE / 2 + 1, &error) ==
			      SGPU_EUSAGE &&
		      b.runs == 0);
		memset(f.result, 0, WHOLE);
		CHECK(sgpu_copy_out(f.out, f.result, target, WHOLE / 2, NULL) == SGPU_OK);
		CHECK(sgpu_stream_sync(f.out, NULL) == SGPU_OK);
		for (uint64_t i = 0; i < WHOLE / 2; i++) {
			REQUIRE(f.result[i] == 0xa5);
		}
		/* Too short a source: the target is cleared. */
		CHECK(spoil(&f));
		CHECK(peer &&
		      sgpu_peer_copy(peer, f.target, source, WHOLE, &error) == SGPU_EUSAGE &&
		      b.runs == 0);
		CHECK(strstr(error.text, "are not allocated"));
		CHECK(holds(&f, NULL, WHOLE));
		/* What fits goes on to arrive. */
		CHECK(spoil(&f));
		CHECK(peer &&
		      sgpu_peer_copy(peer, f.target, source, WHOLE / 2, &error) == SGPU_OK &&
		      b.runs == 10);
		CHECK(holds(&f, f.plain, WHOLE / 2));
		sgpu_peer_close(&peer);
	}
	sgpu_device_free(f.from, &source, WHOLE / 2);
	sgpu_device_free(f.to, &target, WHOLE / 2);
	tear_down(&f);
}

UNIT_TEST(a_copy_from_one_secure_context_to_another_goes_through_the_host)
{
	const struct sgpu_peer_config config = { .run = RUN },
				      stored = { .path = SGPU_PEER_STORED };
	struct sgpu_secure *one = NULL, *other = NULL;
	struct sgpu_peer *peer = NULL;
	struct sgpu_stream *stream = NULL;
	sgpu_devptr source = 0, target = 0;
	struct fixture f;

	CPU_ONLY("contexts of two GPUs take all of their memory");
	CHECK(set_up(&f));
	CHECK(sgpu_secure_create(f.from, NULL, &one, NULL) == SGPU_OK &&
	      sgpu_secure_create(f.to, NULL, &other, NULL) == SGPU_OK);
	CHECK(sgpu_secure_malloc(one, LARGEST, &source, NULL) == SGPU_OK);
	CHECK(sgpu_secure_malloc(other, LARGEST, &target, NULL) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(one, f.plain, source, LARGEST, NULL) == SGPU_OK);
	CHECK(sgpu_peer_open(sgpu_secure_device(one), sgpu_secure_device(other), &stored, &peer,
			     NULL) == SGPU_EUNAVAILABLE);
	CHECK(sgpu_peer_open(sgpu_secure_device(one), sgpu_secure_device(other), &config, &peer,
			     NULL) == SGPU_OK);
	CHECK(peer);
	CHECK(peer && sgpu_peer_copy(peer, target, source, LARGEST, NULL) == SGPU_OK);
	memset(f.result, 0, LARGEST);
	CHECK(sgpu_stream_create(sgpu_secure_device(other), &stream, NULL) == SGPU_OK &&
	      sgpu_copy_out(stream, f.result, target, LARGEST, NULL) == SGPU_OK &&
	      sgpu_stream_sync(stream, NULL) == SGPU_OK);
	sgpu_stream_free(&stream);
	CHECK(memcmp(f.result, f.plain, LARGEST) == 0);
	/* Addresses of the devices are none of the contexts'. */
	CHECK(peer && sgpu_peer_copy(peer, target, f.source, C, NULL) == SGPU_EUSAGE);
	CHECK(peer && sgpu_peer_copy(peer, f.target, source, C, NULL) == SGPU_EUSAGE);
	sgpu_peer_close(&peer);
	sgpu_secure_free(one, &source);
	sgpu_secure_free(other, &target);
	sgpu_secure_destroy(&one);
	sgpu_secure_destroy(&other);
	tear_down(&f);
}

int main(void)
{
	if (!on_cpu() && !getenv("SGPU_TEST_PEER")) {
		printf("1..0 # SKIP needs a second GPU, named by SGPU_TEST_PEER\n");
		return 0;
	}
	DEVICE_OR_SKIP();
	UNIT_RUN(what_is_copied_arrives_whatever_its_size_and_its_way);
	UNIT_RUN(no_two_chunks_are_sealed_under_the_same_key_and_nonce);
	UNIT_RUN(a_key_is_replaced_before_it_has_sealed_too_much);
	UNIT_RUN(what_was_changed_on_its_way_is_refused_and_nothing_of_it_is_left);
	UNIT_RUN(a_chunk_run_in_the_place_of_another_is_refused);
	UNIT_RUN(a_copy_needs_two_devices_and_ranges_of_theirs);
	UNIT_RUN(a_copy_past_either_end_begins_with_no_run);
	UNIT_RUN(a_copy_from_one_secure_context_to_another_goes_through_the_host);
	return unit_done();
}
