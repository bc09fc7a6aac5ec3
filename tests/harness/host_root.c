/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of the library's: unit tests, and the programs in test/bin of the build, look for the
 * kernel's files where these variables say.
 */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"

const char *sgpu_host_root(const char *usual)
{
	static const char *const named[][2] = {
		{ SGPU_USUAL_TSM, "SGPU_TSM_ROOT" },
		{ SGPU_USUAL_GRAMINE, "SGPU_GRAMINE_ROOT" },
		{ "", "SGPU_PLATFORM_ROOT" },
	};

	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		const char *root = strcmp(usual, named[i][0]) == 0 ? getenv(named[i][1]) : NULL;

		if (root && *root) {
			return root;
		}
	}
	return usual;
}
