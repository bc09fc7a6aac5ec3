/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a worker, each with a sgpu-enclave, to which the worker is server and client: see
 * wire.h. What an enclave says is a hint: at worst, batches fail or stay.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "drain.h"

/* ---- start and end ---- */
static int name_lanes(const char *text, struct lanes *lanes, struct sgpu_error *error)
{
	char names[RUNNER_DEVICES_MAX][RUNNER_DEVICE_NAME];
	const int rc = runner_devices(text, names, &lanes->count, error);

	for (int i = 0; rc == SGPU_OK && i < lanes->count; i++) {
		memcpy(lanes->list[i].device, names[i], sizeof(names[i]));
	}
	return rc == SGPU_OK && lanes->count == 0
		       ? sgpu_fail(error, SGPU_EUSAGE,
				   "--device: a worker has a process for each GPU: name them")
		       : rc;
}

static int start_lane(struct lane *lane, int program, const struct runner_options *runner,
		      uint64_t submissions, struct sgpu_error *error)
{
	static const char *const more[] = { NULL };
	const struct wire_begin begin = { .submissions = submissions, .spool = 1 };
	const struct serve_counters *counters;
	struct runner_options options = *runner;
	char **arguments = NULL;
	int rc;

	options.device = lane->device;
	rc = runner_arguments(&options, more, &arguments, error);
	rc = rc ? rc
		: runner_spawn(program, arguments, &begin, &lane->pid, &lane->control, &counters,
			       error);
	if (rc == SGPU_OK) {
		munmap((void *)(uintptr_t)counters, sizeof(*counters));
	}
	free(arguments);
	return rc;
}

/* Waits until the enclave is ready. Returns 0, or the exit status after a message, which the
 * enclave has printed. */
static int await_lane(struct lane *lane, struct wire_ready *ready)
{
	struct pollfd control = { .fd = lane->control, .events = POLLIN };
	int status = 0;

	while (poll(&control, 1, -1) <= 0) {
	}
	if (wire_receive(lane->control, WIRE_READY, ready, sizeof(*ready), NULL, 0, NULL) !=
	    SGPU_OK) {
		(void)waitpid(lane->pid, &status, 0);
		lane->pid = 0;
		return WIFEXITED(status) && WEXITSTATUS(status)
			       ? WEXITSTATUS(status)
			       : cli_fail(SGPU_ESYSTEM, "sgpu-enclave did not start");
	}
	lane->memory_free = ready->memory_free;
	ready->kid_count = ready->kid_count < WIRE_KIDS_MAX ? ready->kid_count : WIRE_KIDS_MAX;
	return 0;
}

int lanes_start(struct lanes *lanes, const struct runner_options *runner, uint64_t submissions,
		struct spool_options *options)
{
	struct sgpu_error error = { 0 };
	int program = -1, status = 0;
	int rc = runner_find(&program, &error);

	rc = rc ? rc : name_lanes(runner->device, lanes, &error);
	for (int i = 0; i < lanes->count; i++) {
		lanes->list[i].control = -1;
	}
	for (int i = 0; rc == SGPU_OK && i < lanes->count; i++) {
		rc = start_lane(&lanes->list[i], program, runner, submissions, &error);
	}
	for (int i = 0; rc == SGPU_OK && status == 0 && i < lanes->count; i++) {
		status = await_lane(&lanes->list[i], &options->keys); /* all have the same */
	}
	options->knows_keys = true;
	sgpu_close(program);
	return rc == SGPU_OK ? status : cli_error(&error);
}

void lanes_end(struct lanes *lanes)
{
	for (int i = 0; i < lanes->count; i++) {
		sgpu_close(lanes->list[i].control);
		lanes->list[i].control = -1;
	}
	for (int i = 0; i < lanes->count; i++) {
		if (lanes->list[i].pid > 0) {
			(void)waitpid(lanes->list[i].pid, NULL, 0);
		}
	}
}

/* ---- batches ---- */
/* An enclave closes a client's socket without an answer only when it ends. One that does so and
 * goes on is ended. */
static int fail_ended(struct lane *lane, struct sgpu_error *error)
{
	if (lane->pid > 0) {
		(void)kill(lane->pid, SIGKILL); /* leaves the status of one that has ended */
		(void)waitpid(lane->pid, &lane->status, 0);
		lane->pid = 0;
	}
	return sgpu_fail(error, SGPU_EDEVICE,
			 WIFSIGNALED(lane->status)
				 ? "the sgpu-enclave of device '%s' was ended by signal %d"
				 : "the sgpu-enclave of device '%s' has ended with status %d",
			 lane->device,
			 WIFSIGNALED(lane->status) ? WTERMSIG(lane->status)
						   : WEXITSTATUS(lane->status));
}

int lane_submit(struct flight *flight, uint64_t timeout_ns)
{
	static struct wire_submit message;
	struct lane *lane = flight->lane;
	const struct spool_batch *batch = flight->batch;
	const int fds[] = { batch->fd, batch->response.fd, batch->fd };
	struct wire_take take = { .uid = geteuid(), .since_ns = flight->begin_ns };
	const bool is_new = lane->rests == 0;
	int ends[2] = { -1, -1 };
	bool sent;

	if (is_new && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(&flight->error, "cannot make a socket");
	}
	flight->connection = is_new ? ends[0] : lane->resting[--lane->rests];
	message.timeout_ns = timeout_ns;
	snprintf(message.in_name, sizeof(message.in_name), "%s", batch->shown);
	snprintf(message.out_name, sizeof(message.out_name), "%s", batch->response.path);
	sent = sgpu_wire_send(flight->connection, WIRE_SUBMIT, &message, sizeof(message), fds, 3) &&
	       (!is_new ||
		sgpu_wire_send(lane->control, WIRE_TAKE, &take, sizeof(take), &ends[1], 1));
	sgpu_close(ends[1]);
	if (!sent) {
		close(flight->connection);
		flight->connection = -1;
		return fail_ended(lane, &flight->error);
	}
	return SGPU_OK;
}

bool lane_hear(struct flight *flight)
{
	static struct wire_answer answer; /* large */
	int rc = wire_receive(flight->connection, WIRE_ANSWER, &answer, sizeof(answer), NULL, 0,
			      &flight->error);

	if (rc == SGPU_ETIMEOUT) {
		return false;
	}
	if (rc == SGPU_OK) {
		wire_clean(&answer);
		flight->error = answer.error;
		flight->report = answer.report;
		flight->full = answer.response_full != 0;
		flight->needs = answer.response_size;
		rc = answer.error.code;
		flight->lane->resting[flight->lane->rests++] = flight->connection;
	} else {
		rc = fail_ended(flight->lane, &flight->error);
		close(flight->connection);
	}
	flight->code = rc;
	flight->connection = -1;
	return true;
}
