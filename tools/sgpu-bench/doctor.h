/* SPDX-License-Identifier: Apache-2.0
 *
 * What a machine has for confidential work on a GPU: one row a check.
 */
#ifndef BENCH_DOCTOR_H
#define BENCH_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_MISSING,
	DOCTOR_WRONG
}; /* wrong: it is there, and does not serve */

struct doctor_finding {
	enum doctor_status status;
	char found[192]; /* printable, also where it quotes a file */
};

struct doctor_check {
	const char *name, *serves; /* what it is for, a clause for people */
	void (*look)(const struct doctor_check *check, struct doctor_finding *finding);
	const char *fix; /* a sentence without its full stop */
	const char
		*path; /* files, a pattern of glob(7); they must be there, and one must serve, or */
	bool every;    /* ...all of them. To serve, */
	bool access;   /* ...this process may read and write it; or */
	const char *
		wanted; /* ...its first line is one of these words, or has what is behind "*"; or */
	uint64_t least, most; /* ...that is a number, at least this and, unless 0, at most that */
};

enum { DOCTOR_CHECKS_MAX = 64 };
extern const struct doctor_check doctor_checks[]; /* ends with a NULL name */

void doctor_say(struct doctor_finding *finding, enum doctor_status status, const char *format, ...)
	SGPU_PRINTF(3, 4);

/* Files of the kernel's: those of the row, by what it says of them; places to swap to. */
void doctor_look(const struct doctor_check *check, struct doctor_finding *finding);
void doctor_look_swap(const struct doctor_check *check, struct doctor_finding *finding);
/* The platform is wanted; the GPU opens, and its mode is `wanted`; `least` bytes may be locked; the
 * system call of the number `least` is there, and with `wanted` gives a version. */
void doctor_ask_platform(const struct doctor_check *check, struct doctor_finding *finding);
void doctor_ask_gpu(const struct doctor_check *check, struct doctor_finding *finding);
void doctor_ask_lock_limit(const struct doctor_check *check, struct doctor_finding *finding);
void doctor_ask_call(const struct doctor_check *check, struct doctor_finding *finding);

#endif
