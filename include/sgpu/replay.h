/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of the batches that were taken, so that each is taken once. It is in memory, or in a
 * directory that several processes can share and that outlives them. */
#ifndef SGPU_REPLAY_H
#define SGPU_REPLAY_H

#include <stdint.h>

#include <sgpu/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_REPLAY_WINDOW_DAYS =
		7, /* the default age up to which batches are taken and remembered */
	SGPU_REPLAY_AHEAD_SECONDS = 5 * 60, /* how far a batch's clock may be ahead */
};

struct sgpu_replay;

/* directory NULL: in memory. Otherwise a directory of this user without rights for others, which is
 * made (0700) if missing. window_us: microseconds. A record of the version before is taken over: it
 * named batches in other ways, so all that were sealed until now are refused as too old. Errors:
 * SGPU_EPOLICY for another user's directory, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_replay_create(const char *directory, uint64_t window_us,
				       struct sgpu_replay **replay, struct sgpu_error *error);
void sgpu_replay_free(struct sgpu_replay **replay);

/* Takes a batch, by sgpu_batch_identity(). Its signature and MAC must have verified: otherwise an
 * attacker could mark an owner's batch as taken. counter and now_us: microseconds since 1970. When
 * this returns 0, it is on the disk, so no crash lets a batch run twice. After an error it is not
 * recorded, and can come again. If this process dies or the machine loses power in here, the batch
 * may be recorded and not have run. Errors: SGPU_EPOLICY if the batch was taken before, is older
 * than the window or comes from the future; SGPU_ENOSPACE, SGPU_ESYSTEM if it cannot be recorded.
 */
SGPU_MUST_CHECK int sgpu_replay_take(struct sgpu_replay *replay,
				     const uint8_t identity[SGPU_SHA256_SIZE], uint64_t counter,
				     uint64_t now_us, struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
