/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure sessions for programs: memory and work on the device of a worker, in another process or on
 * another machine, over a connection that is not trusted. All requests travel in sealed groups
 * under a key that only the program and the worker's command processor have; bulk data travel
 * sealed under keys that are sent in such groups. Whoever carries them sees sizes, and can stop
 * them.
 *
 * `sgpu-enclave --session` is such a worker on its standard input and output; a program starts it,
 * or reaches it by ssh.
 *
 * Work is carried out in the order of the calls. Most calls only add work to the next group, so
 * that many calls cost one exchange of messages. A failure is reported by a later call, at the
 * latest by the next sgpu_remote_copy_out(); the work after it in the same group was not done.
 * Memory is named by handles. A session serves one thread at a time.
 */
#ifndef SGPU_SESSION_H
#define SGPU_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/device.h>
#include <sgpu/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sgpu_remote;

enum {
	SGPU_REMOTE_BUFFERS_MAX = 254, /* at a time */
	SGPU_REMOTE_JOBS_MAX = 64,
	SGPU_REMOTE_RANGES_MAX = 64,	     /* of a job */
	SGPU_REMOTE_MANIFEST_MAX = 15 << 10, /* bytes of a job's text */
};

/* What a program and a worker on one machine share instead of a pipe: while both are awake, no
 * message takes a system call. Neither side trusts the descriptors. */
struct sgpu_remote_ring {
	int memory;	  /* the memory of a ring, sgpu-ring(5) */
	int area;	  /* file for sealed data and messages */
	int bell;	  /* one end of a socket pair, to wake the other side and to see it close */
	uint64_t spin_ns; /* how long this side spins before it sleeps; 0: adaptive */
};

struct sgpu_remote_config {
	int in, out; /* from and to the worker: pipes or a socket; borrowed */
	/* Whose session it is; NULL: nobody's, with a key that is drawn for it. Borrowed until the
	 * session is open, as is the next. */
	const struct sgpu_key *owner;
	/* The runner's X25519 public key: the one that an accepted quote names; where there are no
	 * quotes, that of the runner's -k. */
	const struct sgpu_key *runner;
};

/* Opens a session (sgpu-session(5)). Its keys come from a secret that only the holder of the
 * private half of `runner` can open, so that runner answers, or this fails with SGPU_EAUTH. Errors:
 * SGPU_EAUTH, SGPU_EPOLICY (the runner takes sessions of its owners, and `owner` is none),
 * SGPU_EUSAGE (`runner` is symmetric), SGPU_ESYSTEM, SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_remote_open(const struct sgpu_remote_config *config,
				     struct sgpu_remote **remote, struct sgpu_error *error);
/* Opens a session with this user's worker of `sgpu-serve`; socket NULL: where sgpu-run(1) looks
 * for it. Errors: SGPU_EUNAVAILABLE (there is no server), SGPU_ERETRY (too many sessions), those
 * above. */
SGPU_MUST_CHECK int sgpu_remote_connect(const char *socket, const struct sgpu_key *owner,
					const struct sgpu_key *runner, struct sgpu_remote **remote,
					struct sgpu_error *error);
/* Ends a session and frees all that it had. Accepts NULL; clears the caller's pointer. */
void sgpu_remote_close(struct sgpu_remote **remote);

/* ---- memory ---- */
/* Makes zeroed memory; *buffer: its handle, not 0. Errors: SGPU_EUSAGE (too many buffers),
 * SGPU_ENOMEM, or an earlier failure. */
SGPU_MUST_CHECK int sgpu_remote_alloc(struct sgpu_remote *remote, uint64_t size, uint32_t *buffer,
				      struct sgpu_error *error);
/* Copies to the device, sealed on the way. The data may change as soon as this returns. */
SGPU_MUST_CHECK int sgpu_remote_copy_in(struct sgpu_remote *remote, uint32_t buffer,
					uint64_t offset, const void *data, uint64_t size,
					struct sgpu_error *error);
/* Copies from the device, sealed on the way, after all earlier work. What is in `data` when this
 * fails is undefined. Errors: also the first failure since the last call that waited. */
SGPU_MUST_CHECK int sgpu_remote_copy_out(struct sgpu_remote *remote, void *data, uint32_t buffer,
					 uint64_t offset, uint64_t size, struct sgpu_error *error);
/* ---- jobs ---- */
struct sgpu_remote_range {
	uint32_t buffer;
	uint64_t offset, size; /* bytes; its device address is a multiple of 64 */
};

/* Loads a manifest (sgpu-manifest(5)) whose operations run on buffers of the session; its locations
 * are ignored. *job: its handle. Errors: SGPU_EUSAGE (too large, or too many jobs), SGPU_EINVALID,
 * SGPU_ENOMEM, or an earlier failure. */
SGPU_MUST_CHECK int sgpu_remote_load(struct sgpu_remote *remote, const char *manifest, size_t size,
				     uint32_t *job, struct sgpu_error *error);
/* Runs a job's operations on `ranges`: one for each INPUT, OUTPUT and INPUT_OUTPUT, in the order of
 * the manifest's segments and of the segment's size. No output may overlap another range. An
 * INPUT_OUTPUT has its new value afterwards. */
SGPU_MUST_CHECK int sgpu_remote_run(struct sgpu_remote *remote, uint32_t job,
				    const struct sgpu_remote_range *ranges, int count,
				    struct sgpu_error *error);

/* ---- the worker ---- */
/* Whose sessions a runner takes, and the key that it answers with. */
struct sgpu_session_authority {
	const struct sgpu_key *key; /* X25519, private */
	/* Thumbprints of the keys that may sign a hello; NULL: anybody's. */
	const char *const *owners;
	int owner_count;
};
struct sgpu_secure;
/* Serves one session over the descriptors in and out, until the other side ends it. memory_limit:
 * bytes of device memory that the session may have; 0: all that the context has. Errors:
 * SGPU_EINVALID (the other side breaks the protocol), SGPU_ESYSTEM, SGPU_ECANCELED. */
SGPU_MUST_CHECK int sgpu_remote_serve(struct sgpu_secure *context, uint64_t memory_limit,
				      const struct sgpu_session_authority *authority, int in,
				      int out, struct sgpu_error *error);

/* The same over a ring, by any thread. */
struct sgpu_remote_service;
/* Checks and maps what the other side shares; the descriptors and the authority are borrowed until
 * the service is freed. Errors: SGPU_EINVALID, SGPU_EPOLICY (the files could change their size),
 * SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_remote_service_create(struct sgpu_secure *context, uint64_t memory_limit,
					       const struct sgpu_session_authority *authority,
					       const struct sgpu_remote_ring *ring,
					       struct sgpu_remote_service **service,
					       struct sgpu_error *error);
/* Serves until the other side ends the session or sgpu_remote_service_stop is called; sleeps
 * without work. Errors: SGPU_EINVALID (the other side breaks the protocol), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_remote_service_run(struct sgpu_remote_service *service,
					    struct sgpu_error *error);
/* Makes the service begin no more work, which the other side notices. For any thread. */
void sgpu_remote_service_stop(struct sgpu_remote_service *service);
/* Returns for how many nanoseconds the service has had no work. For any thread. */
uint64_t sgpu_remote_service_idle(const struct sgpu_remote_service *service);
/* Waits for the session's work, then clears and frees its memory. */
void sgpu_remote_service_free(struct sgpu_remote_service **service);

#ifdef __cplusplus
}
#endif
#endif
