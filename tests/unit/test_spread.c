/* SPDX-License-Identifier: Apache-2.0
 *
 * Which device an operation goes to: chains, branches, diamonds, ties, odd sizes.
 */
#include <stdarg.h>

#include <sgpu/base.h>

#include "ops/ops.h"
#include "run/private.h"
#include "unit.h"

enum { DEVICES = 3 };

/* Lines of "NAME = KERNEL READS...": each is operation op_NAME and the segment NAME, which it
 * writes. What is read and not written is an input, what is written and not read an output, and
 * each has this many elements. */
struct job {
	struct sgpu_manifest *manifest;
	struct sgpu_plan *plan;
};

static int device_of(const struct job *job, const char *name)
{
	for (int i = 0; i < job->manifest->operation_count; i++) {
		if (strcmp(job->manifest->operations[i].id + strlen("op_"), name) == 0) {
			return job->plan->operations[i].device;
		}
	}
	return -1;
}

static int device_at(const struct job *job, int buffer)
{
	return job->plan->buffers[buffer].device;
}

static int home_of(const struct job *job, const char *name)
{
	const int segment = sgpu_manifest_segment(job->manifest, name);

	return segment < 0 ? -1
	       : job->plan->segments[segment].in_buffer >= 0
		       ? device_at(job, job->plan->segments[segment].in_buffer)
		       : device_at(job, job->plan->segments[segment].out_buffer);
}

static bool is_among(const char *const *list, int count, const char *name)
{
	for (int i = 0; i < count; i++) {
		if (strcmp(list[i], name) == 0) {
			return true;
		}
	}
	return false;
}

enum { NAMES_MAX = 200 };

static bool spread_out(struct job *job, const char *text, uint64_t elements, int devices,
		       const struct sgpu_plan_costs *costs)
{
	char *copy = strdup(text), *line_end = NULL, *json = NULL;
	const char *written[NAMES_MAX], *read[NAMES_MAX];
	int writes = 0, reads = 0;
	size_t size = 0;
	char *ops_json = NULL;
	size_t ops_size = 0;
	FILE *ops = open_memstream(&ops_json, &ops_size), *out;
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_error error = { 0 };
	bool good;

	for (char *line = strtok_r(copy, ";", &line_end); line;
	     line = strtok_r(NULL, ";", &line_end)) {
		char *word_end = NULL, *name = strtok_r(line, " =", &word_end),
		     *kernel = strtok_r(NULL, " =", &word_end);
		char *a = strtok_r(NULL, " ", &word_end), *b = strtok_r(NULL, " ", &word_end);

		fprintf(ops, "%s{\"gpu_operation_id\":\"op_%s\",\"kernel\":\"%s\",\"arguments\":{",
			writes ? "," : "", name, kernel);
		fprintf(ops, b ? "\"a\":\"%s\",\"b\":\"%s\"," : "\"input\":\"%s\",", a, b);
		fprintf(ops, "\"output\":\"%s\"}}", name);
		written[writes++] = name;
		for (char *which = a; which; which = which == a ? b : NULL) {
			if (!is_among(read, reads, which)) {
				read[reads++] = which;
			}
		}
	}
	fclose(ops);
	out = open_memstream(&json, &size);
	fprintf(out, "{\"version\":1,\"manifest_id\":\"spread\",\"segments\":[");
	for (int i = 0; i < writes + reads; i++) {
		const bool writer = i < writes;
		const char *name = writer ? written[i] : read[i - writes];
		const char *direction = !writer			      ? "INPUT"
					: is_among(read, reads, name) ? "INTERMEDIATE"
								      : "OUTPUT";

		if (!writer && is_among(written, writes, name)) {
			continue;
		}
		fprintf(out,
			"%s{\"segment_id\":\"%s\",\"sensitivity_level\":\"LOW\",\"direction\":\"%"
			"s\"",
			i ? "," : "", name, direction);
		if (strcmp(direction, "INTERMEDIATE") != 0) {
			fprintf(out, ",\"data_location_client\":\"%s\"", name);
		}
		fprintf(out, ",\"data_type_info\":{\"dtype\":\"f64\",\"shape\":[%llu]}}",
			(unsigned long long)elements);
	}
	fprintf(out, "],\"operations\":[%s]}", ops_json);
	fclose(out);
	*job = (struct job){ NULL, NULL };
	good = sgpu_ops_load_manifest(json, size, "test", 0, &job->manifest, &diagnostics,
				      &error) == SGPU_OK &&
	       sgpu_plan_create(job->manifest, devices, costs, &job->plan, &error) == SGPU_OK;
	if (!good) {
		printf("# %s\n", diagnostics.count ? diagnostics.list[0].text : error.text);
	}
	sgpu_diagnostics_clear(&diagnostics);
	free(json);
	free(ops_json);
	free(copy);
	return good;
}

static void drop(struct job *job)
{
	sgpu_plan_free(&job->plan);
	sgpu_manifest_free(&job->manifest);
}

static bool all_on(const struct job *job, int device)
{
	for (int i = 0; i < job->manifest->operation_count; i++) {
		if (job->plan->operations[i].device != device) {
			return false;
		}
	}
	return true;
}

static const uint64_t sizes[] = { 0, 1, 1000, 1 << 20, 1 << 30 };

UNIT_TEST(a_chain_stays_on_one_device_whatever_its_size)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		struct job job;

		REQUIRE(spread_out(&job, "a=copy x;b=copy a;c=copy b;d=copy c;e=copy d", sizes[i],
				   DEVICES, &SGPU_PLAN_COSTS));
		CHECK(all_on(&job, 0) && home_of(&job, "x") == 0 && home_of(&job, "d") == 0);
		drop(&job);
	}
}

UNIT_TEST(branches_that_share_nothing_go_to_different_devices)
{
	struct job job;

	REQUIRE(spread_out(&job, "a=copy x;b=copy a;c=copy y;d=copy c;e=copy z;f=copy e", 1000,
			   DEVICES, &SGPU_PLAN_COSTS));
	for (int i = 0; i < 3; i++) {
		static const char *const names[][4] = { { "a", "b", "x", "a" },
							{ "c", "d", "y", "c" },
							{ "e", "f", "z", "e" } };

		CHECK(device_of(&job, names[i][0]) == i && device_of(&job, names[i][1]) == i);
		CHECK(home_of(&job, names[i][2]) == i && home_of(&job, names[i][3]) == i);
	}
	drop(&job);
}

/* x, two branches over it, and what joins them. */
#define DIAMOND                                                                                  \
	"t=copy x;l1=copy t;l2=copy l1;l3=copy l2;r1=copy t;r2=copy r1;r3=copy r2;j=vector_add " \
	"l3 r3"

UNIT_TEST(a_diamond_is_split_only_when_its_branches_are_worth_the_move)
{
	/* A branch of three copies is work on 6 times the bytes of a segment. */
	const struct sgpu_plan_costs
		below = { .travel = 5, .move = 0, .matrix_max = 4096, .streams = 64 },
		above = { .travel = 7, .move = 0, .matrix_max = 4096, .streams = 64 };
	struct job job;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		REQUIRE(spread_out(&job, DIAMOND, sizes[i], 2, &SGPU_PLAN_COSTS));
		CHECK(all_on(&job, 0));
		drop(&job);
	}
	REQUIRE(spread_out(&job, DIAMOND, 1000, 2, &above));
	CHECK(all_on(&job, 0));
	drop(&job);
	REQUIRE(spread_out(&job, DIAMOND, 1000, 2, &below));
	CHECK(device_of(&job, "t") == 0);
	CHECK(device_of(&job, "l1") != device_of(&job, "r1"));
	CHECK(device_of(&job, "l1") == device_of(&job, "l2") &&
	      device_of(&job, "l2") == device_of(&job, "l3"));
	CHECK(device_of(&job, "r1") == device_of(&job, "r2") &&
	      device_of(&job, "r2") == device_of(&job, "r3"));
	drop(&job);
}

UNIT_TEST(what_a_move_costs_besides_its_bytes_keeps_small_things_together)
{
	const struct sgpu_plan_costs costs = {
		.travel = 0, .move = 100000, .matrix_max = 4096, .streams = 64
	};
	struct job job;

	REQUIRE(spread_out(&job, DIAMOND, 1000, 2, &costs)); /* a branch is work on 48000 bytes */
	CHECK(all_on(&job, 0));
	drop(&job);
	REQUIRE(spread_out(&job, DIAMOND, 10000, 2, &costs)); /* or 480000 */
	CHECK(!all_on(&job, 0));
	drop(&job);
}

UNIT_TEST(an_operation_goes_where_most_of_what_it_reads_is)
{
	struct job job;

	/* The sum reads one branch's result and another's: it is as near to either, and goes to the
	 * first. The next one reads what is there and what is elsewhere. */
	REQUIRE(spread_out(&job,
			   "a=copy x;b=copy y;s=vector_add a b;u=vector_add s a;v=vector_add s b",
			   1000, 2, &SGPU_PLAN_COSTS));
	CHECK(device_of(&job, "a") == 0 && device_of(&job, "b") == 1 && device_of(&job, "s") == 0);
	CHECK(device_of(&job, "u") == 0);
	CHECK(device_of(&job, "v") == 0); /* b was moved there for s */
	drop(&job);
}

UNIT_TEST(among_equals_the_first_device_is_taken)
{
	const struct sgpu_plan_costs nothing = { 0, 0, 4096, 64, 0 };
	struct job job;

	REQUIRE(spread_out(&job, "a=copy x;b=copy y;c=copy z;d=vector_add a b", 0, DEVICES,
			   &SGPU_PLAN_COSTS));
	CHECK(all_on(&job, 0) && home_of(&job, "y") == 0);
	drop(&job);
	REQUIRE(spread_out(&job, "a=copy x;b=copy a;c=copy b", 1000, DEVICES,
			   &nothing)); /* each could be anywhere */
	CHECK(all_on(&job, 0));
	drop(&job);
}

UNIT_TEST(sizes_that_nobody_has_are_added_up_without_harm)
{
	const struct sgpu_plan_costs most = { UINT64_MAX, UINT64_MAX, 4096, 64, 0 };
	struct job job;

	REQUIRE(spread_out(&job, DIAMOND, (uint64_t)1 << 49, DEVICES, &SGPU_PLAN_COSTS));
	CHECK(device_of(&job, "t") == 0);
	drop(&job);
	REQUIRE(spread_out(&job, DIAMOND, (uint64_t)1 << 49, DEVICES, &most));
	CHECK(device_of(&job, "t") == 0);
	drop(&job);
}

UNIT_TEST(the_same_manifest_gives_the_same_devices)
{
	const struct sgpu_plan_costs cheap = { 1, 10, 4096, 64, 0 };
	struct job one, other;

	REQUIRE(spread_out(&one, "a=copy x;b=copy y;c=copy a;" DIAMOND, 5000, DEVICES, &cheap));
	REQUIRE(spread_out(&other, "a=copy x;b=copy y;c=copy a;" DIAMOND, 5000, DEVICES, &cheap));
	CHECK(!memcmp(one.plan->operations, other.plan->operations,
		      (size_t)one.manifest->operation_count * sizeof(*one.plan->operations)));
	CHECK(one.plan->move_count == other.plan->move_count);
	drop(&one);
	drop(&other);
}

static const char module_text[] =
	"{\"version\":1,\"manifest_id\":\"m\",\"segments\":["
	"{\"segment_id\":\"code\",\"data_location_client\":\"c\",\"sensitivity_level\":\"HIGH\","
	"\"direction\":\"INPUT\","
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[100]}},"
	"{\"segment_id\":\"x\",\"data_location_client\":\"x\",\"sensitivity_level\":\"HIGH\","
	"\"direction\":\"INPUT\","
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1000000]}},"
	"{\"segment_id\":\"y\",\"data_location_client\":\"y\",\"sensitivity_level\":\"HIGH\","
	"\"direction\":\"INPUT\","
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1000000]}},"
	"{\"segment_id\":\"p\",\"data_location_client\":\"p\",\"sensitivity_level\":\"HIGH\","
	"\"direction\":\"OUTPUT\","
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1000000]}},"
	"{\"segment_id\":\"q\",\"data_location_client\":\"q\",\"sensitivity_level\":\"HIGH\","
	"\"direction\":\"OUTPUT\","
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1000000]}},"
	"{\"segment_id\":\"r\",\"data_location_client\":\"r\",\"sensitivity_level\":\"HIGH\","
	"\"direction\":\"OUTPUT\","
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1000000]}}],\"operations\":["
	"{\"gpu_operation_id\":\"op_P\",\"kernel\":\"copy\",\"arguments\":{\"input\":\"x\","
	"\"output\":\"p\"}},"
	"{\"gpu_operation_id\":\"op_Q\",\"kernel\":\"module:code:f\",\"module_digest\":"
	"\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"grid\":[1,1,1],\"block\":[1,1,1],"
	"\"arguments\":{\"input\":\"y\",\"output\":\"q\"},\"params\":[\"input\",\"output\"]},"
	"{\"gpu_operation_id\":\"op_R\",\"kernel\":\"module:code:f\",\"module_digest\":"
	"\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"grid\":[1,1,1],\"block\":[1,1,1],"
	"\"arguments\":{\"input\":\"x\",\"output\":\"r\"},\"params\":[\"input\",\"output\"]}]}";

UNIT_TEST(all_operations_of_a_module_go_where_its_image_is)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_error error = { 0 };
	struct job job = { NULL, NULL };
	bool good = sgpu_ops_load_manifest(module_text, sizeof(module_text) - 1, "test", 0,
					   &job.manifest, &diagnostics, &error) == SGPU_OK;

	if (!good) {
		printf("# %s\n", diagnostics.count ? diagnostics.list[0].text : error.text);
	}
	sgpu_diagnostics_clear(&diagnostics);
	REQUIRE(good &&
		sgpu_plan_create(job.manifest, 2, &SGPU_PLAN_COSTS, &job.plan, &error) == SGPU_OK);
	CHECK(device_of(&job, "P") == 0 && device_of(&job, "Q") == 1 && home_of(&job, "code") == 1);
	CHECK(device_of(&job, "R") == 1 &&
	      home_of(&job, "x") == 0); /* though it reads what is on the other */
	drop(&job);
}

int main(void)
{
	UNIT_RUN(a_chain_stays_on_one_device_whatever_its_size);
	UNIT_RUN(branches_that_share_nothing_go_to_different_devices);
	UNIT_RUN(a_diamond_is_split_only_when_its_branches_are_worth_the_move);
	UNIT_RUN(what_a_move_costs_besides_its_bytes_keeps_small_things_together);
	UNIT_RUN(an_operation_goes_where_most_of_what_it_reads_is);
	UNIT_RUN(among_equals_the_first_device_is_taken);
	UNIT_RUN(sizes_that_nobody_has_are_added_up_without_harm);
	UNIT_RUN(the_same_manifest_gives_the_same_devices);
	UNIT_RUN(all_operations_of_a_module_go_where_its_image_is);
	return unit_done();
}
