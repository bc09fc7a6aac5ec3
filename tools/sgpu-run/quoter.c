/* SPDX-License-Identifier: Apache-2.0
 *
 * See requests.h. Its messages are those of wire.h, over a pair of sockets.
 */
#include "base/io.h"
#include "base/json.h"
#include "requests.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "attest/collect/evidence.h"
#include "harden.h"
#include "serve.h"
#include "wire.h"

/* ---- both sides ---- */
/* Waits for a message. The other has gone: SGPU_ECANCELED. */
static int wait_for(int fd, enum wire_kind *kind, struct sgpu_error *error)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int rc;

	do {
		(void)poll(&wait, 1, -1);
		rc = wire_peek(fd, kind, error);
	} while (rc == SGPU_ETIMEOUT);
	return rc;
}

/* Text in a memory file, which goes with the message. */
static int send_text(int fd, enum wire_kind kind, const char *text, size_t size,
		     struct sgpu_error *error)
{
	const int file = memfd_create("sgpu-run quote", MFD_CLOEXEC);
	int rc;

	if (file < 0) {
		return sgpu_fail_errno(error, "cannot make a memory file");
	}
	rc = sgpu_write(file, "a memory file", text, size, error);
	if (rc == SGPU_OK && !wire_say(fd, kind, file)) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "a process of this worker takes no message");
	}
	close(file);
	return rc;
}

/* ---- the child ---- */
_Static_assert(sizeof(((struct wire_quote *)0)->nonce) == SGPU_NONCE_MAX,
	       "sgpu_quote_renew takes no larger one");

static int receive_claims(int fd, json_t **claims, struct sgpu_error *error)
{
	enum wire_kind kind;
	size_t size = 0;
	char *text;
	int file = -1, rc = wait_for(fd, &kind, error);

	rc = rc == SGPU_OK ? wire_hear(fd, WIRE_CLAIMS, &file, error) : rc;
	if (rc < 0) {
		return rc;
	}
	text = calloc(1, SGPU_QUOTE_MAX + 1);
	rc = text ? sgpu_pread(file, "the claims", text, SGPU_QUOTE_MAX, 0, &size, error)
		  : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		rc = sgpu_json_parse(text, size, claims, NULL, NULL, error);
	}
	free(text);
	close(file);
	return rc;
}

static int make_quote(int fd, const struct wire_quote *asked, const json_t *claims,
		      const struct sgpu_signer *ak, const struct sgpu_chain *chain,
		      struct sgpu_error *error)
{
	const struct sgpu_quote_renewal renewal = { .nonce = asked->nonce,
						    .nonce_size = asked->nonce_size,
						    .debugged = asked->debugged != 0 };
	char *quote = NULL;
	size_t size = 0;
	int rc = sgpu_quote_renew(claims, &renewal, ak, chain, time(NULL), &quote, &size, error);

	if (rc == SGPU_OK) {
		rc = send_text(fd, WIRE_QUOTE_IS, quote, size, error);
	}
	free(quote);
	return rc;
}

/* Until the worker has gone. */
static void serve_quotes(int fd, const struct sgpu_signer *ak, const struct sgpu_chain *chain)
{
	struct sgpu_error error = { 0 };
	struct wire_quote asked;
	enum wire_kind kind;
	json_t *claims = NULL;
	int rc = receive_claims(fd, &claims, &error);

	while (rc == SGPU_OK) {
		rc = wait_for(fd, &kind, &error);
		rc = rc == SGPU_OK
			     ? wire_receive(fd, WIRE_QUOTE, &asked, sizeof(asked), NULL, 0, &error)
			     : rc;
		if (rc == SGPU_OK && make_quote(fd, &asked, claims, ak, chain, &error) != SGPU_OK) {
			wire_refuse(fd, &error);
		}
	}
	json_decref(claims);
}

/* Leaves it its socket and the platform's reports. A key in a TPM is used through files and
 * libraries of the system. The worker warns of what this machine lacks, and the quote says so; all
 * else that goes wrong is an error. */
static int confine(const struct sgpu_signer *ak, struct sgpu_error *error)
{
	const bool tpm = sgpu_signer_in_tpm(ak);
	const struct landlock_needs needs = { .bare = !tpm,
					      .tpm = tpm,
					      .reports = {
						      sgpu_evidence_root(SGPU_USUAL_TSM),
						      sgpu_evidence_root(SGPU_USUAL_GRAMINE) } };
	int rc = landlock_version() > 0 ? landlock_confine(&needs, error) : SGPU_OK;

	return rc < 0 || !harden_filters()
		       ? rc
		       : harden_filter(tpm ? HARDEN_TPM_SIGNER : HARDEN_SIGNER, error);
}

static _Noreturn void run_child(int fd, pid_t worker, const char *key, const char *certificate)
{
	struct sgpu_signer *ak = NULL;
	struct sgpu_chain chain = { .count = 0 };
	struct sgpu_error error = { 0 };
	int rc;

	close(SERVE_CONTROL_FD);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != worker) {
		_exit(0);
	}
	rc = sgpu_signer_load(key, &ak, &error);
	if (rc == SGPU_OK) {
		rc = sgpu_chain_load(certificate, &chain, &error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_quote_check_key(ak, &chain, &error);
	}
	if (rc == SGPU_OK) {
		rc = confine(ak, &error);
	}
	if (rc == SGPU_OK) {
		(void)wire_say(fd, WIRE_READY, -1);
		serve_quotes(fd, ak, &chain);
	} else {
		wire_refuse(fd, &error);
	}
	sgpu_chain_clear(&chain);
	sgpu_signer_free(&ak);
	_exit(0);
}

/* ---- the worker ---- */
/* An answer in place of `kind` is an error. */
static int hear_child(int fd, enum wire_kind kind, int *file, struct sgpu_error *error)
{
	enum wire_kind got = kind;
	const int rc = wait_for(fd, &got, error);

	if (rc == SGPU_OK) {
		return got == WIRE_ANSWER ? ask_error(fd, error) : wire_hear(fd, kind, file, error);
	}
	return rc == SGPU_ECANCELED
		       ? sgpu_fail(error, SGPU_ESYSTEM, "the process that signs quotes has ended")
		       : rc;
}

int quoter_start(const char *key, const char *certificate, int *fd, struct sgpu_error *error)
{
	const pid_t worker = getpid();
	int ends[2];
	pid_t child;
	int rc;

	*fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make a socket");
	}
	child = fork();
	if (child == 0) {
		close(ends[0]);
		run_child(ends[1], worker, key, certificate);
	}
	rc = child < 0 ? sgpu_fail_errno(error, "cannot start a process") : SGPU_OK;
	close(ends[1]);
	if (rc == SGPU_OK) {
		rc = hear_child(ends[0], WIRE_READY, NULL, error);
	}
	if (rc < 0) {
		close(ends[0]);
		return rc;
	}
	*fd = ends[0];
	return SGPU_OK;
}

int quoter_claim(int fd, const json_t *claims, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_json_canonical(claims, &text, &size, error);

	if (rc == SGPU_OK) {
		rc = send_text(fd, WIRE_CLAIMS, text, size, error);
	}
	free(text);
	return rc;
}

int quoter_quote(int fd, struct wire_quote *question, int *quote, struct sgpu_error *error)
{
	*quote = -1;
	if (!wire_send(fd, WIRE_QUOTE, question, sizeof(*question), NULL, 0)) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the process that signs quotes has ended");
	}
	return hear_child(fd, WIRE_QUOTE_IS, quote, error);
}
