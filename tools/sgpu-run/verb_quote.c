/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run quote: evidence of the worker that runs this user's batches, from a server.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/attest.h>

#include "wire.h"
#include "verbs.h"

/* A server may have to start a worker, and let others have theirs first. */
enum { PATIENCE_S = 180 };

struct values {
	const char *socket, *output;
	struct cli_bytes nonce;
};

const struct cli_option quote_options[] = {
	CLI_COMMON,
	{ "nonce", 0, "HEX", "what the verifier sent for the quote: 8 to 64 bytes",
	  CLI_BYTES(struct values, nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },
	{ "output", 'o', "FILE", "write the quote there, not to standard output",
	  CLI_TEXT(struct values, output) },
	{ "socket", 0, "PATH", "of the server (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct values, socket) },
	CLI_END,
};

static int fetch_quote(const struct values *v, struct sgpu_error *error)
{
	struct wire_quote message = { .nonce_size = (uint32_t)v->nonce.size };
	struct sgpu_record records[SGPU_RECORDS_MAX];
	json_t *claims = NULL;
	char *quote = NULL;
	size_t size = 0;
	int count = 0, rc;

	memcpy(message.nonce, v->nonce.data, v->nonce.size);
	rc = ask_server(v->socket, WIRE_QUOTE, &message, sizeof(message), WIRE_QUOTE_IS, PATIENCE_S,
			&quote, &size, error);
	/* Whether it proves anything is for the owner to say; but what is no quote at all is not
	 * passed on. */
	rc = rc ? rc : sgpu_quote_parse(quote, size, &claims, records, &count, NULL, error);
	if (rc == SGPU_OK) {
		sgpu_records_clear(records, count);
		rc = cli_write_text(v->output, 0666, quote, size, error);
	}
	json_decref(claims);
	free(quote);
	return rc;
}

int verb_quote(int argc, char **argv)
{
	struct values v = { .socket = NULL };
	struct sgpu_error error = { 0 };
	char **none;
	int status = cli_read(argc, argv, &v, &none);

	if (status == 0 && v.nonce.size == 0) {
		status = cli_usage("the verifier's nonce is missing, with --nonce");
	}
	if (status == 0) {
		cli_signals(NULL);
		status = cli_output_prepare(v.output, 0666, false);
	}
	if (status == 0 && fetch_quote(&v, &error) != SGPU_OK) {
		status = cli_error(&error);
	}
	return cli_finish(status);
}
