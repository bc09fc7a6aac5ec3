/* SPDX-License-Identifier: Apache-2.0
 *
 * See drain.h. The thread of drain() claims batches, submits them and hears their ends. A second
 * thread, the closer, syncs together all responses that have come meanwhile, names them, and puts
 * their batches away. The states of a batch:
 *
 *   spool_next -> under way -> ended -> closed
 */
#include "drain.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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
	ASIDE_MAX = 16,	      /* batches whose responses found no space, before the disk is full */
	DESCRIPTORS = 6,      /* descriptors of one batch */
	LOOK_AGAIN_MS = 1000, /* between looks at an empty directory, while batches are under way */
	MEMORY_PART = 8,      /* files under way get 1/8 of the device's free memory */
	BIG_PART = 8,	      /* a file above 1/8 of that is big; one big file at a time */
};
static const uint64_t memory_least = 64 << 20;

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
/* Gives a batch that has ended to the closer, who is woken by wake_closer(). */
static void hand_over(struct flight *flight)
{
	struct drain *drain = flight->drain;

	flight->ended = true;
	flight->lane->under_way--;
	flight->lane->bytes_under_way -= flight->size;
	pthread_mutex_lock(&drain->mutex);
	drain_put(&drain->ended, flight);
	pthread_mutex_unlock(&drain->mutex);
}

static void wake_closer(struct drain *drain)
{
	pthread_mutex_lock(&drain->mutex);
	if (drain->ended.head) {
		pthread_cond_signal(&drain->filled);
	}
	pthread_mutex_unlock(&drain->mutex);
}

static void start(struct drain *drain, struct flight *flight, struct lane *lane)
{
	const struct spool_batch *batch = flight->batch;

	flight->next_flying = drain->flying;
	drain->flying = flight;
	drain->flights++;
	flight->begin_ns = sgpu_now_ns();
	flight->lane = lane;
	flight->full = false;
	flight->again = ONCE;
	flight->report = (struct report){ .devices = 0 };
	lane->under_way++;
	lane->bytes_under_way += flight->size;
	lane->flights++;
	lane->started++;
	lane->bytes += flight->size;
	lane->big = lane->big || flight->big;
	drain->alone = flight->alone;
	if (batch->answered || batch->error.code != SGPU_OK) {
		flight->error = batch->error;
		flight->code = batch->error.code;
		hand_over(flight);
	} else {
		flight->code = lane_submit(lane, flight, drain->timeout_ns, &flight->error);
		if (flight->code != SGPU_OK) {
			hand_over(flight);
		}
	}
}

/* Frees closed batches, or queues them to run again. False: the worker cannot go on. */
static bool forget_closed(struct drain *drain)
{
	struct flight *flight, *next, **link;
	bool goes_on;

	pthread_mutex_lock(&drain->mutex);
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
		drain->aside_count += flight->again == ASIDE;
		drain_put(flight->again == ASIDE ? &drain->aside : &drain->again, flight);
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

	for (int i = 0; i < drain->lanes->count; i++) {
		none_takes_big = none_takes_big && drain->lanes->list[i].big;
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
	(*flight)->connection = -1;
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
	for (int i = 0; i < drain->lanes->count; i++) {
		struct lane *lane = &drain->lanes->list[i];

		if (!lane->broken && lane->under_way < drain->most && fits(drain, lane, flight) &&
		    (!best || is_idler(lane, best))) {
			best = lane;
		}
	}
	pthread_mutex_unlock(&drain->mutex);
	return best;
}

static int start_more(struct drain *drain, struct sgpu_error *error)
{
	const unsigned most = drain->most * (unsigned)drain->lanes->count + UNCLOSED_MAX;
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

/* Waits until batches have ended or were closed, a signal has come, or it is time to look into the
 * directory again. */
static void wait_for_news(struct drain *drain)
{
	enum { FIXED = 2 };
	static struct pollfd fds[FIXED + RUNNER_DEVICES_MAX * UNDER_WAY_MAX];
	static struct flight *flights[FIXED + RUNNER_DEVICES_MAX * UNDER_WAY_MAX];
	nfds_t count = FIXED;
	uint64_t woken;
	int ready;

	fds[0] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = drain->signal_fd, .events = POLLIN };
	for (struct flight *f = drain->flying; f; f = f->next_flying) {
		if (!f->ended) {
			flights[count] = f;
			fds[count++] = (struct pollfd){ .fd = f->connection, .events = POLLIN };
		}
	}
	wake_closer(drain);
	ready = poll(fds, count, LOOK_AGAIN_MS);
	drain->dry = drain->dry && ready != 0;
	for (nfds_t i = FIXED; ready > 0 && i < count; i++) {
		if (fds[i].revents && lane_hear(flights[i]->lane, flights[i])) {
			hand_over(flights[i]);
		}
	}
	if (ready > 0 && fds[0].revents) {
		(void)!read(wake_fd, &woken, sizeof(woken));
	}
	if (ready > 0 && fds[1].revents && cli_take_signal(fds[1].fd)) {
		print_progress(drain);
	}
}

static void give_back(struct drain *drain, struct flight *flight)
{
	spool_give_back(drain->spool, &flight->batch);
	free(flight);
}

static void give_all_back(struct drain *drain, struct queue *queue)
{
	for (struct flight *flight = drain_take_all(queue), *next; flight; flight = next) {
		next = flight->next;
		give_back(drain, flight);
	}
}

static void run_all(struct drain *drain)
{
	struct sgpu_error error;
	bool ending = false;

	for (;;) {
		ending = !forget_closed(drain) || atomic_load(&stopped) ||
			 drain->aside_count > ASIDE_MAX;
		if (!ending && start_more(drain, &error) != SGPU_OK) {
			drain_break_off(drain, &error);
			ending = true;
		}
		if (drain->flights == 0) {
			if (ending ||
			    (drain->dry && drain->looked && !drain->held && !drain->again.head)) {
				break;
			}
			drain->dry = drain->dry && drain->looked;
			continue;
		}
		wait_for_news(drain);
	}
	if (drain->held) {
		give_back(drain, drain->held);
	}
	if (drain->aside.head) {
		drain_break_off(drain, &drain->aside.head->error);
	}
	give_all_back(drain, &drain->aside);
	give_all_back(drain, &drain->again);
}

unsigned drain_most(unsigned jobs, int devices)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	unsigned most = UNDER_WAY_A_JOB * (jobs ? jobs : sgpu_cpu_count());

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	most = most < UNDER_WAY_MAX ? most : UNDER_WAY_MAX;
	return limit.rlim_cur / DESCRIPTORS < most * (unsigned)devices + UNCLOSED_MAX
		       ? UNDER_WAY_MIN
		       : most;
}

static void set_limits(struct drain *drain, unsigned jobs)
{
	drain->most = drain_most(jobs, drain->lanes->count);
	drain->bytes_most = UINT64_MAX;
	for (int i = 0; i < drain->lanes->count; i++) {
		const uint64_t most = drain->lanes->list[i].memory_free / MEMORY_PART;

		drain->bytes_most = most < drain->bytes_most ? most : drain->bytes_most;
	}
	drain->bytes_most = drain->bytes_most < memory_least ? memory_least : drain->bytes_most;
}

int drain(struct lanes *lanes, unsigned jobs, struct spool *spool, uint64_t timeout_ns,
	  struct drain_counts *counts)
{
	static struct drain d;
	struct sgpu_error error = { 0 };
	pthread_t closer;
	int rc;

	d = (struct drain){ .lanes = lanes,
			    .spool = spool,
			    .timeout_ns = timeout_ns,
			    .begin_ns = sgpu_now_ns(),
			    .signal_fd = cli_signal_fd(SIGUSR1),
			    .mutex = PTHREAD_MUTEX_INITIALIZER,
			    .filled = PTHREAD_COND_INITIALIZER };
	d.again.tail = &d.again.head;
	d.aside.tail = &d.aside.head;
	d.ended.tail = &d.ended.head;
	d.closed.tail = &d.closed.head;
	set_limits(&d, jobs);
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
	for (int i = 0; i < lanes->count && lanes->count > 1; i++) {
		cli_detail("device %d of %d, '%s', was given %" PRIu64 " batches", i + 1,
			   lanes->count, lanes->list[i].device, lanes->list[i].started);
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
