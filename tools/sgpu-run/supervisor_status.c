/* SPDX-License-Identifier: Apache-2.0
 *
 * What the supervisor tells of itself. Root and the server's own user see all of it, others what is theirs.
 */
#include "supervisor.h"

#include <unistd.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/version.h>

static const char *state_of(const struct process *p)
{
	return p->draining ? "draining" : !p->ready ? "starting" : p->tenant ? "serving" : "spare";
}

static json_t *describe_process(const struct process *p, uint64_t now)
{
	json_t *object = json_pack("{s:i, s:s, s:I, s:I, s:I, s:I}", "pid", (int)p->pid, "state", state_of(p), "in_flight",
				   (json_int_t)process_in_flight(p), "done",
				   (json_int_t)atomic_load(&p->counters->done), "failed",
				   (json_int_t)atomic_load(&p->counters->failed), "uptime_ns",
				   (json_int_t)(now - p->started_ns));

	if (object && p->tenant) {
		json_object_set_new(object, "uid", json_integer((json_int_t)p->tenant->uid));
	}
	return object;
}

struct sums {
	uint64_t done, failed, in_flight, waiting;
};

/* With all its workers, also those that drain. */
static struct sums sum_of(const struct supervisor *s, const struct tenant *t)
{
	struct sums sums = { .done = t->done, .failed = t->failed };

	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		const struct process *p = &s->processes[i];

		if (p->pid && p->tenant == t) {
			sums.done += atomic_load(&p->counters->done);
			sums.failed += atomic_load(&p->counters->failed);
			sums.in_flight += process_in_flight(p);
		}
	}
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		sums.waiting += s->callers[i].fd >= 0 && s->callers[i].waits && s->callers[i].uid == t->uid;
	}
	return sums;
}

char *supervisor_status(const struct supervisor *s, uid_t uid)
{
	const bool all = uid == 0 || uid == geteuid();
	const uint64_t now = sgpu_now_ns();
	json_t *workers = json_array(), *tenants = json_array(), *status;
	char *text;

	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		const struct process *p = &s->processes[i];

		if (p->pid && (all || (p->tenant && p->tenant->uid == uid))) {
			json_array_append_new(workers, describe_process(p, now));
		}
	}
	for (int i = 0; i < SUPERVISOR_TENANTS_MAX; i++) {
		const struct tenant *t = &s->tenants[i];

		if (t->used && (all || t->uid == uid)) {
			const struct sums sums = sum_of(s, t);

			json_array_append_new(tenants, json_pack("{s:I, s:I, s:I, s:I, s:I}", "uid", (json_int_t)t->uid, "done",
								 (json_int_t)sums.done, "failed", (json_int_t)sums.failed,
								 "in_flight", (json_int_t)sums.in_flight, "waiting",
								 (json_int_t)sums.waiting));
		}
	}
	status = json_pack("{s:{s:i, s:s, s:I, s:o, s:o}}", "status", "pid", (int)getpid(), "version", SGPU_VERSION,
			   "uptime_ns", (json_int_t)(now - s->started_ns), "workers", workers, "tenants", tenants);
	text = status ? json_dumps(status, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(status);
	return text;
}
