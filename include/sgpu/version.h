/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SGPU_VERSION_H
#define SGPU_VERSION_H

/* The version of the newest section of CHANGELOG.md; while that is "Unreleased", the next version
 * with "-dev". */
#define SGPU_VERSION "0.2.0-dev"

#endif
