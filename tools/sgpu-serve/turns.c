/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns limit how many batches run at the same time; shares.c says whose batch is next. A batch has
 * a turn from when its connection is handed over until its worker has closed it. The batch is in a
 * file, so its turn does not wait for the client. Requests need a worker, but no turn.
 */
#include "supervisor.h"

#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

/* Whether a user is root, the server's own, or in the file of tenants. A user who may map a range
 * of uids can act as many, but not as these. */
static bool is_known(const struct supervisor *s, uid_t uid)
{
	return uid == 0 || uid == geteuid() ||
	       tenant_rules_find(&s->rules, uid) != &s->rules.others;
}

/* Frees a place for a known user: that of the last unknown tenant without workers, whose callers
 * are refused. NULL: there is none. */
static struct tenant *displace_tenant(struct supervisor *s)
{
	struct tenant *last = NULL;

	for (struct tenant *t = s->tenants; t < s->tenants + s->shares.count; t++) {
		if (!is_known(s, t->uid) && t->live == 0 && (!last || t->last_ns > last->last_ns)) {
			last = t;
		}
	}
	for (int i = 0; last && i < SUPERVISOR_CALLERS_MAX; i++) {
		if (s->callers[i].tenant == last) {
			callers_refuse(
				&s->callers[i], SGPU_ERETRY,
				"the server gives the place of user %lu to one whom it knows: "
				"%d users wait, which is the limit",
				(unsigned long)last->uid, SUPERVISOR_TENANTS_MAX);
		}
	}
	return last;
}

/* Returns the user's tenant, if need be a new one. NULL: all have workers or callers. */
static struct tenant *find_tenant(struct supervisor *s, uid_t uid)
{
	struct tenant *oldest = NULL;

	for (unsigned i = 0; i < s->shares.count; i++) {
		struct tenant *t = &s->tenants[i];

		if (t->used && t->uid == uid) {
			return t;
		}
	}
	for (struct tenant *t = s->tenants; t < s->tenants + SUPERVISOR_TENANTS_MAX; t++) {
		if (!t->used) {
			oldest = t;
			break;
		}
		if ((!oldest || t->last_ns < oldest->last_ns) &&
		    t->live + t->waiting + t->asking == 0) {
			oldest = t;
		}
	}
	if (!oldest && is_known(s, uid)) {
		oldest = displace_tenant(s);
	}
	if (oldest) {
		*oldest = (struct tenant){ .used = true,
					   .uid = uid,
					   .rule = *tenant_rules_find(&s->rules, uid) };
		tenant_user_name(uid, oldest->user, sizeof(oldest->user));
		shares_add(&s->shares, (unsigned)(oldest - s->tenants), oldest->rule.weight,
			   oldest->rule.high);
	}
	return oldest;
}

void turns_apply_rules(struct supervisor *s)
{
	for (unsigned i = 0; i < s->shares.count; i++) {
		struct tenant *t = &s->tenants[i];

		if (t->used) {
			t->rule = *tenant_rules_find(&s->rules, t->uid);
			shares_change(&s->shares, i, t->rule.weight, t->rule.high);
			if (t->process && !process_limit(t->process, &t->rule)) {
				workers_dismiss(s, t->process);
			}
		}
	}
}

/* Waiting batches count only as far as the tenant's limit lets them begin. */
static void tell_shares(struct supervisor *s, const struct tenant *t)
{
	const unsigned room =
		t->in_flight < t->rule.in_flight ? t->rule.in_flight - t->in_flight : 0;
	struct share *share = &s->shares.of[t - s->tenants];

	share->waiting = t->waiting < room ? t->waiting : room;
	share->turns = t->in_flight;
}

/* Whether a tenant has to wait for its own workers: one still drains, and the tenant's limits hold
 * for all together; or the last one has just died. */
static bool awaits_end(const struct tenant *t, uint64_t now)
{
	const bool limited = t->rule.device_memory || t->rule.host_memory ||
			     t->rule.sessions < TENANT_SESSIONS_MAX;

	return !t->process && t->waiting + t->asking > 0 &&
	       ((limited && t->live > 0) || now < t->start_ns);
}

void turns_count(struct supervisor *s)
{
	const uint64_t now = sgpu_now_ns();

	shares_advance(&s->shares, now);
	s->lacking = s->awaiting = 0;
	for (struct tenant *t = s->tenants; t < s->tenants + s->shares.count; t++) {
		t->waiting = t->in_flight = t->asking = t->requests = t->live = t->sessions = 0;
	}
	for (const struct caller *c = s->callers; c < s->callers + SUPERVISOR_CALLERS_MAX; c++) {
		if (c->tenant) {
			*(c->request ? &c->tenant->asking : &c->tenant->waiting) += 1;
		}
	}
	for (struct process *p = s->processes; p < s->processes + SERVE_WORKERS_MAX; p++) {
		if (p->pid) {
			process_look(p);
		}
		if (p->pid && p->tenant) {
			p->tenant->in_flight += (unsigned)process_in_flight(p);
			p->tenant->requests += (unsigned)process_requests(p);
			p->tenant->sessions += p->said.sessions;
			p->tenant->live++;
		}
	}
	for (struct tenant *t = s->tenants; t < s->tenants + s->shares.count; t++) {
		if (t->used) {
			tell_shares(s, t);
			t->awaits = awaits_end(t, now);
			t->lacks_ns = t->process || t->awaits || t->waiting + t->asking == 0 ? 0
				      : t->lacks_ns ? t->lacks_ns
						    : now;
			s->lacking += t->lacks_ns != 0;
			s->awaiting += t->awaits;
		}
	}
	for (unsigned i = 0; i < s->shares.count; i++) {
		const struct tenant *t = &s->tenants[i];
		/* Turns are charged anyway. */
		const bool keeps = t->used && t->requests + t->sessions > 0 && t->in_flight == 0;

		s->shares.of[i].held = s->lacking > 0 && keeps;
		s->shares.of[i].lacks = t->lacks_ns != 0;
	}
	shares_settle(&s->shares);
}

/* Returns the tenant's batch that has waited for longest or, if `last`, the newest that was not
 * told that it waits; or NULL. */
static struct caller *find_batch(struct supervisor *s, const struct tenant *tenant, bool last)
{
	struct caller *found = NULL;

	for (struct caller *c = s->callers; c < s->callers + SUPERVISOR_CALLERS_MAX; c++) {
		if (c->tenant == tenant && !c->request && !(last && c->queued) &&
		    (!found || (c->order > found->order) == last)) {
			found = c;
		}
	}
	return found;
}

/* From then on the supervisor only counts the connection. */
static bool hand_over(struct caller *caller)
{
	struct tenant *tenant = caller->tenant;
	struct wire_take take = { .uid = caller->uid,
				  .since_ns = caller->since_ns,
				  .request = caller->request };

	memcpy(take.user, tenant->user, sizeof(take.user));
	if (!sgpu_wire_send(tenant->process->control, WIRE_TAKE, &take, sizeof(take), &caller->fd,
			    1)) {
		callers_refuse(caller, SGPU_ERETRY, "the worker of user %lu takes no more",
			       (unsigned long)tenant->uid);
		return false;
	}
	callers_hang_up(caller);
	return true;
}

/* Of new batches without a turn, refuses those beyond the tenant's limit, and tells others that
 * they wait. */
static void settle_new(struct supervisor *s)
{
	struct caller *newest;

	for (struct tenant *t = s->tenants; t < s->tenants + s->shares.count; t++) {
		while (t->used && t->waiting > t->rule.waiting &&
		       (newest = find_batch(s, t, true))) {
			t->waiting--;
			callers_refuse(
				newest, SGPU_ERETRY,
				"user %lu has %u batches that wait, which is the limit 'waiting'",
				(unsigned long)t->uid, t->rule.waiting);
		}
	}
	for (struct caller *c = s->callers; c < s->callers + SUPERVISOR_CALLERS_MAX; c++) {
		if (c->tenant && !c->request && !c->queued) {
			c->queued = true;
			(void)wire_say(c->fd, WIRE_QUEUED);
		}
	}
}

void turns_give(struct supervisor *s)
{
	struct tenant *t;
	int next;

	turns_count(s);
	workers_give(s);
	for (unsigned i = 0; i < s->shares.count; i++) {
		s->shares.of[i].barred = !s->tenants[i].process;
	}
	while ((next = shares_next(&s->shares, s->server->running)) >= 0) {
		t = &s->tenants[next];
		t->waiting--;
		if (hand_over(find_batch(s, t, false))) {
			t->process->handed++;
			t->in_flight++;
			shares_grant(&s->shares, (unsigned)next);
		}
		tell_shares(s, t);
	}
	for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
		t = s->callers[i].tenant;
		if (t && s->callers[i].request && t->process) {
			t->asking--;
			if (hand_over(&s->callers[i])) {
				t->process->requests++;
				t->requests++;
			}
		}
	}
	settle_new(s);
}

void turns_ask(struct supervisor *s, struct caller *caller, bool request)
{
	struct tenant *tenant;

	turns_count(s);
	tenant = find_tenant(s, caller->uid);
	if (!tenant) {
		callers_refuse(caller, SGPU_ERETRY,
			       "%d users have batches under way, which is the limit",
			       SUPERVISOR_TENANTS_MAX);
		return;
	}
	caller->tenant = tenant;
	tenant->last_ns = sgpu_now_ns();
	if (request && tenant->asking + tenant->requests >= SUPERVISOR_REQUESTS_MAX) {
		callers_refuse(caller, SGPU_ERETRY,
			       "user %lu has %d requests under way, which is the limit",
			       (unsigned long)caller->uid, SUPERVISOR_REQUESTS_MAX);
		return;
	}
	if (!request && tenant->waiting + tenant->in_flight >= s->server->submissions) {
		callers_refuse(caller, SGPU_ERETRY,
			       "user %lu has %u submissions under way, which is the limit",
			       (unsigned long)caller->uid, s->server->submissions);
		return;
	}
	caller->request = request;
	caller->order = ++s->spoken;
}
