/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches that bring their own kernel, on a GPU, from the sealed PTX to the sealed result; and what
 * a run says when such a kernel does not fit, or traps. No threads of its kernels share memory:
 * racecheck has nothing to find.
 */
#include <sys/wait.h>

#include "crypto/crypto.h"
#include "run_harness.h"

enum { SIZE = 1 << 20 };

/* scan is the module; half = copy of bias; result = half + more by it; bias_copy = copy of bias. */
#define U8 "\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1048576]}"
#define MANIFEST                                                                                   \
	"{\"version\":1,\"manifest_id\":\"t\",\"segments\":["                                      \
	"{\"segment_id\":\"scan\",\"data_location_client\":\"s\",\"sensitivity_level\":\"HIGH\","  \
	"\"direction\":\"INPUT\"},"                                                                \
	"{\"segment_id\":\"bias\",\"data_location_client\":\"b\",\"sensitivity_level\":\"LOW\","   \
	"\"direction\":\"INPUT\"," U8 "},"                                                         \
	"{\"segment_id\":\"half\",\"sensitivity_level\":\"HIGH\",\"direction\":\"INTERMEDIATE\"}," \
	"{\"segment_id\":\"result\",\"data_location_client\":\"r\",\"sensitivity_level\":"         \
	"\"HIGH\",\"direction\":\"OUTPUT\"," U8 "},"                                               \
	"{\"segment_id\":\"bias_copy\",\"data_location_client\":\"c\",\"sensitivity_level\":"      \
	"\"LOW\","                                                                                 \
	"\"direction\":\"OUTPUT\"}],"                                                              \
	"\"operations\":["                                                                         \
	"{\"gpu_operation_id\":\"FIRST\",\"kernel\":\"copy\",\"arguments\":{\"input\":\"bias\","   \
	"\"output\":\"half\"}},"                                                                   \
	"{\"gpu_operation_id\":\"SECOND\",\"kernel\":\"module:scan:%s\",\"module_digest\":\"%s\"," \
	"\"grid\":[4096],\"block\":[128,2],"                                                       \
	"\"arguments\":{\"input\":\"half\",\"output\":\"result\"},\"params\":%s},"                 \
	"{\"gpu_operation_id\":\"THIRD\",\"kernel\":\"copy\","                                     \
	"\"arguments\":{\"input\":\"bias\",\"output\":\"bias_copy\"}}]}"
#define PARAMS "[\"output\",\"input\",{\"elements\":\"input\"},{\"u32\":5}]"

static const char ptx[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry add(.param .u64 output, .param .u64 input, .param .u64 n, .param .u32 "
	"more)\n"
	"{\n"
	"	.reg .pred %done;\n"
	"	.reg .b32 %a, %b, %value, %more;\n"
	"	.reg .b64 %i, %n, %from, %to;\n"
	"	mov.u32 %a, %ntid.x;\n"
	"	mov.u32 %b, %ntid.y;\n"
	"	mul.lo.u32 %a, %a, %b;\n" /* threads of a block */
	"	mov.u32 %b, %ctaid.x;\n"
	"	mul.lo.u32 %a, %a, %b;\n"
	"	mov.u32 %b, %tid.x;\n"
	"	add.u32 %a, %a, %b;\n"
	"	mov.u32 %b, %tid.y;\n"
	"	mov.u32 %value, %ntid.x;\n"
	"	mad.lo.u32 %a, %b, %value, %a;\n"
	"	cvt.u64.u32 %i, %a;\n"
	"	ld.param.u64 %n, [n];\n"
	"	setp.ge.u64 %done, %i, %n;\n"
	"	@%done ret;\n"
	"	ld.param.u64 %from, [input];\n"
	"	ld.param.u64 %to, [output];\n"
	"	ld.param.u32 %more, [more];\n"
	"	cvta.to.global.u64 %from, %from;\n"
	"	cvta.to.global.u64 %to, %to;\n"
	"	add.u64 %from, %from, %i;\n"
	"	add.u64 %to, %to, %i;\n"
	"	ld.global.u8 %value, [%from];\n"
	"	add.u32 %value, %value, %more;\n"
	"	st.global.u8 [%to], %value;\n"
	"	ret;\n"
	"}\n"
	".visible .entry nothing(.param .u64 output, .param .u64 input) { ret; }\n"
	".visible .entry traps(.param .u64 output, .param .u64 input) { trap; ret; }\n";

static void prepare(struct sgpu_submission *submission)
{
	submission->options.allow_modules = true;
}

/* The module is as large as the data: the text, and blank lines behind it. */
static void make_module_job(struct job *job, const char *function, const char *params)
{
	char named[SGPU_BASE64URL_MAX(SGPU_KT128_SIZE)], *text = NULL;
	uint8_t digest[SGPU_KT128_SIZE];

	make_job(job, SIZE);
	memset(job->scan, '\n', SIZE);
	memcpy(job->scan, ptx, sizeof(ptx) - 1);
	sgpu_measure_pages(job->scan, SIZE, NULL, digest);
	sgpu_base64url_encode(digest, sizeof(digest), named);
	if (asprintf(&text, MANIFEST, function, named, params) < 0) {
		abort();
	}
	remake_job(job, text);
}

/* What the harness calls 0 is result, 1 bias_copy. */
static bool is_sum(const struct answer *answer, const struct job *job, int index, uint8_t more)
{
	if (answer->batch->segments[index].status != SGPU_OK || answer->size[index] != SIZE) {
		return says(answer, index, SGPU_OK, "") && false;
	}
	for (int i = 0; i < SIZE; i++) {
		if (answer->data[index][i] != (uint8_t)(job->bias[i] + more)) {
			return false;
		}
	}
	return true;
}

UNIT_TEST(a_sealed_kernel_computes)
{
	struct answer answer;
	struct job job;
	int out;

	make_module_job(&job, "add", PARAMS);
	CHECK(run_job(&job, &owner, &out) == SGPU_OK);
	CHECK(read_answer(out, job.key, &answer) && is_sum(&answer, &job, 0, 5) &&
	      is_sum(&answer, &job, 1, 0));
	free_answer(&answer);
	close(out);
	free_job(&job);
}

UNIT_TEST(what_a_kernel_does_not_write_is_zero)
{
	struct answer answer;
	struct job job;
	int out, other = 0;

	make_module_job(&job, "nothing", "[\"output\",\"input\"]");
	CHECK(run_job(&job, &owner, &out) == SGPU_OK);
	REQUIRE(read_answer(out, job.key, &answer) && answer.size[0] == SIZE);
	for (int i = 0; i < SIZE; i++) {
		other += answer.data[0][i] != 0;
	}
	CHECK(other == 0 && is_sum(&answer, &job, 1, 0));
	free_answer(&answer);
	close(out);
	free_job(&job);
}

UNIT_TEST(what_does_not_fit_fails_alone)
{
	static const char *const wrong[][2] = {
		{ "absent", PARAMS },
		{ "add", "[\"output\",\"input\",{\"elements\":\"input\"}]" },
		{ "add", "[\"output\",\"input\",{\"elements\":\"input\"},{\"u64\":5}]" },
		{ "add",
		  "[\"output\",\"input\",{\"elements\":\"input\"},{\"u32\":5},{\"u32\":5}]" },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wrong); i++) {
		struct answer answer;
		struct job job;
		int out;

		make_module_job(&job, wrong[i][0], wrong[i][1]);
		CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
		CHECK(read_answer(out, job.key, &answer) &&
		      says(&answer, 0, SGPU_EINVALID, "module 'scan'") &&
		      says(&answer, 0, SGPU_EINVALID, wrong[i][0]) && is_sum(&answer, &job, 1, 0));
		free_answer(&answer);
		close(out);
		free_job(&job);
	}
}

UNIT_TEST(a_module_that_does_not_verify_is_not_run)
{
	struct answer answer;
	struct job job;
	int out;

	make_module_job(&job, "traps", "[\"output\",\"input\"]");
	job.sealed[job.sealed_size - 1] ^= 1;
	CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
	CHECK(read_answer(out, job.key, &answer) && says(&answer, 0, SGPU_EAUTH, "scan") &&
	      is_sum(&answer, &job, 1, 0));
	free_answer(&answer);
	close(out);
	free_job(&job);
}

/* ---- what ends the context: in processes of their own, since a GPU may not come back to the one
 * that lost it ---- */
static void open_cuda(void)
{
	struct sgpu_device_config config = { .jobs = 0 };
	int rc = sgpu_device_open("cuda", &config, &device, &error);

	if (rc == SGPU_EUNAVAILABLE) {
		printf("1..0 # SKIP %s\n", error.text);
		exit(0);
	}
	if (rc != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		exit(1);
	}
}

/* What had left the device before is right, the rest says why not. */
static void lose_context(const char *function, const char *part)
{
	struct answer answer;
	struct job job;
	int in, out = memfd_create("response", MFD_CLOEXEC);

	make_module_job(&job, function, "[\"output\",\"input\"]");
	in = sign_and_write(&job);
	CHECK(run_with(&owner, in, out, 0, NULL) == SGPU_ESEGMENTS);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	printf("# %s: %d, %s\n", function, answer.batch->segments[0].status,
	       answer.batch->segments[0].error_text);
	CHECK(answer.batch->segments[0].status != SGPU_OK &&
	      strstr(answer.batch->segments[0].error_text, part));
	CHECK(answer.batch->segments[1].status != SGPU_OK || is_sum(&answer, &job, 1, 0));
	free_answer(&answer);
	close(in);
	close(out);
	free_job(&job);
}

/* Before this process opens the device. Whether the child found nothing wrong. */
static bool in_child(const char *function, const char *part)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		unit_bad = 0;
		open_cuda();
		lose_context(function, part);
		sgpu_device_close(&device);
		fflush(stdout);
		_exit(unit_bad != 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

UNIT_TEST(a_kernel_that_traps_ends_the_context_and_not_the_run)
{
	if (getenv("SGPU_TEST_SMALL")) {
		SKIP("a checker would count the trap as its own find");
	}
	CHECK(in_child("traps", "context ended"));
}

/* Whether there is a device, as a child sees it, who says so itself if there is none. */
static bool is_there(void)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		open_cuda();
		_exit(77);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 77;
}

int main(void)
{
	if (!is_there()) {
		return 0;
	}
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	prepare_submission = prepare;
	UNIT_RUN(a_kernel_that_traps_ends_the_context_and_not_the_run);
	open_cuda();
	UNIT_RUN(a_sealed_kernel_computes);
	UNIT_RUN(what_a_kernel_does_not_write_is_zero);
	UNIT_RUN(what_does_not_fit_fails_alone);
	UNIT_RUN(a_module_that_does_not_verify_is_not_run);
	sgpu_device_close(&device);
	return unit_done();
}
