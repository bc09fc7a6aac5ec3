/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and shapes: sizes, names, text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "manifest/manifest.h"

static const struct {
	const char *name;
	size_t size;
} dtypes[SGPU_DTYPE_COUNT] = {
	[SGPU_NONE] = { "none", 0 }, [SGPU_F32] = { "f32", 4 }, [SGPU_F64] = { "f64", 8 },
	[SGPU_I32] = { "i32", 4 },   [SGPU_U8] = { "u8", 1 },	[SGPU_I16] = { "i16", 2 },
	[SGPU_F16] = { "f16", 2 },   [SGPU_I8] = { "i8", 1 },	[SGPU_U16] = { "u16", 2 },
	[SGPU_U32] = { "u32", 4 },   [SGPU_I64] = { "i64", 8 }, [SGPU_U64] = { "u64", 8 },
};

size_t sgpu_dtype_size(enum sgpu_dtype dtype)
{
	return (unsigned)dtype < SGPU_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *sgpu_dtype_name(enum sgpu_dtype dtype)
{
	return (unsigned)dtype < SGPU_DTYPE_COUNT ? dtypes[dtype].name : "none";
}

enum sgpu_dtype sgpu_dtype_parse(const char *name)
{
	for (int i = SGPU_NONE + 1; i < SGPU_DTYPE_COUNT; i++) {
		if (strcmp(name, dtypes[i].name) == 0) {
			return i;
		}
	}
	return SGPU_NONE;
}

bool sgpu_type_elements(const struct sgpu_type *type, uint64_t *elements)
{
	uint64_t product = 1;
	bool empty = false, fits = true;

	if (type->rank < 0 || type->rank > SGPU_RANK_MAX) {
		return false;
	}
	/* An extent of 0 makes the product 0, even if the other extents overflow. */
	for (int i = 0; i < type->rank; i++) {
		empty |= type->shape[i] == 0;
		fits &= sgpu_mul_u64(product, type->shape[i], &product);
	}
	if (!empty && (!fits || product >= SGPU_JSON_INTEGER_MAX)) {
		return false;
	}
	*elements = empty ? 0 : product;
	return true;
}

bool sgpu_type_bytes(const struct sgpu_type *type, uint64_t *bytes)
{
	uint64_t elements, product;

	if (!sgpu_type_elements(type, &elements) ||
	    !sgpu_mul_u64(elements, sgpu_dtype_size(type->dtype), &product) ||
	    product >= SGPU_JSON_INTEGER_MAX) {
		return false;
	}
	*bytes = product;
	return true;
}

bool sgpu_type_equal(const struct sgpu_type *a, const struct sgpu_type *b)
{
	return a->dtype == b->dtype && a->rank == b->rank &&
	       !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof(a->shape[0]));
}

void sgpu_type_text(const struct sgpu_type *type, char text[SGPU_TYPE_TEXT_MAX])
{
	size_t used =
		(size_t)snprintf(text, SGPU_TYPE_TEXT_MAX, "%s[", sgpu_dtype_name(type->dtype));

	for (int i = 0; i < type->rank && i < SGPU_RANK_MAX; i++) {
		used += (size_t)snprintf(text + used, SGPU_TYPE_TEXT_MAX - used, "%s%" PRIu64,
					 i ? "," : "", type->shape[i]);
	}
	snprintf(text + used, SGPU_TYPE_TEXT_MAX - used, "]");
}
