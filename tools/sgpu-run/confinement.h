/* SPDX-License-Identifier: Apache-2.0
 *
 * What confines the runner and the modules that it runs: said at the start where it lacks something, and in the quote.
 */
#ifndef SGPU_RUN_CONFINEMENT_H
#define SGPU_RUN_CONFINEMENT_H

#include <stdbool.h>

#include <jansson.h>
#include <sgpu/device.h>

/* Asks the device, and warns of what modules go without. Errors: SGPU_EUNAVAILABLE: they cannot be run. */
SGPU_MUST_CHECK int confinement_of_modules(struct sgpu_device *device, struct sgpu_module_confinement *modules,
					   struct sgpu_error *error);
/* The claim `confinement` of a quote: "seccomp", "landlock", and "modules" unless that is NULL. NULL: out of memory. */
json_t *confinement_claim(bool filtered, bool confined, const struct sgpu_module_confinement *modules);

#endif
