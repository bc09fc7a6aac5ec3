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
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

const char *cli_harden_off(void)
{
#ifdef SANITIZED
	return "this build is for a sanitizer";
#else
	const char *debug = secure_getenv("SGPU_DEBUG");

	return debug && *debug && strcmp(debug, "0") != 0 ? "SGPU_DEBUG is set" : NULL;
#endif
}

void cli_harden(void)
{
	const struct rlimit none = { 0, 0 };

#ifndef SANITIZED
	if (cli_harden_off()) {
		cli_warning("%s: others can attach to this process and read all that it holds",
			    cli_harden_off());
		return;
	}
#endif
	if (setrlimit(RLIMIT_CORE, &none) != 0) {
		cli_warning("core files cannot be switched off");
	}
#ifndef SANITIZED
	/* Also prevents core files by a program in core_pattern, which ignores the limit. */
	if (prctl(PR_SET_DUMPABLE, 0) != 0) {
		cli_warning("other processes cannot be kept from attaching");
	}
#endif
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
		cli_warning("programs that it starts cannot be kept from gaining rights");
	}
}
