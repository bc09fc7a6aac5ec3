/* SPDX-License-Identifier: Apache-2.0
 *
 * See requests.h. The platform may take its time for a report, so each request has a thread. They
 * ask the process that signs one after the other, and only a few may wait: whoever asks for many
 * quotes is told to come again.
 */
#include "requests.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "harden.h"

enum { WAITING_MAX = 16 };

struct question {
	int connection;
	struct wire_quote message;
};

static struct {
	int fd; /* of the process that signs; -1: there is none, and no quotes */
	const struct sgpu_key *key; /* what quotes name: the worker's */
	struct serve_counters *counters;
	pthread_mutex_t mutex; /* held by whoever asks */
	atomic_uint waiting;
} q = { .fd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER };

int serve_quote_begin(const struct server *server, struct sgpu_error *error)
{
	return server->attestation_key
		       ? quoter_start(server->attestation_key, server->certificate, &q.fd, error)
		       : SGPU_OK;
}

int serve_quote_claim(struct server *server, struct sgpu_error *error)
{
	static const uint8_t any_nonce[SGPU_NONCE_MIN];
	struct worker *w = &server->worker;
	struct sgpu_key *key = &w->keys[w->key_count], public_half;
	struct sgpu_quote_subject subject;
	json_t *confinement, *claims = NULL;
	int rc;

	if (q.fd < 0) {
		return SGPU_OK;
	}
	confinement = worker_confinement(w);
	subject = worker_subject(w, confinement);
	subject.nonce = any_nonce;
	subject.nonce_size = sizeof(any_nonce);
	subject.recipient = &public_half;
	rc = confinement ? sgpu_key_generate(SGPU_KEY_X25519, key, error) : sgpu_fail_nomem(error);
	if (rc < 0) {
		goto out;
	}
	w->key_count++;
	q.key = key;
	rc = sgpu_key_public(key, &public_half, error);
	if (rc < 0) {
		goto out;
	}
	rc = sgpu_quote_claims(&subject, 0, &claims, error);
	if (rc < 0) {
		goto out;
	}
	rc = quoter_claim(q.fd, claims, error);
out:
	json_decref(claims);
	json_decref(confinement);
	return rc;
}

static void *answer(void *argument)
{
	struct question *question = argument;
	struct sgpu_error error = { 0 };
	int quote = -1, rc;

	pthread_mutex_lock(&q.mutex);
	question->message.debugged = strcmp(sgpu_debug_status(), "disabled") != 0;
	rc = quoter_quote(q.fd, &question->message, &quote, &error);
	pthread_mutex_unlock(&q.mutex);
	atomic_fetch_sub(&q.waiting, 1);
	if (rc < 0) {
		requests_refuse(question->connection, &error);
	} else {
		atomic_store(&q.counters->quoted_ns, sgpu_now_ns());
		(void)wire_say(question->connection, WIRE_QUOTE_IS, quote);
		close(quote);
		requests_end(question->connection);
	}
	free(question);
	return NULL;
}

/* Without the process that signs, nobody can seal to this worker any more. */
static void *watch_signer(void *unused)
{
	struct pollfd signer = { .fd = q.fd };

	(void)unused;
	while (poll(&signer, 1, -1) <= 0) {
	}
	cli_warning("the process that signs quotes has ended: another worker takes the place of "
		    "this one");
	requests_wear_out();
	return NULL;
}

int serve_quote_start(struct serve_counters *counters, struct sgpu_error *error)
{
	q.counters = counters;
	return q.fd < 0 ? SGPU_OK : requests_start_thread(watch_signer, NULL, error);
}

static int check_question(const struct wire_quote *message, struct sgpu_error *error)
{
	if (q.fd < 0) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "this server gives no quotes: it has no attestation key");
		return sgpu_hint(error, "'sgpu-run serve --attestation-key' gives it one");
	}
	if (message->nonce_size < SGPU_NONCE_MIN || message->nonce_size > SGPU_NONCE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "a nonce has %d to %d bytes", SGPU_NONCE_MIN,
				 SGPU_NONCE_MAX);
	}
	if (atomic_load(&q.waiting) == WAITING_MAX) {
		return sgpu_fail(error, SGPU_ERETRY,
				 "%d quotes are asked for already, which is the limit",
				 WAITING_MAX);
	}
	return SGPU_OK;
}

void serve_quote(const struct request *request)
{
	struct question *question = calloc(1, sizeof(*question));
	struct sgpu_error error = { 0 };
	int rc = question ? wire_receive(request->connection, WIRE_QUOTE, &question->message,
					 sizeof(question->message), NULL, 0, &error)
			  : sgpu_fail_nomem(&error);

	rc = rc ? rc : check_question(&question->message, &error);
	if (rc == SGPU_OK) {
		question->connection = request->connection;
		atomic_fetch_add(&q.waiting, 1);
		rc = requests_start_thread(answer, question, &error);
		if (rc == SGPU_OK) {
			return;
		}
		atomic_fetch_sub(&q.waiting, 1);
	}
	free(question);
	if (rc == SGPU_ECANCELED || rc == SGPU_ETIMEOUT) {
		requests_end(request->connection);
	} else {
		requests_refuse(request->connection, &error);
	}
}

const struct sgpu_key *serve_quote_key(void)
{
	return q.key;
}

void serve_quote_explain(struct sgpu_error *error)
{
	if (q.fd >= 0 && error->code == SGPU_EKEY) {
		(void)sgpu_hint(error, "if it is sealed to the key of a quote, the worker that "
				       "gave the quote has ended: "
				       "ask for a new one with 'sgpu-run quote'");
	}
}
