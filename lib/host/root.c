/* SPDX-License-Identifier: Apache-2.0
 *
 * Alone in its file, this function can be replaced in test programs (tests/harness). In installed
 * programs, no environment variable says where evidence comes from.
 */
#include "host/host.h"

const char *sgpu_host_root(const char *usual)
{
	return usual;
}
