/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs with modules, on a CPU device whose modules are pretended: what is loaded, when and how
 * often; that it is given back; and that a run ends well whichever call of the device fails.
 */
#include "channel/channel.h"

#include "channel/context.h"
#include "fake_gpu.h"

enum { SIZE = 1500000 };

/* scan is the module; half = copy of bias; result = half + 1 and bias_copy = bias + 1 by it. Each
 * of its operations names its digest, or not. */
#define MANIFEST                                                                                   \
	"{\"version\":1,\"manifest_id\":\"t\",\"segments\":["                                      \
	"{\"segment_id\":\"scan\",\"data_location_client\":\"s\",\"sensitivity_level\":\"HIGH\","  \
	"\"direction\":\"INPUT\"},"                                                                \
	"{\"segment_id\":\"bias\",\"data_location_client\":\"b\",\"sensitivity_level\":\"LOW\","   \
	"\"direction\":\"INPUT\","                                                                 \
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1500000]}},"                              \
	"{\"segment_id\":\"half\",\"sensitivity_level\":\"HIGH\",\"direction\":\"INTERMEDIATE\"}," \
	"{\"segment_id\":\"result\",\"data_location_client\":\"r\",\"sensitivity_level\":"         \
	"\"HIGH\",\"direction\":\"OUTPUT\","                                                       \
	"\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1500000]}},"                              \
	"{\"segment_id\":\"bias_copy\",\"data_location_client\":\"c\",\"sensitivity_level\":"      \
	"\"LOW\","                                                                                 \
	"\"direction\":\"OUTPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[1500000]}}],"    \
	"\"operations\":["                                                                         \
	"{\"gpu_operation_id\":\"FIRST\",\"kernel\":\"copy\",\"arguments\":{\"input\":\"bias\","   \
	"\"output\":\"half\"}},"                                                                   \
	"{\"gpu_operation_id\":\"SECOND\",\"kernel\":\"module:scan:add\",%s\"grid\":[3,2],"        \
	"\"block\":[5],\"shared_bytes\":7,"                                                        \
	"\"arguments\":{\"input\":\"half\",\"output\":\"result\"},"                                \
	"\"params\":[\"output\",\"input\",{\"elements\":\"input\"},{\"u32\":1}]},"                 \
	"{\"gpu_operation_id\":\"THIRD\",\"kernel\":\"module:scan:add\",%s\"declassify\":true,"    \
	"\"arguments\":{\"input\":\"bias\",\"output\":\"bias_copy\"},"                             \
	"\"params\":[\"output\",\"input\",{\"elements\":\"input\"},{\"u32\":1}]}]}"

struct sgpu_device_module {
	struct sgpu_device_object object;
};

static struct job job;
static atomic_int calls, fail_at, waits, loads, freed, started, ran, wrong;
static bool allow, first_fails, no_digest, bad_digest, other_digest;

static bool fails(void)
{
	return atomic_fetch_add(&calls, 1) == atomic_load(&fail_at);
}

static int synchronize(struct sgpu_device *on, struct sgpu_error *why)
{
	atomic_fetch_add(&waits, 1);
	return fake.real->synchronize(on, why);
}

/* What earlier runs had on the device is cleared by then. */
static int module_load(struct sgpu_device *on, const void *image, size_t size,
		       struct sgpu_device_module **module, struct sgpu_error *why)
{
	(void)on;
	if (fake_fails()) {
		return fake_error(why);
	}
	if (size != job.size || memcmp(image, job.scan, size) != 0 || atomic_load(&waits) == 0) {
		atomic_fetch_add(&wrong, 1);
	}
	*module = calloc(1, sizeof(**module));
	fake_backend_give(*module, &fake.backend);
	atomic_fetch_add(&loads, 1);
	return SGPU_OK;
}

static void module_free(struct sgpu_device_module *module)
{
	atomic_fetch_add(&freed, 1);
	free(module);
}

struct add {
	uint8_t *output;
	const uint8_t *input;
	uint64_t n;
	uint32_t more;
};

/* All outputs are zero by now. */
static int add(struct sgpu_launch *launch, void *argument)
{
	struct add a = *(struct add *)argument;

	(void)launch;
	free(argument);
	atomic_fetch_add(&ran, 1);
	for (uint64_t i = 0; i < a.n; i++) {
		if (a.output[i] != 0) {
			atomic_fetch_add(&wrong, 1);
		}
		a.output[i] = (uint8_t)(a.input[i] + a.more);
	}
	return SGPU_OK;
}

static int start_add(struct sgpu_stream *stream, struct sgpu_device_module *module,
		     const char *function, const struct sgpu_module_shape *shape, void *const *args,
		     const size_t *sizes, int count, struct sgpu_task *task)
{
	struct add *a;
	bool second = shape->shared_bytes == 7;

	if (fake_fails()) {
		return fake_error(&task->error);
	}
	atomic_fetch_add(&started, 1);
	if (!module || strcmp(function, "add") != 0 || count != 4 || sizes[0] != 8 ||
	    sizes[1] != 8 || sizes[2] != 8 || sizes[3] != 4 || shape->grid[0] != (second ? 3 : 1) ||
	    shape->grid[1] != (second ? 2 : 1) || shape->grid[2] != 1 ||
	    shape->block[0] != (second ? 5 : 1) || shape->block[1] != 1) {
		atomic_fetch_add(&wrong, 1);
	}
	a = malloc(sizeof(*a));
	memcpy(&a->output, args[0], 8);
	memcpy(&a->input, args[1], 8);
	memcpy(&a->n, args[2], 8);
	memcpy(&a->more, args[3], 4);
	return fake.real->stream->launch(stream, add, a, NULL, 0, task);
}

/* It is told of both arguments, and which of them it writes. */
static int module_launch(struct sgpu_stream *stream, struct sgpu_device_module *module,
			 const char *function, const struct sgpu_module_shape *shape,
			 void *const *args, const size_t *sizes, int count,
			 const struct sgpu_module_memory *memory, struct sgpu_task *task)
{
	const int *target = memory->target;
	uint64_t output, input;

	memcpy(&output, args[0], 8);
	memcpy(&input, args[1], 8);
	if (memory->count != 2 || target[0] < 0 || target[1] != 1 - target[0] || target[2] != -1 ||
	    target[3] != -1 || memory->ranges[target[0]].address != output ||
	    memory->ranges[target[1]].address != input || memory->ranges[0].size != job.size ||
	    memory->ranges[1].size != job.size || memory->written != (uint64_t)1 << target[0]) {
		atomic_fetch_add(&wrong, 1);
	}
	return start_add(stream, module, function, shape, args, sizes, count, task);
}

static int enqueue_one(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	if (work->kind != SGPU_WORK_CLEAR) {
		return fake_enqueue_one(stream, work);
	}
	return fake_fails() ? SGPU_EDEVICE : fake.real->stream->enqueue(stream, work, 1);
}
FAKE_ENQUEUE(enqueue, enqueue_one)

static int fail_at_last(struct sgpu_launch *launch, void *argument)
{
	(void)argument;
	usleep(20000);
	return sgpu_fail(launch->error, SGPU_EDEVICE, "made to fail");
}

static int launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument,
		  const struct sgpu_device_range *ranges, int count, struct sgpu_task *task)
{
	return fake_fails()
		       ? SGPU_EDEVICE
		       : fake.real->stream->launch(stream, first_fails ? fail_at_last : function,
						   argument, ranges, count, task);
}

static void prepare(struct sgpu_submission *submission)
{
	submission->options.allow_modules = allow;
}

/* A member that names the digest of the module, with `flip` for another. */
static void digest_member(char *member, size_t size, int flip)
{
	uint8_t digest[SGPU_KT128_SIZE];
	char text[SGPU_BASE64URL_MAX(SGPU_KT128_SIZE)];

	sgpu_measure_pages(job.scan, job.size, NULL, digest);
	digest[SGPU_KT128_SIZE - 1] ^= (uint8_t)flip;
	sgpu_base64url_encode(digest, sizeof(digest), text);
	snprintf(member, size, "\"module_digest\":\"%s\",", text);
}

static char *make_manifest(void)
{
	char first[128], second[128] = "", *text = NULL;

	digest_member(first, sizeof(first), bad_digest || other_digest);
	if (!no_digest) {
		digest_member(second, sizeof(second), bad_digest);
	}
	if (asprintf(&text, MANIFEST, first, second) < 0) {
		abort();
	}
	return text;
}

static void setup(void)
{
	atomic_int *const counts[] = { &calls, &waits, &loads, &freed, &started, &ran, &wrong };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(counts); i++) {
		atomic_store(counts[i], 0);
	}
	atomic_store(&fail_at, -1);
	allow = true;
	first_fails = false;
	make_job(&job, SIZE);
	remake_job(&job, make_manifest());
}

/* Whatever the response calls done is what it should be; how many those are, or -1. */
static int right(int fd)
{
	struct answer answer;
	bool good = read_answer(fd, job.key, &answer);
	int done = 0;

	for (int i = 0; good && i < 2; i++) {
		if (answer.batch->segments[i].status != SGPU_OK) {
			good = answer.batch->segments[i].error_text &&
			       answer.batch->segments[i].error_text[0];
			continue;
		}
		done++;
		good = answer.size[i] == job.size;
		for (uint64_t k = 0; good && k < job.size; k++) {
			good = answer.data[i][k] == (uint8_t)(job.bias[k] + 1);
		}
	}
	free_answer(&answer);
	return good && atomic_load(&wrong) == 0 && atomic_load(&loads) == atomic_load(&freed) ? done
											      : -1;
}

UNIT_TEST(a_module_is_loaded_once_and_given_back)
{
	int out;

	setup();
	CHECK(run_job(&job, &owner, &out) == SGPU_OK);
	CHECK(right(out) == 2 && atomic_load(&loads) == 1 && atomic_load(&ran) == 2);
	close(out);
	free_job(&job);
}

UNIT_TEST(nothing_is_loaded_where_modules_are_not_allowed)
{
	int out;

	setup();
	allow = false;
	CHECK(run_job(&job, &owner, &out) == SGPU_EPOLICY && strstr(error.text, "not allowed"));
	CHECK(is_empty(out) && atomic_load(&loads) == 0 && atomic_load(&calls) == 0);
	close(out);
	free_job(&job);
}

UNIT_TEST(nothing_is_loaded_of_what_does_not_verify)
{
	struct answer answer;
	int out;

	setup();
	job.sealed[job.sealed_size - 1] ^= 1; /* the last tag */
	CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
	CHECK(atomic_load(&loads) == 0 && atomic_load(&ran) == 0);
	CHECK(read_answer(out, job.key, &answer));
	CHECK(says(&answer, 0, SGPU_EAUTH, "scan") && says(&answer, 1, SGPU_EAUTH, "scan"));
	free_answer(&answer);
	close(out);
	free_job(&job);
}

/* The operations whose digest is not right, of two. */
static void check_refused(const bool bad[2], const char *part, int loaded)
{
	struct answer answer;
	int out;

	setup();
	CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
	CHECK(atomic_load(&loads) == loaded && atomic_load(&freed) == loaded);
	CHECK(read_answer(out, job.key, &answer));
	for (int i = 0; i < 2; i++) {
		CHECK(says(&answer, i, bad[i] ? SGPU_EPOLICY : SGPU_OK, bad[i] ? part : NULL));
	}
	free_answer(&answer);
	close(out);
	free_job(&job);
}

UNIT_TEST(a_module_runs_only_where_its_digest_is_named_and_right)
{
	no_digest = true;
	check_refused((const bool[2]){ false, true }, "it names no digest of its module", 1);
	no_digest = false;
	bad_digest = true;
	check_refused((const bool[2]){ true, true },
		      "the module is not the one whose digest is named", 0);
	bad_digest = false;
}

/* SECOND names another digest than THIRD, of one segment: whichever comes first decides, and the
 * wrong one never runs. */
UNIT_TEST(two_digests_of_one_module_are_not_both_right)
{
	struct answer answer;
	bool first, second;
	int out;

	setup();
	other_digest = true;
	remake_job(&job, make_manifest());
	CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
	CHECK(read_answer(out, job.key, &answer));
	first = says(&answer, 0, SGPU_OK, NULL);
	second = says(&answer, 1, SGPU_OK, NULL);
	CHECK(!first && atomic_load(&loads) == second && atomic_load(&ran) == second);
	CHECK(says(&answer, second ? 0 : 1, SGPU_EPOLICY,
		   "operations name different digests of it"));
	free_answer(&answer);
	close(out);
	free_job(&job);
	other_digest = false;
}

UNIT_TEST(a_module_is_not_started_after_a_failure)
{
	int out;

	setup();
	first_fails = true;
	CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
	/* THIRD does not depend on what failed. */
	CHECK(right(out) == 1 && atomic_load(&started) == 1 && atomic_load(&ran) == 1);
	close(out);
	free_job(&job);
}

UNIT_TEST(a_run_ends_well_whichever_call_fails)
{
	const int step = is_short() ? 7 : 1;
	int failed = 0, bad = 0, rc = SGPU_EDEVICE;

	for (int n = 0; rc != SGPU_OK || atomic_load(&calls) > n; n += step) {
		int out;

		setup();
		atomic_store(&fail_at, n);
		rc = run_job(&job, &owner, &out);
		failed += rc != SGPU_OK;
		if ((rc != SGPU_OK && rc != SGPU_ESEGMENTS) || right(out) < 0 || !fake_is_clean() ||
		    atomic_load(&started) != atomic_load(&ran)) {
			printf("# call %d: %d, %s\n", n, rc, error.text);
			bad++;
		}
		close(out);
		free_job(&job);
	}
	printf("# %d calls failed\n", failed);
	CHECK(bad == 0 && failed > 10 / step - 1);
}

/* ---- a secure context loads a module by the device under it ---- */
static struct fake_backend below;
static const struct sgpu_device_backend *real_below;

static void put_below(struct sgpu_device *context)
{
	static uint8_t bytes[1500000];
	struct sgpu_device_guard *guard = sgpu_device_guard_of(context);
	sgpu_devptr memory = 0;

	if (!guard) {
		return;
	}
	/* What copies of this size need is made now, and stays: it is nothing that a run leaves. */
	if (sgpu_device_alloc(context, sizeof(bytes), &memory, &error) != SGPU_OK ||
	    sgpu_secure_memcpy(sgpu_secure_of(context), bytes, memory, sizeof(bytes), &error) !=
		    SGPU_OK) {
		bail_out();
	}
	sgpu_device_free(context, &memory, sizeof(bytes));
	real_below = sgpu_device_backend_of(guard->device);
	fake_backend_copy(&below, real_below);
	below.module.load = module_load;
	fake_backend_give(guard->device, &below);
}

static void take_from_below(struct sgpu_device *context)
{
	struct sgpu_device_guard *guard = sgpu_device_guard_of(context);

	if (guard) {
		((struct sgpu_device_object *)(void *)guard->device)->backend = real_below;
	}
}

static void put_on(void)
{
	put_below(device);
	for (int i = 0; i < more_count; i++) {
		put_below(more_devices[i]);
	}
	fake.plain = true;
	fake.fails = fails;
	make_fake_gpu();
	fake.backend.table.synchronize = synchronize;
	fake.backend.module.load = module_load;
	fake.backend.module.free = module_free;
	fake.backend.module.launch = module_launch;
	fake.backend.stream.enqueue = enqueue;
	fake.backend.stream.launch = launch;
}

static void take_off(void)
{
	unmake_fake_gpu();
	take_from_below(device);
	for (int i = 0; i < more_count; i++) {
		take_from_below(more_devices[i]);
	}
}

static void all_tests(void)
{
	UNIT_RUN(a_module_is_loaded_once_and_given_back);
	UNIT_RUN(nothing_is_loaded_where_modules_are_not_allowed);
	UNIT_RUN(nothing_is_loaded_of_what_does_not_verify);
	UNIT_RUN(a_module_runs_only_where_its_digest_is_named_and_right);
	UNIT_RUN(two_digests_of_one_module_are_not_both_right);
	UNIT_RUN(a_module_is_not_started_after_a_failure);
	UNIT_RUN(a_run_ends_well_whichever_call_fails);
}

int main(void)
{
	struct sgpu_device_config config = { .jobs = 2, .memory_limit = UNIT_MEMORY };

	if (sgpu_device_open("cpu", &config, &device, &error) ||
	    sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	prepare_submission = prepare;
	run_on_all(put_on, all_tests, take_off);
	sgpu_device_close(&device);
	return unit_done();
}
