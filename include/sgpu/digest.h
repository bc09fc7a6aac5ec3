/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests by KangarooTwelve (RFC 9861, KT128), beside the plain functions of sgpu/crypto.h.
 */
#ifndef SGPU_DIGEST_H
#define SGPU_DIGEST_H

enum { SGPU_KT128_SIZE = 32 }; /* bytes of a digest wherever sgpu stores one */

#endif
