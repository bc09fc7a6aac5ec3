/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals of commands, and their codes.
 */
#include <stdarg.h>
#include <stdio.h>

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
	char text[SGPU_ERROR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	reply->refusal = refusal;
	reply->error.hint[0] = '\0';
	reply->code = sgpu_fail(&reply->error, code_of(refusal), "%s", text);
	return reply->code;
}

int sgpu_refuse_memory(struct sgpu_reply *reply)
{
	reply->refusal = SGPU_REFUSED_LIMIT;
	reply->error.hint[0] = '\0';
	reply->code = sgpu_fail(&reply->error, SGPU_ENOMEM, "out of memory for a table");
	return reply->code;
}

int sgpu_refuse_device(struct sgpu_reply *reply, int rc, const char *what)
{
	char text[SGPU_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "%s",
		 reply->error.text[0] ? reply->error.text : sgpu_strerror(rc));
	return sgpu_refuse(reply, SGPU_REFUSED_DEVICE, "%s: %.*s", what, SGPU_ERROR_TEXT_MAX / 2,
			   text);
}
