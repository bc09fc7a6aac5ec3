/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's status. Root and the server's own user see all of it, others their own part.
 */
#include "supervisor.h"

#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/version.h>

static const char *const results[SERVE_RESULTS] = {
	[SERVE_DONE] = "done",
	[SERVE_SOME_FAILED] = "some_failed",
	[SERVE_REFUSED] = "refused",
	[SERVE_REPLAYED] = "replayed",
	[SERVE_OVER_QUOTA] = "over_quota",
	[SERVE_CANCELLED] = "cancelled",
	[SERVE_FAILED] = "failed",
};

static json_t *describe_process(const struct process *p, uint64_t now)
{
	const struct serve_counters *c = &p->said;
	json_t *object = json_pack(
		"{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "pid", (int)p->pid, "state",
		p->draining ? "draining"
		: !p->ready ? "starting"
		: p->tenant ? "serving"
			    : "spare",
		"in_flight", (json_int_t)process_in_flight(p), "done",
		(json_int_t)c->sums[SERVE_DONE], "failed", (json_int_t)c->sums[SERVE_FAILED],
		"uptime_ns", (json_int_t)(now - p->started_ns), "leases", (json_int_t)c->leases,
		"leased_bytes", (json_int_t)c->leased_bytes, "pool_bytes",
		(json_int_t)c->pool_bytes);

	if (object && p->tenant) {
		json_object_set_new(object, "uid", json_integer((json_int_t)p->tenant->uid));
	}
	return object;
}

/* 0, no limit, becomes null. */
static json_t *describe_bytes(uint64_t limit)
{
	return limit ? json_integer((json_int_t)limit) : json_null();
}

/* The sums include draining workers. */
static json_t *describe_tenant(const struct supervisor *s, const struct tenant *t)
{
	const struct share *share = &s->shares.of[t - s->tenants];
	json_t *tenant, *limits;
	uint64_t sums[SERVE_SUMS], device = 0, host = 0;

	memcpy(sums, t->sums, sizeof(sums));
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		const struct process *p = &s->processes[i];

		if (!p->pid || p->tenant != t) {
			continue;
		}
		for (int k = 0; k < SERVE_SUMS; k++) {
			sums[k] += p->said.sums[k];
		}
		device += p->said.device_bytes;
		host += p->said.host_bytes;
	}
	limits = json_pack("{s:I, s:I, s:I, s:o, s:o}", "in_flight", (json_int_t)t->rule.in_flight,
			   "waiting", (json_int_t)t->rule.waiting, "sessions",
			   (json_int_t)t->rule.sessions, "device_memory",
			   describe_bytes(t->rule.device_memory), "host_memory",
			   describe_bytes(t->rule.host_memory));
	tenant = json_pack("{s:I, s:o, s:I, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			   "uid", (json_int_t)t->uid, "user", cli_json_text(t->user), "weight",
			   (json_int_t)t->rule.weight, "priority", t->rule.high ? "high" : "normal",
			   "limits", limits, "waiting", (json_int_t)t->waiting, "in_flight",
			   (json_int_t)t->in_flight, "sessions", (json_int_t)t->sessions,
			   "device_bytes", (json_int_t)device, "host_bytes", (json_int_t)host,
			   "bytes_in", (json_int_t)sums[SERVE_BYTES_IN], "bytes_out",
			   (json_int_t)sums[SERVE_BYTES_OUT], "busy_ns", (json_int_t)share->used_ns,
			   "latency_ns", (json_int_t)sums[SERVE_LATENCY_NS]);
	for (int i = 0; i < SERVE_RESULTS; i++) {
		json_object_set_new(tenant, results[i], json_integer((json_int_t)sums[i]));
	}
	return tenant;
}

char *supervisor_status(struct supervisor *s, uid_t uid)
{
	const bool all = uid == 0 || uid == geteuid();
	const uint64_t now = sgpu_now_ns();
	json_t *workers = json_array(), *tenants = json_array(), *status;
	char *text;

	turns_count(s);
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		const struct process *p = &s->processes[i];

		if (p->pid && (all || (p->tenant && p->tenant->uid == uid))) {
			json_array_append_new(workers, describe_process(p, now));
		}
	}
	for (const struct tenant *t = s->tenants; t < s->tenants + s->shares.count; t++) {
		if (t->used && (all || t->uid == uid)) {
			json_array_append_new(tenants, describe_tenant(s, t));
		}
	}
	status = json_pack("{s:{s:i, s:s, s:I, s:I, s:o, s:o}}", "status", "pid", (int)getpid(),
			   "version", SGPU_VERSION, "uptime_ns", (json_int_t)(now - s->started_ns),
			   "running", (json_int_t)s->server->running, "workers", workers, "tenants",
			   tenants);
	text = status ? json_dumps(status, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
	json_decref(status);
	return text;
}
