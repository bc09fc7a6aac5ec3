/* SPDX-License-Identifier: Apache-2.0
 *
 * See requests.h. One thread asks the process that signs, since the platform may take its time
 * for a report. Requests wait for it in a queue that is short: whoever asks for many quotes is told
 * to come again.
 */
#include "requests.h"

#include <poll.h>
#include <pthread.h>
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
	pthread_mutex_t mutex;
	pthread_cond_t asked;
	struct question waiting[WAITING_MAX];
	unsigned first, count; /* the first may be under way */
} q = { .fd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER, .asked = PTHREAD_COND_INITIALIZER };

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

/* ---- the thread ---- */
static void answer(struct question *question)
{
	struct sgpu_error error = { 0 };
	int quote = -1;

	question->message.debugged = strcmp(sgpu_debug_status(), "disabled") != 0;
	if (quoter_quote(q.fd, &question->message, &quote, &error) < 0) {
		requests_refuse(question->connection, &error);
		return;
	}
	atomic_store(&q.counters->quoted_ns, sgpu_now_ns());
	(void)wire_say(question->connection, WIRE_QUOTE_IS, quote);
	close(quote);
	requests_end(question->connection);
}

static void *answer_all(void *argument)
{
	(void)argument;
	for (;;) {
		struct question question;

		pthread_mutex_lock(&q.mutex);
		while (q.count == 0) {
			pthread_cond_wait(&q.asked, &q.mutex);
		}
		question = q.waiting[q.first];
		pthread_mutex_unlock(&q.mutex);
		answer(&question);
		pthread_mutex_lock(&q.mutex);
		q.first = (q.first + 1) % WAITING_MAX;
		q.count--;
		pthread_mutex_unlock(&q.mutex);
	}
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
	int rc;

	if (q.fd < 0) {
		return SGPU_OK;
	}
	q.counters = counters;
	rc = requests_start_thread(answer_all, NULL, error);
	return rc == SGPU_OK ? requests_start_thread(watch_signer, NULL, error) : rc;
}

/* ---- the loop ---- */
/* Whether it waits now. */
static bool add_question(const struct question *question)
{
	bool added;

	pthread_mutex_lock(&q.mutex);
	added = q.count < WAITING_MAX;
	if (added) {
		q.waiting[(q.first + q.count++) % WAITING_MAX] = *question;
		pthread_cond_signal(&q.asked);
	}
	pthread_mutex_unlock(&q.mutex);
	return added;
}

void serve_quote(const struct request *request)
{
	struct question question = { .connection = request->connection };
	struct sgpu_error error = { 0 };
	int rc = wire_receive(request->connection, WIRE_QUOTE, &question.message,
			      sizeof(question.message), NULL, 0, &error);

	if (rc == SGPU_OK && q.fd < 0) {
		sgpu_fail(&error, SGPU_EUNAVAILABLE,
			  "this server gives no quotes: it has no attestation key");
		rc = sgpu_hint(&error, "'sgpu-run serve --attestation-key' gives it one");
	}
	if (rc == SGPU_OK && (question.message.nonce_size < SGPU_NONCE_MIN ||
			      question.message.nonce_size > SGPU_NONCE_MAX)) {
		rc = sgpu_fail(&error, SGPU_EINVALID, "a nonce has %d to %d bytes", SGPU_NONCE_MIN,
			       SGPU_NONCE_MAX);
	}
	if (rc == SGPU_OK && !add_question(&question)) {
		rc = sgpu_fail(&error, SGPU_ERETRY,
			       "%d quotes are asked for already, which is the limit", WAITING_MAX);
	}
	if (rc == SGPU_ECANCELED || rc == SGPU_ETIMEOUT) {
		requests_end(request->connection);
	} else if (rc < 0) {
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
