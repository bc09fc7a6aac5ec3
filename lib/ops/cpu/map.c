/* SPDX-License-Identifier: Apache-2.0
 *
 * map: an expression, element by element. A program is carried out on one block of elements after
 * the other, each instruction in a loop over the block.
 */
#include <string.h>

#include "ops/map_element.h"

enum { OUTPUT = SGPU_MAP_INPUTS, GRAIN = 1 << 14, BLOCK = 256 };

#define INPUT(name, optional, help)                                    \
	{                                                              \
		name, optional, SGPU_TYPES_ANY, 0, SGPU_RANK_MAX, help \
	}

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	struct sgpu_error error = { 0 };
	struct sgpu_map_job job;

	for (int i = 0; i < SGPU_MAP_INPUTS; i++) {
		if (call->present[i] && call->type[i].dtype == SGPU_NONE) {
			sgpu_op_diagnose(report, call->op->args[i].name, NULL,
					 "needs data_type_info");
			return;
		}
	}
	if (call->text && sgpu_map_prepare(call, &job, &call->type[OUTPUT], &error)) {
		/* where people see it: a manifest with code has it at the parameters */
		sgpu_op_diagnose(report, NULL, "expression", "%s", error.text);
	}
}

/* ---- loops ---- */
typedef void loop_fn(const void *a, const void *b, const void *c, void *to, uint64_t count);

/* An operation does not use all of its operands. */
#define LOOP(op, kind, A, B, C, R, result)                                                 \
	SGPU_CLONES_ATTR static void loop_##op##_##kind(                                   \
		const void *restrict pa, const void *restrict pb, const void *restrict pc, \
		void *restrict pr, uint64_t count)                                         \
	{                                                                                  \
		for (uint64_t i = 0; i < count; i++) {                                     \
			const A a = ((const A *)pa)[i];                                    \
			const B b = ((const B *)pb)[i];                                    \
			const C c = ((const C *)pc)[i];                                    \
                                                                                           \
			(void)b;                                                           \
			(void)c;                                                           \
			((R *)pr)[i] = (R)(result);                                        \
		}                                                                          \
	}
SGPU_MAP_SMALL_ELEMENTS(LOOP)
SGPU_MAP_LARGE_ELEMENTS(LOOP)

static loop_fn *const loops[SGPU_MAP_OP_COUNT][SGPU_MAP_KIND_COUNT] = {
#define ENTRY(op, kind, A, B, C, R, result) [SGPU_MAP_##op][SGPU_MAP_##kind] = loop_##op##_##kind,
	SGPU_MAP_SMALL_ELEMENTS(ENTRY) SGPU_MAP_LARGE_ELEMENTS(ENTRY)
};

/* clang-format off */
/* X(name, type in memory, type of its kind, how to load and how to store it) */
#define MEMORY(X) \
	X(I8, int8_t, int64_t, a, a) X(U8, uint8_t, int64_t, a, a) X(I16, int16_t, int64_t, a, a) \
	X(U16, uint16_t, int64_t, a, a) X(I32, int32_t, int64_t, a, a) X(U32, uint32_t, int64_t, a, a) \
	X(I64, int64_t, int64_t, a, a) X(U64, uint64_t, uint64_t, a, a) X(F64, double, double, a, a) \
	X(F32, float, float, a, a) X(F16, uint16_t, float, sgpu_half_to_float(a), sgpu_map_half(a))
/* clang-format on */
#define MOVES(name, type, wide, load, store)           \
	LOOP(LOAD, name, type, type, type, wide, load) \
	LOOP(STORE, name, wide, wide, wide, type, store)
MEMORY(MOVES)

static loop_fn *const load[SGPU_DTYPE_COUNT] = {
#define LOAD(name, type, wide, load, store) [SGPU_##name] = loop_LOAD_##name,
	MEMORY(LOAD)
};
static loop_fn *const store[SGPU_DTYPE_COUNT] = {
#define STORE(name, type, wide, load, store) [SGPU_##name] = loop_STORE_##name,
	MEMORY(STORE)
};

/* ---- blocks ---- */
struct block {
	uint64_t slots[SGPU_MAP_SLOTS][BLOCK], operands[3][BLOCK], spare[BLOCK];
};

/* Copies an input's elements at an index of the output, row by row. */
static const void *gather(const struct sgpu_map_job *job, const struct sgpu_map_view *view,
			  uint64_t at, uint64_t count, void *to)
{
	uint64_t size = sgpu_dtype_size(view->dtype), width = job->extent[SGPU_RANK_MAX - 1];
	const uint8_t *data = view->data;

	for (uint64_t done = 0, row; done < count; done += row) {
		uint64_t place = sgpu_map_place(job, view, at + done);
		uint64_t step = view->stride[SGPU_RANK_MAX - 1] * size;

		row = sgpu_ops_min(count - done, width - (at + done) % width);
		if (step == size) {
			memcpy((uint8_t *)to + done * size, data + place * size, row * size);
			continue;
		}
		for (uint64_t i = 0; i < row; i++) {
			memcpy((uint8_t *)to + (done + i) * size, data + place * size + i * step,
			       size);
		}
	}
	return to;
}

static const void *fill(uint64_t bits, bool real, uint64_t *to)
{
	/* two floats at a time */
	uint64_t pattern = real ? bits << 32 | bits : bits;

	for (int i = 0; i < BLOCK; i++) {
		to[i] = pattern;
	}
	return to;
}

/* Whether elements lie in memory as in a block. */
static bool is_kind(enum sgpu_dtype dtype)
{
	return dtype == SGPU_F32 || dtype == SGPU_F64 || dtype == SGPU_I64 || dtype == SGPU_U64;
}

/* Where an instruction's operand lies for the block. */
static const void *operand(const struct sgpu_map_job *job,
			   const struct sgpu_map_instruction *instruction, int i, uint64_t at,
			   uint64_t count, struct block *block)
{
	unsigned from = instruction->from[i];
	const struct sgpu_map_view *view;
	const void *data;

	if (from < SGPU_MAP_SLOTS) {
		return block->slots[from];
	}
	if (from == SGPU_MAP_UNUSED) {
		return block->operands[0];
	}
	if (from >= SGPU_MAP_FROM_CONSTANT) {
		return fill(job->program.constants[from - SGPU_MAP_FROM_CONSTANT],
			    sgpu_map_reads_float(instruction, i), block->operands[i]);
	}
	view = &job->view[from - SGPU_MAP_FROM_INPUT];
	data = view->whole ? (const uint8_t *)view->data + at * sgpu_dtype_size(view->dtype)
			   : gather(job, view, at, count, block->spare);
	if (view->whole && is_kind(view->dtype)) {
		return data;
	}
	load[view->dtype](data, data, data, block->operands[i], count);
	return block->operands[i];
}

static void run_block(const struct sgpu_map_job *job, uint64_t at, uint64_t count,
		      struct block *block)
{
	const struct sgpu_map_program *program = &job->program;
	uint64_t size = sgpu_dtype_size(program->result);
	void *to = NULL;

	for (uint32_t i = 0; i < program->count; i++) {
		const struct sgpu_map_instruction *instruction = &program->list[i];
		const void *a = operand(job, instruction, 0, at, count, block),
			   *b = operand(job, instruction, 1, at, count, block),
			   *c = operand(job, instruction, 2, at, count, block);

		to = block->slots[instruction->to];
		loops[instruction->op][instruction->kind](a, b, c, to, count);
		if (instruction->narrow) {
			store[instruction->narrow](to, to, to, block->spare, count);
			load[instruction->narrow](block->spare, block->spare, block->spare, to,
						  count);
		}
	}
	store[program->result](to, to, to, (uint8_t *)job->output + at * size, count);
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	struct block block;

	for (uint64_t at = begin; at < end; at += BLOCK) {
		run_block(argument, at, sgpu_ops_min(end - at, BLOCK), &block);
	}
	sgpu_wipe(&block, sizeof(block));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_type output;
	struct sgpu_map_job job;
	int rc = sgpu_map_prepare(call, &job, &output, launch->error);

	return rc ? rc : sgpu_ops_for(launch, job.count, GRAIN, body, &job);
}

const struct sgpu_op sgpu_op_map = {
	.name = "map",
	.help = "an expression, element by element",
	.args = {
	INPUT("x0", false, "what the expression names first"),
	INPUT("x1", true, "what it names second"),
	INPUT("x2", true, "and third"),
	INPUT("x3", true, "and fourth"),
	INPUT("x4", true, "and fifth"),
	INPUT("x5", true, "and sixth"),
	INPUT("x6", true, "and seventh"),
	INPUT("output", false, "the values of the expression; bool as u8 0 and 1"),
	},
	.params = {
	{ "code", SGPU_PARAM_TEXT, true, 0, SGPU_MAP_TEXT_MAX, 0, NULL,
	  "what sgpu-manifest makes of 'expression'" },
	},
	.infer = infer,
	.cpu = cpu,
};
