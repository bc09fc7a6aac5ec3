/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of --version: enough to report a bug, or to find the source.
 */
#include <stdio.h>

#include <openssl/crypto.h>

#include <sgpu/version.h>

#include "cli.h"

/* NULL in a program that is not linked with it. */
__attribute__((weak)) extern const char *OpenSSL_version(int type);

void cli_print_version(void)
{
	printf("%s (sgpu) %s, commit %s\n", cli_tool_name(), SGPU_VERSION, SGPU_COMMIT);
	printf("Built with: %s\n", SGPU_WITH);
	printf("Built without: %s\n", *SGPU_WITHOUT ? SGPU_WITHOUT : "nothing");
	if (OpenSSL_version) {
		printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
	}
	printf("Licence: Apache-2.0. There is no warranty.\n");
}
