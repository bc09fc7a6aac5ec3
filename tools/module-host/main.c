/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-module-host: makes workers for the device that started it, watches them, and tells how each
 * ended.
 */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if SGPU_SECCOMP
#include <seccomp.h>
#include <linux/seccomp.h>
#endif

enum { WORKERS = SGPU_HOST_WORKERS, PLACES = 2 + 2 * WORKERS, DESCRIPTORS = 1024 };

struct worker {
	pid_t pid;	      /* 0: the place is free */
	int report, listener; /* socket that tells the device how it ended; the filter's listener;
			       * or -1 */
	bool loaded;
	int call;    /* the refused call, or -1 */
	int channel; /* the worker's descriptor of its channel */
	char path[HOST_IMAGE_PATH];
};

static struct worker workers[WORKERS];
static struct sgpu_module_confinement confinement;
static unsigned images;
static int ended_fd;

/* ---- workers ---- */
static void forget_descriptor(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
	}
	*fd = -1;
}

/* In the child: closes all descriptors of the host but those that the worker needs, and becomes the
 * worker. */
static _Noreturn void become_worker(const struct worker_start *start)
{
	sigset_t none;

	for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++) {
		if (fd != start->channel && fd != start->handoff &&
		    (start->in_root || fd != start->image)) {
			close(fd);
		}
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	worker_run(start);
}

/* Starts a worker, and waits until it is confined or has ended. */
static bool start_worker(struct worker *worker, int channel, int image, uint8_t *landlock)
{
	struct worker_start start = { .channel = channel,
				      .image = image,
				      .in_root = confinement.root };
	int handoff[2];
	bool good;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, handoff) != 0) {
		return false;
	}
	memcpy(start.path, worker->path, sizeof(start.path));
	start.handoff = handoff[1];
	worker->call = -1;
	worker->channel = channel;
	worker->loaded = false;
	worker->pid = fork();
	if (worker->pid == 0) {
		become_worker(&start);
	}
	close(handoff[1]);
	good = worker->pid > 0 &&
	       sgpu_host_receive(handoff[0], landlock, sizeof(*landlock), &worker->listener);
	close(handoff[0]);
	return good;
}

static void tell_end(struct worker *worker, int status)
{
	struct sgpu_host_answer answer;

	memset(&answer, 0, sizeof(answer));
	answer.kind = SGPU_HOST_ENDED;
	answer.status = status;
	answer.call = worker->call;
	if (worker->call >= 0) {
		filter_name(worker->call, answer.text, sizeof(answer.text));
	}
	if (worker->report >= 0) {
		/* the only message over this socket */
		(void)sgpu_host_send(worker->report, &answer, sizeof(answer), -1);
	}
	root_remove(&confinement, worker->path);
	forget_descriptor(&worker->report);
	forget_descriptor(&worker->listener);
	worker->pid = 0;
}

static void reap(void)
{
	struct signalfd_siginfo note;
	int status;
	pid_t pid;

	(void)!read(ended_fd, &note, sizeof(note));
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < WORKERS; i++) {
			if (workers[i].pid == pid) {
				tell_end(&workers[i], status);
			}
		}
	}
}

/* ---- refused calls ---- */
#if SGPU_SECCOMP
/* Decides on a system call, in which the worker is blocked. A forbidden call kills the worker, so
 * it is never carried out. */
static void decide(struct worker *worker, const struct seccomp_notif *request,
		   struct seccomp_notif_resp *response)
{
	enum host_verdict verdict = filter_verdict(
		request->data.nr, (const uint64_t *)request->data.args, worker->channel);
	/* An allowed call is carried out some time after this. So only the loading thread may map
	 * code, and it alone says that all is loaded, after its code is mapped. */
	const bool loader = request->pid == (uint32_t)worker->pid;
	const bool now = worker->loaded ? verdict == HOST_SERVE
			 : request->data.nr == SYS_mmap
				 ? verdict == HOST_LOAD && loader
				 : verdict == HOST_LOAD || verdict == HOST_LOAD_SOFT;

	response->id = request->id;
	if (request->data.nr == SYS_prctl && request->data.args[0] == HOST_ALL_LOADED && loader) {
		worker->loaded = true;
		root_remove(&confinement, worker->path);
		worker->path[0] = '\0';
	} else if (now) {
		response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	} else if (verdict == HOST_LOAD_SOFT) { /* refused, since all is loaded */
		response->error = -EPERM;
	} else {
		worker->call = worker->call >= 0 ? worker->call : request->data.nr;
		kill(worker->pid, SIGKILL);
		return;
	}
	(void)seccomp_notify_respond(worker->listener, response);
}

static void listen_to(struct worker *worker)
{
	struct seccomp_notif *request = NULL;
	struct seccomp_notif_resp *response = NULL;

	if (seccomp_notify_alloc(&request, &response) != 0) {
		kill(worker->pid, SIGKILL);
		return;
	}
	if (seccomp_notify_receive(worker->listener, request) == 0) {
		decide(worker, request, response);
	}
	seccomp_notify_free(request, response);
}
#else
static void listen_to(struct worker *worker)
{
	forget_descriptor(&worker->listener);
}
#endif

/* ---- the device's requests ---- */
static int make_worker(int image, int *channel, int *report)
{
	struct worker *worker = workers;
	uint8_t landlock;
	int ends[2] = { -1, -1 }, reports[2] = { -1, -1 }, rc = 0;

	while (worker < workers + WORKERS && worker->pid) {
		worker++;
	}
	if (worker == workers + WORKERS) {
		return EUSERS;
	}
	worker->report = worker->listener = -1;
	if (!root_place(&confinement, image, images++, worker->path)) {
		rc = ENOSPC;
	} else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 ||
		   socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reports) != 0) {
		rc = EMFILE;
	} else {
		*channel = ends[0];
		*report = reports[0];
		worker->report = reports[1];
		(void)start_worker(worker, ends[1], image, &landlock);
		forget_descriptor(&ends[1]);
		if (worker->pid > 0) {
			return 0; /* a worker that ended before it was confined is reported as ended
				   */
		}
		rc = EAGAIN;
	}
	worker->pid = 0;
	root_remove(&confinement, worker->path);
	forget_descriptor(&ends[0]);
	forget_descriptor(&ends[1]);
	forget_descriptor(&reports[0]);
	forget_descriptor(&reports[1]);
	worker->report = *channel = *report = -1;
	return rc;
}

/* Answers a request of the device. False: the device is gone. */
static bool answer_request(void)
{
	struct sgpu_host_answer answer;
	struct sgpu_host_request request;
	int image = -1, channel = -1, report = -1;
	bool good;

	if (!sgpu_host_receive(SGPU_HOST_CONTROL, &request, sizeof(request), &image) || image < 0 ||
	    request.version != SGPU_HOST_VERSION) {
		return false;
	}
	memset(&answer, 0, sizeof(answer));
	answer.kind = SGPU_HOST_STARTED;
	answer.code = make_worker(image, &channel, &report);
	close(image);
	good = sgpu_host_send(SGPU_HOST_CONTROL, &answer, sizeof(answer), channel) &&
	       sgpu_host_send(SGPU_HOST_CONTROL, &answer, sizeof(answer), report);
	forget_descriptor(&channel);
	forget_descriptor(&report);
	return good;
}

static void serve(void)
{
	struct pollfd fds[PLACES];

	for (;;) {
		/* poll() takes no more entries than this process may have descriptors */
		nfds_t count = 2;

		fds[0] = (struct pollfd){ .fd = SGPU_HOST_CONTROL, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = ended_fd, .events = POLLIN };
		for (int i = 0; i < WORKERS; i++) {
			bool there = workers[i].pid > 0;

			/* Without events, only tells that the device has closed its end, to end the
			 * worker. */
			fds[2 + 2 * i] = (struct pollfd){ .fd = there ? workers[i].report : -1 };
			fds[3 + 2 * i] = (struct pollfd){ .fd = there ? workers[i].listener : -1,
							  .events = POLLIN };
			count = there ? 4 + 2 * (nfds_t)i : count;
		}
		if (poll(fds, count, -1) < 0 && errno != EINTR) {
			return;
		}
		for (int i = 0; i < WORKERS; i++) {
			if (workers[i].pid > 0 && fds[2 + 2 * i].revents & (POLLHUP | POLLERR)) {
				forget_descriptor(&workers[i].report);
				kill(workers[i].pid, SIGKILL);
			}
			if (workers[i].pid > 0 && fds[3 + 2 * i].revents & POLLIN) {
				listen_to(&workers[i]);
			} else if (workers[i].pid > 0 && fds[3 + 2 * i].revents) {
				forget_descriptor(&workers[i].listener);
			}
		}
		if (fds[1].revents) {
			reap();
		}
		if (fds[0].revents && !answer_request()) {
			return;
		}
	}
}

/* ---- start ---- */
static bool say_hello(void)
{
	struct worker trial = { .report = -1, .listener = -1 };
	struct sgpu_host_answer answer;
	int status;

	(void)start_worker(&trial, -1, -1, &confinement.landlock);
	confinement.seccomp = trial.listener >= 0;
	forget_descriptor(&trial.listener);
	while (trial.pid > 0 && waitpid(trial.pid, &status, 0) < 0 && errno == EINTR) {
	}
	memset(&answer, 0, sizeof(answer));
	answer.kind = SGPU_HOST_HELLO;
	answer.confinement = confinement;
	return sgpu_host_send(SGPU_HOST_CONTROL, &answer, sizeof(answer), -1);
}

static void limit(void)
{
	const struct rlimit none = { 0, 0 }, few = { DESCRIPTORS, DESCRIPTORS };

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)setrlimit(RLIMIT_NOFILE, &few);
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int main(int argc, char **argv)
{
	int kind = 0;
	socklen_t size = sizeof(kind);
	sigset_t ended;

	(void)argv;
	if (argc != 1 || getsockopt(SGPU_HOST_CONTROL, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 ||
	    kind != SOCK_SEQPACKET) {
		fputs("sgpu-module-host runs modules of the CPU device; libsgpu starts it, nobody "
		      "else does\n",
		      stderr);
		return 2;
	}
	prctl(PR_SET_NAME, SGPU_HOST_PROGRAM);
	prctl(PR_SET_DUMPABLE, 0); /* needed if root, who can read every file, starts this */
	if (close_range(SGPU_HOST_CONTROL + 1, ~0U, 0) != 0) {
		return 1;
	}
	root_enter(&confinement);
	root_change(&confinement);
	confinement.capabilities = root_drop();
	limit();
	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	sigprocmask(SIG_SETMASK, &ended, NULL);
	ended_fd = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ended_fd < 0 || !say_hello()) {
		return 1;
	}
	serve();
	return 0; /* workers end with their parent, if not with the namespace */
}
