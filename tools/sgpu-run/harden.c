/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner holds keys and plaintext: no core file, and no attaching by other processes of the same user.
 */
#include "harden.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "cli.h"

/* The leak checker attaches to its own process. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

void harden(void)
{
	const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none) != 0) {
		cli_warning("core files cannot be switched off");
	}
#ifndef SANITIZED
	if (prctl(PR_SET_DUMPABLE, 0) != 0) {
		cli_warning("other processes cannot be kept from attaching");
	}
#endif
}
