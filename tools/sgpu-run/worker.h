/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that runs batches: its keys, what it accepts, its device, and the runner. The verbs
 * that run batches share its options and its life: worker_check, worker_begin, worker_open,
 * (quote,) worker_start, batches, worker_stop, worker_end
 */
#ifndef SGPU_RUN_WORKER_H
#define SGPU_RUN_WORKER_H

#include <stdbool.h>
#include <sys/stat.h>

#include <sgpu/attest.h>
#include "run/run.h"
#include "stage/stage.h"
#include "secure/secure.h"

#include "cli.h"
#include "harden.h"

/* Files of the runner's secrets. They are read once before the first batch, and out of reach after
 * that. */

enum { KEY_FILES_MAX = 72 };

struct key_files {
	struct {
		struct stat status;
		char *path; /* resolved; NULL: the key came by a descriptor */
	} list[KEY_FILES_MAX];
	int count;
};

/* Notes the file of a key, as -k takes one, before it is read. No batch gets it from `files` (may
 * be NULL): a key in there is refused (SGPU_EUSAGE), and its other names are never fetched. A key
 * that the confined run could read, as in `state` (may be NULL), is refused, too (SGPU_EPOLICY). If
 * there is no such file, the loader of the key reports it. */
SGPU_MUST_CHECK int key_files_note(struct key_files *keys, const char *key,
				   struct sgpu_files *files, const char *state,
				   struct sgpu_error *error);

/* Whether a file is that of a key, whatever its name is. */
bool key_files_have(const struct key_files *keys, const struct stat *status);

/* Closes every descriptor of these files but `kept`, inherited ones too. */
void key_files_close(const struct key_files *keys, int kept);

void key_files_clear(struct key_files *keys);

enum { WORKER_KEYS_MAX = 64, WORKER_DEVICES_MAX = 16 };

/* A device of the worker, and what it runs there. */
struct worker_device {
	char selector[80]; /* of sgpu_device_open */
	struct sgpu_device *device;
	struct sgpu_secure *context; /* NULL on a device that maps no pages */
	struct sgpu_runner *runner;  /* NULL where the first device's runner has them all */
};

/* What a verb does with several devices. */
enum worker_spread {
	WORKER_ONE,	/* the verb takes one device */
	WORKER_BATCHES, /* each device has a runner, and batches of its own */
	WORKER_GRAPHS,	/* one runner has them all, and spreads the operations of each batch */
};

/* The first member of a verb's values. */
struct worker {
	struct cli_list key_paths;
	struct sgpu_key *keys; /* in secret memory, with room for one more */
	int key_count;
	struct key_files key_files; /* of all these and the attestation key */
	struct sgpu_owners owners;  /* none: anybody's batches are taken */
	const char *state;	    /* directory of the replay record; NULL: in memory */
	uint64_t window_ns;
	struct sgpu_replay *replay; /* NULL without owners */
	struct sgpu_files *files;   /* where payloads may be; NULL: nowhere */
	const char *selector;	    /* of the device or devices */
	enum worker_spread spread;
	struct sgpu_device_config config;
	bool allow_modules;
	bool sessions;				/* anybody may open one */
	bool shared_files;			/* clients hold the descriptors, too */
	struct sgpu_module_confinement modules; /* known once the device is open */
	json_t *confinement;			/* the claim for a quote, if there will be one */
	struct worker_device devices[WORKER_DEVICES_MAX]; /* of one kind */
	int named, device_count; /* devices that the options name; devices open */
	bool all;		 /* every GPU */
	bool on_gpu;
	int signal_fd;	/* tells of SIGUSR1 */
	bool many_runs; /* as of struct sgpu_runner_config */
};

#define WORKER_INIT                \
	{                          \
		.selector = "auto" \
	}

int worker_take_files(void *values, const char *directory);
int worker_take_owners(void *values, const char *path);

/* Rows of a verb's options. `type` is the struct of its values, whose first member is `member`. */
#define WORKER_OPTIONS(type, member)                                                          \
	{ "key", 'k', "KEY", "a key that opens the batch; may be given several times",        \
	  CLI_LIST(type, member.key_paths) },                                                 \
		{ "device", 0, "DEVICE", "cpu, cuda, cuda:N, cuda:N,M or auto (the default)", \
		  CLI_TEXT(type, member.selector) },                                          \
		{ "jobs", 'j', "N", "workers of the CPU device (default: one a processor)",   \
		  CLI_NUMBER(type, member.config.jobs, 1, SGPU_POOL_JOBS_MAX) },              \
		{ "owners", 0, "FILE",                                                        \
		  "take only batches that one of these keys signed: thumbprints, one a line", \
		  CLI_TAKE(worker_take_owners) },                                             \
		{ "state", 0, "DIR", "record the batches there, so that none runs twice",     \
		  CLI_TEXT(type, member.state) },                                             \
		{ "replay-window", 0, "DURATION", "how old a batch may be (default: 7d)",     \
		  CLI_DURATION(type, member.window_ns, 0) },                                  \
		{ "files", 0, "DIR",                                                          \
		  "let batches name payloads in files of this directory; may be repeated",    \
		  CLI_TAKE(worker_take_files) },                                              \
	{                                                                                     \
		"allow-modules", 0, NULL, "run kernels that the batch brings along",          \
			CLI_FLAG(type, member.allow_modules)                                  \
	}

/* Checks options, and learns which devices they name: 0, or the exit status after a message. */
int worker_check(struct worker *worker);

/* Blocks a signal in this thread and those that it starts. Returns a descriptor that tells of the
 * signal; -1 with errno. */
int worker_signal_fd(int number);
/* Whether the signal has come; once for each. */
bool worker_take_signal(int fd);
/* Call before any thread and any secret exist: no core files, SIGUSR1 blocked, and `stop` at SIGINT
 * and SIGTERM (see cli_signals()). Returns 0, or the exit status after a message. */
int worker_begin(struct worker *worker, void (*stop)(void));
/* Raises the number of descriptors to the limit, since each batch has several. */
void worker_raise_descriptors(void);
/* Loads the keys, and opens the replay record and the device. extra_key: the file of another
 * secret, or NULL. */
SGPU_MUST_CHECK int worker_open(struct worker *worker, const char *extra_key,
				struct sgpu_error *error);
/* Adds a new X25519 key, whose public half is *recipient, and tells what a quote says of a worker
 * with it, but for the nonce. */
SGPU_MUST_CHECK int worker_subject(struct worker *worker, struct sgpu_key *recipient,
				   struct sgpu_quote_subject *subject, struct sgpu_error *error);
/* Makes the secure context, confines the process to what `needs` and the options name, and makes
 * the runner. strict: what cannot be confined is an error, not a warning. */
SGPU_MUST_CHECK int worker_start(struct worker *worker, struct landlock_needs *needs, bool strict,
				 struct sgpu_error *error);
/* Returns the device as runs on it see it. */
static inline struct sgpu_device *worker_secure_device(const struct worker_device *d)
{
	return d->context ? sgpu_secure_device(d->context) : d->device;
}
/* Returns options with the worker's keys, owners, replay record, files and modules. */
struct sgpu_run_options worker_run_options(const struct worker *worker);
/* Frees the runner, the context and the device, once its runs have been freed. */
void worker_stop(struct worker *worker);
/* Wipes and frees all, and returns `status`, or a signal's. On a GPU it ends the process. */
int worker_end(struct worker *worker, int status);
/* How long a device may hold a run that was stopped: three times what a GPU takes to give up on a
 * kernel. */
#define WORKER_STUCK_NS UINT64_C(15000000000)
/* Called when a device holds a run: wipes the keys and ends the process with status 3.
 * Async-signal-unsafe. */
void worker_give_up(void);

/* A run or a session that proves itself first: it makes a key, quotes it for the verifier's nonce,
 * and takes a batch sealed to it, or a session bound to it. */

/* As on the command line; NULL or no bytes: not given. */
struct attested {
	const char *quote, *key, *certificate, *owner;
	struct cli_bytes nonce;
};

/* Rows of a verb's table of options. */
#define ATTESTED_OPTIONS(type, member, of)                                                        \
	{ "quote", 0, "FILE", "first write evidence of this " of " there, with a key of its own", \
	  CLI_TEXT(type, member.quote) },                                                         \
		{ "nonce", 0, "HEX", "what the verifier sent for the quote: 8 to 64 bytes",       \
		  CLI_BYTES(type, member.nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },                \
		{ "attestation-key", 0, "KEY", "the key that signs the quote",                    \
		  CLI_INPUT(type, member.key) },                                                  \
	{                                                                                         \
		"certificate", 0, "FILE", "certificate chain of that key, up to the authority",   \
			CLI_INPUT(type, member.certificate)                                       \
	}

/* Whether the options belong together: 0, or the exit status after a message. */
int attested_check(const struct attested *options, bool dry_run);
/* Once the worker is open: adds a new X25519 key, and writes the quote that names it, whole or not
 * at all. The attestation key is loaded for this alone. */
SGPU_MUST_CHECK int attested_quote(const struct attested *options, struct worker *worker,
				   struct sgpu_error *error);

#endif
