/* SPDX-License-Identifier: Apache-2.0
 *
 * max_pool2d_gradient: every window gives its gradient to the element that was its largest.
 */
#include <string.h>

#include "ops/cpu/images.h"

enum { INPUT, GRADIENT, OUTPUT, GRAIN_WORK = 1 << 16 };

#define F32 SGPU_TYPE_BIT(SGPU_F32)

static const struct sgpu_op_argument args[] = {
	{ "input", false, F32, 4, 4, "what max_pool2d got" },
	{ "gradient", false, F32, 4, 4, "of the loss by what it gave" },
	{ "output", false, F32, 4, 4, "of the loss by input" },
	{ .name = NULL },
};

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	char is[SGPU_TYPE_TEXT_MAX], wanted[SGPU_TYPE_TEXT_MAX];
	struct sgpu_type pooled;

	if (!sgpu_pool2d_infer(call, report, &pooled)) {
		return;
	}
	if (!sgpu_type_equal(&pooled, &call->type[GRADIENT])) {
		sgpu_type_text(&call->type[GRADIENT], is);
		sgpu_type_text(&pooled, wanted);
		sgpu_op_diagnose(report, "gradient", NULL,
				 "is %s, but what 'input' is pooled to is %s", is, wanted);
	}
	call->type[OUTPUT] = call->type[INPUT];
}

/* Items are planes. Windows are taken in the order of memory, so that an element adds its gradients
 * in that order. */
static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);

	for (uint64_t i = begin; i < end; i++) {
		const float *plane = (const float *)call->data[INPUT] + i * p.height * p.width;
		const float *gradient =
			(const float *)call->data[GRADIENT] + i * p.out_height * p.out_width;
		float *output = (float *)call->data[OUTPUT] + i * p.height * p.width;

		memset(output, 0, p.height * p.width * sizeof(*output));
		for (uint64_t y = 0; y < p.out_height; y++) {
			for (uint64_t x = 0; x < p.out_width; x++) {
				output[sgpu_pool2d_place(&p, plane, y, x)] +=
					gradient[y * p.out_width + x];
			}
		}
	}
}

static int cpu(struct sgpu_op_call *call, struct sgpu_pool *pool, struct sgpu_error *error)
{
	struct sgpu_pool2d p = sgpu_pool2d_describe(call);

	if (p.planes == 0) {
		return 0; /* then the other extents may be anything, and their product 0 */
	}
	return sgpu_ops_for(pool, p.planes,
			    GRAIN_WORK / (p.out_height * p.out_width * p.size * p.size) + 1, body,
			    call, error);
}

const struct sgpu_op sgpu_op_max_pool2d_gradient = {
	.name = "max_pool2d_gradient",
	.help = "gradient of max_pool2d",
	.args = args,
	.params = sgpu_pool2d_params,
	.infer = infer,
	.cpu = cpu,
};
