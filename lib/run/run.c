/* SPDX-License-Identifier: Apache-2.0
 *
 * A run from its creation to its end: threads, the driver's queue, and the clean-up that every path goes through.
 */
#include "run/output.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

char *sgpu_run_text(const char *format, ...)
{
	char *text = NULL;
	va_list list;

	va_start(list, format);
	if (vasprintf(&text, format, list) < 0) {
		text = NULL;
	}
	va_end(list);
	return text;
}

int sgpu_run_create(struct sgpu_device *device, const struct sgpu_run_options *options, struct sgpu_run **run,
		    struct sgpu_error *error)
{
	struct sgpu_run *r = calloc(1, sizeof(*r));

	*run = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->wake_fd < 0) {
		free(r);
		return sgpu_fail_errno(error, "cannot make an event descriptor");
	}
	pthread_mutex_init(&r->mutex, NULL);
	pthread_mutex_init(&r->span_mutex, NULL);
	pthread_cond_init(&r->queue_filled, NULL);
	pthread_cond_init(&r->slot_free, NULL);
	r->device = device;
	r->options = *options;
	r->pinned_max = SGPU_RUN_PINNED_MAX;
	atomic_store(&r->begin_ns, sgpu_now_ns());
	*run = r;
	return SGPU_OK;
}

static void free_segments(struct sgpu_run *run)
{
	for (int i = 0; run->segments && i < run->manifest->segment_count; i++) {
		free(run->segments[i].in_text);
		free(run->segments[i].out_text);
	}
	for (int i = 0; run->operations && i < run->manifest->operation_count; i++) {
		free(run->operations[i].text);
	}
	free(run->segments);
	free(run->operations);
	free(run->stray);
	free(run->broke_rules);
}

void sgpu_run_free(struct sgpu_run **run)
{
	struct sgpu_run *r = run ? *run : NULL;

	if (!r) {
		return;
	}
	sgpu_wipe(r->batch_key, sizeof(r->batch_key));
	free_segments(r);
	free(r->to_manifest);
	free(r->after_start);
	free(r->after);
	free(r->work);
	free(r->buffers);
	free(r->streams);
	free(r->spans);
	sgpu_plan_free(&r->plan);
	sgpu_manifest_free(&r->manifest);
	sgpu_batch_free(&r->batch);
	pthread_cond_destroy(&r->slot_free);
	pthread_cond_destroy(&r->queue_filled);
	pthread_mutex_destroy(&r->span_mutex);
	pthread_mutex_destroy(&r->mutex);
	close(r->wake_fd);
	free(r);
	*run = NULL;
}

/* ---- the driver's queue ---- */
void sgpu_run_post(struct sgpu_run_node *node)
{
	struct sgpu_run *run = node->run;

	node->next = NULL;
	pthread_mutex_lock(&run->mutex);
	if (run->queue_tail) {
		run->queue_tail->next = node;
	} else {
		run->queue_head = node;
	}
	run->queue_tail = node;
	pthread_cond_signal(&run->queue_filled);
	pthread_mutex_unlock(&run->mutex);
}

static void wake_watcher(struct sgpu_run *run)
{
	int saved = errno;
	uint64_t one = 1;

	if (write(run->wake_fd, &one, sizeof(one)) < 0) {
		errno = saved; /* the counter is full: it wakes as well */
	}
	errno = saved;
}

void sgpu_run_stop(struct sgpu_run *run, int code)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&run->stop, &none, code)) {
		return;
	}
	atomic_store(&run->stop_ns, sgpu_now_ns());
	sgpu_device_cancel(run->device, true);
	run->stop_node.run = run;
	run->stop_node.kind = SGPU_NODE_STOP;
	sgpu_run_post(&run->stop_node);
	pthread_mutex_lock(&run->mutex);
	pthread_cond_broadcast(&run->slot_free);
	pthread_mutex_unlock(&run->mutex);
	wake_watcher(run);
}

void sgpu_run_cancel(struct sgpu_run *run)
{
	atomic_store(&run->cancel, true);
	wake_watcher(run);
}

void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress)
{
	uint64_t begin = atomic_load(&run->begin_ns), end = atomic_load(&run->end_ns);
	uint64_t stop = atomic_load(&run->on_device) ? atomic_load(&run->stop_ns) : 0;

	*progress = (struct sgpu_run_progress){
		.operations_done = atomic_load(&run->done),
		.operations_failed = atomic_load(&run->failed),
		.operations = atomic_load(&run->operation_count),
		.bytes_in = atomic_load(&run->bytes_in),
		.bytes_out = atomic_load(&run->bytes_out),
		.elapsed_ns = (end ? end : sgpu_now_ns()) - begin,
		.stopping_ns = stop ? sgpu_now_ns() - stop : 0,
	};
}

const struct sgpu_batch *sgpu_run_get_batch(const struct sgpu_run *run)
{
	return run->batch;
}

void sgpu_run_get_rows(const struct sgpu_run *run, struct sgpu_run_rows *rows)
{
	*rows = run->rows;
}

/* ---- what is made on first use ---- */
int sgpu_run_stream(struct sgpu_run *run, int row, struct sgpu_stream **stream, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (!run->streams[row]) {
		rc = sgpu_stream_create(run->device, &run->streams[row], error);
	}
	*stream = run->streams[row];
	return rc;
}

int sgpu_run_follow(struct sgpu_run *run, struct sgpu_stream *from, struct sgpu_stream *to, struct sgpu_error *error)
{
	struct sgpu_event *event = NULL;
	int rc = sgpu_event_create(run->device, &event, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_record(from, event);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_wait(to, event);
	}
	sgpu_event_free(&event);
	return rc;
}

int sgpu_run_memory(struct sgpu_run *run, int buffer, sgpu_devptr *memory, struct sgpu_error *error)
{
	struct sgpu_run_buffer *b = &run->buffers[buffer];
	int rc = SGPU_OK;

	if (!b->allocated) {
		rc = sgpu_device_alloc(run->device, run->plan->buffers[buffer].size, &b->memory, error);
		b->allocated = rc == SGPU_OK;
	}
	*memory = b->memory;
	return rc;
}

/* ---- threads ---- */
static int start_thread(pthread_t *thread, void *(*function)(void *), struct sgpu_run *run, struct sgpu_error *error)
{
	sigset_t all, old;

	/* Signals are for the threads of the program, not for ours. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(thread, NULL, function, run);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return errno == 0 ? SGPU_OK : sgpu_fail_errno(error, "cannot start a thread");
}

/* Segments that nobody will bring any more are posted, so that the driver's count comes to its end. */
static void miss_rest(struct sgpu_run *run, bool inline_ones, int code, const char *text)
{
	for (int i = 0; i < run->batch->segment_count; i++) {
		int segment = run->to_manifest[i];
		bool is_inline = run->batch->segments[i].location.kind == SGPU_LOCATION_INLINE;

		if (sgpu_segment_is_input(&run->manifest->segments[segment]) && is_inline == inline_ones &&
		    !run->segments[segment].loaded) {
			sgpu_load_miss(run, segment, code, text);
		}
	}
}

/* The admitted batch: returns when every operation and every segment has come to an end. */
static int carry_out(struct sgpu_run *run, struct sgpu_error *error)
{
	pthread_t driver, fetcher;
	bool fetching = sgpu_fetch_needed(run);
	int rc = start_thread(&driver, sgpu_drive, run, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	if (fetching) {
		rc = start_thread(&fetcher, sgpu_fetch_files, run, error);
		fetching = rc == SGPU_OK;
		if (rc != SGPU_OK) {
			sgpu_run_stop(run, rc);
			miss_rest(run, false, rc, "no thread could be started");
		}
	}
	if (rc == SGPU_OK) {
		rc = sgpu_fetch_inline(run, error);
	}
	if (rc != SGPU_OK) {
		sgpu_run_stop(run, rc);
	}
	miss_rest(run, true, rc != SGPU_OK ? rc : atomic_load(&run->stop), "it did not arrive");
	if (fetching) {
		pthread_join(fetcher, NULL);
	}
	pthread_join(driver, NULL);
	return rc;
}

/* Gives the device back what it lent, cleared, whatever happened before. */
static void tear_down(struct sgpu_run *run)
{
	int rows = run->rows.operations + run->rows.inputs + run->rows.outputs;

	atomic_store(&run->on_device, true);
	sgpu_drain_stop(run);
	for (int i = 0; run->streams && i < rows; i++) {
		sgpu_stream_free(&run->streams[i]); /* waits for its work */
	}
	if (atomic_load(&run->stop)) {
		sgpu_device_cancel(run->device, false);
	}
	for (int i = 0; run->operations && i < run->manifest->operation_count; i++) {
		sgpu_event_free(&run->operations[i].event);
	}
	sgpu_modules_free(run);
	sgpu_load_free(run);
	sgpu_lanes_free(run);
	for (int i = 0; run->segments && i < run->manifest->segment_count; i++) {
		sgpu_result_drop(run, i);
	}
	for (int i = 0; run->buffers && !run->together && i < run->plan->buffer_count; i++) {
		sgpu_device_free(run->device, &run->buffers[i].memory, run->plan->buffers[i].size);
	}
	sgpu_device_free(run->device, &run->together, run->together_size);
	sgpu_leases_free(&run->leases);
	sgpu_wipe(run->batch_key, sizeof(run->batch_key));
	atomic_store(&run->on_device, false);
	sgpu_span_sort(run);
	atomic_store(&run->end_ns, sgpu_now_ns());
}

/* What a stopped run says: its reason goes before what followed from it. */
static int stopped(const struct sgpu_run *run, int rc, struct sgpu_error *error)
{
	int stop = atomic_load(&run->stop);

	if (stop == SGPU_ECANCELED || rc == SGPU_ECANCELED || atomic_load(&run->cancel)) {
		return sgpu_fail(error, SGPU_ECANCELED, "the run was stopped");
	}
	if (stop == SGPU_ETIMEOUT && rc != SGPU_ETIMEOUT) {
		return sgpu_fail(error, SGPU_ETIMEOUT, "the batch did not arrive before the deadline");
	}
	return rc;
}

static int run_admitted(struct sgpu_run *run, int out_fd, const char *out_name, struct sgpu_error *error)
{
	int stop, rc;

	atomic_store(&run->on_device, true);
	rc = carry_out(run, error);
	atomic_store(&run->on_device, false);
	stop = atomic_load(&run->stop);
	if (stop == SGPU_EPOLICY) {
		return sgpu_fail(error, stop, "%s", run->broke_rules ? run->broke_rules : sgpu_strerror(stop));
	}
	if (rc != SGPU_OK && stop != SGPU_ETIMEOUT) {
		return stopped(run, rc, error);
	}
	if (stop == SGPU_ECANCELED || atomic_load(&run->cancel)) {
		return stopped(run, SGPU_ECANCELED, error);
	}
	if (stop == SGPU_OK) {
		sgpu_modules_free(run); /* all work has ended */
	}
	if (sgpu_device_module_broke_rules(run->device)) {
		return sgpu_fail(error, SGPU_EPOLICY, "a module made a system call that is refused, after its function had "
				 "returned");
	}
	return sgpu_respond(run, out_fd, out_name, error);
}

int sgpu_run_batch(struct sgpu_run *run, int in_fd, const char *in_name, int out_fd, const char *out_name,
		   struct sgpu_error *error)
{
	struct sgpu_watch watch;
	int fd = -1, rc;

	if (run->used) {
		return sgpu_fail(error, SGPU_EUSAGE, "a run takes one batch");
	}
	run->used = true;
	atomic_store(&run->begin_ns, sgpu_now_ns());
	rc = sgpu_watch_start(&watch, run, in_fd, &fd, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = sgpu_tar_open(fd, in_name, &run->tar, error);
	if (rc == SGPU_OK) {
		rc = sgpu_run_admit(run, error);
		if (rc != SGPU_OK) {
			rc = stopped(run, rc, error);
		} else {
			rc = run_admitted(run, out_fd, out_name, error);
		}
	}
	sgpu_watch_end(&watch);
	tear_down(run);
	sgpu_tar_close(&run->tar);
	if (rc == SGPU_EINVALID && watch.error_number != 0) {
		errno = watch.error_number;
		rc = sgpu_fail_errno(error, "cannot read '%s'", in_name);
	}
	if (fd != in_fd) {
		close(fd);
	}
	return rc;
}
