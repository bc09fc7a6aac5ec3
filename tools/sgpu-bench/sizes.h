/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the case sizes.
 */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include <sys/types.h>

#include "job.h"

/* ---- programs (processes.c) ---- */
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
/* Starts a program in a folder (NULL: this one's): one of sgpu's own from beside this one, others
 * from PATH. talk: NULL, or gets a socket, or -1, whose other end is its standard input and output.
 * Errors: SGPU_EUNAVAILABLE; *pid is then 0. */
SGPU_MUST_CHECK int program_start(const char *const *words, const char *folder, int *talk,
				  pid_t *pid, struct sgpu_error *error);
/* Also waits for its end, which must be a success. Errors also: SGPU_EDEVICE. */
SGPU_MUST_CHECK int program_run(const char *const *words, const char *folder,
				struct sgpu_error *error);

/* Returns the processor time of a child and of all that it has started. */
uint64_t process_cpu_ns(pid_t pid);
/* Waits until all that this process has started rest, but 50 ms at most. */
void processes_rest(void);

/* A sample of all processes: watch_end gives the time of one run, and their processor time for it,
 * up to when they rest, since what an enclave clears after its answer counts. */
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
/* In its folder: its socket, and its keys for batches and for sessions. */
#define SERVED_SOCKET "run.sock"
#define SERVED_KEY "key.jwk"
#define SERVED_PAIR "pair.jwk"

/* Ended with the case, or with its part. */
struct served {
	struct sgpu_bench *bench;
	char folder[SERVED_FOLDER_MAX]; /* in memory; removed with its contents */
	pid_t pid;
};
/* Starts a server on bench->device, with a new symmetric key and a new pair. leases: bytes of its
 * pool. Errors: SGPU_EUNAVAILABLE (a program is not beside this one), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int served_new(struct sgpu_bench *bench, uint64_t leases, struct served **served,
			       struct sgpu_error *error);
const char *served_path(const struct served *served, const char *name, char path[SERVED_PATH_MAX]);

/* Has the server run the batch in one file and write the response to the other. leased: results are
 * in a lease. Errors: the answer's. */
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
/* Another runs the operation over what is there: these copy the inputs and spoilt outputs in; run
 * it; copy the outputs out, and check them. */
int priced_bring(void *priced, struct sgpu_error *error);
int priced_run_alone(void *priced, struct sgpu_error *error);
int priced_fetch(void *priced, struct sgpu_error *error);

/* ---- by tests/bench/naive.py, in another process (naive.c) ---- */
struct naive;
/* Errors: SGPU_EUNAVAILABLE: python3 or a module is not there. */
SGPU_MUST_CHECK int naive_new(struct sgpu_bench *bench, struct naive **naive,
			      struct sgpu_error *error);
/* Has it price so many options, `row` times. *ns: the time of one, without the preparation. */
SGPU_MUST_CHECK int naive_run(const struct naive *naive, uint64_t count, int row, uint64_t *ns,
			      struct sgpu_error *error);

/* ---- figures that a goal is about (sizes_figures.c) ---- */
SGPU_MUST_CHECK int sizes_figures(struct sgpu_bench *bench, struct sgpu_error *error);
/* Of a server that has run a batch. */
SGPU_MUST_CHECK int sizes_idle(struct served *served, struct sgpu_error *error);

#endif
