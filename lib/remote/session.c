/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side of a session: opened and closed, and its groups, which fill up until something must be known.
 */
#include <stdlib.h>

#include "remote/client.h"

int sgpu_remote_open(const struct sgpu_remote_config *config, struct sgpu_remote **remote, struct sgpu_error *error)
{
	struct sgpu_remote *r = calloc(1, sizeof(*r));
	int rc;

	*remote = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->pipe = (struct sgpu_pipe){ config->in, config->out };
	rc = sgpu_group_client_open(config->owner, sgpu_pipe_exchange, &r->pipe, &r->client, error);
	if (rc < 0) {
		free(r);
		return rc;
	}
	*remote = r;
	return SGPU_OK;
}

void sgpu_remote_close(struct sgpu_remote **remote)
{
	struct sgpu_remote *r = remote ? *remote : NULL;

	if (!r) {
		return;
	}
	sgpu_group_client_close(&r->client);
	free(r->sealed);
	free(r);
	*remote = NULL;
}

/* ---- groups ---- */
int sgpu_remote_flush(struct sgpu_remote *remote, struct sgpu_error *error)
{
	if (remote->pending == 0) {
		return SGPU_OK;
	}
	remote->pending = 0;
	return sgpu_group_client_send(remote->client, remote->results, error);
}

int sgpu_remote_add(struct sgpu_remote *remote, const struct sgpu_item *item, struct sgpu_error *error)
{
	int rc = sgpu_group_client_add(remote->client, item, NULL);

	if (rc != SGPU_OK && remote->pending > 0) {
		rc = sgpu_remote_flush(remote, error);
		if (rc < 0) {
			return rc;
		}
		rc = SGPU_EUSAGE;
	}
	if (rc != SGPU_OK) {
		rc = sgpu_group_client_add(remote->client, item, error);
	}
	remote->pending += rc == SGPU_OK;
	return rc;
}

int sgpu_remote_sync(struct sgpu_remote *remote, struct sgpu_error *error)
{
	return sgpu_remote_flush(remote, error);
}
