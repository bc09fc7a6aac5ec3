/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of the case session that are opened for it, with a secure context and without: in this
 * process, whose device is open already, and each as the first of a process of its own.
 */
#include <stdio.h>

#include <sgpu/io.h>
#include <sgpu/secure.h>

#include "secure/group.h"

#include "cases.h"

/* What is opened, and which end of it is timed. */
struct opening {
	struct sgpu_bench *bench;
	enum bench_opening kind;
	bool ends;
};

int bench_open(const char *selector, unsigned jobs, enum bench_opening kind, uint64_t ns[2],
	       struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = jobs,
						   .bare_keys = kind != BENCH_AGREED };
	struct sgpu_key owner = { 0 };
	const struct sgpu_secure_config with = { .owner = kind == BENCH_SECURE ? &owner : NULL };
	struct sgpu_device_agreement agreement;
	struct sgpu_device *device = NULL;
	struct sgpu_secure *context = NULL;
	struct sgpu_stream *stream = NULL;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &owner, error);
	const uint64_t begin = sgpu_now_ns();

	rc = rc ? rc : sgpu_device_open(selector, &config, &device, error);
	if (rc == SGPU_OK && kind == BENCH_AGREED) {
		rc = sgpu_device_agree(device, &agreement, error);
	}
	if (rc == SGPU_OK && kind != BENCH_PLAIN) {
		rc = sgpu_secure_create(device, &with, &context, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_create(context ? sgpu_secure_device(context) : device, &stream,
					error);
	}
	ns[0] = sgpu_now_ns() - begin;
	sgpu_stream_free(&stream);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	ns[1] = sgpu_now_ns() - begin - ns[0];
	sgpu_key_clear(&owner);
	return rc;
}

/* ---- what is timed ---- */
static int run_here(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct opening *o = argument;
	uint64_t both[2];
	int rc = bench_open(o->bench->info.selector, o->bench->options.jobs, o->kind, both, error);

	*ns = both[o->ends];
	return rc;
}

/* In a process of its own, whose verb `open` says how long it took. */
static int run_process(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct opening *o = argument;
	const size_t mark = sgpu_bench_mark(o->bench);
	unsigned long long opening = 0, closing;
	struct sgpu_pipe pipe;
	char text[64];
	size_t got = 0;
	int rc = bench_start_pipe(o->bench, o->kind == BENCH_SECURE ? "--secure" : NULL, NULL,
				  &pipe, error);

	rc = rc ? rc : sgpu_read(pipe.in, "sgpu-bench open", text, sizeof(text) - 1, &got, error);
	sgpu_bench_release(o->bench, mark);
	text[got] = '\0';
	if (rc == SGPU_OK && sscanf(text, "%llu %llu", &opening, &closing) != 2) {
		rc = sgpu_fail(error, SGPU_EDEVICE,
			       "'sgpu-bench open' did not say how long it took");
	}
	*ns = o->ends ? closing : opening;
	return rc;
}

/* ---- the points ---- */
int bench_session_open(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const char *const names[] = { "plain", "secure", "secure, keys made" };
	static const struct {
		const char *what;
		int (*run)(void *argument, uint64_t *ns, struct sgpu_error *error);
		bool ends;
		int count;
	} points[] = { { "first of a process", run_process, false, 2 },
		       { "last of a process", run_process, true, 2 },
		       { "create", run_here, false, 3 },
		       { "destroy", run_here, true, 2 } };
	struct sgpu_bench_variant variants[3];
	struct opening openings[3];
	int rc = SGPU_OK;

	for (size_t p = 0; rc == SGPU_OK && p < SGPU_ARRAY_LENGTH(points); p++) {
		const struct sgpu_bench_point point = { .parameters = {
								{ "what", points[p].what, 0 } } };

		for (int i = 0; i < points[p].count; i++) {
			openings[i] =
				(struct opening){ bench, (enum bench_opening)i, points[p].ends };
			variants[i] = (struct sgpu_bench_variant){ .name = names[i],
								   .run = points[p].run,
								   .argument = &openings[i] };
		}
		rc = sgpu_bench_measure(bench, &point, variants, points[p].count, error);
	}
	return rc;
}
