/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that runs batches: its keys, what it accepts, its device, and the runner. The verbs
 * that run batches share its options and this order of calls: worker_check, worker_begin,
 * worker_open, (quote,) worker_start, batches, worker_stop, worker_end.
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

/* Files of the runner's secrets. They are read once, before the first batch, and cannot be opened
 * after that. */

enum { KEY_FILES_MAX = 72 };

struct key_files {
	struct {
		struct stat status;
		char *path; /* resolved; NULL: no regular file, or named by a descriptor */
	} list[KEY_FILES_MAX];
	int count;
};

/* Notes the file of `key`, an argument of -k, before the key is read. Batches cannot fetch it from
 * `files` (may be NULL): a key there is refused (SGPU_EUSAGE), and files of the same inode are
 * never fetched. A key that the confined run could read, as in `state` (may be NULL), is refused,
 * too (SGPU_EPOLICY). A missing file is left for the key's loader to report. */
SGPU_MUST_CHECK int key_files_note(struct key_files *keys, const char *key,
				   struct sgpu_files *files, const char *state,
				   struct sgpu_error *error);

/* Whether a file is that of a noted key, whatever its name. */
bool key_files_have(const struct key_files *keys, const struct stat *status);

/* Closes every descriptor of these files but `kept`, inherited ones too. */
void key_files_close(const struct key_files *keys, int kept);

void key_files_clear(struct key_files *keys);

enum { WORKER_KEYS_MAX = 64, WORKER_DEVICES_MAX = 16 };

/* A device of the worker, and what it runs there. */
struct worker_device {
	char selector[80]; /* as passed to sgpu_device_open */
	struct sgpu_device *device;
	struct sgpu_secure *context; /* NULL on a device that maps no pages */
	struct sgpu_runner *runner;  /* NULL if the first device's runner uses all devices */
};

/* What a verb does with several devices. */
enum worker_spread {
	WORKER_ONE,	/* the verb takes one device */
	WORKER_BATCHES, /* each device has a runner, and batches of its own */
	WORKER_GRAPHS,	/* one runner uses all, and spreads the operations of each batch */
};

/* The first member of a verb's values. */
struct worker {
	struct cli_list key_paths;
	struct sgpu_key *keys; /* in secret memory, with room for one more key */
	int key_count;
	struct key_files key_files; /* files of these and of the attestation key */
	struct sgpu_owners owners;  /* none: anybody's batches are taken */
	const char *state;	    /* directory of the replay record; NULL: in memory */
	uint64_t window_ns;
	struct sgpu_replay *replay; /* NULL without owners */
	struct sgpu_files *files;   /* where files of payloads may be; NULL: nowhere */
	const char *selector;	    /* names the device or devices */
	enum worker_spread spread;
	struct sgpu_device_config config;
	bool allow_modules;
	bool sessions;				/* anybody may open one */
	bool shared_files;			/* clients, too, have the batches' descriptors */
	struct sgpu_module_confinement modules; /* known once the device is open */
	json_t *confinement;			/* the claim for a quote, if there will be one */
	struct worker_device devices[WORKER_DEVICES_MAX]; /* of one kind */
	int named, device_count; /* devices that the options name; devices open */
	bool all;		 /* every GPU */
	bool on_gpu;
	int signal_fd;	/* tells of SIGUSR1 */
	bool many_runs; /* as in struct sgpu_runner_config */
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

/* Checks options and parses the devices' names. Returns 0, or the exit status after a message. */
int worker_check(struct worker *worker);

/* Blocks a signal in this thread and those that it starts. Returns a signalfd for it; -1 with
 * errno. */
int worker_signal_fd(int number);
/* Reads one signal from it. False: none has come. */
bool worker_take_signal(int fd);
/* Call before any thread or secret exists. Disables core files, blocks SIGUSR1, and has signals to
 * end call `stop` (see cli_signals()). Returns 0, or the exit status after a message. */
int worker_begin(struct worker *worker, void (*stop)(void));
/* Raises the soft limit of descriptors to the hard one, since each batch has several. */
void worker_raise_descriptors(void);
/* Loads the keys, and opens the replay record and the device. extra_key: the file of another
 * secret, or NULL. */
SGPU_MUST_CHECK int worker_open(struct worker *worker, const char *extra_key,
				struct sgpu_error *error);
/* Adds a new X25519 key, whose public half is *recipient, and sets *subject to what a quote says of
 * this worker, without the nonce. */
SGPU_MUST_CHECK int worker_subject(struct worker *worker, struct sgpu_key *recipient,
				   struct sgpu_quote_subject *subject, struct sgpu_error *error);
/* Makes the secure context, confines the process to what `needs` and the options name, and makes
 * the runner. strict: failing to apply a confinement that exists here is an error. */
SGPU_MUST_CHECK int worker_start(struct worker *worker, struct landlock_needs *needs, bool strict,
				 struct sgpu_error *error);
/* Returns the device that runs use, guarded by its context. */
static inline struct sgpu_device *worker_secure_device(const struct worker_device *d)
{
	return d->context ? sgpu_secure_device(d->context) : d->device;
}
/* Returns options with the worker's keys, owners, replay record, files and modules. */
struct sgpu_run_options worker_run_options(const struct worker *worker);
/* Frees runners, contexts and devices. All runs must have been freed. */
void worker_stop(struct worker *worker);
/* Wipes and frees all, and returns cli_finish(status). If the device is a GPU, exits instead. */
int worker_end(struct worker *worker, int status);
/* How long a device may take to end a run that was stopped: three times what a GPU needs to abandon
 * a kernel. */
#define WORKER_STUCK_NS UINT64_C(15000000000)
/* Called when a device does not end a stopped run: wipes the keys and ends the process with
 * status 3. Async-signal-unsafe. */
void worker_give_up(void);

/* Attested runs and sessions: the process makes a key, writes a quote of it for the verifier's
 * nonce, and takes a batch sealed to the key, or a session bound to it. */

/* Options of the command line; NULL or no bytes: not given. */
struct attested {
	const char *quote, *key, *certificate, *owner;
	struct cli_bytes nonce;
};

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

/* Checks that the options fit together. Returns 0, or the exit status after a message. */
int attested_check(const struct attested *options, bool dry_run);
/* Call after worker_open. Adds a new X25519 key, and writes the quote that names it, whole or not
 * at all. The attestation key is loaded for this call alone. */
SGPU_MUST_CHECK int attested_quote(const struct attested *options, struct worker *worker,
				   struct sgpu_error *error);

#endif
