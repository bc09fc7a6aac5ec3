/* SPDX-License-Identifier: Apache-2.0
 *
 * conversion: pages between private and shared, by the hardware, by a minimal guest and by a model,
 * never in one figure; and what that does to streaming.
 */
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "cli.h"
#include "conversion.h"
#include "memory.h"

enum { SEED = 12 };
static const uint64_t guest_room = (uint64_t)128 << 20,
		      stream_sizes[] = { (uint64_t)2 << 20, (uint64_t)64 << 20 };

const uint64_t conversion_batches[CONVERSION_BATCHES] = { 1, 8, 64, 512 };

/* A call; or, for a buffer, a copy, a call to make it shared, and one to make it private again. */
static int run_way(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct conversion_way *w = argument;
	struct conversion_call call = w->call;
	double total = 0, part = 0;
	int rc = SGPU_OK;

	if (w->copied > 0) {
		const uint64_t begin = sgpu_now_ns();

		if (w->detail < 0) {
			memcpy(w->c->pool, w->c->private, w->copied);
		}
		rc = bench_to_device(w->c->stream, w->c->device_memory, w->c->pool, w->copied,
				     error);
		total = (double)(sgpu_now_ns() - begin);
	}
	for (int i = w->copied ? 0 : 1; rc == SGPU_OK && w->convert && i < 2; i++) {
		rc = w->convert(w, &call, &part, error);
		total += part;
		call.to_private = !call.to_private;
	}
	w->least_ns = w->least_ns <= 0 || total < w->least_ns ? total : w->least_ns;
	*ns = (uint64_t)(total + 0.5);
	return rc;
}

static int spoil_copy(void *argument, struct sgpu_error *error)
{
	const struct conversion_way *w = argument;

	return bench_clear(w->c->stream, w->c->device_memory, w->copied, error);
}

static int verify_copy(void *argument, struct sgpu_error *error)
{
	const struct conversion_way *w = argument;
	int rc = bench_from_device(w->c->stream, w->c->pool, w->c->device_memory, w->copied, error);

	return rc ? rc : bench_verify(w->c->pool, w->copied, SEED, error);
}

static int measure(struct conversion *c, const struct sgpu_bench_point *point,
		   const struct conversion_call *call, struct conversion_way *ways, int count,
		   struct sgpu_error *error)
{
	struct sgpu_bench_variant variants[SGPU_BENCH_VARIANTS_MAX];

	for (int i = 0; i < count; i++) {
		ways[i].c = c;
		ways[i].call = *call;
		ways[i].copied = point->bytes;
		ways[i].least_ns = 0;
		variants[i] =
			(struct sgpu_bench_variant){ .name = ways[i].name,
						     .run = run_way,
						     .argument = &ways[i],
						     .prepare = point->bytes ? spoil_copy : NULL,
						     .verify = point->bytes ? verify_copy : NULL };
	}
	return sgpu_bench_measure(c->bench, point, variants, count, error);
}

int conversion_measure(struct conversion *c, const char *what, const char *source,
		       const struct conversion_call *call, unsigned threads,
		       struct conversion_way *ways, int count, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = {
		.parameters = { { "what", what, 0 },
				{ "source", source, 0 },
				{ "page_bytes", NULL, call->page_bytes },
				{ "pages", NULL, call->pages },
				{ "threads", NULL, threads },
				{ strcmp(what, "conversion") == 0 ? "direction" : NULL,
				  call->to_private ? "to private" : "to shared", 0 } },
		.operations = call->pages,
	};

	return measure(c, &point, call, ways, count, error);
}

int conversion_stream(struct conversion *c, const char *source, uint64_t page_bytes,
		      const struct conversion_way *ways, int count, struct sgpu_error *error)
{
	struct conversion_way all[SGPU_BENCH_VARIANTS_MAX] = {
		{ .name = "pool" }, { .name = "pool, filled", .detail = -1 }
	};
	int rc = SGPU_OK;

	memcpy(all + 2, ways, (size_t)count * sizeof(*ways));
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(stream_sizes); i++) {
		const uint64_t size = stream_sizes[i];
		const struct conversion_call call = { false, size / page_bytes, page_bytes };
		const struct sgpu_bench_point point = {
			.parameters = { { "what", "stream", 0 },
					{ "source", source, 0 },
					{ "size_bytes", NULL, size },
					{ "page_bytes", NULL, page_bytes } },
			.bytes = size,
		};

		if (size > c->room || !sgpu_bench_wants(c->bench, size)) {
			continue;
		}
		rc = measure(c, &point, &call, all, count + 2, error);
		for (int j = 0; rc == SGPU_OK && j < count + 2; j++) {
			cli_note("conversion: %s, streaming %2llu MiB, pages of %4llu KiB: %5.1f "
				 "GB/s: %s",
				 source, (unsigned long long)size >> 20,
				 (unsigned long long)page_bytes >> 10,
				 (double)size / all[j].least_ns, all[j].name);
		}
	}
	return rc;
}

static int make(struct conversion *c, struct sgpu_error *error)
{
	struct sgpu_bench *bench = c->bench;
	int rc = sgpu_bench_fits(bench, 2 * c->room + 2 * guest_room, c->room, error);

	rc = rc ? rc
		: bench_new_pages(bench, CONVERSION_HUGE, BENCH_PAGES_ANY, -1, &c->huge, error);
	rc = rc ? rc
		: bench_new_pages(bench, CONVERSION_HUGE, BENCH_PAGES_SMALL, -1, &c->small, error);
	rc = rc ? rc : bench_new_pages(bench, c->room, BENCH_PAGES_ANY, -1, &c->private, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, c->room, &c->pool, error);
	rc = rc ? rc : sgpu_bench_new_device_memory(bench, c->room, &c->device_memory, error);
	rc = rc ? rc : sgpu_bench_new_stream(bench, bench->device, &c->stream, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(c->pool, c->room, SEED);
		sgpu_bench_fill(c->private, c->room, SEED);
	}
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct conversion c = { .bench = bench,
				.room = stream_sizes[bench->options.quick ? 0 : 1] };
	int rc = make(&c, error);

	c.has_guest = kvm_guest_open(&c.guest, KVM_GUEST_DEVICE, guest_room, &c.why) == SGPU_OK;
	c.is_emulated = c.has_guest && kvm_guest_check_speed(&c.guest, &c.why) != SGPU_OK;
	rc = rc ? rc : conversion_by_hardware(&c, error);
	rc = rc ? rc : conversion_by_guest(&c, error);
	rc = rc ? rc : conversion_by_model(&c, error);
	if (c.has_guest) {
		kvm_guest_close(&c.guest);
	}
	return rc;
}

const struct sgpu_bench_case case_conversion = {
	.name = "conversion",
	.help = "pages between private and shared: hardware, a minimal guest, a model; streaming "
		"with it",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
