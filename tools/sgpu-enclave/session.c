/* SPDX-License-Identifier: Apache-2.0
 *
 * A session of a program, sgpu-session(5), on standard input and output.
 */
#include <unistd.h>

#include <sgpu/session.h>

#include "base/io.h"
#include "enclave.h"

static const char of_sessions[] =
	" key owners device jobs quote nonce attestation-key certificate local session memory ";

int run_session(struct enclave *w)
{
	const struct run_request *r = w->request;
	const char *name = runner_given(of_sessions);
	struct landlock_needs needs = { .files = NULL };
	struct sgpu_session_authority authority;
	struct sgpu_error error = { 0 };
	int status = 0, fd = -1, rc;

	if (name) {
		return cli_usage("--%s is about a batch, and --session takes none", name);
	}
	w->sessions = r->runner.owners ? WIRE_SESSIONS_OWNERS : WIRE_SESSIONS_ANY;
	if (!r->quote && r->runner.keys.count == 0) {
		return cli_usage("--session needs -k, the key that the session is bound to, or "
				 "--quote");
	}
	status = enclave_check(w);
	if (status == 0) {
		status = cli_input("-", &name, &fd); /* not from a terminal */
	}
	status = status ? status : cli_binary_output(NULL);
	status = status ? status : cli_output_prepare(r->quote, 0666, false);
	status = status ? status : enclave_begin(w, NULL);
	if (status) {
		return status;
	}
	/* The program waits for the evidence, and binds its session to the key in that. */
	rc = enclave_open(w, &needs, &error);
	rc = rc ? rc : enclave_start(w, -1, &error);
	rc = rc ? rc : enclave_authority(w, &authority, &error);
	rc = rc ? rc
		: sgpu_remote_serve(w->devices[0].context, r->memory, &authority, STDIN_FILENO,
				    cli_output_fd, &error);
	return rc == SGPU_OK				       ? 0
	       : rc == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(rc)
							       : cli_error(&error);
}
