/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of a script came to, as lines for people or as JSON lines.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/base.h>

#include "channel_script.h"
#include "parts.h"

static const char *op_name(enum sgpu_channel_op op)
{
	static const char *const names[] = {
		[SGPU_CH_CREATE] = "create",   [SGPU_CH_PDE] = "pde",
		[SGPU_CH_PTE] = "pte",	       [SGPU_CH_MEASURE] = "measure",
		[SGPU_CH_DESTROY] = "destroy", [SGPU_CH_SUBMIT] = "submit",
	};

	return names[op];
}

static bool with_key(const struct script *script, const struct sgpu_command *command)
{
	return command->channel < SCRIPT_CHANNELS &&
	       script->channels[command->channel].session != NULL;
}

static json_t *result_json(const struct script *script, const struct sgpu_command *command)
{
	const struct sgpu_reply *reply = &script->reply;
	const struct sgpu_summary *s = &reply->summary;
	const struct sgpu_measurement *m = &reply->measurement;

	if (command->op == SGPU_CH_CREATE && command->create.has_key) {
		return json_pack(
			"{s:I, s:o, s:o}", "serial", (json_int_t)reply->grant.serial,
			"owner_sha256", measure_hex(reply->grant.owner_hash, SGPU_SHA256_SIZE),
			"sealed_cek",
			measure_hex(reply->grant.sealed_cek, sizeof(reply->grant.sealed_cek)));
	}
	if (command->op == SGPU_CH_PTE && with_key(script, command)) {
		return json_pack("{s:I, s:I, s:I, s:i, s:i, s:o, s:o}", "counter",
				 (json_int_t)s->counter, "va", (json_int_t)s->va, "size",
				 (json_int_t)s->size, "protected_pages", (int)s->protected_pages,
				 "pages", (int)s->pages, "hash",
				 measure_hex(s->hash, sizeof(s->hash)), "mac",
				 measure_hex(s->mac, sizeof(s->mac)));
	}
	if (command->op == SGPU_CH_MEASURE) {
		return json_pack("{s:I, s:I, s:I, s:b, s:o}", "counter", (json_int_t)m->counter,
				 "va", (json_int_t)m->va, "size", (json_int_t)m->size, "keyed",
				 m->keyed, "digest", measure_hex(m->digest, sizeof(m->digest)));
	}
	return json_object();
}

static void print_json(const struct script *script, const struct sgpu_command *command)
{
	const struct sgpu_reply *reply = &script->reply;

	if (reply->refusal != SGPU_REFUSED_NOT) {
		measure_print_record(json_pack("{s:i, s:s, s:i, s:b, s:s, s:s}", "line",
					       (int)script->line, "command", op_name(command->op),
					       "channel", (int)command->channel, "done", 0,
					       "refused", sgpu_refusal_name(reply->refusal), "text",
					       reply->error.text),
				     false);
		return;
	}
	measure_print_record(json_pack("{s:i, s:s, s:i, s:b, s:o}", "line", (int)script->line,
				       "command", op_name(command->op), "channel",
				       (int)command->channel, "done", 1, "result",
				       result_json(script, command)),
			     false);
}

static void print_bytes(const char *name, const void *data, size_t size)
{
	char text[2 * SGPU_CHANNEL_DIGEST_SIZE + 1];

	sgpu_hex_encode(data, size, text);
	printf("    %-8s %s\n", name, text);
}

void script_print(const struct script *script, const struct sgpu_command *command)
{
	const struct sgpu_reply *reply = &script->reply;

	if (cli_json) {
		print_json(script, command);
		return;
	}
	if (reply->refusal != SGPU_REFUSED_NOT) {
		printf("%u: %s %u: refused (%s): %s\n", script->line, op_name(command->op),
		       command->channel, sgpu_refusal_name(reply->refusal), reply->error.text);
		return;
	}
	printf("%u: %s %u: done\n", script->line, op_name(command->op), command->channel);
	if (command->op == SGPU_CH_CREATE && command->create.has_key) {
		printf("    serial   %u\n", reply->grant.serial);
		print_bytes("owner", reply->grant.owner_hash, SGPU_SHA256_SIZE);
	} else if (command->op == SGPU_CH_PTE && with_key(script, command)) {
		const struct sgpu_summary *s = &reply->summary;

		printf("    summary  number %" PRIu64 ": va %#" PRIx64 ", %" PRIu64
		       " bytes, %u pages mapped, %u of them "
		       "protected\n",
		       s->counter, s->va, s->size, s->pages, s->protected_pages);
		print_bytes("hash", s->hash, sizeof(s->hash));
		print_bytes("mac", s->mac, sizeof(s->mac));
	} else if (command->op == SGPU_CH_MEASURE) {
		const struct sgpu_measurement *m = &reply->measurement;

		printf("    range    va %#" PRIx64 ", %" PRIu64 " bytes%s\n", m->va, m->size,
		       m->keyed ? ", keyed" : "");
		print_bytes("digest", m->digest, sizeof(m->digest));
	}
}

void script_print_frame(const struct script *script, uint32_t number,
			const struct sgpu_frame *frame)
{
	static const char *const regions[] = { "unprotected", "protected", "hidden" };
	static const char *const uses[] = { "data", "directory", "table" };
	const char *region = regions[sgpu_processor_region(script->processor, number)];

	if (cli_json) {
		measure_print_record(
			json_pack("{s:i, s:i, s:s, s:s, s:b, s:b, s:s, s:i, s:i, s:i, s:I}", "line",
				  (int)script->line, "frame", (int)number, "region", region,
				  "state", frame->mapped ? "mapped" : "free", "locked",
				  frame->locked, "big", frame->big, "use", uses[frame->use],
				  "owner", (int)frame->owner, "references", (int)frame->references,
				  "entries", (int)frame->entries, "va", (json_int_t)frame->va),
			false);
		return;
	}
	if (!frame->mapped) {
		printf("%u: frame %u: %s, free\n", script->line, number, region);
		return;
	}
	printf("%u: frame %u: %s, mapped, %s%s%s of channel %u, %u references", script->line,
	       number, region, frame->locked ? "locked, " : "",
	       frame->big ? "part of a big page, " : "", uses[frame->use], frame->owner,
	       frame->references);
	if (frame->use == SGPU_FRAME_DATA) {
		printf(", va %#" PRIx64 "\n", frame->va);
	} else {
		printf(", %u entries\n", frame->entries);
	}
}

void script_print_text(const struct script *script, const char *format, ...)
{
	char text[SGPU_ERROR_TEXT_MAX];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (cli_json) {
		measure_print_record(
			json_pack("{s:i, s:s}", "line", (int)script->line, "text", text), false);
	} else {
		printf("%u: %s\n", script->line, text);
	}
}
