/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls that a runner makes, and those that none ever needs.
 */
#ifndef SGPU_RUN_FILTER_CALLS_H
#define SGPU_RUN_FILTER_CALLS_H

struct filter_call {
	const char *name;
	unsigned number;
};

/* Each ends with a NULL name. */
extern const struct filter_call filter_needed[];  /* on the CPU device, whatever their arguments */
extern const struct filter_call filter_signer[];  /* by the process that signs quotes */
extern const struct filter_call filter_refused[]; /* on any device */

#endif
