/* SPDX-License-Identifier: Apache-2.0
 *
 * A list schedule: operations in order, with the times at which devices and segments would be
 * ready. Sums saturate: sizes that are too large for any machine count as equal.
 */
#include "run/plan.h"

#include <stdlib.h>

#include <sgpu/base.h>

struct spreader {
	const struct sgpu_manifest *manifest;
	int devices;
	const struct sgpu_spread_costs *costs;
	struct sgpu_spread *spread;
	uint64_t *there; /* by segment and device: when the segment is on it, or NEVER */
	uint64_t *ended; /* by operation: when it has ended */
	uint64_t idle[SGPU_RUN_DEVICES_MAX];	/* when a device's operations so far have ended */
	uint64_t arrived[SGPU_RUN_DEVICES_MAX]; /* when its inputs so far have arrived */
};

/* The cost of one operation on one device. */
struct choice {
	int device;
	uint64_t end;
	uint64_t arrived; /* when its inputs from the host would have arrived */
	uint64_t present; /* bytes of its inputs that the device already has */
};

#define NEVER UINT64_MAX

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return sgpu_add_u64(a, b, &sum) && sum < NEVER ? sum : NEVER - 1;
}

static uint64_t travel(const struct spreader *s, uint64_t bytes)
{
	uint64_t product;

	return sgpu_mul_u64(bytes, s->costs->travel, &product) ? product : NEVER - 1;
}

static uint64_t bytes_of(const struct spreader *s, int segment)
{
	uint64_t bytes = 0;

	return sgpu_type_bytes(&s->manifest->segments[segment].type, &bytes) ? bytes : 0;
}

/* Returns the segment that an operation reads as argument `k` or, after the last one, as its
 * module; -1: none, or it is also an earlier argument. */
static int reads(const struct sgpu_operation *op, int k)
{
	const int segment = k < op->arg_count ? (op->args[k].output ? -1 : op->args[k].segment)
					      : (op->module ? op->module->segment : -1);

	for (int i = 0; segment >= 0 && i < k; i++) {
		if (!op->args[i].output && op->args[i].segment == segment) {
			return -1;
		}
	}
	return segment;
}

static uint64_t *there(const struct spreader *s, int segment, int device)
{
	return &s->there[(size_t)segment * (size_t)s->devices + (size_t)device];
}

static uint64_t latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns when the segment would be on the choice's device; adds to the choice's sums. */
static uint64_t when_there(const struct spreader *s, int segment, struct choice *choice)
{
	const uint64_t bytes = bytes_of(s, segment), known = *there(s, segment, choice->device);
	const int home = s->spread->home[segment];

	if (known != NEVER) {
		choice->present = add(choice->present, bytes);
		return known;
	}
	if (home < 0) {
		choice->arrived = add(choice->arrived, travel(s, bytes));
		return choice->arrived;
	}
	return add(*there(s, segment, home), add(s->costs->move, travel(s, bytes)));
}

static struct choice try_device(const struct spreader *s, int operation, int device)
{
	const struct sgpu_operation *op = &s->manifest->operations[operation];
	struct choice choice = { .device = device, .arrived = s->arrived[device] };
	uint64_t ready = s->idle[device], work = 0;

	for (int i = 0; i <= op->arg_count; i++) {
		const int segment = reads(op, i);

		if (segment >= 0) {
			ready = latest(ready, when_there(s, segment, &choice));
		}
		if (i < op->arg_count && op->args[i].segment >= 0) {
			work = add(work, bytes_of(s, op->args[i].segment));
		}
	}
	for (int i = 0; i < op->before_count; i++) {
		ready = latest(ready, s->ended[op->before[i]]);
	}
	choice.end = add(ready, work);
	return choice;
}

static bool is_better(const struct choice *one, const struct choice *other)
{
	return one->end != other->end ? one->end < other->end : one->present > other->present;
}

static struct choice choose_device(const struct spreader *s, int operation)
{
	const struct sgpu_module_call *module = s->manifest->operations[operation].module;
	const int fixed = module && module->segment >= 0 ? s->spread->home[module->segment] : -1;
	struct choice best = try_device(s, operation, fixed >= 0 ? fixed : 0);

	for (int i = 1; fixed < 0 && i < s->devices; i++) {
		const struct choice choice = try_device(s, operation, i);

		best = is_better(&choice, &best) ? choice : best;
	}
	return best;
}

/* Records a choice: the operation's inputs are then also on the device, and its outputs only there.
 */
static void settle_operation(struct spreader *s, int operation, const struct choice *choice)
{
	const struct sgpu_operation *op = &s->manifest->operations[operation];
	struct choice again = { .device = choice->device, .arrived = s->arrived[choice->device] };

	for (int i = 0; i <= op->arg_count; i++) {
		const int segment = reads(op, i);

		if (segment >= 0) {
			*there(s, segment, choice->device) = when_there(s, segment, &again);
			if (s->spread->home[segment] < 0) {
				s->spread->home[segment] = choice->device;
			}
		}
	}
	for (int i = 0; i < op->arg_count; i++) {
		const int segment = op->args[i].segment;

		/* Operations read the value of an INPUT_OUTPUT segment that arrives, never the one
		 * that is written. */
		if (op->args[i].output && segment >= 0 &&
		    !sgpu_segment_is_input(&s->manifest->segments[segment])) {
			s->spread->home[segment] = choice->device;
			*there(s, segment, choice->device) = choice->end;
		}
	}
	s->spread->device[operation] = choice->device;
	s->ended[operation] = s->idle[choice->device] = choice->end;
	s->arrived[choice->device] = choice->arrived;
}

int sgpu_spread_create(const struct sgpu_manifest *manifest, int devices,
		       const struct sgpu_spread_costs *costs, struct sgpu_spread *spread,
		       struct sgpu_error *error)
{
	const size_t segments = (size_t)manifest->segment_count,
		     operations = (size_t)manifest->operation_count;
	struct spreader s = {
		.manifest = manifest, .devices = devices, .costs = costs, .spread = spread
	};
	int rc = SGPU_OK;

	spread->device = calloc(operations + 1, sizeof(*spread->device));
	spread->home = calloc(segments + 1, sizeof(*spread->home));
	if (!spread->device || !spread->home) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	s.there = malloc((segments + 1) * (size_t)devices * sizeof(*s.there));
	s.ended = calloc(operations + 1, sizeof(*s.ended));
	if (!s.there || !s.ended) {
		rc = sgpu_fail_nomem(error);
		goto out;
	}
	for (size_t i = 0; i < segments; i++) {
		spread->home[i] = -1;
	}
	for (size_t i = 0; i < segments * (size_t)devices; i++) {
		s.there[i] = NEVER;
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		const struct choice choice = choose_device(&s, manifest->order[i]);

		settle_operation(&s, manifest->order[i], &choice);
	}
	for (size_t i = 0; i < segments; i++) {
		spread->home[i] = spread->home[i] < 0 ? 0 : spread->home[i]; /* nothing reads it */
	}
out:
	free(s.there);
	free(s.ended);
	if (rc < 0) {
		sgpu_spread_clear(spread);
	}
	return rc;
}

void sgpu_spread_clear(struct sgpu_spread *spread)
{
	free(spread->device);
	free(spread->home);
	*spread = (struct sgpu_spread){ NULL, NULL };
}
