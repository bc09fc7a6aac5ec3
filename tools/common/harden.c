/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardening of a process with keys and plaintext. See cli.h.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "cli.h"

/* A sanitizer's leak checker must be allowed to attach to its own process. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

const char *cli_harden_off(void)
{
	const char *debug = secure_getenv("SGPU_DEBUG");

	return SANITIZED				    ? "this build is for a sanitizer"
	       : debug && *debug && strcmp(debug, "0") != 0 ? "SGPU_DEBUG is set"
							    : NULL;
}

void cli_harden(void)
{
	const struct rlimit none = { 0, 0 };

	if (!SANITIZED && cli_harden_off()) {
		cli_warning("%s: others can attach to this process and read all that it holds",
			    cli_harden_off());
		return;
	}
	if (setrlimit(RLIMIT_CORE, &none) != 0) {
		cli_warning("core files cannot be switched off");
	}
	/* Also prevents core files by a program in core_pattern, which ignores the limit. */
	if (!SANITIZED && prctl(PR_SET_DUMPABLE, 0) != 0) {
		cli_warning("other processes cannot be kept from attaching");
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
		cli_warning("programs that it starts cannot be kept from gaining rights");
	}
}
