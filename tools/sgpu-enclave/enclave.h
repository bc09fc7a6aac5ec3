/* SPDX-License-Identifier: Apache-2.0
 *
 * The trusted process: its keys, what it accepts, its devices, and the runner. The order of calls
 * is always enclave_check, enclave_begin, enclave_open, enclave_start, batches, enclave_end.
 */
#ifndef SGPU_ENCLAVE_H
#define SGPU_ENCLAVE_H

#include <stdbool.h>
#include <sys/stat.h>

#include <sgpu/attest.h>
#include <sgpu/session.h>

#include "run/run.h"
#include "stage/stage.h"
#include "channel/channel.h"

#include "cli.h"
#include "harden.h"
#include "runner/runner.h"
#include "runner/wire.h"

/* Keys of -k, and that of a quote or, among the files, the attestation key. */
enum {
	ENCLAVE_KEYS_MAX = 64,
	KEY_FILES_MAX = ENCLAVE_KEYS_MAX + 1,
	ENCLAVE_KEYS_SIZE = (ENCLAVE_KEYS_MAX + 1) * sizeof(struct sgpu_key)
};

struct enclave_device {
	struct sgpu_device *device;
	struct sgpu_device_info about; /* for reports */
	struct sgpu_secure *context;   /* NULL on a device that maps no pages */
};

struct enclave {
	const struct run_request *request;
	struct sgpu_key *keys; /* ENCLAVE_KEYS_SIZE bytes of secret memory */
	int key_count;
	const struct sgpu_key *quoted; /* the one that quotes name, or NULL */
	/* Regular files of these and of the attestation key, which are read once, before the first
	 * batch, and cannot be opened later. */
	struct stat key_files[KEY_FILES_MAX];
	const char *key_names[KEY_FILES_MAX]; /* as given */
	int key_file_count;
	struct sgpu_owners owners;		/* none: anybody's batches are taken */
	struct sgpu_replay *replay;		/* NULL without owners */
	struct sgpu_files *files;		/* where payloads' files may be; NULL: nowhere */
	enum wire_sessions sessions;		/* whose are taken */
	struct sgpu_module_confinement modules; /* known once the device is open */
	struct sgpu_key owner;			/* public, of --owner */
	struct enclave_device devices[RUNNER_DEVICES_MAX];  /* of one kind */
	char names[RUNNER_DEVICES_MAX][RUNNER_DEVICE_NAME]; /* as passed to sgpu_device_open */
	int named, device_count; /* devices named, 0: every GPU; devices open */
	bool on_gpu;
	struct sgpu_runner *runner; /* of all devices */
	bool shared_files;	    /* see struct sgpu_runner_config */
};

/* Checks the options, parses the devices' names, and reads the owners. Returns 0, or the exit
 * status after a message. */
int enclave_check(struct enclave *enclave);

/* Call before any thread or secret exists. Disables core files, and has signals to end call `stop`
 * (see cli_signals()). With an attestation key, starts the process that signs. Returns 0, or the
 * exit status after a message. */
int enclave_begin(struct enclave *enclave, void (*stop)(void));
/* Starts the processes of modules, loads the keys, opens the replay record, confines the process to
 * the files that `needs` and the options name (without Landlock, which a quote tells, it warns),
 * and opens the devices, which start threads. For an attested run or session, makes a key and
 * writes the quote that names it, for the verifier's nonce, whole or not at all. */
SGPU_MUST_CHECK int enclave_open(struct enclave *enclave, struct landlock_needs *needs,
				 struct sgpu_error *error);
/* Closes the keys' descriptors but `kept`, a batch's or -1, makes the secure context, filters
 * system calls, and makes the runner. */
SGPU_MUST_CHECK int enclave_start(struct enclave *enclave, int kept, struct sgpu_error *error);
/* Sets whose sessions are taken, and the key that binds them: the one that quotes name, else the
 * first X25519 key of -k. Errors: SGPU_EPOLICY (none are taken), SGPU_EUNAVAILABLE (no such key, or
 * no secure context). */
SGPU_MUST_CHECK int enclave_authority(const struct enclave *enclave,
				      struct sgpu_session_authority *authority,
				      struct sgpu_error *error);
/* Returns options with the process's keys, owners, replay record, files and modules. */
struct sgpu_run_options enclave_run_options(const struct enclave *enclave);
/* Frees the runner, contexts and devices. All runs must have been freed. */
void enclave_stop(struct enclave *enclave);
/* The same, wipes and frees all else, and returns cli_finish(status); on a GPU, exits instead. */
int enclave_end(struct enclave *enclave, int status);
/* Gets the progress of a run. If a GPU, or a server's device, does not end a stopped one, wipes the
 * keys and ends the process with status 3. */
void enclave_watch(const struct enclave *enclave, const struct sgpu_run *run,
		   struct sgpu_run_progress *progress);

/* signer.c: a child, which alone has the attestation key, and no other secret, signs quotes. It
 * gets the claims once, before anybody is served, and later only nonces. So code that takes over
 * this process gets quotes of no other key, and never the attestation key. */

/* Starts the child. Call before any thread or key exists. */
SGPU_MUST_CHECK int signer_begin(const struct run_request *request, struct sgpu_error *error);
/* Adds the X25519 key that quotes name, as the last key, and sends the claims. Call after
 * enclave_open. */
SGPU_MUST_CHECK int signer_claim(struct enclave *enclave, struct sgpu_error *error);
/* Gets a quote, from malloc. One thread at a time. */
SGPU_MUST_CHECK int signer_ask(const uint8_t *nonce, size_t nonce_size, char **quote, size_t *size,
			       struct sgpu_error *error);
/* The socket to the child, which ends when it is closed; -1: there is none. */
extern int signer_fd;

/* ---- collect.c: a run's report and trace ---- */
/* Writes the trace in Chrome's format, a row for each stream. The caller commits the output. */
SGPU_MUST_CHECK int report_trace(const struct sgpu_run *run, const struct enclave *enclave,
				 const struct sgpu_output *output, struct sgpu_error *error);

/* Collects the report of a run that has ended. */
void report_collect(const struct sgpu_run *run, const struct enclave *enclave,
		    struct report *report);

/* ---- what sgpu-enclave does; each returns an exit status ---- */
/* batch.c: a batch in, a response out. */
int run_batch(struct enclave *enclave, const char *path);
/* session.c: a session on standard input and output. */
int run_session(struct enclave *enclave);
/* info.c */
int show_info(void);

#endif
