/* SPDX-License-Identifier: Apache-2.0
 *
 * What the case sizes is made of.
 */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include <sys/types.h>

#include "job.h"

/* ---- programs (processes.c) ---- */
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* Starts a program in a folder (NULL: where this one runs): one of sgpu's own lies beside this one,
 * others are looked up in PATH. talk: NULL, or gets a socket, or -1, whose other end is its
 * standard input and output. Errors: SGPU_EUNAVAILABLE; *pid is then 0. */
SGPU_MUST_CHECK int program_start(const char *const *words, const char *folder, int *talk,
				  pid_t *pid, struct sgpu_error *error);
/* Runs it to its end, which must be a success. Errors also: SGPU_EDEVICE. */
SGPU_MUST_CHECK int program_run(const char *const *words, const char *folder,
				struct sgpu_error *error);

/* Returns the processor time of a process that this one has started, and of all that it has
 * started. */
uint64_t process_cpu_ns(pid_t pid);
/* Waits until all that this process has started rest, at most 50 ms. */
void processes_rest(void);

/* A sample of which all processes are part: watch_end gives the time of one of its runs, and their
 * processor time for it, up to when they rest, since what an enclave clears after its answer
 * counts. */
struct watch {
	uint64_t begin_ns, own_ns, others_ns;
};
void watch_begin(struct watch *watch);
void watch_end(struct sgpu_bench *bench, const struct watch *watch, int runs);

/* ---- the server (served.c) ---- */
enum {
	SERVED_FOLDER_MAX = 64,
	SERVED_NAME_MAX = 32,
	SERVED_PATH_MAX = SERVED_FOLDER_MAX + SERVED_NAME_MAX
};
/* The names of its socket and of its keys, for batches and for sessions, in its folder. */
#define SERVED_SOCKET "run.sock"
#define SERVED_KEY "key.jwk"
#define SERVED_PAIR "pair.jwk"

/* Ended with the case, or with its part. */
struct served {
	struct sgpu_bench *bench;
	char folder[SERVED_FOLDER_MAX]; /* in memory; removed with all that is in it */
	pid_t pid;
};
/* Starts a server on bench->device, with new keys, a symmetric one and a pair. leases: bytes of its
 * pool.
 * Errors: SGPU_EUNAVAILABLE (a program is not beside this one), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int served_new(struct sgpu_bench *bench, uint64_t leases, struct served **served,
			       struct sgpu_error *error);
const char *served_path(const struct served *served, const char *name, char path[SERVED_PATH_MAX]);

/* Has the server run the batch in one file, and waits for the answer; the response is in the other
 * file then. leased: its results are in a lease. Errors: those of the answer. */
SGPU_MUST_CHECK int served_submit(const struct served *served, int batch_fd, int response_fd,
				  bool leased, struct sgpu_error *error);

/* ---- in a session of a server, over a ring (priced_session.c) ---- */
struct priced;
/* The session is kept. */
SGPU_MUST_CHECK int priced_new(struct sgpu_bench *bench, const struct job_side *side,
			       struct priced **priced, struct sgpu_error *error);
/* For variants whose argument is a priced. One copies the inputs in, runs the operation and copies
 * the outputs out, sealed on the way. */
int priced_spoil(void *priced, struct sgpu_error *error);
int priced_run(void *priced, struct sgpu_error *error);
int priced_check(void *priced, struct sgpu_error *error);
/* Another one runs the operation over what is there: this copies the inputs in, and spoilt outputs;
 * runs it; and copies the outputs out, and checks them. */
int priced_bring(void *priced, struct sgpu_error *error);
int priced_run_alone(void *priced, struct sgpu_error *error);
int priced_fetch(void *priced, struct sgpu_error *error);

/* ---- by tests/bench/naive.py, in another process (naive.c) ---- */
struct naive;
/* Starts it. Errors: SGPU_EUNAVAILABLE: python3 or a module is not there. */
SGPU_MUST_CHECK int naive_new(struct sgpu_bench *bench, struct naive **naive,
			      struct sgpu_error *error);
/* Has it price so many options, `row` times. *ns: how long one took, without the preparation. */
SGPU_MUST_CHECK int naive_run(const struct naive *naive, uint64_t count, int row, uint64_t *ns,
			      struct sgpu_error *error);

/* ---- figures that a goal is about (sizes_figures.c) ---- */
SGPU_MUST_CHECK int sizes_figures(struct sgpu_bench *bench, struct sgpu_error *error);
/* Of a server that has run a batch. */
SGPU_MUST_CHECK int sizes_idle(struct served *served, struct sgpu_error *error);

#endif
