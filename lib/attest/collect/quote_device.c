/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims about the device: its identity, the code loaded on it, and how keys reach it.
 */
#include <string.h>

#include <sgpu/base.h>

#include "device/device.h"
#include "attest/quote.h"

enum { HWMODEL_MAX = 32 /* RFC 9711, section 4.2.4 */ };

static json_t *code_claims(const struct sgpu_device_code *list, int count)
{
	json_t *array = json_array();

	for (int i = 0; array && i < count; i++) {
		json_t *item = json_pack(
			"{s:s, s:I, s:o}", "name", list[i].name, "size", (json_int_t)list[i].size,
			"digest", sgpu_json_from_bytes(list[i].digest, sizeof(list[i].digest)));
		if (!item || json_array_append_new(array, item)) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

/* On the CPU device it is the program's own memory that counts. A GPU whose confidential mode is
 * off lets its driver look into it, and the development mode does, too. */
static const char *device_debug(bool on_gpu, const char *confidential)
{
	return on_gpu ? !strcmp(confidential, "on") ? "disabled" : "enabled" : sgpu_debug_status();
}

int sgpu_claims_device(const struct sgpu_quote_subject *subject, const char **name,
		       struct sgpu_device_info *info, struct sgpu_device_agreement *agreement,
		       json_t **claims, struct sgpu_error *error)
{
	struct sgpu_device_code code_list[SGPU_DEVICE_CODE_MAX];
	int code = sgpu_device_get_info(subject->device, info, error);
	int count = 0;

	code = code ? code : sgpu_device_agree(subject->device, agreement, error);
	if (!code) {
		count = sgpu_device_code_digests(subject->device, code_list, error);
		code = count < 0 ? count : 0;
	}
	if (code) {
		return code;
	}
	bool on_gpu = strncmp(info->selector, "cpu", 3) != 0;
	size_t length = strnlen(info->name, HWMODEL_MAX);
	*name = on_gpu ? "gpu-0" : "cpu";
	json_t *own = json_pack(
		"{s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:I, s:I, s:o, s:b, s:s, s:b}",
		"selector", info->selector, "name", info->name, "uuid",
		info->uuid[0] ? info->uuid : NULL, "driver", info->driver[0] ? info->driver : NULL,
		"vbios", info->vbios[0] ? info->vbios : NULL, "capability",
		info->capability[0] ? info->capability : NULL, "confidential",
		info->confidential[0] ? info->confidential : NULL, "memory",
		(json_int_t)info->memory_total, "compute_units", (json_int_t)info->compute_units,
		"code", code_claims(code_list, count), "agreed", agreement->agreed, "agreement",
		agreement->text, "preemption", subject->preemption);
	if (own && agreement->agreed &&
	    json_object_set_new(
		    own, "agreement_key",
		    sgpu_json_from_bytes(agreement->public_key, sizeof(agreement->public_key)))) {
		json_decref(own);
		own = NULL;
	}
	*claims =
		own ? json_pack(
			      "{s:o, s:s, s:o}", "hwmodel",
			      sgpu_json_from_bytes(length ? info->name : "?", length ? length : 1),
			      "dbgstat", device_debug(on_gpu, info->confidential), SGPU_OWN, own)
		    : NULL;
	return *claims ? 0 : sgpu_fail_nomem(error);
}
