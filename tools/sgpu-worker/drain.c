/* SPDX-License-Identifier: Apache-2.0
 *
 * See drain.h. The states of a batch: claimed, (held,) under way, ended, and closed, which may be
 * to run once more.
 */
#include "drain.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sysexits.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

enum {
	UNDER_WAY_MAX = 64,
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

/* A batch from its claim until it is put away. */
struct flight {
	struct flight *next;
	struct spool_batch *batch;
	int connection; /* -1: nothing is run, or it has ended */
	bool alone;	/* runs while no other is under way */
	uint64_t needs; /* bytes that its response needs; 0: not known */
	bool full;	/* its response found no space */
	bool again;	/* to be run once more, alone, after all others */
	int code;
	struct sgpu_error error;
	struct report report;
};

struct drain {
	struct link *enclave;
	int resting[UNDER_WAY_MAX]; /* connections without a batch, for the next ones */
	unsigned rests;
	struct spool *spool;
	uint64_t timeout_ns;
	struct flight *flying;	    /* batches under way; the lists have no order */
	struct flight *held;	    /* a claimed batch for which there is no room */
	struct flight *ended;	    /* batches to be closed */
	struct flight *again;	    /* batches to be run alone, after all others */
	unsigned ends, lacks;	    /* batches in `ended`; those that have found no space */
	unsigned flights, most;	    /* batches under way, and most of them */
	uint64_t bytes, bytes_most; /* of their files */
	bool alone;		    /* a batch that runs alone is under way */
	bool dry, looked;	    /* at the last look no batch was left; none was under way */
	bool broken;		    /* the worker cannot go on, because of `error` */
	struct sgpu_error error;
	struct drain_counts counts;
	int status;
};

static void put(struct flight **list, struct flight *flight)
{
	flight->next = *list;
	*list = flight;
}

static struct flight *take(struct flight **list)
{
	struct flight *first = *list;

	*list = first ? first->next : NULL;
	return first;
}

/* Records that the worker cannot go on. The first reason stays. */
static void break_off(struct drain *drain, const struct sgpu_error *error)
{
	drain->error = drain->broken ? drain->error : *error;
	drain->broken = true;
}

static int graver(int one, int other)
{
	static const int order[] = { 0, 5, 1, 2, 4, 3 };
	size_t first = 0, second = 0;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(order); i++) {
		first = order[i] == one ? i : first;
		second = order[i] == other ? i : second;
	}
	return first > second ? one : other;
}

static void end(struct drain *drain, struct flight *flight)
{
	put(&drain->ended, flight);
	drain->ends++;
}

static void start(struct drain *drain, struct flight *flight)
{
	static struct wire_submit message;
	const struct spool_batch *batch = flight->batch;

	flight->full = false;
	flight->again = false;
	flight->report = (struct report){ .devices = 0 };
	flight->connection = drain->rests ? drain->resting[--drain->rests] : -1;
	message.timeout_ns = drain->timeout_ns;
	snprintf(message.in_name, sizeof(message.in_name), "%s", batch->shown);
	snprintf(message.out_name, sizeof(message.out_name), "%s", batch->response.path);
	flight->code = link_submit(drain->enclave, &message, batch->fd, batch->response.fd,
				   &flight->connection, &flight->error);
	if (flight->code != SGPU_OK) {
		end(drain, flight);
		return;
	}
	put(&drain->flying, flight);
	drain->flights++;
	drain->bytes += batch->size;
	drain->alone = flight->alone;
}

/* Receives what the enclave says of a batch. Returns whether the batch has ended. */
static bool land(struct drain *drain, struct flight *flight)
{
	static struct wire_answer answer; /* large */

	if (!link_hear(drain->enclave, &answer, &flight->connection, &flight->error)) {
		return false;
	}
	if (flight->connection >= 0) {
		flight->report = answer.report;
		flight->full = answer.response_full != 0;
		flight->needs = answer.response_size;
		drain->resting[drain->rests++] = flight->connection;
	}
	flight->code = flight->error.code;
	flight->connection = -1;
	drain->flights--;
	drain->bytes -= flight->batch->size;
	drain->alone = false;
	end(drain, flight);
	return true;
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

static bool has_room(const struct drain *drain, const struct flight *flight)
{
	return drain->flights == 0 || (!flight->alone && !drain->alone &&
				       drain->bytes + flight->batch->size <= drain->bytes_most);
}

static int start_more(struct drain *drain, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	while (rc == SGPU_OK && drain->flights < drain->most && drain->ends < drain->most) {
		if (!drain->held && drain->flights == 0 && drain->dry) {
			drain->held = take(&drain->again);
		}
		if (!drain->held && !drain->dry) {
			rc = claim(drain, error);
			if (rc == SGPU_OK && !drain->held && !drain->dry) {
				continue; /* it has ended */
			}
		}
		if (!drain->held || !has_room(drain, drain->held)) {
			break;
		}
		start(drain, drain->held);
		drain->held = NULL;
	}
	return rc;
}

/* ---- the ends of batches ---- */
static void count_batch(struct drain *drain, int rc, bool has_response)
{
	drain->counts.answered += has_response;
	drain->counts.partly += rc == SGPU_ESEGMENTS;
	drain->counts.failed += !has_response;
	drain->status = graver(drain->status, sgpu_exit_status(rc));
}

static bool has_response(const struct flight *flight)
{
	return flight->code == SGPU_OK || flight->code == SGPU_ESEGMENTS;
}

/* Whether the machine failed, not the batch: another worker, or this one later, may run it. */
static bool is_of_machine(int rc)
{
	return rc == SGPU_ESYSTEM || rc == SGPU_EDEVICE || rc == SGPU_EUNAVAILABLE ||
	       rc == SGPU_ECANCELED || rc == SGPU_ENOSPACE;
}

/* Whether the whole file system is smaller than the response. */
static bool never_fits(const struct flight *flight)
{
	struct statfs about;

	return flight->full && fstatfs(flight->batch->response.fd, &about) == 0 &&
	       about.f_blocks > 0 && about.f_bsize > 0 &&
	       about.f_blocks < flight->needs / (uint64_t)about.f_bsize;
}

/* Whether a batch that has no response runs once more: it found too little memory or disk beside
 * others. */
static bool once_more(struct flight *flight)
{
	const struct spool_batch *batch = flight->batch;
	const bool lacked = flight->full ? !never_fits(flight) : flight->code == SGPU_ENOMEM;

	if (flight->full) {
		(void)!ftruncate(batch->response.fd, 0); /* its space is free now */
	}
	if (!lacked || flight->alone) {
		return false;
	}
	if (lseek(batch->fd, 0, SEEK_SET) != 0 || ftruncate(batch->response.fd, 0) != 0 ||
	    lseek(batch->response.fd, 0, SEEK_SET) != 0) {
		flight->code = sgpu_fail_errno(&flight->error, "cannot begin again with '%s'",
					       batch->shown);
		return false;
	}
	return true;
}

static void end_run(struct flight *flight)
{
	flight->again = once_more(flight);
	if (!flight->again && !cli_quiet) {
		report_batch(&flight->report, flight->batch->shown, flight->code, NULL);
	}
}

static bool is_to_be_named(const struct flight *flight)
{
	return has_response(flight) && flight->batch->response.fd >= 0;
}

/* Syncs the whole file system for more than two responses. If that fails, or for fewer, syncs each
 * response, to find those with an error. */
static void sync_responses(const struct drain *drain)
{
	size_t count = 0;

	for (struct flight *f = drain->ended; f; f = f->next) {
		count += is_to_be_named(f);
	}
	if (count > 2 && syncfs(drain->spool->output) == 0) {
		return;
	}
	for (struct flight *f = drain->ended; f; f = f->next) {
		if (is_to_be_named(f) && fsync(f->batch->response.fd) != 0) {
			f->code = sgpu_fail_errno(&f->error, "cannot write '%s'",
						  f->batch->response.path);
			f->full = f->code == SGPU_ENOSPACE;
			f->again = once_more(f);
		}
	}
}

static void name_responses(const struct drain *drain)
{
	bool any = false;

	for (struct flight *f = drain->ended; f; f = f->next) {
		int rc;

		if (!is_to_be_named(f)) {
			continue;
		}
		rc = spool_answer(drain->spool, f->batch, &f->error);
		if (rc == SGPU_OK && f->batch->error.code != SGPU_OK) {
			f->error = f->batch->error;
			rc = f->error.code;
		}
		f->full = rc == SGPU_ENOSPACE;
		f->code = rc == SGPU_OK ? f->code : rc;
		any = any || rc == SGPU_OK;
	}
	if (any) {
		(void)!fsync(drain->spool->output); /* a file system that cannot sync a directory is
						       no reason to fail */
	}
}

static void fail_batch(struct drain *drain, struct flight *flight)
{
	const char *name = flight->batch->shown;
	struct sgpu_error shown, error, *reason = &flight->error;
	const int code = reason->code;

	if (flight->batch->resumed && code == SGPU_ETAKEN) {
		sgpu_fail(&shown, code, "%s (a worker that was killed had it)", reason->text);
		memcpy(reason->text, shown.text, sizeof(reason->text));
	}
	if (code == SGPU_ENOSPACE) {
		(void)sgpu_hint(reason,
				"the whole file system has less than it needs: give another "
				"with -o, and move the batch back");
	}
	shown = *reason;
	if (!strstr(reason->text, name)) {
		sgpu_fail(&shown, code, "'%s': %s", name, reason->text);
		memcpy(shown.hint, reason->hint, sizeof(shown.hint));
	}
	if (spool_failed(drain->spool, &flight->batch, reason, &error) != SGPU_OK) {
		break_off(drain, &error);
		return;
	}
	count_batch(drain, code, false);
	cli_error(&shown);
}

static void put_away(struct drain *drain, struct flight *flight)
{
	if (flight->again) {
		struct flight **place = &drain->again;

		/* The smallest response first: one that finds no space even alone ends the worker.
		 */
		while (*place && (*place)->needs < flight->needs) {
			place = &(*place)->next;
		}
		flight->alone = true;
		drain->lacks += flight->full;
		put(place, flight);
		return;
	}
	if (has_response(flight)) {
		if (spool_done(drain->spool, &flight->batch, &flight->error) != SGPU_OK) {
			break_off(drain, &flight->error);
		} else {
			count_batch(drain, flight->code, true);
		}
	} else if (is_of_machine(flight->code) && flight->batch->response.fd >= 0 &&
		   !never_fits(flight)) {
		spool_give_back(drain->spool, &flight->batch);
		break_off(drain, &flight->error);
	} else {
		fail_batch(drain, flight);
	}
	free(flight);
}

static void close_ended(struct drain *drain)
{
	struct flight *flight;

	for (struct flight *f = drain->ended; f; f = f->next) {
		end_run(f);
	}
	sync_responses(drain);
	name_responses(drain);
	while ((flight = take(&drain->ended))) {
		put_away(drain, flight);
	}
	drain->ends = 0;
}

/* ---- the loop ---- */
/* Waits until batches have ended, a signal has come, or it is time to look into the directory
 * again. */
static void wait_for_news(struct drain *drain)
{
	static struct pollfd fds[UNDER_WAY_MAX];
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
		struct flight *next = flight->next;

		if (said->revents && land(drain, flight)) {
			*link = next;
		} else {
			link = &flight->next;
		}
	}
}

static void give_all_back(struct drain *drain, struct flight **list)
{
	struct flight *flight;

	while ((flight = take(list))) {
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
			break_off(drain, &error);
			ending = true;
		}
		if (!drain->ended && drain->flights > 0) {
			wait_for_news(drain);
		}
		if (drain->ended) {
			close_ended(drain);
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
			break_off(drain, &f->error);
		}
	}
	give_all_back(drain, &drain->again);
}

unsigned drain_most(unsigned jobs)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	unsigned most = UNDER_WAY_A_JOB * (jobs ? jobs : sgpu_cpu_count());

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	most = most < UNDER_WAY_MAX ? most : UNDER_WAY_MAX;
	/* As many batches again may have ended. */
	return limit.rlim_cur / DESCRIPTORS < 2 * most ? UNDER_WAY_MIN : most;
}

int drain(struct link *enclave, unsigned most, uint64_t memory_free, struct spool *spool,
	  uint64_t timeout_ns, struct drain_counts *counts)
{
	struct drain d = { .enclave = enclave,
			   .most = most,
			   .bytes_most = memory_free / MEMORY_PART,
			   .spool = spool,
			   .timeout_ns = timeout_ns };

	d.bytes_most = d.bytes_most < memory_least ? memory_least : d.bytes_most;
	run_all(&d);
	*counts = d.counts;
	counts->left = spool->left;
	counts->others = spool->others;
	if (counts->others > 0 && d.counts.answered + d.counts.failed == 0 && d.status == 0) {
		d.status = EX_TEMPFAIL; /* nothing here is for this worker */
	}
	return d.broken	      ? cli_error(&d.error)
	       : counts->left ? graver(d.status, sgpu_exit_status(SGPU_EINVALID))
			      : d.status;
}
