/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SGPU_VERSION_H
#define SGPU_VERSION_H

#define SGPU_VERSION "0.1.0"

#endif
