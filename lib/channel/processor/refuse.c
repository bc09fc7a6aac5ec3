/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals of commands: their names, their texts, and the codes that they are.
 */
#include <stdarg.h>
#include <stdio.h>

#include "channel/processor/refuse.h"

static const struct {
	const char *name, *text;
} refusals[SGPU_REFUSALS] = {
	[SGPU_REFUSED_NOT] = { "done", "the command was carried out" },
	[SGPU_REFUSED_MALFORMED] = { "malformed", "the command is malformed" },
	[SGPU_REFUSED_NO_CHANNEL] = { "no-channel", "there is no such channel" },
	[SGPU_REFUSED_EXISTS] = { "exists", "the channel exists" },
	[SGPU_REFUSED_RANGE] = { "range", "a frame, an index, an address or a size is out of range "
					  "or not aligned" },
	[SGPU_REFUSED_REGION] = { "region", "the page lies in the wrong region of memory" },
	[SGPU_REFUSED_NOT_FREE] = { "not-free", "the page is in use" },
	[SGPU_REFUSED_FOREIGN] = { "foreign", "the page belongs to another context" },
	[SGPU_REFUSED_LOCKED] = { "locked",
				  "the page is locked, and its owner did not authorise this" },
	[SGPU_REFUSED_MAC] = { "mac", "the authorisation does not verify, or its counter is not "
				      "the next one" },
	[SGPU_REFUSED_ALIAS] = { "alias", "the page stands at another address, or another page at "
					  "this one" },
	[SGPU_REFUSED_NO_TABLE] = { "no-table", "no page table is mapped there" },
	[SGPU_REFUSED_NOT_EMPTY] = { "not-empty", "the page table has entries" },
	[SGPU_REFUSED_NOT_MAPPED] = { "not-mapped", "the range is not mapped in this channel" },
	[SGPU_REFUSED_BOOTSTRAP] = { "bootstrap", "only a bootstrap channel does this, and none "
						  "has it done to it" },
	[SGPU_REFUSED_COUNTER] = { "counter", "the group is not the next one: dropped, replayed or "
					      "reordered" },
	[SGPU_REFUSED_SEAL] = { "seal", "the group does not verify under the channel's key" },
	[SGPU_REFUSED_GROUP] = { "group", "the group has items, and came where nobody takes them" },
	[SGPU_REFUSED_LIMIT] = { "limit", "too many channels, references or entries" },
	[SGPU_REFUSED_DEVICE] = { "device", "the device failed" },
};

const char *sgpu_refusal_name(enum sgpu_refusal refusal)
{
	return (unsigned)refusal < SGPU_REFUSALS ? refusals[refusal].name : "unknown";
}

const char *sgpu_refusal_text(enum sgpu_refusal refusal)
{
	return (unsigned)refusal < SGPU_REFUSALS ? refusals[refusal].text : "unknown refusal";
}

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

int sgpu_refuse_device(struct sgpu_reply *reply, int code, const char *what)
{
	char text[SGPU_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "%s",
		 reply->error.text[0] ? reply->error.text : sgpu_strerror(code));
	return sgpu_refuse(reply, SGPU_REFUSED_DEVICE, "%s: %.*s", what, SGPU_ERROR_TEXT_MAX / 2,
			   text);
}
