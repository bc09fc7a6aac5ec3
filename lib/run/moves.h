/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments on their way from one device to another, sealed.
 */
#ifndef SGPU_RUN_MOVES_H
#define SGPU_RUN_MOVES_H

#include <sgpu/run.h>

struct sgpu_moves;
struct sgpu_note;
struct sgpu_run_base;

/* Opens the ways that the plan needs. moved: handles the note, whose index is the move of the plan,
 * when one has ended. */
SGPU_MUST_CHECK int sgpu_moves_create(struct sgpu_run_base *base,
				      void (*moved)(struct sgpu_note *note), void *owner,
				      struct sgpu_moves **moves, struct sgpu_error *error);
/* None is under way. Accepts a pointer to NULL. */
void sgpu_moves_free(struct sgpu_moves **moves);

/* The loop's thread calls these. An input has come in well, or an operation has ended well: starts
 * the moves of what is read elsewhere. Those from one device to another go one after the other. */
void sgpu_moves_arrived(struct sgpu_moves *moves, int segment);
void sgpu_moves_ran(struct sgpu_moves *moves, int operation);
/* What became of a move whose note came: SGPU_OK, or a code and the text of why, which lives as
 * long as the moves. Starts the next one. Once a move. */
int sgpu_move_end(struct sgpu_moves *moves, int move, const char **text);
/* Whether none is under way. */
bool sgpu_moves_idle(const struct sgpu_moves *moves);

#endif
