/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's workers: how many there are, whose they are, and what becomes of those that end.
 */
#include "supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "wire.h"

#define START_PAUSE_NS UINT64_C(100000000)
#define SHORT_LIFE_NS UINT64_C(1000000000) /* one that ends sooner is not replaced at once */
#define TENURE_NS \
	UINT64_C(1000000000) /* a worker is its tenant's for so long, whoever waits for one */
#define PRESS_PAUSE_NS UINT64_C(250000000)
#define QUOTE_KEPT_NS                                                               \
	UINT64_C(60000000000) /* after a quote, the batch for its key is on its way \
			       */
#define QUOTE_YIELD_NS                                                                            \
	UINT64_C(10000000000) /* but nobody waits longer than this for such a worker, or one with \
				 leases */
enum { START_PAUSES_MAX = 8, NOTES_AT_ONCE = 64 };

static bool is_reloading(const struct supervisor *s)
{
	return s->newest != s->generation;
}

void workers_dismiss(struct supervisor *s, struct process *process)
{
	if (process->tenant && process->tenant->process == process) {
		process->tenant->process = NULL;
	}
	process_drain(process, s->stopping ? s->stop_ns : sgpu_now_ns() + s->server->drain_ns);
}

static struct process *find_spare(struct supervisor *s)
{
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		struct process *p = &s->processes[i];

		if (p->pid && p->ready && !p->draining && !p->tenant &&
		    p->generation == s->generation) {
			return p;
		}
	}
	return NULL;
}

static bool is_idle(const struct process *p)
{
	return process_in_flight(p) == 0 && process_requests(p) == 0;
}

/* What is sealed to the key of a quote no other worker opens. The counter is the worker's: it says
 * what it likes, and a time to come is as good as none. */
static bool was_just_quoted(const struct process *p, uint64_t now)
{
	const uint64_t quoted = p->said.quoted_ns;

	return quoted != 0 && now - quoted < QUOTE_KEPT_NS;
}

/* Whether somebody has waited for a worker for so long that quotes and leases no longer keep one
 * from them. */
static bool takes_kept(const struct supervisor *s, uint64_t now)
{
	for (int i = 0; i < SUPERVISOR_TENANTS_MAX; i++) {
		const uint64_t since = s->tenants[i].lacks_ns;

		if (since && now - since >= QUOTE_YIELD_NS) {
			return true;
		}
	}
	return false;
}

/* Payloads or results wait in its memory. */
static bool keeps_leases(const struct process *p)
{
	return p->said.leases > 0;
}

/* Of a tenant that has nothing to do; the one that has been still for longest. */
static struct process *find_idle(struct supervisor *s, uint64_t now)
{
	const bool kept_too = takes_kept(s, now);
	struct process *idle = NULL;

	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		struct process *p = &s->processes[i];

		if (p->pid && !p->draining && p->tenant && is_idle(p) &&
		    p->tenant->waiting + p->tenant->asking == 0 &&
		    (kept_too || (!was_just_quoted(p, now) && !keeps_leases(p))) &&
		    (!idle || p->tenant->last_ns < idle->tenant->last_ns)) {
			idle = p;
		}
	}
	return idle;
}

static const struct share *share_of(const struct supervisor *s, const struct tenant *tenant)
{
	return &s->shares.of[tenant - s->tenants];
}

/* The first of those that wait and have no worker, or NULL. */
static struct tenant *find_needy(struct supervisor *s)
{
	struct tenant *needy = NULL;

	for (int i = 0; i < SUPERVISOR_TENANTS_MAX; i++) {
		struct tenant *t = &s->tenants[i];

		if (t->lacks_ns &&
		    (!needy || share_is_before(share_of(s, t), share_of(s, needy)))) {
			needy = t;
		}
	}
	return needy;
}

void workers_give(struct supervisor *s)
{
	struct process *spare;
	struct tenant *t;

	while ((t = find_needy(s)) && (spare = find_spare(s))) {
		if (!process_limit(spare, &t->rule)) {
			workers_dismiss(s, spare); /* it does not read what it is sent */
			continue;
		}
		t->process = spare;
		t->lacks_ns = 0;
		s->lacking--;
		spare->tenant = t;
		spare->given_ns = sgpu_now_ns();
		if (s->rules.any_high && !t->rule.high) {
			process_give_way(spare);
		}
		cli_detail("worker %d is user %lu's", (int)spare->pid, (unsigned long)t->uid);
	}
}

/* Of the tenant that has had most for its weight, if that is more than the one has had that waits
 * for a worker. */
static struct process *find_busy(struct supervisor *s, uint64_t now)
{
	const struct tenant *needy = find_needy(s);
	struct process *busy = NULL;

	for (int i = 0; needy && i < SERVE_WORKERS_MAX; i++) {
		struct process *p = &s->processes[i];

		if (p->pid && !p->draining && p->tenant && now - p->given_ns >= TENURE_NS &&
		    !(is_idle(p) && was_just_quoted(p, now)) &&
		    share_is_before(share_of(s, needy), share_of(s, p->tenant)) &&
		    (!busy || share_is_before(share_of(s, busy->tenant), share_of(s, p->tenant)))) {
			busy = p;
		}
	}
	return busy;
}

/* Leases that have waited for their clients for long, and sessions that have had nothing to do for
 * long, end. */
static void press(struct supervisor *s, uint64_t now)
{
	if (now < s->press_ns) {
		return;
	}
	s->press_ns = now + PRESS_PAUSE_NS;
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		struct process *p = &s->processes[i];
		const bool wanted = s->lacking > 0 || (p->tenant && p->tenant->awaits);

		if (p->pid && p->control >= 0 && wanted &&
		    (process_requests(p) > 0 || p->said.sessions > 0)) {
			(void)wire_say(p->control, WIRE_PRESS, -1);
		}
	}
}

/* For tenants that wait for a worker when there are as many as may be. One that is busy ends what
 * it has begun first, and its tenant's next batches wait for a worker as others do. `leaving`:
 * workers that drain, and have nothing else to do. */
static void make_room(struct supervisor *s, unsigned leaving)
{
	const uint64_t now = sgpu_now_ns();
	struct process *p;

	if (leaving >= s->lacking) {
		return;
	}
	p = find_idle(s, now);
	if (p) {
		workers_dismiss(s, p);
		return;
	}
	press(s, now);
	p = now >= s->evict_ns ? find_busy(s, now) : NULL;
	if (p) {
		s->evict_ns = now + TENURE_NS / s->server->workers;
		p->tenant->process = NULL;
		process_drain(p, UINT64_MAX);
	}
}

struct census {
	unsigned all, coming, spare, leaving; /* leaving: they drain, and nothing is in flight */
};

static struct census count_processes(const struct supervisor *s)
{
	const unsigned wanted = s->newest;
	struct census c = { 0 };

	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		const struct process *p = &s->processes[i];

		c.all += p->pid != 0;
		c.leaving += p->pid && p->draining && is_idle(p);
		c.coming += p->pid && !p->draining && !p->ready && p->generation == wanted;
		c.spare +=
			p->pid && !p->draining && p->ready && !p->tenant && p->generation == wanted;
	}
	return c;
}

static void start_worker(struct supervisor *s)
{
	struct sgpu_error error = { 0 };
	struct process *p = s->processes;

	while (p->pid) {
		p++;
	}
	if (process_start(s->server, p, &error) != SGPU_OK) {
		cli_warning("no worker: %s", error.text);
		s->failures++;
		s->start_ns = sgpu_now_ns() + START_PAUSE_NS;
		return;
	}
	p->generation = s->newest;
}

/* As many spare ones as the options say, and one for each tenant that waits and has none, within
 * the limit. While keys are read anew, one more may be there. */
void workers_keep(struct supervisor *s)
{
	const struct census c = count_processes(s);
	unsigned wanted = s->stopping ? s->lacking : s->server->ahead + s->lacking, all = c.all;

	if (s->awaiting > 0) {
		press(s, sgpu_now_ns());
	}
	if (s->ending || (s->stopping && wanted == 0) || sgpu_now_ns() < s->start_ns) {
		return;
	}
	wanted = wanted ? wanted : is_reloading(s) || !s->served;
	for (unsigned coming = c.coming + c.spare; coming < wanted; coming++) {
		if (all >= s->server->workers + (is_reloading(s) && coming == 0) ||
		    all >= SERVE_WORKERS_MAX) {
			if (c.coming + c.spare < s->lacking) {
				make_room(s, c.leaving);
			}
			return;
		}
		start_worker(s);
		all++;
	}
}

/* All but those of one generation, however far they are. */
static void dismiss_others(struct supervisor *s, unsigned generation)
{
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		if (s->processes[i].pid && s->processes[i].generation != generation) {
			workers_dismiss(s, &s->processes[i]);
		}
	}
}

void workers_reload(struct supervisor *s)
{
	dismiss_others(s, s->generation); /* of a reload that is still under way */
	s->newest = ++s->last;
	s->start_ns = 0;
	cli_note("keys and owners are read again by new workers");
}

static void finish_reload(struct supervisor *s)
{
	s->generation = s->newest;
	dismiss_others(s, s->generation);
	cli_note("new workers serve; those with the keys from before end when their work has");
}

static void give_up_reload(struct supervisor *s)
{
	s->newest = s->generation;
	dismiss_others(s, s->generation);
	cli_warning("no worker starts with the new keys: those from before go on");
}

/* Notes only say that there is something to count. */
static int take_notes(struct process *p)
{
	int rc = SGPU_OK;

	for (int i = 0; i < NOTES_AT_ONCE && rc == SGPU_OK; i++) {
		rc = wire_hear(p->control, WIRE_NOTE, NULL, NULL);
	}
	return rc == SGPU_ETIMEOUT ? SGPU_OK : rc;
}

static uint64_t pause_after(unsigned failures)
{
	return START_PAUSE_NS << (failures < START_PAUSES_MAX ? failures : START_PAUSES_MAX);
}

/* Who waits gets another one; one whose workers die soon waits longer, and delays nobody else. */
static void lose(struct process *p)
{
	const uint64_t now = sgpu_now_ns();
	struct tenant *t = p->tenant;

	if (t && t->process == p) {
		t->process = NULL;
		t->deaths = now - p->given_ns < SHORT_LIFE_NS ? t->deaths + 1 : 0;
		t->start_ns = now + pause_after(t->deaths);
	}
}

/* A worker says that it can take work, and then what it has done; anything else is its end. */
void workers_hear(struct supervisor *s, struct process *p)
{
	int rc = p->ready ? take_notes(p) : wire_hear(p->control, WIRE_READY, NULL, NULL);

	if (rc == SGPU_ETIMEOUT || (rc == SGPU_OK && p->ready)) {
		return;
	}
	if (rc != SGPU_OK) {
		kill(p->pid, SIGKILL); /* it is as good as dead; the kernel says when it is */
		close(p->control);
		p->control = -1;
		lose(p);
		return;
	}
	p->ready = true;
	s->failures = 0;
	if (!s->served) {
		s->served = true;
		service_notify("READY=1");
		cli_note("serving at '%s'",
			 s->socket->path[0] ? s->socket->path : "the service manager's socket");
	}
	if (is_reloading(s) && p->generation == s->newest) {
		finish_reload(s);
	}
}

static void lament(struct supervisor *s, const struct process *p, int status)
{
	const uint64_t lost = process_in_flight(p);

	if (p->draining && (lost == 0 || s->stopping)) {
		return;
	}
	if (WIFSIGNALED(status)) {
		cli_warning(
			"worker %d was ended by signal %d; submissions that failed with it: %llu",
			(int)p->pid, WTERMSIG(status), (unsigned long long)lost);
	} else {
		cli_warning("worker %d ended with status %d; submissions that failed with it: %llu",
			    (int)p->pid, WEXITSTATUS(status), (unsigned long long)lost);
	}
}

/* One that was nobody's, and ended soon, delays all that are to start: what it failed for is not a
 * tenant's. */
static void bury(struct supervisor *s, struct process *p, int status)
{
	struct tenant *tenant = p->tenant;

	process_look(p);
	lament(s, p, status);
	if (tenant) {
		for (int i = 0; i < SERVE_SUMS; i++) {
			tenant->sums[i] += p->said.sums[i];
		}
		tenant->sums[SERVE_FAILED] += process_in_flight(p);
		lose(p);
	} else if (!p->draining && !s->ending &&
		   (!p->ready || sgpu_now_ns() - p->started_ns < SHORT_LIFE_NS)) {
		s->start_ns = sgpu_now_ns() + pause_after(s->failures++);
		if (!s->served) {
			/* It has said why. */
			s->status = WIFEXITED(status) && WEXITSTATUS(status)
					    ? WEXITSTATUS(status)
					    : sgpu_exit_status(SGPU_ESYSTEM);
		} else if (is_reloading(s) && p->generation == s->newest) {
			give_up_reload(s);
		}
	}
	process_bury(p);
}

void workers_reap(struct supervisor *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
			if (s->processes[i].pid == pid) {
				bury(s, &s->processes[i], status);
				break;
			}
		}
	}
}
