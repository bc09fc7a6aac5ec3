/* SPDX-License-Identifier: Apache-2.0
 *
 * The ends of batches: syncs all responses that have come since the last time, names them, and puts
 * their batches away.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "drain.h"
#include "report.h"

void drain_put(struct flight **list, struct flight *flight)
{
	flight->next = *list;
	*list = flight;
}

struct flight *drain_take(struct flight **list)
{
	struct flight *first = *list;

	*list = first ? first->next : NULL;
	return first;
}

void drain_break_off(struct drain *drain, const struct sgpu_error *error)
{
	drain->error = drain->broken ? drain->error : *error;
	drain->broken = true;
}

int drain_graver(int one, int other)
{
	static const int order[] = { 0, 5, 1, 2, 4, 3 };
	size_t first = 0, second = 0;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(order); i++) {
		first = order[i] == one ? i : first;
		second = order[i] == other ? i : second;
	}
	return first > second ? one : other;
}

static void count_batch(struct drain *drain, int rc, bool has_response)
{
	drain->counts.answered += has_response;
	drain->counts.partly += rc == SGPU_ESEGMENTS;
	drain->counts.failed += !has_response;
	drain->status = drain_graver(drain->status, sgpu_exit_status(rc));
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
		drain_break_off(drain, &error);
		return;
	}
	count_batch(drain, code, false);
	cli_error(&shown);
}

/* If the batch's device failed, marks the device, and returns whether others go on. The batch was
 * given back. */
static bool is_of_device(struct drain *drain, struct flight *flight)
{
	bool others = false, first;

	if (!flight->lane || (flight->code != SGPU_EDEVICE && flight->code != SGPU_ECANCELED)) {
		return false;
	}
	first = !flight->lane->broken;
	flight->lane->broken = true;
	for (int i = 0; i < drain->lanes->count; i++) {
		others = others || !drain->lanes->list[i].broken;
	}
	drain->status = drain_graver(drain->status, sgpu_exit_status(flight->code));
	if (others && first) {
		cli_warning("device %d of %d, '%s', failed and gets no more batches: %s",
			    (int)(flight->lane - drain->lanes->list) + 1, drain->lanes->count,
			    flight->lane->link.device, flight->error.text);
	}
	return others;
}

/* Puts a batch away, or queues it to run again. */
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
		drain_put(place, flight);
		return;
	}
	if (has_response(flight)) {
		if (spool_done(drain->spool, &flight->batch, &flight->error) != SGPU_OK) {
			drain_break_off(drain, &flight->error);
		} else {
			count_batch(drain, flight->code, true);
		}
	} else if (is_of_machine(flight->code) && flight->batch->response.fd >= 0 &&
		   !never_fits(flight)) {
		spool_give_back(drain->spool, &flight->batch);
		if (is_of_device(drain, flight)) {
			drain->dry = false; /* it waits for another device */
		} else {
			drain_break_off(drain, &flight->error);
		}
	} else {
		fail_batch(drain, flight);
	}
	free(flight);
}

void drain_close(struct drain *drain)
{
	struct flight *flight;

	for (struct flight *f = drain->ended; f; f = f->next) {
		end_run(f);
	}
	sync_responses(drain);
	name_responses(drain);
	while ((flight = drain_take(&drain->ended))) {
		put_away(drain, flight);
	}
	drain->ends = 0;
}
