/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys agreed with the device, of the case quote: a device that is opened until a segment's key is on it, which goes
 * there sealed to a key that the device made, or bare.
 */
#include <sgpu/seal.h>

#include "cases.h"

struct agreeing {
	struct sgpu_bench *bench;
	bool bare;
};

static int run(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct agreeing *a = argument;
	const struct sgpu_device_config config = { .jobs = a->bench->options.jobs, .bare_keys = a->bare };
	const struct sgpu_sealed_keys keys = { .key = { 1 } }; /* nothing is sealed with it */
	struct sgpu_device *device = NULL;
	struct sgpu_stream *stream = NULL;
	struct sgpu_device_key *key = NULL;
	uint64_t begin = sgpu_now_ns();
	int rc = sgpu_device_open(a->bench->info.selector, &config, &device, error);

	rc = rc == SGPU_OK ? sgpu_stream_create(device, &stream, error) : rc;
	rc = rc == SGPU_OK ? sgpu_device_key_load(stream, &keys, &key, error) : rc;
	rc = rc == SGPU_OK ? sgpu_stream_sync(stream, error) : rc;
	*ns = sgpu_now_ns() - begin;
	sgpu_device_key_free(&key);
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
	return rc;
}

int bench_quote_agree(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct agreeing bare = { bench, true }, agreed = { bench, false };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "bare keys", .run = run, .argument = &bare },
		{ .name = "keys agreed", .run = run, .argument = &agreed },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "agree", 0 } } };
	struct sgpu_device_agreement agreement;
	int rc = sgpu_device_agree(bench->device, &agreement, error);

	if (rc == SGPU_OK && !agreement.agreed) {
		sgpu_bench_waive(bench, &point, NULL, "%s", agreement.text);
		return SGPU_OK;
	}
	return rc == SGPU_OK ? sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error) : rc;
}
