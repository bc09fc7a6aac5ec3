/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits that stand as numbers in tools/sgpu-manifest/schema.json are those of the library.
 */
#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/manifest.h>

#include "base/json.h"
#include "ops/ops.h"
#include "unit.h"

/* Bytes of the file; make compiles in the folder of the sources. */
extern const char schema_text[], schema_end[];
__asm__(".pushsection .rodata\n"
	".globl schema_text, schema_end\n"
	"schema_text:\n"
	".incbin \"tools/sgpu-manifest/schema.json\"\n"
	"schema_end:\n"
	".byte 0\n"
	".popsection\n");

/* The value behind these members; "0" and the like are places in an array. */
static const json_t *at(const json_t *value, const char *path)
{
	char name[64];

	for (size_t length; *path; path += length, path += *path == '/') {
		length = strcspn(path, "/");
		snprintf(name, sizeof(name), "%.*s", (int)length, path);
		value = json_is_array(value) ? json_array_get(value, (size_t)atoi(name))
					     : json_object_get(value, name);
	}
	return value;
}

UNIT_TEST(the_limits_of_the_schema_are_those_of_the_library)
{
#define OPERATION "properties/operations/items/properties/"
#define NUMBERS "$defs/module_param/properties/"
	static const struct {
		const char *path;
		long long value;
	} limits[] = {
		{ "properties/version/const", SGPU_MANIFEST_VERSION },
		{ "properties/manifest_id/maxLength", SGPU_MANIFEST_ID_MAX },
		{ "properties/segments/maxItems", SGPU_MANIFEST_SEGMENTS_MAX },
		{ "properties/operations/maxItems", SGPU_MANIFEST_OPERATIONS_MAX },
		{ "properties/segments/items/properties/data_location_client/maxLength",
		  SGPU_LOCATION_MAX },
		{ OPERATION "arguments/maxProperties", SGPU_ARGUMENTS_MAX },
		{ OPERATION "grid/prefixItems/0/maximum", SGPU_MODULE_GRID_X_MAX },
		{ OPERATION "grid/prefixItems/1/maximum", SGPU_MODULE_GRID_YZ_MAX },
		{ OPERATION "grid/prefixItems/2/maximum", SGPU_MODULE_GRID_YZ_MAX },
		{ OPERATION "block/prefixItems/0/maximum", SGPU_MODULE_BLOCK_MAX },
		{ OPERATION "block/prefixItems/1/maximum", SGPU_MODULE_BLOCK_MAX },
		{ OPERATION "block/prefixItems/2/maximum", SGPU_MODULE_BLOCK_Z_MAX },
		{ OPERATION "shared_bytes/maximum", SGPU_MODULE_SHARED_MAX },
		{ "properties/operations/items/allOf/0/then/properties/params/maxItems",
		  SGPU_MODULE_PARAMS_MAX },
		{ "properties/operations/items/allOf/1/then/properties/params/properties/"
		  "expression/maxLength",
		  SGPU_MAP_EXPRESSION_MAX },
		{ "properties/operations/items/allOf/1/then/properties/params/properties/code/"
		  "maxLength",
		  SGPU_MAP_TEXT_MAX },
		{ NUMBERS "i32/minimum", INT32_MIN },
		{ NUMBERS "i32/maximum", INT32_MAX },
		{ NUMBERS "u32/maximum", UINT32_MAX },
		{ NUMBERS "i64/minimum", -((long long)SGPU_JSON_INTEGER_MAX - 1) },
		{ NUMBERS "i64/maximum", (long long)SGPU_JSON_INTEGER_MAX - 1 },
		{ NUMBERS "u64/maximum", (long long)SGPU_JSON_INTEGER_MAX - 1 },
		{ "$defs/id/maxLength", SGPU_ID_MAX },
		{ "$defs/variable/maxLength", SGPU_DMA_VAR_MAX },
		{ "$defs/size/maximum", (long long)SGPU_JSON_INTEGER_MAX - 1 },
		{ "$defs/type/properties/shape/maxItems", SGPU_RANK_MAX },
	};
	json_t *schema = json_loadb(schema_text, (size_t)(schema_end - schema_text), 0, NULL);
	char pattern[128];

	REQUIRE(schema);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(limits); i++) {
		const json_t *number = at(schema, limits[i].path);

		CHECK(json_is_integer(number) && json_integer_value(number) == limits[i].value);
	}
	/* Ids and functions are one byte and then at most so many. */
	snprintf(pattern, sizeof(pattern),
		 "^module:[A-Za-z0-9_][A-Za-z0-9_.-]{0,%d}:[A-Za-z_][A-Za-z0-9_]{0,%d}$",
		 SGPU_ID_MAX - 1, SGPU_MODULE_FUNCTION_MAX - 1);
	CHECK(!strcmp(json_string_value(at(schema, OPERATION "kernel/anyOf/1/pattern")), pattern));
	CHECK(!strcmp(json_string_value(at(
			      schema,
			      "properties/operations/items/allOf/0/if/properties/kernel/pattern")),
		      pattern));
	json_decref(schema);
}

int main(void)
{
	UNIT_RUN(the_limits_of_the_schema_are_those_of_the_library);
	return unit_done();
}
