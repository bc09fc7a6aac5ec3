/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SGPU_VERSION_H
#define SGPU_VERSION_H

/* That of the newest section of CHANGELOG.md, with "-dev" while there is one of what is not released. */
#define SGPU_VERSION "0.2.0-dev"

#endif
