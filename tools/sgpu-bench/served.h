/* SPDX-License-Identifier: Apache-2.0
 *
 * A server with its enclave, a client of it that stays, and the programs that a case runs beside.
 */
#ifndef BENCH_SERVED_H
#define BENCH_SERVED_H

#include <sys/types.h>

#include "job.h"
#include "remote/greeting.h"

/* ---- programs (processes.c) ---- */
struct program {
	const char *const *words; /* ends with NULL */
	const char
		*path; /* searched in PATH if it is no path; NULL: words[0] beside this program */
	const char *folder; /* it runs there; NULL: where this one does */
	const int *given;   /* `count` descriptors, which become its 0, 1 and so on */
	int count;
};
/* Starts a program. Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int program_start(const struct program *program, pid_t *pid,
				  struct sgpu_error *error);
/* Runs it to its end, which must be a success. Errors also: SGPU_EDEVICE. */
SGPU_MUST_CHECK int program_run(const struct program *program, struct sgpu_error *error);

/* Returns the processor time of a process that this one has started, and of all that it has
 * started. */
uint64_t process_cpu_ns(pid_t pid);
/* Waits until all that this process has started rest, at most 50 ms. */
void processes_rest(void);

/* A sample of which all processes are part: watch_end gives its time and their processor time, up
 * to when they rest, since what an enclave clears after its answer counts. */
struct watch {
	uint64_t begin_ns, own_ns, others_ns;
};
void watch_begin(struct watch *watch);
void watch_end(struct sgpu_bench *bench, const struct watch *watch);

/* ---- the server (served.c) ---- */
enum { SERVED_FOLDER_MAX = 64, SERVED_PATH_MAX = SERVED_FOLDER_MAX + 32 };
/* The names of its socket and of its key, in its folder. */
#define SERVED_SOCKET "run.sock"
#define SERVED_KEY "key.jwk"

/* Ended with the case, or with its part. */
struct served {
	struct sgpu_bench *bench;
	char folder[SERVED_FOLDER_MAX]; /* in memory; removed with all that is in it */
	pid_t pid;
};
/* Starts a server on bench->device, with a new key, which is symmetric. leases: bytes of its pool.
 * Errors: SGPU_EUNAVAILABLE (a program is not beside this one), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int served_new(struct sgpu_bench *bench, uint64_t leases, struct served **served,
			       struct sgpu_error *error);
/* Sets the path of a file in the folder. */
const char *served_path(const struct served *served, const char *name, char path[SERVED_PATH_MAX]);

/* Has the server run the batch in one file, and waits for the answer; the response is in the other
 * file then. leased: its results are in a lease. Errors: those of the answer. */
SGPU_MUST_CHECK int served_submit(const struct served *served, int batch_fd, int response_fd,
				  bool leased, struct sgpu_error *error);

#endif
