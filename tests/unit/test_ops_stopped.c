/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of several steps end early, with the code for it, when the pool is stopped.
 */
#include "base/pool.h"
#include "ops_harness.h"
#include "unit.h"

/* Runs a prepared case in a pool that was stopped before; ends the case. */
static int run_stopped(struct ops_case *c)
{
	struct sgpu_pool *pool = NULL;
	struct sgpu_launch launch = { .error = &c->error };
	int result;

	CHECK(ops_run_once(c, 2) == 0); /* it would run, and the outputs have memory now */
	if (c->call.op->scratch) {
		c->call.scratch = ops_alloc(4096, c->call.op->scratch(&c->call));
	}
	if (sgpu_pool_create(2, &pool, &c->error)) {
		ops_die("no pool");
	}
	launch.pool = pool;
	sgpu_pool_cancel(pool, true);
	sgpu_pool_enter(pool);
	result = sgpu_op_run(&c->call, NULL, &launch);
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	CHECK(c->error.text[0]);
	free(c->call.scratch);
	ops_end(c);
	return result;
}

static void begin(struct ops_case *c, const char *name, enum sgpu_dtype dtype)
{
	ops_begin(c, name);
	ops_input(c, "input", dtype, 3, OPS_SHAPE(20, 50, 60), NULL);
	memset(c->call.data[0], 1, c->bytes[0]);
}

UNIT_TEST(operations_on_one_input)
{
	struct ops_case c;

	begin(&c, "gaussian3d", SGPU_F32);
	ops_number(&c, "sigma", 2);
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	begin(&c, "morphology3d", SGPU_U8);
	ops_number(&c, "erode", 2);
	ops_number(&c, "largest", 1);
	ops_number(&c, "dilate", 2);
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	begin(&c, "morphology3d", SGPU_U8);
	ops_number(&c, "largest", 1);
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	begin(&c, "threshold", SGPU_F32);
	ops_choice(&c, "mode", "indices");
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	begin(&c, "reduce", SGPU_F32);
	ops_choice(&c, "operation", "sum");
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	begin(&c, "reduce", SGPU_F32);
	ops_choice(&c, "operation", "percentile");
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	begin(&c, "transpose", SGPU_F32);
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	begin(&c, "histogram", SGPU_F32);
	ops_number(&c, "min", 0);
	ops_number(&c, "max", 1);
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
}

UNIT_TEST(operations_on_several_inputs)
{
	struct ops_case c;

	ops_begin(&c, "nearest");
	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE(100, 40), NULL);
	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE(300, 40), NULL);
	memset(c.call.data[0], 0, c.bytes[0]);
	memset(c.call.data[1], 0, c.bytes[1]);
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	ops_begin(&c, "conv2d");
	ops_input(&c, "input", SGPU_F32, 4, OPS_SHAPE(2, 3, 20, 20), NULL);
	ops_input(&c, "weights", SGPU_F32, 4, OPS_SHAPE(2, 3, 3, 3), NULL);
	memset(c.call.data[0], 0, c.bytes[0]);
	memset(c.call.data[1], 0, c.bytes[1]);
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
	ops_begin(&c, "conv2d_gradient");
	ops_input(&c, "input", SGPU_F32, 4, OPS_SHAPE(2, 3, 20, 20), NULL);
	ops_input(&c, "weights", SGPU_F32, 4, OPS_SHAPE(2, 3, 3, 3), NULL);
	ops_input(&c, "gradient", SGPU_F32, 4, OPS_SHAPE(2, 2, 18, 18), NULL);
	for (int i = 0; i < 3; i++) {
		memset(c.call.data[i], 0, c.bytes[i]);
		c.call.present[3 + i] = true;
	}
	REQUIRE(ops_infer(&c));
	CHECK(run_stopped(&c) == SGPU_ECANCELED);
}

UNIT_TEST(they_run_afterwards)
{
	struct ops_case c;

	begin(&c, "morphology3d", SGPU_U8);
	ops_number(&c, "largest", 1);
	CHECK(ops_run(&c));
	CHECK(((uint8_t *)ops_data(&c, "output"))[0] == 1);
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(operations_on_one_input);
	UNIT_RUN(operations_on_several_inputs);
	UNIT_RUN(they_run_afterwards);
	return unit_done();
}
