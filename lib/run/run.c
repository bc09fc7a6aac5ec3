/* SPDX-License-Identifier: Apache-2.0
 *
 * A run from its submission to its end, on these threads:
 *
 *   reader    may block; admits the batch and brings in its payloads
 *   loop      starts operations and outputs when their inputs are there
 *   finisher  may block; when all of this has ended, writes the response and frees everything
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "base/base.h"
#include "run/inputs.h"
#include "run/launch.h"
#include "run/memory.h"
#include "run/outputs.h"
#include "run/runner.h"
#include "run/loop.h"

enum {
	PIPE_SIZE = 1 << 20,
	FEW_SEGMENTS = 8, /* so few are moved faster than threads wake up */
	/* About the rate of a bus. Batches are ranked by the time at which each would end if it
	 * were alone, so that no large batch waits for ever. */
	BYTES_PER_NS = 16,
	STALL_MS = 2000, /* after the deadline, the response's reader may stall for so long */
};

/* ---- the end of a run ---- */
/* Returns why a run ended. If it was stopped, the reason for that counts, not an error that
 * followed. */
static int stopped(const struct sgpu_run *run, int rc, struct sgpu_error *error)
{
	int stop = atomic_load(&run->base.stop);

	if (stop == SGPU_ECANCELED || rc == SGPU_ECANCELED || atomic_load(&run->cancel)) {
		return sgpu_fail(error, SGPU_ECANCELED, "the run was stopped");
	}
	if (stop == SGPU_ETIMEOUT) {
		return sgpu_fail(error, SGPU_ETIMEOUT,
				 "the batch did not arrive before the deadline");
	}
	return rc;
}

/* Returns why the run has no response, or SGPU_OK. */
static int check_verdict(struct sgpu_run *run, struct sgpu_error *error)
{
	const int stop = atomic_load(&run->base.stop);
	const char *broken = sgpu_modules_broken_rule(run->modules);

	if (stop == SGPU_EPOLICY) {
		return sgpu_fail(error, stop, "%s", broken ? broken : sgpu_strerror(stop));
	}
	if (run->code != SGPU_OK && stop != SGPU_ETIMEOUT) {
		return stopped(run, run->code, error);
	}
	if (stop == SGPU_ECANCELED || atomic_load(&run->cancel)) {
		return stopped(run, SGPU_ECANCELED, error);
	}
	if (stop == SGPU_OK) {
		sgpu_modules_unload(run->modules); /* all work has ended */
	}
	if (sgpu_modules_broke_rules(run->modules)) {
		return sgpu_fail(
			error, SGPU_EPOLICY,
			"a module made a system call that is refused, after its function had "
			"returned");
	}
	return SGPU_OK;
}

/* Clears and frees what the run has. The run posts no more notes to the loop. */
static void tear_down(struct sgpu_run *run)
{
	atomic_store(&run->busy, true);
	sgpu_outputs_free(&run->outputs);
	sgpu_modules_free(&run->modules);
	sgpu_memory_clear(&run->memory);
	sgpu_leases_free(&run->base.leases);
	sgpu_lent_free(&run->base.lent);
	sgpu_wipe(run->job.batch_key, sizeof(run->job.batch_key));
	sgpu_tar_close(&run->tar);
	atomic_store(&run->busy, false);
	sgpu_trace_sort(&run->trace);
	atomic_store(&run->trace.end_ns, sgpu_now_ns());
}

static void settle(struct sgpu_run *run)
{
	if (run->launches) {
		sgpu_launches_settle(run->launches);
	}
	if (sgpu_presence_leave(&run->runner->presence, &run->inside, run->job.has_module)) {
		sgpu_loop_wake(run->base.loop); /* a stopped run may now be alone on the devices */
	}
	atomic_store(&run->busy, false);
}

/* Removes a run from its runner's list. The mutex is held. */
static void remove_run(struct sgpu_run *run)
{
	struct sgpu_run **link = &run->runner->runs;

	while (*link != run) {
		link = &(*link)->next;
	}
	*link = run->next;
	run->runner->begun[run->first]--;
	sgpu_loop_expect(run->runner->loop, true);
}

/* Ends the run. When `ended` is set, whoever waits for the run may free it. */
static void end_run(struct sgpu_run *run)
{
	struct sgpu_runner *runner = run->runner;

	tear_down(run);
	sgpu_io_set_guard(NULL);
	sgpu_threads_release(runner->threads);
	if (run->done) {
		run->done(run->argument, run, run->code);
	}
	pthread_mutex_lock(&runner->mutex);
	remove_run(run);
	atomic_store(&run->ended, 1);
	pthread_cond_broadcast(&runner->ended);
	pthread_mutex_unlock(&runner->mutex);
}

/* After the deadline the response is still written, as long as somebody reads it. */
static int ended_while_writing(void *argument)
{
	const struct sgpu_run *run = argument;

	return atomic_load(&run->cancel) ? SGPU_ECANCELED : SGPU_OK;
}

static void finish_blocking(struct sgpu_note *task)
{
	struct sgpu_run *run = task->owner;
	const struct sgpu_io_guard guard = { .wake_fd = run->base.wake_fd,
					     .ended = ended_while_writing,
					     .argument = run,
					     .deadline_ns =
						     run->base.submission.options.deadline_ns,
					     .stall_ns = STALL_MS * UINT64_C(1000000) };
	int rc;

	settle(run);
	sgpu_io_set_guard(&guard);
	rc = check_verdict(run, &run->error);
	if (rc == SGPU_OK) {
		rc = sgpu_outputs_file_failure(run->outputs, &run->error);
		rc = rc ? rc : sgpu_respond(&run->base, run->graph, run->outputs, &run->error);
		run->descriptor_failed = rc == SGPU_ENOSPACE || rc == SGPU_ESYSTEM;
	}
	if (rc == SGPU_ETIMEOUT) {
		sgpu_hint(&run->error, "the response is incomplete: nothing reads it");
	}
	run->code = rc;
	sgpu_io_set_guard(NULL);
	if (rc != SGPU_OK && rc != SGPU_ESEGMENTS && sgpu_outputs_placed(run->outputs)) {
		(void)!sgpu_respond_cut(&run->base, NULL);
	}
	end_run(run);
}

/* ---- the loop's part ---- */
/* Gives the run to the finisher if all of its work has ended. */
static void check_end(struct sgpu_run *run)
{
	if (run->begun && !run->finishing && run->have_read && sgpu_graph_ended(run->graph) &&
	    run->base.under_way == 0) {
		run->finishing = true;
		sgpu_threads_give(run->runner->threads, &run->finisher);
	}
}

static void advance(struct sgpu_run *run)
{
	sgpu_graph_advance(run->graph);
	check_end(run);
}

static void see_stop(struct sgpu_run *run)
{
	const int rc = atomic_load(&run->base.stop);

	run->stop_seen = true;
	sgpu_graph_stop(run->graph);
	sgpu_inputs_stop(run->inputs, rc);
	sgpu_outputs_stop(run->outputs, rc);
}

/* Loads the keys of a small batch's results while its inputs arrive. */
static void prepare_outputs(struct sgpu_run *run)
{
	const struct sgpu_manifest *m = run->job.manifest;
	struct sgpu_stream *stream;

	for (int i = 0; !run->base.many && i < m->segment_count; i++) {
		if (sgpu_segment_is_output(&m->segments[i]) &&
		    sgpu_launch_get_stream(run->launches, m->segments[i].writer, &stream, NULL) ==
			    SGPU_OK) {
			sgpu_output_prepare(run->outputs, i, stream);
		}
	}
}

static void note_admitted(struct sgpu_note *note)
{
	struct sgpu_run *run = note->owner;

	run->begun = true;
	if (atomic_load(&run->base.stop)) {
		see_stop(run);
	} else if (run->base.traits->opens_on_device) {
		prepare_outputs(run);
	}
	advance(run);
}

static void note_read(struct sgpu_note *note)
{
	struct sgpu_run *run = note->owner;

	run->have_read = true;
	check_end(run);
}

static void note_arrived(struct sgpu_note *note)
{
	struct sgpu_run *run = note->owner;
	const char *text;
	int rc = sgpu_input_end(run->inputs, note->index, &text);

	sgpu_graph_arrived(run->graph, note->index, rc, text);
	if (rc == SGPU_OK) {
		sgpu_moves_arrived(run->moves, note->index);
	}
	sgpu_graph_advance(run->graph);
	sgpu_input_drop(run->inputs, note->index);
	check_end(run);
}

static void note_moved(struct sgpu_note *note)
{
	struct sgpu_run *run = note->owner;
	const char *text;
	int rc = sgpu_move_end(run->moves, note->index, &text);

	sgpu_graph_moved(run->graph, note->index, rc, text);
	advance(run);
}

static void note_ran(struct sgpu_note *note)
{
	struct sgpu_run *run = note->owner;
	const struct sgpu_launch_end *end = sgpu_launch_result(run->launches, note->index);
	bool good = sgpu_graph_ran(run->graph, note->index, end->task.code, end->task.error.text);

	if (good) {
		sgpu_moves_ran(run->moves, note->index);
		sgpu_outputs_start(run->outputs, note->index, &end->call, end->task.actual);
	}
	sgpu_launch_drop(run->launches, note->index, !good);
	advance(run);
}

static void output_left(void *owner)
{
	check_end(owner);
}

static void module_loaded(void *argument, int segment)
{
	struct sgpu_run *run = argument;

	for (int i = 0; i < run->job.manifest->operation_count; i++) {
		const struct sgpu_operation *op = &run->job.manifest->operations[i];

		if (op->module && op->module->segment == segment) {
			sgpu_graph_retry(run->graph, i);
		}
	}
	advance(run);
}

static int start_operation(void *argument, int operation, struct sgpu_error *error)
{
	struct sgpu_run *run = argument;

	return sgpu_launch_start(run->launches, operation, error);
}

/* Returns why the run must end, or SGPU_OK. Asked by the reader and the loop. */
static int ended_while_reading(void *argument)
{
	struct sgpu_run *run = argument;
	uint64_t deadline = run->base.submission.options.deadline_ns;

	if (atomic_load(&run->cancel)) {
		sgpu_run_stop(&run->base, SGPU_ECANCELED);
	} else if (deadline != 0 && sgpu_now_ns() >= deadline) {
		sgpu_run_stop(&run->base, SGPU_ETIMEOUT);
	}
	return atomic_load(&run->base.stop);
}

uint64_t sgpu_run_look(struct sgpu_run *run)
{
	uint64_t when;

	if (ended_while_reading(run) == SGPU_OK) {
		return run->base.submission.options.deadline_ns;
	}
	when = sgpu_presence_stop(&run->runner->presence, &run->inside,
				  atomic_load(&run->base.stop_ns));
	if (run->begun && !run->stop_seen && !run->finishing) {
		see_stop(run);
		advance(run);
	}
	return when;
}

/* ---- reading ---- */
static int make_objects(struct sgpu_run *run, struct sgpu_error *error)
{
	struct sgpu_run_base *base = &run->base;
	const struct sgpu_plan *plan = run->job.plan;
	int rc;

	run->trace.operations = plan->stream_count;
	run->trace.devices = base->device_count;
	run->trace.first = run->first;
	base->many = run->job.batch->segment_count > FEW_SEGMENTS;
	base->rank = sgpu_now_ns() + plan->bytes / BYTES_PER_NS;
	/* before the buffers, since the sealed paths take memory, too */
	rc = sgpu_moves_create(base, note_moved, run, &run->moves, error);
	rc = rc ? rc : sgpu_memory_create(base, error);
	rc = rc ? rc : sgpu_graph_create(base, start_operation, run, &run->graph, error);
	rc = rc ? rc : sgpu_modules_create(base, module_loaded, run, &run->modules, error);
	rc = rc ? rc
		: sgpu_launches_create(base, run->modules, note_ran, run, &run->launches, error);
	return rc == SGPU_OK ? sgpu_outputs_create(base, output_left, run, &run->outputs, error)
			     : rc;
}

static int admit(struct sgpu_run *run, struct sgpu_error *error)
{
	int rc = sgpu_tar_open(run->base.submission.in_fd, run->base.submission.in_name, &run->tar,
			       error);

	rc = rc ? rc : sgpu_admit(&run->base, run->tar, error);
	run->descriptor_failed = rc == SGPU_ESYSTEM;
	rc = rc ? rc
		: sgpu_presence_enter(&run->runner->presence, &run->inside, &run->base.stop,
				      run->job.has_module, run->job.owner, error);
	if (rc == SGPU_OK) {
		atomic_store(&run->busy, true);
		rc = make_objects(run, error);
	}
	if (rc == SGPU_OK && run->base.submission.options.replay) {
		rc = sgpu_respond_reserve(&run->base, error);
		run->descriptor_failed = rc == SGPU_ENOSPACE || rc == SGPU_ESYSTEM;
	}
	rc = rc ? rc : sgpu_admit_once(&run->job, error);
	return rc ? rc : sgpu_inputs_create(&run->base, note_arrived, run, &run->inputs, error);
}

static void read_blocking(struct sgpu_note *task)
{
	struct sgpu_run *run = task->owner;
	int rc;

	sgpu_io_set_guard(&run->guard);
	rc = admit(run, &run->error);
	if (rc == SGPU_OK) {
		sgpu_loop_post(run->base.loop, &run->admitted);
		run->code = sgpu_inputs_bring(run->inputs, run->tar, &run->error);
		run->descriptor_failed = run->code == SGPU_ESYSTEM;
		sgpu_io_set_guard(NULL);
		sgpu_loop_post(run->base.loop, &run->read);
		return;
	}
	run->code = stopped(run, rc, &run->error);
	settle(run);
	end_run(run);
}

/* ---- submission ---- */
static struct sgpu_run *make_run(struct sgpu_runner *runner,
				 const struct sgpu_submission *submission)
{
	struct sgpu_run *run = calloc(1, sizeof(*run));

	if (!run) {
		return NULL;
	}
	run->runner = runner;
	run->job.options = &run->base.submission.options;
	run->base = (struct sgpu_run_base){ .traits = &runner->traits,
					    .loop = runner->loop,
					    .threads = runner->threads,
					    .device_count = runner->device_count,
					    .links = &runner->links,
					    .prepared = &runner->prepared,
					    .submission = *submission,
					    .trace = &run->trace,
					    .job = &run->job,
					    .memory = &run->memory };
	run->base.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	run->reader = (struct sgpu_note){ .handle = read_blocking, .owner = run };
	run->finisher = (struct sgpu_note){ .handle = finish_blocking, .owner = run };
	run->admitted = (struct sgpu_note){ .handle = note_admitted, .owner = run };
	run->read = (struct sgpu_note){ .handle = note_read, .owner = run };
	run->guard = (struct sgpu_io_guard){ .wake_fd = run->base.wake_fd,
					     .ended = ended_while_reading,
					     .argument = run,
					     .deadline_ns = submission->options.deadline_ns };
	sgpu_trace_init(&run->trace, submission->options.spans);
	return run;
}

static void free_run(struct sgpu_run *run)
{
	sgpu_graph_free(&run->graph);
	sgpu_launches_free(&run->launches);
	sgpu_inputs_free(&run->inputs);
	sgpu_moves_free(&run->moves);
	sgpu_job_clear(&run->job);
	sgpu_trace_clear(&run->trace);
	sgpu_close(run->base.wake_fd);
	free(run);
}

/* Adds a run to its runner's list. Its first device becomes the one that is first for the fewest
 * runs. */
static void add_run(struct sgpu_run *run)
{
	struct sgpu_runner *runner = run->runner;

	pthread_mutex_lock(&runner->mutex);
	for (int i = 1; i < runner->device_count; i++) {
		run->first = runner->begun[i] < runner->begun[run->first] ? i : run->first;
	}
	runner->begun[run->first]++;
	run->next = runner->runs;
	runner->runs = run;
	pthread_mutex_unlock(&runner->mutex);
	sgpu_loop_expect(runner->loop, false);
	sgpu_loop_wake(runner->loop); /* the run may have a deadline */
}

int sgpu_runner_submit(struct sgpu_runner *runner, const struct sgpu_submission *submission,
		       sgpu_run_done_fn done, void *argument, struct sgpu_run **run,
		       struct sgpu_error *error)
{
	struct sgpu_run *r = make_run(runner, submission);
	int rc;

	*run = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	rc = r->base.wake_fd >= 0 ? sgpu_threads_reserve(runner->threads, error)
				  : sgpu_fail_errno(error, "cannot make an event descriptor");
	if (rc != SGPU_OK) {
		free_run(r);
		return rc;
	}
	/* With a larger pipe, reader and writer alternate less often. If this fails, reading is
	 * only slower. */
	(void)fcntl(submission->in_fd, F_SETPIPE_SZ, PIPE_SIZE);
	r->done = done;
	r->argument = argument;
	*run = r;
	add_run(r);
	for (int i = 0; i < runner->device_count; i++) {
		r->base.devices[i] = runner->devices[(r->first + i) % runner->device_count];
	}
	sgpu_threads_give(runner->threads, &r->reader);
	return SGPU_OK;
}

/* Spins first, in case the run is short. */
int sgpu_run_wait(struct sgpu_run *run, struct sgpu_error *error)
{
	(void)sgpu_spin(&run->ended, 0, run->base.traits->spin_ns);
	pthread_mutex_lock(&run->runner->mutex);
	while (!atomic_load(&run->ended)) {
		pthread_cond_wait(&run->runner->ended, &run->runner->mutex);
	}
	pthread_mutex_unlock(&run->runner->mutex);
	if (error && run->code != SGPU_OK) {
		*error = run->error;
	}
	return run->code;
}

void sgpu_run_cancel(struct sgpu_run *run)
{
	const int saved = errno;

	atomic_store(&run->cancel, true);
	(void)eventfd_write(run->base.wake_fd, 1); /* a full counter wakes as well */
	errno = saved;
	sgpu_loop_wake(run->base.loop);
}

void sgpu_run_free(struct sgpu_run **run)
{
	struct sgpu_run *r = run ? *run : NULL;

	if (!r) {
		return;
	}
	sgpu_run_cancel(r);
	(void)!sgpu_run_wait(r, NULL);
	free_run(r);
	*run = NULL;
}
