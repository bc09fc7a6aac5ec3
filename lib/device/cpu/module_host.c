/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that modules run in, as the device sees it: it has a socket to this one and nothing
 * else.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <device/cpu/cpu.h>
#include <device/cpu/module_image.h>
#include <device/cpu/module_message.h>
#include <device/cpu/module_wire.h>

enum { HELLO_MS = 20000 };

static void end(struct sgpu_cpu_host *host)
{
	int status;

	close(host->control); /* what it waits for */
	host->control = -1;
	while (waitpid(host->pid, &status, 0) < 0 && errno == EINTR) {
	}
}

static int start(struct sgpu_cpu_host *host, struct sgpu_error *error)
{
	struct sgpu_host_answer hello = { 0 };
	int ends[2], code;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make a socket for modules");
	}
	code = sgpu_module_host_spawn(ends[1], &host->pid, error);
	close(ends[1]);
	if (code != SGPU_OK) {
		close(ends[0]);
		return code;
	}
	host->control = ends[0];
	if (poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, HELLO_MS) != 1 ||
	    !sgpu_host_receive(ends[0], &hello, sizeof(hello), NULL) ||
	    hello.kind != SGPU_HOST_HELLO) {
		kill(host->pid, SIGKILL);
		end(host);
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "the process that modules run in does not start as it should");
	}
	host->confinement = hello.confinement;
	return SGPU_OK;
}

int sgpu_cpu_host_start(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cpu_host *host = &device->host;
	int code = SGPU_OK;

	pthread_mutex_lock(&host->lock);
	if (host->control < 0) {
		code = start(host, error);
	}
	pthread_mutex_unlock(&host->lock);
	return code;
}

void sgpu_cpu_host_stop(struct sgpu_device *device)
{
	if (device->host.control >= 0) {
		end(&device->host);
	}
}

static void close_both(int *channel, int *report)
{
	if (*channel >= 0) {
		close(*channel);
	}
	if (*report >= 0) {
		close(*report);
	}
	*channel = *report = -1;
}

int sgpu_cpu_host_worker(struct sgpu_device *device, int image, uint64_t size, int *channel,
			 int *report, struct sgpu_error *error)
{
	const struct sgpu_host_request request = { .version = SGPU_HOST_VERSION, .size = size };
	struct sgpu_cpu_host *host = &device->host;
	struct sgpu_host_answer answer = { 0 };
	bool first, second;

	*channel = *report = -1;
	pthread_mutex_lock(&host->lock);
	first = sgpu_host_send(host->control, &request, sizeof(request), image) &&
		sgpu_host_receive(host->control, &answer, sizeof(answer), channel);
	/* Also when the first descriptor found no room here: else the next request would get this
	 * answer. */
	second = sgpu_host_receive(host->control, &answer, sizeof(answer), report);
	pthread_mutex_unlock(&host->lock);
	if (first && second && answer.kind == SGPU_HOST_STARTED && *channel >= 0 && *report >= 0) {
		return SGPU_OK;
	}
	close_both(channel, report);
	if (answer.kind != SGPU_HOST_STARTED) {
		return sgpu_fail(error, SGPU_EDEVICE, "the process that modules run in has ended");
	}
	if (answer.code == EUSERS) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "the CPU device runs %d modules at once, and no more", SGPU_HOST_WORKERS);
		return sgpu_hint(error, "put functions that belong together into one module");
	}
	errno = answer.code ? answer.code : EMFILE;
	return sgpu_fail_errno(error, "no process can be had for a module");
}

/* ---- how a worker ended ---- */
static bool is_name(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return length > 0 && text[length] == '\0';
}

int sgpu_cpu_host_ended(struct sgpu_device *device, struct sgpu_host_answer *answer,
			struct sgpu_error *error)
{
	const char *signal_name;

	answer->text[sizeof(answer->text) - 1] = '\0';
	if (answer->call >= 0) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(error, SGPU_EPOLICY,
				 "system call %d (%s) refused: no module needs it", answer->call,
				 is_name(answer->text) ? answer->text : "unknown");
	}
	if (WIFSIGNALED(answer->status) && WTERMSIG(answer->status) == SIGSYS) {
		atomic_store(&device->host.broke_rules, true);
		return sgpu_fail(
			error, SGPU_EPOLICY,
			"a system call was refused that no module needs; "
			"it is not one of this architecture, or the kernel did not name it");
	}
	if (WIFSIGNALED(answer->status)) {
		signal_name = sigabbrev_np(WTERMSIG(answer->status));
		return sgpu_fail(error, SGPU_EDEVICE, "its process was ended by signal %d (SIG%s)",
				 WTERMSIG(answer->status), signal_name ? signal_name : "?");
	}
	return sgpu_fail(error, SGPU_EDEVICE, "it ended its process, with status %d",
			 WEXITSTATUS(answer->status));
}

/* ---- the rows of the device ---- */
int sgpu_cpu_module_confinement(struct sgpu_device *device,
				struct sgpu_module_confinement *confinement,
				struct sgpu_error *error)
{
	int code = sgpu_cpu_host_start(device, error);

	if (code == SGPU_OK) {
		*confinement = device->host.confinement;
	}
	return code;
}

bool sgpu_cpu_module_broke_rules(struct sgpu_device *device)
{
	return atomic_load(&device->host.broke_rules);
}
