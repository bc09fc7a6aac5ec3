/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps what the process holds out of core files and out of other processes' reach, and what runs
 * in it from what no runner needs.
 */
#ifndef SGPU_RUN_HARDEN_H
#define SGPU_RUN_HARDEN_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>
#include <sgpu/device.h>
#include <sgpu/error.h>

#include "base/io.h"
#include "stage/stage.h"
#include "cli.h"

/* The kind of a process. */
enum harden_kind {
	HARDEN_CPU,    /* runs batches on the CPU device: a list of what is allowed */
	HARDEN_GPU,    /* on a GPU, whose driver's calls are not all known: a list of what no runner
			  needs */
	HARDEN_SIGNER, /* signs quotes with a key that it has: a short list of what is allowed */
	HARDEN_TPM_SIGNER, /* signs with a key in a TPM: the list of HARDEN_CPU, and Unix sockets,
			      by which the TPM may be reached */
};

/* Call once everything is open: from then on all threads make only the system calls of that kind. A
 * call that no runner needs ends the process with status 4 and a message. Errors: SGPU_EUNAVAILABLE
 * (no filters here), SGPU_ESYSTEM, SGPU_ENOMEM. */
SGPU_MUST_CHECK int harden_filter(enum harden_kind kind, struct sgpu_error *error);

/* Whether harden_filter() has an effect, for a quote that is made before the call. */
bool harden_filters(void);

/* The protections of this build on this machine. */
struct harden_finding {
	const char *name, *title; /* for JSON and for people */
	bool holds;
	char text[2 * SGPU_ERROR_TEXT_MAX];
};
enum { HARDEN_FINDINGS = 6 };
/* Hardens this process as a runner, before any thread, and records the result. */
void harden_look(struct harden_finding findings[HARDEN_FINDINGS]);

/* Calls `body` in every thread, since Landlock confines single threads: in a signal handler of the
 * others until no new one appears, and last in the calling one. Threads started later are expected
 * to inherit its effect. Errors: SGPU_ESYSTEM: `body` returned false, or a thread did not call
 * it. */
SGPU_MUST_CHECK int every_thread(bool (*body)(void), struct sgpu_error *error);

/* What the runner, or the process that signs its quotes, may open once everything of its own is
 * open: a fault in it gets at no key file, nor at anything else of its user. */

enum { LANDLOCK_OUTPUTS_MAX = 2, LANDLOCK_REPORTS_MAX = 2 };

struct landlock_needs {
	const struct sgpu_files *files; /* to be read, or NULL */
	/* open outputs that are yet to be named, or NULL */
	const struct sgpu_output *outputs[LANDLOCK_OUTPUTS_MAX];
	const char *state; /* folder to be read and written, or NULL */
	/* Open directories, to be read and written; in the second, files are moved and directories
	 * removed. 0: none. */
	int written, moved;
	char *const *inputs; /* files to be read */
	size_t input_count;
	bool gpu;
	bool bare; /* nothing of the system, and no regions */
	bool tpm;
	const char *reports[LANDLOCK_REPORTS_MAX]; /* where the platform makes reports */
};

/* The kernel's version of Landlock; 0: none, or not used here. */
int landlock_version(void);

/* Returns the folder above `path` that a run may read, in which no key may lie; or NULL. state: the
 * run's own folder, or NULL. */
const char *landlock_above(const char *path, const char *state);

/* Confines all threads: from then on they open nothing but `needs`. Errors: SGPU_EUNAVAILABLE, and
 * nothing is confined: no Landlock, or moves are needed and it does not know them; SGPU_ESYSTEM,
 * SGPU_ENOMEM. */
SGPU_MUST_CHECK int landlock_confine(const struct landlock_needs *needs, struct sgpu_error *error);

/* What confines the runner and its modules, for warnings and the quote. */

/* Warns of confinements that modules lack. Errors: SGPU_EUNAVAILABLE: modules cannot be run. */
SGPU_MUST_CHECK int confinement_of_modules(struct sgpu_device *device,
					   struct sgpu_module_confinement *modules,
					   struct sgpu_error *error);
/* The claim `confinement` of a quote: "seccomp", "landlock", and "modules" unless that is NULL.
 * NULL: out of memory. */
json_t *confinement_claim(bool filtered, bool confined,
			  const struct sgpu_module_confinement *modules);

/* Tries the confinement of CPU modules on this machine. The findings have the names of the members
 * of "modules" in the claim `confinement`. */
enum { CONFINEMENT_FINDINGS = 6 };
void confinement_try(struct harden_finding findings[CONFINEMENT_FINDINGS]);

#endif
