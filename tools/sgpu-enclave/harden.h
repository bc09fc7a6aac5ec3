/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits the files and system calls of a process.
 */
#ifndef SGPU_RUN_HARDEN_H
#define SGPU_RUN_HARDEN_H

#include <jansson.h>
#include <sgpu/device.h>
#include <sgpu/error.h>

#include "stage/stage.h"

enum harden_kind {
	HARDEN_CPU,	   /* runs batches on the CPU: a list of allowed calls */
	HARDEN_GPU,	   /* on a GPU: a list of refused calls, since not all of the driver's are
			    * known */
	HARDEN_SIGNER,	   /* signs quotes with a key in memory: a short list */
	HARDEN_TPM_SIGNER, /* signs with a key in a TPM: HARDEN_CPU's list, and Unix sockets, which
			    * may lead to the TPM */
};

/* Call once everything is open: from then on all threads can make only `kind`'s system calls. A
 * call that no runner needs ends the process with status 4 and a message. Errors: SGPU_EUNAVAILABLE
 * (no filters here), SGPU_ESYSTEM, SGPU_ENOMEM. */
SGPU_MUST_CHECK int harden_filter(enum harden_kind kind, struct sgpu_error *error);

/* Allows the calling process, a worker of the module host, the calls of computing code and handing
 * over its listener. In another call the process blocks until its parent, which gets the returned
 * listener, has decided. No signal handler is involved that a module could replace. -1: there is no
 * filter. */
int harden_filter_module(void);

/* The files that the runner, or the process that signs its quotes, may open once its own are open:
 * an exploited fault in it reaches no key file and no other file of its user. */

struct landlock_needs {
	const struct sgpu_files *files; /* to be read, or NULL */
	enum harden_kind kind;		/* HARDEN_SIGNER: no files of the system, and no regions */
	const char *state;		/* folder to read and write, or NULL */
	const char *more[3];		/* files to open later, folders of reports, or NULL */
};

/* The kernel's version of Landlock; 0: none, or not used here. */
int landlock_version(void);

/* If there is Landlock, confines this thread and those that it starts, so call this before there
 * are others: they open nothing but `needs`, and name prepared outputs (cli_output_prepare) alone.
 * Errors: SGPU_ESYSTEM, SGPU_ENOMEM. */
SGPU_MUST_CHECK int landlock_confine(const struct landlock_needs *needs, struct sgpu_error *error);

/* Confines the calling process, a worker of the module host: it reads `paths`, which end with NULL,
 * and `more` (or NULL), and reaches no other file, no network, and no process outside. Returns
 * Landlock's version, or 0 if that failed. */
int landlock_read_only(const char *const *paths, const char *more);

/* Warns of confinements that modules lack. Errors: SGPU_EUNAVAILABLE: no modules can run. */
SGPU_MUST_CHECK int confinement_of_modules(struct sgpu_device *device,
					   struct sgpu_module_confinement *modules,
					   struct sgpu_error *error);
/* The claim `confinement` of a quote: "seccomp", "landlock", and "modules" if these have a process
 * of their own. */
json_t *confinement_claim(const struct sgpu_module_confinement *modules);

/* The host of modules: this very program, even if its file was replaced. A sanitizer has no room
 * there, so a build with one names another. */
#ifndef SGPU_HOST_PATH
#define SGPU_HOST_PATH "/proc/self/exe"
#endif

#endif
