/* SPDX-License-Identifier: Apache-2.0
 *
 * A submission to a server, which gets the descriptors of the batch and of the response's place,
 * and reports the outcome. This process shows the response, as it does with a runner of its own,
 * once the server has said that the response is complete.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/batch.h>
#include <sgpu/manifest.h>

#include "client.h"

enum { SHOW_MS = 100, PAUSE_MS = 200, HANG_UPS_MAX = 3 };

/* For a server's first message, since a worker may have to be started. */
static const uint64_t PATIENCE_NS = UINT64_C(90000000000);
/* A worker may be silent so long after the deadline, and is asked so often how far it is. */
static const uint64_t SILENCE_NS = UINT64_C(30000000000), ASK_NS = UINT64_C(1000000000);

struct remote {
	const struct run_request *request;
	const struct sgpu_service_path *service;
	int in_fd; /* the batch */
	const char *in_name;
	int connection;
	struct sgpu_output response;
	int batch_fd,
		memory_fd;    /* copies in memory of files that the server does not take; or -1 */
	int manifest_fd;      /* a copy of --manifest's; or -1 */
	uint64_t deadline_ns; /* 0: none */
	bool queued, taken;   /* queued: the batch waits for a turn */
	unsigned hung_up;     /* servers that did, before they had taken the batch */
	uint64_t heard_ns, asked_ns; /* when the worker last spoke, was last asked */
	struct wire_answer answer;
	bool answered;
	uint64_t wait_end_ns; /* when trying again ends */
	off_t begin;	      /* of the batch in in_fd */
};

/* ---- files that a server does not take, copied through memory ---- */
static int make_memory(const char *name, int *fd, struct sgpu_error *error)
{
	*fd = memfd_create(name, MFD_CLOEXEC);
	return *fd < 0 ? sgpu_fail_errno(error, "cannot make a memory file") : SGPU_OK;
}

static bool is_late(const struct remote *m)
{
	return m->deadline_ns != 0 && sgpu_now_ns() >= m->deadline_ns;
}

static int why_end(void *remote)
{
	return sgpu_io_interrupted() ? SGPU_ECANCELED : is_late(remote) ? SGPU_ETIMEOUT : SGPU_OK;
}

/* Copies the whole batch, since a server waits for no client's pipe. Of an input that does not
 * begin as a batch, copies only the first bytes, which tell the server what the input is. */
static int bring_batch(struct remote *m, struct sgpu_error *error)
{
	static const char first_name[] = "seal.json";
	const struct sgpu_io_guard guard = { .ended = why_end, .argument = m };
	char first[sizeof(first_name)] = "";
	uint64_t all = 0, rest;
	size_t got;
	int rc = make_memory("sgpu-run batch", &m->batch_fd, error);

	sgpu_io_set_guard(m->deadline_ns ? &guard : NULL);
	rc = rc ? rc
		: cli_copy(m->in_fd, m->in_name, SGPU_TAR_BLOCK, m->batch_fd, "memory", &all,
			   error);
	rc = rc ? rc : sgpu_pread(m->batch_fd, "memory", first, sizeof(first), 0, &got, error);
	if (rc == SGPU_OK && memcmp(first, first_name, sizeof(first)) == 0) {
		rc = cli_copy(m->in_fd, m->in_name, UINT64_MAX, m->batch_fd, "memory", &rest,
			      error);
	}
	sgpu_io_set_guard(NULL);
	(void)lseek(m->batch_fd, 0, SEEK_SET);
	if (rc == SGPU_OK && all == 0) {
		return sgpu_fail_sniffed(error, m->in_fd, m->in_name, "", 0, "a batch");
	}
	return rc == SGPU_ETIMEOUT
		       ? sgpu_fail(error, rc, "the batch did not arrive before the deadline")
		       : rc;
}

static int bring_manifest(struct remote *m, struct sgpu_error *error)
{
	const char *path = m->request->manifest;
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_read_file(path, NULL, SGPU_MANIFEST_SIZE_MAX, &text, &size, error);

	rc = rc ? rc : make_memory("sgpu-run manifest", &m->manifest_fd, error);
	rc = rc ? rc : sgpu_write(m->manifest_fd, "memory", text, size, error);
	free(text);
	(void)lseek(m->manifest_fd, 0, SEEK_SET);
	return rc;
}

static int copy_response(const struct remote *m, struct sgpu_error *error)
{
	uint64_t copied;

	(void)lseek(m->memory_fd, 0, SEEK_SET);
	return cli_copy(m->memory_fd, "the response", UINT64_MAX, m->response.fd, m->response.path,
			&copied, error);
}

static int send_request(const struct remote *m, struct sgpu_error *error)
{
	const struct run_request *r = m->request;
	const int batch_fd = m->batch_fd >= 0 ? m->batch_fd : m->in_fd;
	const int fds[] = { batch_fd, m->memory_fd >= 0 ? m->memory_fd : m->response.fd,
			    m->manifest_fd >= 0 ? m->manifest_fd : batch_fd };
	struct wire_submit *message = calloc(1, sizeof(*message));
	uint64_t now;

	if (!message) {
		return sgpu_fail_nomem(error);
	}
	now = sgpu_now_ns();
	message->timeout_ns = m->deadline_ns == 0    ? 0
			      : now < m->deadline_ns ? m->deadline_ns - now
						     : 1;
	message->lease = r->lease;
	message->manifest = m->manifest_fd >= 0;
	snprintf(message->results, sizeof(message->results), "%s", r->results ? r->results : "");
	snprintf(message->in_name, sizeof(message->in_name), "%s", m->in_name);
	snprintf(message->out_name, sizeof(message->out_name), "%s", m->response.path);
	/* Sending may fail if the server has refused already; its answer is read next. */
	(void)sgpu_wire_send(m->connection, WIRE_SUBMIT, message, sizeof(*message), fds, 3);
	free(message);
	return SGPU_OK;
}

static int hear_server(struct remote *m, struct sgpu_error *error)
{
	struct wire_progress progress;
	enum wire_kind kind;
	int rc = wire_peek(m->connection, &kind, error);

	if (rc == SGPU_OK && kind == WIRE_ANSWER) {
		rc = wire_receive(m->connection, kind, &m->answer, sizeof(m->answer), NULL, 0,
				  error);
		wire_clean(&m->answer);
		return rc == SGPU_OK ? 1 : wire_fault(rc, error);
	}
	if (rc == SGPU_OK && kind == WIRE_PROGRESS_IS) {
		rc = wire_receive(m->connection, kind, &progress, sizeof(progress), NULL, 0, error);
		if (rc == SGPU_OK) {
			cli_progress(&progress.progress.bytes_in_all, progress.progress.bytes_in);
		}
		return wire_fault(rc, error);
	}
	if (rc == SGPU_OK && kind == WIRE_QUEUED) {
		rc = wire_hear(m->connection, kind, error);
		m->queued = m->queued || rc == SGPU_OK;
	} else if (rc == SGPU_OK) {
		rc = wire_hear(m->connection, WIRE_TAKEN, error);
		m->taken = m->taken || rc == SGPU_OK;
	}
	if (rc == SGPU_ECANCELED) {
		sgpu_fail(error, SGPU_ESYSTEM,
			  m->taken ? "the worker that ran the batch has ended"
				   : "the server at '%s' has ended",
			  m->service->text);
		return sgpu_set_retryable(error);
	}
	return rc == SGPU_ETIMEOUT ? SGPU_OK : wire_fault(rc, error);
}

/* Returns how long the worker has been silent since the deadline. A working one ends a late run,
 * which takes a while; a stopped or hanging one does not answer. */
static uint64_t silence(const struct remote *m, uint64_t now)
{
	const uint64_t since = m->heard_ns > m->deadline_ns ? m->heard_ns : m->deadline_ns;

	return m->taken && m->deadline_ns != 0 && now > since ? now - since : 0;
}

static int wait_for_answer(struct remote *m, struct sgpu_error *error)
{
	const bool on_terminal = isatty(cli_error_fd) && !cli_quiet && !cli_json;
	const uint64_t begin = sgpu_now_ns();
	struct pollfd fds[2] = { { .fd = m->connection, .events = POLLIN },
				 { .fd = m->response.fd } };
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		const uint64_t now = sgpu_now_ns();
		const bool asks = m->taken && (on_terminal || m->deadline_ns != 0);

		if (sgpu_io_interrupted()) {
			return sgpu_fail(error, SGPU_ECANCELED, "the run was stopped");
		}
		if (!m->taken && !m->queued && now - begin > PATIENCE_NS) {
			sgpu_fail(error, SGPU_ESYSTEM, "the server at '%s' does not answer",
				  m->service->text);
			return sgpu_set_retryable(error);
		}
		if (!m->taken && is_late(m)) {
			return sgpu_fail(error, SGPU_ETIMEOUT,
					 "the server gave the batch no turn before the deadline");
		}
		if (silence(m, now) > SILENCE_NS) {
			return sgpu_fail(error, SGPU_ETIMEOUT,
					 "the deadline passed, and the worker that runs the batch "
					 "does not answer");
		}
		if (asks && (on_terminal || is_late(m)) && now - m->asked_ns > ASK_NS) {
			(void)wire_say(m->connection, WIRE_PROGRESS);
			m->asked_ns = now;
		}
		fds[0].revents = fds[1].revents = 0;
		if (poll(fds, 2, m->taken && !asks ? -1 : SHOW_MS) < 0) {
			continue; /* interrupted by a signal */
		}
		if (fds[1].revents & POLLERR) { /* as behind an ssh that has ended */
			return sgpu_fail(error, SGPU_ECANCELED,
					 "nobody reads the response any more");
		}
		if (fds[0].revents) {
			m->heard_ns = sgpu_now_ns();
			rc = hear_server(m, error);
		}
	}
	return rc > 0 ? SGPU_OK : rc;
}

static int try_once(struct remote *m, struct sgpu_error *error)
{
	int rc = sgpu_service_connect(m->service, &m->connection, error);

	if (rc != SGPU_OK) {
		return sgpu_hint(error, "--local runs the batch without it");
	}
	rc = send_request(m, error);
	if (rc == SGPU_OK) {
		cli_progress_begin("running", 0);
		rc = wait_for_answer(m, error);
		cli_progress_end();
	}
	m->answered = rc == SGPU_OK;
	if (m->answered) {
		*error = m->answer.error;
	}
	return m->answered ? error->code : rc;
}

/* With --wait: pauses, and forgets the last try. False if that was the last: the server took the
 * batch, or refused it for a lasting reason, or nobody waits any longer. */
static bool may_try_again(struct remote *m, const struct sgpu_error *error)
{
	const bool not_there =
		!m->answered && !m->taken && sgpu_retryable(error) && error->code != SGPU_ENOMEM;

	/* Who has hung up without an answer may have ended by this batch. */
	m->hung_up += not_there && m->connection >= 0;
	if ((error->code != SGPU_ERETRY && !not_there) || m->hung_up > HANG_UPS_MAX || is_late(m) ||
	    sgpu_now_ns() >= m->wait_end_ns) {
		return false;
	}
	(void)poll(NULL, 0, PAUSE_MS); /* a signal ends it */
	sgpu_close(m->connection);
	m->connection = -1;
	m->answered = m->queued = m->taken = false;
	(void)lseek(m->batch_fd >= 0 ? m->batch_fd : m->in_fd, m->batch_fd >= 0 ? 0 : m->begin,
		    SEEK_SET);
	(void)lseek(m->manifest_fd, 0, SEEK_SET);
	return !sgpu_io_interrupted();
}

static int show_answer(struct remote *m, struct sgpu_error *error)
{
	const struct run_request *r = m->request;
	struct sgpu_error other;
	int shown, rc = error->code;

	if (rc != SGPU_OK && rc != SGPU_ESEGMENTS) {
		report_refusal(m->response.fd, &m->answer.report, error);
	} else {
		shown = m->memory_fd >= 0 ? copy_response(m, &other) : SGPU_OK;
		shown = shown ? shown : sgpu_output_commit(&m->response, &other);
		if (shown != SGPU_OK) {
			*error = other;
			rc = other.code;
		}
	}
	report_outcome(&m->answer.report, r->stats, rc);
	return rc;
}

static int open_files(struct remote *m, const char *path)
{
	const struct run_request *r = m->request;
	struct sgpu_error error = { 0 };
	int status = cli_input(path, &m->in_name, &m->in_fd);

	status = status ? status : cli_binary_output(r->output);
	return status || !cli_output_take(&m->response, r->output, 0666, false, &error)
		       ? status
		       : cli_error(&error);
}

/* The time in `ns`, or never. */
static uint64_t time_in(uint64_t ns)
{
	const uint64_t now = sgpu_now_ns();

	return ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
}

int submit_to_server(const struct run_request *r, const struct sgpu_service_path *service,
		     const char *path)
{
	struct remote m = { .request = r,
			    .service = service,
			    .in_fd = -1,
			    .connection = -1,
			    .batch_fd = -1,
			    .memory_fd = -1,
			    .manifest_fd = -1,
			    .response = SGPU_OUTPUT_INIT };
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK, status = open_files(&m, path);

	m.deadline_ns = r->timeout_ns ? time_in(r->timeout_ns) : 0;
	if (status == 0 && !wire_takes(m.response.fd, true)) {
		rc = make_memory("sgpu-run response", &m.memory_fd, &error);
	}
	if (status == 0 && rc == SGPU_OK && !wire_takes(m.in_fd, false)) {
		rc = bring_batch(&m, &error);
	}
	if (status == 0 && rc == SGPU_OK && r->manifest) {
		rc = bring_manifest(&m, &error);
	}
	if (status == 0 && rc == SGPU_OK) {
		m.begin = lseek(m.in_fd, 0, SEEK_CUR);
		m.wait_end_ns = time_in(r->wait_ns);
		do {
			rc = try_once(&m, &error);
		} while (rc != SGPU_OK && may_try_again(&m, &error));
		rc = m.answered ? show_answer(&m, &error) : rc;
	}
	sgpu_output_close(&m.response);
	sgpu_close(m.connection);
	sgpu_close(m.batch_fd);
	sgpu_close(m.memory_fd);
	sgpu_close(m.manifest_fd);
	return status != 0 || rc == SGPU_OK		       ? status
	       : rc == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(rc)
							       : cli_error(&error);
}
