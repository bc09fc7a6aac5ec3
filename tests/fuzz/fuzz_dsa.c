/* SPDX-License-Identifier: Apache-2.0
 *
 * What an accelerator answers, and what /sys says of its queues. Whatever comes, a run that
 * ends well has done all jobs, nothing is handed to a device that was stopped, and a call ends. The
 * first byte chooses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dsa/queue.h"
#include "shown.h"

enum { SIZE = 3 * 4096, JOBS = 3 };

static const uint8_t *input;
static size_t left;
static bool stopped;
static struct dsa_completion_record
	*last; /* answered already: a hostile device writes there again */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(void *to, size_t size)
{
	size_t got = left < size ? left : size;

	memset(to, 0, size);
	memcpy(to, input, got);
	input += got;
	left -= got;
}

/* Answers at once. A first byte of 255 is a queue that is full; without input the device is mute.
 */
static int submit(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	struct dsa_completion_record *record = (void *)(uintptr_t)descriptor->completion_addr;
	uint8_t answer[sizeof(*record)];
	uint8_t kind = 0;

	(void)dsa;
	if (stopped || (uintptr_t)record % 32 != 0 || descriptor->xfer_size == 0 ||
	    descriptor->xfer_size > SIZE) {
		abort();
	}
	take(&kind, 1);
	if (kind == 255) {
		return SGPU_ERETRY;
	}
	take(answer, sizeof(answer));
	if (kind & 1 && last) {
		memcpy(last, answer, sizeof(answer));
	}
	memcpy(record, answer, sizeof(answer));
	last = record;
	return kind == 254 ? SGPU_EUNAVAILABLE : SGPU_OK;
}

static void stop(struct sgpu_dsa *dsa)
{
	(void)dsa;
	stopped = true;
}

static void try_answers(void)
{
	static uint8_t from[SIZE], to[SIZE];
	struct sgpu_dsa_job jobs[JOBS];
	struct sgpu_dsa *dsa = NULL;
	uint8_t depth = 0;

	take(&depth, 1);
	if (sgpu_dsa_create(&dsa, NULL) != SGPU_OK) {
		return;
	}
	dsa->submit = submit;
	dsa->stop = stop;
	dsa->timeout_ns = dsa->patience_ns = 1;
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct sgpu_dsa_job){ .from = from,
						 .to = to,
						 .size = SIZE - 4096 * (uint32_t)i };
	}
	stopped = false;
	last = NULL;
	for (int round = 0; round < 2; round++) {
		int code = sgpu_dsa_run(dsa, jobs, JOBS, 1 + depth % 4u, NULL);

		for (int i = 0; i < JOBS; i++) {
			if (code == SGPU_OK && !jobs[i].done) {
				abort();
			}
		}
		if (code == SGPU_OK && stopped) {
			abort();
		}
	}
	sgpu_dsa_close(&dsa);
}

static const char *const names[] = {
	"wq0.0/state", "wq0.0/type", "dsa0/pasid_enabled", "wq0.0/mode", "wq0.0", "dsa0", ""
};
enum { ATTRIBUTES = 4, NAMES = 7 };
static char folder[] = "/tmp/fuzz-dsa-XXXXXX";
static bool made;

static void remove_tree(void)
{
	char path[128];

	for (int i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		(void)remove(path);
	}
}

static void make_tree(void)
{
	char path[128];

	if (!mkdtemp(folder) || atexit(remove_tree) != 0) {
		abort();
	}
	made = true;
	for (int i = ATTRIBUTES; i < ATTRIBUTES + 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		if (mkdir(path, 0700) != 0) {
			abort();
		}
	}
}

/* Attributes, each up to a zero byte; no queue has a node, so none is opened. */
static void try_attributes(void)
{
	const struct sgpu_dsa_place place = { .devices = folder, .nodes = "/nonexistent" };
	struct sgpu_error error;
	struct sgpu_dsa *dsa;
	char path[128];

	if (!made) {
		make_tree();
	}
	for (size_t i = 0; i < ATTRIBUTES; i++) {
		size_t length = strnlen((const char *)input, left);
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		file = fopen(path, "w");
		if (!file || fwrite(input, 1, length, file) != length || fclose(file) != 0) {
			abort();
		}
		input += length + (length < left);
		left -= length + (length < left);
	}
	if (sgpu_dsa_open_in(&place, &dsa, &error) != SGPU_EUNAVAILABLE || dsa) {
		abort();
	}
	if (!is_shown(error.text, strlen(error.text))) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0) {
		input = data + 1;
		left = size - 1;
		if (data[0] % 16) {
			try_answers();
		} else {
			try_attributes();
		}
	}
	return 0;
}
