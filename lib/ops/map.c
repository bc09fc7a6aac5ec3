/* SPDX-License-Identifier: Apache-2.0
 *
 * map: checks byte code, and gives it types as numpy does (NEP 50, Promotion rules for Python
 * scalars): literals are weak, they take the type of what they meet.
 */
#include <string.h>

#include "ops/map_element.h"

const struct sgpu_map_operation sgpu_map_operations[SGPU_MAP_OP_COUNT] = {
#define OPERATION(name, arity, text) { text, arity },
	SGPU_MAP_OPERATIONS(OPERATION)
#undef OPERATION
};

/* Types of values: element types, bool, and those of literals. */
enum { BOOL = SGPU_DTYPE_COUNT, WEAK_INTEGER, WEAK_REAL, TYPES };

struct value {
	int type;
	uint8_t from;	 /* where it is, unless it is a literal */
	int64_t integer; /* of a literal */
	double real;	 /* of any literal */
};

struct resolver {
	struct sgpu_map_program *program;
	const enum sgpu_dtype *inputs;
	struct sgpu_error *error;
	int rc, depth;
	uint32_t used; /* slots, a bit each */
	struct value stack[SGPU_MAP_CODE_MAX];
};

/* The first refusal counts. */
#define REFUSE(r, ...) \
	((r)->rc = (r)->rc ? (r)->rc : sgpu_fail((r)->error, SGPU_EINVALID, __VA_ARGS__))

/* ---- types ---- */
static const struct {
	const char *name;
	signed char bits; /* of an integer, negative if it is signed; bool has 1, other types 0 */
	uint8_t kind, as_float; /* the float that holds it, or f64 */
} types[TYPES] = {
	[SGPU_F32] = { "f32", 0, SGPU_MAP_F, SGPU_F32 },
	[SGPU_F64] = { "f64", 0, SGPU_MAP_D, SGPU_F64 },
	[SGPU_F16] = { "f16", 0, SGPU_MAP_F, SGPU_F16 },
	[SGPU_I8] = { "i8", -8, SGPU_MAP_I, SGPU_F16 },
	[SGPU_U8] = { "u8", 8, SGPU_MAP_I, SGPU_F16 },
	[SGPU_I16] = { "i16", -16, SGPU_MAP_I, SGPU_F32 },
	[SGPU_U16] = { "u16", 16, SGPU_MAP_I, SGPU_F32 },
	[SGPU_I32] = { "i32", -32, SGPU_MAP_I, SGPU_F64 },
	[SGPU_U32] = { "u32", 32, SGPU_MAP_I, SGPU_F64 },
	[SGPU_I64] = { "i64", -64, SGPU_MAP_I, SGPU_F64 },
	[SGPU_U64] = { "u64", 64, SGPU_MAP_U, SGPU_F64 },
	[BOOL] = { "bool", 1, SGPU_MAP_I, SGPU_F16 },
	[WEAK_INTEGER] = { "an integer", 0, 0, SGPU_F64 },
	[WEAK_REAL] = { "a fraction", 0, 0, SGPU_F64 },
};

static bool is_weak(int type)
{
	return type >= WEAK_INTEGER;
}

/* The smallest type that holds two, neither of them weak, or f64. */
static int promoted(int a, int b)
{
	int x = types[a].bits, y = types[b].bits, both;

	if (x && y && (x < 0) == (y < 0)) {
		return (x < 0 ? x < y : x > y) ? a : b;
	}
	if (x == 1 || y == 1) {
		return x == 1 ? b : a;
	}
	if (x && y) {
		both = 2 * (x > 0 ? x : y);
		both = both < -x ? -x : both < -y ? -y : both;
		return both == 16   ? SGPU_I16
		       : both == 32 ? SGPU_I32
		       : both == 64 ? SGPU_I64
				    : SGPU_F64;
	}
	a = types[a].as_float;
	b = types[b].as_float;
	return a == SGPU_F64 || b == SGPU_F16 ? a : b == SGPU_F64 || a == SGPU_F16 ? b : SGPU_F32;
}

/* The common type of two; a literal gives way as far as its kind of number allows. */
static int common(int a, int b)
{
	if (is_weak(a) == is_weak(b)) {
		return !is_weak(a) ? promoted(a, b) : a > b ? a : b;
	}
	int weak = is_weak(a) ? a : b, strong = is_weak(a) ? b : a;
	return weak == WEAK_REAL && types[strong].bits ? SGPU_F64
	       : strong == BOOL			       ? SGPU_I64
						       : strong;
}

/* What a literal is where nothing else decides. */
static int strong_of(int type)
{
	return type == WEAK_INTEGER ? SGPU_I64 : type == WEAK_REAL ? SGPU_F64 : type;
}

/* The type to which a kind's result is brought; SGPU_NONE if the kind has it. */
static int narrow_of(int type)
{
	int bits = types[type].bits;

	return type == SGPU_F16 || (bits > -64 && bits < 64 && bits && bits != 1) ? type
										  : SGPU_NONE;
}

/* ---- instructions ---- */
static uint8_t constant(struct resolver *r, uint64_t bits)
{
	struct sgpu_map_program *p = r->program;
	uint32_t i = 0;

	while (i < p->constant_count && p->constants[i] != bits) {
		i++;
	}
	if (i == SGPU_MAP_CONSTANTS) {
		REFUSE(r, "there are more than %d different numbers", (int)SGPU_MAP_CONSTANTS);
		return 0;
	}
	p->constants[i] = bits;
	p->constant_count += i == p->constant_count;
	return (uint8_t)(SGPU_MAP_FROM_CONSTANT + i);
}

static uint8_t emit3(struct resolver *r, int op, int kind, int narrow, uint8_t a, uint8_t b,
		     uint8_t c)
{
	struct sgpu_map_program *p = r->program;
	struct sgpu_map_instruction *next = &p->list[p->count];
	bool keeps = op >= SGPU_MAP_LT && op <= SGPU_MAP_MAX; /* or makes bool */
	uint8_t to = 0;

	while (r->used >> to & 1) {
		to++;
	}
	if (p->count == SGPU_MAP_CODE_MAX || to == SGPU_MAP_SLOTS) {
		REFUSE(r,
		       "with conversions there are more than %d instructions, or %d results wait",
		       (int)SGPU_MAP_CODE_MAX, (int)SGPU_MAP_SLOTS);
	}
	if (r->rc) {
		return 0;
	}
	*next = (struct sgpu_map_instruction){ .op = (uint8_t)op,
					       .kind = (uint8_t)kind,
					       .narrow = (uint8_t)(keeps ? SGPU_NONE : narrow),
					       .to = to,
					       .from = { a, b, c } };
	for (int i = 0; i < 3; i++) {
		if (next->from[i] < SGPU_MAP_SLOTS) {
			r->used &= ~(1u << next->from[i]);
		}
	}
	p->small &= op <= SGPU_MAP_TO_F;
	p->slots = p->slots > to + 1u ? p->slots : to + 1u;
	r->used |= 1u << to;
	p->count++;
	return to;
}

static uint8_t emit(struct resolver *r, int op, int kind, int narrow, uint8_t a, uint8_t b)
{
	return emit3(r, op, kind, narrow, a, b, SGPU_MAP_UNUSED);
}

/* ---- conversions ---- */
/* A literal in a type, in which it must fit. */
static uint8_t literal(struct resolver *r, const struct value *v, int type)
{
	int bits = types[type].bits;
	int64_t high =
		bits < 0 ? INT64_MAX >> (64 + bits) : INT64_MAX >> (bits < 63 ? 63 - bits : 0);
	double real = v->real;

	if (type == BOOL) {
		return constant(r, v->real != 0);
	}
	if (type == SGPU_F16) {
		real = (double)sgpu_half_to_float(sgpu_half_from_double(v->real));
	} else if (type == SGPU_F32) {
		real = (double)(float)v->real;
	}
	if (bits ? v->integer > high || v->integer < (bits < 0 ? -high - 1 : 0) : isinf(real)) {
		REFUSE(r, "%.17g does not fit %s", v->real, types[type].name);
	}
	return bits		  ? constant(r, (uint64_t)v->integer)
	       : type == SGPU_F64 ? constant(r, sgpu_math_bits(real))
				  : constant(r, sgpu_float_bits((float)real));
}

/* Whether a value of one type is one of the other as it is. */
static bool is_same(int from, int to)
{
	bool integers = types[from].bits && types[to].bits && types[from].kind == types[to].kind;

	return from == to || (from == SGPU_F16 && to == SGPU_F32) ||
	       (integers && promoted(from, to) == to);
}

/* Where the value is, in a type that is not weak. */
static uint8_t converted(struct resolver *r, const struct value *v, int type)
{
	static const uint8_t ops[4][4] = {
		{ SGPU_MAP_COPY, SGPU_MAP_TO_U, SGPU_MAP_TO_F, SGPU_MAP_TO_D },
		{ SGPU_MAP_TO_I, SGPU_MAP_COPY, SGPU_MAP_TO_F, SGPU_MAP_TO_D },
		{ 0, 0, SGPU_MAP_COPY, SGPU_MAP_TO_D },
		{ SGPU_MAP_TO_I, SGPU_MAP_TO_U, SGPU_MAP_TO_F, SGPU_MAP_COPY },
	};
	int kind = types[v->type].kind, bits = types[type].bits;
	uint8_t from = v->from, low = SGPU_MAP_UNUSED, high = SGPU_MAP_UNUSED;

	r->program->small &= type != SGPU_F64 && bits >= -32 && bits < 32;
	if (is_weak(v->type)) {
		return literal(r, v, type);
	}
	if (is_same(v->type, type)) {
		return from;
	}
	if (type == BOOL) {
		return emit(r, SGPU_MAP_NE, kind, SGPU_NONE, from, constant(r, 0));
	}
	if (bits && kind == SGPU_MAP_F) {
		from = emit(r, SGPU_MAP_TO_D, kind, SGPU_NONE, from, SGPU_MAP_UNUSED);
		kind = SGPU_MAP_D;
	}
	if (bits && kind == SGPU_MAP_D) {
		double size = sgpu_map_power2(bits < 0 ? -bits - 1 : bits);

		low = constant(r, sgpu_math_bits(bits < 0 ? -size : 0));
		high = constant(r, sgpu_math_bits(bits == -64 ? size : size - 1));
	} else if (type == SGPU_F16 && kind == SGPU_MAP_D) {
		return emit(r, SGPU_MAP_TO_H, kind, SGPU_NONE, from, SGPU_MAP_UNUSED);
	}
	return emit3(r, ops[kind][types[type].kind], kind,
		     low == SGPU_MAP_UNUSED ? narrow_of(type) : 0, from, low, high);
}

/* ---- literals with literals, as Python computes them ---- */
static struct value weak(struct resolver *r, int type, int64_t integer, double real)
{
	if (!isfinite(real)) {
		REFUSE(r, "numbers are divided by 0, or make one that is too large");
	}
	return (struct value){ .type = type,
			       .integer = integer,
			       .real = type == WEAK_INTEGER ? (double)integer : real };
}

static struct value fold(struct resolver *r, int op, const struct value *v)
{
	int64_t a = v[0].integer, b = v[1].integer, whole = 0;
	double x = v[0].real, y = v[1].real;
	bool real = v[0].type == WEAK_REAL || v[1].type == WEAK_REAL, lost = false;

	if (real || op == SGPU_MAP_DIV || (op == SGPU_MAP_POW && b < 0)) {
		return weak(r, WEAK_REAL, 0,
			    op == SGPU_MAP_ADD	      ? x + y
			    : op == SGPU_MAP_SUB      ? x - y
			    : op == SGPU_MAP_MUL      ? x * y
			    : op == SGPU_MAP_DIV      ? x / y
			    : op == SGPU_MAP_FLOORDIV ? sgpu_map_floordiv_d(x, y)
			    : op == SGPU_MAP_MOD      ? sgpu_map_mod_d(x, y)
						      : sgpu_map_pow(x, y));
	}
	if (op == SGPU_MAP_ADD) {
		lost = __builtin_add_overflow(a, b, &whole);
	} else if (op == SGPU_MAP_SUB) {
		lost = __builtin_sub_overflow(a, b, &whole);
	} else if (op == SGPU_MAP_MUL) {
		lost = __builtin_mul_overflow(a, b, &whole);
	} else if (op == SGPU_MAP_POW) {
		lost = fabs(sgpu_map_pow(x, y)) >= 0x1p63;
		whole = (int64_t)sgpu_map_pow_u((uint64_t)a, (uint64_t)b);
	} else if (op == SGPU_MAP_AND || op == SGPU_MAP_OR) {
		whole = op == SGPU_MAP_AND ? a & b : a | b;
	} else {
		lost = b == 0;
		whole = op == SGPU_MAP_MOD ? sgpu_map_mod_i(a, b) : sgpu_map_floordiv_i(a, b);
	}
	return weak(r, WEAK_INTEGER, whole, lost ? (double)INFINITY : 0);
}

/* ---- operations ---- */
static struct value made(int type, uint8_t from)
{
	return (struct value){ .type = type, .from = from };
}

/* An operation on two operands in one type, which is that of the result, too. */
static struct value pair(struct resolver *r, int op, int type, const struct value *v)
{
	uint8_t a = converted(r, &v[0], type), b = converted(r, &v[1], type);

	return made(type, emit(r, op, types[type].kind, narrow_of(type), a, b));
}

static struct value arithmetic(struct resolver *r, int op, const struct value *v)
{
	int type = common(v[0].type, v[1].type);
	bool bitwise = op == SGPU_MAP_AND || op == SGPU_MAP_OR, power = op == SGPU_MAP_POW;

	if (bitwise ? !types[type].bits && type != WEAK_INTEGER
		    : op == SGPU_MAP_SUB && type == BOOL) {
		REFUSE(r, "'%s' does not take %s and %s", sgpu_map_operations[op].text,
		       types[v[0].type].name, types[v[1].type].name);
		return v[0];
	}
	if (is_weak(type)) {
		return fold(r, op, v);
	}
	if (power && types[type].bits && is_weak(v[1].type) && v[1].integer < 0) {
		REFUSE(r, "an integer to a negative power is no integer; make it a float first");
	}
	if (op == SGPU_MAP_DIV && types[type].bits) {
		type = SGPU_F64;
	} else if (type == BOOL && (op == SGPU_MAP_FLOORDIV || op == SGPU_MAP_MOD || power)) {
		type = SGPU_I8;
	} else if (type == BOOL) {
		op = op == SGPU_MAP_ADD ? SGPU_MAP_OR : op == SGPU_MAP_MUL ? SGPU_MAP_AND : op;
	}
	if (power && is_weak(v[1].type) && v[1].real == 2) {
		uint8_t a = converted(r, &v[0], type);

		return made(type, emit(r, SGPU_MAP_MUL, types[type].kind, narrow_of(type), a, a));
	}
	return pair(r, op, type, v);
}

static struct value comparison(struct resolver *r, int op, const struct value *v)
{
	int type = strong_of(common(v[0].type, v[1].type));
	bool second = v[0].type == SGPU_U64 && types[v[1].type].bits < 0;
	uint8_t from;

	if (second || (v[1].type == SGPU_U64 && types[v[0].type].bits < 0)) {
		/* a < b is b > a */
		op = second && op <= SGPU_MAP_GE ? SGPU_MAP_LT + ((op - SGPU_MAP_LT) ^ 2) : op;
		from = emit(r, op, SGPU_MAP_M, SGPU_NONE, v[second].from, v[!second].from);
	} else {
		from = pair(r, op, type, v).from;
	}
	return made(BOOL, from);
}

static struct value where(struct resolver *r, const struct value *v)
{
	int type = strong_of(common(v[1].type, v[2].type));
	uint8_t a = converted(r, &v[0], BOOL), b = converted(r, &v[1], type),
		c = converted(r, &v[2], type);

	return made(type, emit3(r, SGPU_MAP_WHERE, types[type].kind, SGPU_NONE, a, b, c));
}

static struct value negated(struct resolver *r, int op, const struct value *v)
{
	bool invert = op == SGPU_MAP_NOT;
	int kind = types[v->type].kind;

	if (invert ? !types[v->type].bits && v->type != WEAK_INTEGER : v->type == BOOL) {
		REFUSE(r, "'%s' does not take %s", invert ? "~" : "-", types[v->type].name);
	}
	if (is_weak(v->type) && v->type == WEAK_INTEGER && !invert && v->integer == INT64_MIN) {
		REFUSE(r, "a number is beyond 64 bits");
	}
	if (is_weak(v->type)) {
		return weak(r, v->type, invert ? ~v->integer : -v->integer, -v->real);
	}
	return v->type == BOOL
		       ? made(BOOL, emit(r, SGPU_MAP_EQ, kind, SGPU_NONE, v->from, constant(r, 0)))
		       : made(v->type,
			      emit(r, op, kind, narrow_of(v->type), v->from, SGPU_MAP_UNUSED));
}

static struct value function(struct resolver *r, int op, const struct value *v)
{
	bool rounds = op == SGPU_MAP_FLOOR || op == SGPU_MAP_ROUND;
	int type = strong_of(v->type), bits = types[type].bits;
	uint8_t from;

	if (op == SGPU_MAP_ROUND && type == BOOL) {
		type = SGPU_F16; /* numpy has it so */
	} else if (!rounds && op != SGPU_MAP_ABS && op != SGPU_MAP_ISNAN) {
		type = types[v->type].as_float;
	}
	from = converted(r, v, type);
	if (op == SGPU_MAP_ISNAN) {
		return made(BOOL, emit(r, SGPU_MAP_NE, types[type].kind, SGPU_NONE, from, from));
	}
	if ((rounds && bits) || (op == SGPU_MAP_ABS && bits > 0)) {
		return made(type, from);
	}
	return made(type, emit(r, op, types[type].kind, narrow_of(type), from, SGPU_MAP_UNUSED));
}

static struct value cast(struct resolver *r, int type, struct value v)
{
	if (v.type == WEAK_REAL && (types[type].bits < 0 || types[type].bits > 1)) {
		v = made(SGPU_F64, constant(r, sgpu_math_bits(v.real)));
	}
	return made(type, converted(r, &v, type));
}

static struct value applied(struct resolver *r, int op, const struct value *v)
{
	switch (op) {
	case SGPU_MAP_WHERE:
		return where(r, v);
	case SGPU_MAP_MIN:
	case SGPU_MAP_MAX:
		return pair(r, op, strong_of(common(v[0].type, v[1].type)), v);
	case SGPU_MAP_NEG:
	case SGPU_MAP_NOT:
		return negated(r, op, v);
	default:
		return op >= SGPU_MAP_LT && op <= SGPU_MAP_NE ? comparison(r, op, v)
		       : sgpu_map_operations[op].arity == 2   ? arithmetic(r, op, v)
							      : function(r, op, v);
	}
}

/* ---- byte code ---- */
static struct value literal_of(struct resolver *r, uint8_t code, const uint8_t *bytes)
{
	uint64_t bits = 0;

	for (int i = 0; i < 8; i++) {
		bits |= (uint64_t)bytes[i] << 8 * i;
	}
	return code == SGPU_MAP_REAL ? weak(r, WEAK_REAL, 0, sgpu_math_from_bits(bits))
				     : weak(r, WEAK_INTEGER, (int64_t)(bits & INT64_MAX), 0);
}

static struct value input_of(struct resolver *r, uint8_t code)
{
	int type = r->inputs[code], bits = types[type].bits;

	if (type == SGPU_NONE) {
		REFUSE(r, "the byte code reads 'x%d', which is not given", code);
	}
	r->program->inputs |= 1u << code;
	r->program->small &= type != SGPU_F64 && bits >= -32 && bits < 32;
	return made(type, SGPU_MAP_FROM_INPUT + code);
}

/* The number of an instruction's operands; -1 if there is no such instruction. */
static int arity_of(uint8_t code)
{
	int op = code - SGPU_MAP_OPERATION;

	if (op >= 0 && op < SGPU_MAP_OP_COUNT && sgpu_map_operations[op].arity) {
		return sgpu_map_operations[op].arity;
	}
	if (code >= SGPU_MAP_CAST && code < SGPU_MAP_CAST + SGPU_DTYPE_COUNT) {
		return 1;
	}
	return code < SGPU_MAP_INPUTS || code == SGPU_MAP_INTEGER || code == SGPU_MAP_REAL ? 0 : -1;
}

/* Carries out an instruction on the stack; returns its length, or 0 if it is refused. */
static size_t step(struct resolver *r, const uint8_t *code, size_t size)
{
	size_t length = *code == SGPU_MAP_INTEGER || *code == SGPU_MAP_REAL ? 9 : 1;
	int arity = arity_of(*code), type = *code - SGPU_MAP_CAST;
	struct value *v;

	if (arity < 0 || arity > r->depth || length > size) {
		REFUSE(r, "the byte code is not valid");
		return 0;
	}
	r->depth -= arity;
	v = &r->stack[r->depth++];
	*v = length == 9  ? literal_of(r, *code, code + 1)
	     : arity == 0 ? input_of(r, *code)
	     : type >= 0  ? cast(r, type == SGPU_NONE ? BOOL : type, *v)
			  : applied(r, *code - SGPU_MAP_OPERATION, v);
	return r->rc ? 0 : length;
}

int sgpu_map_resolve(const uint8_t *code, size_t size,
		     const enum sgpu_dtype inputs[SGPU_MAP_INPUTS],
		     struct sgpu_map_program *program, struct sgpu_error *error)
{
	struct resolver r = { .program = program, .inputs = inputs, .error = error };
	int count = 0, type;

	memset(program, 0, sizeof(*program));
	program->small = 1;
	for (size_t at = 0, length; at < size && !r.rc; at += length) {
		length = count++ < SGPU_MAP_CODE_MAX ? step(&r, code + at, size - at) : 0;
		if (!length) {
			REFUSE(&r, "the byte code is too long");
		}
	}
	type = r.stack[0].type;
	if (!r.rc && (r.depth != 1 || !program->inputs || is_weak(type))) {
		REFUSE(&r, "the byte code makes no result, or none of its inputs");
	}
	if (!r.rc && r.stack[0].from >= SGPU_MAP_SLOTS) {
		(void)emit(&r, SGPU_MAP_COPY, types[type].kind, SGPU_NONE, r.stack[0].from,
			   SGPU_MAP_UNUSED);
	}
	program->result = type == BOOL ? SGPU_U8 : (enum sgpu_dtype)type;
	return r.rc;
}

/* ---- calls ---- */
/* The output's shape: dimensions are matched from the last one on, and 1 goes with any. */
static bool broadcast(struct sgpu_type *output, const struct sgpu_type *input)
{
	int rank = output->rank > input->rank ? output->rank : input->rank;
	uint64_t shape[SGPU_RANK_MAX];

	for (int i = 1; i <= rank; i++) {
		uint64_t a = i <= output->rank ? output->shape[output->rank - i] : 1;
		uint64_t b = i <= input->rank ? input->shape[input->rank - i] : 1;

		if (a != b && a != 1 && b != 1) {
			return false;
		}
		shape[rank - i] = a == 1 ? b : a;
	}
	*output = sgpu_ops_type(output->dtype, rank, shape);
	return true;
}

static int read_shapes(const struct sgpu_op_call *call, const struct sgpu_map_program *program,
		       struct sgpu_type *output, struct sgpu_error *error)
{
	uint64_t bytes;

	*output = (struct sgpu_type){ .dtype = program->result };
	for (int i = 0; i < SGPU_MAP_INPUTS; i++) {
		const char *name = call->op->args[i].name;
		bool given = call->type[i].dtype != SGPU_NONE;

		if (given != (bool)(program->inputs >> i & 1)) {
			return sgpu_fail(error, SGPU_EINVALID, "the byte code does not read '%s'",
					 name);
		}
		if (given && !broadcast(output, &call->type[i])) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "the shape of '%s' does not go with those before it",
					 name);
		}
	}
	return sgpu_type_bytes(output, &bytes)
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID, "the result would be too large");
}

int sgpu_map_prepare(const struct sgpu_op_call *call, struct sgpu_map_job *job,
		     struct sgpu_type *output, struct sgpu_error *error)
{
	size_t size = strlen(call->text) / 4 * 3 + strlen(call->text) % 4 * 3 / 4;
	enum sgpu_dtype inputs[SGPU_MAP_INPUTS];
	uint8_t code[SGPU_MAP_BYTES_MAX];
	int rc = size <= sizeof(code)
			 ? sgpu_base64url_decode(call->text, code, size, error)
			 : sgpu_fail(error, SGPU_EINVALID, "the byte code is too long");

	memset(job, 0, sizeof(*job));
	for (int i = 0; i < SGPU_MAP_INPUTS; i++) {
		inputs[i] = call->type[i].dtype;
	}
	rc = rc ? rc : sgpu_map_resolve(code, size, inputs, &job->program, error);
	rc = rc ? rc : read_shapes(call, &job->program, output, error);
	if (rc) {
		return rc;
	}
	job->count = sgpu_ops_count(output);
	job->output = call->data[SGPU_MAP_INPUTS];
	for (int i = 1; i <= SGPU_RANK_MAX; i++) {
		job->extent[SGPU_RANK_MAX - i] =
			i <= output->rank ? output->shape[output->rank - i] : 1;
	}
	for (int i = 0; i < SGPU_MAP_INPUTS; i++) {
		const struct sgpu_type *input = &call->type[i];
		struct sgpu_map_view *view = &job->view[i];

		view->data = call->data[i];
		view->dtype = input->dtype;
		view->whole = sgpu_ops_count(input) == job->count;
		for (int k = 1; k <= input->rank; k++) {
			if (input->shape[input->rank - k] != 1) {
				view->depth = (uint8_t)k;
				view->stride[SGPU_RANK_MAX - k] =
					sgpu_ops_extent(input, input->rank - k + 1, input->rank);
			}
		}
	}
	return 0;
}
