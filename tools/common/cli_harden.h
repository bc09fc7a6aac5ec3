/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps what a process holds, keys and plaintext, out of core files and out of other processes'
 * reach.
 */
#ifndef SGPU_CLI_HARDEN_H
#define SGPU_CLI_HARDEN_H

/* Why the process is left open, or NULL: a build for a sanitizer, whose leak checker attaches to
 * its own process; or SGPU_DEBUG in the environment, for whoever has to debug it. A quote of such a
 * process says so. */
const char *cli_harden_off(void);

/* First, before any thread: no core file, no attaching, no new privileges. Warns of what cannot be
 * had. cli_main does it for tools that say so. */
void cli_harden(void);

#endif
