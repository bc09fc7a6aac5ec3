/* SPDX-License-Identifier: Apache-2.0
 *
 * What confines the runner and the modules that it runs: said at the start where it lacks
 * something, and in the quote.
 */
#ifndef SGPU_RUN_CONFINEMENT_H
#define SGPU_RUN_CONFINEMENT_H

#include <stdbool.h>

#include <jansson.h>
#include <sgpu/device.h>

#include "harden.h"

/* Asks the device, and warns of what modules go without. Errors: SGPU_EUNAVAILABLE: they cannot be
 * run. */
SGPU_MUST_CHECK int confinement_of_modules(struct sgpu_device *device,
					   struct sgpu_module_confinement *modules,
					   struct sgpu_error *error);
/* The claim `confinement` of a quote: "seccomp", "landlock", and "modules" unless that is NULL.
 * NULL: out of memory. */
json_t *confinement_claim(bool filtered, bool confined,
			  const struct sgpu_module_confinement *modules);

/* What holds for modules of the CPU device on this machine, tried, under the names of that claim.
 */
enum { CONFINEMENT_FINDINGS = 6 };
void confinement_try(struct harden_finding findings[CONFINEMENT_FINDINGS]);

#endif
