/* SPDX-License-Identifier: Apache-2.0
 *
 * Error codes, their names, texts and exit statuses: one table.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <sgpu/error.h>

#include "base/base.h"

static const struct {
	int code, status;
	const char *name, *text;
} codes[] = {
	{ SGPU_OK, 0, "OK", "done" },
	{ SGPU_EINVALID, 1, "EINVALID", "malformed or invalid input" },
	{ SGPU_EDIFFERS, 1, "EDIFFERS", "the two differ" },
	{ SGPU_EUSAGE, 2, "EUSAGE", "wrong usage" },
	{ SGPU_ESYSTEM, 3, "ESYSTEM", "a system call failed" },
	{ SGPU_ENOMEM, 3, "ENOMEM", "out of memory" },
	{ SGPU_EDEVICE, 3, "EDEVICE", "a device failed" },
	{ SGPU_EUNAVAILABLE, 3, "EUNAVAILABLE", "not available on this machine or in this build" },
	{ SGPU_ETIMEOUT, 3, "ETIMEOUT", "the deadline passed" },
	{ SGPU_ECANCELED, 3, "ECANCELED", "stopped on request" },
	{ SGPU_EAUTH, 4, "EAUTH", "authentication failed" },
	{ SGPU_EKEY, 4, "EKEY", "the key does not belong to this data" },
	{ SGPU_EPOLICY, 4, "EPOLICY", "refused by policy" },
	{ SGPU_EDEPENDENCY, 5, "EDEPENDENCY", "not run, because what it depends on failed" },
	{ SGPU_ESEGMENTS, 5, "ESEGMENTS", "some segments failed" },
	{ SGPU_ESIGNATURE, 4, "ESIGNATURE", "a signature does not verify" },
	{ SGPU_ECHAIN, 4, "ECHAIN", "the certificates lead to none that is trusted" },
	{ SGPU_EEXPIRED, 4, "EEXPIRED", "too old, or not valid at this time" },
	{ SGPU_ENONCE, 4, "ENONCE", "made for another nonce" },
	{ SGPU_EBINDING, 4, "EBINDING", "parts that do not belong together" },
	{ SGPU_ERETRY, 3, "ERETRY", "no room now, try again later" },
	{ SGPU_ENOSPACE, 3, "ENOSPACE", "no space left" },
	{ SGPU_ENOINPUT, 6, "ENOINPUT", "nothing came, because the program before failed" },
	{ SGPU_EREFUSED, 4, "EREFUSED", "the runner's side refused" },
	{ SGPU_EMANIFEST, 3, "EMANIFEST", "the manifest is not here" },
	{ SGPU_ETAKEN, 4, "ETAKEN", "the batch was taken before" },
};

enum { CODE_COUNT = sizeof(codes) / sizeof(codes[0]), UNKNOWN = 1 };

static int find(int rc)
{
	for (int i = 0; i < CODE_COUNT; i++) {
		if (codes[i].code == rc) {
			return i;
		}
	}
	return UNKNOWN;
}

const char *sgpu_strerror(int rc)
{
	return codes[find(rc)].text;
}

const char *sgpu_error_name(int rc)
{
	return codes[find(rc)].name;
}

int sgpu_error_by_name(const char *name)
{
	for (int i = 0; i < CODE_COUNT; i++) {
		if (!strcmp(codes[i].name, name)) {
			return codes[i].code;
		}
	}
	return SGPU_EINVALID;
}

int sgpu_exit_status(int rc)
{
	return codes[find(rc)].status;
}

int sgpu_vfail(struct sgpu_error *error, int rc, const char *format, va_list arguments)
{
	if (error) {
		sgpu_message_format(error->text, sizeof(error->text), format, arguments);
		error->code = rc;
		error->hint[0] = '\0';
		error->retryable = 0;
	}
	return rc;
}

int sgpu_fail(struct sgpu_error *error, int rc, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)sgpu_vfail(error, rc, format, arguments);
	va_end(arguments);
	return rc;
}

int sgpu_fail_write(struct sgpu_error *error, const char *name)
{
	return strcmp(name, "standard output") == 0
		       ? sgpu_fail_errno(error, "cannot write to %s", name)
		       : sgpu_fail_errno(error, "cannot write '%s'", name);
}

static bool passes(int number)
{
	return number == EAGAIN || number == EINTR || number == EBUSY || number == ENFILE ||
	       number == ECONNREFUSED || number == ECONNRESET || number == ETIMEDOUT ||
	       number == ENETUNREACH || number == EHOSTUNREACH;
}

int sgpu_fail_errno(struct sgpu_error *error, const char *format, ...)
{
	int saved = errno;
	int rc = saved == ENOMEM					? SGPU_ENOMEM
		 : saved == ENOSPC || saved == EDQUOT || saved == EFBIG ? SGPU_ENOSPACE
									: SGPU_ESYSTEM;

	va_list arguments;

	va_start(arguments, format);
	(void)sgpu_vfail(error, rc, format, arguments);
	va_end(arguments);
	if (error) {
		char buffer[128];
		size_t used = strlen(error->text);
		/* GNU's strerror_r returns the text, which need not be in `buffer`. */
		snprintf(error->text + used, sizeof(error->text) - used, ": %s",
			 strerror_r(saved, buffer, sizeof(buffer)));
		error->retryable = passes(saved);
		if (saved == EMFILE) {
			sgpu_hint(error,
				  "the limit of open files is too low: raise it with ulimit -n");
		}
	}
	errno = saved;
	return rc;
}

int sgpu_fail_nomem(struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ENOMEM, "out of memory");
}

int sgpu_hint(struct sgpu_error *error, const char *format, ...)
{
	if (!error) {
		return SGPU_EINVALID;
	}
	va_list arguments;
	va_start(arguments, format);
	sgpu_message_format(error->hint, sizeof(error->hint), format, arguments);
	va_end(arguments);
	return error->code;
}

int sgpu_set_retryable(struct sgpu_error *error)
{
	if (error) {
		error->retryable = 1;
	}
	return error ? error->code : SGPU_EINVALID;
}

bool sgpu_retryable(const struct sgpu_error *error)
{
	return error->retryable || error->code == SGPU_ENOMEM || error->code == SGPU_ENOSPACE ||
	       error->code == SGPU_ETIMEOUT || error->code == SGPU_ERETRY ||
	       error->code == SGPU_EMANIFEST;
}
