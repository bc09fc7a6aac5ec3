/* SPDX-License-Identifier: Apache-2.0
 *
 * The digests of modules: which code may run.
 */
#ifndef SGPU_MANIFEST_MODULE_DIGEST_H
#define SGPU_MANIFEST_MODULE_DIGEST_H

#include "document.h"
#include "payload.h"

/* Compares each module_digest with the image's file, and prints every difference. A file that is
 * not there is passed over: the manifest may stand where the data are not. Returns an exit status.
 */
int module_digests_compare(const struct document *document, const struct payload_folder *folder);
/* The same, and fills in those that are absent: the document is then another one, checked with the
 * same options. An image that comes from standard input stays without, which a note says. */
int module_digests_fill(struct document *document, const struct payload_folder *folder,
			unsigned options);

#endif
