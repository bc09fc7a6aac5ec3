/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's workers: how many there are, whose they are, and what becomes of those that end.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "supervisor.h"

#define START_PAUSE_NS UINT64_C(100000000)
#define SHORT_LIFE_NS UINT64_C(1000000000) /* a shorter life delays the worker's replacement */
#define TENURE_NS UINT64_C(1000000000)	   /* a busy worker stays its tenant's at least so long */
#define PRESS_PAUSE_NS UINT64_C(250000000)
#define QUOTE_KEPT_NS \
	UINT64_C(60000000000) /* an idle worker stays so long for a batch sealed to its quote */
#define QUOTE_YIELD_NS                                                                       \
	UINT64_C(10000000000) /* once a tenant has waited so long, quotes and leases keep no \
				 worker */
enum { START_PAUSES_MAX = 8 };

/* Added to the nice value of workers without high priority, if some user has it. Such a worker
 * still gets about a tenth of a scarce processor. */
enum { GIVE_WAY_NICE = 10, NICE_MAX = 19 };

int process_start(const struct server *server, struct process *process, struct sgpu_error *error)
{
	*process = (struct process){ .control = -1, .started_ns = sgpu_now_ns() };
	return runner_spawn(server->enclave_fd, server->arguments, &server->begin, -1,
			    &process->pid, &process->control, &process->counters, error);
}

static uint64_t raised(uint64_t before, uint64_t now, uint64_t most)
{
	now = now < most ? now : most;
	return now > before ? now : before;
}

void process_look(struct process *p)
{
	const _Atomic uint64_t *from = (const void *)p->counters;
	_Atomic uint64_t *to = (void *)&p->said;

	for (size_t i = 0; i < sizeof(p->said) / sizeof(*to); i++) {
		to[i] = from[i];
	}
	p->ended = raised(p->ended, p->said.ended, p->handed);
	p->requests_ended = raised(p->requests_ended, p->said.requests_ended, p->requests);
}

uint64_t process_in_flight(const struct process *process)
{
	return process->handed - process->ended;
}

uint64_t process_requests(const struct process *process)
{
	return process->requests - process->requests_ended;
}

bool process_limit(const struct process *process, const struct tenant_rule *rule)
{
	struct wire_limits limits = { .device_memory = rule->device_memory,
				      .host_memory = rule->host_memory,
				      .sessions = rule->sessions };

	return process->control >= 0 &&
	       sgpu_wire_send(process->control, WIRE_LIMITS, &limits, sizeof(limits), NULL, 0);
}

void process_drain(struct process *process, uint64_t deadline_ns)
{
	if (process->draining) {
		process->deadline_ns =
			deadline_ns < process->deadline_ns ? deadline_ns : process->deadline_ns;
		return;
	}
	process->draining = true;
	process->deadline_ns = deadline_ns;
	if (!wire_say(process->control, WIRE_DRAIN)) {
		process->deadline_ns = 0; /* the worker does not read its messages */
	}
}

void process_bury(struct process *process)
{
	if (process->counters) {
		munmap((void *)(uintptr_t)process->counters, sizeof(*process->counters));
	}
	sgpu_close(process->control);
	*process = (struct process){ .control = -1 };
}

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

/* Only this worker can open a batch sealed to its quote's key. The worker writes the counter and
 * may lie: a time in the future counts as no quote. */
static bool was_just_quoted(const struct process *p, uint64_t now)
{
	const uint64_t quoted = p->said.quoted_ns;

	return quoted != 0 && now - quoted < QUOTE_KEPT_NS;
}

static struct process *find_idle(struct supervisor *s, uint64_t now)
{
	struct process *idle = NULL;
	bool kept_too = false;

	for (unsigned i = 0; i < s->shares.count; i++) {
		const uint64_t since = s->tenants[i].lacks_ns;

		kept_too = kept_too || (since && now - since >= QUOTE_YIELD_NS);
	}
	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		struct process *p = &s->processes[i];

		if (p->pid && !p->draining && p->tenant && is_idle(p) &&
		    p->tenant->waiting + p->tenant->asking == 0 &&
		    (kept_too || (!was_just_quoted(p, now) && p->said.leases == 0)) &&
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

static struct tenant *find_needy(struct supervisor *s)
{
	struct tenant *needy = NULL;

	for (struct tenant *t = s->tenants; t < s->tenants + s->shares.count; t++) {
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
			workers_dismiss(s, spare); /* the worker does not read its messages */
			continue;
		}
		t->process = spare;
		t->lacks_ns = 0;
		s->lacking--;
		spare->tenant = t;
		spare->given_ns = sgpu_now_ns();
		if (s->rules.any_high && !t->rule.high) {
			/* Until the worker's end the kernel prefers other processes; later threads
			 * inherit this. */
			const int nice = getpriority(PRIO_PROCESS, 0) + GIVE_WAY_NICE;

			(void)setpriority(PRIO_PGRP, (id_t)spare->pid,
					  nice < NICE_MAX ? nice : NICE_MAX);
		}
		cli_detail("worker %d is user %lu's", (int)spare->pid, (unsigned long)t->uid);
	}
}

/* Returns a worker of the tenant that share_is_before() serves last; NULL if that is the tenant
 * that waits. */
static struct process *find_busy(struct supervisor *s, uint64_t now)
{
	const struct tenant *needy = find_needy(s);
	struct process *busy = NULL;

	for (struct process *p = s->processes; needy && p < s->processes + SERVE_WORKERS_MAX; p++) {
		if (p->pid && !p->draining && p->tenant && now - p->given_ns >= TENURE_NS &&
		    !(is_idle(p) && was_just_quoted(p, now)) &&
		    share_is_before(share_of(s, needy), share_of(s, p->tenant)) &&
		    (!busy || share_is_before(share_of(s, busy->tenant), share_of(s, p->tenant)))) {
			busy = p;
		}
	}
	return busy;
}

static void press(struct supervisor *s, uint64_t now)
{
	if (now < s->press_ns) {
		return;
	}
	s->press_ns = now + PRESS_PAUSE_NS;
	for (struct process *p = s->processes; p < s->processes + SERVE_WORKERS_MAX; p++) {
		const bool wanted = s->lacking > 0 || (p->tenant && p->tenant->awaits);

		if (p->pid && p->control >= 0 && wanted &&
		    (process_requests(p) > 0 || p->said.sessions > 0)) {
			(void)wire_say(p->control, WIRE_PRESS);
		}
	}
}

/* Takes a worker from its tenant when others wait and no more may start. A busy worker finishes
 * what it has begun; its tenant's next batches wait as others do. leaving: idle workers that
 * already drain, and so make room. */
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

/* Starts the spare workers that the options ask for, and one for each tenant that waits without
 * one, within the limit. During a reload, one more may run. */
void workers_keep(struct supervisor *s)
{
	unsigned wanted = s->stopping ? s->lacking : s->server->ahead + s->lacking;
	unsigned all = 0, ready = 0, leaving = 0; /* ready: without a tenant, ready or starting */
	struct sgpu_error error = { 0 };
	struct process *p;

	for (int i = 0; i < SERVE_WORKERS_MAX; i++) {
		p = &s->processes[i];
		all += p->pid != 0;
		leaving += p->pid && p->draining && is_idle(p);
		ready += p->pid && !p->draining && !(p->ready && p->tenant) &&
			 p->generation == s->newest;
	}

	if (s->awaiting > 0) {
		press(s, sgpu_now_ns());
	}
	if (s->ending || (s->stopping && wanted == 0) || sgpu_now_ns() < s->start_ns) {
		return;
	}
	wanted = wanted ? wanted : is_reloading(s) || !s->served;
	for (unsigned coming = ready; coming < wanted; coming++) {
		if (all >= s->server->workers + (is_reloading(s) && coming == 0) ||
		    all >= SERVE_WORKERS_MAX) {
			if (ready < s->lacking) {
				make_room(s, leaving);
			}
			return;
		}
		for (p = s->processes; p->pid; p++) {
		}
		if (process_start(s->server, p, &error) == SGPU_OK) {
			p->generation = s->newest;
		} else {
			cli_warning("no worker: %s", error.text);
			s->failures++;
			s->start_ns = sgpu_now_ns() + START_PAUSE_NS;
		}
		all++;
	}
}

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

static uint64_t pause_after(unsigned failures)
{
	return START_PAUSE_NS << (failures < START_PAUSES_MAX ? failures : START_PAUSES_MAX);
}

/* Takes a dead worker from its tenant, which gets another after a pause. A tenant whose workers die
 * soon waits longer, and delays no other. */
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

/* Reads a worker's messages: it is ready, then its counters have changed. After anything else, or a
 * hang-up, the worker is killed. */
void workers_hear(struct supervisor *s, struct process *p)
{
	struct wire_ready ready; /* its keys are not used here */
	int rc = p->ready ? SGPU_OK
			  : wire_receive(p->control, WIRE_READY, &ready, sizeof(ready), NULL, 0,
					 NULL);

	if (p->ready) { /* there is something to count */
		rc = wire_hear(p->control, WIRE_NOTE, NULL);
	}
	if (rc == SGPU_ETIMEOUT || (rc == SGPU_OK && p->ready)) {
		return;
	}
	if (rc != SGPU_OK) {
		kill(p->pid, SIGKILL); /* workers_reap() sees its end */
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
		s->generation = s->newest;
		dismiss_others(s, s->generation);
		cli_note("new workers serve; those with the keys from before end when their work "
			 "has");
	}
}

/* Reports and clears an ended worker. A spare one that ended soon delays all starts, since no
 * tenant caused that. */
static void bury(struct supervisor *s, struct process *p, int status)
{
	struct tenant *tenant = p->tenant;
	uint64_t lost;

	process_look(p);
	lost = process_in_flight(p);
	if (!p->draining || (lost > 0 && !s->stopping)) {
		cli_warning(WIFSIGNALED(status) ? "worker %d was ended by signal %d; submissions "
						  "that failed with it: %llu"
						: "worker %d ended with status %d; submissions "
						  "that failed with it: %llu",
			    (int)p->pid,
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
			    (unsigned long long)lost);
	}
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
			/* The worker has printed the reason. */
			s->status = WIFEXITED(status) && WEXITSTATUS(status)
					    ? WEXITSTATUS(status)
					    : sgpu_exit_status(SGPU_ESYSTEM);
		} else if (is_reloading(s) && p->generation == s->newest) {
			s->newest = s->generation;
			dismiss_others(s, s->generation);
			cli_warning("no worker starts with the new keys: those from before go on");
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
