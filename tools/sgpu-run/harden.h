/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps what the process holds out of core files and out of other processes' reach.
 */
#ifndef SGPU_RUN_HARDEN_H
#define SGPU_RUN_HARDEN_H

void harden(void);

#endif
