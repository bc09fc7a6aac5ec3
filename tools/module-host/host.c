/* SPDX-License-Identifier: Apache-2.0
 *
 * The host: makes workers for the device that started it, watches them, and tells how each ended.
 */
#include "host.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct worker {
	pid_t pid;		       /* 0: the place is free */
	int process, report, listener; /* pidfd; to the device; of its calls; or -1 */
	bool loaded;
	int call;		 /* the refused call, or -1 */
	char name[32], path[32]; /* of the call; of the image's copy, or "" */
};

static struct worker workers[SGPU_HOST_WORKERS];
static struct sgpu_module_confinement confinement;

static void forget(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
	}
	*fd = -1;
}

static bool place_image(struct worker *worker, int image)
{
	ssize_t copied = 1;
	off_t at = 0;
	int to;

	if (!confinement.root) {
		return true;
	}
	snprintf(worker->path, sizeof(worker->path), "/module.%d", (int)(worker - workers));
	to = open(worker->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	while (to >= 0 && copied > 0) {
		copied = sendfile(to, image, &at, 1 << 30);
	}
	forget(&to);
	return copied == 0;
}

/* Keeps only the descriptors that the worker needs. Each had the lowest free number, the image
 * first: that may be 4, and the other two are above 5. */
static _Noreturn void become_worker(const struct worker *worker, int image, int channel,
				    int handoff)
{
	/* whatever the limits are by now: 3 would stay the control socket */
	if (dup2(image, WORKER_IMAGE) < 0 || dup2(channel, WORKER_CHANNEL) < 0 ||
	    dup2(handoff, WORKER_HANDOFF) < 0 ||
	    close_range(confinement.root ? WORKER_IMAGE : WORKER_IMAGE + 1, ~0U, 0) != 0) {
		_exit(1);
	}
	worker_run(confinement.root ? worker->path : NULL, confinement.landlock);
}

/* Waits until the worker is confined or has ended. Returns 0 or an errno. */
static int start_worker(struct worker *worker, int image, int channel)
{
	int handoff[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, handoff) != 0) {
		return errno;
	}
	worker->pid = fork();
	if (worker->pid == 0) {
		become_worker(worker, image, channel, handoff[1]);
	}
	close(handoff[1]);
	/* one that was not confined is reported as ended */
	if (worker->pid > 0) {
		worker->process = (int)syscall(SYS_pidfd_open, worker->pid, 0);
		(void)sgpu_host_receive(handoff[0], &byte, 1, &worker->listener, 1);
	}
	close(handoff[0]);
	return worker->process < 0 ? EAGAIN : 0;
}

/* Ends a worker that has not ended by itself, and tells the device how it ended. */
static void end_worker(struct worker *worker)
{
	struct sgpu_host_answer answer = { .kind = SGPU_HOST_ENDED, .call = worker->call };

	if (worker->pid > 0) {
		kill(worker->pid, SIGKILL);
		(void)waitpid(worker->pid, &answer.status, 0);
	}
	memcpy(answer.text, worker->name, sizeof(worker->name));
	/* the only message over this socket, whose other end may be closed */
	(void)sgpu_host_send(worker->report, &answer, sizeof(answer), -1);
	unlink(worker->path);
	forget(&worker->process);
	forget(&worker->report);
	forget(&worker->listener);
	worker->pid = 0;
}

/* Also makes the device's ends of the worker's sockets. Returns 0 or an errno. */
static int make_worker(int image, int fds[SGPU_HOST_DESCRIPTORS])
{
	struct worker *worker = workers;
	int channel[2], report[2], rc;

	while (worker < workers + SGPU_HOST_WORKERS && worker->pid) {
		worker++;
	}
	if (worker == workers + SGPU_HOST_WORKERS) {
		return EUSERS;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) {
		return errno;
	}
	fds[SGPU_HOST_CHANNEL] = channel[0];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report) != 0) {
		close(channel[1]);
		return EMFILE;
	}
	fds[SGPU_HOST_REPORT] = report[0];
	*worker = (struct worker){ .process = -1, .report = report[1], .listener = -1, .call = -1 };
	rc = place_image(worker, image) ? start_worker(worker, image, channel[1]) : ENOSPC;
	if (rc != 0) {
		end_worker(worker);
	}
	close(channel[1]);
	return rc;
}

/* False: the device is gone. */
static bool answer_request(void)
{
	int image, fds[SGPU_HOST_DESCRIPTORS] = { -1, -1 };
	int32_t code;
	char byte;
	bool good;

	if (!sgpu_host_receive(SGPU_HOST_CONTROL, &byte, 1, &image, 1) || image < 0) {
		return false;
	}
	code = make_worker(image, fds);
	close(image);
	good = sgpu_send_descriptors(SGPU_HOST_CONTROL, &code, sizeof(code), fds,
				     code ? 0 : SGPU_HOST_DESCRIPTORS, 0);
	forget(&fds[SGPU_HOST_CHANNEL]);
	forget(&fds[SGPU_HOST_REPORT]);
	return good;
}

/* ---- refused calls ---- */
#define WRITING (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND)

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0) {
		names++;
	}
	return *names != NULL;
}

/* Calls that the C library makes later, too, and can do without. */
static const char *const in_passing[] = { "newfstatat", "statx", "stat", "lstat", NULL };

/* Whether the loader makes this call. It opens for reading. Code is a private mapping of a file;
 * other code could still be written. */
static bool loads(const char *name, const __u64 *arguments, bool by_loader)
{
	static const char *const others[] = { "readlink",  "readlinkat", "access",
					      "faccessat", "faccessat2", "getcwd",
					      "statfs",	   "fstatfs",	 NULL };

	if (strcmp(name, "mmap") == 0) {
		return by_loader && (arguments[2] & (PROT_EXEC | PROT_WRITE)) == PROT_EXEC &&
		       (arguments[3] & (MAP_TYPE | MAP_ANONYMOUS)) == MAP_PRIVATE;
	}
	if (strcmp(name, "open") == 0 || strcmp(name, "openat") == 0) {
		return !(arguments[name[4] ? 2 : 1] & WRITING);
	}
	return is_one_of(name, others) || is_one_of(name, in_passing);
}

/* Decides on a system call that the filter does not list, in which the worker is blocked. A
 * forbidden call kills the worker, so it is never carried out. An allowed one is carried out later:
 * so only the loading thread may map code, and it alone says that all is loaded, once its code is
 * mapped. The device's memory, which could become code before that, is received afterwards. */
static void decide(struct worker *worker, const struct seccomp_notif *request,
		   struct seccomp_notif_resp *response)
{
	char *text = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, request->data.nr);
	const char *name = text ? text : "";
	const __u64 *arguments = request->data.args;
	const bool by_loader = request->pid == (uint32_t)worker->pid;

	response->id = request->id;
	if (strcmp(name, "prctl") == 0 && arguments[0] == HOST_ALL_LOADED && by_loader) {
		worker->loaded = true;
		unlink(worker->path);
	} else if (worker->loaded ? strcmp(name, "recvmsg") == 0 && arguments[0] == WORKER_CHANNEL
				  : loads(name, arguments, by_loader)) {
		response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	} else if (worker->loaded && is_one_of(name, in_passing)) {
		response->error = -EPERM;
	} else {
		if (worker->call < 0) {
			worker->call = request->data.nr;
			snprintf(worker->name, sizeof(worker->name), "%s", name);
		}
		kill(worker->pid, SIGKILL);
	}
	free(text);
	if (worker->call < 0) {
		(void)seccomp_notify_respond(worker->listener, response);
	}
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

static void serve(void)
{
	struct pollfd fds[1 + 3 * SGPU_HOST_WORKERS];

	for (;;) {
		/* poll() takes no more entries than this process may have descriptors */
		nfds_t count = 1;

		fds[0] = (struct pollfd){ .fd = SGPU_HOST_CONTROL, .events = POLLIN };
		for (int i = 0; i < SGPU_HOST_WORKERS; i++) {
			const bool there = workers[i].pid > 0;
			struct pollfd *of = &fds[1 + 3 * i];

			/* Without events: only tells that the device has closed its end. */
			of[0] = (struct pollfd){ .fd = there ? workers[i].report : -1 };
			of[1] = (struct pollfd){ .fd = there ? workers[i].listener : -1,
						 .events = POLLIN };
			of[2] = (struct pollfd){ .fd = there ? workers[i].process : -1,
						 .events = POLLIN };
			count = there ? 4 + 3 * (nfds_t)i : count;
		}
		if (poll(fds, count, -1) < 0 && errno != EINTR) {
			return;
		}
		for (int i = 0; i < SGPU_HOST_WORKERS; i++) {
			const struct pollfd *of = &fds[1 + 3 * i];

			if (of[1].revents & POLLIN) {
				listen_to(&workers[i]);
			} else if (of[1].revents) { /* its memory may take long to go */
				forget(&workers[i].listener);
			}
			if ((of[0].revents & (POLLHUP | POLLERR)) || of[2].revents) {
				end_worker(&workers[i]);
			}
		}
		if (fds[0].revents && !answer_request()) {
			return;
		}
	}
}

int host_main(int argc, char **argv)
{
	const struct rlimit none = { 0, 0 };
	struct rlimit files;
	socklen_t size = sizeof(int);
	int kind;

	(void)argv;
	prctl(PR_SET_DUMPABLE, 0);
	if (argc != 1 || getsockopt(SGPU_HOST_CONTROL, SOL_SOCKET, SO_TYPE, &kind, &size) != 0 ||
	    kind != SOCK_SEQPACKET) {
		fputs(SGPU_HOST_PROGRAM " runs modules of the CPU device; sgpu-enclave starts it, "
					"nobody else does\n",
		      stderr);
		return 2;
	}
	prctl(PR_SET_NAME, SGPU_HOST_PROGRAM);
	clearenv();
	if (close_range(SGPU_HOST_CONTROL + 1, ~0U, 0) != 0) {
		return 1;
	}
	root_enter(&confinement);
	prctl(PR_SET_DUMPABLE, 0); /* a new namespace may have set it */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)setrlimit(RLIMIT_CORE, &none);
	/* The kernel also counts against this what all of the user's programs are sending. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	worker_try(&confinement);
	if (!sgpu_host_send(SGPU_HOST_CONTROL, &confinement, sizeof(confinement), -1)) {
		return 1;
	}
	serve();
	return 0; /* workers end with their parent, if not with the namespace */
}
