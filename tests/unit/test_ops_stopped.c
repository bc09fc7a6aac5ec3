/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of several steps end early, with the code for it, when the pool is stopped.
 */
#include "host/host.h"
#include "ops_harness.h"
#include "unit.h"

/* Runs a call in a pool that was stopped before. */
static int run_stopped(const char *call)
{
	struct sgpu_pool *pool = NULL;
	struct sgpu_launch launch = { 0 };
	struct ops_case c;
	int result;

	ops_call(&c, call);
	launch.error = &c.error;
	/* It would run, and the outputs have memory now. */
	CHECK(ops_infer(&c) && ops_run_once(&c, 2) == 0);
	if (c.call.op->scratch) {
		c.call.scratch = ops_alloc(4096, c.call.op->scratch(&c.call));
	}
	if (sgpu_pool_create(2, &pool, &c.error)) {
		ops_die("no pool");
	}
	launch.pool = pool;
	sgpu_pool_cancel(pool, true);
	sgpu_pool_enter(pool);
	result = sgpu_op_run(&c.call, NULL, &launch);
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	CHECK(c.error.text[0]);
	free(c.call.scratch);
	ops_end(&c);
	return result;
}

UNIT_TEST(operations_of_several_steps_are_stopped)
{
	static const char *const calls[] = {
		"gaussian3d input=f32[20,50,60] sigma=2",
		"morphology3d input=u8[20,50,60] erode=2 largest=1 dilate=2",
		"morphology3d input=u8[20,50,60] largest=1",
		"threshold input=f32[20,50,60] mode=indices",
		"reduce input=f32[20,50,60] operation=sum",
		"reduce input=f32[20,50,60] operation=percentile",
		"transpose input=f32[20,50,60]",
		"histogram input=f32[20,50,60] min=0 max=1",
		"nearest a=f32[100,40] b=f32[300,40]",
		"conv2d input=f32[2,3,20,20] weights=f32[2,3,3,3]",
		("conv2d_gradient input=f32[2,3,20,20] weights=f32[2,3,3,3] "
		 "gradient=f32[2,2,18,18] "
		 "output_input output_weights output_bias"),
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(calls); i++) {
		CHECK(run_stopped(calls[i]) == SGPU_ECANCELED);
	}
}

UNIT_TEST(they_run_afterwards)
{
	struct ops_case c;

	ops_call(&c, "morphology3d input=u8[20,50,60] largest=1");
	CHECK(ops_run(&c));
	CHECK(((uint8_t *)ops_data(&c, "output"))[0] == 1);
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(operations_of_several_steps_are_stopped);
	UNIT_RUN(they_run_afterwards);
	return unit_done();
}
