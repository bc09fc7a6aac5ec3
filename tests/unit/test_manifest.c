/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest: types, parsing and what each field may hold.
 */
#include "test_manifest.h"

#include <dlfcn.h>

/* In place of jansson's, for the library too. */
static int texts_read;

json_t *json_loadb(const char *text, size_t size, size_t flags, json_error_t *fault)
{
	json_t *(*next)(const char *, size_t, size_t, json_error_t *);

	*(void **)(void *)&next = dlsym(RTLD_NEXT, "json_loadb");
	texts_read++;
	return next(text, size, flags, fault);
}

/* ---- types ---- */
UNIT_TEST(dtypes_have_sizes_and_names_that_parse)
{
	static const size_t sizes[SGPU_DTYPE_COUNT] = { 0, 4, 8, 4, 1, 2, 2, 1, 2, 4, 8, 8 };

	for (int i = SGPU_NONE; i < SGPU_DTYPE_COUNT; i++) {
		CHECK(sgpu_dtype_size(i) == sizes[i]);
		CHECK(i == SGPU_NONE || (int)sgpu_dtype_parse(sgpu_dtype_name(i)) == i);
	}
	CHECK(sgpu_dtype_parse("F32") == SGPU_NONE);
	CHECK(sgpu_dtype_parse("none") == SGPU_NONE);
	CHECK(sgpu_dtype_parse("") == SGPU_NONE);
	CHECK(sgpu_dtype_size((enum sgpu_dtype)99) == 0);
}

UNIT_TEST(sizes_are_products_and_never_overflow)
{
	struct sgpu_type type = { SGPU_F32, 3, { 181, 217, 181 } };
	struct sgpu_type scalar = { SGPU_F64, 0, { 0 } };
	struct sgpu_type huge = { SGPU_U8, 4, { 1u << 31, 1u << 31, 1u << 31, 1u << 31 } };
	struct sgpu_type empty = { SGPU_U8, 3, { UINT64_MAX, UINT64_MAX, 0 } };
	struct sgpu_type edge = { SGPU_F64, 1, { ((uint64_t)1 << 50) - 1 } };
	uint64_t n = 7;

	CHECK(sgpu_type_elements(&type, &n) && n == 181ull * 217 * 181);
	CHECK(sgpu_type_bytes(&type, &n) && n == 4 * 181ull * 217 * 181);
	CHECK(sgpu_type_bytes(&scalar, &n) && n == 8);
	CHECK(!sgpu_type_elements(&huge, &n) && !sgpu_type_bytes(&huge, &n));
	CHECK(sgpu_type_bytes(&empty, &n) && n == 0);
	CHECK(sgpu_type_bytes(&edge, &n) && n == ((uint64_t)1 << 53) - 8);
	edge.shape[0]++;
	CHECK(!sgpu_type_bytes(&edge, &n));
	type.rank = 5;
	CHECK(!sgpu_type_elements(&type, &n));
}

UNIT_TEST(types_have_text_and_compare)
{
	struct sgpu_type a = { SGPU_F32, 3, { 181, 217, 181 } }, b = a;
	struct sgpu_type big = { SGPU_F32, 4, { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX } };
	char text[SGPU_TYPE_TEXT_MAX];

	sgpu_type_text(&a, text);
	CHECK(strcmp(text, "f32[181,217,181]") == 0);
	CHECK(sgpu_type_equal(&a, &b));
	b.shape[3] = 9; /* beyond the rank */
	CHECK(sgpu_type_equal(&a, &b));
	b.shape[2] = 9;
	CHECK(!sgpu_type_equal(&a, &b));
	b = a;
	b.rank = 2;
	CHECK(!sgpu_type_equal(&a, &b));
	b = a;
	b.dtype = SGPU_I32;
	CHECK(!sgpu_type_equal(&a, &b));
	sgpu_type_text(&big, text);
	CHECK(strlen(text) == 4 + 1 + 4 * 20 + 3 + 0);
}

UNIT_TEST(nearest_names_are_near_and_no_others)
{
	static const char *const names[] = { "INPUT", "OUTPUT", "INPUT_OUTPUT", "INTERMEDIATE",
					     NULL };
	static const char *const kernels[] = { "gaussian3d", "gemm", "reduce", NULL };

	CHECK(strcmp(sgpu_nearest_name("IN", names), "INPUT") == 0);
	CHECK(strcmp(sgpu_nearest_name("output", names), "OUTPUT") == 0);
	CHECK(strcmp(sgpu_nearest_name("IPNUT", names), "INPUT") == 0);
	CHECK(strcmp(sgpu_nearest_name("gausian3d", kernels), "gaussian3d") == 0);
	CHECK(strcmp(sgpu_nearest_name("gem", kernels), "gemm") == 0);
	CHECK(!sgpu_nearest_name("sideways", names));
	CHECK(!sgpu_nearest_name("", names));
}

/* ---- parsing ---- */
UNIT_TEST(a_good_manifest_is_understood)
{
	static const char text[] =
		MANIFEST(IN("a", ",'data_location_client':'a.f32','data_type_info':{'"
				 "dtype':'f32','shape':["
				 "2,3],'offset':8},'client_dma_input_device_ptr_var':'A_"
				 "DEV'") "," SEGMENT("t", "LOW", "INTERMEDIATE",
						     "") "," OUT("b", ",'gpu_operation_id'"
								      ":'TWO'"),
			 OP("TWO", "'a':'t','b':'t','output':'b'", ",'params':{'k':1}") "," OP(
				 "ONE", "'input':'a','output':'t'", ",'declassify':true"));
	static const uint8_t zero[32] = { 0 };
	struct parsed p;

	parse(&p, text, 0);
	REQUIRE(p.code == SGPU_OK && p.manifest && p.diagnostics.count == 0);
	CHECK(strcmp(p.manifest->id, "m") == 0);
	CHECK(p.manifest->segment_count == 3 && p.manifest->operation_count == 2);
	CHECK(p.manifest->order[0] == 1 && p.manifest->order[1] == 0);
	CHECK(p.manifest->segments[0].has_offset && p.manifest->segments[0].offset == 8);
	CHECK(p.manifest->segments[0].type_stated && p.manifest->segments[0].type.shape[1] == 3);
	CHECK(strcmp(p.manifest->segments[0].dma_var[SGPU_DMA_INPUT_DEVICE], "A_DEV") == 0);
	CHECK(p.manifest->segments[0].writer == -1 && p.manifest->segments[0].reader_count == 1);
	CHECK(p.manifest->segments[1].writer == 1 && p.manifest->segments[1].reader_count == 1);
	CHECK(p.manifest->segments[1].readers[0] == 0);
	CHECK(p.manifest->segments[2].operation == 0 && p.manifest->segments[0].operation == -1);
	CHECK(p.manifest->operations[0].before_count == 1 &&
	      p.manifest->operations[0].before[0] == 1);
	CHECK(p.manifest->operations[1].declassify && !p.manifest->operations[0].declassify);
	CHECK(json_integer_value(json_object_get(p.manifest->operations[0].params, "k")) == 1);
	CHECK(sgpu_manifest_segment(p.manifest, "b") == 2 &&
	      sgpu_manifest_segment(p.manifest, "ONE") == -1);
	CHECK(p.manifest->canonical_size == strlen(p.manifest->canonical));
	CHECK(memcmp(p.manifest->sha256, zero, 32) != 0);
	done(&p);
	done(&p);
}

UNIT_TEST(the_hash_does_not_depend_on_spelling)
{
	static const char other[] = " { 'manifest_id' : '\\u006d', 'version':1, 'operations':[" OP(
		"X", A_TO_B, "") "],\n'segments':[" IN("a", "") "," OUT("b", "") "]}\n";
	struct parsed p, q;

	parse(&p, SMALL("", "", ""), 0);
	parse(&q, other, 0);
	REQUIRE(p.manifest && q.manifest && p.manifest->canonical && q.manifest->canonical);
	CHECK(memcmp(p.manifest->sha256, q.manifest->sha256, 32) == 0);
	CHECK(strcmp(p.manifest->canonical, q.manifest->canonical) == 0);
	done(&q);
	parse(&q, MANIFEST(IN("a", "") "," OUT("b", ""), OP("Y", A_TO_B, "")), 0);
	REQUIRE(q.manifest != NULL);
	CHECK(memcmp(p.manifest->sha256, q.manifest->sha256, 32) != 0);
	done(&q);
	done(&p);
}

UNIT_TEST(what_is_no_json_is_one_diagnostic_with_its_place)
{
	struct parsed p;

	parse(&p, "{\n 'version': 1,\n}", 0);
	CHECK(p.code == SGPU_EINVALID && !p.manifest);
	REQUIRE(p.diagnostics.count == 1);
	CHECK(p.diagnostics.list[0].line == 3);
	done(&p);
	parse(&p, "{'version':1,'version':1}", 0);
	CHECK(p.code == SGPU_EINVALID && p.diagnostics.count == 1);
	done(&p);
	parse(&p, "", 0);
	CHECK(p.code == SGPU_EINVALID && p.diagnostics.count == 1);
	done(&p);
}

UNIT_TEST(blanks_part_what_they_part_in_json)
{
	static const char *const bad[] = {
		"{'version': 1 2}",  "{'version': tr ue}", "{'version': - 1}",
		"{'version': 1. 5}", "{'ver\nsion': 1}",   "{'a' 'b': 1}",
		"{'a': 'b",	     "{'a': '\\",	   "{} {}",
		"{'a': 1\f}"
	};
	struct parsed p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		parse(&p, bad[i], 0);
		CHECK(p.code == SGPU_EINVALID && p.diagnostics.count == 1 &&
		      p.diagnostics.list[0].line >= 1);
		done(&p);
	}
	parse(&p, "\n{ 'version' :\t1 ,\r\n'manifest_id' : 'a  \\' b ' }  ", 0);
	REQUIRE(p.code == SGPU_OK && p.manifest && p.manifest->id);
	CHECK(strcmp(p.manifest->id, "a  \" b ") == 0);
	CHECK(p.diagnostics.count == 2 && p.diagnostics.list[0].line == 2 &&
	      p.diagnostics.list[0].column == 1);
	done(&p);
}

/* Its time is that of jansson. */
UNIT_TEST(a_document_that_is_kept_whole_is_read_once)
{
	static const char text[] =
		MANIFEST(IN("a", "") "," SEGMENT("t", "LOW", "INTERMEDIATE", "") "," OUT("b", ""),
			 OP("ONE", "'input':'a','output':'t'",
			    "") "," OP("TWO", "'input':'t','output':'b'", ""));
	struct parsed p;

	texts_read = 0;
	parse(&p, text, 0);
	REQUIRE(p.code == SGPU_OK && p.manifest && p.diagnostics.count == 0);
	CHECK(texts_read == 1 + 3 + 2); /* the frame, and each of its parts */
	CHECK(json_array_size(json_object_get(p.manifest->json, "segments")) == 3);
	CHECK(json_array_size(json_object_get(p.manifest->json, "operations")) == 2);
	done(&p);
}

UNIT_TEST(the_frame_is_checked)
{
	struct parsed p;

	EXPECT("[1]", "", "is not an object");
	EXPECT("{'version':2,'manifest_id':'m','segments':[" IN("a", "") "," OUT(
		       "b", "") "],'operations':[" OP("X", A_TO_B, "") "]}",
	       "/version", "2 is not a version");
	EXPECT("{'version':1,'manifest_id':'','segments':[" IN("a", "") "," OUT(
		       "b", "") "],'operations':[" OP("X", A_TO_B, "") "]}",
	       "/manifest_id", "printable ASCII");
	EXPECT("{'version':1,'manifest_id':'\\u00e9','segments':[" IN("a", "") "," OUT(
		       "b", "") "],'operations':[" OP("X", A_TO_B, "") "]}",
	       "/manifest_id", "printable ASCII");
	parse(&p, "{}", 0);
	CHECK(p.code == SGPU_OK && p.manifest && p.diagnostics.count == 4);
	CHECK(find(&p, "", "missing field 'operations'") != NULL);
	done(&p);
	parse(&p, "{'version':1,'manifest_id':'m','segments':[],'operations':7,'segment':1}", 0);
	CHECK(p.diagnostics.count == 3);
	CHECK(find(&p, "/segments", "empty") && find(&p, "/operations", "7 is not an array"));
	REQUIRE(find(&p, "/segment", "unknown field") != NULL);
	CHECK(strcmp(find(&p, "/segment", "unknown field")->hint, "did you mean 'segments'?") == 0);
	done(&p);
}

UNIT_TEST(segment_fields_are_checked)
{
	EXPECT(MANIFEST(SEGMENT("a", "LOW", "IN", "") "," OUT("b", ""), OP("X", A_TO_B, "")),
	       "/segments/0/direction",
	       "'IN' is not one of INPUT, OUTPUT, INPUT_OUTPUT, INTERMEDIATE");
	EXPECT(MANIFEST(SEGMENT("a", "high", "INPUT", "") "," OUT("b", ""), OP("X", A_TO_B, "")),
	       "/segments/0/sensitivity_level", "'high' is not one of LOW, HIGH");
	EXPECT(MANIFEST("{'segment_id':'a','direction':'INPUT'}," OUT("b", ""),
			OP("X", A_TO_B, "")),
	       "/segments/0", "missing field 'sensitivity_level'");
	EXPECT(SMALL(",'colour/x':1", "", ""), "/segments/0/colour~1x", "unknown field 'colour/x'");
	EXPECT(SMALL(",'dependencies':['nope']", "", ""), "/segments/0/dependencies/0",
	       "'nope' is neither a segment nor an operation");
	EXPECT(SMALL(",'dependencies':'X'", "", ""), "/segments/0/dependencies", "is not an array");
	EXPECT(MANIFEST(IN("a", ",'gpu_operation_id':'Y'") "," OUT("b", ""), OP("XX", A_TO_B, "")),
	       "/segments/0/gpu_operation_id", "'Y' is not an operation");
	EXPECT(MANIFEST(IN("a", ",'gpu_operation_id':'Y'") "," OUT("b", "") "," OUT("c", "") "," IN(
				"d", ""),
			OP("X", A_TO_B, "") "," OP("Y", "'input':'d','output':'c'", "")),
	       "/segments/0/gpu_operation_id", "operation 'Y' has no argument 'a'");
}

UNIT_TEST(ids_are_checked)
{
	struct parsed p;
	char text[1024];
	char id[SGPU_ID_MAX + 3];

	ACCEPT(MANIFEST(IN("0_.-", "") "," OUT("b", ""),
			OP("X", "'input':'0_.-','output':'b'", "")));
	parse(&p, MANIFEST(IN("-a", "") "," OUT("b", ""), OP("X", A_TO_B, "")), 0);
	CHECK(find(&p, "/segments/0/segment_id", "'-a' is not an id") != NULL);
	done(&p);
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", "") "," IN("a", ""), OP("X", A_TO_B, "")),
	       "/segments/2/segment_id", "'a' is the id of /segments/0 already");
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", ""), OP("a", A_TO_B, "")),
	       "/operations/0/gpu_operation_id", "'a' is the id of a segment already");
	memset(id, 'x', sizeof(id));
	for (int length = SGPU_ID_MAX; length <= SGPU_ID_MAX + 1; length++) {
		id[length] = '\0';
		snprintf(text, sizeof(text),
			 MANIFEST(IN("a", "") "," OUT("b", ""), OP("%s", A_TO_B, "")), id);
		id[length] = 'x';
		parse(&p, text, 0);
		CHECK(p.diagnostics.count == (length > SGPU_ID_MAX));
		done(&p);
	}
}

UNIT_TEST(types_in_manifests_are_checked)
{
#define TYPE(info) SMALL(",'data_type_info':" info, "", "")
#define AT "/segments/0/data_type_info"
	struct parsed p;

	ACCEPT(TYPE("{'dtype':'u8','shape':[]}"));
	ACCEPT(TYPE("{'dtype':'u8','shape':[0]}"));
	ACCEPT(TYPE("{'dtype':'u8','shape':[9007199254740991]}"));
	EXPECT(TYPE("{'dtype':'f64','shape':[1125899906842624]}"), AT "/shape",
	       "not below 2^53 bytes");
	EXPECT(TYPE("{'dtype':'u8','shape':[4294967296,4294967296]}"), AT "/shape",
	       "not below 2^53 bytes");
	EXPECT(TYPE("{'dtype':'u8','shape':[-1]}"), AT "/shape/0", "-1 is not a whole number");
	EXPECT(TYPE("{'dtype':'u8','shape':[1.0]}"), AT "/shape/0", "1 is not a whole number");
	EXPECT(TYPE("{'dtype':'u8','shape':[9007199254740992]}"), AT "/shape/0",
	       "is not below 2^53");
	EXPECT(TYPE("{'dtype':'u8','shape':[1,1,1,1,1]}"), AT "/shape", "the rank is 5");
	EXPECT(TYPE("{'dtype':'u8'}"), AT, "missing field 'shape'");
	EXPECT(TYPE("{'dtype':'u8','shape':[1],'offset':-1}"), AT "/offset",
	       "-1 is not a whole number");
	EXPECT(TYPE("{'dtype':'u8','shape':[2],'offset':9007199254740990}"), AT "/offset",
	       "below 2^53 bytes");
	EXPECT(TYPE("[]"), AT, "an array is not an object");
	parse(&p, TYPE("{'dtype':'float32','shape':[1]}"), 0);
	REQUIRE(p.diagnostics.count == 1 && find(&p, AT "/dtype",
						 "'float32' is not one of f32, f64, f16, i8, u8, "
						 "i16, u16, i32, u32, i64, u64"));
	CHECK(!p.diagnostics.list[0].hint);
	done(&p);
	EXPECT(SMALL("", ",'data_type_info':{'dtype':'u8','shape':[1],'offset':0}", ""),
	       "/segments/1/data_type_info/offset", "for inputs");
}

UNIT_TEST(locations_are_checked)
{
#define LOCATION(path) SMALL(",'data_location_client':'" path "'", "", "")
#define OUTPUT_AT(path) SMALL("", ",'data_location_client':'" path "'", "")
	struct parsed p;

	ACCEPT(LOCATION("a/b/../c"));
	ACCEPT(LOCATION("..data"));
	ACCEPT(LOCATION("-"));
	EXPECT(LOCATION(""), "/segments/0/data_location_client", "is empty");
	EXPECT(LOCATION("a\\nb"), "/segments/0/data_location_client", "control characters");
	EXPECT(LOCATION("a/"), "/segments/0/data_location_client", "names a directory");
	EXPECT(LOCATION("a/.."), "/segments/0/data_location_client", "names a directory");
	EXPECT(LOCATION("../a"), "/segments/0/data_location_client",
	       "outside the manifest's directory");
	EXPECT(LOCATION("a/../../b"), "/segments/0/data_location_client",
	       "outside the manifest's directory");
	EXPECT(LOCATION("/etc/passwd"), "/segments/0/data_location_client",
	       "outside the manifest's directory");
	parse(&p, LOCATION("/etc/passwd"), 0);
	CHECK(p.diagnostics.count == 0);
	done(&p);
	parse(&p, OUTPUT_AT("../x"), 0);
	CHECK(p.diagnostics.count == 1 &&
	      find(&p, "/segments/1/data_location_client", "outside the directory"));
	done(&p);
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", ",'data_location_client':'o/x'") "," OUT(
				"c", ",'data_location_client':'./o//y/../x'"),
			OP("X", A_TO_B ",'output2':'c'", "")),
	       "/segments/2/data_location_client", "the output 'c' has the file of the output 'b'");
	EXPECT(MANIFEST(IN("a", "") "," SEGMENT("b", "LOW", "INTERMEDIATE",
						",'data_location_client':'x'") "," OUT("c", ""),
			OP("X", A_TO_B, "") "," OP("Y", "'input':'b','output':'c'", "")),
	       "/segments/1/data_location_client", "INTERMEDIATE");
	CHECK(sgpu_location_outside("/a") && sgpu_location_outside("..") &&
	      sgpu_location_outside("a/../../a/b"));
	CHECK(!sgpu_location_outside("a") && !sgpu_location_outside("a/./../b") &&
	      !sgpu_location_outside("..."));
}

UNIT_TEST(outputs_do_not_stand_in_each_others_way)
{
#define TWO_OUTPUTS(first, second)                                     \
	MANIFEST(IN("a", "") "," OUT("b", first) "," OUT("c", second), \
		 OP("X", A_TO_B ",'output2':'c'", ""))
#define GOES_TO(path) ",'data_location_client':'" path "'"

	ACCEPT(TWO_OUTPUTS("", ""));
	ACCEPT(TWO_OUTPUTS(GOES_TO("-"), ""));
	ACCEPT(TWO_OUTPUTS(GOES_TO("d/x"), GOES_TO("d/y")));
	ACCEPT(TWO_OUTPUTS(GOES_TO("d"), GOES_TO("da/x")));
	EXPECT(TWO_OUTPUTS(GOES_TO("d"), GOES_TO("d/x")), "/segments/2/data_location_client",
	       "needs a directory");
	EXPECT(TWO_OUTPUTS(GOES_TO("d/./e/x"), GOES_TO("d/e")), "/segments/1/data_location_client",
	       "needs a directory");
	EXPECT(TWO_OUTPUTS("", GOES_TO("b/x")), "/segments/2/data_location_client",
	       "needs a directory");
	EXPECT(TWO_OUTPUTS("", GOES_TO("./b")), "/segments/2/data_location_client",
	       "the output 'c' has the file of the output 'b'");
	EXPECT(TWO_OUTPUTS(GOES_TO("c"), GOES_TO("-")), "/segments/2/data_location_client",
	       "the output 'c' has the file of the output 'b'");
}

UNIT_TEST(client_variables_are_checked)
{
#define VARIABLE(name) SMALL(",'client_dma_input_pinned_host_ptr_var':'" name "'", "", "")
#define WHERE "/segments/0/client_dma_input_pinned_host_ptr_var"
	static const char *const refused[] = { "PATH",	    "LD_PRELOAD", "IFS",
					       "BASH_ENV",  "ENV",	  "PS4",
					       "SGPU_AEAD", "PYTHONPATH", "PROMPT_COMMAND",
					       "HOME",	    "_",	  "GIT_DIR" };
	char text[512];
	struct parsed p;

	ACCEPT(VARIABLE("CAL_HOST"));
	ACCEPT(VARIABLE("_x9"));
	ACCEPT(VARIABLE("PATHS"));
	EXPECT(VARIABLE("9x"), WHERE, "is not the name of a shell variable");
	EXPECT(VARIABLE("x;reboot"), WHERE, "is not the name of a shell variable");
	EXPECT(VARIABLE("x\\ny"), WHERE, "is not the name of a shell variable");
	EXPECT(VARIABLE("\\u00e9"), WHERE, "is not the name of a shell variable");
	EXPECT(VARIABLE(""), WHERE, "is not the name of a shell variable");
	EXPECT(VARIABLE("x234567890123456789012345678901234567890123456789012345678901234x"), WHERE,
	       "1 to 64 letters");
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		snprintf(text, sizeof(text), VARIABLE("%s"), refused[i]);
		parse(&p, text, 0);
		CHECK(p.diagnostics.count == 1 && find(&p, WHERE, "has a meaning"));
		done(&p);
	}
	EXPECT(SMALL(",'client_dma_output_buffer_size_var':'S'", "", ""),
	       "/segments/0/client_dma_output_buffer_size_var", "for outputs");
	EXPECT(MANIFEST(SEGMENT("a", "HIGH", "INPUT",
				",'client_dma_input_device_ptr_var':'S'") "," SEGMENT("b", "HIGH",
										      "OUTPUT", ""),
			OP("X", A_TO_B, "")),
	       "/segments/0/client_dma_input_device_ptr_var", "HIGH segment");
	EXPECT(SMALL(",'client_dma_input_device_ptr_var':'S'",
		     ",'client_dma_output_buffer_size_var':'S'", ""),
	       "/segments/1/client_dma_output_buffer_size_var",
	       "'S' is a variable of segment 'a' already");
}

UNIT_TEST(operation_fields_are_checked)
{
	static const char nine[] = MANIFEST(
		IN("a", "") "," OUT("b", ""),
		OP("X",
		   "'output':'b','a':'a','b':'a','c':'a','d':'a','e':'a','f':'a','g':'a','h':'a'",
		   ""));
	struct parsed p;

	EXPECT(nine, "/operations/0/arguments", "there are 9 arguments, at most 8");
	EXPECT(SMALL("", "", ",'declassify':1"), "/operations/0/declassify",
	       "1 is not true or false");
	EXPECT(SMALL("", "", ",'params':[]"), "/operations/0/params", "an array is not an object");
	EXPECT(SMALL("", "", ",'params':{'x':9007199254740992}"), "/operations/0/params/x",
	       "is not below 2^53");
	/* RFC 8785 writes these without an exponent, so that a reader would find an integer that is
	 * too large. */
	EXPECT(SMALL("", "", ",'params':{'x':1e20}"), "/operations/0/params/x",
	       "1e+20 is not below 2^53");
	EXPECT(SMALL("", "", ",'params':{'x':-9007199254740992.0}"), "/operations/0/params/x",
	       "is not below 2^53");
	parse(&p, SMALL("", "", ",'params':{'x':1e21}"), 0);
	CHECK(p.manifest && p.diagnostics.count == 0);
	done(&p);
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", ""),
			"{'gpu_operation_id':'X','arguments':{" A_TO_B "}}"),
	       "/operations/0", "missing field 'kernel'");
	EXPECT(MANIFEST(IN("a", "") "," OUT("b", ""),
			OP("X", A_TO_B, "") "," OP("Y", "'input':'a'", "")),
	       "/operations/1/arguments", "no argument is an output");
	parse(&p,
	      MANIFEST(IN("alpha", "") "," OUT("b", ""),
		       OP("X", "'input':'alhpa','output':'b'", "")),
	      0);
	REQUIRE(p.diagnostics.count == 1 &&
		find(&p, "/operations/0/arguments/input", "'alhpa' is not a segment"));
	CHECK(!p.diagnostics.list[0].hint);
	done(&p);
}

UNIT_TEST(all_diagnostics_come_in_one_run_sorted_by_place)
{
	static const char text[] =
		"{'version': 3,\n 'manifest_id': 4,\n 'extra': 5,\n 'segments': [\n  "
		"{'segment_id': 'a', 'sensitivity_level': 'MID',\n   'direction': 'IN'}],\n "
		"'operations': [\n  {'gpu_operation_id': 'X', 'kernel': 1, 'arguments': {}}]}";
	static const struct {
		int line, column;
	} places[] = { { 1, 2 },  { 2, 2 }, { 3, 2 },  { 5, 3 },
		       { 5, 23 }, { 6, 4 }, { 8, 29 }, { 8, 42 } };
	struct parsed p;

	parse(&p, text, 0);
	REQUIRE(p.diagnostics.count == 8);
	for (size_t i = 0; i < p.diagnostics.count; i++) {
		if (p.diagnostics.list[i].line != places[i].line ||
		    p.diagnostics.list[i].column != places[i].column) {
			printf("# %d:%d %s\n", p.diagnostics.list[i].line,
			       p.diagnostics.list[i].column, p.diagnostics.list[i].text);
			unit_bad++;
		}
	}
	done(&p);
}

UNIT_TEST(control_characters_never_reach_a_message)
{
	struct parsed p;

	parse(&p,
	      MANIFEST(SEGMENT("a", "\\u001b[31m\\u009b\\u202e", "INPUT", "") "," OUT("b", ""),
		       OP("X", A_TO_B, "")),
	      0);
	REQUIRE(p.diagnostics.count == 1);
	CHECK(!strchr(p.diagnostics.list[0].text, 0x1b) &&
	      !strstr(p.diagnostics.list[0].text, "\xc2\x9b"));
	CHECK(!strstr(p.diagnostics.list[0].text, "\xe2\x80\xae"));
	done(&p);
}

UNIT_TEST(diagnostics_are_limited_in_number)
{
	struct sgpu_diagnostics diagnostics = { 0 };

	for (int i = 0; i < SGPU_DIAGNOSTICS_MAX + 10; i++) {
		sgpu_diagnostic_add(&diagnostics, "", NULL, "diagnostic %d", i);
	}
	CHECK(diagnostics.count == SGPU_DIAGNOSTICS_MAX + 1 && !diagnostics.out_of_memory);
	CHECK(strstr(diagnostics.list[SGPU_DIAGNOSTICS_MAX].text, "more diagnostics") != NULL);
	sgpu_diagnostics_clear(&diagnostics);
	CHECK(!diagnostics.list && !diagnostics.count);
}

int main(void)
{
	UNIT_RUN(dtypes_have_sizes_and_names_that_parse);
	UNIT_RUN(sizes_are_products_and_never_overflow);
	UNIT_RUN(types_have_text_and_compare);
	UNIT_RUN(nearest_names_are_near_and_no_others);
	UNIT_RUN(a_good_manifest_is_understood);
	UNIT_RUN(the_hash_does_not_depend_on_spelling);
	UNIT_RUN(what_is_no_json_is_one_diagnostic_with_its_place);
	UNIT_RUN(blanks_part_what_they_part_in_json);
	UNIT_RUN(a_document_that_is_kept_whole_is_read_once);
	UNIT_RUN(the_frame_is_checked);
	UNIT_RUN(segment_fields_are_checked);
	UNIT_RUN(ids_are_checked);
	UNIT_RUN(types_in_manifests_are_checked);
	UNIT_RUN(locations_are_checked);
	UNIT_RUN(outputs_do_not_stand_in_each_others_way);
	UNIT_RUN(client_variables_are_checked);
	UNIT_RUN(operation_fields_are_checked);
	UNIT_RUN(all_diagnostics_come_in_one_run_sorted_by_place);
	UNIT_RUN(control_characters_never_reach_a_message);
	UNIT_RUN(diagnostics_are_limited_in_number);
	return unit_done();
}
