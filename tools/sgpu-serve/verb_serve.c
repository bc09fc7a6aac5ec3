/* SPDX-License-Identifier: Apache-2.0
 *
 * The service: takes batches from the users of this machine. The supervisor starts here and goes to
 * supervisor.c.
 */
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "stage/lease.h"
#include "serve.h"

#define DEFAULT_DRAIN_NS UINT64_C(30000000000)
#define DEFAULT_STALL_NS UINT64_C(10000000000)
enum {
	DEFAULT_WORKERS = 8,
	DEFAULT_AHEAD = 1,
	DEFAULT_SUBMISSIONS = 64,
	DEFAULT_RUNNING_MIN = 4,
	RUNNING_MAX = 1024
};

const struct cli_option serve_options[] = {
	{ CLI_ROWS(runner_rows) },
	{ "socket", 0, "PATH", "where clients connect (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct server, socket) },
	{ "everybody", 0, NULL, "let all users of this machine connect, not this one alone",
	  CLI_FLAG(struct server, everybody) },
	{ "workers", 0, "N", "at most so many worker processes (default: 8)",
	  CLI_NUMBER(struct server, workers, 1, SERVE_WORKERS_MAX) },
	{ "ahead", 0, "N", "worker processes that wait for new users (default: 1)",
	  CLI_NUMBER(struct server, ahead, 0, SERVE_WORKERS_MAX) },
	{ "submissions", 0, "N", "most batches of one user at a time (default: 64)",
	  CLI_NUMBER(struct server, submissions, 1, SERVE_SUBMISSIONS_MAX) },
	{ "running", 0, "N",
	  "batches of all users that run at once (default: one a processor, at least 4)",
	  CLI_NUMBER(struct server, running, 1, RUNNING_MAX) },
	{ "sessions", 0, "WHOSE", "take sessions of programs: none, owners or any",
	  CLI_TEXT(struct server, sessions) },
	{ "session-memory", 0, "SIZE",
	  "device memory that a session of a program may have (default: all that is free)",
	  CLI_SIZE(struct server, begin.session_memory, 1, UINT64_MAX) },
	{ "tenants", 0, "FILE", "what each user may have: weight, priority and limits",
	  CLI_INPUT(struct server, tenants) },
	{ "attestation-key", 0, "KEY",
	  "the key that signs quotes of the workers; see the verb quote",
	  CLI_INPUT(struct server, runner.attestation_key) },
	{ "certificate", 0, "FILE", "certificate chain of that key, up to the authority",
	  CLI_INPUT(struct server, runner.certificate) },
	{ "leases", 0, "SIZE",
	  "memory of each worker for payloads and results beside the pipe (default: none)",
	  CLI_SIZE(struct server, begin.leases, 1, SGPU_LEASE_POOL_MAX) },
	{ "lease-life", 0, "DURATION", "how long a lease stays that nobody uses (default: 1m)",
	  CLI_DURATION(struct server, begin.lease_ns, 0) },
	{ "stall", 0, "DURATION",
	  "how long a lease or session may stay unused while others lack a worker (default: 10s)",
	  CLI_DURATION(struct server, begin.stall_ns, 0) },
	{ "drain", 0, "DURATION", "how long work may go on after SIGTERM (default: 30s)",
	  CLI_DURATION(struct server, drain_ns, 0) },
	CLI_END,
};

static bool is_descriptor(const char *key)
{
	return key && (cli_is_standard(key) || strncmp(key, "fd:", 3) == 0);
}

static int check_server(struct server *server)
{
	const struct runner_options *o = &server->runner;
	const uint64_t sessions = server->begin.sessions;
	bool descriptors = is_descriptor(o->attestation_key) || is_descriptor(o->certificate);

	for (int i = 0; i < o->keys.count; i++) {
		descriptors = descriptors || is_descriptor(o->keys.items[i]);
	}
	if (descriptors) {
		return cli_usage("a server's keys are files, since each of its workers reads them");
	}
	if (sessions == WIRE_SESSIONS) {
		return cli_usage("--sessions is none, owners or any, not '%s'",
				 SGPU_EXCERPT(server->sessions));
	}
	if (sessions == WIRE_SESSIONS_OWNERS && !o->owners) {
		return cli_usage("--sessions owners needs --owners");
	}
	if (sessions != WIRE_SESSIONS_NONE && o->allow_modules) {
		return cli_usage("--allow-modules and --sessions exclude each other: a module runs "
				 "alone in its process");
	}
	if (!o->attestation_key != !o->certificate) {
		return cli_usage("%s needs %s",
				 o->certificate ? "--certificate" : "--attestation-key",
				 o->certificate ? "--attestation-key" : "--certificate");
	}
	if (o->owners && !o->state) {
		return cli_usage("a server with --owners needs --state, where its workers record "
				 "what they took");
	}
	return 0;
}

static int serve(struct server *server)
{
	const bool keys = server->runner.keys.count > 0;
	struct service_socket socket = { .fd = -1 };
	struct sgpu_service_path path;
	struct sgpu_error error = { 0 };
	int rc, status;

	rc = runner_find(&server->enclave_fd, &error);
	rc = rc ? rc : runner_arguments(-1, &server->arguments, &error);
	rc = rc ? rc : sgpu_service_find(server->socket, &path, &error);
	rc = rc ? rc : service_listen(&path, server->everybody, &socket, &error);
	/* Owners would notice only when their batches are refused, or never. */
	if (!keys && !server->runner.attestation_key) {
		cli_warning("no key, with -k, and no --attestation-key: sealed batches will be "
			    "refused");
	} else if (keys && server->runner.attestation_key) {
		cli_warning("quotes name the workers' own keys and none of -k: no policy speaks of "
			    "batches that are sealed to those");
	}
	status = rc == SGPU_OK ? supervise(server, &socket) : cli_error(&error);
	service_close(&socket);
	return status;
}

/* Returns WIRE_SESSIONS for another word. By default owners' sessions are taken; without owners,
 * anybody's, unless a quote would have to say so; none beside modules. */
static enum wire_sessions whose_sessions(const struct server *server)
{
	int i = 0;

	if (!server->sessions) {
		return server->runner.allow_modules	? WIRE_SESSIONS_NONE
		       : server->runner.owners		? WIRE_SESSIONS_OWNERS
		       : server->runner.attestation_key ? WIRE_SESSIONS_NONE
							: WIRE_SESSIONS_ANY;
	}
	while (i < WIRE_SESSIONS && strcmp(server->sessions, wire_sessions[i]) != 0) {
		i++;
	}
	return (enum wire_sessions)i;
}

int verb_serve(int argc, char **argv)
{
	static struct server server = { .workers = DEFAULT_WORKERS,
					.ahead = DEFAULT_AHEAD,
					.submissions = DEFAULT_SUBMISSIONS,
					.drain_ns = DEFAULT_DRAIN_NS,
					.begin.stall_ns = DEFAULT_STALL_NS };
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	char **none;
	int status;

	/* While one batch computes, others are read and written. */
	server.running = processors <= DEFAULT_RUNNING_MIN ? DEFAULT_RUNNING_MIN
			 : processors >= RUNNING_MAX	   ? RUNNING_MAX
							   : (unsigned)processors;
	status = cli_read(argc, argv, &server, &none);
	server.begin.sessions = whose_sessions(&server);
	server.begin.submissions = server.submissions;
	status = status ? status : check_server(&server);
	if (status == 0) {
		cli_raise_descriptors(); /* each waiting connection takes one, each worker two */
		cli_harden();
		status = serve(&server);
	}
	return cli_finish(status);
}
