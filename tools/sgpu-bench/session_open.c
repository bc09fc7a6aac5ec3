/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of the case session that are opened for it: with a secure context, and without.
 */
#include <sgpu/secure.h>

#include "cases.h"

/* What is opened, and which end of it is timed. */
struct opening {
	struct sgpu_bench *bench;
	struct sgpu_key owner;     /* made beforehand */
	bool ends;
};

struct opened {
	struct sgpu_device *device;
	struct sgpu_secure *context;
	struct sgpu_stream *stream;
};

enum kind { PLAIN, SECURE, AGREED };

/* Up to a stream that takes work. AGREED also makes the owner's key, and agrees one with the device where there is one
 * to agree. */
static int open_all(const struct opening *o, enum kind kind, struct opened *opened, struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = o->bench->options.jobs, .bare_keys = kind != AGREED };
	const struct sgpu_secure_config with = { .owner = kind == SECURE ? &o->owner : NULL };
	struct sgpu_device_agreement agreement;
	int rc = sgpu_device_open(o->bench->info.selector, &config, &opened->device, error);

	if (rc == SGPU_OK && kind == AGREED) {
		rc = sgpu_device_agree(opened->device, &agreement, error);
	}
	if (rc == SGPU_OK && kind != PLAIN) {
		rc = sgpu_secure_create(opened->device, &with, &opened->context, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_create(opened->context ? sgpu_secure_device(opened->context) : opened->device,
					&opened->stream, error);
	}
	return rc;
}

static void close_all(struct opened *opened)
{
	sgpu_stream_free(&opened->stream);
	sgpu_secure_destroy(&opened->context);
	sgpu_device_close(&opened->device);
}

static int run(const struct opening *o, enum kind kind, uint64_t *ns, struct sgpu_error *error)
{
	struct opened opened = { 0 };
	uint64_t begin = sgpu_now_ns(), middle, end;
	int rc = open_all(o, kind, &opened, error);

	middle = sgpu_now_ns();
	close_all(&opened);
	end = sgpu_now_ns();
	*ns = o->ends ? end - middle : middle - begin;
	return rc;
}

static int run_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run(argument, PLAIN, ns, error);
}

static int run_secure(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run(argument, SECURE, ns, error);
}

static int run_agreed(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run(argument, AGREED, ns, error);
}

int bench_session_open(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct opening o = { .bench = bench };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = run_plain, .argument = &o },
		{ .name = "secure", .run = run_secure, .argument = &o },
		{ .name = "secure, keys made", .run = run_agreed, .argument = &o,
		  .reference_ratio = 3.25, .reference = "Graviton, cuCtxCreate" },
	};
	struct sgpu_bench_variant ends[] = { variants[PLAIN], variants[SECURE] };
	const struct sgpu_bench_point creation = { .parameters = { { "what", "create", 0 },
								   { "graviton_us", NULL, 252630 } } };
	const struct sgpu_bench_point end = { .parameters = { { "what", "destroy", 0 },
							      { "graviton_us", NULL, 29430 } } };
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &o.owner, error);

	ends[1].reference_ratio = 1.73;
	ends[1].reference = "Graviton, cuCtxDestroy";
	rc = rc == SGPU_OK ? sgpu_bench_measure(bench, &creation, variants, 3, error) : rc;
	o.ends = true;
	rc = rc == SGPU_OK ? sgpu_bench_measure(bench, &end, ends, 2, error) : rc;
	sgpu_key_clear(&o.owner);
	return rc;
}
