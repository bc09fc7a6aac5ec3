/* SPDX-License-Identifier: Apache-2.0
 *
 * See supervisor.h. After start-time fair queueing (Goyal, Vin and Cheng 1996), with turns that are
 * charged while they last.
 */
#include "supervisor.h"

static bool is_earlier(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0;
}

static bool is_busy(const struct share *share)
{
	return share->weight > 0 &&
	       (share->waiting > 0 || share->turns > 0 || share->held || share->lacks);
}

/* Advances the clock to busy tenants' least pass or, if none is busy, the greatest pass. */
static void set_clock(struct shares *s, bool high)
{
	uint64_t *clock = &s->clock[high], least = 0;
	bool busy = false;

	for (const struct share *share = s->of; share < s->of + s->count; share++) {
		if (share->high == high && is_busy(share)) {
			least = !busy || is_earlier(share->pass, least) ? share->pass : least;
			busy = true;
		}
	}
	for (const struct share *share = s->of; share < s->of + s->count && !busy; share++) {
		if (share->weight > 0 && share->high == high && is_earlier(*clock, share->pass)) {
			*clock = share->pass;
		}
	}
	if (busy && is_earlier(*clock, least)) {
		*clock = least;
	}
}

void shares_add(struct shares *s, unsigned i, unsigned weight, bool high)
{
	s->of[i] = (struct share){ .weight = weight, .high = high, .pass = s->clock[high] };
	s->count = i < s->count ? s->count : i + 1;
}

void shares_change(struct shares *s, unsigned i, unsigned weight, bool high)
{
	struct share *share = &s->of[i];

	if (share->high != high) {
		share->pass = s->clock[high];
	}
	share->weight = weight;
	share->high = high;
	share->rest = 0;
}

void shares_advance(struct shares *s, uint64_t now_ns)
{
	const uint64_t passed = s->now_ns != 0 && now_ns > s->now_ns ? now_ns - s->now_ns : 0;

	s->now_ns = now_ns;
	for (struct share *share = s->of; share < s->of + s->count; share++) {
		const uint64_t cost = passed * (share->turns + share->held);

		if (cost > 0 && share->weight > 0) {
			share->used_ns += cost;
			share->pass += (share->rest + cost) / share->weight;
			share->rest = (share->rest + cost) % share->weight;
		}
	}
	for (int high = 0; high < SHARE_PRIORITIES; high++) {
		set_clock(s, high);
	}
}

void shares_settle(struct shares *s)
{
	for (struct share *share = s->of; share < s->of + s->count; share++) {
		const bool busy = is_busy(share);

		if (busy && !share->busy && is_earlier(share->pass, s->clock[share->high])) {
			share->pass = s->clock[share->high];
		}
		share->busy = busy;
	}
}

bool share_is_before(const struct share *a, const struct share *b)
{
	if (a->high != b->high) {
		return a->high;
	}
	if (a->pass != b->pass) {
		return is_earlier(a->pass, b->pass);
	}
	if (a->turns * b->weight != b->turns * a->weight) {
		return a->turns * b->weight < b->turns * a->weight;
	}
	return a->granted < b->granted;
}

int shares_next(const struct shares *s, unsigned running)
{
	unsigned turns[SHARE_PRIORITIES] = { 0 };
	int next = -1;

	for (int i = 0; i < (int)s->count; i++) {
		turns[s->of[i].high] += s->of[i].turns;
	}
	for (int i = 0; i < (int)s->count; i++) {
		const struct share *share = &s->of[i];
		const unsigned before = turns[true] + (share->high ? 0 : turns[false]);

		if (share->weight > 0 && share->waiting > 0 && !share->barred && before < running &&
		    (next < 0 || share_is_before(share, &s->of[next]))) {
			next = i;
		}
	}
	return next;
}

void shares_grant(struct shares *s, unsigned i)
{
	struct share *share = &s->of[i];

	share->waiting--;
	share->turns++;
	share->granted = ++s->granted;
}
