/* SPDX-License-Identifier: Apache-2.0
 *
 * map: byte code, which the compiler of expressions makes, and programs, which devices run.
 *
 * Byte code is postfix and knows no types. A byte is an instruction: the number of an input; a
 * literal, before its 8 bytes, little-endian; an operation; or a cast. A program is what byte code
 * means for inputs of given types: each instruction computes with one kind of values, and
 * conversions are instructions, too.
 */
#ifndef SGPU_OPS_MAP_H
#define SGPU_OPS_MAP_H

#include "ops/ops_private.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_MAP_INPUTS = SGPU_ARGUMENTS_MAX - 1,
	SGPU_MAP_CODE_MAX = 256, /* instructions, of byte code and of a program */
	SGPU_MAP_BYTES_MAX = SGPU_MAP_CODE_MAX * 9, /* of byte code */
	SGPU_MAP_CONSTANTS = 128,
	SGPU_MAP_SLOTS = 16, /* values that wait for use */
};

/* Byte code, besides the inputs, which are 0 to 6. */
enum {
	SGPU_MAP_INTEGER = 0x10, /* a literal from 0 to 2^64 - 1 */
	SGPU_MAP_REAL,		 /* a finite f64, not negative */
	SGPU_MAP_OPERATION = 0x20,
	SGPU_MAP_CAST = 0x60, /* and the element type; SGPU_NONE is bool */
};

/* X(name, arity, as it is written). Operations with arity 0 are of programs alone. The kernel for
 * values of 32 bits knows those up to TO_F. */
/* clang-format off */
#define SGPU_MAP_OPERATIONS(X) \
	X(NEG, 1, "-") X(NOT, 1, "~") X(ADD, 2, "+") X(SUB, 2, "-") X(MUL, 2, "*") X(DIV, 2, "/") \
	X(LT, 2, "<") X(LE, 2, "<=") X(GT, 2, ">") X(GE, 2, ">=") X(EQ, 2, "==") X(NE, 2, "!=") \
	X(AND, 2, "&") X(OR, 2, "|") X(WHERE, 3, "where") X(MIN, 2, "min") X(MAX, 2, "max") \
	X(ABS, 1, "abs") X(SQRT, 1, "sqrt") X(FLOOR, 1, "floor") X(ROUND, 1, "round") \
	X(COPY, 0, "") X(TO_F, 0, "") X(FLOORDIV, 2, "//") X(MOD, 2, "%") X(POW, 2, "**") \
	X(EXP, 1, "exp") X(LOG, 1, "log") X(SIN, 1, "sin") X(COS, 1, "cos") X(TANH, 1, "tanh") \
	X(ISNAN, 1, "isnan") X(TO_I, 0, "") X(TO_U, 0, "") X(TO_D, 0, "") X(TO_H, 0, "")
/* clang-format on */
enum sgpu_map_op {
#define OPERATION(name, arity, text) SGPU_MAP_##name,
	SGPU_MAP_OPERATIONS(OPERATION)
#undef OPERATION
		SGPU_MAP_OP_COUNT
};

struct sgpu_map_operation {
	const char *text;
	int arity;
};
extern const struct sgpu_map_operation sgpu_map_operations[SGPU_MAP_OP_COUNT];

/* What an instruction computes with. I holds every integer type but u64, and bool as 0 and 1; F
 * holds f16, too. Results are brought to a narrower type's range or precision. M compares an
 * int64_t with a uint64_t. */
enum sgpu_map_kind {
	SGPU_MAP_I, /* int64_t */
	SGPU_MAP_U, /* uint64_t */
	SGPU_MAP_F, /* float */
	SGPU_MAP_D, /* double */
	SGPU_MAP_M,
	SGPU_MAP_KIND_COUNT
};

/* Where an operand is: a slot below SGPU_MAP_SLOTS, an input, or a constant. */
enum { SGPU_MAP_FROM_INPUT = 16, SGPU_MAP_UNUSED = 31, SGPU_MAP_FROM_CONSTANT = 32 };

struct sgpu_map_instruction {
	uint8_t op, kind;
	uint8_t narrow; /* SGPU_NONE, or the type to which the result is brought */
	uint8_t to;	/* slot; none of the operands is there */
	uint8_t from[3];
};

struct sgpu_map_program {
	struct sgpu_map_instruction list[SGPU_MAP_CODE_MAX]; /* the last one makes the result */
	uint64_t constants[SGPU_MAP_CONSTANTS];		     /* bits, of the kind that reads them */
	uint32_t count, constant_count, slots;
	uint32_t inputs; /* inputs that are read, a bit each */
	uint32_t small;	 /* all values fit in 32 bits: kinds I and F, and no large operations */
	enum sgpu_dtype result;
};

/* An input, seen in the shape of the output. */
struct sgpu_map_view {
	const void *data;
	enum sgpu_dtype dtype;
	bool whole;    /* it has the output's shape */
	uint8_t depth; /* the last dimensions, before which all are repeated */
	uint64_t stride[SGPU_RANK_MAX];
};

struct sgpu_map_job {
	struct sgpu_map_program program;
	uint64_t count, extent[SGPU_RANK_MAX]; /* of the output */
	void *output;
	struct sgpu_map_view view[SGPU_MAP_INPUTS];
};

/* Checks byte code and gives it the inputs' types, SGPU_NONE if absent. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_map_resolve(const uint8_t *code, size_t size,
				     const enum sgpu_dtype inputs[SGPU_MAP_INPUTS],
				     struct sgpu_map_program *program, struct sgpu_error *error);

/* Reads the program and inputs of a call whose inputs have types; call->data need not be set yet.
 * Errors: SGPU_EINVALID, also if the shapes do not go together. */
SGPU_MUST_CHECK int sgpu_map_prepare(const struct sgpu_op_call *call, struct sgpu_map_job *job,
				     struct sgpu_type *output, struct sgpu_error *error);

/* The input's element at index `at` of the output. */
SGPU_INLINE uint64_t sgpu_map_place(const struct sgpu_map_job *job,
				    const struct sgpu_map_view *view, uint64_t at)
{
	uint64_t place = 0;

	for (int i = SGPU_RANK_MAX - 1; i >= SGPU_RANK_MAX - view->depth; i--) {
		place += at % job->extent[i] * view->stride[i];
		at /= job->extent[i];
	}
	return place;
}

/* Whether operand i is a float, of 4 bytes; all others have 8. */
SGPU_INLINE bool sgpu_map_reads_float(const struct sgpu_map_instruction *instruction, int i)
{
	return instruction->kind == SGPU_MAP_F && !(instruction->op == SGPU_MAP_WHERE && i == 0);
}

#ifdef __cplusplus
}
#endif
#endif
