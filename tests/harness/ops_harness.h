/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of operations: builds a call of an operation from types, data and parameters, infers
 *its outputs, runs it with pools of several sizes, and compares.
 *
 *	struct ops_case c;
 *	ops_begin(&c, "gemm");
 *	ops_input(&c, "a", SGPU_F32, 2, OPS_SHAPE(3, 4), a);
 *	ops_input(&c, "b", SGPU_F32, 2, OPS_SHAPE(4, 5), b);
 *	ops_number(&c, "alpha", 0.5);
 *	CHECK(ops_run(&c));              infers, then runs with 1, 2 and 5 workers: same bytes;
 *	                                 then on the device of $SGPU_TEST_DEVICE, as ops_device.h
 *says const float *out = ops_data(&c, "output"); ops_end(&c);
 *
 * Before ops_run, ops_tolerance(&c, relative, absolute) says how far another device may be from the
 *CPU; else it must give the same numbers to the last bit.
 */
#ifndef OPS_HARNESS_H
#define OPS_HARNESS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "ops/ops.h"

#define OPS_SHAPE(...) ((const uint64_t[]){ __VA_ARGS__ })
#define OPS_SCALAR ((const uint64_t[]){ 0 })

struct ops_case {
	struct sgpu_op_report report; /* first */
	struct sgpu_op_call call;
	uint64_t bytes[SGPU_ARGUMENTS_MAX];
	void *block[SGPU_ARGUMENTS_MAX];
	double relative, absolute; /* tolerance of another device */
	int diagnostics;
	/* the first one; "" for NULL */
	uint64_t actual; /* elements of the output, of an at_most operation */
	char diagnostic_argument[64], diagnostic_param[64], diagnostic_text[512];
	struct sgpu_error error;
};

/* A mistake in the test itself: nothing to report to TAP. */
__attribute__((noreturn, format(printf, 1, 2))) void ops_die(const char *format, ...);

/* A call of the operation, with the standard values of its parameters. */
void ops_begin(struct ops_case *c, const char *name);

/* The index of an argument. */
int ops_arg(const struct ops_case *c, const char *name);

/* Memory of exactly `bytes`, so that the sanitizer sees what runs over it. */
void *ops_alloc(size_t alignment, uint64_t bytes);

/* Gives an input and copies its data; data NULL leaves it to infer (types only). */
void ops_input(struct ops_case *c, const char *name, enum sgpu_dtype dtype, int rank,
	       const uint64_t *shape, const void *data);

/* NUMBER, INTEGER and BOOLEAN parameters. */
void ops_number(struct ops_case *c, const char *name, double value);

/* A parameter that is one of several words. */
void ops_choice(struct ops_case *c, const char *name, const char *choice);

/* Another device may differ from the CPU by absolute + relative * |value|. */
void ops_tolerance(struct ops_case *c, double relative, double absolute);

/* Fills the types of the outputs; false when infer reported a diagnostic (c->diagnostic_text and so
 * on). */
bool ops_infer(struct ops_case *c);

/* Begins a call that is written as the operation, then "name=value" for each type and parameter,
 * and a name alone for an argument of an open type or an output that is wanted, such as
 * "gemm a=f32[2,3] b=f32[3,2] alpha=2". All bytes of the inputs are 1. */
void ops_call(struct ops_case *c, const char *call);

/* Whether infer refuses such a call. `where` is the argument or parameter that the diagnostic is
 * of, or ""; it holds the text. */
bool ops_refuses(const char *call, const char *where, const char *text);

/* Whether ops_run takes such a call. */
bool ops_runs(const char *call);

/* One run on outputs filled with 0xa5; the code of the operation. */
int ops_run_once(struct ops_case *c, unsigned jobs);

/* Infers, then runs with 1, 2 and 5 workers, and on the device; true when all went well and gave
 * the same bytes. */
bool ops_run(struct ops_case *c);

/* Of an argument. */
void *ops_data(const struct ops_case *c, const char *name);
const struct sgpu_type *ops_type(const struct ops_case *c, const char *name);
bool ops_type_is(const struct ops_case *c, const char *name, enum sgpu_dtype dtype, int rank,
		 const uint64_t *shape);

void ops_end(struct ops_case *c);

/* ---- comparing ---- */
/* Both NaN, or equal, or within absolute + relative * |expected|. */
bool ops_close(double actual, double expected, double absolute, double relative);
bool ops_close_f32(const float *actual, const float *expected, uint64_t count, double absolute,
		   double relative);
bool ops_close_f64(const double *actual, const double *expected, uint64_t count, double absolute,
		   double relative);

/* ---- random data, the same in every run ---- */
uint64_t ops_random(void);
double ops_uniform(double low, double high);

/* ---- elements of any type ---- */
double ops_get(enum sgpu_dtype dtype, const void *data, uint64_t i);

/* Floats are rounded; integers wrap. */
void ops_put(enum sgpu_dtype dtype, void *data, uint64_t i, double value);

/* So many random ones, from malloc. */
void *ops_values(enum sgpu_dtype dtype, uint64_t count, double low, double high);

#endif
