/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that are priced by a prepared operation of a session.
 */
#include <stdlib.h>
#include <string.h>

#include "remote/client.h"

#include "sizes.h"

enum { LEASES = 1 << 21 };

struct priced {
	struct sgpu_remote *remote;
	const struct job_side *side;
	uint32_t job, buffer;	  /* the buffer has all vectors */
	uint64_t inputs, outputs; /* bytes */
	float *results;
};

SGPU_BENCH_ENDING(end_remote, struct sgpu_remote, sgpu_remote_close)

/* With a server of its own, whose socket passes a ring. */
static int open_session(struct sgpu_bench *bench, struct priced *p, struct sgpu_error *error)
{
	char path[SERVED_PATH_MAX];
	struct served *served;
	struct sgpu_key runner;
	int rc = served_new(bench, LEASES, &served, error);

	rc = rc ? rc : sgpu_key_load(served_path(served, SERVED_PAIR, path), &runner, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_remote_connect(served_path(served, SERVED_SOCKET, path), NULL, &runner,
				 &p->remote, error);
	sgpu_key_clear(&runner);
	return rc ? rc : sgpu_bench_keep(bench, end_remote, (uintptr_t)p->remote, 0, error);
}

int priced_new(struct sgpu_bench *bench, const struct job_side *side, struct priced **priced,
	       struct sgpu_error *error)
{
	struct priced *p = *priced = sgpu_bench_new(bench, sizeof(*p), NULL, error);
	char *text = NULL;
	int rc = p ? open_session(bench, p, error) : SGPU_ENOMEM;

	if (rc != SGPU_OK) {
		return rc;
	}
	p->side = side;
	p->inputs = OPTIONS_INPUTS * side->size;
	p->outputs = OPTIONS_OUTPUTS * side->size;
	rc = job_describe(bench, side, &text, error);
	rc = rc ? rc : sgpu_remote_load(p->remote, text, strlen(text), &p->job, error);
	rc = rc ? rc : sgpu_remote_alloc(p->remote, p->inputs + p->outputs, &p->buffer, error);
	free(text);
	p->results = sgpu_bench_new(bench, p->outputs, NULL, error);
	return rc || p->results ? rc : SGPU_ENOMEM;
}

static int enqueue(const struct priced *p, struct sgpu_error *error)
{
	struct sgpu_remote_range ranges[OPTIONS_VECTORS];

	for (unsigned i = 0; i < OPTIONS_VECTORS; i++) {
		ranges[i] =
			(struct sgpu_remote_range){ p->buffer, i * p->side->size, p->side->size };
	}
	return sgpu_remote_run(p->remote, p->job, ranges, OPTIONS_VECTORS, error);
}

int priced_spoil(void *priced, struct sgpu_error *error)
{
	const struct priced *p = priced;

	(void)error;
	memset(p->results, 0xff, p->outputs);
	return SGPU_OK;
}

int priced_run(void *priced, struct sgpu_error *error)
{
	const struct priced *p = priced;
	int rc = sgpu_remote_copy_in(p->remote, p->buffer, 0, p->side->data, p->inputs, error);

	rc = rc ? rc : enqueue(p, error);
	return rc ? rc
		  : sgpu_remote_copy_out(p->remote, p->results, p->buffer, p->inputs, p->outputs,
					 error);
}

int priced_check(void *priced, struct sgpu_error *error)
{
	const struct priced *p = priced;

	return options_check(p->side, p->results, error);
}

int priced_bring(void *priced, struct sgpu_error *error)
{
	const struct priced *p = priced;
	int rc = priced_spoil(priced, error);

	rc = rc ? rc
		: sgpu_remote_copy_in(p->remote, p->buffer, 0, p->side->data, p->inputs, error);
	rc = rc ? rc
		: sgpu_remote_copy_in(p->remote, p->buffer, p->inputs, p->results, p->outputs,
				      error);
	return rc ? rc : sgpu_remote_flush(p->remote, error);
}

int priced_run_alone(void *priced, struct sgpu_error *error)
{
	const struct priced *p = priced;
	const int rc = enqueue(p, error);

	return rc ? rc : sgpu_remote_flush(p->remote, error);
}

int priced_fetch(void *priced, struct sgpu_error *error)
{
	const struct priced *p = priced;
	const int rc = sgpu_remote_copy_out(p->remote, p->results, p->buffer, p->inputs, p->outputs,
					    error);

	return rc ? rc : priced_check(priced, error);
}
