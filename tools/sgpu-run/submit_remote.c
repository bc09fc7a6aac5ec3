/* SPDX-License-Identifier: Apache-2.0
 *
 * A submission to a server: it gets the descriptors of the batch and of the place for the response,
 * and says what came of it. The response is shown here, as that of a runner in this process is, and
 * only once the server has said that it is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>
#include <sgpu/sniff.h>

#include "handed.h"
#include "report.h"
#include "submit.h"
#include "wire.h"

enum { COPY_SIZE = 1 << 18, SHOW_MS = 100 };

/* For the first word of a server, which may have to start a worker. */
static const uint64_t PATIENCE_NS = UINT64_C(90000000000);
/* For a word of the worker when the deadline has passed: it is asked again and again. */
static const uint64_t SILENCE_NS = UINT64_C(30000000000), ASK_NS = UINT64_C(1000000000);

struct remote {
	const struct request *request;
	int connection, signal_fd;
	struct sgpu_output response;
	int memory_fd; /* the response in memory, where its place is none that a server takes; or -1
			*/
	bool queued, taken;	     /* queued: it waits for a turn */
	uint64_t heard_ns, asked_ns; /* when the worker last said something, and was last asked
					whether it is late */
	struct wire_answer answer;
};

/* ---- a batch that a server does not take as it is: through a pipe ---- */
struct relay {
	int from, to;
	const char *name;
	struct sgpu_error error; /* of reading; set before `failed` */
	atomic_bool failed;
};

static void *relay_bytes(void *argument)
{
	struct relay *relay = argument;
	char *buffer = malloc(COPY_SIZE);
	ssize_t got = 1;
	int rc = buffer ? SGPU_OK : sgpu_fail_nomem(&relay->error);

	while (rc == SGPU_OK && got > 0) {
		got = read(relay->from, buffer,
			   COPY_SIZE); /* what is there: the server need not wait for more */
		if (got < 0 && errno != EINTR) {
			rc = sgpu_fail_errno(&relay->error, "cannot read '%s'", relay->name);
		} else if (got < 0) {
			got = 1;
		} else if (sgpu_write(relay->to, "the server", buffer, (size_t)got, NULL) !=
			   SGPU_OK) {
			got = 0; /* the server wants no more, and says why */
		}
	}
	atomic_store(&relay->failed, rc != SGPU_OK);
	close(relay->to);
	free(buffer);
	return NULL;
}

/* It ends with the process at the latest: what it reads from may never end. */
static int start_relay(struct relay *relay, const struct request *r, int *fd,
		       struct sgpu_error *error)
{
	sigset_t all, old;
	pthread_t thread;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0) {
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	*relay = (struct relay){ .from = r->in_fd, .to = ends[1], .name = r->in_name };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	errno = pthread_create(&thread, NULL, relay_bytes, relay);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (errno != 0) {
		close(ends[0]);
		close(ends[1]);
		return sgpu_fail_errno(error, "cannot start a thread");
	}
	pthread_detach(thread);
	*fd = ends[0];
	return SGPU_OK;
}

/* ---- the response ---- */
static int open_response(struct remote *m, struct sgpu_error *error)
{
	int rc = cli_output_take(&m->response, m->request->output, 0666, error);

	if (rc == SGPU_OK && !handed_response_is_taken(m->response.fd)) {
		m->memory_fd = memfd_create("sgpu-run response", MFD_CLOEXEC);
		if (m->memory_fd < 0) {
			rc = sgpu_fail_errno(error, "cannot make a memory file");
		}
	}
	return rc;
}

static int copy_response(const struct remote *m, struct sgpu_error *error)
{
	char *buffer = malloc(COPY_SIZE);
	uint64_t position = 0;
	size_t got = COPY_SIZE;
	int rc = buffer ? SGPU_OK : sgpu_fail_nomem(error);

	while (rc == SGPU_OK && got == COPY_SIZE) {
		rc = sgpu_pread(m->memory_fd, "the response", buffer, COPY_SIZE, position, &got,
				error);
		if (rc == SGPU_OK) {
			rc = sgpu_write(m->response.fd,
					cli_is_standard(m->request->output) ? "standard output"
									    : m->request->output,
					buffer, got, error);
		}
		position += got;
	}
	free(buffer);
	return rc;
}

static int show_response(struct remote *m, struct sgpu_error *error)
{
	int rc = m->memory_fd >= 0 ? copy_response(m, error) : SGPU_OK;

	return rc == SGPU_OK ? sgpu_output_commit(&m->response, error) : rc;
}

/* ---- the connection ---- */
static int send_request(const struct remote *m, int in_fd, struct sgpu_error *error)
{
	const struct request *r = m->request;
	const int fds[] = { in_fd, m->memory_fd >= 0 ? m->memory_fd : m->response.fd };
	struct wire_submit *message = calloc(1, sizeof(*message));
	struct stat status;

	if (!message) {
		return sgpu_fail_nomem(error);
	}
	message->timeout_ns = r->timeout_ns;
	message->lease = r->lease;
	if (!cli_is_standard(r->output) && stat(r->output, &status) == 0) {
		message->replaced_device = status.st_dev;
		message->replaced_inode = status.st_ino;
	}
	snprintf(message->in_name, sizeof(message->in_name), "%s", r->in_name);
	snprintf(message->out_name, sizeof(message->out_name), "%s",
		 cli_is_standard(r->output) ? "standard output" : r->output);
	/* A server that refuses at once may have said so and closed. */
	(void)wire_send(m->connection, WIRE_SUBMIT, message, sizeof(*message), fds, 2);
	free(message);
	return SGPU_OK;
}

/* Returns 1 when the answer is there. */
static int hear_server(struct remote *m, bool on_terminal, bool *asked, struct sgpu_error *error)
{
	struct wire_progress progress;
	struct wire_plain word;
	enum wire_kind kind;
	int rc = wire_peek(m->connection, &kind, error);

	if (rc == SGPU_OK && kind == WIRE_ANSWER) {
		rc = wire_receive(m->connection, kind, &m->answer, sizeof(m->answer), NULL, 0,
				  error);
		wire_clean(&m->answer);
		return rc == SGPU_OK ? 1 : rc;
	}
	if (rc == SGPU_OK && kind == WIRE_PROGRESS_IS) {
		rc = wire_receive(m->connection, kind, &progress, sizeof(progress), NULL, 0, error);
		if (rc == SGPU_OK && *asked) {
			report_progress_print(&progress.progress, progress.bytes_in_all);
			*asked = false;
		} else if (rc == SGPU_OK && on_terminal) {
			report_progress_show(&progress.progress, progress.bytes_in_all);
		}
		return rc;
	}
	if (rc == SGPU_OK && kind == WIRE_QUEUED) {
		rc = wire_receive(m->connection, kind, &word, sizeof(word), NULL, 0, error);
		m->queued = m->queued || rc == SGPU_OK;
	} else if (rc == SGPU_OK) {
		rc = wire_receive(m->connection, WIRE_TAKEN, &word, sizeof(word), NULL, 0, error);
		m->taken = m->taken || rc == SGPU_OK;
	}
	if (rc == SGPU_ECANCELED) {
		sgpu_fail(error, SGPU_ESYSTEM,
			  m->taken ? "the worker that ran the batch has ended"
				   : "the server at '%s' has ended",
			  m->request->service.text);
		return SGPU_ESYSTEM;
	}
	return rc == SGPU_ETIMEOUT ? SGPU_OK : rc;
}

/* A worker ends what is late, which may take it a while; one that is stopped or hangs does not, and
 * has no word for us. */
static int check_late(struct remote *m, uint64_t late_ns, struct sgpu_error *error)
{
	const uint64_t now = sgpu_now_ns();
	struct wire_plain progress;

	m->heard_ns = m->heard_ns < late_ns ? late_ns : m->heard_ns;
	if (now > m->heard_ns && now - m->heard_ns > SILENCE_NS) {
		return sgpu_fail(
			error, SGPU_ETIMEOUT,
			"the deadline passed, and the worker that runs the batch does not answer");
	}
	if (now > late_ns && now - m->asked_ns > ASK_NS) {
		(void)wire_send(m->connection, WIRE_PROGRESS, &progress, sizeof(progress), NULL, 0);
		m->asked_ns = now;
	}
	return SGPU_OK;
}

/* Until the answer is there, or nobody is who would give one. */
static int wait_for_answer(struct remote *m, struct sgpu_error *error)
{
	const bool on_terminal = isatty(cli_error_fd) && !cli_quiet && !cli_json;
	const uint64_t begin = sgpu_now_ns(), timeout = m->request->timeout_ns;
	const uint64_t late_ns = timeout < UINT64_MAX - begin ? begin + timeout : UINT64_MAX;
	struct pollfd fds[2] = { { .fd = m->connection, .events = POLLIN },
				 { .fd = m->signal_fd, .events = POLLIN } };
	struct signalfd_siginfo signal;
	struct wire_plain progress;
	bool asked = false, wanted = false;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		/* A question that came before the run was taken is asked now. */
		if (m->taken && (wanted || (on_terminal && cli_progress_due()))) {
			(void)wire_send(m->connection, WIRE_PROGRESS, &progress, sizeof(progress),
					NULL, 0);
			wanted = false;
		}
		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "the run was stopped");
		}
		if (!m->taken && !m->queued && sgpu_now_ns() - begin > PATIENCE_NS) {
			return sgpu_fail(error, SGPU_ESYSTEM, "the server at '%s' does not answer",
					 m->request->service.text);
		}
		if (!m->taken && timeout != 0 && sgpu_now_ns() - begin > timeout) {
			return sgpu_fail(error, SGPU_ETIMEOUT,
					 "the server gave the batch no turn before the deadline");
		}
		if (m->taken && timeout != 0) {
			rc = check_late(m, late_ns, error);
		}
		fds[0].revents = fds[1].revents = 0;
		if (rc < 0 ||
		    poll(fds, 2, m->taken && !on_terminal && timeout == 0 ? -1 : SHOW_MS) < 0) {
			continue; /* a signal */
		}
		if (fds[1].revents &&
		    read(m->signal_fd, &signal, sizeof(signal)) == (ssize_t)sizeof(signal)) {
			asked = wanted = true;
		}
		if (fds[0].revents) {
			m->heard_ns = sgpu_now_ns();
			rc = hear_server(m, on_terminal, &asked, error);
		}
	}
	return rc > 0 ? SGPU_OK : rc;
}

static int exchange(struct remote *m, struct sgpu_error *error)
{
	static struct relay relay; /* of a thread that may outlive the submission */
	const struct request *r = m->request;
	struct sgpu_error other;
	int in_fd = r->in_fd, rc = SGPU_OK;

	if (!handed_batch_is_taken(in_fd)) {
		rc = start_relay(&relay, r, &in_fd, error);
	}
	if (rc == SGPU_OK) {
		rc = send_request(m, in_fd, error);
	}
	if (in_fd != r->in_fd) {
		close(in_fd);
	}
	if (rc == SGPU_OK) {
		cli_progress_begin("running", 0);
		rc = wait_for_answer(m, error);
		cli_progress_end();
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	*error = m->answer.error;
	rc = error->code;
	if (atomic_load(&relay.failed)) {
		*error = relay.error;
		rc = error->code;
	}
	if (rc == SGPU_ENOINPUT) { /* what the server saw may be our own pipe */
		rc = sgpu_fail_sniffed(error, r->in_fd, r->in_name, "", 0, "a batch");
	}
	if (rc != SGPU_OK && rc != SGPU_ESEGMENTS) {
		submit_refuse(m->response.fd, &m->answer.report, error);
	} else if (show_response(m, &other) != SGPU_OK) {
		*error = other;
		rc = other.code;
	}
	submit_tell(r, &m->answer.report, rc);
	return rc;
}

int submit_remote(const struct request *r)
{
	struct remote m = { .request = r,
			    .connection = -1,
			    .signal_fd = -1,
			    .memory_fd = -1,
			    .response = SGPU_OUTPUT_INIT };
	struct sgpu_error error = { 0 };
	sigset_t usr1;
	int rc;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	m.signal_fd = signalfd(-1, &usr1, SFD_CLOEXEC | SFD_NONBLOCK);
	rc = open_response(&m, &error);
	if (rc == SGPU_OK && !cli_binary_output(m.response.fd)) {
		sgpu_output_close(&m.response);
		return 2;
	}
	if (rc == SGPU_OK) {
		rc = sgpu_service_connect(&r->service, &m.connection, &error);
	}
	if (rc == SGPU_OK) {
		rc = exchange(&m, &error);
	} else if (m.response.fd >= 0) {
		sgpu_hint(&error, "--local runs the batch in this process");
	}
	sgpu_output_close(&m.response);
	for (size_t i = 0; i < 3; i++) {
		const int fd = i == 0 ? m.connection : i == 1 ? m.memory_fd : m.signal_fd;

		if (fd >= 0) {
			close(fd);
		}
	}
	return rc == SGPU_OK				       ? 0
	       : rc == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(rc)
							       : cli_error(&error);
}
