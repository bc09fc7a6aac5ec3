/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's side of a session: opens and closes it, and collects items in groups until a result
 * is needed.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"
#include "remote/client.h"

/* Bytes. The alignment of pieces in the area, for devices that copy them before they open them. */
enum { AREA_STEP = 256 };

_Static_assert(SGPU_AREA_SIZE % AREA_STEP == 0,
	       "what is used of the area is never more than there is");

int sgpu_remote_open_carrier(struct sgpu_carrier *carrier, const struct sgpu_signing_key *owner,
			     const struct sgpu_key *runner, struct sgpu_remote **remote,
			     struct sgpu_error *error)
{
	struct sgpu_remote *r = calloc(1, sizeof(*r));
	int rc;

	*remote = NULL;
	if (!r) {
		carrier->calls->close(carrier);
		return sgpu_fail_nomem(error);
	}
	r->carrier = carrier;
	r->owned[0] = r->owned[1] = r->owned[2] = -1;
	r->key_chunks = SGPU_REMOTE_KEY_CHUNKS;
	r->directions = sgpu_secret_alloc(2 * sizeof(*r->directions));
	rc = r->directions ? sgpu_group_client_open(owner, runner, carrier->calls->exchange,
						    carrier, &r->client, error)
			   : sgpu_fail_nomem(error);
	if (rc < 0) {
		sgpu_remote_close(&r);
	}
	*remote = r;
	return rc;
}

int sgpu_remote_open(const struct sgpu_remote_config *config, struct sgpu_remote **remote,
		     struct sgpu_error *error)
{
	struct sgpu_carrier *carrier = NULL;
	const int rc = sgpu_carrier_pipe(config->in, config->out, &carrier, error);

	*remote = NULL;
	if (rc < 0) {
		return rc;
	}
	return sgpu_remote_open_carrier(carrier, config->owner, config->runner, remote, error);
}

void sgpu_remote_close(struct sgpu_remote **remote)
{
	struct sgpu_remote *r = remote ? *remote : NULL;

	if (!r) {
		return;
	}
	sgpu_group_client_close(&r->client);
	r->carrier->calls->close(r->carrier);
	if (r->directions) {
		sgpu_remote_forget_keys(r);
		sgpu_secret_free(r->directions, 2 * sizeof(*r->directions));
	}
	for (int i = 0; i < 3; i++) {
		sgpu_close(r->owned[i]);
	}
	free(r->sealed);
	free(r);
	*remote = NULL;
}

/* ---- groups ---- */
int sgpu_remote_flush(struct sgpu_remote *remote, struct sgpu_error *error)
{
	int rc;

	if (remote->pending == 0) {
		remote->area_used = 0; /* room may have been reserved without adding an item */
		return SGPU_OK;
	}
	rc = sgpu_group_client_send(remote->client, error);
	rc = rc ? rc : sgpu_remote_take_pieces(remote, error);
	remote->pending = remote->piece_count = 0;
	remote->area_used = 0;
	return rc;
}

int sgpu_remote_reserve(struct sgpu_remote *remote, uint64_t bytes, uint64_t *at,
			struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (bytes > SGPU_AREA_SIZE - remote->area_used ||
	    !sgpu_group_client_has_room(remote->client, 0)) {
		rc = sgpu_remote_flush(remote, error);
	}
	if (rc < 0) {
		return rc;
	}
	*at = remote->area_used;
	remote->area_used += (bytes + AREA_STEP - 1) / AREA_STEP * AREA_STEP;
	return SGPU_OK;
}

int sgpu_remote_add(struct sgpu_remote *remote, const struct sgpu_item *item,
		    struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (remote->pending > 0 && !sgpu_group_client_has_room(remote->client, item->tail_size)) {
		rc = sgpu_remote_flush(remote, error);
	}
	rc = rc ? rc : sgpu_group_client_add(remote->client, item, error);
	remote->pending += rc == SGPU_OK;
	return rc;
}
