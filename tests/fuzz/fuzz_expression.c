/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the compiler of expressions: what it accepts is byte code of the arguments of the table.
 */
#include <stdlib.h>
#include <string.h>

#include "ops/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Types can still be wrong; the text of any other refusal speaks of the byte code. */
static void check(const json_t *operation)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(operation, "params"), "code"));
	enum sgpu_dtype inputs[SGPU_MAP_INPUTS] = { SGPU_NONE };
	size_t size = strlen(text) / 4 * 3 + strlen(text) % 4 * 3 / 4;
	struct sgpu_error error = { 0 };
	struct sgpu_map_program program;
	uint8_t code[SGPU_MAP_BYTES_MAX];

	for (int i = 0; i < SGPU_MAP_INPUTS; i++) {
		char name[] = { 'x', (char)('0' + i), '\0' };
		const json_t *given =
			json_object_get(json_object_get(operation, "arguments"), name);

		inputs[i] = given ? SGPU_I32 : SGPU_NONE;
	}
	if (size > sizeof(code) || sgpu_base64url_decode(text, code, size, NULL) ||
	    (sgpu_map_resolve(code, size, inputs, &program, &error) && inputs[0] &&
	     strstr(error.text, "the byte code"))) {
		abort();
	}
}

/* The first byte says which of the arguments a to h there are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *operation;

	if (size < 1) {
		return 0;
	}
	operation = json_pack("{s:s, s:{s:s%}, s:{s:s}}", "kernel", "map", "params", "expression",
			      data + 1, size - 1, "arguments", "output", "out");
	for (int i = 0; operation && i < 8; i++) {
		char name[] = { (char)('a' + i), '\0' };

		if (data[0] >> i & 1) {
			json_object_set_new(json_object_get(operation, "arguments"), name,
					    json_string(name));
		}
	}
	if (operation && !sgpu_map_compile(operation, NULL)) {
		check(operation);
	}
	json_decref(operation);
	return 0;
}
