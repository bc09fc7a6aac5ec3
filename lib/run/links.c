/* SPDX-License-Identifier: Apache-2.0
 *
 * See links.h.
 */
#include "run/links.h"

#include <pthread.h>
#include <stdlib.h>

#include "run/run.h"

struct sgpu_links {
	pthread_mutex_t mutex;
	struct sgpu_peer *peers[SGPU_RUN_DEVICES_MAX][SGPU_RUN_DEVICES_MAX];
};

int sgpu_links_create(struct sgpu_links **links, struct sgpu_error *error)
{
	*links = calloc(1, sizeof(**links));
	if (!*links) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&(*links)->mutex, NULL);
	return SGPU_OK;
}

void sgpu_links_free(struct sgpu_links **links)
{
	if (!*links) {
		return;
	}
	for (int i = 0; i < SGPU_RUN_DEVICES_MAX; i++) {
		for (int k = 0; k < SGPU_RUN_DEVICES_MAX; k++) {
			sgpu_peer_close(&(*links)->peers[i][k]);
		}
	}
	pthread_mutex_destroy(&(*links)->mutex);
	free(*links);
	*links = NULL;
}

int sgpu_links_get(struct sgpu_links *links, const struct sgpu_run_device *from,
		   const struct sgpu_run_device *to, struct sgpu_peer **peer,
		   struct sgpu_error *error)
{
	struct sgpu_peer **own = &links->peers[from->number][to->number];
	int rc = SGPU_OK;

	pthread_mutex_lock(&links->mutex);
	if (!*own) {
		rc = sgpu_peer_open(from->device, to->device, NULL, own, error);
	}
	*peer = *own;
	pthread_mutex_unlock(&links->mutex);
	return rc;
}
