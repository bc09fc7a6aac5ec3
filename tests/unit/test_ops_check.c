/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of manifests against the table: every kind of diagnostic, inference, and prepared
 * calls.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "json_text.h"
#include "ops/ops.h"
#include "unit.h"

static struct sgpu_manifest *manifest;
static struct sgpu_diagnostics diagnostics;
static char document[1 << 16];

static void clear(void)
{
	sgpu_manifest_free(&manifest);
	sgpu_diagnostics_clear(&diagnostics);
}

/* Parses and checks segments and operations written with ' for "; the number of diagnostics, or -1.
 */
static int check_parts(const char *segments, const char *operations)
{
	struct sgpu_error error;
	char *json;
	int code;

	clear();
	snprintf(document, sizeof(document),
		 "{'version':1,'manifest_id':'m','segments':[%s],'operations':[%s]}", segments,
		 operations);
	json = json_text(document);
	code = sgpu_manifest_parse(json, strlen(json), 0, &manifest, &diagnostics, &error);
	code = code ? code : sgpu_ops_check(manifest, &diagnostics, &error);
	free(json);
	if (code) {
		printf("# %s\n", error.text);
		return -1;
	}
	return (int)diagnostics.count;
}

static void print_diagnostics(void)
{
	for (size_t i = 0; i < diagnostics.count; i++) {
		printf("# %s: %s (%s)\n", diagnostics.list[i].pointer, diagnostics.list[i].text,
		       diagnostics.list[i].hint ? diagnostics.list[i].hint : "");
	}
}

/* Whether there is an error at the pointer with these words in its text and, unless NULL, its hint.
 */
static bool diagnostic(const char *pointer, const char *text, const char *hint)
{
	for (size_t i = 0; i < diagnostics.count; i++) {
		const struct sgpu_diagnostic *f = &diagnostics.list[i];

		if (strcmp(f->pointer, pointer) == 0 && strstr(f->text, text) &&
		    (!hint || (f->hint && strstr(f->hint, hint)))) {
			return true;
		}
	}
	printf("# no diagnostic '%s' at %s among\n", text, pointer);
	print_diagnostics();
	return false;
}

#define SEGMENT(id, direction, rest) \
	"{'segment_id':'" id "','sensitivity_level':'LOW','direction':'" direction "'" rest "}"
#define TYPED(dtype, shape) ",'data_type_info':{'dtype':'" dtype "','shape':" shape "}"
#define OPERATION(id, kernel, rest) "{'gpu_operation_id':'" id "','kernel':'" kernel "'" rest "}"
#define IN_X(dtype, shape) SEGMENT("x", "INPUT", TYPED(dtype, shape)) ","
#define OUT_Y SEGMENT("y", "OUTPUT", "")
#define TO(input, output) ",'arguments':{'input':'" input "','output':'" output "'}"
#define X_TO_Y TO("x", "y")
#define INTERMEDIATE(id) SEGMENT(id, "INTERMEDIATE", "")

UNIT_TEST(the_table_is_sorted_and_sound)
{
	const struct sgpu_op *const *table = sgpu_ops();
	int count = 0;

	for (; table[count]; count++) {
		const struct sgpu_op *op = table[count];
		bool output = false;
		int i;

		CHECK(count == 0 || strcmp(table[count - 1]->name, op->name) < 0);
		CHECK(sgpu_op_find(op->name) == op && op->help && op->infer && op->cpu);
		for (i = 0; op->args[i].name; i++) {
			CHECK(sgpu_op_arg(op, op->args[i].name) == i);
			CHECK(op->args[i].dtypes && op->args[i].help);
			CHECK(op->args[i].min_rank <= op->args[i].max_rank &&
			      op->args[i].max_rank <= SGPU_RANK_MAX);
			CHECK(!output ||
			      strncmp(op->args[i].name, "output", 6) == 0); /* inputs first */
			output |= strncmp(op->args[i].name, "output", 6) == 0;
		}
		CHECK(output && i <= SGPU_ARGUMENTS_MAX);
		CHECK(!op->args[0].optional &&
		      strncmp(op->args[0].name, "output", 6) != 0); /* a run waits for it */
		for (i = 0; op->params[i].name; i++) {
			const struct sgpu_op_param *param = &op->params[i];

			CHECK(sgpu_op_param(op, param->name) == i && param->help);
			CHECK(sgpu_op_arg(op, param->name) == -1); /* no name twice */
			CHECK(param->kind != SGPU_PARAM_CHOICE || param->choices);
			CHECK(param->kind == SGPU_PARAM_CHOICE || param->required ||
			      (param->standard >= param->min && param->standard <= param->max));
		}
		CHECK(i <= SGPU_PARAMS_MAX);
		CHECK(sgpu_op_arg(op, "nothing") == -1 && sgpu_op_param(op, "nothing") == -1);
	}
	CHECK(count == 28);
	CHECK(!sgpu_op_find("") && !sgpu_op_find("zzz") && !sgpu_op_find("copy2") &&
	      !sgpu_op_find(NULL));
}

UNIT_TEST(types_follow_the_graph_whatever_the_order_of_the_document)
{
	CHECK(check_parts(SEGMENT("y", "OUTPUT", "") "," INTERMEDIATE("t") "," SEGMENT(
				  "x", "INPUT", TYPED("i16", "[3,5]")),
			  OPERATION("SECOND", "argmax", TO("t", "y")) "," OPERATION(
				  "FIRST", "scale", TO("x", "t"))) == 0);
	print_diagnostics();
	REQUIRE(manifest);
	CHECK(manifest->segments[1].type.dtype == SGPU_F32 && manifest->segments[1].type.rank == 2);
	CHECK(manifest->segments[0].type.dtype == SGPU_I32 &&
	      manifest->segments[0].type.rank == 1 && manifest->segments[0].type.shape[0] == 3);
	CHECK(!manifest->segments[0].type_stated && !manifest->segments[0].at_most);
}

UNIT_TEST(an_unknown_kernel_is_named_with_the_nearest)
{
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y, OPERATION("A", "vector_ad", X_TO_Y)) == 1);
	CHECK(diagnostic("/operations/0/kernel", "'vector_ad' is not an operation",
			 "did you mean 'vector_add'?"));
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y,
			  OPERATION("A", "quicksort_everything", X_TO_Y)) == 1);
	CHECK(diagnostic("/operations/0/kernel", "is not an operation", "sgpu-manifest ops"));
}

UNIT_TEST(arguments_must_be_known_and_all_there)
{
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y,
			  OPERATION("A", "copy", ",'arguments':{'imput':'x','output':'y'}")) == 2);
	CHECK(diagnostic("/operations/0/arguments/imput", "'imput' is not an argument of 'copy'",
			 "mean 'input'?"));
	CHECK(diagnostic("/operations/0/arguments", "'copy' needs the argument 'input'", NULL));
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y,
			  OPERATION("A", "copy",
				    ",'arguments':{'input':'x','output':'y','a/b~c':'x'}")) == 1);
	CHECK(diagnostic("/operations/0/arguments/a~1b~0c", "'a/b~c' is not an argument", NULL));
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y,
			  OPERATION("A", "copy", ",'arguments':{'input':'x','output2':'y'}")) == 2);
	CHECK(diagnostic("/operations/0/arguments", "'copy' needs the argument 'output'", NULL));
}

UNIT_TEST(structural_diagnostics_have_no_followers)
{
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y, OPERATION("A", "copy", TO("xx", "y"))) >= 1);
	CHECK(!diagnostics.count || !strstr(diagnostics.list[0].text, "needs the argument"));
	for (size_t i = 0; i < diagnostics.count; i++) {
		CHECK(!strstr(diagnostics.list[i].text, "needs the argument"));
		CHECK(!strstr(diagnostics.list[i].text, "not known"));
	}
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y, OPERATION("A", "copy", ",'arguments':7")) >= 1);
	for (size_t i = 0; i < diagnostics.count; i++) {
		CHECK(!strstr(diagnostics.list[i].text, "needs the argument"));
	}
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y,
			  OPERATION("A", "copy", X_TO_Y ",'params':[1]")) == 1);
	CHECK(check_parts(SEGMENT("x", "INPUT", TYPED("f99", "[4]")) "," OUT_Y,
			  OPERATION("A", "copy", X_TO_Y)) == 1);
	CHECK(check_parts("{},3", "{},4,{'kernel':5}") > 0);
	CHECK(check_parts("", "") > 0);
}

UNIT_TEST(element_types_and_ranks_are_checked)
{
	CHECK(check_parts(IN_X("u8", "[4,4]") OUT_Y, OPERATION("A", "softmax", X_TO_Y)) == 1);
	CHECK(diagnostic("/operations/0/arguments/input", "is u8, but 'softmax' takes f32, f64",
			 NULL));
	CHECK(check_parts(IN_X("f32", "[]") OUT_Y, OPERATION("A", "softmax", X_TO_Y)) == 1);
	CHECK(diagnostic("/operations/0/arguments/input",
			 "has rank 0, but 'softmax' takes ranks 1 to 4",
			 "'reshape' adds dimensions"));
	CHECK(check_parts(IN_X("f32", "[2,2,2]")
				  SEGMENT("w", "INPUT", TYPED("f32", "[2,2]")) "," OUT_Y,
			  OPERATION("A", "dense",
				    ",'arguments':{'input':'x','weights':'w','output':'y'}")) == 1);
	CHECK(diagnostic("/operations/0/arguments/input", "has rank 3, but 'dense' takes rank 2",
			 "'slice' takes out items"));
	/* no output: the diagnostic of the parser alone */
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y,
			  OPERATION("A", "copy", ",'arguments':{'input':'x'}") "," OPERATION(
				  "B", "copy", X_TO_Y)) == 1);
}

UNIT_TEST(parameters_are_checked)
{
	const char *segments = IN_X("f32", "[4]") OUT_Y;

	CHECK(check_parts(segments, OPERATION("A", "cast", X_TO_Y)) == 1);
	CHECK(diagnostic("/operations/0", "'cast' needs the parameter 'dtype'", NULL));
	CHECK(check_parts(segments, OPERATION("A", "cast", X_TO_Y ",'params':{}")) == 1);
	CHECK(diagnostic("/operations/0/params", "'cast' needs the parameter 'dtype'", NULL));
	CHECK(check_parts(segments, OPERATION("A", "cast", X_TO_Y ",'params':{'dtype':'f23'}")) ==
	      1);
	CHECK(diagnostic("/operations/0/params/dtype",
			 "'f23' is not one of f32, f64, f16, i8, u8, i16, u16, i32, u32, i64, u64",
			 NULL));
	CHECK(check_parts(segments,
			  OPERATION("A", "cast", X_TO_Y ",'params':{'dtype':'Float16'}")) == 1);
	CHECK(diagnostic("/operations/0/params/dtype", "'Float16' is not one of", NULL));
	CHECK(check_parts(segments, OPERATION("A", "cast", X_TO_Y ",'params':{'dtype':7}")) == 1);
	CHECK(diagnostic("/operations/0/params/dtype", "7 is not a string", NULL));
	CHECK(check_parts(segments, OPERATION("A", "scale", X_TO_Y ",'params':{'gian':7}")) == 1);
	CHECK(diagnostic("/operations/0/params/gian", "'gian' is not a parameter of 'scale'",
			 "did you mean 'gain'?"));
	CHECK(check_parts(segments, OPERATION("A", "copy", X_TO_Y ",'params':{'x/y':null}")) == 1);
	CHECK(diagnostic("/operations/0/params/x~1y", "'x/y' is not a parameter of 'copy'", NULL));
	CHECK(check_parts(segments, OPERATION("A", "scale",
					      X_TO_Y ",'params':{'gain':'1','bias':null}")) == 2);
	CHECK(diagnostic("/operations/0/params/gain", "'1' is not a number", NULL));
	CHECK(diagnostic("/operations/0/params/bias", "null is not a number", NULL));
	CHECK(check_parts(segments,
			  OPERATION("A", "scale", X_TO_Y ",'params':{'gain':{},'bias':[]}")) == 2);
	CHECK(diagnostic("/operations/0/params/gain", "an object is not a number", NULL));
	CHECK(diagnostic("/operations/0/params/bias", "an array is not a number", NULL));
}

#define IN_AB(a, b) \
	SEGMENT("a", "INPUT", TYPED("f32", a)) "," SEGMENT("b", "INPUT", TYPED("f32", b)) ","
#define AB_TO_Y ",'arguments':{'a':'a','b':'b','output':'y'}"

UNIT_TEST(booleans_are_not_numbers)
{
	CHECK(check_parts(IN_AB("[2,3]", "[3,4]") OUT_Y,
			  OPERATION("A", "gemm",
				    AB_TO_Y ",'params':{'transpose_a':1,'alpha':true}")) == 2);
	CHECK(diagnostic("/operations/0/params/transpose_a", "1 is not true or false", NULL));
	CHECK(diagnostic("/operations/0/params/alpha", "true is not a number", NULL));
	CHECK(check_parts(IN_AB("[2,3]", "[2,4]") OUT_Y,
			  OPERATION("A", "gemm", AB_TO_Y ",'params':{'transpose_a':true}")) == 0);
	CHECK(check_parts(IN_AB("[2,3]", "[2,4]") OUT_Y,
			  OPERATION("A", "gemm", AB_TO_Y ",'params':{'alpha':1e39}")) == 1);
	CHECK(diagnostic("/operations/0/params/alpha", "1e+39 is not from -3.40282346638529e+38 to",
			 NULL));
}

UNIT_TEST(integers_have_no_fraction_and_a_range)
{
	const char *segments = SEGMENT("x", "INPUT", TYPED("u8", "[4,4,4]")) "," OUT_Y;

	CHECK(check_parts(segments,
			  OPERATION("A", "morphology3d", X_TO_Y ",'params':{'erode':1.5}")) == 1);
	CHECK(diagnostic("/operations/0/params/erode", "1.5 is not an integer", NULL));
	CHECK(check_parts(segments,
			  OPERATION("A", "morphology3d", X_TO_Y ",'params':{'erode':-1}")) == 1);
	CHECK(diagnostic("/operations/0/params/erode", "-1 is not from 0 to 16", NULL));
	CHECK(check_parts(segments,
			  OPERATION("A", "morphology3d", X_TO_Y ",'params':{'erode':2.0}")) == 0);
	print_diagnostics();
}

UNIT_TEST(what_infer_finds_has_its_place)
{
	CHECK(check_parts(IN_AB("[2,3]", "[4,5]") OUT_Y, OPERATION("A", "gemm", AB_TO_Y)) == 1);
	CHECK(diagnostic("/operations/0/arguments/b",
			 "axis 0 has 4 elements, but axis 1 of 'a' has 3", NULL));
	CHECK(check_parts(IN_AB("[2,3]", "[3,5]") OUT_Y,
			  OPERATION("A", "gemm", AB_TO_Y ",'params':{'beta':2}")) == 1);
	CHECK(diagnostic("/operations/0/params/beta", "needs the argument 'c'", NULL));
}

UNIT_TEST(a_stated_output_must_agree)
{
	CHECK(check_parts(IN_AB("[4,2]", "[2,8]") SEGMENT("y", "OUTPUT", TYPED("f32", "[4,4]")),
			  OPERATION("A", "gemm", AB_TO_Y)) == 1);
	CHECK(diagnostic("/segments/2/data_type_info", "is f32[4,4], but 'gemm' makes f32[4,8]",
			 NULL));
	CHECK(check_parts(IN_AB("[4,2]", "[2,8]") SEGMENT("y", "OUTPUT", TYPED("f32", "[4,8]")),
			  OPERATION("A", "gemm", AB_TO_Y)) == 0);
	CHECK(manifest && manifest->segments[2].type_stated);
	CHECK(check_parts(SEGMENT("x", "INPUT_OUTPUT", TYPED("u8", "[4]")),
			  OPERATION("A", "scale", TO("x", "x"))) == 1);
	CHECK(diagnostic("/segments/0/data_type_info", "is u8[4], but 'scale' makes f32[4]", NULL));
	CHECK(check_parts(SEGMENT("x", "INPUT_OUTPUT", TYPED("f32", "[4]")),
			  OPERATION("A", "scale", TO("x", "x"))) == 0);
	print_diagnostics();
}

/* What came is read as dense needs it, and what is written there has another size. */
UNIT_TEST(reader_and_writer_of_a_segment_agree_on_its_type)
{
	static const char segments[] =
		IN_X("f32", "[2,3]") SEGMENT("w", "INPUT", TYPED("f32", "[3,8]")) "," SEGMENT(
			"t", "INPUT", TYPED("f32", "[2]")) "," SEGMENT("b", "INPUT_OUTPUT",
								       "") "," OUT_Y;
	static const char dense[] = OPERATION(
		"D", "dense", ",'arguments':{'input':'x','weights':'w','bias':'b','output':'y'}");
	static const char copy[] =
		OPERATION("W", "copy", ",'arguments':{'input':'t','output':'b'}");
	char both[1024];

	snprintf(both, sizeof(both), "%s,%s", dense, copy);
	CHECK(check_parts(segments, both) == 1);
	CHECK(diagnostic("/segments/3", "is f32[8], but 'copy' makes f32[2]", NULL));
	snprintf(both, sizeof(both), "%s,%s", copy, dense);
	CHECK(check_parts(segments, both) >= 1);
}

UNIT_TEST(an_input_needs_a_type_unless_the_operation_knows_it)
{
	const char *scale = OPERATION("A", "scale",
				      ",'arguments':{'input':'x','calibration':'k','output':'y'}");

	CHECK(check_parts(SEGMENT("x", "INPUT", "") "," OUT_Y, OPERATION("A", "copy", X_TO_Y)) ==
	      1);
	CHECK(diagnostic("/segments/0", "'x' needs data_type_info", NULL));
	CHECK(check_parts(IN_X("i16", "[4]") SEGMENT("k", "INPUT", "") "," OUT_Y, scale) == 0);
	print_diagnostics();
	REQUIRE(manifest);
	CHECK(manifest->segments[1].type.dtype == SGPU_F32 &&
	      manifest->segments[1].type.rank == 1 && manifest->segments[1].type.shape[0] == 2);
	CHECK(check_parts(IN_X("i16", "[4]") SEGMENT("k", "INPUT", TYPED("f32", "[3]")) "," OUT_Y,
			  scale) == 1);
	CHECK(diagnostic("/operations/0/arguments/calibration", "has 3 elements, must have 2",
			 NULL));
	/* filled for one operation, but another that needs it came first: a diagnostic all the same
	 */
	CHECK(check_parts(SEGMENT("z", "OUTPUT", "") "," IN_X("i16", "[4]")
				  SEGMENT("k", "INPUT", "") "," OUT_Y,
			  OPERATION("B", "copy", TO("k", "z")) "," OPERATION(
				  "A", "scale",
				  ",'arguments':{'input':'x','calibration':'k','output':'y'}")) ==
	      1);
	CHECK(diagnostic("/segments/2", "'k' needs data_type_info", NULL));
	CHECK(check_parts(SEGMENT("x", "INPUT_OUTPUT", ""),
			  OPERATION("A", "scale", TO("x", "x"))) == 1);
	CHECK(diagnostic("/segments/0", "'x' needs data_type_info", NULL));
}

UNIT_TEST(an_output_of_unknown_size_cannot_be_read)
{
	const char *indices = ",'params':{'mode':'indices','low':1}";
	char operations[1024];

	snprintf(operations, sizeof(operations), OPERATION("A", "threshold", X_TO_Y "%s"), indices);
	CHECK(check_parts(IN_X("f32", "[2,3]") OUT_Y, operations) == 0);
	REQUIRE(manifest);
	CHECK(manifest->segments[1].at_most && manifest->segments[1].type.shape[0] == 6);
	CHECK(check_parts(IN_X("f32", "[2,3]") SEGMENT("y", "OUTPUT", TYPED("i32", "[4]")),
			  operations) == 1);
	CHECK(diagnostic("/segments/1/data_type_info", "is i32[4], but 'threshold' makes i32[6]",
			 NULL));
	snprintf(operations, sizeof(operations),
		 OPERATION("A", "threshold", X_TO_Y "%s") "," OPERATION("B", "copy", TO("y", "z")),
		 indices);
	CHECK(check_parts(IN_X("f32", "[2,3]") INTERMEDIATE("y") "," SEGMENT("z", "OUTPUT", ""),
			  operations) == 1);
	CHECK(diagnostic("/operations/0/arguments/output", "no operation can read 'y'", NULL));
	CHECK(check_parts(IN_X("f32", "[2,3]") OUT_Y, OPERATION("A", "threshold", X_TO_Y)) == 0);
	CHECK(manifest && !manifest->segments[1].at_most);
}

UNIT_TEST(calibration_is_given_once)
{
	CHECK(check_parts(IN_X("i16", "[4]") SEGMENT("k", "INPUT", "") "," OUT_Y,
			  OPERATION("A", "scale",
				    ",'arguments':{'input':'x','calibration':'k','output':'y'},'"
				    "params':{'gain':2}")) == 1);
	CHECK(diagnostic("/operations/0/params/gain", "'calibration' gives this already", NULL));
}

UNIT_TEST(one_mistake_is_one_diagnostic_and_all_mistakes_are_found)
{
	CHECK(check_parts(IN_X("f32", "[4]") INTERMEDIATE("t") "," INTERMEDIATE("u") "," OUT_Y,
			  OPERATION("A", "cpoy", TO("x", "t")) "," OPERATION(
				  "B", "scale",
				  TO("t", "u")) "," OPERATION("C", "cast",
							      TO("u",
								 "y") ",'params':{'dtype':'q'}")) ==
	      2);
	CHECK(diagnostic("/operations/0/kernel", "'cpoy' is not an operation", "copy"));
	CHECK(diagnostic("/operations/2/params/dtype", "'q' is not one of", NULL));
}

UNIT_TEST(a_cycle_is_survived)
{
	CHECK(check_parts(INTERMEDIATE("t") "," INTERMEDIATE("u"),
			  OPERATION("A", "copy", TO("t", "u")) "," OPERATION("B", "cpoy",
									     TO("u", "t"))) >= 2);
	CHECK(diagnostic("/operations/1/kernel", "'cpoy' is not an operation", "copy"));
}

UNIT_TEST(an_output_that_is_too_large_is_refused)
{
	CHECK(check_parts(IN_AB("[1099511627776,0]", "[0,1099511627776]") OUT_Y,
			  OPERATION("A", "gemm", AB_TO_Y)) == 1);
	CHECK(diagnostic("/operations/0/arguments/output", "too large", NULL));
	CHECK(check_parts(IN_X("u8", "[2000000000000000]") OUT_Y,
			  OPERATION("A", "cast", X_TO_Y ",'params':{'dtype':'f64'}")) == 1);
	CHECK(diagnostic("/operations/0/arguments/output", "too large", NULL));
	CHECK(check_parts(IN_X("u8", "[9007199254740992]") OUT_Y, OPERATION("A", "copy", X_TO_Y)) >=
	      1);
}

UNIT_TEST(text_from_outside_cannot_carry_control_characters)
{
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y, OPERATION("A", "co\\u001b[31mpy", X_TO_Y)) ==
	      1);
	for (size_t i = 0; i < diagnostics.count; i++) {
		CHECK(!strchr(diagnostics.list[i].text, 033));
	}
}

static int load(const char *text, struct sgpu_error *error)
{
	char *json = json_text(text);
	int code;

	clear();
	code = sgpu_ops_load_manifest(json, strlen(json), "job.json", 0, &manifest, &diagnostics,
				      error);
	free(json);
	return code;
}

UNIT_TEST(loading_says_where)
{
	struct sgpu_error error = { 0 };

	CHECK(load("{'version':1,'manifest_id':'m','segments':[\n" IN_X("f32", "[4]") OUT_Y
		   "],\n'operations':[\n  " OPERATION("A", "cpoy", X_TO_Y) "]}",
		   &error) == SGPU_EINVALID);
	CHECK(!manifest && diagnostics.count == 1 && diagnostics.list[0].line == 4 &&
	      error.code == SGPU_EINVALID);
	CHECK(strstr(error.text, "job.json:4:") &&
	      strstr(error.text, "/operations/0/kernel: 'cpoy'"));
	CHECK(strstr(error.hint, "copy"));
	CHECK(load("{'version':1,", &error) == SGPU_EINVALID && !manifest &&
	      diagnostics.count == 1);
	CHECK(load("{'version':1,'manifest_id':'m','segments':[" IN_X("f32", "[4]") OUT_Y
		   "],'operations':[" OPERATION("A", "copy", X_TO_Y) "]}",
		   &error) == 0);
	CHECK(manifest && diagnostics.count == 0 && manifest->canonical);
}

UNIT_TEST(a_prepared_call_holds_types_and_parameters)
{
	struct sgpu_op_call call;
	struct sgpu_error error;

	CHECK(check_parts(IN_AB("[4,2]", "[8,2]") OUT_Y,
			  OPERATION("A", "gemm",
				    AB_TO_Y ",'params':{'transpose_b':true,'alpha':0.5}")) == 0);
	REQUIRE(manifest);
	REQUIRE(sgpu_ops_prepare(manifest, 0, &call, &error) == 0);
	CHECK(call.op == sgpu_op_find("gemm"));
	CHECK(call.present[0] && call.present[1] && !call.present[2] && call.present[3]);
	CHECK(call.type[2].dtype == SGPU_NONE && call.type[3].shape[1] == 8 && !call.data[0]);
	CHECK(call.param[sgpu_op_param(call.op, "transpose_b")].number == 1);
	CHECK(call.param[sgpu_op_param(call.op, "alpha")].number == 0.5);
	CHECK(call.param[sgpu_op_param(call.op, "beta")].number == 1 &&
	      !call.param[sgpu_op_param(call.op, "beta")].given);
	for (int i = 0; i < 3; i++) { /* types that the operation does not infer */
		manifest->segments[i].type.shape[1]++;
		CHECK(sgpu_ops_prepare(manifest, 0, &call, &error) == SGPU_EINVALID);
		manifest->segments[i].type.shape[1]--;
	}
	CHECK(sgpu_ops_prepare(manifest, 1, &call, &error) == SGPU_EUSAGE);
	CHECK(sgpu_ops_prepare(manifest, -1, &call, &error) == SGPU_EUSAGE);
	CHECK(check_parts(IN_X("f32", "[4]") OUT_Y, OPERATION("A", "cpoy", X_TO_Y)) == 1);
	CHECK(sgpu_ops_prepare(manifest, 0, &call, &error) == SGPU_EINVALID);
}

int main(void)
{
	UNIT_RUN(the_table_is_sorted_and_sound);
	UNIT_RUN(types_follow_the_graph_whatever_the_order_of_the_document);
	UNIT_RUN(an_unknown_kernel_is_named_with_the_nearest);
	UNIT_RUN(arguments_must_be_known_and_all_there);
	UNIT_RUN(structural_diagnostics_have_no_followers);
	UNIT_RUN(element_types_and_ranks_are_checked);
	UNIT_RUN(parameters_are_checked);
	UNIT_RUN(booleans_are_not_numbers);
	UNIT_RUN(integers_have_no_fraction_and_a_range);
	UNIT_RUN(what_infer_finds_has_its_place);
	UNIT_RUN(a_stated_output_must_agree);
	UNIT_RUN(reader_and_writer_of_a_segment_agree_on_its_type);
	UNIT_RUN(an_input_needs_a_type_unless_the_operation_knows_it);
	UNIT_RUN(an_output_of_unknown_size_cannot_be_read);
	UNIT_RUN(calibration_is_given_once);
	UNIT_RUN(one_mistake_is_one_diagnostic_and_all_mistakes_are_found);
	UNIT_RUN(a_cycle_is_survived);
	UNIT_RUN(an_output_that_is_too_large_is_refused);
	UNIT_RUN(text_from_outside_cannot_carry_control_characters);
	UNIT_RUN(loading_says_where);
	UNIT_RUN(a_prepared_call_holds_types_and_parameters);
	clear();
	return unit_done();
}
