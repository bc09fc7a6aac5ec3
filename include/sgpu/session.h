/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure sessions for programs: memory and work on a device that a worker has, in another process
 * or on another machine, through hands that are not trusted. All requests travel in sealed groups
 * under a key that only the program and the worker's command processor have; bulk data travel
 * sealed under keys that are sent in such groups. Whoever carries them sees sizes, and can stop
 * things.
 *
 * `sgpu-run session` is such a worker on its standard input and output; a program starts it, or
 * reaches it by ssh.
 *
 * Work is carried out in the order of the calls. Most calls only add it to the next group, so that
 * many cost one exchange of messages; a failure is told of by a later call, at the latest by the
 * next sgpu_remote_copy_out(), and the work that followed in the same group was not done. Memory is
 * named by handles. One thread at a time.
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
	int memory; /* of a ring, sgpu-ring(5) */
	int area;   /* file for sealed data and messages */
	int bell;   /* one end of a pair of sockets: wakes a sleeper, and shows the other's end */
	uint64_t spin_ns; /* how long this side looks before it sleeps; 0: as long as pays off */
};

struct sgpu_remote_config {
	int in, out;		       /* from and to the worker: pipes or a socket; borrowed */
	const struct sgpu_key *owner;  /* X25519; borrowed until the session is open */
	const struct sgpu_key *worker; /* the public key that an accepted quote names; borrowed
					  likewise; or NULL */
	/* How long a call waits for a worker that lives and says nothing; then it ends with
	 * SGPU_ETIMEOUT, and the session is of no use any more. 0: for ever. The end of a worker is
	 * noticed in any case. Over pipes, a call with patience removes the thread's
	 * sgpu_io_guard. */
	uint64_t patience_ns;
};

/* With `worker`, the keys of the session come from a secret that only the process with the private
 * half of that key opens: who answers is the worker that was quoted, or this fails with SGPU_EAUTH.
 * Without it nothing proves who answers: whoever is in between can be the worker. Errors:
 * SGPU_EAUTH, SGPU_EKEY (another's grant), SGPU_EUSAGE (`worker` is symmetric), SGPU_ETIMEOUT (the
 * patience is over), SGPU_ESYSTEM, SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_remote_open(const struct sgpu_remote_config *config,
				     struct sgpu_remote **remote, struct sgpu_error *error);
/* The same with a worker of `sgpu-run serve` at a socket, the one of this user; NULL: where
 * sgpu-run(1) looks for it. Errors: SGPU_EUNAVAILABLE (there is no server), SGPU_ERETRY (too many
 * sessions), those above. */
SGPU_MUST_CHECK int sgpu_remote_connect(const char *socket, const struct sgpu_key *owner,
					const struct sgpu_key *worker, struct sgpu_remote **remote,
					struct sgpu_error *error);
/* Frees all that the session had. Accepts NULL; clears the caller's pointer. */
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
	uint64_t offset, size; /* bytes; the address is aligned to 64 */
};

/* A manifest (sgpu-manifest(5)) whose operations run on buffers of the session; its locations are
 * ignored. *job: a handle. Errors: SGPU_EUSAGE (too large, too many), SGPU_EINVALID, SGPU_ENOMEM,
 * or an earlier failure. */
SGPU_MUST_CHECK int sgpu_remote_load(struct sgpu_remote *remote, const char *manifest, size_t size,
				     uint32_t *job, struct sgpu_error *error);
/* Runs its operations over one range for each INPUT, OUTPUT and INPUT_OUTPUT, in the order of the
 * manifest's segments, each of the segment's size. No output overlaps another range. An
 * INPUT_OUTPUT has its new value afterwards. */
SGPU_MUST_CHECK int sgpu_remote_run(struct sgpu_remote *remote, uint32_t job,
				    const struct sgpu_remote_range *ranges, int count,
				    struct sgpu_error *error);

/* ---- the worker ---- */
struct sgpu_secure;
/* Serves one session, from descriptor to descriptor, until the other side ends it. memory_limit:
 * bytes of device memory that the session may have; 0: as the context has. key: the X25519 key that
 * this process's quotes name, for sessions that are bound to it; borrowed; NULL: there is none, and
 * such sessions are refused. Errors: SGPU_EINVALID (the other side breaks the protocol),
 * SGPU_ESYSTEM, SGPU_ECANCELED. */
SGPU_MUST_CHECK int sgpu_remote_serve(struct sgpu_secure *context, uint64_t memory_limit,
				      const struct sgpu_key *key, int in, int out,
				      struct sgpu_error *error);

/* The same over a ring, by any thread. */
struct sgpu_remote_service;
/* Checks and maps what the other side shares; the descriptors and the key are borrowed until it is
 * freed. Errors: SGPU_EINVALID, SGPU_EPOLICY (the files could change their size), SGPU_ENOMEM,
 * SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_remote_service_create(struct sgpu_secure *context, uint64_t memory_limit,
					       const struct sgpu_key *key,
					       const struct sgpu_remote_ring *ring,
					       struct sgpu_remote_service **service,
					       struct sgpu_error *error);
/* Serves until the other side ends the session, or sgpu_remote_service_stop: SGPU_OK. Without work
 * it sleeps. Errors: SGPU_EINVALID (the other side breaks the protocol), SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_remote_service_run(struct sgpu_remote_service *service,
					    struct sgpu_error *error);
/* Any thread: no more work is begun, and the other side notices. */
void sgpu_remote_service_stop(struct sgpu_remote_service *service);
/* Any thread: for how long it has had nothing to do, in nanoseconds. */
uint64_t sgpu_remote_service_idle(const struct sgpu_remote_service *service);
/* Waits for the session's work, clears and frees what it had. */
void sgpu_remote_service_free(struct sgpu_remote_service **service);

#ifdef __cplusplus
}
#endif
#endif
