/* SPDX-License-Identifier: Apache-2.0
 *
 * See drain.h. The thread of drain() claims batches and submits them. The runner calls back when a
 * batch has ended. A second thread, the closer, syncs together all responses that have come
 * meanwhile, names them, and puts their batches away. The states of a batch:
 *
 *   spool_next -> under way -> ended -> closed
 */
#include "drain.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

enum {
	UNDER_WAY_MIN = 8,
	UNDER_WAY_MAX = 64,
	UNDER_WAY_A_JOB = 8,
	UNCLOSED_MAX = 128,   /* batches that wait for the disk, beyond those under way */
	ASIDE_MAX = 16,	      /* batches that wait because their responses found no space */
	DESCRIPTORS = 6,      /* descriptors of one batch */
	LOOK_AGAIN_MS = 1000, /* between looks at an empty directory, while batches are under way */
	NEWS_MS = 2,	      /* until ended batches too few to wake drain() are seen */
	MEMORY_PART = 8,      /* files under way get 1/8 of the device's free memory */
	BIG_PART = 8,	      /* a file above 1/8 of that is big; one big file at a time */
};
static const uint64_t memory_least = 64 << 20;
static const uint64_t long_ns = 10000000; /* a batch that has run longer may take much longer */

static int wake_fd = -1;
static atomic_bool stopped;

void drain_wake(void)
{
	const int saved = errno;

	(void)eventfd_write(wake_fd, 1);
	errno = saved;
}

void drain_stop(void)
{
	atomic_store(&stopped, true);
	if (wake_fd >= 0) {
		drain_wake();
	}
}

/* ---- the thread of drain() ---- */
static void hand_over(struct flight *flight)
{
	struct drain *drain = flight->drain;
	bool enough;

	pthread_mutex_lock(&drain->mutex);
	flight->ended = true;
	flight->lane->under_way--;
	flight->lane->bytes_under_way -= flight->size;
	drain_put(&drain->ended, flight);
	enough = ++drain->news == drain->enough;
	pthread_mutex_unlock(&drain->mutex);
	if (enough) {
		drain_wake();
	}
}

/* Called on a thread of the runner. */
static void run_ended(void *argument, struct sgpu_run *run, int rc)
{
	(void)run;
	(void)rc;
	hand_over(argument);
}

static void start(struct drain *drain, struct flight *flight, struct lane *lane)
{
	struct spool_batch *batch = flight->batch;
	struct sgpu_submission submission = {
		.in_fd = batch->fd,
		.in_name = batch->shown,
		.out_fd = batch->response.fd,
		.out_name = batch->response.path,
		.options = enclave_run_options(drain->worker),
	};

	flight->next_flying = drain->flying;
	drain->flying = flight;
	drain->flights++;
	flight->begin_ns = sgpu_now_ns();
	flight->lane = lane;
	pthread_mutex_lock(&drain->mutex);
	lane->under_way++;
	lane->bytes_under_way += flight->size;
	pthread_mutex_unlock(&drain->mutex);
	lane->flights++;
	lane->started++;
	lane->bytes += flight->size;
	lane->big = lane->big || flight->big;
	drain->alone = flight->alone;
	/* Signatures do not cover payload locations. So only a batch of a listed owner may name
	 * regions, and only if others cannot write its file. */
	submission.options.refuse_regions =
		drain->worker->owners.count == 0 ? "this worker has no --owners"
		: batch->foreign		 ? "others can write the file of this batch"
						 : NULL;
	submission.options.deadline_ns =
		drain->timeout_ns ? flight->begin_ns + drain->timeout_ns : 0;
	if (batch->answered || batch->error.code != SGPU_OK) {
		hand_over(flight);
	} else if (sgpu_runner_submit(lane->device->runner, &submission, run_ended, flight,
				      &flight->run, &batch->error) != SGPU_OK) {
		hand_over(flight);
	}
}

/* Frees closed batches, or queues them to run again. False: the worker cannot go on. */
static bool forget_closed(struct drain *drain)
{
	struct flight *flight, *next, **link;
	bool goes_on;

	pthread_mutex_lock(&drain->mutex);
	drain->news = 0;
	flight = drain_take_all(&drain->closed);
	goes_on = !drain->broken;
	pthread_mutex_unlock(&drain->mutex);
	for (; flight; flight = next) {
		next = flight->next;
		for (link = &drain->flying; *link != flight; link = &(*link)->next_flying) {
		}
		*link = flight->next_flying;
		drain->flights--;
		flight->lane->flights--;
		flight->lane->bytes -= flight->size;
		flight->lane->big = flight->lane->big && !flight->big;
		drain->dry = drain->dry && !flight->big && !flight->given_back;
		drain->alone = drain->alone && !flight->alone;
		if (flight->again == ONCE) {
			free(flight);
			continue;
		}
		flight->ended = false;
		flight->alone = true;
		drain->aside_count += flight->again == AGAIN_LAST;
		drain_put(flight->again == AGAIN_LAST ? &drain->aside : &drain->again, flight);
		flight->again = ONCE;
	}
	return goes_on;
}

/* Claims the next batch: *flight is NULL when there is none now. */
static int claim(struct drain *drain, struct flight **flight, struct sgpu_error *error)
{
	const uint64_t big = drain->bytes_most / BIG_PART;
	struct spool_batch *batch = NULL;
	bool none_takes_big = true;
	int rc;

	for (int i = 0; i < drain->lane_count; i++) {
		none_takes_big = none_takes_big && drain->lanes[i].big;
	}
	rc = spool_next(drain->spool, none_takes_big ? big : UINT64_MAX, &batch, error);
	*flight = NULL;
	if (rc != SGPU_OK || !batch) {
		drain->dry = true;
		drain->looked = drain->flights == 0;
		return rc;
	}
	*flight = calloc(1, sizeof(**flight));
	if (!*flight) {
		spool_give_back(drain->spool, &batch);
		return sgpu_fail_nomem(error);
	}
	(*flight)->drain = drain;
	(*flight)->batch = batch;
	(*flight)->size = batch->size;
	(*flight)->big = batch->size > big;
	return SGPU_OK;
}

static bool fits(const struct drain *drain, const struct lane *lane, const struct flight *flight)
{
	return lane->flights == 0 ||
	       (flight->big ? !lane->big
			    : lane->big || lane->bytes + flight->size <= drain->bytes_most);
}

static bool is_idler(const struct lane *one, const struct lane *other)
{
	return one->bytes_under_way < other->bytes_under_way ||
	       (one->bytes_under_way == other->bytes_under_way && one->started < other->started);
}

/* Returns, of the devices with room, the one with the fewest bytes under way; NULL: none has
 * room. */
static struct lane *choose_lane(struct drain *drain, const struct flight *flight)
{
	struct lane *best = NULL;

	if ((flight->alone || drain->alone) && drain->flights > 0) {
		return NULL;
	}
	pthread_mutex_lock(&drain->mutex);
	for (int i = 0; i < drain->lane_count; i++) {
		struct lane *lane = &drain->lanes[i];

		if (!lane->broken && lane->under_way < drain->most && fits(drain, lane, flight) &&
		    (!best || is_idler(lane, best))) {
			best = lane;
		}
	}
	pthread_mutex_unlock(&drain->mutex);
	return best;
}

/* Queues the batches whose responses found no space to run again, each alone. */
static void call_back(struct drain *drain)
{
	for (struct flight *f = drain_take_all(&drain->aside), *next; f; f = next) {
		next = f->next;
		f->last = true;
		drain_put(&drain->again, f);
	}
	drain->aside_count = 0;
}

static int start_more(struct drain *drain, struct sgpu_error *error)
{
	const unsigned most = drain->most * (unsigned)drain->lane_count + UNCLOSED_MAX;
	struct lane *lane;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && drain->flights < most) {
		if (!drain->held && drain->again.head && drain->flights == 0) {
			drain->held = drain->again.head;
			drain->again.head = drain->held->next;
			drain->again.tail =
				drain->again.head ? drain->again.tail : &drain->again.head;
		}
		if (!drain->held && !drain->again.head && !drain->dry) {
			rc = claim(drain, &drain->held, error);
		}
		lane = drain->held ? choose_lane(drain, drain->held) : NULL;
		if (!lane) {
			break;
		}
		start(drain, drain->held, lane);
		drain->held = NULL;
	}
	return rc;
}

static void print_progress(struct drain *drain)
{
	char line[320];
	int size;

	pthread_mutex_lock(&drain->mutex);
	const struct drain_counts c = drain->counts;
	pthread_mutex_unlock(&drain->mutex);
	const uint64_t ns = sgpu_now_ns() - drain->begin_ns;
	size = cli_json ? snprintf(line, sizeof(line),
				   "{\"progress\":{\"answered\":%" PRIu64
				   ",\"segments_failed\":%" PRIu64 ",\"failed\":%" PRIu64
				   ",\"under_way\":%u,\"elapsed_ns\":%" PRIu64 "}}\n",
				   c.answered, c.partly, c.failed, drain->flights, ns)
			: snprintf(line, sizeof(line),
				   "%s: %" PRIu64 " batches answered, %" PRIu64
				   " of them with failed segments, %" PRIu64
				   " failed, %u under way; %.1f s\n",
				   cli_tool_name(), c.answered, c.partly, c.failed, drain->flights,
				   (double)ns / 1e9);
	(void)!write(cli_error_fd, line, (size_t)size);
}

/* Sets how many batches must end to wake drain(): half of those that have not run long. Returns
 * whether so many have ended already. Wakes the closer for those that have ended so far. Ends the
 * worker if a device does not let go of a run. */
static bool expect_news(struct drain *drain)
{
	const uint64_t now = sgpu_now_ns();
	unsigned short_ones = 0;
	bool is_late, is_stuck = false;

	pthread_mutex_lock(&drain->mutex);
	for (const struct flight *f = drain->flying; f; f = f->next_flying) {
		struct sgpu_run_progress p = { .stopping_ns = 0 };

		short_ones += !f->ended && now - f->begin_ns < long_ns;
		if (drain->worker->on_gpu && f->run && !f->ended) {
			sgpu_run_get_progress(f->run, &p);
		}
		is_stuck = is_stuck || p.stopping_ns > ENCLAVE_STUCK_NS;
	}
	drain->enough = short_ones > 2 ? short_ones / 2 : 1;
	is_late = drain->news >= drain->enough;
	if (drain->ended.head) {
		pthread_cond_signal(&drain->filled);
	}
	pthread_mutex_unlock(&drain->mutex);
	if (is_stuck) {
		enclave_give_up();
	}
	return is_late;
}

/* Waits until enough has ended, a signal has come, or it is time to look again: soon after the last
 * news, then less often. */
static void wait_for_news(struct drain *drain)
{
	struct pollfd fds[2] = { { .fd = wake_fd, .events = POLLIN },
				 { .fd = drain->worker->signal_fd, .events = POLLIN } };
	uint64_t count;
	bool late;
	int ready;

	late = expect_news(drain);
	ready = poll(fds, 2, late ? 0 : drain->patience_ms);
	if (ready > 0 && fds[0].revents) {
		(void)!read(wake_fd, &count, sizeof(count));
	}
	if (ready > 0 && fds[1].revents && cli_take_signal(fds[1].fd)) {
		print_progress(drain);
	}
	if (ready == 0 && drain->patience_ms == LOOK_AGAIN_MS) {
		drain->dry = false;
	}
	drain->patience_ms = ready != 0 || late			      ? NEWS_MS
			     : 2 * drain->patience_ms < LOOK_AGAIN_MS ? 2 * drain->patience_ms
								      : LOOK_AGAIN_MS;
}

static void give_back(struct drain *drain, struct flight *flight)
{
	spool_give_back(drain->spool, &flight->batch);
	free(flight);
}

static void run_all(struct drain *drain)
{
	struct sgpu_error error;
	struct flight *flight, *next;
	bool ending = false;

	for (;;) {
		ending = !forget_closed(drain) || atomic_load(&stopped);
		if (!ending && drain->aside_count > ASIDE_MAX) {
			call_back(drain);
		}
		if (!ending && start_more(drain, &error) != SGPU_OK) {
			drain_break_off(drain, &error);
			ending = true;
		}
		if (drain->flights == 0) {
			const bool none =
				drain->dry && drain->looked && !drain->held && !drain->again.head;

			if (ending || (none && !drain->aside.head)) {
				break;
			}
			if (none) {
				call_back(drain);
			}
			drain->dry = drain->dry && drain->looked;
			continue;
		}
		wait_for_news(drain);
	}
	if (drain->held) {
		give_back(drain, drain->held);
	}
	call_back(drain);
	for (flight = drain_take_all(&drain->again); flight; flight = next) {
		next = flight->next;
		give_back(drain, flight);
	}
}

static void set_limits(struct drain *drain)
{
	const struct enclave *w = drain->worker;
	const unsigned jobs = w->config.jobs ? w->config.jobs : sgpu_cpu_count();
	struct sgpu_device_info info = { 0 };
	struct rlimit limit = { .rlim_cur = 1024 };

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	drain->most =
		UNDER_WAY_A_JOB * jobs < UNDER_WAY_MAX ? UNDER_WAY_A_JOB * jobs : UNDER_WAY_MAX;
	if (limit.rlim_cur / DESCRIPTORS < drain->most * (unsigned)w->device_count + UNCLOSED_MAX) {
		drain->most = UNDER_WAY_MIN;
	}
	drain->bytes_most = UINT64_MAX;
	for (int i = 0; i < w->device_count; i++) {
		drain->lanes[drain->lane_count++].device = &w->devices[i];
		if (sgpu_device_get_info(w->devices[i].device, &info, NULL) != SGPU_OK) {
			info.memory_free = 0;
		}
		drain->bytes_most = info.memory_free / MEMORY_PART < drain->bytes_most
					    ? info.memory_free / MEMORY_PART
					    : drain->bytes_most;
	}
	drain->bytes_most = drain->bytes_most < memory_least ? memory_least : drain->bytes_most;
}

int drain(const struct enclave *worker, struct spool *spool, uint64_t timeout_ns,
	  struct drain_counts *counts)
{
	static struct drain d;
	struct sgpu_error error = { 0 };
	pthread_t closer;
	int rc;

	d = (struct drain){ .worker = worker,
			    .spool = spool,
			    .timeout_ns = timeout_ns,
			    .begin_ns = sgpu_now_ns(),
			    .mutex = PTHREAD_MUTEX_INITIALIZER,
			    .filled = PTHREAD_COND_INITIALIZER };
	d.again.tail = &d.again.head;
	d.aside.tail = &d.aside.head;
	d.ended.tail = &d.ended.head;
	d.closed.tail = &d.closed.head;
	d.enough = 1;
	d.patience_ms = NEWS_MS;
	set_limits(&d);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = wake_fd < 0 ? sgpu_fail_errno(&error, "cannot make an event descriptor")
			 : sgpu_thread_start(&closer, drain_close, &d, &error);
	if (rc == SGPU_OK) {
		run_all(&d);
		pthread_mutex_lock(&d.mutex);
		d.finished = true;
		pthread_cond_signal(&d.filled);
		pthread_mutex_unlock(&d.mutex);
		pthread_join(closer, NULL);
	} else {
		drain_break_off(&d, &error);
	}
	for (int i = 0; i < d.lane_count && d.lane_count > 1; i++) {
		cli_detail("device %d of %d, '%s', was given %" PRIu64 " batches", i + 1,
			   d.lane_count, d.lanes[i].device->selector, d.lanes[i].started);
	}
	*counts = d.counts;
	counts->left = spool->left_before;
	counts->others = spool->others_before;
	if (counts->others > 0 && d.counts.answered + d.counts.failed == 0 && d.status == 0) {
		d.status = EX_TEMPFAIL; /* nothing here is for this worker */
	}
	return d.broken	      ? cli_error(&d.error)
	       : counts->left ? drain_graver(d.status, sgpu_exit_status(SGPU_EINVALID))
			      : d.status;
}
