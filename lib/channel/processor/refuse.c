/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals of commands, and their codes.
 */
#include <stdarg.h>

#include "channel/processor/processor.h"

static int code_of(enum sgpu_refusal refusal)
{
	switch (refusal) {
	case SGPU_REFUSED_NOT:
		return SGPU_OK;
	case SGPU_REFUSED_MALFORMED:
	case SGPU_REFUSED_NO_CHANNEL:
	case SGPU_REFUSED_RANGE:
	case SGPU_REFUSED_GROUP:
		return SGPU_EINVALID;
	case SGPU_REFUSED_MAC:
	case SGPU_REFUSED_COUNTER:
	case SGPU_REFUSED_SEAL:
		return SGPU_EAUTH;
	case SGPU_REFUSED_DEVICE:
		return SGPU_EDEVICE;
	default:
		return SGPU_EPOLICY;
	}
}

int sgpu_refuse(struct sgpu_reply *reply, enum sgpu_refusal refusal, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	reply->refusal = refusal;
	reply->code = sgpu_vfail(&reply->error, code_of(refusal), format, arguments);
	va_end(arguments);
	return reply->code;
}

int sgpu_refuse_device(struct sgpu_reply *reply, int rc, const char *what)
{
	const struct sgpu_error why = reply->error;

	return sgpu_refuse(reply, SGPU_REFUSED_DEVICE, "%s: %.*s", what, SGPU_ERROR_TEXT_MAX / 2,
			   why.text[0] ? why.text : sgpu_strerror(rc));
}
