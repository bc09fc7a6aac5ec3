/* SPDX-License-Identifier: Apache-2.0
 *
 * kt128_digest CUSTOM SIZE: the KT128 digest of standard input, SIZE bytes in hexadecimal, with a
 * customisation string that is given in hexadecimal. For test_kt128.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/kt128.h"

int main(int argc, char **argv)
{
	size_t custom_size = argc == 3 ? strlen(argv[1]) / 2 : 0,
	       size = argc == 3 ? strtoul(argv[2], NULL, 10) : 0, got, i;
	uint8_t *custom = malloc(custom_size + 1), *digest = malloc(size + 1), piece[10007];
	struct sgpu_kt128 state = { 0 };
	int status = 2;

	if (argc == 3 && custom && digest &&
	    sgpu_hex_decode(argv[1], custom, custom_size, NULL) == SGPU_OK) {
		while ((got = fread(piece, 1, sizeof(piece), stdin)) > 0) {
			sgpu_kt128_update(&state, piece, got);
		}
		sgpu_kt128_finish(&state, custom, custom_size, digest, size);
		for (i = 0; i < size; i++) {
			printf("%02x", digest[i]);
		}
		status = 0;
	}
	free(custom);
	free(digest);
	return status;
}
