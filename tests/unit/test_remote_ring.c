/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions over rings: what they do, what it takes, and how they end.
 */
#include "remote_harness.h"

/* ---- a carrier that counts, and has somebody between ---- */
static struct {
	struct sgpu_carrier carrier;
	struct sgpu_carrier *inner;
	int exchanges, puts, gets;
	void (*on_put)(uint64_t offset, uint8_t *bytes, size_t size);
	void (*on_get)(uint64_t offset, uint8_t *bytes, size_t size);
	void (*on_message)(void);
} between;

static int exchange(void *argument, const uint8_t *message, size_t size, uint8_t *answer,
		    size_t *answer_size, struct sgpu_error *why)
{
	(void)argument;
	between.exchanges++;
	if (between.on_message) {
		between.on_message();
	}
	return between.inner->calls->exchange(between.inner, message, size, answer, answer_size,
					      why);
}

static int put(struct sgpu_carrier *carrier, uint64_t offset, const uint8_t *bytes, size_t size,
	       struct sgpu_error *why)
{
	static uint8_t copy[SGPU_REMOTE_SEALED];

	(void)carrier;
	memcpy(copy, bytes, size);
	between.puts++;
	if (between.on_put) {
		between.on_put(offset, copy, size);
	}
	return between.inner->calls->put(between.inner, offset, copy, size, why);
}

static int get(struct sgpu_carrier *carrier, uint64_t offset, uint8_t *bytes, size_t size,
	       struct sgpu_error *why)
{
	int rc = between.inner->calls->get(between.inner, offset, bytes, size, why);

	(void)carrier;
	between.gets++;
	if (between.on_get) {
		between.on_get(offset, bytes, size);
	}
	return rc;
}

static void close_between(struct sgpu_carrier *carrier)
{
	(void)carrier;
	between.inner->calls->close(between.inner);
}

static struct sgpu_remote *open_between(const struct worker *w)
{
	static const struct sgpu_carrier_calls calls = { exchange, put, get, close_between };
	struct sgpu_remote *remote = NULL;

	memset(&between, 0, sizeof(between));
	between.carrier.calls = &calls;
	if (sgpu_carrier_ring(&w->near, &between.inner, &error) != SGPU_OK ||
	    sgpu_remote_open_carrier(&between.carrier, NULL, &runner_key, &remote, &error) !=
		    SGPU_OK) {
		printf("# %s\n", error.text);
	}
	return remote;
}

/* ---- what they do ---- */
UNIT_TEST(data_of_all_sizes_go_there_and_come_back)
{
	static const size_t sizes[] = { 1,
					100,
					SGPU_CHUNK - 1,
					SGPU_CHUNK,
					SGPU_CHUNK + 1,
					SGPU_REMOTE_PIECE - 1,
					SGPU_REMOTE_PIECE,
					SGPU_REMOTE_PIECE + 1,
					(9 << 20) + 777 };
	enum { MOST = (9 << 20) + 2048 };
	static uint8_t data[MOST], back[MOST], expected[MOST];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;

	start_worker(&w);
	remote = open_remote(&w);
	REQUIRE(remote);
	CHECK(sgpu_remote_alloc(remote, MOST, &buffer, &error) == SGPU_OK && buffer != 0);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		const size_t offset = 65 * i;

		fill(data, sizes[i], (unsigned)i);
		memcpy(expected + offset, data, sizes[i]);
		CHECK(sgpu_remote_copy_in(remote, buffer, offset, data, sizes[i], &error) ==
		      SGPU_OK);
		memset(data, 0, sizes[i]); /* it was taken */
		CHECK(sgpu_remote_copy_out(remote, back, buffer, offset, sizes[i], &error) ==
		      SGPU_OK);
		CHECK(memcmp(back, expected + offset, sizes[i]) == 0);
	}
	CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, 0, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, MOST, &error) == SGPU_OK);
	CHECK(memcmp(back, expected, MOST) == 0);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(an_operation_is_one_exchange_of_messages)
{
	static struct adding a;
	struct sgpu_remote *remote;
	struct worker w;

	start_worker(&w);
	remote = open_between(&w);
	REQUIRE(remote && load_adding(remote, &a) == SGPU_OK);
	CHECK(add_once(remote, &a, 0) == SGPU_OK && is_added(&a, 0)); /* brings the keys */
	for (int i = 1; i < 200; i++) {
		const int exchanges = between.exchanges;

		CHECK(add_once(remote, &a, i) == SGPU_OK && is_added(&a, i));
		CHECK(between.exchanges == exchanges + 1);
	}
	CHECK(between.puts == 400 && between.gets == 400);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(four_pieces_that_just_fill_the_area_are_one_exchange)
{
	enum { EACH = SGPU_AREA_SIZE / 4 - 64 * SGPU_TAG_SIZE };
	static uint8_t data[EACH];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;
	int exchanges;

	start_worker(&w);
	remote = open_between(&w);
	REQUIRE(remote && sgpu_remote_alloc(remote, 4 * EACH, &buffer, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, 1, &error) == SGPU_OK);
	CHECK(sgpu_remote_flush(remote, &error) == SGPU_OK); /* has brought the key */
	exchanges = between.exchanges;
	for (uint64_t i = 0; i < 4; i++) {
		CHECK(sgpu_remote_copy_in(remote, buffer, i * EACH, data, EACH, &error) == SGPU_OK);
	}
	CHECK(sgpu_remote_flush(remote, &error) == SGPU_OK && between.exchanges == exchanges + 1);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(many_small_copies_fill_groups_and_the_area_again_and_again)
{
	enum { COPIES = 1000, EACH = 9000 };
	static uint8_t data[COPIES * EACH], back[COPIES * EACH];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;
	bool good = true;

	start_worker(&w);
	remote = open_remote(&w);
	REQUIRE(remote && sgpu_remote_alloc(remote, sizeof(data), &buffer, &error) == SGPU_OK);
	fill(data, sizeof(data), 9);
	for (uint64_t i = 0; i < COPIES; i++) {
		good = good && sgpu_remote_copy_in(remote, buffer, i * EACH, data + i * EACH, EACH,
						   &error) == SGPU_OK;
	}
	for (uint64_t i = 0; i < COPIES; i++) {
		good = good && sgpu_remote_seal_out(remote, back + i * EACH, buffer, i * EACH, EACH,
						    &error) == SGPU_OK;
	}
	CHECK(good && sgpu_remote_flush(remote, &error) == SGPU_OK &&
	      memcmp(data, back, sizeof(data)) == 0);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- keys and numbers ---- */
enum { PIECE = 5000, SEALED = PIECE + SGPU_TAG_SIZE, KEPT = 8 };

/* What passed, and what is put in its place. */
static uint8_t kept[KEPT][SEALED];
static int kept_count, replaced = -1;

static void keep(uint64_t offset, uint8_t *bytes, size_t size)
{
	(void)offset;
	if (size == SEALED && kept_count < KEPT) {
		memcpy(kept[kept_count++], bytes, size);
	}
	if (size == SEALED && replaced >= 0) {
		memcpy(bytes, kept[replaced], size);
	}
}

static uint8_t *in_area;

/* Exchanges the first two pieces. */
static void swap_pieces(void)
{
	uint8_t first[SEALED];
	uint64_t next = (SEALED + 255) / 256 * 256;

	if (in_area) {
		memcpy(first, in_area, SEALED);
		memcpy(in_area, in_area + next, SEALED);
		memcpy(in_area + next, first, SEALED);
	}
}

static struct sgpu_remote *open_keeping(struct worker *w, uint32_t *buffer)
{
	struct sgpu_remote *remote;

	start_worker(w);
	remote = open_between(w);
	kept_count = 0;
	replaced = -1;
	return remote && sgpu_remote_alloc(remote, 4 * PIECE, buffer, &error) == SGPU_OK ? remote
											 : NULL;
}

UNIT_TEST(equal_data_are_never_sealed_alike)
{
	static uint8_t data[PIECE], back[PIECE];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;
	bool alike = false;

	remote = open_keeping(&w, &buffer);
	REQUIRE(remote);
	between.on_put = between.on_get = keep;
	for (int i = 0; i < KEPT / 2; i++) {
		CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
		CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_OK);
	}
	REQUIRE(kept_count == KEPT);
	for (int i = 0; i < KEPT; i++) {
		for (int k = 0; k < i; k++) {
			alike = alike || memcmp(kept[i], kept[k], SEALED) == 0;
		}
	}
	CHECK(!alike);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* A piece that came before, to the same place, of the same size. */
UNIT_TEST(an_old_piece_does_not_verify_on_the_way_in)
{
	static uint8_t data[PIECE], back[PIECE], last[PIECE];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;

	remote = open_keeping(&w, &buffer);
	REQUIRE(remote);
	between.on_put = keep;
	for (int i = 0; i < 3; i++) {
		fill(data, PIECE, (unsigned)i);
		CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
		CHECK(sgpu_remote_flush(remote, &error) == SGPU_OK);
	}
	for (replaced = 0; replaced < 3; replaced++) {
		CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
		CHECK(sgpu_remote_flush(remote, &error) == SGPU_EAUTH);
	}
	/* Nothing of them is there, and the session goes on. */
	replaced = -1;
	memset(last, 0, sizeof(last));
	CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_OK &&
	      memcmp(back, last, PIECE) == 0);
	CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_OK &&
	      memcmp(back, data, PIECE) == 0);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(an_old_piece_does_not_verify_on_the_way_out)
{
	static uint8_t data[PIECE], back[PIECE];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;

	remote = open_keeping(&w, &buffer);
	REQUIRE(remote);
	between.on_put = between.on_get = keep; /* also what went the other way */
	for (int i = 0; i < 2; i++) {
		fill(data, PIECE, (unsigned)i);
		CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
		CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_OK);
	}
	between.on_put = NULL;
	for (replaced = 0; replaced < 4; replaced++) {
		CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_EAUTH);
	}
	replaced = -1;
	CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_OK &&
	      memcmp(back, data, PIECE) == 0);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(pieces_that_are_exchanged_do_not_verify)
{
	static uint8_t data[2][PIECE], back[2 * PIECE], zero[2 * PIECE];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;
	uint8_t *area = NULL;

	remote = open_keeping(&w, &buffer);
	REQUIRE(remote && sgpu_link_map(w.near.area, &area, &error) == SGPU_OK);
	fill(data[0], PIECE, 1);
	fill(data[1], PIECE, 2);
	CHECK(sgpu_remote_copy_in(remote, buffer, 0, zero, 2 * PIECE, &error) == SGPU_OK);
	CHECK(sgpu_remote_flush(remote, &error) == SGPU_OK);
	between.on_message = swap_pieces;
	for (int i = 0; i < 2; i++) {
		CHECK(sgpu_remote_copy_in(remote, buffer, (uint64_t)i * PIECE, data[i], PIECE,
					  &error) == SGPU_OK);
	}
	in_area = area;
	CHECK(sgpu_remote_flush(remote, &error) == SGPU_EAUTH);
	in_area = NULL;
	CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, 2 * PIECE, &error) == SGPU_OK);
	CHECK(memcmp(back, zero, sizeof(back)) == 0);
	sgpu_link_unmap(&area);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* With so few numbers each piece has a key of its own, and the same number. */
UNIT_TEST(a_piece_under_an_old_key_does_not_verify)
{
	static uint8_t data[PIECE], back[PIECE];
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;

	remote = open_keeping(&w, &buffer);
	REQUIRE(remote);
	remote->key_chunks = SGPU_REMOTE_CHUNKS;
	between.on_put = between.on_get = keep;
	for (int i = 0; i < 4; i++) {
		fill(data, PIECE, (unsigned)i);
		CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
		CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_OK);
		CHECK(memcmp(back, data, PIECE) == 0);
		CHECK(remote->directions[0].next == 1 && remote->directions[1].next == 1);
	}
	between.on_get = NULL;
	for (replaced = 0; replaced < KEPT; replaced++) {
		CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
		CHECK(sgpu_remote_flush(remote, &error) == SGPU_EAUTH);
	}
	between.on_put = NULL;
	between.on_get = keep;
	for (replaced = 0; replaced < KEPT; replaced++) {
		CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_EAUTH);
	}
	between.on_get = NULL;
	CHECK(sgpu_remote_copy_in(remote, buffer, 0, data, PIECE, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_out(remote, back, buffer, 0, PIECE, &error) == SGPU_OK &&
	      memcmp(back, data, PIECE) == 0);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- how they end ---- */
UNIT_TEST(a_program_that_goes_leaves_nothing)
{
	struct sgpu_remote *remote;
	struct worker w;
	uint32_t buffer = 0;
	uint8_t byte = 1;

	start_worker(&w);
	CHECK(end_worker(&w) == SGPU_OK); /* before it has said anything */
	start_worker(&w);
	remote = open_remote(&w);
	REQUIRE(remote && sgpu_remote_alloc(remote, 1 << 20, &buffer, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_in(remote, buffer, 0, &byte, 1, &error) == SGPU_OK);
	CHECK(end_worker(&w) == SGPU_OK); /* without a word */
	sgpu_remote_close(&remote);
}

/* KiB of mappings that no child gets, which are those of keys and of the CPU device. */
static unsigned long kept_from_children(void)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long size = 0, sum = 0;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Size: %lu", &size) != 1 && strncmp(line, "VmFlags:", 8) == 0 &&
		    strstr(line, " dc")) {
			sum += size;
		}
	}
	if (file) {
		fclose(file);
	}
	return sum;
}

UNIT_TEST(a_program_that_ends_its_session_keeps_no_keys)
{
	static struct adding a;
	struct sgpu_remote *remote;
	unsigned long had = 0;
	struct worker w;

	CPU_ONLY("a GPU's driver has such memory, too");
	for (int i = 0; i < 3; i++) {
		start_worker(&w);
		remote = open_remote(&w);
		REQUIRE(remote && load_adding(remote, &a) == SGPU_OK &&
			add_once(remote, &a, i) == SGPU_OK);
		sgpu_remote_close(&remote);
		CHECK(end_worker(&w) == SGPU_OK);
		had = i == 0 ? kept_from_children() : had;
		CHECK(kept_from_children() == had);
	}
}

static void alter_second(uint64_t offset, uint8_t *bytes, size_t size)
{
	(void)offset;
	bytes[size / 2] ^= between.puts == 2;
}

UNIT_TEST(no_job_runs_over_data_of_which_some_do_not_verify)
{
	static struct adding a;
	struct sgpu_remote *remote;
	struct worker w;

	start_worker(&w);
	remote = open_between(&w);
	REQUIRE(remote && load_adding(remote, &a) == SGPU_OK && add_once(remote, &a, 1) == SGPU_OK);
	between.puts = 0;
	between.on_put = alter_second;
	CHECK(add_once(remote, &a, 5) == SGPU_EAUTH && between.puts == 2);
	CHECK(sgpu_remote_copy_out(remote, a.sum, a.buffer, 8192, BYTES, &error) == SGPU_OK &&
	      sgpu_remote_copy_out(remote, a.twice, a.buffer, 12288, BYTES, &error) == SGPU_OK);
	CHECK(is_added(&a, 1));
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(a_session_that_is_stopped_says_so_and_leaves_nothing)
{
	static struct adding a;
	struct sgpu_remote *remote;
	struct worker w;

	start_worker(&w);
	remote = open_remote(&w);
	REQUIRE(remote && load_adding(remote, &a) == SGPU_OK && add_once(remote, &a, 1) == SGPU_OK);
	sgpu_remote_service_stop(w.service);
	CHECK(add_once(remote, &a, 2) == SGPU_ESYSTEM &&
	      strstr(error.text, "worker of the session has ended"));
	CHECK(add_once(remote, &a, 3) < 0);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

int main(void)
{
	DEVICE_OR_SKIP();
	if (!open_all()) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(data_of_all_sizes_go_there_and_come_back);
	UNIT_RUN(an_operation_is_one_exchange_of_messages);
	UNIT_RUN(four_pieces_that_just_fill_the_area_are_one_exchange);
	UNIT_RUN(many_small_copies_fill_groups_and_the_area_again_and_again);
	UNIT_RUN(equal_data_are_never_sealed_alike);
	UNIT_RUN(an_old_piece_does_not_verify_on_the_way_in);
	UNIT_RUN(an_old_piece_does_not_verify_on_the_way_out);
	UNIT_RUN(pieces_that_are_exchanged_do_not_verify);
	UNIT_RUN(a_piece_under_an_old_key_does_not_verify);
	UNIT_RUN(a_program_that_goes_leaves_nothing);
	UNIT_RUN(a_program_that_ends_its_session_keeps_no_keys);
	UNIT_RUN(no_job_runs_over_data_of_which_some_do_not_verify);
	UNIT_RUN(a_session_that_is_stopped_says_so_and_leaves_nothing);
	close_all();
	return unit_done();
}
