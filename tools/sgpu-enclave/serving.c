/* SPDX-License-Identifier: Apache-2.0
 *
 * See serving.h. Runs the batches of the tenant's clients. Its threads wait for events together,
 * and the one that the kernel wakes deals with the event: it runs and answers a batch itself.
 * There are as many threads as processors, and more while some are held up.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "serving.h"

#define MS UINT64_C(1000000)
enum { PRESS_MS = 1000, TICK_MS = 10, GRACE_S = 4 };
/* What an event is of; connections have higher numbers. */
enum { SUPERVISOR, WAKE, SIGNAL, FIRST_NUMBER };

struct serving serving;

static const struct sgpu_error server_ended = {
	.code = SGPU_ESYSTEM,
	.text = "the run was stopped: the server has ended"
};

static struct tending {
	int signal_fd, timer_fd, epoll_fd;
	pthread_mutex_t mutex; /* held except while a thread waits or has a batch */
	pthread_cond_t ended;  /* a thread has */
	bool over;	       /* all threads are to end */
	unsigned threads;      /* that tend */
	unsigned running;      /* those of them that have a batch */
	unsigned spare;	       /* most that wait, and least that are not held up by a batch */
	uint64_t numbers;      /* given to connections so far */
	struct work *work[SERVE_SUBMISSIONS_MAX];
	unsigned count;
	bool ticks;	   /* the timer runs */
	uint64_t drain_ns; /* when draining began */
	bool left;	   /* the supervisor has gone: no work goes on */
} t = { .mutex = PTHREAD_MUTEX_INITIALIZER,
	.ended = PTHREAD_COND_INITIALIZER,
	.numbers = FIRST_NUMBER };

/* ---- one submission ---- */
/* Counts a closed connection and tells the supervisor, which has notes to read if the socket is
 * full, and will see the counter then. A spool's worker sees the answers itself. */
static void count_end(void)
{
	atomic_fetch_add(&serving.counters->ended, 1);
	if (!serving.begin.spool) {
		(void)wire_say(serving.control, WIRE_NOTE);
	}
}

/* once: a single event comes, for one thread; `again` has the next one come. */
static bool watch(int fd, uint64_t number, bool once, bool again)
{
	struct epoll_event event = { .events = EPOLLIN | (once ? EPOLLONESHOT : 0),
				     .data.u64 = number };

	return epoll_ctl(t.epoll_fd, again ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool watch_client(struct work *work)
{
	work->watched = watch(work->connection, work->number, true, work->watched);
	return work->watched;
}

/* Nobody hears the connection any more. It is closed without the mutex: a descriptor in one of its
 * messages may take as long to close as the client likes. */
static void hang_up(struct work *work)
{
	if (work->watched) { /* closing is not enough: the supervisor may have it, too */
		(void)epoll_ctl(t.epoll_fd, EPOLL_CTL_DEL, work->connection, NULL);
	}
	work->watched = false;
	work->gone = true;
}

/* Makes room for another. */
static void remove_work(struct work *work)
{
	unsigned i = 0;

	while (t.work[i] != work) {
		i++;
	}
	t.work[i] = t.work[--t.count];
	free(work);
}

/* From now on hears the client, and tells it that its batch has been taken. */
static void hear_of(struct work *work)
{
	work->heard = watch_client(work);
	if (work->heard && !serving.begin.spool) {
		(void)wire_say(work->connection, WIRE_TAKEN);
	}
}

/* From now on the run can be cancelled. Most clients are heard by tick(), since waking them takes
 * longer than a small batch. If batches are recorded, a client learns before this one is, and does
 * not submit it again should the worker end. */
static int show_run(struct work *work, struct sgpu_run *run, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&t.mutex);
	if (t.left) {
		*error = server_ended;
		rc = error->code;
	} else {
		work->run = run;
		if (serving.enclave->replay) {
			hear_of(work);
		}
	}
	pthread_mutex_unlock(&t.mutex);
	return rc;
}

static void close_files(struct work *work)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(work->fds); i++) {
		sgpu_close(work->fds[i]);
		work->fds[i] = -1;
	}
}

/* A spool's connection waits for the next batch. Any other is closed, with the files, before its
 * place is free: a client for whom this takes long holds up its own place alone. */
static void end_work(struct work *work, struct wire_answer *answer, const struct sgpu_error *error,
		     bool has_gone)
{
	bool stays = serving.begin.spool && !has_gone;

	if (serving.begin.spool) {
		close_files(work); /* of a disk or in memory, and not the next one's */
	}
	pthread_mutex_lock(&t.mutex);
	if (!work->gone) {
		wire_answer(work->connection, answer, error);
	}
	work->run = NULL;
	stays = stays && !work->gone && !t.left && (work->heard || watch_client(work));
	if (!stays) {
		hang_up(work);
		pthread_mutex_unlock(&t.mutex);
		close_files(work);
		close(work->connection);
		pthread_mutex_lock(&t.mutex);
	}
	t.running--;
	work->busy = work->heard = false;
	if (!stays) {
		remove_work(work);
	}
	count_end();
	pthread_mutex_unlock(&t.mutex);
}

/* The mutex is not held. */
static void run_work(struct work *work)
{
	struct sgpu_run *run = NULL;
	struct sgpu_error error = { 0 };
	struct wire_answer answer;
	int rc;

	memset(&answer, 0, sizeof(answer));
	memset(work->fds, -1, sizeof(work->fds));
	rc = work_begin(work, &run, &error);
	rc = rc ? rc : show_run(work, run, &error);
	rc = rc ? rc : sgpu_run_batch(run, &error);
	error.code = rc;
	work_report(work, run, &answer, &error);
	end_work(work, &answer, &error, rc == SGPU_ECANCELED && !run);
	sgpu_run_free(&run);
}

/* A supervisor hands over no more than it said. */
static struct work *take_batch(int connection, const struct wire_take *take)
{
	struct work *work = t.count < serving.begin.submissions ? calloc(1, sizeof(*work)) : NULL;
	struct sgpu_error error;

	if (!work || connection < 0) {
		sgpu_fail(&error, SGPU_ERETRY, "%u submissions are under way, which is the limit",
			  t.count);
		wire_refuse(connection, &error);
		sgpu_close(connection);
		free(work);
		count_end();
		return NULL;
	}
	work->number = t.numbers++;
	work->connection = connection;
	work->uid = take->uid;
	memcpy(work->user, take->user, sizeof(work->user) - 1);
	work->since_ns = take->since_ns;
	work->busy = true;
	t.work[t.count++] = work;
	return work;
}

/* Answers a client that asks for progress; anything else ends the run. Returns a spool's next
 * work. */
static struct work *hear_client(uint64_t number)
{
	struct work *work;
	struct wire_progress answer;
	unsigned i = 0;

	while (i < t.count && t.work[i]->number != number) {
		i++;
	}
	if (i == t.count) {
		return NULL; /* the answer has been sent since */
	}
	work = t.work[i];
	if (!work->busy) { /* the next batch of a spool */
		work->busy = true;
		work->held = false;
		work->since_ns = sgpu_now_ns();
		return work;
	}
	if (!work->run) {
		return NULL; /* it is being closed */
	}
	if (wire_hear(work->connection, WIRE_PROGRESS, NULL) == SGPU_OK) {
		memset(&answer, 0, sizeof(answer));
		sgpu_run_get_progress(work->run, &answer.progress);
		(void)sgpu_wire_send(work->connection, WIRE_PROGRESS_IS, &answer, sizeof(answer),
				     NULL, 0);
		(void)watch_client(work);
	} else {
		hang_up(work);
		sgpu_run_cancel(work->run);
	}
	return NULL;
}

/* ---- events ---- */
/* Nobody knows of this worker any more: it drops its clients. */
static void lose_supervisor(void)
{
	atomic_store(&serving.draining, true);
	t.left = true;
	sessions_end(0);
	for (unsigned i = t.count; i-- > 0;) {
		struct work *work = t.work[i];

		if (work->run) {
			wire_refuse(work->connection, &server_ended); /* before the run stops */
			hang_up(work);
			sgpu_run_cancel(work->run);
		} else if (!work->busy) {
			close(work->connection); /* a spool's, without a batch */
			remove_work(work);
		}
	}
}

/* Others wait for a worker. One that makes room ends even busy sessions after stall_ns. */
static void press(void)
{
	const uint64_t now = sgpu_now_ns(), stall_ns = serving.begin.stall_ns;

	atomic_store(&serving.press_ns, now + PRESS_MS * MS);
	if (atomic_load(&serving.draining) && now - t.drain_ns >= stall_ns) {
		sessions_end(0);
	} else {
		sessions_end(stall_ns > 0 ? stall_ns : 1);
	}
}

/* Handles a message of the supervisor. Returns work that is to run. */
static struct work *hear_supervisor(void)
{
	union {
		struct sgpu_greeting header;
		struct wire_take take;
		struct wire_limits limits;
	} m = { .header = { .kind = 0 } };
	struct work *work = NULL;
	int connection = -1,
	    rc = wire_receive(serving.control, WIRE_KINDS, &m, sizeof(m), &connection, 1, NULL);
	const bool bare = rc == SGPU_OK && connection < 0,
		   alone = bare && m.header.size == sizeof(m.header);

	/* A connection without a descriptor is closed already, and ends as others do. */
	if (m.header.kind == WIRE_TAKE && m.header.size == sizeof(m.take) &&
	    (connection >= 0 || rc == SGPU_ERETRY)) {
		serving.used = true;
		if (m.take.request) {
			requests_take(connection);
		} else {
			work = take_batch(connection, &m.take);
		}
	} else if (alone && m.header.kind == WIRE_DRAIN) {
		atomic_store(&serving.draining, true);
		t.drain_ns = sgpu_now_ns();
	} else if (alone && m.header.kind == WIRE_PRESS) {
		press();
	} else if (bare && m.header.kind == WIRE_LIMITS && m.header.size == sizeof(m.limits)) {
		serve_limits(&m.limits);
	} else if (rc != SGPU_ETIMEOUT) {
		sgpu_close(connection);
		lose_supervisor();
		return NULL;
	}
	(void)watch(serving.control, SUPERVISOR, true, true);
	return work;
}

/* Handles an event. Returns work that is to run. */
static struct work *take_event(void)
{
	struct epoll_event event;
	uint64_t times;
	int ready;

	pthread_mutex_unlock(&t.mutex);
	ready = epoll_wait(t.epoll_fd, &event, 1, -1);
	pthread_mutex_lock(&t.mutex);
	if (ready <= 0 || t.over) {
		return NULL;
	}
	switch (event.data.u64) {
	case SUPERVISOR:
		return hear_supervisor();
	case WAKE:
		(void)!read(serving.wake_fd, &times, sizeof(times));
		return NULL;
	case SIGNAL:
		if (runner_take_signal(t.signal_fd)) {
			atomic_store(&serving.draining, true);
		}
		return NULL;
	default:
		return hear_client(event.data.u64);
	}
}

/* Whether all work handed over has run, also after a signal to end. */
static bool is_over(void)
{
	struct pollfd control = { .fd = serving.control, .events = POLLIN };

	return atomic_load(&serving.draining) && t.count == 0 &&
	       atomic_load(&serving.requests) == 0 && (t.left || poll(&control, 1, 0) <= 0);
}

static void *tend(void *unused);

static void start_thread(void)
{
	t.threads += sgpu_thread_start(NULL, tend, NULL, NULL) == SGPU_OK;
}

static bool tick_later(void)
{
	const struct itimerspec tick = { .it_value.tv_nsec = TICK_MS * MS };

	return timerfd_settime(t.timer_fd, 0, &tick, NULL) == 0;
}

static void *tend(void *unused)
{
	struct work *work;

	pthread_mutex_lock(&t.mutex);
	while (!(t.over = t.over || is_over()) && t.threads - t.running <= t.spare) {
		work = take_event();
		if (!work) {
			continue;
		}
		t.running++;
		if (t.running == t.threads && t.threads < t.spare) {
			start_thread();
		}
		t.ticks = t.ticks || tick_later();
		pthread_mutex_unlock(&t.mutex);
		run_work(work);
		pthread_mutex_lock(&t.mutex);
	}
	if (t.over) {
		(void)eventfd_write(serving.wake_fd, 1); /* the next one that waits */
	}
	t.threads--;
	pthread_cond_signal(&t.ended);
	pthread_mutex_unlock(&t.mutex);
	return unused;
}

/* Every TICK_MS while there is work. A batch that was there at the last tick holds its thread up:
 * the threads without one are to be as many as at first. Has clients be heard. Ends the process,
 * and all runs, if the device does not let go of one. */
static void tick(void)
{
	unsigned held = 0;

	if (pthread_mutex_trylock(&t.mutex) != 0) { /* who has it may hang in a system call */
		(void)tick_later();
		return;
	}
	for (unsigned i = 0; i < t.count; i++) {
		struct work *work = t.work[i];
		struct sgpu_run_progress progress;

		held += work->busy && work->held;
		work->held = work->busy;
		if (work->run) {
			enclave_watch(serving.enclave, work->run, &progress);
		}
		if (work->run && !work->heard && !work->gone) {
			hear_of(work);
		}
	}
	if (t.running == t.threads && t.threads < t.spare + held && !t.over) {
		start_thread();
	}
	t.ticks = t.running > 0 && tick_later();
	pthread_mutex_unlock(&t.mutex);
}

/* Ends the worker some time after its supervisor has gone, even if a thread hangs in a system
 * call, as hang_up() says. Once the process that signs has ended, this worker takes no more work,
 * since nobody could seal to it. */
static void *watch_others(void *unused)
{
	struct pollfd others[] = { { .fd = serving.control },
				   { .fd = signer_fd },
				   { .fd = t.timer_fd, .events = POLLIN } };
	const struct timespec grace = { .tv_sec = GRACE_S };
	uint64_t ticks;

	(void)unused;
	while (poll(others, 3, -1) <= 0 || !others[0].revents) {
		if (others[2].revents && read(t.timer_fd, &ticks, sizeof(ticks)) > 0) {
			tick();
		}
		if (others[1].revents) {
			cli_warning("the process that signs quotes has ended: another worker takes "
				    "the place of this one");
			(void)kill(getpid(), SIGTERM);
			others[1] = (struct pollfd){ .fd = -1 };
		}
	}
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &grace, NULL);
	sgpu_wipe(serving.enclave->keys, ENCLAVE_KEYS_SIZE);
	_exit(sgpu_exit_status(SGPU_ESYSTEM));
}

_Static_assert((int)ENCLAVE_KEYS_MAX <= WIRE_KIDS_MAX, "all keys have a name");

/* Names the keys: a spool's worker leaves batches for other keys alone. */
static bool say_ready(void)
{
	const struct enclave *w = serving.enclave;
	struct wire_ready ready = { .kid_count = (uint64_t)w->key_count,
				    .memory_free = UINT64_MAX };

	for (int i = 0; i < w->device_count; i++) {
		ready.memory_free =
			sgpu_min_u64(ready.memory_free, w->devices[i].about.memory_free);
	}
	for (int i = 0; i < w->key_count; i++) {
		snprintf(ready.kids[i], sizeof(ready.kids[i]), "%s", w->keys[i].kid);
	}
	return sgpu_wire_send(serving.control, WIRE_READY, &ready, sizeof(ready), NULL, 0);
}

static int run_worker(struct sgpu_error *error)
{
	struct enclave *w = serving.enclave;
	struct landlock_needs needs = { .files = NULL };
	int rc = SGPU_OK;

	t.signal_fd = serving.begin.spool ? -1 : runner_signal_fd((const int[]){ SIGTERM, 0 });
	serving.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	t.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!watch(serving.control, SUPERVISOR, true, false) ||
	    !watch(serving.wake_fd, WAKE, false, false) ||
	    (!serving.begin.spool && !watch(t.signal_fd, SIGNAL, false, false))) {
		rc = sgpu_fail_errno(error, "cannot wait for events");
	}
	/* Before any memory is taken, so that all is counted. */
	sgpu_limit_count_in(SGPU_DEVICE_MEMORY, &serving.counters->device_bytes);
	sgpu_limit_count_in(SGPU_HOST_MEMORY, &serving.counters->host_bytes);
	rc = rc ? rc : enclave_open(w, &needs, error);
	rc = rc ? rc : sgpu_thread_start(NULL, watch_others, NULL, error);
	/* Its key is in no file, and has one tenant, like the worker. */
	rc = rc || !w->request->runner.attestation_key ? rc : signer_claim(w, error);
	rc = rc || !serving.begin.leases ? rc : serve_lease_open(serving.begin.leases, error);
	rc = rc ? rc : enclave_start(w, -1, error);
	if (rc == SGPU_OK && say_ready()) {
		t.threads = 1;
		t.spare = sgpu_cpu_count() > 1 ? sgpu_cpu_count() : 2;
		(void)tend(NULL);
		pthread_mutex_lock(&t.mutex);
		while (t.threads > 0) {
			pthread_cond_wait(&t.ended, &t.mutex);
		}
		pthread_mutex_unlock(&t.mutex);
	}
	serve_lease_close();
	return rc;
}

/* WIRE_BEGIN is there already. */
static bool take_begin(void)
{
	struct wire_begin *begin = &serving.begin;
	int counters;

	if (wire_receive(serving.control, WIRE_BEGIN, begin, sizeof(*begin), &counters, 1, NULL) !=
	    SGPU_OK) {
		return false;
	}
	serving.counters = mmap(NULL, sizeof(*serving.counters), PROT_READ | PROT_WRITE, MAP_SHARED,
				counters, 0);
	close(counters);
	return serving.counters != MAP_FAILED && begin->submissions <= SERVE_SUBMISSIONS_MAX &&
	       begin->sessions < WIRE_SESSIONS;
}

int serve(struct enclave *enclave)
{
	const struct run_request *request = enclave->request;
	struct sgpu_error error = { 0 };
	int status;

	serving.enclave = enclave;
	serving.control = (int)request->serve;
	if (runner_given(RUNNER_PASSED "serve ") ||
	    !request->runner.attestation_key != !request->runner.certificate ||
	    fcntl(serving.control, F_SETFD, FD_CLOEXEC) != 0 || !take_begin()) {
		return cli_usage("--serve is for sgpu-serve and sgpu-worker");
	}
	/* A terminal's signals are for the supervisor. SIGTERM is for this worker, unless it is a
	 * spool's, which gives a scheduler's signal its meaning. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, serving.begin.spool ? SIG_IGN : SIG_DFL);
	signal(SIGTTOU, SIG_IGN); /* it writes to the terminal from a background group */
	cli_raise_descriptors();
	enclave->sessions = (enum wire_sessions)serving.begin.sessions;
	if ((enclave->sessions == WIRE_SESSIONS_OWNERS && !request->runner.owners) ||
	    (enclave->sessions != WIRE_SESSIONS_NONE && request->runner.allow_modules)) {
		return cli_usage("sessions of owners need --owners, and none run beside modules");
	}
	enclave->shared_files = !serving.begin.spool; /* with the clients */
	status = enclave_check(enclave);
	if (!status && serving.begin.spool && request->runner.allow_modules &&
	    enclave->owners.count > 1) {
		return cli_usage("a worker that runs modules takes one owner: start one for each");
	}
	status = status ? status : enclave_begin(enclave, NULL);
	return status ? status : run_worker(&error) == SGPU_OK ? 0 : cli_error(&error);
}
