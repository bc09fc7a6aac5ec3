/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps what the process holds out of core files and out of other processes' reach, and what runs
 * in it from what no runner needs.
 */
#ifndef SGPU_RUN_HARDEN_H
#define SGPU_RUN_HARDEN_H

#include <stdbool.h>

#include <sgpu/error.h>

#include "cli_harden.h"

/* What a process goes on to do. */
enum harden_kind {
	HARDEN_CPU,    /* runs batches on the CPU device: a list of what is allowed */
	HARDEN_GPU,    /* on a GPU, whose driver's calls are not all known: a list of what no runner
			  needs */
	HARDEN_SIGNER, /* signs quotes with a key that it has: a short list of what is allowed */
	HARDEN_TPM_SIGNER, /* with a key in a TPM: the first list, and Unix sockets, by which the
			      TPM may be reached */
};

/* Once everything is open: from then on all threads make only the system calls of that kind. One
 * that no runner needs ends the process with status 4 and a message. Errors: SGPU_EUNAVAILABLE:
 * there are no filters here. SGPU_ESYSTEM, SGPU_ENOMEM: this one could not be made. */
SGPU_MUST_CHECK int harden_filter(enum harden_kind kind, struct sgpu_error *error);

/* Whether this build has the filter and harden_filter() puts it on: what a quote may say before. */
bool harden_filters(void);

/* What holds in this build on this machine. */
struct harden_finding {
	const char *name, *title; /* for JSON and for people */
	bool holds;
	char text[160];
};
enum { HARDEN_FINDINGS = 6 };
/* Hardens this process as a runner, before any thread, and looks at what that has given. */
void harden_look(struct harden_finding findings[HARDEN_FINDINGS]);

#endif
