/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal inspect, between its two files: what was found, and how it is shown.
 */
#ifndef SGPU_SEAL_INSPECTING_H
#define SGPU_SEAL_INSPECTING_H

#include "cli.h"
#include "parts.h"

enum inspected_mac { MAC_NONE, MAC_NOT_CHECKED, MAC_VERIFIED };

struct inspected {
	/* an archive */
	const struct sgpu_batch *batch; /* NULL: a bare sealed segment */
	const struct sgpu_manifest *manifest;
	enum inspected_mac mac;
	const char *kid; /* of the key that is a recipient, or NULL */
	/* a bare sealed segment */
	uint64_t sealed_size, size;
	uint8_t header[SGPU_SEALED_HEADER];
	bool key_fits; /* the commitment was compared and matches */
};

/* On standard output. */
void inspected_print(const struct inspected *inspected);
SGPU_MUST_CHECK int inspected_print_json(const struct inspected *inspected,
					 struct sgpu_error *error);

/* inspect_key.c: what may be told of a key file, whose first bytes were read already. */
SGPU_MUST_CHECK int inspect_key(int in, const char *name, const uint8_t *first, size_t first_size,
				struct sgpu_error *error);

#endif
