/* SPDX-License-Identifier: Apache-2.0
 *
 * What --version tells: enough for a report of a fault, or to find the source again.
 */
#include <stdio.h>

#include <openssl/crypto.h>

#include <sgpu/version.h>

#include "cli.h"
#include "cli_private.h"

/* The Makefile gives these to this file alone: the commit, and its variables that built something in, or did not. */
#ifndef SGPU_COMMIT
#define SGPU_COMMIT "unknown"
#define SGPU_WITH ""
#define SGPU_WITHOUT ""
#endif

void cli_print_version(const char *tool)
{
	printf("%s (sgpu) %s, commit %s\n", tool, SGPU_VERSION, SGPU_COMMIT);
	printf("Built with: %s\n", SGPU_WITH);
	printf("Built without: %s\n", SGPU_WITHOUT);
	printf("%s\n", OpenSSL_version(OPENSSL_VERSION));
	printf("Licence: Apache-2.0. There is no warranty.\n");
}
