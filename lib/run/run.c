/* SPDX-License-Identifier: Apache-2.0
 *
 * A run from its submission to its end, on the thread that asks for it: sgpu_run_batch() has the
 * steps, and sgpu_run_advance() goes on with all that can, also while inputs are read.
 *
 * An input that does not verify ends with a code (end_input() in inputs.c). The operations that
 * read it fail with that code if it is SGPU_EAUTH or SGPU_ETIMEOUT, else with SGPU_EDEPENDENCY,
 * when their turn comes (is_due() in operations.c), and so does what depends on them; all others
 * run. The response says so of each output, and the run returns SGPU_ESEGMENTS.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "base/io.h"
#include "batch/tar.h"
#include "run/private.h"
#include "stage/stage.h"

enum {
	PIPE_SIZE = 1 << 20,
	/* About a bus's rate. A batch's rank is the time at which it would end if it were alone;
	 * lower ranks go first, so none waits for ever. */
	BYTES_PER_NS = 16,
	STALL_MS = 2000, /* after the deadline, the response's reader may stall for so long */
};

/* ---- stopping ---- */
void sgpu_run_stop(struct sgpu_run *run, int rc)
{
	uint_fast64_t never = 0;
	int none = 0;

	/* The time is stored first, since whoever sees the code needs the time. */
	(void)atomic_compare_exchange_strong(&run->stop_ns, &never, sgpu_now_ns());
	(void)atomic_compare_exchange_strong(&run->stop, &none, rc);
}

/* Returns why the run must end, or SGPU_OK. Stops the run itself once its deadline has passed.
 * Asked between steps, and while a read waits. */
static int look_for_stop(void *argument)
{
	struct sgpu_run *run = argument;
	uint64_t deadline = run->submission.options.deadline_ns;

	if (deadline != 0 && sgpu_now_ns() >= deadline) {
		sgpu_run_stop(run, SGPU_ETIMEOUT);
	}
	return atomic_load(&run->stop);
}

/* After the deadline the response is still written, as long as somebody reads it. */
static int ended_while_writing(void *argument)
{
	const struct sgpu_run *run = argument;

	return atomic_load(&run->stop) == SGPU_ECANCELED ? SGPU_ECANCELED : SGPU_OK;
}

const char *sgpu_run_text(struct sgpu_run *run, const char *format, ...)
{
	struct sgpu_run_text *made;
	struct sgpu_error error;
	va_list list;

	va_start(list, format);
	(void)sgpu_vfail(&error, SGPU_OK, format, list);
	va_end(list);
	made = malloc(sizeof(*made) + strlen(error.text) + 1);
	if (!made) {
		return sgpu_strerror(SGPU_ENOMEM);
	}
	made->next = run->texts;
	run->texts = made;
	return strcpy(made->text, error.text);
}

const char *sgpu_run_failure(struct sgpu_run *run, const char *what, const char *id, int *code,
			     const char *text)
{
	if (atomic_load(&run->stop) == SGPU_ETIMEOUT) {
		*code = SGPU_ETIMEOUT;
		text = "";
	}
	return sgpu_run_text(run, "%s '%s' failed: %s", what, id,
			     text[0] ? text : sgpu_strerror(*code));
}

/* ---- spans and their sums ---- */
void sgpu_trace_add(struct sgpu_run *run, const struct sgpu_span *span)
{
	struct sgpu_run_result *result = &run->result;
	struct sgpu_run_total *total = &result->totals[span->kind];
	struct sgpu_span *spans;

	if (span->end_ns < span->begin_ns || span->begin_ns == 0) {
		return;
	}
	total->count++;
	total->ns += span->end_ns - span->begin_ns;
	total->bytes += span->bytes;
	if (!run->submission.options.spans) {
		return;
	}
	if (result->span_count == run->span_capacity) {
		size_t capacity = run->span_capacity ? 2 * run->span_capacity : 256;

		spans = realloc(result->spans, capacity * sizeof(*spans));
		if (!spans) {
			return; /* drops the span; the sums stay right */
		}
		result->spans = spans;
		run->span_capacity = capacity;
	}
	result->spans[result->span_count++] = *span;
}

static int by_begin(const void *a, const void *b)
{
	const struct sgpu_span *x = a, *y = b;

	if (x->begin_ns != y->begin_ns) {
		return x->begin_ns < y->begin_ns ? -1 : 1;
	}
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* ---- streams ---- */
/* Each device has at least one of the plan's streams. */
static int stream_count(const struct sgpu_run *run)
{
	const int count = run->job.plan->stream_count, devices = run->runner->device_count;

	return SGPU_RUN_PLAN * devices + (count < devices ? devices : count);
}

int sgpu_run_get_stream(struct sgpu_run *run, int number, enum sgpu_run_stream which,
			struct sgpu_stream **stream, struct sgpu_error *error)
{
	const int index = (int)which * run->runner->device_count + number;
	struct sgpu_stream **own = &run->streams[index];
	int rc = *own ? SGPU_OK
		      : sgpu_streams_take(run->devices[index % run->runner->device_count], own,
					  error);

	*stream = *own;
	return rc;
}

/* Gives the streams back, after their work if there may be any, and frees keys that are left. */
static void settle(struct sgpu_run *run)
{
	for (int i = 0; run->streams && i < stream_count(run); i++) {
		sgpu_streams_give(run->devices[i % run->runner->device_count], &run->streams[i],
				  !run->maybe_busy);
	}
	for (int i = 0; run->payloads && i < 2 * run->job.batch->segment_count; i++) {
		sgpu_device_key_free(&run->payloads[i].key);
	}
	sgpu_presence_leave(run);
	atomic_store(&run->busy_ns, 0);
}

/* ---- the batch ---- */
/* Everything that can refuse the batch, before its first payload is taken. */
static int admit(struct sgpu_run *run, struct sgpu_error *error)
{
	int rc = sgpu_tar_open(run->submission.in_fd, run->submission.in_name, &run->tar, error);

	rc = rc ? rc : sgpu_admit(run, error);
	run->result.descriptor_failed = rc == SGPU_ESYSTEM;
	rc = rc ? rc : sgpu_presence_enter(run, look_for_stop, error);
	if (rc == SGPU_OK) {
		atomic_store(&run->busy_ns, sgpu_now_ns());
		run->rank = sgpu_now_ns() + run->job.plan->bytes / BYTES_PER_NS;
		run->streams = calloc((size_t)stream_count(run), sizeof(struct sgpu_stream *));
		/* before the buffers, since the sealed paths take memory, too */
		rc = run->streams ? sgpu_moves_open(run, error) : sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && run->job.has_module && i < run->runner->device_count;
	     i++) {
		/* memory of earlier runs may not be clear yet */
		rc = sgpu_device_synchronize(run->devices[i]->device, error);
	}
	rc = rc ? rc : sgpu_memory_create(run, error);
	rc = rc ? rc : sgpu_operations_create(run, error);
	if (rc == SGPU_OK && run->job.has_module) {
		run->modules =
			calloc((size_t)run->job.manifest->segment_count, sizeof(*run->modules));
		rc = run->modules ? SGPU_OK : sgpu_fail_nomem(error);
	}
	rc = rc ? rc : sgpu_payloads_create(run, error);
	rc = rc ? rc : sgpu_respond_plan(run, error);
	if (rc == SGPU_OK) {
		rc = sgpu_respond_reserve(run, error);
		run->result.descriptor_failed = rc == SGPU_ENOSPACE || rc == SGPU_ESYSTEM;
	}
	rc = rc ? rc : sgpu_sources_create(run->job.options->files, &run->sources, error);
	return rc ? rc : sgpu_admit_once(&run->job, error);
}

bool sgpu_run_advance(struct sgpu_run *run)
{
	const int stop = look_for_stop(run);
	bool any;

	if (stop && !run->stop_seen) {
		run->stop_seen = true;
		run->maybe_busy = true;
		sgpu_payloads_stop(run, stop);
	}
	any = sgpu_inputs_end_groups(run);
	any |= sgpu_payloads_advance(run, SGPU_TRANSFER_IN);
	any |= sgpu_operations_advance(run);
	return sgpu_payloads_advance(run, SGPU_TRANSFER_OUT) || any;
}

void sgpu_run_pause(struct sgpu_run *run, uint64_t begin_ns)
{
	if (run->stop_seen) {
		sgpu_presence_stop(run);
	}
	if (!sgpu_operations_pending(run) && !run->under_way[SGPU_TRANSFER_OUT]) {
		sgpu_inputs_sync(run); /* as nothing but inputs is under way */
	}
	sgpu_device_pause(begin_ns);
}

/* Advances until every input, operation and output has ended. */
static void run_to_end(struct sgpu_run *run)
{
	uint64_t since = sgpu_now_ns();

	for (;;) {
		if (sgpu_run_advance(run)) {
			since = sgpu_now_ns();
		} else if (sgpu_operations_ended(run) && !run->enqueued &&
			   !run->under_way[SGPU_TRANSFER_IN] &&
			   !run->under_way[SGPU_TRANSFER_OUT]) {
			return;
		} else {
			sgpu_run_pause(run, since);
		}
	}
}

/* Why a run ended: if it was stopped, the reason for that, not an error that followed. */
static int why_it_ended(const struct sgpu_run *run, int rc, struct sgpu_error *error)
{
	const int stop = atomic_load(&run->stop);

	if (stop == SGPU_ECANCELED || rc == SGPU_ECANCELED) {
		return sgpu_fail(error, SGPU_ECANCELED, "the run was stopped");
	}
	if (stop == SGPU_ETIMEOUT) {
		return sgpu_fail(error, SGPU_ETIMEOUT,
				 "the deadline passed before the batch was admitted");
	}
	return rc;
}

/* Writes the response, unless the run was cancelled, cannot read its batch, or broke a rule. */
static void respond(struct sgpu_run *run)
{
	const struct sgpu_io_guard guard = { .ended = ended_while_writing,
					     .argument = run,
					     .deadline_ns = run->submission.options.deadline_ns,
					     .stall_ns = STALL_MS * UINT64_C(1000000) };
	const int stop = atomic_load(&run->stop);
	struct stat status;
	int rc = stop == SGPU_ETIMEOUT ? SGPU_OK : why_it_ended(run, run->code, &run->error);

	/* A write to a file waits for nobody. */
	if (fstat(run->submission.out_fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		sgpu_io_set_guard(&guard);
	}
	sgpu_modules_unload(run); /* which tells of rules broken after the last answer */
	if (rc == SGPU_OK && run->fatal.code != SGPU_EPOLICY && sgpu_modules_broke_rules(run)) {
		(void)sgpu_fail(&run->fatal, SGPU_EPOLICY,
				"a module made a system call that is refused, after its function "
				"had returned");
	}
	if (run->fatal.code == SGPU_EPOLICY || (rc == SGPU_OK && run->fatal.code != SGPU_OK)) {
		run->error = run->fatal;
		rc = run->error.code;
		run->result.descriptor_failed |= rc != SGPU_EPOLICY;
	} else if (rc == SGPU_OK) {
		rc = sgpu_respond(run, &run->error);
		run->result.descriptor_failed = rc == SGPU_ENOSPACE || rc == SGPU_ESYSTEM;
	}
	if (rc == SGPU_ETIMEOUT) {
		sgpu_hint(&run->error, "the response is incomplete: nothing reads it");
	}
	run->code = rc;
	sgpu_io_set_guard(NULL);
	if (rc != SGPU_OK && rc != SGPU_ESEGMENTS) {
		(void)!sgpu_respond_cut(run, NULL);
	}
}

/* Clears and frees what the run still has on the devices and of its secrets. */
static void tear_down(struct sgpu_run *run)
{
	atomic_store(&run->busy_ns, sgpu_now_ns());
	sgpu_payloads_clear(run);
	sgpu_modules_unload(run);
	sgpu_memory_clear(run);
	sgpu_presence_cleared(run);
	sgpu_sources_free(&run->sources);
	sgpu_leases_free(&run->leases);
	sgpu_wipe(run->job.batch_key, sizeof(run->job.batch_key));
	sgpu_tar_close(&run->tar);
	atomic_store(&run->busy_ns, 0);
	if (run->result.span_count > 1) {
		qsort(run->result.spans, run->result.span_count, sizeof(*run->result.spans),
		      by_begin);
	}
	run->result.batch = run->job.batch;
	run->result.manifest_id = run->job.prepared ? run->job.prepared->manifest->id : "";
	run->result.owner = run->job.owner;
	run->result.has_module = run->job.has_module;
	run->result.response_full = run->result.descriptor_failed && run->code == SGPU_ENOSPACE;
	atomic_store(&run->end_ns, sgpu_now_ns());
}

int sgpu_run_batch(struct sgpu_run *run, struct sgpu_error *error)
{
	int rc;

	sgpu_io_set_guard(&run->guard);
	rc = admit(run, &run->error);
	if (rc == SGPU_OK) {
		run->code = sgpu_inputs_bring(run, &run->error);
		run->result.descriptor_failed = run->code == SGPU_ESYSTEM;
		sgpu_io_set_guard(NULL);
		run_to_end(run);
		settle(run);
		respond(run);
	} else {
		sgpu_io_set_guard(NULL);
		run->code = why_it_ended(run, rc, &run->error);
		settle(run);
		(void)!sgpu_respond_cut(run, NULL);
	}
	tear_down(run);
	if (error && run->code != SGPU_OK) {
		*error = run->error;
	}
	return run->code;
}

/* ---- what others ask ---- */
void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress)
{
	uint64_t begin = atomic_load(&run->begin_ns), end = atomic_load(&run->end_ns);
	const uint64_t busy = atomic_load(&run->busy_ns);
	const bool stopping = busy != 0 && atomic_load(&run->stop) != SGPU_OK;
	uint64_t since = atomic_load(&run->stop_ns);

	/* A stopped run's response may have taken long; no device did. */
	since = since > busy ? since : busy;

	*progress = (struct sgpu_run_progress){
		.operations_done = atomic_load(&run->done_count),
		.operations_failed = atomic_load(&run->failed_count),
		.operations = atomic_load(&run->operation_count),
		.bytes_in = atomic_load(&run->bytes_in),
		.bytes_out = atomic_load(&run->bytes_out),
		.elapsed_ns = (end ? end : sgpu_now_ns()) - begin,
		.stopping_ns = stopping ? sgpu_now_ns() - since : 0,
	};
	for (int i = 0; progress->operations && i < run->job.batch->segment_count; i++) {
		if (run->job.batch->segments[i].input) {
			progress->bytes_in_all += sgpu_batch_payload_size(run->job.batch, i);
		}
	}
}

const struct sgpu_run_result *sgpu_run_get_result(const struct sgpu_run *run)
{
	return &run->result;
}

/* ---- making and freeing ---- */
int sgpu_run_create(struct sgpu_runner *runner, const struct sgpu_submission *submission,
		    struct sgpu_run **run, struct sgpu_error *error)
{
	struct sgpu_run *r = calloc(1, sizeof(*r));
	const int devices = runner->device_count;

	*run = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->runner = runner;
	r->submission = *submission;
	r->job.options = &r->submission.options;
	r->guard = (struct sgpu_io_guard){ .ended = look_for_stop, .argument = r };
	atomic_store(&r->begin_ns, sgpu_now_ns());
	/* Reader and writer of a larger pipe alternate less often. Failure only slows reading. */
	(void)fcntl(submission->in_fd, F_SETPIPE_SZ, PIPE_SIZE);
	/* Its first device is the one that is first for the fewest runs. */
	pthread_mutex_lock(&runner->mutex);
	for (int i = 1; i < devices; i++) {
		r->first = runner->begun[i] < runner->begun[r->first] ? i : r->first;
	}
	runner->begun[r->first]++;
	pthread_mutex_unlock(&runner->mutex);
	for (int i = 0; i < devices; i++) {
		r->devices[i] = &runner->devices[(r->first + i) % devices];
	}
	*run = r;
	return SGPU_OK;
}

void sgpu_run_cancel(struct sgpu_run *run)
{
	sgpu_run_stop(run, SGPU_ECANCELED);
	atomic_store(&run->stop, SGPU_ECANCELED); /* whatever has stopped it before */
}

void sgpu_run_free(struct sgpu_run **run)
{
	struct sgpu_run *r = run ? *run : NULL;

	if (!r) {
		return;
	}
	pthread_mutex_lock(&r->runner->mutex);
	r->runner->begun[r->first]--;
	pthread_mutex_unlock(&r->runner->mutex);
	free(r->payloads);
	free(r->operations);
	free(r->modules);
	while (r->texts) {
		struct sgpu_run_text *next = r->texts->next;

		free(r->texts);
		r->texts = next;
	}
	free(r->streams);
	sgpu_job_clear(&r->job);
	free(r->result.spans);
	free(r);
	*run = NULL;
}
