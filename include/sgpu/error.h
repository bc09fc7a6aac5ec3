/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors. Every function of the library that can fail returns 0 (SGPU_OK) or one of the negative
 * codes below; results come through out-parameters. The library never prints and never exits.
 * struct sgpu_error has the text for people; the caller owns it and may pass NULL. */
#ifndef SGPU_ERROR_H
#define SGPU_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SGPU_MUST_CHECK __attribute__((warn_unused_result))
#define SGPU_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))

enum sgpu_code {
	SGPU_OK = 0,
	SGPU_EINVALID =
		-1, /* malformed or invalid input: a document, a container, a key file; exit 1 */
	SGPU_EDIFFERS = -2,	/* a comparison found a difference; exit 1 */
	SGPU_EUSAGE = -3,	/* the caller's arguments are wrong; exit 2 */
	SGPU_ESYSTEM = -4,	/* a system call failed: I/O, permissions; exit 3 */
	SGPU_ENOMEM = -5,	/* out of host or device memory; exit 3 */
	SGPU_EDEVICE = -6,	/* a device, its driver or a kernel failed; exit 3 */
	SGPU_EUNAVAILABLE = -7, /* this machine or this build lacks what was asked for; exit 3 */
	SGPU_ETIMEOUT = -8,	/* a deadline passed; exit 3 */
	SGPU_ECANCELED = -9,	/* stopped on request (a signal); exit 3 */
	SGPU_EAUTH = -10,   /* a tag, a MAC or a digest does not match, or an end mark is missing;
			       exit 4 */
	SGPU_EKEY = -11,    /* the key does not belong to this data; exit 4 */
	SGPU_EPOLICY = -12, /* refused by a rule: file modes, unsealed HIGH data, an expired region;
			       exit 4 */
	SGPU_EDEPENDENCY = -13, /* not run, because a dependency failed; exit 5 */
	SGPU_ESEGMENTS = -14,	/* the batch ran, and some of its segments failed; exit 5 */
	SGPU_ESIGNATURE = -15,	/* evidence: a signature does not verify; exit 4 */
	SGPU_ECHAIN = -16,	/* evidence: certificates do not lead to a trusted one; exit 4 */
	SGPU_EEXPIRED =
		-17, /* evidence: too old or not valid yet, or a certificate has expired; exit 4 */
	SGPU_ENONCE = -18, /* evidence: made for another nonce; exit 4 */
	SGPU_EBINDING =
		-19,	   /* evidence: its parts do not belong together, or to this key; exit 4 */
	SGPU_ERETRY = -20, /* no room now, try again later; exit 3 */
	SGPU_ENOSPACE = -21, /* no space left on a file system, a quota is used up, or a file would
				pass its limit; exit 3 */
	SGPU_ENOINPUT = -22, /* standard input is an empty pipe, because the preceding program
				failed; exit 6 */
	SGPU_EREFUSED =
		-23, /* there is no response but a refusal, which nothing authenticates; exit 4 */
	SGPU_EMANIFEST = -24, /* a batch names its manifest by hash, and it is not here; exit 3 */
	SGPU_ETAKEN =
		-25, /* a batch was taken before, or is too old for that to be known; exit 4 */
};

enum { SGPU_ERROR_TEXT_MAX = 512, SGPU_ERROR_HINT_MAX = 256 };

/* For people: one line without a full stop, values quoted, and a hint that may be empty. */
struct sgpu_error {
	int code; /* enum sgpu_code */
	char text[SGPU_ERROR_TEXT_MAX];
	char hint[SGPU_ERROR_HINT_MAX];
	int retryable; /* 1: its cause passes, as sgpu_set_retryable says; see sgpu_retryable */
};

/* Fills *error (unless NULL) from a format and returns `code`, so that a function can `return
 * sgpu_fail(...)`. Values may come from hostile input, so control characters and bytes that are not
 * UTF-8 are escaped as \xNN. A quoted value ('%s' in the format) is shown in full if it can be a
 * name (a path, or up to 64 bytes without quotes, braces and line breaks). Of other values at most
 * 24 bytes are shown, and nothing of a value that looks like a key. */
int sgpu_fail(struct sgpu_error *error, int code, const char *format, ...) SGPU_PRINTF(3, 4);
int sgpu_vfail(struct sgpu_error *error, int code, const char *format, va_list arguments)
	SGPU_PRINTF(3, 0);

/* As sgpu_fail, for a failed system call: appends ": " and the text of errno. Returns SGPU_ENOMEM
 * for ENOMEM, SGPU_ENOSPACE for ENOSPC, EDQUOT and EFBIG, else SGPU_ESYSTEM. */
int sgpu_fail_errno(struct sgpu_error *error, const char *format, ...) SGPU_PRINTF(2, 3);
/* Reports a failed write to the output `name`, perhaps "standard output", like sgpu_fail_errno. */
int sgpu_fail_write(struct sgpu_error *error, const char *name);

/* Reports that memory ran out. Returns SGPU_ENOMEM. */
int sgpu_fail_nomem(struct sgpu_error *error);

/* Adds a hint to *error and returns its code (SGPU_EINVALID if error is NULL). */
int sgpu_hint(struct sgpu_error *error, const char *format, ...) SGPU_PRINTF(2, 3);

/* Marks *error (unless NULL) as one whose cause passes, such as a server that is not there yet, and
 * returns its code (SGPU_EINVALID if error is NULL). sgpu_fail takes the mark away; sgpu_fail_errno
 * sets it by errno. */
int sgpu_set_retryable(struct sgpu_error *error);
/* Whether the same call, made again later, can succeed although nothing else is changed: the error
 * is marked, or its code alone says so. */
bool sgpu_retryable(const struct sgpu_error *error);

/* Describes a code in one sentence. Static. */
const char *sgpu_strerror(int code);

/* Returns a code's short name, as in responses and --json: "EAUTH" for SGPU_EAUTH. Static. */
const char *sgpu_error_name(int code);

/* Returns the code of a short name, or SGPU_EINVALID. */
int sgpu_error_by_name(const char *name);

/* Returns the exit status of all tools for a code: 0 done, 1 the answer is no, 2 usage, 3 system,
 * device or I/O, 4 authentication or policy refused, 5 some segments failed, 6 no input, because
 * the preceding program failed. */
int sgpu_exit_status(int code);

#ifdef __cplusplus
}
#endif
#endif
