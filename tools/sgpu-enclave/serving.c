/* SPDX-License-Identifier: Apache-2.0
 *
 * See serving.h. Runs the batches of the tenant's clients. One of the threads leads: it waits for
 * messages and hang-ups, and deals with them; nothing that a client sends or omits makes it wait. A
 * batch is run and answered by the thread that received it, after another has taken the lead.
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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "serving.h"

#define MS UINT64_C(1000000)
enum { STUCK_LOOK_MS = 1000, PRESS_MS = 1000, GRACE_S = 4 };
/* What an event is of; connections have higher numbers. */
enum { SUPERVISOR, WAKE, SIGNAL, FIRST_NUMBER };

/* A connection with a client, and its submission; a spool's worker sends the next one there. */
struct work {
	uint64_t number; /* an event may still come for a connection that is closed */
	int connection;	 /* -1: the client has hung up */
	int in_fd, out_fd, manifest_fd;
	uint64_t uid, since_ns; /* since_ns: when the client connected */
	char user[REPORT_USER_MAX];
	struct wire_submit request;
	/* NULL: a spool's worker has nothing under way there. Else only the thread that runs the
	 * batch ends this work. */
	struct sgpu_run *run;
};

struct serving serving;

static struct tending {
	int signal_fd, epoll_fd;
	pthread_mutex_t mutex; /* the leader holds it, too, except while it waits */
	pthread_cond_t changed;
	bool led;	  /* a thread leads */
	bool over;	  /* all threads are to end */
	unsigned threads; /* that tend */
	unsigned running; /* those of them that run a batch */
	uint64_t numbers; /* given to connections so far */
	/* A refused one leaves before the next is taken. */
	struct work *work[SERVE_SUBMISSIONS_MAX + 1];
	unsigned count;
	uint64_t looked_ns; /* last search for runs that do not end */
	bool draining;	    /* takes no work, and ends with the last submission */
	uint64_t drain_ns;  /* when draining began */
	bool left;	    /* the supervisor has gone: no work goes on */
} t = { .mutex = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.numbers = FIRST_NUMBER };

static void *tend(void *unused);

/* ---- one submission ---- */
/* Counts a closed connection and tells the supervisor, which has notes to read if the socket is
 * full, and will see the counter then. A spool's worker sees the answers itself. */
static void count_end(void)
{
	atomic_fetch_add(&serving.counters->ended, 1);
	if (!serving.begin.spool) {
		(void)wire_say(serving.control, WIRE_NOTE, -1);
	}
}

static void close_files(struct work *work)
{
	sgpu_close(work->in_fd);
	sgpu_close(work->out_fd);
	sgpu_close(work->manifest_fd);
	work->in_fd = work->out_fd = work->manifest_fd = -1;
}

static bool watch(int fd, uint64_t number)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = number };

	return epoll_ctl(t.epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void hang_up(struct work *work)
{
	if (work->connection >= 0) {
		/* Closing is not enough: the supervisor may have the socket, too. */
		(void)epoll_ctl(t.epoll_fd, EPOLL_CTL_DEL, work->connection, NULL);
		close(work->connection);
		work->connection = -1;
	}
}

/* Makes room for another. The caller frees `work`. */
static void remove_work(struct work *work)
{
	unsigned i = 0;

	hang_up(work);
	while (t.work[i] != work) {
		i++;
	}
	t.work[i] = t.work[--t.count];
}

/* A spool's worker prints the line of a batch itself. */
static void log_work(const struct work *work, const struct sgpu_error *error,
		     const struct report *report)
{
	const struct report_user by = { .uid = work->uid,
					.name = work->user,
					.reason = error->text };

	if (!serving.begin.spool) {
		report_batch(report, NULL, error->code, &by);
	}
}

/* Runs a batch, and reports to the client and the log. The mutex is not held. */
static void run_work(struct work *work)
{
	const struct enclave *w = serving.enclave;
	struct sgpu_run *run = work->run;
	const struct sgpu_run_result *result = sgpu_run_get_result(run);
	struct wire_answer answer;
	bool stays;
	int rc;

	memset(&answer, 0, sizeof(answer));
	rc = sgpu_run_batch(run, &answer.error);
	answer.error.code = rc;
	if (w->quoted && rc == SGPU_EKEY) {
		(void)sgpu_hint(&answer.error,
				"if it is sealed to the key of a quote, the worker that gave the "
				"quote has ended: ask for a new one with 'sgpu-serve quote'");
	}
	report_collect(run, w, &answer.report);
	answer.response_full = result->response_full;
	answer.response_size = result->response_size;
	serve_count(run, rc, work->since_ns, &answer.report.progress);
	close_files(work);
	/* While its place is taken: a log that nobody reads holds up no more threads. */
	log_work(work, &answer.error, &answer.report);
	pthread_mutex_lock(&t.mutex);
	work->run = NULL; /* before the answer, as the next batch of a spool may follow at once */
	/* A batch of another owner is for another worker. */
	t.draining = t.draining || (result->has_module && w->owners.count > 1);
	if (work->connection >= 0) {
		(void)sgpu_wire_send(work->connection, WIRE_ANSWER, &answer, sizeof(answer), NULL,
				     0);
	}
	stays = serving.begin.spool && work->connection >= 0;
	if (!stays) {
		remove_work(work);
	}
	count_end(); /* which has the supervisor send another */
	pthread_mutex_unlock(&t.mutex);
	sgpu_run_free(&run);
	if (!stays) {
		free(work);
	}
}

/* Returns why a batch may not name regions, or NULL. Signatures do not cover where payloads are, so
 * in a spool a listed owner and the file's owner have to stand for that: only this user can have
 * written the file, and nobody else can write it now, since the kernel gives no lease while anybody
 * has it open for writing. */
static const char *find_region_fault(const struct work *work)
{
	const int fd = work->in_fd;
	struct stat status;

	if (!serving.begin.spool) {
		return work->uid == geteuid() ? NULL
					      : "regions of this runner belong to another user";
	}
	if (serving.enclave->owners.count == 0) {
		return "this worker has no --owners";
	}
	return fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
			       !(status.st_mode & (S_IWGRP | S_IWOTH)) && status.st_nlink == 1 &&
			       fcntl(fd, F_SETLEASE, F_RDLCK) == 0 &&
			       fcntl(fd, F_SETLEASE, F_UNLCK) == 0
		       ? NULL
		       : "others can write the file of this batch";
}

static int make_run(struct work *work, struct sgpu_error *error)
{
	struct sgpu_submission submission = { .in_fd = work->in_fd,
					      .in_name = work->request.in_name,
					      .out_fd = work->out_fd,
					      .out_name = work->request.out_name,
					      .options = enclave_run_options(serving.enclave) };
	const uint64_t timeout = work->request.timeout_ns, since = work->since_ns;
	const int rc = serve_lease_options(work->request.lease, &submission.options, error);

	submission.options.results = work->request.results[0] ? work->request.results : NULL;
	submission.options.refuse_regions = find_region_fault(work);
	submission.options.manifest = work->request.manifest ? &work->manifest_fd : NULL;
	submission.options.deadline_ns = timeout == 0			? 0
					 : timeout < UINT64_MAX - since ? since + timeout
									: UINT64_MAX;
	return rc < 0 ? rc
		      : sgpu_run_create(serving.enclave->devices[0].runner, &submission, &work->run,
					error);
}

/* Has another thread ready to lead while this one runs a batch. */
static int find_leader(struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (t.threads - t.running < 2) {
		rc = sgpu_thread_start(NULL, tend, NULL, error);
		t.threads += rc == SGPU_OK;
	}
	return rc;
}

/* Reads the client's message, which is there, and makes the run. */
static int begin_work(struct work *work, struct sgpu_error *error)
{
	struct wire_submit *request = &work->request;
	int fds[3], rc;

	rc = wire_receive(work->connection, WIRE_SUBMIT, request, sizeof(*request), fds, 3, error);
	if (rc == SGPU_OK) {
		work->in_fd = fds[0];
		work->out_fd = fds[1];
		work->manifest_fd = fds[2];
		request->in_name[sizeof(request->in_name) - 1] = '\0';
		request->out_name[sizeof(request->out_name) - 1] = '\0';
		request->results[sizeof(request->results) - 1] = '\0';
		if (!serving.begin.spool &&
		    (!wire_takes_batch(work->in_fd) || !wire_takes_response(work->out_fd) ||
		     (request->manifest && !wire_takes_batch(work->manifest_fd)))) {
			rc = sgpu_fail(error, SGPU_EPOLICY,
				       "a file of the batch is not a descriptor that a server "
				       "takes");
		}
	}
	if (rc == SGPU_OK && !serving.begin.spool && !wire_say(work->connection, WIRE_TAKEN, -1)) {
		rc = SGPU_ECANCELED;
	}
	rc = rc ? rc : find_leader(error);
	return rc ? rc : make_run(work, error);
}

/* Starts or refuses the connection's submission. Returns the work if it is to run. */
static struct work *try_work(struct work *work, bool has_room)
{
	static const struct report none;
	struct sgpu_error error = { 0 };
	const int rc = has_room ? begin_work(work, &error)
				: sgpu_fail(&error, SGPU_ERETRY,
					    "%u submissions are under way, which is the limit",
					    (unsigned)serving.begin.submissions);

	if (rc == SGPU_OK) {
		return work;
	}
	error.code = rc == SGPU_ETIMEOUT ? SGPU_EINVALID : rc; /* the client sent nothing */
	if (rc != SGPU_ECANCELED) {
		wire_refuse(work->connection, &error);
	}
	serve_count(NULL, error.code, work->since_ns, &none.progress);
	log_work(work, &error, &none);
	close_files(work);
	if (rc == SGPU_ECANCELED || !has_room || !serving.begin.spool) {
		remove_work(work);
		free(work);
	}
	count_end();
	return NULL;
}

static struct work *take_batch(int connection, const struct wire_take *take)
{
	struct work *work = calloc(1, sizeof(*work));

	if (!work || !watch(connection, t.numbers)) {
		free(work);
		sgpu_close(connection);
		count_end();
		return NULL;
	}
	work->number = t.numbers++;
	work->connection = connection;
	work->in_fd = work->out_fd = work->manifest_fd = -1;
	work->uid = take->uid;
	memcpy(work->user, take->user, sizeof(work->user) - 1);
	work->since_ns = take->since_ns;
	t.work[t.count++] = work;
	return try_work(work, t.count <= serving.begin.submissions);
}

/* Answers a client that asks for progress; anything else ends the run. Returns a spool's next
 * work. */
static struct work *hear_client(uint64_t number)
{
	struct work *work;
	struct wire_progress answer;
	unsigned i = 0;
	int rc;

	while (i < t.count && t.work[i]->number != number) {
		i++;
	}
	if (i == t.count) {
		return NULL; /* the answer has been sent since */
	}
	work = t.work[i];
	if (!work->run) { /* the next batch of a spool */
		work->since_ns = sgpu_now_ns();
		return try_work(work, true);
	}
	rc = wire_hear(work->connection, WIRE_PROGRESS, NULL, NULL);
	if (rc == SGPU_OK) {
		memset(&answer, 0, sizeof(answer));
		sgpu_run_get_progress(work->run, &answer.progress);
		(void)sgpu_wire_send(work->connection, WIRE_PROGRESS_IS, &answer, sizeof(answer),
				     NULL, 0);
	} else if (rc != SGPU_ETIMEOUT) {
		hang_up(work);
		sgpu_run_cancel(work->run);
	}
	return NULL;
}

/* ---- the leader ---- */
/* Handles a message of the supervisor. When that has gone, drops the clients, since nobody knows of
 * this worker any more. Returns work that is to run. */
static struct work *hear_supervisor(void)
{
	static const struct sgpu_error ended = {
		.code = SGPU_ESYSTEM, .text = "the run was stopped: the server has ended"
	};
	struct wire_take take;
	enum wire_kind kind;
	int connection = -1, rc;

	if (wire_peek(serving.control, &kind, NULL) == SGPU_ETIMEOUT) {
		return NULL;
	}
	rc = kind == WIRE_TAKE ? wire_receive(serving.control, kind, &take, sizeof(take),
					      &connection, 1, NULL)
			       : SGPU_EINVALID;
	/* A connection without a descriptor is closed already, and ends as others do. */
	if (rc == SGPU_OK || rc == SGPU_ERETRY) {
		if (!take.request) {
			return take_batch(connection, &take);
		}
		requests_take(connection);
	} else if (kind == WIRE_DRAIN && wire_hear(serving.control, kind, NULL, NULL) == SGPU_OK) {
		t.draining = true;
		t.drain_ns = sgpu_now_ns();
	} else if (kind == WIRE_PRESS && wire_hear(serving.control, kind, NULL, NULL) == SGPU_OK) {
		atomic_store(&serving.press_ns, sgpu_now_ns() + PRESS_MS * MS);
		/* A worker that makes room ends even busy sessions after stall_ns. */
		sessions_end(t.draining && sgpu_now_ns() - t.drain_ns >= serving.begin.stall_ns ? 0
			     : serving.begin.stall_ns > 0 ? serving.begin.stall_ns
							  : 1);
	} else if (!(kind == WIRE_LIMITS && serve_limits_take()) && !t.left) {
		t.draining = t.left = true;
		(void)epoll_ctl(t.epoll_fd, EPOLL_CTL_DEL, serving.control, NULL);
		sessions_end(0);
		for (unsigned i = t.count; i-- > 0;) {
			struct work *work = t.work[i];

			wire_refuse(work->connection, &ended); /* before the run stops */
			if (work->run) {
				hang_up(work);
				sgpu_run_cancel(work->run);
			} else {
				remove_work(work);
				free(work);
			}
		}
	}
	return NULL;
}

/* Ends the process, and all runs, if the device does not let go of one. */
static void look_for_stuck(void)
{
	const uint64_t now = sgpu_now_ns();

	if (now - t.looked_ns < STUCK_LOOK_MS * MS) {
		return;
	}
	t.looked_ns = now;
	for (unsigned i = 0; i < t.count; i++) {
		struct sgpu_run_progress progress;

		if (!t.work[i]->run) {
			continue;
		}
		sgpu_run_get_progress(t.work[i]->run, &progress);
		if (progress.stopping_ns > ENCLAVE_STUCK_NS) {
			enclave_give_up();
		}
	}
}

/* Handles an event. Returns work that is to run. */
static struct work *take_event(void)
{
	const int wait_ms = t.count > 0 ? STUCK_LOOK_MS : -1;
	struct epoll_event event;
	uint64_t times;
	int ready;

	pthread_mutex_unlock(&t.mutex);
	ready = epoll_wait(t.epoll_fd, &event, 1, wait_ms);
	pthread_mutex_lock(&t.mutex);
	look_for_stuck(); /* each time: a client that never stops asking cannot prevent it */
	if (ready <= 0) {
		return NULL;
	}
	switch (event.data.u64) {
	case SUPERVISOR:
		return hear_supervisor();
	case WAKE:
		(void)!read(serving.wake_fd, &times, sizeof(times));
		return NULL;
	case SIGNAL:
		t.draining = t.draining || cli_take_signal(t.signal_fd);
		return NULL;
	default:
		return hear_client(event.data.u64);
	}
}

/* Whether all work handed over has run, also after a signal to end. */
static bool is_over(void)
{
	struct pollfd control = { .fd = serving.control, .events = POLLIN };

	return t.draining && t.count == 0 && atomic_load(&serving.requests) == 0 &&
	       (t.left || poll(&control, 1, 0) <= 0);
}

static void *tend(void *unused)
{
	pthread_mutex_lock(&t.mutex);
	while (!t.over) {
		struct work *work;

		if (t.led) {
			pthread_cond_wait(&t.changed, &t.mutex);
			continue;
		}
		t.led = true;
		work = take_event();
		t.led = false;
		t.over = !work && is_over();
		if (work) {
			t.running++;
			pthread_cond_signal(&t.changed);
			pthread_mutex_unlock(&t.mutex);
			run_work(work);
			pthread_mutex_lock(&t.mutex);
			t.running--;
			if (t.draining) {
				(void)eventfd_write(serving.wake_fd, 1); /* it may be over */
			}
		}
	}
	t.threads--;
	pthread_cond_broadcast(&t.changed);
	pthread_mutex_unlock(&t.mutex);
	return unused;
}

/* Ends the worker some time after its supervisor has gone, even if the leader hangs in a system
 * call: a client may send a descriptor whose closing takes as long as the client likes. Once the
 * process that signs has ended, this worker takes no more work, since nobody could seal to it. */
static void *watch_others(void *unused)
{
	struct pollfd others[] = { { .fd = serving.control }, { .fd = signer_fd() } };
	const struct timespec grace = { .tv_sec = GRACE_S };

	(void)unused;
	while (poll(others, 2, -1) <= 0 || !others[0].revents) {
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
	struct sgpu_device_info info;
	struct wire_ready ready = { .kid_count = (uint64_t)w->key_count,
				    .memory_free = UINT64_MAX };

	for (int i = 0; i < w->device_count; i++) {
		(void)!sgpu_device_get_info(w->devices[i].device, &info, NULL);
		ready.memory_free = sgpu_min_u64(ready.memory_free, info.memory_free);
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

	t.signal_fd = serving.begin.spool ? -1 : cli_signal_fd(SIGTERM);
	serving.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t.epoll_fd < 0 || !watch(serving.control, SUPERVISOR) ||
	    !watch(serving.wake_fd, WAKE) ||
	    (!serving.begin.spool && !watch(t.signal_fd, SIGNAL))) {
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
		(void)tend(NULL);
		pthread_mutex_lock(&t.mutex);
		while (t.threads > 0) {
			pthread_cond_wait(&t.changed, &t.mutex);
		}
		pthread_mutex_unlock(&t.mutex);
	}
	serve_lease_close();
	enclave_stop(w);
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

static const char of_workers[] = " key owners files device jobs state replay-window allow-modules "
				 "attestation-key certificate serve ";

int serve(struct enclave *enclave)
{
	const struct run_request *request = enclave->request;
	struct sgpu_error error = { 0 };
	int status;

	serving.enclave = enclave;
	serving.control = (int)request->serve;
	if (cli_given(run_options, request, of_workers) ||
	    !request->runner.attestation_key != !request->runner.certificate ||
	    fcntl(serving.control, F_SETFD, FD_CLOEXEC) != 0 || !take_begin()) {
		return cli_usage("--serve is for sgpu-serve and sgpu-worker");
	}
	/* A terminal's signals are for the supervisor. SIGTERM is for this worker, unless it is a
	 * spool's, which gives a scheduler's signal its meaning. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, serving.begin.spool ? SIG_IGN : SIG_DFL);
	signal(SIGIO, SIG_IGN);	  /* sent when others open a file held by F_SETLEASE */
	signal(SIGTTOU, SIG_IGN); /* it writes to the terminal from a background group */
	cli_raise_descriptors();
	enclave->sessions = (enum wire_sessions)serving.begin.sessions;
	if ((enclave->sessions == WIRE_SESSIONS_OWNERS && request->runner.owners.count == 0) ||
	    (enclave->sessions != WIRE_SESSIONS_NONE && request->runner.allow_modules)) {
		return cli_usage("sessions of owners need --owners, and none run beside modules");
	}
	enclave->runner.shared_files = !serving.begin.spool; /* with the clients */
	status = enclave_check(enclave);
	if (!status && serving.begin.spool && request->runner.allow_modules &&
	    enclave->owners.count > 1) {
		return cli_usage("a worker that runs modules takes one owner: start one for each");
	}
	status = status ? status : enclave_begin(enclave, NULL);
	return status ? status : run_worker(&error) == SGPU_OK ? 0 : cli_error(&error);
}
