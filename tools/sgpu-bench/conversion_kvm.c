/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion by a minimal guest, and the host's parts of it by themselves.
 */
#include <fcntl.h>

#include "conversion.h"

enum part { DROP_SHARED, MAP_SHARED_PAGES, DROP_PRIVATE, MAP_PRIVATE_PAGES, SET_ATTRIBUTES };

/* The conversion back comes before, and is accepted, so that the pages are there in their old
 * state. */
static int by_guest(const struct conversion_way *w, const struct conversion_call *call, double *ns,
		    struct sgpu_error *error)
{
	struct kvm_guest *g = &w->c->guest;
	uint64_t spent = 0;
	int rc = SGPU_OK;

	g->bytes = call->pages * call->page_bytes;
	for (int last = 0; rc == SGPU_OK && last < 2; last++) {
		g->to_private = last ? call->to_private : !call->to_private;
		rc = kvm_guest_run(g, KVM_GUEST_CONVERT,
				   last && !call->to_private ? 0 : (uint32_t)g->bytes, &spent,
				   error);
	}
	*ns = (double)spent;
	return rc;
}

/* Carries a part out, or undoes it. */
static int do_part(struct kvm_guest *g, int part, bool undo, uint64_t bytes,
		   struct sgpu_error *error)
{
	const bool private = part == DROP_PRIVATE || part == MAP_PRIVATE_PAGES;

	if (part == SET_ATTRIBUTES) {
		return kvm_guest_set_attributes(g, !undo, bytes, error);
	} else if ((part == DROP_SHARED || part == DROP_PRIVATE) != undo) {
		return kvm_guest_drop(g, private, bytes, error);
	}
	for (uint64_t i = 0; !private && i < bytes; i += CONVERSION_SMALL) {
		((volatile uint8_t *)g->shared)[i] = 1;
	}
	return !private || fallocate(g->private_memory, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0
		       ? SGPU_OK
		       : sgpu_fail_errno(error, "cannot allocate private pages");
}

static int by_host(const struct conversion_way *w, const struct conversion_call *call, double *ns,
		   struct sgpu_error *error)
{
	const uint64_t bytes = call->pages * call->page_bytes;
	int rc = do_part(&w->c->guest, w->detail, true, bytes, error);
	const uint64_t begin = sgpu_now_ns();

	rc = rc ? rc : do_part(&w->c->guest, w->detail, false, bytes, error);
	*ns = (double)(sgpu_now_ns() - begin);
	return rc;
}

/* One batch: the host's parts, and where the guest's times say something, both directions by the
 * guest. */
static int measure_batch(struct conversion *c, uint64_t pages, uint64_t page_bytes,
			 struct sgpu_error *error)
{
	struct conversion_way parts[] = {
		{ .name = "shared dropped", .convert = by_host, .detail = DROP_SHARED },
		{ .name = "shared mapped", .convert = by_host, .detail = MAP_SHARED_PAGES },
		{ .name = "private dropped", .convert = by_host, .detail = DROP_PRIVATE },
		{ .name = "private mapped", .convert = by_host, .detail = MAP_PRIVATE_PAGES },
		{ .name = "attributes set", .convert = by_host, .detail = SET_ATTRIBUTES },
	};
	struct conversion_way guest = { .name = c->guest.has_hypercall ? "hypercall" : "port",
					.convert = by_guest };
	struct conversion_call call = { false, pages, page_bytes };
	const int count = c->guest.has_attributes ? 5 : c->guest.private_memory >= 0 ? 4 : 2;
	int rc = conversion_measure(c, "host", "kvm", &call, 1, parts, count, error);

	for (int i = 0; rc == SGPU_OK && !c->is_emulated && i < 2; i++) {
		call.to_private = i;
		rc = conversion_measure(c, "conversion", "kvm", &call, 1, &guest, 1, error);
	}
	return rc;
}

int conversion_by_guest(struct conversion *c, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "source", "kvm", 0 } } };
	const struct conversion_way way = { .name = "converted", .convert = by_guest };
	int rc = SGPU_OK;

	if (!c->has_guest || c->is_emulated) {
		sgpu_bench_waive(c->bench, &point, c->has_guest ? "guest" : NULL, "%s",
				 c->why.text);
	}
	if (c->has_guest && !c->guest.has_attributes) {
		sgpu_bench_waive(c->bench, &point, "attributes",
				 "KVM has no memory attributes for a guest_memfd here");
	}
	for (int i = 0; rc == SGPU_OK && c->has_guest && i < 2 * CONVERSION_BATCHES; i++) {
		const uint64_t page_bytes = i % 2 ? CONVERSION_HUGE : CONVERSION_SMALL,
			       pages = conversion_batches[i / 2];

		if (pages * page_bytes <= c->guest.size && (!c->bench->options.quick || i == 0)) {
			rc = measure_batch(c, pages, page_bytes, error);
		}
	}
	if (rc == SGPU_OK && c->has_guest && !c->is_emulated) {
		rc = conversion_stream(c, "kvm", CONVERSION_SMALL, &way, 1, error);
	}
	if (rc == SGPU_EUNAVAILABLE) { /* its record says why; the other sources remain */
		c->is_emulated = true;
		rc = SGPU_OK;
	}
	return rc;
}
