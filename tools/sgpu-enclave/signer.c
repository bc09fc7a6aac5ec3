/* SPDX-License-Identifier: Apache-2.0
 *
 * See enclave.h. Both processes exchange messages of wire.h over a socket pair.
 */
#include "base/json.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "enclave.h"
#include "host/host.h"

int signer_fd = -1;

/* ---- both sides ---- */
/* SGPU_ECANCELED: the peer has gone. */
static int wait_for(int fd, enum wire_kind *kind, struct sgpu_error *error)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	int rc;

	while ((rc = wire_peek(fd, kind, error)) == SGPU_ETIMEOUT) {
		(void)poll(&wait, 1, -1);
	}
	return rc;
}

/* ---- the child ---- */
_Static_assert(sizeof(((struct wire_quote *)0)->nonce) == SGPU_NONCE_MAX,
	       "sgpu_quote_renew takes no larger one");

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

	rc = rc ? rc : wire_say_text(fd, WIRE_QUOTE_IS, quote, size, error);
	free(quote);
	return rc;
}

/* Confines the child to its socket and the platform's reports; a key in a TPM needs files and
 * libraries of the system, too. To lack a confinement is no error: the quote and a warning of the
 * worker tell of it. */
static int confine(const struct sgpu_signer *ak, struct sgpu_error *error)
{
	const enum harden_kind kind = sgpu_signer_in_tpm(ak) ? HARDEN_TPM_SIGNER : HARDEN_SIGNER;
	const struct landlock_needs needs = { .kind = kind,
					      .more = { sgpu_host_root(SGPU_USUAL_TSM),
							sgpu_host_root(SGPU_USUAL_GRAMINE) } };
	int rc = landlock_version() > 0 ? landlock_confine(&needs, error) : SGPU_OK;

	return rc ? rc : harden_filter(kind, error);
}

static _Noreturn void run_child(int fd, pid_t parent, const struct run_request *r)
{
	struct sgpu_signer *ak = NULL;
	struct sgpu_chain chain = { .count = 0 };
	struct sgpu_error error = { 0 };
	struct wire_quote asked;
	enum wire_kind kind;
	json_t *claims = NULL;
	char *text = NULL;
	size_t size = 0;
	int rc;

	if (r->serve) {
		close((int)r->serve); /* the supervisor's socket */
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(0);
	}
	rc = sgpu_signer_load(r->runner.attestation_key, &ak, &error);
	rc = rc ? rc : sgpu_chain_load(r->runner.certificate, &chain, &error);
	rc = rc ? rc : sgpu_quote_check_key(ak, &chain, &error);
	rc = rc ? rc : confine(ak, &error);
	if (rc == SGPU_OK) {
		(void)wire_say(fd, WIRE_READY);
		rc = wait_for(fd, &kind, &error);
		rc = rc ? rc : wire_hear_text(fd, WIRE_CLAIMS, &text, &size, &error);
		rc = rc ? rc : sgpu_json_parse(text, size, NULL, &claims, &error);
		free(text);
	} else {
		wire_refuse(fd, &error);
	}
	while (rc == SGPU_OK) { /* until the parent has gone */
		rc = wait_for(fd, &kind, &error);
		rc = rc ? rc : wire_receive(fd, WIRE_QUOTE, &asked, sizeof(asked), NULL, 0, &error);
		if (rc == SGPU_OK &&
		    make_quote(fd, &asked, claims, ak, &chain, &error) != SGPU_OK) {
			wire_refuse(fd, &error);
		}
	}
	sgpu_signer_free(&ak);
	_exit(0);
}

/* ---- the parent ---- */
/* Waits for a message, unless none was sent; a WIRE_ANSWER carries an error. */
static int await_child(bool sent, struct sgpu_error *error)
{
	enum wire_kind got;
	const int rc = sent ? wait_for(signer_fd, &got, error) : SGPU_ECANCELED;

	return rc == SGPU_ECANCELED
		       ? sgpu_fail(error, SGPU_ESYSTEM, "the process that signs quotes has ended")
	       : rc == SGPU_OK && got == WIRE_ANSWER ? ask_error(signer_fd, error)
						     : rc;
}

int signer_begin(const struct run_request *r, struct sgpu_error *error)
{
	const pid_t parent = getpid();
	int ends[2], rc;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make a socket");
	}
	child = fork();
	if (child == 0) {
		close(ends[0]);
		run_child(ends[1], parent, r);
	}
	close(ends[1]);
	signer_fd = ends[0];
	rc = child < 0 ? sgpu_fail_errno(error, "cannot start a process")
		       : await_child(true, error);
	return rc ? rc : wire_hear(signer_fd, WIRE_READY, error);
}

int signer_claim(struct enclave *w, struct sgpu_error *error)
{
	static const uint8_t any_nonce[SGPU_NONCE_MIN];
	struct sgpu_key *key = &w->keys[w->key_count], recipient;
	json_t *claims = NULL, *confinement = confinement_claim(&w->modules);
	const struct sgpu_quote_subject subject = {
		.nonce = any_nonce,
		.nonce_size = sizeof(any_nonce),
		.recipient = &recipient,
		.recipient_ephemeral = true,
		.owner_key = w->request->owner ? w->owner.public_half : NULL,
		.device = w->devices[0].device,
		.preemption = w->on_gpu,
		.allows_modules = w->request->runner.allow_modules,
		.files = w->files != NULL,
		.sessions = wire_sessions[w->sessions],
		.owners = (const char *const *)w->owners.names,
		.owner_count = w->owners.count,
		.confinement = confinement
	};
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, key, error);

	rc = rc ? rc : sgpu_key_public(key, &recipient, error);
	if (rc == SGPU_OK) {
		w->quoted = &w->keys[w->key_count++];
	}
	rc = rc ? rc : sgpu_quote_claims(&subject, 0, &claims, error);
	rc = rc ? rc : sgpu_json_canonical(claims, &text, &size, error);
	rc = rc ? rc : wire_say_text(signer_fd, WIRE_CLAIMS, text, size, error);
	json_decref(claims);
	json_decref(confinement);
	free(text);
	return rc;
}

int signer_ask(const uint8_t *nonce, size_t nonce_size, char **quote, size_t *size,
	       struct sgpu_error *error)
{
	struct wire_quote question = { .nonce_size = (uint32_t)nonce_size,
				       .debugged = strcmp(sgpu_debug_status(), "disabled") != 0 };
	int rc;

	memcpy(question.nonce, nonce, nonce_size);
	rc = await_child(
		sgpu_wire_send(signer_fd, WIRE_QUOTE, &question, sizeof(question), NULL, 0), error);
	return rc ? rc : wire_hear_text(signer_fd, WIRE_QUOTE_IS, quote, size, error);
}
