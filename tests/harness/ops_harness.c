/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of operations, built and run on the CPU with pools of several sizes.
 */
#include <stdarg.h>

#include "ops/half.h"
#include "ops_device.h"
#include "ops_harness.h"

static uint64_t ops_random_state = 0x9e3779b97f4a7c15u;

static void ops_on_diagnostic(struct sgpu_op_report *report, const char *argument,
			      const char *param, const char *text)
{
	struct ops_case *c = (struct ops_case *)report;

	if (c->diagnostics++ == 0) {
		snprintf(c->diagnostic_argument, sizeof(c->diagnostic_argument), "%s",
			 argument ? argument : "");
		snprintf(c->diagnostic_param, sizeof(c->diagnostic_param), "%s",
			 param ? param : "");
		snprintf(c->diagnostic_text, sizeof(c->diagnostic_text), "%s", text);
	}
}

void ops_die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	printf("Bail out! ");
	vprintf(format, list);
	printf("\n");
	va_end(list);
	exit(1);
}

void ops_begin(struct ops_case *c, const char *name)
{
	memset(c, 0, sizeof(*c));
	c->report.diagnostic = ops_on_diagnostic;
	c->call.op = sgpu_op_find(name);
	if (!c->call.op) {
		ops_die("no operation '%s'", name);
	}
	for (int i = 0; c->call.op->params[i].name; i++) {
		c->call.param[i].number = c->call.op->params[i].standard;
	}
}

int ops_arg(const struct ops_case *c, const char *name)
{
	int index = sgpu_op_arg(c->call.op, name);

	if (index < 0) {
		ops_die("'%s' has no argument '%s'", c->call.op->name, name);
	}
	return index;
}

void *ops_alloc(size_t alignment, uint64_t bytes)
{
	void *memory = NULL;

	if (posix_memalign(&memory, alignment, bytes ? bytes : 1)) {
		ops_die("out of memory");
	}
	return memory;
}

void ops_input(struct ops_case *c, const char *name, enum sgpu_dtype dtype, int rank,
	       const uint64_t *shape, const void *data)
{
	int index = ops_arg(c, name);
	struct sgpu_type *type = &c->call.type[index];

	type->dtype = dtype;
	type->rank = rank;
	for (int i = 0; i < rank; i++) {
		type->shape[i] = shape[i];
	}
	c->call.present[index] = true;
	if (!sgpu_type_bytes(type, &c->bytes[index])) {
		ops_die("the type of '%s' is too large", name);
	}
	free(c->block[index]);
	c->block[index] = ops_alloc(64, c->bytes[index]);
	if (data && c->bytes[index]) {
		memcpy(c->block[index], data, c->bytes[index]);
	}
	c->call.data[index] = c->block[index];
}

void ops_number(struct ops_case *c, const char *name, double value)
{
	int index = sgpu_op_param(c->call.op, name);

	if (index < 0) {
		ops_die("'%s' has no parameter '%s'", c->call.op->name, name);
	}
	c->call.param[index].given = true;
	c->call.param[index].number = value;
}

void ops_choice(struct ops_case *c, const char *name, const char *choice)
{
	int index = sgpu_op_param(c->call.op, name);
	const char *const *choices = index < 0 ? NULL : c->call.op->params[index].choices;

	for (int i = 0; choices && choices[i]; i++) {
		if (strcmp(choices[i], choice) == 0) {
			ops_number(c, name, i);
			return;
		}
	}
	ops_die("'%s' has no parameter '%s' that takes '%s'", c->call.op->name, name, choice);
}

void ops_tolerance(struct ops_case *c, double relative, double absolute)
{
	c->relative = relative;
	c->absolute = absolute;
}

bool ops_infer(struct ops_case *c)
{
	const struct sgpu_op_argument *args = c->call.op->args;

	for (int i = 0; args[i].name; i++) {
		const struct sgpu_type *type = &c->call.type[i];

		if (strncmp(args[i].name, "output", 6) == 0) {
			c->call.present[i] = c->call.present[i] || !args[i].optional;
			memset(&c->call.type[i], 0, sizeof(c->call.type[i]));
		} else if (type->dtype == SGPU_NONE && !args[i].optional) {
			ops_die("'%s' needs '%s'", c->call.op->name, args[i].name);
		} else if (type->dtype != SGPU_NONE &&
			   (!(args[i].dtypes & SGPU_TYPE_BIT(type->dtype)) ||
			    type->rank < args[i].min_rank || type->rank > args[i].max_rank)) {
			ops_on_diagnostic(&c->report, args[i].name, NULL, "type");
			return false;
		}
	}
	c->call.op->infer(&c->call, &c->report);
	return c->diagnostics == 0;
}

/* An input of a type as sgpu_type_text writes it. */
static void ops_give(struct ops_case *c, const char *name, char *text)
{
	char *at = text + strcspn(text, "["), *end = at;
	uint64_t shape[SGPU_RANK_MAX];
	enum sgpu_dtype dtype;
	int rank = 0;

	*at = '\0';
	dtype = sgpu_dtype_parse(text);
	for (at++; dtype != SGPU_NONE && *at != ']' && rank < SGPU_RANK_MAX; at = end) {
		shape[rank++] = strtoull(at + (*at == ','), &end, 10);
	}
	if (dtype == SGPU_NONE || strcmp(at, "]") != 0) {
		ops_die("'%s' is no type", text);
	}
	ops_input(c, name, dtype, rank, shape, NULL);
	memset(ops_data(c, name), 1, c->bytes[ops_arg(c, name)]);
}

void ops_call(struct ops_case *c, const char *call)
{
	char words[256], *rest = words, *name, *value, *end;
	double number;

	snprintf(words, sizeof(words), "%s", call);
	ops_begin(c, strsep(&rest, " "));
	while ((name = strsep(&rest, " "))) {
		value = strchr(name, '=');
		if (value) {
			*value++ = '\0';
		}
		if (sgpu_op_arg(c->call.op, name) < 0 && value) {
			number = strtod(value, &end);
			if (end > value && !*end) {
				ops_number(c, name, number);
			} else {
				ops_choice(c, name, value);
			}
		} else if (value) {
			ops_give(c, name, value);
		} else {
			c->call.present[ops_arg(c, name)] = true;
		}
	}
}

bool ops_refuses(const char *call, const char *where, const char *text)
{
	struct ops_case c;
	bool good;

	ops_call(&c, call);
	good = !ops_infer(&c) && strstr(c.diagnostic_text, text) &&
	       strcmp(c.diagnostic_argument[0] ? c.diagnostic_argument : c.diagnostic_param,
		      where) == 0;
	if (!good) {
		printf("# '%s': %s%s: %s\n", call, c.diagnostic_argument, c.diagnostic_param,
		       c.diagnostic_text);
	}
	ops_end(&c);
	return good;
}

bool ops_runs(const char *call)
{
	struct ops_case c;
	bool good;

	ops_call(&c, call);
	good = ops_run(&c);
	ops_end(&c);
	return good;
}

int ops_run_once(struct ops_case *c, unsigned jobs)
{
	const struct sgpu_op *op = c->call.op;
	struct sgpu_pool *pool = NULL;
	int64_t status[2] = { 0 };
	struct sgpu_launch launch = { .error = &c->error, .status = status };
	uint64_t scratch = op->scratch ? op->scratch(&c->call) : 0;
	int result;

	for (int i = 0; op->args[i].name; i++) {
		if (strncmp(op->args[i].name, "output", 6) == 0 && c->call.present[i]) {
			if (c->call.type[i].dtype == SGPU_NONE ||
			    !sgpu_type_bytes(&c->call.type[i], &c->bytes[i])) {
				ops_die("infer left '%s' open", op->args[i].name);
			}
			free(c->block[i]);
			c->block[i] = ops_alloc(64, c->bytes[i]);
			memset(c->block[i], 0xa5, c->bytes[i]);
			c->call.data[i] = c->block[i];
		}
	}
	c->call.scratch = scratch ? ops_alloc(4096, scratch) : NULL;
	if (scratch) {
		memset(c->call.scratch, 0x5a, scratch);
	}
	if (sgpu_pool_create(jobs, &pool, &c->error)) {
		ops_die("no pool");
	}
	launch.pool = pool;
	sgpu_pool_enter(pool);
	result = sgpu_op_run(&c->call, NULL, &launch);
	c->actual = (uint64_t)status[1];
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	free(c->call.scratch);
	c->call.scratch = NULL;
	return result;
}

/* Whether the outputs are the same bytes as saved[]; saves them when it is empty. */
static bool ops_same(struct ops_case *c, void *saved[SGPU_ARGUMENTS_MAX], bool save)
{
	bool same = true;

	for (int i = 0; c->call.op->args[i].name; i++) {
		if (strncmp(c->call.op->args[i].name, "output", 6) != 0 || !c->block[i]) {
			continue;
		}
		if (save) {
			saved[i] = ops_alloc(64, c->bytes[i]);
			memcpy(saved[i], c->block[i], c->bytes[i]);
		} else if (memcmp(saved[i], c->block[i], c->bytes[i]) != 0) {
			printf("# '%s' of '%s' depends on the number of workers\n",
			       c->call.op->args[i].name, c->call.op->name);
			same = false;
		}
	}
	return same;
}

bool ops_close(double actual, double expected, double absolute, double relative)
{
	if (isnan(expected) || isnan(actual)) {
		return isnan(expected) && isnan(actual);
	}
	if (isinf(expected) || isinf(actual)) {
		return expected == actual;
	}
	return fabs(actual - expected) <= absolute + relative * fabs(expected);
}

bool ops_run(struct ops_case *c)
{
	static const unsigned jobs[] = { 1, 2, 5 };
	void *saved[SGPU_ARGUMENTS_MAX] = { NULL };
	uint64_t actual = 0;
	bool good = ops_infer(c);

	if (!good) {
		printf("# diagnostic: %s%s: %s\n", c->diagnostic_argument, c->diagnostic_param,
		       c->diagnostic_text);
	}
	for (size_t i = 0; good && i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		if (ops_run_once(c, jobs[i])) {
			printf("# error: %s\n", c->error.text);
			good = false;
		} else {
			good = ops_same(c, saved, i == 0) && (i == 0 || c->actual == actual);
			actual = c->actual;
		}
	}
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		free(saved[i]);
	}
	return good && ops_run_device(c);
}

void *ops_data(const struct ops_case *c, const char *name)
{
	return c->block[ops_arg(c, name)];
}

const struct sgpu_type *ops_type(const struct ops_case *c, const char *name)
{
	return &c->call.type[ops_arg(c, name)];
}

bool ops_type_is(const struct ops_case *c, const char *name, enum sgpu_dtype dtype, int rank,
		 const uint64_t *shape)
{
	const struct sgpu_type *type = ops_type(c, name);
	bool same = type->dtype == dtype && type->rank == rank;

	for (int i = 0; same && i < rank; i++) {
		same = type->shape[i] == shape[i];
	}
	return same;
}

void ops_end(struct ops_case *c)
{
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		free(c->block[i]);
	}
	memset(c, 0, sizeof(*c));
}

uint64_t ops_random(void)
{
	uint64_t z = ops_random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

double ops_uniform(double low, double high)
{
	return low + (high - low) * (double)(ops_random() >> 11) * 0x1p-53;
}

bool ops_close_f32(const float *actual, const float *expected, uint64_t count, double absolute,
		   double relative)
{
	for (uint64_t i = 0; i < count; i++) {
		if (!ops_close((double)actual[i], (double)expected[i], absolute, relative)) {
			printf("# element %llu: %.9g, expected %.9g\n", (unsigned long long)i,
			       (double)actual[i], (double)expected[i]);
			return false;
		}
	}
	return true;
}

bool ops_close_f64(const double *actual, const double *expected, uint64_t count, double absolute,
		   double relative)
{
	for (uint64_t i = 0; i < count; i++) {
		if (!ops_close(actual[i], expected[i], absolute, relative)) {
			printf("# element %llu: %.17g, expected %.17g\n", (unsigned long long)i,
			       actual[i], expected[i]);
			return false;
		}
	}
	return true;
}

double ops_get(enum sgpu_dtype dtype, const void *data, uint64_t i)
{
	switch (dtype) {
	case SGPU_F32:
		return (double)((const float *)data)[i];
	case SGPU_F64:
		return ((const double *)data)[i];
	case SGPU_F16:
		return (double)sgpu_half_to_float(((const uint16_t *)data)[i]);
	case SGPU_I8:
		return ((const int8_t *)data)[i];
	case SGPU_U8:
		return ((const uint8_t *)data)[i];
	case SGPU_I16:
		return ((const int16_t *)data)[i];
	case SGPU_U16:
		return ((const uint16_t *)data)[i];
	case SGPU_I32:
		return ((const int32_t *)data)[i];
	case SGPU_U32:
		return ((const uint32_t *)data)[i];
	case SGPU_I64:
		return (double)((const int64_t *)data)[i];
	case SGPU_U64:
		return (double)((const uint64_t *)data)[i];
	default:
		ops_die("no type");
	}
}

void ops_put(enum sgpu_dtype dtype, void *data, uint64_t i, double value)
{
	const bool floating = dtype == SGPU_F32 || dtype == SGPU_F64 || dtype == SGPU_F16;
	const size_t size = sgpu_dtype_size(dtype);
	const float single = (float)value;
	const uint16_t half = sgpu_half_from_double(value);
	const uint64_t whole = floating		 ? 0
			       : value >= 0x1p63 ? (uint64_t)value
						 : (uint64_t)(int64_t)value;
	const void *from = dtype == SGPU_F32   ? (const void *)&single
			   : dtype == SGPU_F64 ? (const void *)&value
			   : dtype == SGPU_F16 ? (const void *)&half
					       : (const void *)&whole;

	memcpy((uint8_t *)data + i * size, from, size);
}

void *ops_values(enum sgpu_dtype dtype, uint64_t count, double low, double high)
{
	void *data = ops_alloc(64, count * sgpu_dtype_size(dtype));

	for (uint64_t i = 0; i < count; i++) {
		ops_put(dtype, data, i, ops_uniform(low, high));
	}
	return data;
}
