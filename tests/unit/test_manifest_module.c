/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations whose kernel a segment brings: their diagnostics, their parameters, their edges, what
 * flows through them, and their types.
 */
#include "ops/ops.h"
#include "test_manifest.h"

#include <sgpu/base.h>

#define TYPE(dtype, shape) ",'data_type_info':{'dtype':'" dtype "','shape':" shape "}"
#define MOD(id, kernel, args, params, more)                                     \
	"{'gpu_operation_id':'" id "','kernel':'" kernel "','arguments':{" args \
	"},'params':" params more "}"
#define SEGMENTS                                                                                 \
	SEGMENT("m", "LOW", "INPUT", "")                                                         \
	"," SEGMENT("a", "LOW", "INPUT", TYPE("f32", "[3,5]")) "," SEGMENT("b", "LOW", "OUTPUT", \
									   TYPE("i16", "[2]"))
#define PARAMS "['input','output']"
#define JOB(kernel, params, more) MANIFEST(SEGMENTS, MOD("X", kernel, A_TO_B, params, more))

/* ---- form ---- */
UNIT_TEST(kernels_of_modules_are_checked)
{
	ACCEPT(JOB("module:m:f", PARAMS, ""));
	ACCEPT(JOB("module:m:_Z3fooPfS_9", PARAMS, ""));
}

UNIT_TEST(a_segment_or_function_that_cannot_be_is_a_diagnostic)
{
	struct parsed p;

	/* Of the first, the segment is not to be told, and so no operation's. */
	enum { WITHOUT_SEGMENT = 4 };
	static const char *const wrong[] = { "module:",		"module::",	"module:m",
					     "module::f",	"module:m:",	"module:m:1f",
					     "module:m:f g",	"module:m:f:g", "module:m:f-g",
					     "module:m:\\u00e9" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wrong); i++) {
		char text[1024];

		snprintf(text, sizeof(text), MANIFEST(SEGMENTS, MOD("X", "%s", A_TO_B, PARAMS, "")),
			 wrong[i]);
		parse(&p, text, 0);
		CHECK(p.diagnostics.count == (i < WITHOUT_SEGMENT ? 2 : 1));
		CHECK(find(&p, "/operations/0/kernel", "") != NULL);
		done(&p);
	}
	parse(&p, JOB("module:n:f", PARAMS, ""), 0);
	REQUIRE(p.diagnostics.count == 1);
	CHECK(find(&p, "/operations/0/kernel", "'n' is not a segment"));
	done(&p);
}

UNIT_TEST(names_of_functions_have_a_limit)
{
	char text[2048], name[SGPU_MODULE_FUNCTION_MAX + 2];
	struct parsed p;

	memset(name, 'f', sizeof(name));
	for (size_t length = SGPU_MODULE_FUNCTION_MAX; length <= SGPU_MODULE_FUNCTION_MAX + 1;
	     length++) {
		name[length] = '\0';
		snprintf(text, sizeof(text),
			 MANIFEST(SEGMENTS, MOD("X", "module:m:%s", A_TO_B, PARAMS, "")), name);
		parse(&p, text, 0);
		CHECK((p.diagnostics.count == 0) == (length == SGPU_MODULE_FUNCTION_MAX));
		done(&p);
		name[length] = 'f';
	}
}

UNIT_TEST(grid_and_block_keep_to_the_limits)
{
	struct parsed p;

	parse(&p,
	      JOB("module:m:f", PARAMS, ",'grid':[7,65535],'block':[4,4,64],'shared_bytes':232448"),
	      0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	const struct sgpu_module_call *module = p.manifest->operations[0].module;
	CHECK(module->grid[0] == 7 && module->grid[1] == 65535 && module->grid[2] == 1);
	CHECK(module->block[0] == 4 && module->block[1] == 4 && module->block[2] == 64);
	CHECK(module->shared_bytes == 232448 && module->segment == 0 &&
	      strcmp(module->function, "f") == 0);
	done(&p);
	ACCEPT(JOB("module:m:f", PARAMS, ",'grid':[2147483647],'block':[1024]"));
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':[2147483648]"), "/operations/0/grid/0",
	       "from 1 to 2147483647");
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':[1,65536]"), "/operations/0/grid/1",
	       "from 1 to 65535");
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':[1,1,0]"), "/operations/0/grid/2",
	       "from 1 to 65535");
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':[-1]"), "/operations/0/grid/0", "whole number");
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':[1.5]"), "/operations/0/grid/0", "whole number");
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':[]"), "/operations/0/grid", "1 to 3 numbers");
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':[1,1,1,1]"), "/operations/0/grid",
	       "1 to 3 numbers");
	EXPECT(JOB("module:m:f", PARAMS, ",'grid':4"), "/operations/0/grid", "1 to 3 numbers");
	EXPECT(JOB("module:m:f", PARAMS, ",'block':[1025]"), "/operations/0/block/0",
	       "from 1 to 1024");
	EXPECT(JOB("module:m:f", PARAMS, ",'block':[1,1,65]"), "/operations/0/block/2",
	       "from 1 to 64");
	EXPECT(JOB("module:m:f", PARAMS, ",'block':[33,32]"), "/operations/0/block",
	       "1056 threads");
	EXPECT(JOB("module:m:f", PARAMS, ",'shared_bytes':232449"), "/operations/0/shared_bytes",
	       "232448");
}

UNIT_TEST(what_belongs_to_modules_is_a_diagnostic_elsewhere)
{
	EXPECT(SMALL("", "", ",'grid':[1]"), "/operations/0/grid", "is for a module");
	EXPECT(SMALL("", "", ",'shared_bytes':1"), "/operations/0/shared_bytes", "is for a module");
	EXPECT(SMALL("", "", ",'params':[]"), "/operations/0/params", "is not an object");
	EXPECT(JOB("module:m:f", "{}", ""), "/operations/0/params", "is not an array");
	EXPECT(MANIFEST(SEGMENTS, OP("X", A_TO_B, "")), "/segments/0", "no operation's argument");
}

/* ---- module_digest ---- */
#define DIGEST "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

UNIT_TEST(a_digest_is_32_bytes_in_base64url)
{
	static const char *const wrong[] = {
		"''",
		"'AAECAw'",
		"'" DIGEST "A'",
		"'" DIGEST "='",
		"5",
		"null",
		"[]",
		"'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9'", /* bits beyond the 32 bytes */
		"'+AECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8'", /* base64, not base64url */
		"'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'",
	};
	struct parsed p;

	parse(&p, JOB("module:m:f", PARAMS, ",'module_digest':'" DIGEST "'"), 0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	CHECK(p.manifest->operations[0].module->has_digest);
	for (int i = 0; i < 32; i++) {
		CHECK(p.manifest->operations[0].module->digest[i] == i);
	}
	CHECK(strstr(p.manifest->canonical,
		     "\"module_digest\":\"" DIGEST "\"")); /* what is hashed and sealed has it */
	done(&p);
	parse(&p, JOB("module:m:f", PARAMS, ""), 0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	CHECK(!p.manifest->operations[0].module->has_digest);
	done(&p);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wrong); i++) {
		char text[1024];

		snprintf(text, sizeof(text), JOB("module:m:f", PARAMS, ",'module_digest':%s"),
			 wrong[i]);
		expect(text, "/operations/0/module_digest",
		       i < 4 || i > 6 ? "is not 32 bytes in base64url" : "is not a", __LINE__);
	}
	EXPECT(SMALL("", "", ",'module_digest':'" DIGEST "'"), "/operations/0/module_digest",
	       "is for a module");
}

/* ---- params ---- */
UNIT_TEST(parameters_are_checked)
{
	static const struct {
		const char *params, *pointer, *part;
	} wrong[] = {
		{ "['input','output',5]", "/operations/0/params/2",
		  "neither an argument's name nor an object" },
		{ "['input','output',null]", "/operations/0/params/2", "neither" },
		{ "['inptu','output']", "/operations/0/params/0", "'inptu' is not an argument" },
		{ "['input','output',{}]", "/operations/0/params/2", "0 members" },
		{ "['input','output',{'u32':1,'i32':2}]", "/operations/0/params/2", "2 members" },
		{ "['input','output',{'u31':1}]", "/operations/0/params/2/u31",
		  "unknown field 'u31'" },
		{ "['input','output',{'u32':-1}]", "/operations/0/params/2",
		  "from 0 to 4294967295" },
		{ "['input','output',{'u32':4294967296}]", "/operations/0/params/2", "from 0" },
		{ "['input','output',{'i32':2147483648}]", "/operations/0/params/2",
		  "from -2147483648" },
		{ "['input','output',{'i32':0.5}]", "/operations/0/params/2", "whole number" },
		{ "['input','output',{'i32':'1'}]", "/operations/0/params/2", "not a number" },
		{ "['input','output',{'u64':9007199254740992}]", "/operations/0/params/2", "2^53" },
		{ "['input','output',{'f32':1e39}]", "/operations/0/params/2",
		  "too large for f32" },
		{ "['input','output',{'elements':'scan'}]", "/operations/0/params/2",
		  "not an argument" },
		{ "['input','output',{'bytes':3}]", "/operations/0/params/2", "not a string" },
		{ "['input']", "/operations/0/arguments/output", "not among the params" },
		{ "['output',{'bytes':'input'}]", "/operations/0/arguments/input",
		  "not among the params" },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wrong); i++) {
		char text[1024];

		snprintf(text, sizeof(text), JOB("module:m:f", "%s", ""), wrong[i].params);
		expect(text, wrong[i].pointer, wrong[i].part, __LINE__);
	}
	EXPECT(MANIFEST(SEGMENTS,
			"{'gpu_operation_id':'X','kernel':'module:m:f','arguments':{" A_TO_B "}}"),
	       "/operations/0", "missing field 'params'");
}

UNIT_TEST(parameters_have_a_limit_in_number)
{
	char text[8192], *end = text;
	struct parsed p;

	for (int count = SGPU_MODULE_PARAMS_MAX; count <= SGPU_MODULE_PARAMS_MAX + 1; count++) {
		char list[4096], *at = list;

		at += sprintf(at, "['input','output'");
		for (int i = 2; i < count; i++) {
			at += sprintf(at, ",{'u32':%d}", i);
		}
		sprintf(at, "]");
		snprintf(end, sizeof(text), JOB("module:m:f", "%s", ""), list);
		parse(&p, text, 0);
		CHECK(p.diagnostics.count == (count > SGPU_MODULE_PARAMS_MAX ? 1 : 0));
		done(&p);
	}
}

static bool holds(const struct sgpu_module_param *param, const void *value, unsigned size)
{
	return param->kind == SGPU_MODULE_VALUE && param->argument == -1 && param->size == size &&
	       memcmp(param->value, value, size) == 0;
}

UNIT_TEST(parameters_hold_what_was_written)
{
	static const char text[] = JOB("module:m:f",
				       "['output',{'elements':'input'},'input',{'bytes':'output'},{"
				       "'i32':-2},{'u32':4294967295},{'i64':-9007199254740991},{'"
				       "u64':5.0},{'f32':0.1},{'f64':0.1},{'f32':7}]",
				       "");
	int32_t i32 = -2;
	uint32_t u32 = UINT32_MAX;
	int64_t i64 = -9007199254740991;
	uint64_t u64 = 5;
	float f32 = 0.1f, seven = 7;
	double f64 = 0.1;
	struct parsed p;

	parse(&p, text, 0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	const struct sgpu_module_call *module = p.manifest->operations[0].module;
	const struct sgpu_module_param *param = module->params;
	const struct sgpu_operation *operation = &p.manifest->operations[0];
	REQUIRE(module->param_count == 11);
	CHECK(param[0].kind == SGPU_MODULE_POINTER && operation->args[param[0].argument].output &&
	      param[0].size == 8);
	CHECK(param[1].kind == SGPU_MODULE_ELEMENTS && !operation->args[param[1].argument].output);
	CHECK(param[2].kind == SGPU_MODULE_POINTER && !operation->args[param[2].argument].output);
	CHECK(param[3].kind == SGPU_MODULE_BYTES && operation->args[param[3].argument].output &&
	      param[3].size == 8);
	CHECK(holds(&param[4], &i32, 4) && holds(&param[5], &u32, 4) && holds(&param[6], &i64, 8));
	CHECK(holds(&param[7], &u64, 8) && holds(&param[8], &f32, 4) && holds(&param[9], &f64, 8));
	CHECK(holds(&param[10], &seven, 4));
	done(&p);
}

/* ---- graph and flow ---- */
UNIT_TEST(a_module_is_an_input_of_its_operations)
{
	static const char text[] =
		MANIFEST(SEGMENTS "," SEGMENT("c", "LOW", "OUTPUT", TYPE("u8", "[1]")),
			 MOD("X", "module:m:f", A_TO_B, PARAMS, "") "," MOD(
				 "Y", "module:m:g", "'input':'m','output':'c'", PARAMS, ""));
	struct parsed p;

	parse(&p, text, 0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	/* Y reads it twice, and counts once. */
	CHECK(p.manifest->segments[0].reader_count == 2 &&
	      p.manifest->segments[0].readers[0] == 0 && p.manifest->segments[0].readers[1] == 1);
	CHECK(p.manifest->segments[1].reader_count == 1 &&
	      p.manifest->operations[0].before_count == 0);
	done(&p);
	ACCEPT(MANIFEST(SEGMENT("m", "LOW", "INPUT", ",'gpu_operation_id':'X'") "," SEGMENT(
				"a", "LOW", "INPUT", "") "," OUT("b", ""),
			MOD("X", "module:m:f", A_TO_B, PARAMS, "")));
	/* What the module waits for, its operation waits for. */
	parse(&p,
	      MANIFEST(SEGMENT("m", "LOW", "INPUT", ",'dependencies':['Y']") "," IN(
			       "a", "") "," OUT("b", "") "," OUT("c", ""),
		       MOD("X", "module:m:f", A_TO_B, PARAMS, "") "," LINK("Y", "a", "c", "")),
	      0);
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	CHECK(p.manifest->operations[0].before_count == 1 &&
	      p.manifest->operations[0].before[0] == 1);
	done(&p);
}

UNIT_TEST(a_module_arrives_as_bytes)
{
	EXPECT(MANIFEST(SEGMENT("m", "LOW", "INTERMEDIATE", "") "," IN("a", "") "," OUT("b", ""),
			LINK("W", "a", "m", "") "," MOD("X", "module:m:f", A_TO_B, PARAMS, "")),
	       "/operations/1/kernel", "a module must be INPUT");
	EXPECT(MANIFEST(SEGMENT("m", "LOW", "INPUT",
				TYPE("f32", "[4]")) "," IN("a", "") "," OUT("b", ""),
			MOD("X", "module:m:f", A_TO_B, PARAMS, "")),
	       "/operations/0/kernel", "a module is u8 of rank 1");
	EXPECT(MANIFEST(SEGMENT("m", "LOW", "INPUT",
				TYPE("u8", "[2,2]")) "," IN("a", "") "," OUT("b", ""),
			MOD("X", "module:m:f", A_TO_B, PARAMS, "")),
	       "/operations/0/kernel", "is u8[2,2]");
	ACCEPT(MANIFEST(
		SEGMENT("m", "LOW", "INPUT", TYPE("u8", "[4]")) "," IN("a", "") "," OUT("b", ""),
		MOD("X", "module:m:f", A_TO_B, PARAMS, "")));
}

UNIT_TEST(what_a_high_module_makes_is_high)
{
#define HIGH_MODULE(level, more)                                                              \
	MANIFEST(SEGMENT("m", "HIGH", "INPUT", "") "," IN("a", "") "," SEGMENT("b", level,    \
									       "OUTPUT", ""), \
		 MOD("X", "module:m:f", A_TO_B, PARAMS, more))
	EXPECT(HIGH_MODULE("LOW", ""), "/segments/2/sensitivity_level", "m -> X -> b");
	ACCEPT(HIGH_MODULE("HIGH", ""));
	ACCEPT(HIGH_MODULE("LOW", ",'declassify':true"));
}

/* ---- types ---- */
static void check(struct parsed *p, const char *text)
{
	struct sgpu_error error = { 0 };

	parse(p, text, 0);
	if (p->code || sgpu_ops_check(p->manifest, &p->diagnostics, &error)) {
		p->code = p->code ? p->code : SGPU_ENOMEM;
	}
}

UNIT_TEST(nothing_is_inferred_about_a_module)
{
	struct parsed p;

	check(&p, MANIFEST(IN("m", "") "," IN("a", "") "," OUT("b", ""),
			   MOD("X", "module:m:f", A_TO_B, PARAMS, "")));
	CHECK(p.diagnostics.count == 2);
	CHECK(find(&p, "/segments/1", "'a' needs data_type_info") &&
	      find(&p, "/segments/2", "'b' needs data_type_info"));
	done(&p);
	check(&p, MANIFEST(IN("m", ",'data_location_client':'-'") "," IN(
				   "a", TYPE("u8", "[1]")) "," OUT("b", TYPE("u8", "[1]")),
			   MOD("X", "module:m:f", A_TO_B, PARAMS, "")));
	CHECK(p.diagnostics.count == 1 && find(&p, "/segments/0", "'m' needs data_type_info"));
	done(&p);
	/* An input that another operation made has the type that this one gave it. */
	check(&p, MANIFEST(IN("m", "") "," IN("a", TYPE("u8", "[6]")) "," SEGMENT(
				   "t", "LOW", "INTERMEDIATE", "") "," OUT("b", TYPE("u8", "[1]")),
			   MOD("X", "module:m:f", "'input':'t','output':'b'", PARAMS,
			       "") ",{'gpu_operation_id':'C','kernel':'copy','arguments':{'input':'"
				   "a','output':'t'}}"));
	CHECK(p.diagnostics.count == 0 && p.manifest->segments[2].type.shape[0] == 6);
	done(&p);
}

UNIT_TEST(a_module_is_as_large_as_its_file)
{
	struct sgpu_op_call call;
	struct sgpu_error error = { 0 };
	struct parsed p;
	uint64_t bytes = 1;

	check(&p, JOB("module:m:f", PARAMS, ""));
	REQUIRE(p.manifest && p.diagnostics.count == 0);
	CHECK(p.manifest->segments[0].size_of_file && !p.manifest->segments[1].size_of_file);
	CHECK(sgpu_type_bytes(&p.manifest->segments[0].type, &bytes) && bytes == 0);
	sgpu_segment_set_size(&p.manifest->segments[0], 77);
	CHECK(sgpu_type_bytes(&p.manifest->segments[0].type, &bytes) && bytes == 77);
	REQUIRE(sgpu_ops_prepare(p.manifest, 0, &call, &error) == 0);
	CHECK(call.op == &sgpu_op_module && !call.op->infer && !sgpu_op_find("module"));
	CHECK(call.type[0].dtype == SGPU_F32 && call.type[1].dtype == SGPU_I16 &&
	      call.type[2].dtype == SGPU_NONE);
	done(&p);
	/* Stated, it is what it says. */
	check(&p, MANIFEST(IN("m", TYPE("u8", "[9]")) "," IN("a", TYPE("u8", "[1]")) "," OUT(
				   "b", TYPE("u8", "[1]")),
			   MOD("X", "module:m:f", A_TO_B, PARAMS, "")));
	CHECK(p.diagnostics.count == 0 && !p.manifest->segments[0].size_of_file);
	done(&p);
	/* Who reads it as data needs its type. */
	check(&p, MANIFEST(IN("m", "") "," OUT("b", TYPE("u8", "[1]")),
			   MOD("X", "module:m:f", "'input':'m','output':'b'", PARAMS, "")));
	CHECK(p.diagnostics.count == 1 && find(&p, "/segments/0", "'m' needs data_type_info"));
	done(&p);
}

int main(void)
{
	UNIT_RUN(kernels_of_modules_are_checked);
	UNIT_RUN(a_segment_or_function_that_cannot_be_is_a_diagnostic);
	UNIT_RUN(names_of_functions_have_a_limit);
	UNIT_RUN(grid_and_block_keep_to_the_limits);
	UNIT_RUN(what_belongs_to_modules_is_a_diagnostic_elsewhere);
	UNIT_RUN(a_digest_is_32_bytes_in_base64url);
	UNIT_RUN(parameters_are_checked);
	UNIT_RUN(parameters_have_a_limit_in_number);
	UNIT_RUN(parameters_hold_what_was_written);
	UNIT_RUN(a_module_is_an_input_of_its_operations);
	UNIT_RUN(a_module_arrives_as_bytes);
	UNIT_RUN(what_a_high_module_makes_is_high);
	UNIT_RUN(nothing_is_inferred_about_a_module);
	UNIT_RUN(a_module_is_as_large_as_its_file);
	return unit_done();
}
