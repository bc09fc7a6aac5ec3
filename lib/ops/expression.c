/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles an expression of map to byte code, by recursive descent. The grammar is Python's, as far
 * as it goes:
 *
 *	comparison: bits [("<" | "<=" | ">" | ">=" | "==" | "!=") bits]
 *	bits: the operators | & + - * / // %, of which the later ones bind tighter
 *	unary: ("-" | "+" | "~") unary | primary ["**" unary]
 *	primary: NUMBER | NAME | FUNCTION "(" comparison ("," comparison)* ")" | "(" comparison ")"
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ops/map.h"

enum { DEPTH_MAX = 64, WORD_MAX = SGPU_ID_MAX + 1 };

struct compiler {
	const char *text;
	size_t at;
	char names[SGPU_MAP_INPUTS][WORD_MAX]; /* of the inputs */
	size_t places[SGPU_MAP_INPUTS];	       /* where they are named first */
	int name_count, count, depth;	       /* of names, instructions, brackets and signs */
	uint8_t code[SGPU_MAP_BYTES_MAX];
	size_t size;
	struct sgpu_error *error;
	int rc;
};

static void comparison(struct compiler *c);

/* Refuses the expression at a place; the first refusal counts and ends the reading. */
__attribute__((format(printf, 4, 5))) static void refuse(struct compiler *c, size_t at,
							 const char *hint, const char *format, ...)
{
	char text[SGPU_ERROR_TEXT_MAX];
	va_list list;

	if (c->rc) {
		return;
	}
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	c->rc = sgpu_fail(c->error, SGPU_EINVALID, "column %zu: %s", at + 1, text);
	if (hint) {
		sgpu_hint(c->error, "%s", hint);
	}
	c->text = "";
	c->at = 0;
}

/* ---- signs and byte code ---- */
static bool is_name(char byte)
{
	return isalnum((unsigned char)byte) || byte == '_';
}

static void skip(struct compiler *c)
{
	c->at += strspn(c->text + c->at, " \t\r\n");
}

/* Takes a sign if it comes next. */
static bool take(struct compiler *c, const char *sign)
{
	size_t length = strlen(sign);

	skip(c);
	if (strncmp(c->text + c->at, sign, length) != 0) {
		return false;
	}
	c->at += length;
	return true;
}

static void expect(struct compiler *c, const char *sign)
{
	if (!take(c, sign)) {
		refuse(c, c->at, NULL, "'%s' is missing", sign);
	}
}

/* Takes one of the operators if it comes next; -1: none. */
static int take_operator(struct compiler *c, const uint8_t *ops)
{
	for (int i = 0; i < 6; i++) {
		if (take(c, sgpu_map_operations[ops[i]].text)) {
			return ops[i];
		}
	}
	return -1;
}

static void emit(struct compiler *c, int code)
{
	if (++c->count > SGPU_MAP_CODE_MAX) {
		refuse(c, c->at, "an intermediate segment can hold a part of the result",
		       "there are more than %d numbers, names and operations",
		       (int)SGPU_MAP_CODE_MAX);
	} else {
		c->code[c->size++] = (uint8_t)code;
	}
}

/* ---- numbers and names ---- */
static void number(struct compiler *c)
{
	const char *text = c->text + c->at, *after = text + strspn(text, "0123456789");
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	bool real = !hex && (*after == '.' || *after == 'e' || *after == 'E');
	double value = 0;
	uint64_t bits = 0;
	char *end;

	errno = 0;
	if (real) {
		value = strtod(text, &end);
		memcpy(&bits, &value, sizeof(bits));
	} else {
		bits = strtoull(text, &end, hex ? 16 : 10);
	}
	if (is_name(*end) || *end == '.') {
		refuse(c, c->at, NULL, "this is not a number");
	} else if (isinf(value) || (!real && (errno || bits > INT64_MAX))) {
		refuse(c, c->at, NULL, "the number is too large");
	}
	emit(c, real ? SGPU_MAP_REAL : SGPU_MAP_INTEGER);
	for (int i = 0; i < 8 && !c->rc; i++) {
		c->code[c->size++] = (uint8_t)(bits >> 8 * i);
	}
	c->at += c->rc ? 0 : (size_t)(end - text);
}

/* Returns a function's byte code and its number of arguments, or -1. */
static int find_function(const char *name, int *arity)
{
	for (int i = 0; i < SGPU_MAP_OP_COUNT; i++) {
		if (is_name(*name) && strcmp(sgpu_map_operations[i].text, name) == 0) {
			*arity = sgpu_map_operations[i].arity;
			return SGPU_MAP_OPERATION + i;
		}
	}
	*arity = 1;
	return strcmp(name, "bool") == 0	     ? SGPU_MAP_CAST
	       : sgpu_dtype_parse(name) != SGPU_NONE ? SGPU_MAP_CAST + (int)sgpu_dtype_parse(name)
						     : -1;
}

static void input(struct compiler *c, size_t at, const char *name)
{
	int i = 0;

	while (i < c->name_count && strcmp(c->names[i], name) != 0) {
		i++;
	}
	if (i == SGPU_MAP_INPUTS) {
		refuse(c, at, NULL, "more than %d arguments are named", (int)SGPU_MAP_INPUTS);
		return;
	}
	if (i == c->name_count) {
		snprintf(c->names[i], WORD_MAX, "%s", name);
		c->places[c->name_count++] = at;
	}
	emit(c, i);
}

static void name(struct compiler *c)
{
	size_t at = c->at, length = 0;
	char word[WORD_MAX];
	int arity, function, given = 0;

	while (is_name(c->text[at + length])) {
		length++;
	}
	if (length >= WORD_MAX) {
		refuse(c, at, NULL, "the name has more than %d bytes", (int)SGPU_ID_MAX);
		return;
	}
	snprintf(word, WORD_MAX, "%.*s", (int)length, c->text + at);
	c->at += length;
	function = find_function(word, &arity);
	if (!take(c, "(")) {
		if (function >= 0) {
			refuse(c, at, NULL, "'%s' is a function, '(' is missing", word);
		}
		input(c, at, word);
		return;
	}
	if (function < 0) {
		refuse(c, at, "sgpu-ops(7) lists the functions", "'%s' is not a function", word);
	}
	do {
		comparison(c);
		given++;
	} while (take(c, ","));
	if (given != arity) {
		refuse(c, at, NULL, "'%s' takes %d, not %d", word, arity, given);
	}
	expect(c, ")");
	emit(c, function);
}

/* ---- operators ---- */
static void primary(struct compiler *c)
{
	char byte;

	skip(c);
	byte = c->text[c->at];
	if (take(c, "(")) {
		comparison(c);
		expect(c, ")");
	} else if (isdigit((unsigned char)byte) ||
		   (byte == '.' && isdigit((unsigned char)c->text[c->at + 1]))) {
		number(c);
	} else if (is_name(byte)) {
		name(c);
	} else {
		refuse(c, c->at, NULL, "a number, a name or '(' is missing");
	}
}

static void unary(struct compiler *c)
{
	int op = take(c, "-") ? SGPU_MAP_NEG : take(c, "~") ? SGPU_MAP_NOT : -1;

	if (++c->depth > DEPTH_MAX) {
		refuse(c, c->at, NULL, "there are more than %d levels", (int)DEPTH_MAX);
	}
	if (op >= 0 || take(c, "+")) {
		unary(c);
	} else {
		primary(c);
		op = take(c, "**") ? SGPU_MAP_POW : -1;
		if (op >= 0) {
			unary(c);
		}
	}
	if (op >= 0) {
		emit(c, SGPU_MAP_OPERATION + op);
	}
	c->depth--;
}

#define SAME(op) op, op, op, op, op
static const uint8_t levels[4][6] = {
	{ SGPU_MAP_OR, SAME(SGPU_MAP_OR) },
	{ SGPU_MAP_AND, SAME(SGPU_MAP_AND) },
	{ SGPU_MAP_ADD, SAME(SGPU_MAP_SUB) },
	{ SGPU_MAP_MUL, SGPU_MAP_FLOORDIV, SGPU_MAP_DIV, SGPU_MAP_MOD, SGPU_MAP_MOD, SGPU_MAP_MOD },
};
static const uint8_t comparisons[6] = { SGPU_MAP_LE, SGPU_MAP_LT, SGPU_MAP_GE,
					SGPU_MAP_GT, SGPU_MAP_EQ, SGPU_MAP_NE };

/* Whether & or | was used outside brackets. */
static bool binary(struct compiler *c, int level)
{
	bool bits = false;
	int op;

	if (level == 4) {
		unary(c);
		return false;
	}
	bits = binary(c, level + 1);
	while ((op = take_operator(c, levels[level])) >= 0) {
		bits |= binary(c, level + 1) || level < 2;
		emit(c, SGPU_MAP_OPERATION + op);
	}
	return bits;
}

static void comparison(struct compiler *c)
{
	static const char hint[] = "comparisons are joined as (a < b) & (b < c)";
	bool bits = binary(c, 0);
	size_t at = c->at;
	int op;

	op = take_operator(c, comparisons);
	if (op < 0) {
		return;
	}
	bits |= binary(c, 0);
	emit(c, SGPU_MAP_OPERATION + op);
	if (bits) {
		/* as in Python, they bind tighter, which is never what is meant */
		refuse(c, at, hint, "a comparison beside '&' or '|' needs parentheses");
	}
	skip(c);
	at = c->at;
	if (take_operator(c, comparisons) >= 0) {
		refuse(c, at, hint, "a comparison of a comparison needs parentheses");
	}
}

/* ---- operations of a manifest ---- */
static bool is_output(const char *name)
{
	return strncmp(name, "output", 6) == 0;
}

/* Gives the arguments the names of the table. */
static json_t *renamed(struct compiler *c, json_t *arguments)
{
	json_t *result = json_object(), *segment;
	const char *key;
	int arity;

	json_object_foreach (arguments, key, segment) {
		char table[] = "x0";
		int i = 0;

		while (i < c->name_count && strcmp(c->names[i], key) != 0) {
			i++;
		}
		table[1] = (char)('0' + i);
		if (find_function(key, &arity) >= 0) {
			refuse(c, 0, NULL, "an argument has the name of the function '%s'", key);
		} else if (!is_output(key) && i == c->name_count) {
			refuse(c, 0, NULL, "the argument '%s' is not in the expression", key);
		}
		json_object_set(result, is_output(key) ? key : table, segment);
	}
	for (int i = 0; i < c->name_count; i++) {
		if (!json_object_get(arguments, c->names[i]) || is_output(c->names[i])) {
			refuse(c, c->places[i], NULL, "'%s' is not an argument that is read",
			       c->names[i]);
		}
	}
	return result;
}

int sgpu_map_compile(json_t *operation, struct sgpu_error *error)
{
	const char *kernel = json_string_value(json_object_get(operation, "kernel"));
	json_t *params = json_object_get(operation, "params"), *names;
	json_t *expression = json_object_get(params, "expression");
	json_t *arguments = json_object_get(operation, "arguments");
	struct compiler c = { .text = json_string_value(expression), .error = error };

	if (!kernel || strcmp(kernel, "map") != 0 || !json_is_object(arguments) ||
	    (!expression && json_object_get(params, "code"))) {
		return 0;
	}
	if (!c.text || strlen(c.text) > SGPU_MAP_EXPRESSION_MAX ||
	    json_object_get(params, "code")) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a map needs a string of at most %d bytes here, and no 'code'",
				 (int)SGPU_MAP_EXPRESSION_MAX);
	}
	comparison(&c);
	skip(&c);
	if (c.text[c.at]) {
		refuse(&c, c.at, "and, or and not are '&', '|' and '~'", "an operator is missing");
	}
	names = renamed(&c, arguments);
	if (json_object_set_new(operation, "arguments", names) ||
	    json_object_set_new(params, "code", sgpu_json_from_bytes(c.code, c.size)) ||
	    json_object_del(params, "expression")) {
		return sgpu_fail_nomem(error);
	}
	return c.rc;
}

char *sgpu_map_compile_text(const char *text, size_t size, struct sgpu_diagnostics *diagnostics)
{
	json_t *root = memmem(text, size, "\"map\"", 5)
			       ? json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL)
			       : NULL;
	struct sgpu_error error = { 0 };
	json_t *operation;
	char *compiled, pointer[64];
	size_t i;

	json_array_foreach (json_object_get(root, "operations"), i, operation) {
		if (sgpu_map_compile(operation, &error)) {
			snprintf(pointer, sizeof(pointer), "/operations/%zu/params/expression", i);
			sgpu_diagnostic_add(diagnostics, pointer, error.hint, "%s", error.text);
			error = (struct sgpu_error){ 0 };
		}
	}
	compiled = root && !diagnostics->count ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	return compiled;
}
