/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of runs: a job as a batch in a memory file, a run of it, and its response opened.
 * They run on the device that $SGPU_TEST_DEVICE names, the CPU device when it is not set; and once
 * more in a secure context over it. Some run again on several devices: three CPU devices, or the
 * two that $SGPU_TEST_DEVICE and $SGPU_TEST_PEER name.
 */
#ifndef RUN_HARNESS_H
#define RUN_HARNESS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>
#include "base/io.h"
#include "crypto/crypto.h"
#include "run/run.h"
#include "channel/channel.h"

#include "run/private.h"
#include "sealed.h"
#include "unit.h"
#include "run_thread.h"

static struct sgpu_error error;
static struct sgpu_device *device;
static __attribute__((unused)) struct sgpu_key owner, stranger;

static inline bool is_short(void)
{
	return getenv("SGPU_TEST_SMALL");
}

static inline const char *device_name(void)
{
	const char *name = getenv("SGPU_TEST_DEVICE");

	return name ? name : "cpu";
}

/* Opens it; a failure ends the program: with a plan of no tests when there is no such device. */
static inline void open_device(unsigned jobs)
{
	struct sgpu_device_config config = { .jobs = jobs, .memory_limit = UNIT_MEMORY };
	int rc = sgpu_device_open(device_name(), &config, &device, &error);

	if (rc == SGPU_EUNAVAILABLE) {
		printf("1..0 # SKIP %s\n", error.text);
		exit(0);
	}
	if (rc != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		exit(1);
	}
}

static bool in_secure_context;
enum { MORE_DEVICES = 2 };
static struct sgpu_device *more_devices[MORE_DEVICES];
static int more_count;
#undef UNIT_RUN
#define UNIT_RUN(name)                                                                         \
	unit_run(more_count	     ? in_secure_context ? #name "_in_several_secure_contexts" \
							 : #name "_on_several_devices"         \
		 : in_secure_context ? #name "_in_a_secure_context"                            \
				     : #name,                                                  \
		 name)

/* A round runs all tests; `prepare` and `end` put something over `device` for it, or are NULL. */
static inline void one_round(void (*prepare)(void), void (*tests)(void), void (*end)(void))
{
	if (prepare) {
		prepare();
	}
	tests();
	if (end) {
		end();
	}
}

static inline void bail_out(void)
{
	printf("Bail out! %s\n", error.text);
	exit(1);
}

static inline void run_in_context(void (*prepare)(void), void (*tests)(void), void (*end)(void))
{
	struct sgpu_device *plain = device;
	struct sgpu_secure *context = NULL;

	if (sgpu_secure_create(plain, NULL, &context, &error) != SGPU_OK) {
		bail_out();
	}
	device = sgpu_secure_device(context);
	in_secure_context = true;
	one_round(prepare, tests, end);
	in_secure_context = false;
	device = plain;
	sgpu_secure_destroy(&context);
}

/* On the device, and in a secure context over it; in the short form in that alone, which hands all
 * on to the device. */
static __attribute__((unused)) void run_on_both(void (*prepare)(void), void (*tests)(void),
						void (*end)(void))
{
	if (!is_short()) {
		one_round(prepare, tests, end);
	}
	run_in_context(prepare, tests, end);
}

static inline bool has_several(void)
{
	return strcmp(device_name(), "cpu") == 0 || getenv("SGPU_TEST_PEER");
}

/* As run_on_both, with a runner of several devices, on which a graph is spread as if moves cost
 * nothing; without the plain ones when `only_secure`. */
static inline void run_on_several(void (*prepare)(void), void (*tests)(void), void (*end)(void),
				  bool only_secure)
{
	const struct sgpu_device_config config = { .jobs = 2, .memory_limit = UNIT_MEMORY };
	const bool on_cpu = strcmp(device_name(), "cpu") == 0;
	struct sgpu_secure *contexts[MORE_DEVICES + 1] = { NULL };
	struct sgpu_device *plain[MORE_DEVICES + 1];

	if (!has_several()) {
		return;
	}
	for (more_count = 0; more_count < (on_cpu ? MORE_DEVICES : 1); more_count++) {
		if (sgpu_device_open(on_cpu ? "cpu" : getenv("SGPU_TEST_PEER"), &config,
				     &more_devices[more_count], &error) != SGPU_OK) {
			bail_out();
		}
	}
	if (!only_secure) {
		one_round(prepare, tests, end);
	}
	for (int i = 0; i <= more_count; i++) {
		struct sgpu_device **own = i < more_count ? &more_devices[i] : &device;

		plain[i] = *own;
		if (sgpu_secure_create(plain[i], NULL, &contexts[i], &error) != SGPU_OK) {
			bail_out();
		}
		*own = sgpu_secure_device(contexts[i]);
	}
	in_secure_context = true;
	one_round(prepare, tests, end);
	in_secure_context = false;
	device = plain[more_count];
	for (int i = more_count; i >= 0; i--) {
		sgpu_secure_destroy(&contexts[i]);
	}
	for (int i = 0; i < more_count; i++) {
		sgpu_device_close(&plain[i]);
	}
	more_count = 0;
}

/* One device and several, plain and in secure contexts. In the short form, one plain device and
 * several secure contexts: each kind once. */
static __attribute__((unused)) void run_on_all(void (*prepare)(void), void (*tests)(void),
					       void (*end)(void))
{
	one_round(prepare, tests, end);
	if (!is_short() || !has_several()) {
		run_in_context(prepare, tests, end);
	}
	run_on_several(prepare, tests, end, is_short());
}

/* ---- a job: scan (HIGH) and bias (LOW), u8; result = copy of scan (HIGH), bias_copy = copy of
 * bias (LOW) ---- */
struct job {
	struct sgpu_batch *batch;
	uint8_t key[SGPU_KEY_SIZE];
	uint64_t size;
	uint8_t *scan, *bias, *sealed;
	uint64_t sealed_size;
};

static inline char *manifest_text(uint64_t n)
{
	char *text = NULL;

	if (asprintf(&text,
		     "{\"version\":1,\"manifest_id\":\"t\",\"segments\":["
		     "{\"segment_id\":\"scan\",\"data_location_client\":\"s\",\"sensitivity_"
		     "level\":\"HIGH\","
		     "\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%llu]"
		     "}},"
		     "{\"segment_id\":\"bias\",\"data_location_client\":\"b\",\"sensitivity_"
		     "level\":\"LOW\","
		     "\"direction\":\"INPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%llu]"
		     "}},"
		     "{\"segment_id\":\"half\",\"sensitivity_level\":\"HIGH\",\"direction\":"
		     "\"INTERMEDIATE\"},"
		     "{\"segment_id\":\"result\",\"data_location_client\":\"r\",\"sensitivity_"
		     "level\":\"HIGH\","
		     "\"direction\":\"OUTPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%"
		     "llu]}},"
		     "{\"segment_id\":\"bias_copy\",\"data_location_client\":\"c\",\"sensitivity_"
		     "level\":\"LOW\","
		     "\"direction\":\"OUTPUT\",\"data_type_info\":{\"dtype\":\"u8\",\"shape\":[%"
		     "llu]}}],"
		     "\"operations\":["
		     "{\"gpu_operation_id\":\"FIRST\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"scan\",\"output\":\"half\"}},"
		     "{\"gpu_operation_id\":\"SECOND\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"half\",\"output\":\"result\"}},"
		     "{\"gpu_operation_id\":\"THIRD\",\"kernel\":\"copy\",\"arguments\":"
		     "{\"input\":\"bias\",\"output\":\"bias_copy\"}}]}",
		     (unsigned long long)n, (unsigned long long)n, (unsigned long long)n,
		     (unsigned long long)n) < 0) {
		abort();
	}
	return text;
}

/* An empty batch of a manifest, which is freed. */
static inline struct sgpu_batch *batch_of(char *source)
{
	struct sgpu_batch *batch = NULL;
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };

	if (sgpu_ops_load_manifest(source, strlen(source), "test", 0, &manifest, &diagnostics,
				   &error) != SGPU_OK ||
	    sgpu_batch_create(manifest, &batch, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		abort();
	}
	sgpu_manifest_free(&manifest);
	sgpu_diagnostics_clear(&diagnostics);
	free(source);
	return batch;
}

/* Gives the job another manifest, which is freed, of segments with the same names and sizes. */
static inline void remake_job(struct job *job, char *manifest)
{
	sgpu_batch_free(&job->batch);
	free(job->sealed);
	job->batch = batch_of(manifest);
	if (batch_set_payload(job->batch, 0, job->scan, job->size, &error) ||
	    batch_set_payload(job->batch, 1, job->bias, job->size, &error)) {
		abort();
	}
	job->batch->packed = false;
	job->sealed_size = sgpu_batch_payload_size(job->batch, 0);
	job->sealed = malloc(job->sealed_size);
	if (!job->sealed ||
	    batch_seal_payload(job->batch, job->key, 0, job->scan, job->sealed, &error) ||
	    sgpu_batch_wrap(job->batch, &owner, job->key, &error)) {
		abort();
	}
}

/* A pattern that repeats after 256 periods. Copies make most of it, since checkers make loops over
 * bytes slow. */
static inline uint8_t *pattern(uint64_t size, unsigned step, unsigned period)
{
	const uint64_t whole = 256 * (uint64_t)period;
	uint8_t *data = malloc(size + 1);
	uint64_t done = size < whole ? size : whole;

	if (!data) {
		abort();
	}
	for (uint64_t i = 0; i < done; i++) {
		data[i] = (uint8_t)(i * step + i / period);
	}
	for (; done < size; done += done < size - done ? done : size - done) {
		memcpy(data + done, data, done < size - done ? done : size - done);
	}
	return data;
}

static inline void make_job(struct job *job, uint64_t size)
{
	memset(job, 0, sizeof(*job));
	job->size = size;
	job->scan = pattern(size, 7, 251);
	job->bias = pattern(size, 13, 241);
	if (sgpu_random(job->key, SGPU_KEY_SIZE, &error)) {
		abort();
	}
	remake_job(job, manifest_text(size));
}

/* A folder in memory that the runs fetch from, and the path of a new file in it, which is open: it
 * goes at the end. */
static struct sgpu_files *run_files;
static char run_folder[64];

static inline void remove_run_folder(void)
{
	char path[128];

	sgpu_files_free(&run_files);
	for (int i = 0; i < 1000; i++) {
		snprintf(path, sizeof(path), "%s/%d", run_folder, i);
		unlink(path);
	}
	rmdir(run_folder);
}

static inline int new_file(char **path)
{
	static int number;
	int fd;

	if (!run_files) {
		snprintf(run_folder, sizeof(run_folder), "/dev/shm/sgpu-run-XXXXXX");
		if (!mkdtemp(run_folder) || sgpu_files_create(&run_files, &error) ||
		    sgpu_files_allow(run_files, run_folder, &error) || atexit(remove_run_folder)) {
			abort();
		}
	}
	if (asprintf(path, "%s/%d", run_folder, number++ % 1000) < 0) {
		abort();
	}
	fd = open(*path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		abort();
	}
	return fd;
}

/* Moves the sealed payload into a file in memory, `offset` bytes behind its begin, whose descriptor
 * is returned. */
static inline int stage_scan(struct job *job, uint64_t offset)
{
	struct sgpu_location *location = &job->batch->segments[0].location;
	char *path = NULL;
	int fd = new_file(&path);

	if (sgpu_pwrite(fd, "staged", job->sealed, job->sealed_size, offset, &error)) {
		abort();
	}
	*location = (struct sgpu_location){ .kind = SGPU_LOCATION_FILE,
					    .offset = offset,
					    .file = path };
	return fd;
}

static inline void free_job(struct job *job)
{
	sgpu_batch_free(&job->batch);
	free(job->scan);
	free(job->bias);
	free(job->sealed);
}

/* data: the payloads by segment. */
static inline int write_payload(int fd, const char *name, const struct sgpu_batch *batch,
				int segment, void *data, struct sgpu_error *failed)
{
	return sgpu_write(fd, name, ((const void **)data)[segment],
			  sgpu_batch_payload_size(batch, segment), failed);
}

static inline void write_payloads(struct sgpu_batch *batch, const void **data, int fd)
{
	if (sgpu_batch_write(fd, "batch", batch, write_payload, data, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		abort();
	}
}

static inline void write_batch(struct job *job, int fd)
{
	write_payloads(job->batch, (const void *[]){ job->sealed, job->bias }, fd);
}

static inline int sign_and_write(struct job *job)
{
	int fd = memfd_create("batch", MFD_CLOEXEC);

	sgpu_batch_change(job->batch, true);
	if (fd < 0 || sgpu_batch_sign(job->batch, job->key, &error)) {
		abort();
	}
	write_batch(job, fd);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* ---- runs ---- */
/* What a test changes about the runner and the submission, and what it does with a run that has
 * been submitted. */
static __attribute__((unused)) void (*prepare_runner)(struct sgpu_runner_config *config);
static __attribute__((unused)) void (*prepare_submission)(struct sgpu_submission *submission);
static __attribute__((unused)) void (*submitted)(struct sgpu_run *run);

/* The runner of a run that is kept goes with it. */
static struct sgpu_runner *harness_runner;

static inline int make_runner(struct sgpu_runner **runner)
{
	struct sgpu_runner_config config = { .device = device,
					     .more = more_devices,
					     .more_count = more_count };
	int rc;

	if (prepare_runner) {
		prepare_runner(&config);
	}
	rc = sgpu_runner_create(&config, runner, &error);
	if (rc == SGPU_OK) {
		(*runner)->costs.small = 0; /* tests of several streams have little data */
	}
	if (rc == SGPU_OK && more_count > 0) {
		(*runner)->costs.travel = (*runner)->costs.move = 0;
	}
	return rc;
}

static inline struct sgpu_submission make_submission(const struct sgpu_key *key, int in, int out,
						     uint64_t deadline_ns)
{
	struct sgpu_submission submission = {
		.in_fd = in,
		.in_name = "batch",
		.out_fd = out,
		.out_name = "response",
		.options = { .keys = key,
			     .key_count = key ? 1 : 0,
			     .deadline_ns = deadline_ns,
			     .spans = true,
			     .files = run_files },
	};

	if (prepare_submission) {
		prepare_submission(&submission);
	}
	return submission;
}

static inline void free_run(struct sgpu_run **run)
{
	end_run(run);
	sgpu_runner_free(&harness_runner);
}

/* On a runner of its own. */
static inline int run_with(const struct sgpu_key *key, int in, int out, uint64_t deadline_ns,
			   struct sgpu_run **kept)
{
	const struct sgpu_submission submission = make_submission(key, in, out, deadline_ns);
	struct sgpu_run *run = NULL;
	int rc = make_runner(&harness_runner);

	if (rc == SGPU_OK) {
		rc = submit_run(harness_runner, &submission, &run, &error);
	}
	if (rc == SGPU_OK && submitted) {
		submitted(run);
	}
	if (rc == SGPU_OK) {
		rc = wait_run(run, &error);
	}
	if (kept) {
		*kept = run;
	} else {
		free_run(&run);
	}
	return rc;
}

static inline int run_job(struct job *job, const struct sgpu_key *key, int *out)
{
	int in = sign_and_write(job), rc;

	*out = memfd_create("response", MFD_CLOEXEC);
	rc = run_with(key, in, *out, 0, NULL);
	close(in);
	lseek(*out, 0, SEEK_SET);
	return rc;
}

/* A deadline is to pass after the batch was admitted. Whether it passed before, as it may on a slow
 * machine: the next try has more time. */
static inline bool was_too_soon(int rc, uint64_t *after_ns)
{
	*after_ns *= 5;
	return rc == SGPU_ETIMEOUT && *after_ns < UINT64_C(200000000000);
}

static inline bool is_empty(int fd)
{
	return lseek(fd, 0, SEEK_END) == 0;
}

/* The response and its payloads, authenticated; payloads that are absent are NULL. */
struct answer {
	struct sgpu_batch *batch;
	uint8_t *data[2];
	uint64_t size[2];
};

static inline bool open_payload(struct answer *answer, const uint8_t batch_key[SGPU_KEY_SIZE],
				int index, uint8_t *payload, uint64_t size)
{
	answer->size[index] = size;
	if (answer->batch->segments[index].sealed &&
	    !sgpu_sealed_plaintext_size(size, &answer->size[index])) {
		return false;
	}
	answer->data[index] = malloc(answer->size[index] + 1);
	if (batch_open_payload(answer->batch, batch_key, index, payload, answer->data[index],
			       &error)) {
		return false;
	}
	free(payload);
	return true;
}

static inline bool read_answer(int fd, const uint8_t batch_key[SGPU_KEY_SIZE],
			       struct answer *answer)
{
	struct sgpu_tar_reader *tar = NULL;
	int index = 0;
	bool good;

	memset(answer, 0, sizeof(*answer));
	good = sgpu_tar_open(fd, "response", &tar, &error) == SGPU_OK &&
	       sgpu_batch_read(tar, SGPU_READ_RESPONSE, &answer->batch, &error) == SGPU_OK &&
	       sgpu_batch_verify(answer->batch, batch_key, &error) == SGPU_OK;
	while (good &&
	       (good = sgpu_batch_next_payload(tar, answer->batch, &index, &error) == SGPU_OK) &&
	       index >= 0) {
		uint64_t size = sgpu_batch_payload_size(answer->batch, index);
		uint8_t *payload = malloc(size + 1);

		good = sgpu_tar_read(tar, payload, size, &error) == SGPU_OK &&
		       open_payload(answer, batch_key, index, payload, size);
	}
	if (!good) {
		printf("# %s\n", error.text);
	}
	sgpu_tar_close(&tar);
	return good;
}

static inline void free_answer(struct answer *answer)
{
	sgpu_batch_free(&answer->batch);
	free(answer->data[0]);
	free(answer->data[1]);
}

static inline bool says(const struct answer *answer, int index, int code, const char *part)
{
	const struct sgpu_batch_segment *s = &answer->batch->segments[index];
	bool right = s->status == code && (!part || (s->error_text && strstr(s->error_text, part)));

	if (!right) {
		printf("# %s: %d '%s'\n", s->id, s->status, s->error_text ? s->error_text : "");
	}
	return right;
}

#endif
