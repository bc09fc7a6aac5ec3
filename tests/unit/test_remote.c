/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of programs with a worker in another process: memory, bulk data, jobs, what is refused;
 * and somebody between who alters, cuts and invents messages.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/session.h>
#include "channel/channel.h"

#include "device_harness.h"
#include "hello_harness.h"
#include "remote/carrier.h"
#include "remote/client.h"

enum { LIMIT = 32 << 20 };

static struct sgpu_error error;

/* ---- what a session can be asked for, and programs do not ask ---- */
static int drop_buffer(struct sgpu_remote *remote, uint32_t buffer)
{
	const struct sgpu_item item = { .kind = SGPU_ITEM_FREE, .buffer = buffer };

	remote->sizes[buffer] = 0;
	return sgpu_remote_add(remote, &item, &error);
}

static int drop_job(struct sgpu_remote *remote, uint32_t job)
{
	const struct sgpu_item item = { .kind = SGPU_ITEM_JOB_FREE, .object = job - 1 };

	remote->jobs[job - 1] = false;
	return sgpu_remote_add(remote, &item, &error);
}

/* ---- the worker's process, and a relay in between ---- */
struct relay {
	pthread_t thread;
	int from, to;
	uint64_t flip;	/* the byte that is altered, from 1; 0: none */
	bool impatient; /* ends when nothing comes for a second */
	uint64_t end;	/* bytes after which nothing more is passed on; 0: never */
	_Atomic uint64_t passed;
};

struct worker {
	pid_t pid;
	int socket; /* the program's end */
	struct relay up, down;
	bool relayed;
};

static bool wait_for_more(const struct relay *r)
{
	struct pollfd more = { .fd = r->from, .events = POLLIN };

	return poll(&more, 1, r->impatient ? 1000 : -1) != 0;
}

static void *pass_on(void *argument)
{
	struct relay *r = argument;
	static _Thread_local uint8_t data[1 << 16];
	ssize_t size;

	/* A size that was made larger is waited for: so somebody who alters things hangs up in the
	 * end. */
	while (wait_for_more(r) && (size = read(r->from, data, sizeof(data))) > 0) {
		const uint64_t before = atomic_fetch_add(&r->passed, (uint64_t)size);

		if (r->flip > before && r->flip <= before + (uint64_t)size) {
			data[r->flip - before - 1] ^= 1 << (r->flip % 8);
		}
		const bool cut = r->end > 0 && before + (uint64_t)size >= r->end;

		size = cut ? (ssize_t)(r->end - before) : size;
		if (send(r->to, data, (size_t)size, MSG_NOSIGNAL) != size || cut) {
			break;
		}
	}
	shutdown(r->to, SHUT_WR);
	shutdown(r->from, SHUT_RD);
	return NULL;
}

static int serve(int socket)
{
	struct sgpu_device *device = open_test_device(2, 0);
	struct sgpu_secure *context = NULL;
	struct sgpu_secure_stats before, after;
	int rc;

	signal(SIGPIPE, SIG_IGN);
	rc = sgpu_secure_create(device, NULL, &context, &error);

	if (rc == SGPU_OK) {
		sgpu_secure_get_stats(context, &before);
		rc = sgpu_remote_serve(context, LIMIT, &anybody, socket, socket, &error);
		sgpu_secure_get_stats(context, &after);
		rc = before.used_bytes == after.used_bytes ? rc : -100;
	}
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
	return -rc;
}

/* The relays point into it. */
static void start_worker(struct worker *to, bool relayed, uint64_t flip_up, uint64_t flip_down,
			 uint64_t end_up, uint64_t end_down)
{
	const bool impatient = flip_up || flip_down;
	struct worker w = { .relayed = relayed,
			    .up = { .flip = flip_up, .end = end_up, .impatient = impatient },
			    .down = {
				    .flip = flip_down, .end = end_down, .impatient = impatient } };
	int near[2], far[2];

	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, near) ||
	    (relayed && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, far))) {
		abort();
	}
	w.pid = fork();
	if (w.pid == 0) {
		close(near[0]);
		if (relayed) {
			close(near[1]);
			close(far[0]);
		}
		_exit(serve(relayed ? far[1] : near[1]));
	}
	w.socket = near[0];
	if (relayed) {
		close(far[1]);
		w.up.from = w.down.to = near[1];
		w.up.to = w.down.from = far[0];
		*to = w;
		pthread_create(&to->up.thread, NULL, pass_on, &to->up);
		pthread_create(&to->down.thread, NULL, pass_on, &to->down);
	} else {
		close(near[1]);
		*to = w;
	}
}

/* What serving ended with. */
static int end_worker(struct worker *w)
{
	int status = 0;

	shutdown(w->socket, SHUT_RDWR);
	if (w->relayed) {
		pthread_join(w->up.thread, NULL);
		pthread_join(w->down.thread, NULL);
		close(w->up.from);
		close(w->up.to);
	}
	close(w->socket);
	if (waitpid(w->pid, &status, 0) != w->pid || !WIFEXITED(status)) {
		printf("# the worker did not exit: %x\n", (unsigned)status);
		return -1000;
	}
	return -WEXITSTATUS(status);
}

static struct sgpu_remote *open_remote(const struct worker *w)
{
	const struct sgpu_remote_config config = { .in = w->socket,
						   .out = w->socket,
						   .runner = &runner_key };
	struct sgpu_remote *remote = NULL;

	if (sgpu_remote_open(&config, &remote, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
	}
	return remote;
}

static void fill(uint8_t *data, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 31 + i / 253 + i / 65521 + seed);
	}
}

/* ---- memory ---- */
UNIT_TEST(what_is_no_memory_of_the_session_is_refused)
{
	struct worker w;
	struct sgpu_remote *remote;
	uint32_t buffers[SGPU_REMOTE_BUFFERS_MAX + 1] = { 0 }, large = 0;
	uint8_t byte = 7;
	int count = 0;

	start_worker(&w, false, 0, 0, 0, 0);
	remote = open_remote(&w);
	REQUIRE(remote);
	while (count <= SGPU_REMOTE_BUFFERS_MAX &&
	       sgpu_remote_alloc(remote, 64, &buffers[count], &error) == SGPU_OK) {
		count++;
	}
	CHECK(count == SGPU_REMOTE_BUFFERS_MAX && error.code == SGPU_EUSAGE);
	CHECK(sgpu_remote_copy_in(remote, 0, 0, &byte, 1, &error) == SGPU_EUSAGE);
	CHECK(sgpu_remote_copy_in(remote, 255, 0, &byte, 1, &error) == SGPU_EUSAGE);
	CHECK(sgpu_remote_copy_in(remote, 1000, 0, &byte, 1, &error) == SGPU_EUSAGE);
	CHECK(sgpu_remote_copy_in(remote, buffers[0], 64, &byte, 1, &error) == SGPU_EUSAGE);
	CHECK(sgpu_remote_copy_out(remote, &byte, buffers[0], UINT64_MAX, 1, &error) ==
	      SGPU_EUSAGE);
	CHECK(drop_buffer(remote, buffers[3]) == SGPU_OK);
	CHECK(sgpu_remote_alloc(remote, LIMIT, &large, &error) == SGPU_ENOMEM);
	/* all that is left: nothing else needs any, where the device reaches the host's memory */
	CHECK(sgpu_remote_alloc(remote, LIMIT - 64 * (SGPU_REMOTE_BUFFERS_MAX - 1), &large,
				&error) == SGPU_OK &&
	      large == buffers[3]);
	CHECK(sgpu_remote_copy_in(remote, large, 5, &byte, 1, &error) == SGPU_OK);
	byte = 0;
	CHECK(sgpu_remote_copy_out(remote, &byte, large, 5, 1, &error) == SGPU_OK && byte == 7);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- jobs ---- */
#define SEGMENT(id, direction, shape)                                                          \
	"{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":\"" direction \
	"\",\"data_location_client\":\"" id                                                    \
	"\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[" shape "]}}"
#define BETWEEN(id)                                                                \
	"{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":" \
	"\"INTERMEDIATE\"}"
#define OPERATION(id, kernel, arguments)                                                           \
	"{\"gpu_operation_id\":\"" id "\",\"kernel\":\"" kernel "\",\"arguments\":{" arguments "}" \
	"}"
#define JOB(segments, operations)                                      \
	"{\"version\":1,\"manifest_id\":\"t\",\"segments\":[" segments \
	"],\"operations\":[" operations "]}"

/* sum += x + x; twice = x + x */
static const char summing[] = JOB(
	SEGMENT("x", "INPUT", "1000") "," SEGMENT("sum", "INPUT_OUTPUT", "1000") "," BETWEEN(
		"both") "," SEGMENT("twice", "OUTPUT", "1000"),
	OPERATION("DOUBLE", "vector_add", "\"a\":\"x\",\"b\":\"x\",\"output\":\"both\"") "," OPERATION(
		"ADD", "vector_add",
		"\"a\":\"sum\",\"b\":\"both\",\"output\":\"sum\"") "," OPERATION("COPY", "copy",
										 "\"input\":"
										 "\"both\","
										 "\"output\":"
										 "\"twice\""));

UNIT_TEST(a_job_runs_again_and_again_over_buffers_of_the_session)
{
	enum { N = 1000, BYTES = 4 * N, ROUNDS = 300 };
	struct worker w;
	struct sgpu_remote *remote;
	float x[N], sum[N], twice[N];
	uint32_t job = 0, data = 0;
	bool right = true;

	start_worker(&w, false, 0, 0, 0, 0);
	remote = open_remote(&w);
	REQUIRE(remote);
	for (int i = 0; i < N; i++) {
		x[i] = (float)i;
		sum[i] = 1;
	}
	REQUIRE(sgpu_remote_load(remote, summing, strlen(summing), &job, &error) == SGPU_OK);
	REQUIRE(sgpu_remote_alloc(remote, 3 * 4096, &data, &error) == SGPU_OK);
	const struct sgpu_remote_range ranges[] = { { data, 0, BYTES },
						    { data, 4096, BYTES },
						    { data, 8192, BYTES } };
	CHECK(sgpu_remote_copy_in(remote, data, 0, x, BYTES, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_in(remote, data, 4096, sum, BYTES, &error) == SGPU_OK);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(sgpu_remote_run(remote, job, ranges, 3, &error) == SGPU_OK);
	}
	CHECK(sgpu_remote_copy_out(remote, sum, data, 4096, BYTES, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_out(remote, twice, data, 8192, BYTES, &error) == SGPU_OK);
	for (int i = 0; i < N; i++) {
		right = right && twice[i] == 2 * (float)i && sum[i] == 1 + 2.0f * ROUNDS * (float)i;
	}
	CHECK(right);
	CHECK(drop_job(remote, job) == SGPU_OK);
	CHECK(sgpu_remote_run(remote, job, ranges, 3, &error) == SGPU_EUSAGE);
	CHECK(sgpu_remote_flush(remote, &error) == SGPU_OK);
	const int standard_input = dup2(w.socket, STDIN_FILENO);

	sgpu_remote_close(&remote); /* which closes no descriptor of the program's */
	CHECK(fcntl(standard_input, F_GETFD) == 0 && fcntl(w.socket, F_GETFD) >= 0);
	close(standard_input);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* What is read and written may be the first of all. */
UNIT_TEST(a_jobs_first_range_may_be_read_and_written)
{
	static const char adding[] =
		JOB(SEGMENT("sum", "INPUT_OUTPUT", "1000") "," SEGMENT("x", "INPUT", "1000"),
		    OPERATION("ADD", "vector_add", "\"a\":\"sum\",\"b\":\"x\",\"output\":\"sum\""));
	enum { N = 1000, BYTES = 4 * N };
	struct worker w;
	struct sgpu_remote *remote;
	float ones[N], sum[N] = { 0 };
	uint32_t job = 0, data = 0;

	start_worker(&w, false, 0, 0, 0, 0);
	remote = open_remote(&w);
	REQUIRE(remote);
	for (int i = 0; i < N; i++) {
		ones[i] = 1;
	}
	REQUIRE(sgpu_remote_load(remote, adding, strlen(adding), &job, &error) == SGPU_OK);
	REQUIRE(sgpu_remote_alloc(remote, 2 * 4096, &data, &error) == SGPU_OK);
	const struct sgpu_remote_range ranges[] = { { data, 0, BYTES }, { data, 4096, BYTES } };
	CHECK(sgpu_remote_copy_in(remote, data, 0, ones, BYTES, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_in(remote, data, 4096, ones, BYTES, &error) == SGPU_OK);
	CHECK(sgpu_remote_run(remote, job, ranges, 2, &error) == SGPU_OK);
	CHECK(sgpu_remote_copy_out(remote, sum, data, 0, BYTES, &error) == SGPU_OK);
	CHECK(sum[0] == 2 && sum[N - 1] == 2);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

static int load(struct sgpu_remote *remote, const char *text)
{
	uint32_t job = 0;
	int rc = sgpu_remote_load(remote, text, strlen(text), &job, &error);

	return rc == SGPU_OK ? drop_job(remote, job) : rc;
}

UNIT_TEST(manifests_that_are_no_jobs_are_refused)
{
	struct worker w;
	struct sgpu_remote *remote;
	static char large[SGPU_REMOTE_MANIFEST_MAX + 2];

	start_worker(&w, false, 0, 0, 0, 0);
	remote = open_remote(&w);
	REQUIRE(remote);
	memset(large, ' ', sizeof(large) - 1);
	CHECK(load(remote, "") == SGPU_EUSAGE);
	CHECK(load(remote, large) == SGPU_EUSAGE);
	CHECK(load(remote, "{") == SGPU_EINVALID);
	CHECK(load(remote, JOB(SEGMENT("x", "INPUT", "8"),
			       OPERATION("A", "no_such", "\"input\":\"x\""))) == SGPU_EINVALID);
	CHECK(strstr(error.text, "no_such") != NULL);
	CHECK(load(remote, JOB(SEGMENT("x", "INPUT", "8") "," SEGMENT("y", "OUTPUT", "8"), "")) !=
	      SGPU_OK);
	CHECK(load(remote, JOB(SEGMENT("x", "INPUT", "8") "," SEGMENT("y", "OUTPUT", "9"),
			       OPERATION("C", "copy", "\"input\":\"x\",\"output\":\"y\""))) ==
	      SGPU_EINVALID);
	/* Of 32 MiB, which a session may have: all, and 64 MiB. */
	CHECK(load(remote,
		   JOB(SEGMENT("x", "INPUT", "8388608") "," BETWEEN("b") "," SEGMENT("y", "OUTPUT",
										     "8388608"),
		       OPERATION("C", "copy", "\"input\":\"x\",\"output\":\"b\"") "," OPERATION(
			       "D", "copy", "\"input\":\"b\",\"output\":\"y\""))) == SGPU_OK);
	CHECK(load(remote,
		   JOB(SEGMENT("x", "INPUT", "16777216") "," BETWEEN("b") "," SEGMENT("y", "OUTPUT",
										      "16777216"),
		       OPERATION("C", "copy", "\"input\":\"x\",\"output\":\"b\"") "," OPERATION(
			       "D", "copy", "\"input\":\"b\",\"output\":\"y\""))) == SGPU_ENOMEM);
	CHECK(load(remote, JOB("{\"segment_id\":\"m\",\"sensitivity_level\":\"HIGH\",\"direction\":"
			       "\"INPUT\","
			       "\"data_location_client\":\"m\",\"data_type_info\":{\"dtype\":"
			       "\"u8\",\"shape\":[8]}}," SEGMENT("x", "INPUT", "8") "," SEGMENT(
				       "y", "OUTPUT", "8"),
			       "{\"gpu_operation_id\":\"F\",\"kernel\":\"module:m:f\",\"grid\":[1],"
			       "\"block\":[1],"
			       "\"arguments\":{\"in\":\"x\",\"output\":\"y\"},\"params\":[\"in\","
			       "\"output\"]}")) < 0);
	CHECK(load(remote, summing) == SGPU_OK);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

UNIT_TEST(a_job_gets_exactly_its_ranges)
{
	enum { BYTES = 4000 };
	struct worker w;
	struct sgpu_remote *remote;
	struct sgpu_remote_range many[65];
	uint32_t job = 0, d = 0;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(many); i++) {
		many[i] = (struct sgpu_remote_range){ 1, 0, BYTES };
	}
	start_worker(&w, false, 0, 0, 0, 0);
	remote = open_remote(&w);
	REQUIRE(remote);
	REQUIRE(sgpu_remote_load(remote, summing, strlen(summing), &job, &error) == SGPU_OK);
	REQUIRE(sgpu_remote_alloc(remote, 3 * 4096, &d, &error) == SGPU_OK);
	/* clang-format off */
	static const struct {
		struct sgpu_remote_range ranges[4];
		int count;
		const char *text;
	} wrong[] = {
		{ { { 1, 0, BYTES }, { 1, 4096, BYTES } }, 2, "3 inputs and outputs" },
		{ { { 1, 0, BYTES }, { 1, 4096, BYTES }, { 1, 8192, BYTES }, { 1, 0, BYTES } }, 4, "3 inputs and outputs" },
		{ { { 1, 0, BYTES }, { 1, 4096, BYTES - 4 }, { 1, 8192, BYTES } }, 3, "'sum' has 4000 bytes" },
		{ { { 1, 0, BYTES + 4 }, { 1, 4096, BYTES }, { 1, 8192, BYTES } }, 3, "'x' has 4000 bytes" },
		{ { { 1, 4, BYTES }, { 1, 4096, BYTES }, { 1, 8192, BYTES } }, 3, "aligned" },
		{ { { 1, 0, BYTES }, { 1, 0, BYTES }, { 1, 8192, BYTES } }, 3, "overlaps" },
		{ { { 1, 0, BYTES }, { 1, 4096, BYTES }, { 1, 3968, BYTES } }, 3, "overlaps" },
	};
	/* clang-format on */
	REQUIRE(d == 1);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wrong); i++) {
		CHECK(sgpu_remote_run(remote, job, wrong[i].ranges, wrong[i].count, &error) ==
		      SGPU_OK);
		CHECK(sgpu_remote_flush(remote, &error) == SGPU_EUSAGE &&
		      strstr(error.text, wrong[i].text) != NULL);
	}
	const struct sgpu_remote_range right[] = { { 1, 0, BYTES },
						   { 1, 4096, BYTES },
						   { 1, 8192, BYTES } };
	CHECK(sgpu_remote_run(remote, job, right, -1, &error) == SGPU_EUSAGE);
	CHECK(sgpu_remote_run(remote, job, many, 65, &error) == SGPU_EUSAGE &&
	      strstr(error.text, "at most 64 ranges") != NULL);
	CHECK(sgpu_remote_run(remote, job, many, 64, &error) == SGPU_OK &&
	      sgpu_remote_flush(remote, &error) == SGPU_EUSAGE &&
	      strstr(error.text, "64 ranges are given") != NULL);
	CHECK(sgpu_remote_run(remote, job + 1, right, 3, &error) == SGPU_EUSAGE);
	CHECK(sgpu_remote_run(remote, job, right, 3, &error) == SGPU_OK &&
	      sgpu_remote_flush(remote, &error) == SGPU_OK);
	sgpu_remote_close(&remote);
	CHECK(end_worker(&w) == SGPU_OK);
}

/* ---- somebody between ---- */
/* A whole session; returns its first failure. What was read is either right or was not given. */
static int whole_session(const struct worker *w)
{
	enum { N = 1000, BYTES = 4 * N, LARGE = 100000 };
	static uint8_t data[LARGE], back[LARGE];
	struct sgpu_remote *remote = open_remote(w);
	float x[N], sum[N] = { 0 };
	uint32_t job = 0, buffer = 0;
	int rc = remote ? SGPU_OK : error.code;

	fill(data, LARGE, 3);
	for (int i = 0; i < N; i++) {
		x[i] = 1;
	}
	rc = rc == SGPU_OK ? sgpu_remote_alloc(remote, LARGE, &buffer, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_copy_in(remote, buffer, 0, data, LARGE, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_copy_out(remote, back, buffer, 0, LARGE, &error) : rc;
	CHECK(rc != SGPU_OK || memcmp(data, back, LARGE) == 0);
	const struct sgpu_remote_range ranges[] = { { buffer, 0, BYTES },
						    { buffer, 4096, BYTES },
						    { buffer, 8192, BYTES } };
	rc = rc == SGPU_OK ? sgpu_remote_load(remote, summing, strlen(summing), &job, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_copy_in(remote, buffer, 0, x, BYTES, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_copy_in(remote, buffer, 4096, sum, BYTES, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_run(remote, job, ranges, 3, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_copy_out(remote, sum, buffer, 4096, BYTES, &error) : rc;
	for (int i = 0; rc == SGPU_OK && i < N; i++) {
		CHECK(sum[i] == 2);
	}
	sgpu_remote_close(&remote);
	return rc;
}

UNIT_TEST(who_alters_messages_gets_nothing_done_and_nothing_wrong)
{
	struct worker w;
	uint64_t up, down;
	int failed = 0, served;

	start_worker(&w, true, 0, 0, 0, 0);
	CHECK(whole_session(&w) == SGPU_OK);
	CHECK(end_worker(&w) == SGPU_OK);
	up = atomic_load(&w.up.passed);
	down = atomic_load(&w.down.passed);
	for (uint64_t i = 0; i < 60; i++) {
		const bool upwards = i % 2;
		const uint64_t flip = 1 + (i * 7919 + i * i * 104729) % (upwards ? up : down);

		start_worker(&w, true, upwards ? flip : 0, upwards ? 0 : flip, 0, 0);
		failed += whole_session(&w) != SGPU_OK;
		served = end_worker(&w);
		CHECK(served == SGPU_OK || served == SGPU_EINVALID || served == SGPU_ESYSTEM ||
		      served == SGPU_EAUTH);
	}
	/* What was refused is sent again, so some sessions go on. */
	printf("# %d of 60 sessions failed\n", failed);
	CHECK(failed >= 20);
}

UNIT_TEST(a_session_that_is_cut_anywhere_ends)
{
	struct worker w;

	for (uint64_t i = 0; i < 40; i++) {
		const uint64_t end = 1 + i * 2099;

		start_worker(&w, true, 0, 0, i % 2 ? end : 0, i % 2 ? 0 : end);
		CHECK(whole_session(&w) != SGPU_OK);
		CHECK(end_worker(&w) > -1000);
	}
}

UNIT_TEST(what_is_no_message_ends_the_session)
{
	/* clang-format off */
	static const struct {
		uint8_t bytes[40];
		size_t size;
	} bad[] = {
		{ { 1 }, 1 },
		{ { 0, 0, 0, 0 }, 4 },
		{ { 0xff, 0xff, 0xff, 0xff }, 4 },
		{ { 0x03, 0xff, 0xff, 0xff }, 4 },
		{ { 0x00, 0x00, 0x01, 0x00 }, 4 },
		{ { 20, 0, 0, 0, 1, 2, 3 }, 7 },                                                       /* cut */
		{ { 0x01, 0xff, 0xff, 0xff, 1, 0, 0x40, 0, 0, 0, 0, 0 }, 20 },                         /* behind the area */
		{ { 0x02, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0 }, 20 }, /* beyond it */
		{ { 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0, 0, 0 }, 20 },
		{ { 0x01, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3 }, 23 }, /* cut */
		{ { 0x01, 0xff, 0xff, 0xff, 0, 0, 0 }, 7 },
	};
	/* clang-format on */
	static uint8_t largest[SGPU_MESSAGE_MAX] = { 1, 2 }, back[SGPU_MESSAGE_MAX];
	struct sgpu_remote_frame frame;
	struct worker w;
	int ends[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK(sgpu_message_write(ends[0], largest, sizeof(largest), &error) == SGPU_OK &&
	      sgpu_remote_frame_read(ends[1], &frame, back, &error) == SGPU_OK &&
	      frame.size == sizeof(back) && !memcmp(back, largest, sizeof(back)));
	close(ends[0]);
	close(ends[1]);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		start_worker(&w, false, 0, 0, 0, 0);
		CHECK(write(w.socket, bad[i].bytes, bad[i].size) == (ssize_t)bad[i].size);
		shutdown(w.socket, SHUT_WR);
		CHECK(end_worker(&w) == SGPU_EINVALID);
	}
	start_worker(&w, false, 0, 0, 0, 0);
	CHECK(end_worker(&w) == SGPU_OK); /* nothing at all */
}

int main(void)
{
	if (!on_cpu()) {
		printf("1..0 # SKIP a process that has opened a GPU does not fork: "
		       "tests/gpu/session.bats has another\n");
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	if (!make_keys()) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(what_is_no_memory_of_the_session_is_refused);
	UNIT_RUN(a_job_runs_again_and_again_over_buffers_of_the_session);
	UNIT_RUN(a_jobs_first_range_may_be_read_and_written);
	UNIT_RUN(manifests_that_are_no_jobs_are_refused);
	UNIT_RUN(a_job_gets_exactly_its_ranges);
	UNIT_RUN(who_alters_messages_gets_nothing_done_and_nothing_wrong);
	UNIT_RUN(a_session_that_is_cut_anywhere_ends);
	UNIT_RUN(what_is_no_message_ends_the_session);
	return unit_done();
}
