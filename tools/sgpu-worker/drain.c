/* SPDX-License-Identifier: Apache-2.0
 *
 * See spool.h. The states of a batch: claimed, (held,) under way, ended, and closed, which may be
 * to run once more.
 */
#include "spool.h"
#include "runner/start.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sysexits.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

enum {
	UNDER_WAY_MAX = 64,
	UNDER_WAY_MIN = 8,
	UNDER_WAY_A_JOB = 16,
	LACKS_MAX = 64,	      /* responses without space that mean a full disk */
	DESCRIPTORS = 6,      /* of one batch */
	LOOK_AGAIN_MS = 1000, /* at an empty directory, while batches are under way */
	MEMORY_PART = 8,      /* files under way get 1/8 of the device's free memory */
};
static const uint64_t memory_least = 64 << 20;

static atomic_bool stopped;

void drain_stop(void)
{
	atomic_store(&stopped,
		     true); /* the signal interrupts poll(), which waits a second at most */
}

struct drain {
	struct link *enclave;
	int resting[UNDER_WAY_MAX]; /* connections without a batch */
	unsigned rests;
	struct spool *spool;
	uint64_t timeout_ns;
	struct spool_batch *flying; /* batches under way; the lists have no order */
	struct spool_batch *held;   /* a claimed batch without room */
	struct spool_batch *ended;  /* batches to be closed */
	struct spool_batch *again;  /* batches to run alone, after all others */
	unsigned ends, lacks;	    /* batches in `ended`; those that found no space */
	unsigned flights, most;	    /* batches under way, and the most */
	uint64_t bytes, bytes_most; /* of their files */
	bool alone;		    /* a batch that runs alone is under way */
	bool dry;		    /* at the last look no batch was left */
	bool broken;		    /* the worker stops, because of `error` */
	struct sgpu_error error;
	uint64_t answered, partly; /* batches with a response; of these, with failed segments */
	uint64_t failed;	   /* batches without one */
	int status;
};

static void put(struct spool_batch **list, struct spool_batch *batch)
{
	batch->next = *list;
	*list = batch;
}

static struct spool_batch *take(struct spool_batch **list)
{
	struct spool_batch *first = *list;

	*list = first ? first->next : NULL;
	return first;
}

/* The first reason stays. */
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

static void end(struct drain *drain, struct spool_batch *batch)
{
	put(&drain->ended, batch);
	drain->ends++;
}

static void start(struct drain *drain, struct spool_batch *batch)
{
	static struct wire_submit message;

	batch->full = false;
	batch->again = false;
	batch->report = (struct report){ .devices = 0 };
	batch->connection = drain->rests ? drain->resting[--drain->rests] : -1;
	message.timeout_ns = drain->timeout_ns;
	snprintf(message.in_name, sizeof(message.in_name), "%s", batch->shown);
	snprintf(message.out_name, sizeof(message.out_name), "%s", batch->response.path);
	if (link_submit(drain->enclave, &message, batch->fd, batch->response.fd, &batch->connection,
			&batch->error) != SGPU_OK) {
		end(drain, batch);
		return;
	}
	put(&drain->flying, batch);
	drain->flights++;
	drain->bytes += batch->size;
	drain->alone = batch->alone;
}

/* Hears the enclave. Returns whether the batch has ended. */
static bool land(struct drain *drain, struct spool_batch *batch)
{
	static struct wire_answer answer; /* large */

	if (!link_hear(drain->enclave, &answer, &batch->connection, &batch->error)) {
		return false;
	}
	if (batch->connection >= 0) {
		batch->report = answer.report;
		batch->full = answer.response_full != 0;
		batch->needs = answer.response_size;
		drain->resting[drain->rests++] = batch->connection;
	}
	drain->flights--;
	drain->bytes -= batch->size;
	drain->alone = false;
	end(drain, batch);
	return true;
}

/* drain->held is NULL when there is no batch now. One that cannot run has ended. */
static int claim(struct drain *drain, struct sgpu_error *error)
{
	const int rc = spool_next(drain->spool, &drain->held, error);
	struct spool_batch *batch = drain->held;

	if (rc != SGPU_OK || !batch) {
		drain->dry = true;
	} else if (batch->answered || batch->error.code != SGPU_OK) {
		drain->held = NULL;
		end(drain, batch);
	}
	return rc;
}

static bool has_room(const struct drain *drain, const struct spool_batch *batch)
{
	return drain->flights == 0 ||
	       (!batch->alone && !drain->alone && drain->bytes + batch->size <= drain->bytes_most);
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

static void count_batch(struct drain *drain, int rc, bool has_response)
{
	drain->answered += has_response;
	drain->partly += rc == SGPU_ESEGMENTS;
	drain->failed += !has_response;
	drain->status = graver(drain->status, sgpu_exit_status(rc));
}

static bool has_response(const struct spool_batch *batch)
{
	return batch->error.code == SGPU_OK || batch->error.code == SGPU_ESEGMENTS;
}

/* Whether the machine failed, not the batch, which may run elsewhere or later. */
static bool is_of_machine(int rc)
{
	return rc == SGPU_ESYSTEM || rc == SGPU_EDEVICE || rc == SGPU_EUNAVAILABLE ||
	       rc == SGPU_ECANCELED || rc == SGPU_ENOSPACE;
}

/* Whether the whole file system is smaller than the response. */
static bool never_fits(const struct spool_batch *batch)
{
	struct statfs about;

	return batch->full && fstatfs(batch->response.fd, &about) == 0 && about.f_blocks > 0 &&
	       about.f_bsize > 0 && about.f_blocks < batch->needs / (uint64_t)about.f_bsize;
}

/* Whether a batch without a response runs once more: it found too little memory or disk beside
 * others. */
static bool once_more(struct spool_batch *batch)
{
	const bool lacked = batch->full ? !never_fits(batch) : batch->error.code == SGPU_ENOMEM;

	if (batch->full) {
		(void)!ftruncate(batch->response.fd, 0); /* its space is free now */
	}
	if (!lacked || batch->alone) {
		return false;
	}
	if (lseek(batch->fd, 0, SEEK_SET) != 0 || ftruncate(batch->response.fd, 0) != 0 ||
	    lseek(batch->response.fd, 0, SEEK_SET) != 0) {
		sgpu_fail_errno(&batch->error, "cannot begin again with '%s'", batch->shown);
		return false;
	}
	return true;
}

static void end_run(struct spool_batch *batch)
{
	batch->again = once_more(batch);
	if (!batch->again && !cli_quiet) {
		report_batch(&batch->report, batch->shown, batch->error.code, NULL);
	}
}

static bool is_to_be_named(const struct spool_batch *batch)
{
	return has_response(batch) && batch->response.fd >= 0;
}

/* Syncs the whole file system for more than two responses. For fewer, or if that fails, syncs each,
 * to find those with an error. */
static void sync_responses(const struct drain *drain)
{
	size_t count = 0;

	for (struct spool_batch *b = drain->ended; b; b = b->next) {
		count += is_to_be_named(b);
	}
	if (count > 2 && syncfs(drain->spool->output) == 0) {
		return;
	}
	for (struct spool_batch *b = drain->ended; b; b = b->next) {
		if (is_to_be_named(b) && fsync(b->response.fd) != 0) {
			b->full = sgpu_fail_errno(&b->error, "cannot write '%s'",
						  b->response.path) == SGPU_ENOSPACE;
			b->again = once_more(b);
		}
	}
}

static void name_responses(const struct drain *drain)
{
	bool any = false;

	for (struct spool_batch *b = drain->ended; b; b = b->next) {
		struct sgpu_error error = { 0 };

		if (!is_to_be_named(b)) {
			continue;
		}
		if (spool_answer(drain->spool, b, &error) == SGPU_OK) {
			any = true;
		} else {
			b->error = error;
		}
		b->full = error.code == SGPU_ENOSPACE;
	}
	if (any) {
		(void)!fsync(drain->spool->output); /* not every file system can sync a directory */
	}
}

static void fail_batch(struct drain *drain, struct spool_batch *batch)
{
	const char *name = batch->shown;
	struct sgpu_error shown, error, *reason = &batch->error;
	int code = reason->code;

	if (batch->lack.code && code == SGPU_ETAKEN) {
		*reason = batch->lack; /* found after it was recorded */
		(void)sgpu_hint(reason, "it has had its one run: seal it again");
		code = reason->code;
	} else if (batch->resumed && code == SGPU_ETAKEN) {
		sgpu_fail(&shown, code, "%s (a worker that was killed had it)", reason->text);
		memcpy(reason->text, shown.text, sizeof(reason->text));
	} else if (code == SGPU_ENOSPACE) {
		(void)sgpu_hint(reason,
				"the whole file system has less than it needs: give another "
				"with -o, and move the batch back");
	}
	shown = *reason;
	if (!strstr(reason->text, name)) {
		sgpu_fail(&shown, code, "'%s': %s", name, reason->text);
		memcpy(shown.hint, reason->hint, sizeof(shown.hint));
	}
	if (spool_failed(drain->spool, &batch, reason, &error) != SGPU_OK) {
		break_off(drain, &error);
		return;
	}
	count_batch(drain, code, false);
	cli_error(&shown);
}

static void put_away(struct drain *drain, struct spool_batch *batch)
{
	struct sgpu_error error;

	if (batch->again) {
		struct spool_batch **place = &drain->again;

		/* Smallest response first: one without space even alone ends the worker. */
		while (*place && (*place)->needs < batch->needs) {
			place = &(*place)->next;
		}
		batch->alone = true;
		batch->lack = batch->error;
		drain->lacks += batch->full;
		put(place, batch);
		return;
	}
	if (has_response(batch)) {
		const int code = batch->error.code;

		if (spool_done(drain->spool, &batch, &error) != SGPU_OK) {
			break_off(drain, &error);
		} else {
			count_batch(drain, code, true);
		}
	} else if (is_of_machine(batch->error.code) && batch->response.fd >= 0 &&
		   !never_fits(batch)) {
		break_off(drain, &batch->error);
		spool_give_back(drain->spool, &batch);
	} else {
		fail_batch(drain, batch);
	}
}

static void close_ended(struct drain *drain)
{
	struct spool_batch *batch;

	for (struct spool_batch *b = drain->ended; b; b = b->next) {
		end_run(b);
	}
	sync_responses(drain);
	name_responses(drain);
	while ((batch = take(&drain->ended))) {
		put_away(drain, batch);
	}
	drain->ends = 0;
}

/* Waits until batches have ended, a signal has come, or the directory is to be read again. */
static void wait_for_news(struct drain *drain)
{
	static struct pollfd fds[UNDER_WAY_MAX];
	struct spool_batch *batch, **link;
	const struct pollfd *said = fds;
	nfds_t count = 0;
	int ready;

	for (batch = drain->flying; batch; batch = batch->next) {
		fds[count++] = (struct pollfd){ .fd = batch->connection, .events = POLLIN };
	}
	ready = poll(fds, count, LOOK_AGAIN_MS);
	drain->dry = drain->dry && ready != 0;
	if (ready <= 0) {
		return;
	}
	for (link = &drain->flying; (batch = *link); said++) {
		struct spool_batch *next = batch->next;

		if (said->revents && land(drain, batch)) {
			*link = next;
		} else {
			link = &batch->next;
		}
	}
}

static void give_all_back(struct drain *drain, struct spool_batch **list)
{
	struct spool_batch *batch;

	while ((batch = take(list))) {
		spool_give_back(drain->spool, &batch);
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
			/* After the last one's end comes another look. */
			drain->dry = drain->dry && drain->flights > 0;
		} else if (drain->flights == 0 && (ending || (drain->dry && !drain->again))) {
			break;
		}
	}
	give_all_back(drain, &drain->held);
	for (const struct spool_batch *b = drain->again; b; b = b->next) {
		if (b->full) {
			break_off(drain, &b->error);
		}
	}
	give_all_back(drain, &drain->again);
}

static int say_what_was_done(const struct drain *d)
{
	if (cli_json) {
		return cli_print_json(
			json_pack("{s:I, s:I, s:I, s:i, s:i}", "answered", (json_int_t)d->answered,
				  "segments_failed", (json_int_t)d->partly, "failed",
				  (json_int_t)d->failed, "left_alone", (int)d->spool->left,
				  "for_others", (int)d->spool->others),
			stdout, JSON_COMPACT);
	}
	cli_note("%" PRIu64 " batches answered, %" PRIu64 " of them with failed segments; %" PRIu64
		 " failed, %u for other keys",
		 d->answered, d->partly, d->failed, d->spool->others);
	return 0;
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
	  uint64_t timeout_ns)
{
	struct drain d = { .enclave = enclave,
			   .most = most,
			   .bytes_most = memory_free / MEMORY_PART,
			   .spool = spool,
			   .timeout_ns = timeout_ns };
	int status, printed;

	d.bytes_most = d.bytes_most < memory_least ? memory_least : d.bytes_most;
	run_all(&d);
	if (spool->others > 0 && d.answered + d.failed == 0 && d.status == 0) {
		d.status = EX_TEMPFAIL; /* nothing here is for this worker */
	}
	status = d.broken      ? cli_error(&d.error)
		 : spool->left ? graver(d.status, sgpu_exit_status(SGPU_EINVALID))
			       : d.status;
	printed = say_what_was_done(&d);
	return status ? status : printed;
}
