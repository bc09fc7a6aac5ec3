/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a batch with more sealed segments than one message to the device takes: each segment
 * has its own, once, and one that is wrong harms no other. On the device that $SGPU_TEST_DEVICE
 * names.
 */
#include "fake_gpu.h"

enum { COUNT = 70, SIZE = 300, LARGE = 140000, IN_FILE = 5 };

struct many {
	struct sgpu_batch *batch;
	uint8_t key[SGPU_KEY_SIZE];
	uint8_t data[COUNT][LARGE];
	uint8_t sealed[COUNT][LARGE + 1000];
};

/* Keys are loaded 64 at a time. Where some segments are large, they are those whose outputs come
 * after the first 128 payloads, so an input that fails leaves a large output without a key. */
static bool some_are_large;

static int size_of(int i)
{
	return some_are_large && i % COUNT >= 128 - COUNT ? LARGE : SIZE;
}

/* i0 to i69 are copied to o0 to o69; all are HIGH. */
static char *many_text(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	fprintf(out, "{\"version\":1,\"manifest_id\":\"many\",\"segments\":[");
	for (int i = 0; i < 2 * COUNT; i++) {
		fprintf(out,
			"%s{\"segment_id\":\"%c%d\",\"data_location_client\":\"x%d\","
			"\"sensitivity_level\":\"HIGH\",\"direction\":\"%s\",\"data_type_info\":"
			"{\"dtype\":\"u8\",\"shape\":[%d]}}",
			i ? "," : "", i < COUNT ? 'i' : 'o', i % COUNT, i,
			i < COUNT ? "INPUT" : "OUTPUT", size_of(i));
	}
	fprintf(out, "],\"operations\":[");
	for (int i = 0; i < COUNT; i++) {
		fprintf(out,
			"%s{\"gpu_operation_id\":\"C%d\",\"kernel\":\"copy\",\"arguments\":"
			"{\"input\":\"i%d\",\"output\":\"o%d\"}}",
			i ? "," : "", i, i, i);
	}
	fprintf(out, "]}");
	fclose(out);
	return text;
}

static void make_many(struct many *many)
{
	memset(many, 0, sizeof(*many));
	many->batch = batch_of(many_text());
	if (sgpu_random(many->key, SGPU_KEY_SIZE, &error)) {
		abort();
	}
	for (int i = 0; i < COUNT; i++) {
		memset(many->data[i], i + 1, (size_t)size_of(i));
		if (batch_set_payload(many->batch, i, many->data[i], (size_t)size_of(i), &error)) {
			abort();
		}
	}
	many->batch->packed = false;
	for (int i = 0; i < COUNT; i++) {
		if (batch_seal_payload(many->batch, many->key, i, many->data[i], many->sealed[i],
				       &error)) {
			abort();
		}
	}
	if (sgpu_batch_wrap(many->batch, &owner, many->key, &error)) {
		abort();
	}
}

/* The header of input `bad` names another key, in the index as well. */
static void spoil(struct many *many, int bad)
{
	many->batch->segments[bad].header[SGPU_SEALED_HEADER - 1] ^= 1;
	many->sealed[bad][SGPU_SEALED_HEADER - 1] ^= 1;
}

static int run_many(struct many *many, int *out)
{
	const void *data[2 * COUNT];
	int in = memfd_create("batch", MFD_CLOEXEC), rc;

	for (int i = 0; i < COUNT; i++) {
		data[i] = data[i + COUNT] = many->sealed[i];
	}
	sgpu_batch_change(many->batch, true);
	if (in < 0 || sgpu_batch_sign(many->batch, many->key, &error)) {
		abort();
	}
	write_payloads(many->batch, data, in);
	lseek(in, 0, SEEK_SET);
	*out = memfd_create("response", MFD_CLOEXEC);
	rc = run_with(&owner, in, *out, 0, NULL);
	lseek(*out, 0, SEEK_SET);
	close(in);
	return rc;
}

/* All results but that of input `bad` are right. */
static void check_many(struct many *many, int out, int bad)
{
	struct sgpu_tar_reader *tar = NULL;
	struct sgpu_batch *answer = NULL;
	int index = 0, count = 0;

	REQUIRE(sgpu_tar_open(out, "response", &tar, &error) == SGPU_OK);
	REQUIRE(sgpu_batch_read(tar, SGPU_READ_RESPONSE, &answer, &error) == SGPU_OK);
	REQUIRE(sgpu_batch_verify(answer, many->key, &error) == SGPU_OK);
	while (sgpu_batch_next_payload(tar, answer, &index, &error) == SGPU_OK && index >= 0) {
		static uint8_t payload[LARGE + 1000], opened[LARGE];
		const int i = atoi(answer->segments[index].id + 1);

		CHECK(i != bad);
		REQUIRE(sgpu_tar_read(tar, payload, sgpu_batch_payload_size(answer, index),
				      &error) == SGPU_OK);
		CHECK(batch_open_payload(answer, many->key, index, payload, opened, &error) ==
			      SGPU_OK &&
		      memcmp(opened, many->data[i], (size_t)size_of(i)) == 0);
		count++;
	}
	CHECK(count == COUNT - (bad >= 0));
	for (int i = 0; i < answer->segment_count; i++) {
		CHECK((answer->segments[i].status != SGPU_OK) ==
		      (atoi(answer->segments[i].id + 1) == bad));
	}
	sgpu_batch_free(&answer);
	sgpu_tar_close(&tar);
	close(out);
}

UNIT_TEST(a_key_that_is_wrong_fails_its_segment_alone)
{
	static const int bad[] = { 0, 3, COUNT - 1 };
	struct many *many = malloc(sizeof(*many));
	int out;

	REQUIRE(many);
	some_are_large = true;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		make_many(many);
		spoil(many, bad[i]);
		CHECK(run_many(many, &out) == SGPU_ESEGMENTS);
		check_many(many, out, bad[i]);
		sgpu_batch_free(&many->batch);
	}
	some_are_large = false;
	free(many);
}

static atomic_int loads, messages;

static int count_loads(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
		       int count, struct sgpu_device_key **keys, struct sgpu_error *why)
{
	atomic_fetch_add(&loads, count);
	atomic_fetch_add(&messages, 1);
	return fake_key_load(stream, material, count, keys, why);
}

/* The one in a file comes first, and has ended when the others do. */
UNIT_TEST(each_key_is_loaded_once_and_many_at_a_time)
{
	struct many *many = malloc(sizeof(*many));
	char *path = NULL;
	int fd, out;

	if (strcmp(device_name(), "cpu") != 0 || more_count > 0) {
		free(many);
		SKIP("the device is what it is");
	}
	REQUIRE(many);
	make_many(many);
	fd = new_file(&path);
	REQUIRE(sgpu_pwrite(fd, path, many->sealed[IN_FILE],
			    sgpu_batch_payload_size(many->batch, IN_FILE), 0, &error) == SGPU_OK);
	many->batch->segments[IN_FILE].location =
		(struct sgpu_location){ .kind = SGPU_LOCATION_FILE, .file = path };
	make_fake_gpu();
	fake.backend.key.load = count_loads;
	atomic_store(&loads, 0);
	atomic_store(&messages, 0);
	CHECK(run_many(many, &out) == SGPU_OK);
	CHECK(atomic_load(&loads) == 2 * COUNT);
	CHECK(atomic_load(&messages) <= 5);
	CHECK(fake_is_clean());
	unmake_fake_gpu();
	check_many(many, out, -1);
	sgpu_batch_free(&many->batch);
	free(many);
	close(fd);
}

static void all_tests(void)
{
	UNIT_RUN(a_key_that_is_wrong_fails_its_segment_alone);
	UNIT_RUN(each_key_is_loaded_once_and_many_at_a_time);
}

int main(void)
{
	open_device(2);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		bail_out();
	}
	run_on_all(NULL, all_tests, NULL);
	sgpu_device_close(&device);
	return unit_done();
}
