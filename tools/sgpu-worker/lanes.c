/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a worker, each with a sgpu-enclave, to which the worker is server and client: see
 * wire.h. What an enclave says is a hint: at worst, batches fail or stay.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "drain.h"

/* ---- start and end ---- */
static int name_lanes(const char *text, struct lanes *lanes, struct sgpu_error *error)
{
	char names[RUNNER_DEVICES_MAX][RUNNER_DEVICE_NAME];
	const int rc = runner_devices(text, names, &lanes->count, error);

	for (int i = 0; rc == SGPU_OK && i < lanes->count; i++) {
		memcpy(lanes->list[i].link.device, names[i], sizeof(names[i]));
	}
	return rc == SGPU_OK && lanes->count == 0
		       ? sgpu_fail(error, SGPU_EUSAGE,
				   "--device: a worker has a process for each GPU: name them")
		       : rc;
}

int lanes_start(struct lanes *lanes, const struct runner_options *runner, uint64_t submissions,
		struct spool_options *options)
{
	struct sgpu_error error = { 0 };
	int program = -1, status = 0;
	int rc = runner_find(&program, &error);

	rc = rc ? rc : name_lanes(runner->device, lanes, &error);
	for (int i = 0; i < lanes->count; i++) {
		lanes->list[i].link.control = -1;
	}
	for (int i = 0; rc == SGPU_OK && i < lanes->count; i++) {
		rc = link_start(&lanes->list[i].link, program, runner, submissions, -1, &error);
	}
	for (int i = 0; rc == SGPU_OK && status == 0 && i < lanes->count; i++) {
		status = link_ready(&lanes->list[i].link, &options->keys); /* all have the same */
		lanes->list[i].memory_free = options->keys.memory_free;
	}
	sgpu_close(program);
	return rc == SGPU_OK ? status : cli_error(&error);
}

void lanes_end(struct lanes *lanes)
{
	for (int i = 0; i < lanes->count; i++) {
		link_end(&lanes->list[i].link);
	}
	for (int i = 0; i < lanes->count; i++) {
		link_wait(&lanes->list[i].link);
	}
}

/* ---- batches ---- */
int lane_submit(struct flight *flight, uint64_t timeout_ns)
{
	static struct wire_submit message;
	struct lane *lane = flight->lane;
	const struct spool_batch *batch = flight->batch;

	flight->connection = lane->rests ? lane->resting[--lane->rests] : -1;
	message.timeout_ns = timeout_ns;
	snprintf(message.in_name, sizeof(message.in_name), "%s", batch->shown);
	snprintf(message.out_name, sizeof(message.out_name), "%s", batch->response.path);
	return link_submit(&lane->link, &message, batch->fd, batch->response.fd,
			   &flight->connection, &flight->error);
}

bool lane_hear(struct flight *flight)
{
	static struct wire_answer answer; /* large */

	if (!link_hear(&flight->lane->link, &answer, &flight->connection, &flight->error)) {
		return false;
	}
	if (flight->connection >= 0) {
		flight->report = answer.report;
		flight->full = answer.response_full != 0;
		flight->needs = answer.response_size;
		flight->lane->resting[flight->lane->rests++] = flight->connection;
	}
	flight->code = flight->error.code;
	flight->connection = -1;
	return true;
}
