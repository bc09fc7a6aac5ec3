/* SPDX-License-Identifier: Apache-2.0
 *
 * See drain.h. The states of a batch: claimed, (held,) under way, ended, and closed, which may be
 * to run once more.
 */
#include "drain.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

enum {
	UNDER_WAY_MIN = 8,
	UNDER_WAY_A_JOB = 16,
	LACKS_MAX = 64,	      /* batches whose responses found no space, before the disk is full */
	DESCRIPTORS = 6,      /* descriptors of one batch */
	LOOK_AGAIN_MS = 1000, /* between looks at an empty directory, while batches are under way */
	MEMORY_PART = 8,      /* files under way get 1/8 of the device's free memory */
};
static const uint64_t memory_least = 64 << 20;

static atomic_bool stopped;

void drain_stop(void)
{
	atomic_store(&stopped,
		     true); /* the signal interrupts poll(), which waits a second at most */
}

static void end(struct drain *drain, struct flight *flight)
{
	drain_put(&drain->ended, flight);
	drain->ends++;
}

static void start(struct drain *drain, struct flight *flight, struct lane *lane)
{
	flight->lane = lane;
	flight->full = false;
	flight->again = false;
	flight->report = (struct report){ .devices = 0 };
	lane->started++;
	flight->code = lane_submit(flight, drain->timeout_ns);
	if (flight->code != SGPU_OK) {
		end(drain, flight);
		return;
	}
	drain_put(&drain->flying, flight);
	drain->flights++;
	drain->alone = flight->alone;
	lane->flights++;
	lane->bytes += flight->batch->size;
}

/* A batch is no longer under way. */
static void land(struct drain *drain, struct flight *flight)
{
	struct lane *lane = flight->lane;

	drain->flights--;
	drain->alone = false;
	lane->flights--;
	lane->bytes -= flight->batch->size;
	end(drain, flight);
}

/* Claims the next batch: drain->held is NULL when there is none now. A batch that cannot run has
 * ended. */
static int claim(struct drain *drain, struct sgpu_error *error)
{
	struct spool_batch *batch = NULL;
	struct flight *flight;
	int rc = spool_next(drain->spool, &batch, error);

	if (rc != SGPU_OK || !batch) {
		drain->dry = true;
		drain->looked = drain->flights == 0;
		return rc;
	}
	flight = calloc(1, sizeof(*flight));
	if (!flight) {
		spool_give_back(drain->spool, &batch);
		return sgpu_fail_nomem(error);
	}
	flight->batch = batch;
	flight->connection = -1;
	if (batch->answered || batch->error.code != SGPU_OK) {
		flight->error = batch->error;
		flight->code = batch->error.code;
		end(drain, flight);
	} else {
		drain->held = flight;
	}
	return SGPU_OK;
}

static bool is_idler(const struct lane *one, const struct lane *other)
{
	return one->bytes < other->bytes ||
	       (one->bytes == other->bytes && one->started < other->started);
}

/* Returns, of the devices with room, the one with the fewest bytes under way; NULL: none has
 * room. */
static struct lane *choose_lane(const struct drain *drain, const struct flight *flight)
{
	struct lane *best = NULL;

	if ((flight->alone || drain->alone) && drain->flights > 0) {
		return NULL;
	}
	for (int i = 0; i < drain->lanes->count; i++) {
		struct lane *lane = &drain->lanes->list[i];

		if (!lane->broken && lane->flights < drain->most &&
		    (lane->flights == 0 ||
		     lane->bytes + flight->batch->size <= drain->bytes_most) &&
		    (!best || is_idler(lane, best))) {
			best = lane;
		}
	}
	return best;
}

/* Starts batches until the devices have enough, or as many have ended at once. */
static int start_more(struct drain *drain, struct sgpu_error *error)
{
	const unsigned most = drain->most * (unsigned)drain->lanes->count;
	struct lane *lane;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && drain->flights < most && drain->ends < most) {
		if (!drain->held && drain->flights == 0 && drain->dry) {
			drain->held = drain_take(&drain->again);
		}
		if (!drain->held && !drain->dry) {
			rc = claim(drain, error);
			if (rc == SGPU_OK && !drain->held && !drain->dry) {
				continue; /* it has ended */
			}
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

/* Waits until batches have ended, a signal has come, or it is time to look into the directory
 * again. */
static void wait_for_news(struct drain *drain)
{
	static struct pollfd fds[RUNNER_DEVICES_MAX * LANE_BATCHES_MAX];
	struct flight *flight, **link;
	const struct pollfd *said = fds;
	nfds_t count = 0;
	int ready;

	for (flight = drain->flying; flight; flight = flight->next) {
		fds[count++] = (struct pollfd){ .fd = flight->connection, .events = POLLIN };
	}
	ready = poll(fds, count, LOOK_AGAIN_MS);
	drain->dry = drain->dry && ready != 0;
	if (ready <= 0) {
		return;
	}
	for (link = &drain->flying; (flight = *link); said++) {
		if (said->revents && lane_hear(flight)) {
			*link = flight->next;
			land(drain, flight);
		} else {
			link = &flight->next;
		}
	}
}

static void give_all_back(struct drain *drain, struct flight **list)
{
	struct flight *flight;

	while ((flight = drain_take(list))) {
		spool_give_back(drain->spool, &flight->batch);
		free(flight);
	}
}

static void run_all(struct drain *drain)
{
	struct sgpu_error error;
	bool ending = false;

	for (;;) {
		ending = drain->broken || atomic_load(&stopped) || drain->lacks > LACKS_MAX;
		if (!ending && start_more(drain, &error) != SGPU_OK) {
			drain_break_off(drain, &error);
			ending = true;
		}
		if (!drain->ended && drain->flights > 0) {
			wait_for_news(drain);
		}
		if (drain->ended) {
			drain_close(drain);
		} else if (drain->flights == 0) {
			if (ending || (drain->dry && drain->looked && !drain->again)) {
				break;
			}
			drain->dry = drain->dry && drain->looked;
		}
	}
	give_all_back(drain, &drain->held);
	for (const struct flight *f = drain->again; f; f = f->next) {
		if (f->full) {
			drain_break_off(drain, &f->error);
		}
	}
	give_all_back(drain, &drain->again);
}

unsigned drain_most(unsigned jobs, int devices)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	unsigned most = UNDER_WAY_A_JOB * (jobs ? jobs : sgpu_cpu_count());

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	most = most < LANE_BATCHES_MAX ? most : LANE_BATCHES_MAX;
	/* As many batches again may have ended. */
	return limit.rlim_cur / DESCRIPTORS < 2 * most * (unsigned)devices ? UNDER_WAY_MIN : most;
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
	struct drain d = { .lanes = lanes, .spool = spool, .timeout_ns = timeout_ns };

	set_limits(&d, jobs);
	run_all(&d);
	for (int i = 0; i < lanes->count && lanes->count > 1; i++) {
		cli_detail("device %d of %d, '%s', was given %" PRIu64 " batches", i + 1,
			   lanes->count, lanes->list[i].link.device, lanes->list[i].started);
	}
	*counts = d.counts;
	counts->left = spool->left;
	counts->others = spool->others;
	if (counts->others > 0 && d.counts.answered + d.counts.failed == 0 && d.status == 0) {
		d.status = EX_TEMPFAIL; /* nothing here is for this worker */
	}
	return d.broken	      ? cli_error(&d.error)
	       : counts->left ? drain_graver(d.status, sgpu_exit_status(SGPU_EINVALID))
			      : d.status;
}
