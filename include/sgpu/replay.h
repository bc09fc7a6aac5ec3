/* SPDX-License-Identifier: Apache-2.0
 *
 * Which batches were taken: each once. In memory for as long as the cache lives, or in a folder that several processes
 * share and that outlives them all.
 */
#ifndef SGPU_REPLAY_H
#define SGPU_REPLAY_H

#include <stdint.h>

#include <sgpu/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_REPLAY_WINDOW_DAYS = 7,       /* how long batches are taken and remembered, unless told otherwise */
	SGPU_REPLAY_AHEAD_SECONDS = 5 * 60, /* how far a batch's clock may be ahead */
};

struct sgpu_replay;

/* folder NULL: in memory. Otherwise a folder of this user with no rights for others, which is made (0700) when it is absent.
 * window_us: microseconds. Errors: SGPU_EPOLICY for another's folder, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_replay_create(const char *folder, uint64_t window_us, struct sgpu_replay **replay,
				       struct sgpu_error *error);
void sgpu_replay_free(struct sgpu_replay **replay);

/* Takes a batch of an owner whose signature and MAC have verified; whoever could make up one of these could else keep the
 * owner's from being taken. counter and now_us: microseconds since 1970. It is on the disk when this returns 0, so that
 * no crash lets a batch run twice. Errors: SGPU_EPOLICY when it was taken before, is older than the window or from the
 * future; SGPU_ESYSTEM when it cannot be remembered. */
SGPU_MUST_CHECK int sgpu_replay_take(struct sgpu_replay *replay, const char *owner,
				     const uint8_t batch_id[SGPU_BATCH_ID_SIZE], uint64_t counter, uint64_t now_us,
				     struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
