/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes and frees the command processor, and takes or refuses its commands.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "channel/processor/processor.h"

/* ---- making and ending ---- */
struct sgpu_layout sgpu_layout_of(const struct sgpu_pages_info *info,
				  const struct sgpu_processor_config *config)
{
	const uint64_t window = SGPU_CHANNEL_ENTRIES * info->small,
		       most = SGPU_CHANNEL_ENTRIES * window,
		       size = config->space_size ? config->space_size
						 : 2 * (uint64_t)config->frames * info->small;
	struct sgpu_layout layout = { .page_size = { info->small, info->big }, .window = window };

	for (int kind = 0; kind < SGPU_KINDS; kind++) {
		layout.frames_of[kind] = (uint32_t)(layout.page_size[kind] / info->small);
		layout.entries_of[kind] = SGPU_CHANNEL_ENTRIES / layout.frames_of[kind];
	}
	layout.space =
		size > most - info->big ? most : (size + info->big - 1) / info->big * info->big;
	layout.directory_entries = (uint32_t)((layout.space + window - 1) / window);
	return layout;
}

static int check_config(const struct sgpu_pages_info *info,
			const struct sgpu_processor_config *config, struct sgpu_error *error)
{
	if (!info->small || !info->big || info->big % info->small ||
	    info->big / info->small > SGPU_CHANNEL_ENTRIES ||
	    SGPU_CHANNEL_ENTRIES % (info->big / info->small)) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "pages of %llu and %llu bytes do not go together",
				 (unsigned long long)info->small, (unsigned long long)info->big);
	}
	if (!config->frames || config->frames >= SGPU_NO_FRAME ||
	    config->frames > info->total / info->small) {
		return sgpu_fail(error, SGPU_EUSAGE, "%u frames: the device has %llu",
				 config->frames, (unsigned long long)(info->total / info->small));
	}
	return SGPU_OK;
}

int sgpu_processor_create(struct sgpu_device *device, const struct sgpu_processor_config *config,
			  struct sgpu_processor **processor, struct sgpu_error *error)
{
	struct sgpu_processor *made;
	struct sgpu_pages_info info;
	int rc = sgpu_device_pages(device, &info, error);

	*processor = NULL;
	rc = rc ? rc : check_config(&info, config, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	made = calloc(1, sizeof(*made));
	/* Entries that are never touched cost no memory. */
	if (!made || !(made->frames = calloc(config->frames, sizeof(*made->frames)))) {
		free(made);
		return sgpu_fail_nomem(error);
	}
	if (!sgpu_pages_claim(device, true)) {
		free(made->frames);
		free(made);
		return sgpu_fail(error, SGPU_EUSAGE, "the device's pages have another processor");
	}
	/* Writers come first, so a flood of groups does not keep the allocator out. So no thread
	 * may hold the lock twice as a reader, and none does. */
	made->tables = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	(void)pthread_mutex_init(&made->activation, NULL);
	(void)pthread_cond_init(&made->activation_turn, NULL);
	made->device = device;
	made->config = *config;
	made->layout = sgpu_layout_of(&info, config);
	rc = sgpu_random(made->id, sizeof(made->id), error);
	rc = rc ? rc : sgpu_stream_create(device, &made->stream, error);
	if (rc != SGPU_OK) {
		sgpu_processor_free(&made);
		return rc;
	}
	*processor = made;
	return SGPU_OK;
}

void sgpu_processor_free(struct sgpu_processor **processor)
{
	struct sgpu_processor *p = processor ? *processor : NULL;

	if (!p) {
		return;
	}
	for (uint32_t i = 0; i < SGPU_CHANNEL_MAX; i++) {
		if (p->channels[i]) {
			(void)!sgpu_channel_end(p, p->channels[i], true, NULL);
		}
	}
	(void)!sgpu_pages_claim(p->device, false);
	sgpu_stream_free(&p->stream);
	pthread_rwlock_destroy(&p->tables);
	pthread_mutex_destroy(&p->activation);
	pthread_cond_destroy(&p->activation_turn);
	free(p->frames);
	free(p);
	*processor = NULL;
}

/* ---- refusals ---- */
static int code_of(enum sgpu_refusal refusal)
{
	switch (refusal) {
	case SGPU_REFUSED_NOT:
		return SGPU_OK;
	case SGPU_REFUSED_MALFORMED:
	case SGPU_REFUSED_NO_CHANNEL:
	case SGPU_REFUSED_RANGE:
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

/* ---- commands ---- */
static int change_tables(struct sgpu_processor *processor, const struct sgpu_command *command,
			 struct sgpu_reply *reply)
{
	static int (*const changes[])(struct sgpu_processor *, const struct sgpu_command *,
				      struct sgpu_reply *) = {
		[SGPU_CH_CREATE] = sgpu_do_create,   [SGPU_CH_PDE] = sgpu_do_pde,
		[SGPU_CH_PTE] = sgpu_do_pte,	     [SGPU_CH_MEASURE] = sgpu_do_measure,
		[SGPU_CH_DESTROY] = sgpu_do_destroy,
	};

	return (unsigned)command->op < SGPU_ARRAY_LENGTH(changes) && changes[command->op]
		       ? changes[command->op](processor, command, reply)
		       : sgpu_refuse(reply, SGPU_REFUSED_MALFORMED, "unknown operation %d",
				     (int)command->op);
}

int sgpu_processor_command(struct sgpu_processor *processor, const struct sgpu_command *given,
			   struct sgpu_reply *reply)
{
	/* Copied, since the sender may change the command meanwhile. */
	const struct sgpu_command command = *(const volatile struct sgpu_command *)given;

	*reply = (struct sgpu_reply){ .refusal = SGPU_REFUSED_NOT };
	pthread_rwlock_wrlock(&processor->tables);
	(void)change_tables(processor, &command, reply);
	pthread_rwlock_unlock(&processor->tables);
	if (reply->code == SGPU_OK) {
		/* The device may have left a text about an earlier attempt. */
		memset(&reply->error, 0, sizeof(reply->error));
	}
	return reply->code;
}
