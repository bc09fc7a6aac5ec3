/* SPDX-License-Identifier: Apache-2.0
 *
 * What was checked, of a quote that verified, one by one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "parts.h"

enum { CHECKS = 9, TEXT_MAX = 384 };

struct check {
	const char *name, *label; /* in JSON, and for people */
	const char *state;	  /* "verified", "not checked", "absent" */
	char text[TEXT_MAX];	  /* why, or what was found; may be "" */
};

static void SGPU_PRINTF(5, 6) set(struct check *check, const char *name, const char *label,
				  const char *state, const char *format, ...)
{
	va_list arguments;

	check->name = name;
	check->label = label;
	check->state = state;
	va_start(arguments, format);
	vsnprintf(check->text, sizeof(check->text), format, arguments);
	va_end(arguments);
}

/* Why a record is absent, as the claims say. */
static const char *reason(const struct measure_checks *checks, const char *label)
{
	const json_t *own = json_object_get(checks->result.claims, SGPU_EAT_PROFILE);
	const char *text =
		json_string_value(json_object_get(json_object_get(own, "absent"), label));

	return text ? text : "the quote does not say why";
}

static bool names_record(const struct measure_checks *checks, const char *label)
{
	const json_t *own = json_object_get(checks->result.claims, SGPU_EAT_PROFILE);

	return json_object_get(json_object_get(own, "records"), label);
}

static void set_hardware(const struct measure_checks *checks, struct check *list)
{
	const struct sgpu_quote_result *r = &checks->result;

	if (r->tee_verified) {
		set(&list[0], "tsm_report", "TSM report", "verified", "%s%s",
		    sgpu_platform_name(r->tee.kind), r->tee.debug ? ", which can be debugged" : "");
	} else if (r->tee_present) {
		set(&list[0], "tsm_report", "TSM report", "not checked", "no --tee-roots given");
	} else {
		set(&list[0], "tsm_report", "TSM report", "absent", "%s",
		    reason(checks, "tsm-report"));
	}
	if (names_record(checks, "gramine")) {
		set(&list[1], "sgx_quote", "SGX quote", "not checked",
		    "it is for the verifier of its maker");
	} else {
		set(&list[1], "sgx_quote", "SGX quote", "absent", "%s", reason(checks, "gramine"));
	}
	if (r->gpu_evidence_present) {
		set(&list[2], "gpu_evidence", "GPU evidence", "not checked",
		    "it is for the verifier of its maker");
	} else {
		set(&list[2], "gpu_evidence", "GPU evidence", "absent", "%s",
		    reason(checks, "nv-gpu-evidence"));
	}
}

static void gather(const struct measure_checks *checks, struct check list[CHECKS])
{
	const int64_t made =
		(int64_t)json_integer_value(json_object_get(checks->result.claims, "iat"));
	const int64_t age = measure_now() - made;
	char moment[MEASURE_TIME_MAX];

	set(&list[0], "signature", "signature", "verified", "ES384");
	set(&list[1], "chain", "chain", "verified", "leads to '%s'", checks->roots_path);
	set(&list[2], "time", "time", "verified", "made at %s, %lld s ago",
	    measure_time_text(made, moment), (long long)(age < 0 ? 0 : age));
	if (checks->result.nonce_checked) {
		set(&list[3], "nonce", "nonce", "verified", "%zu bytes", checks->nonce.size);
	} else {
		set(&list[3], "nonce", "nonce", "not checked", "no --nonce given");
	}
	if (checks->owner_path) {
		set(&list[4], "owner", "owner", "verified", "bound to '%s'", checks->owner_path);
	} else {
		set(&list[4], "owner", "owner", "not checked", "no --owner given");
	}
	set(&list[5], "binding", "binding", "verified", "its parts belong together");
	set_hardware(checks, &list[6]);
}

void measure_print_checks(const struct measure_checks *checks)
{
	struct check list[CHECKS];

	gather(checks, list);
	for (int i = 0; i < CHECKS; i++) {
		cli_print_line(stdout, "%-13s  %s: %s", list[i].label, list[i].state, list[i].text);
	}
}

json_t *measure_checks_json(const struct measure_checks *checks)
{
	json_t *object = json_object();
	struct check list[CHECKS];

	gather(checks, list);
	for (int i = 0; i < CHECKS; i++) {
		json_object_set_new(object, list[i].name,
				    json_pack("{s:s, s:o*}", "state", list[i].state, "text",
					      cli_json_text(list[i].text)));
	}
	return object;
}

json_t *measure_tee_json(const struct sgpu_quote_result *result)
{
	const struct sgpu_tee_report *tee = &result->tee;
	char tcb[17];

	if (!result->tee_verified) {
		return NULL;
	}
	snprintf(tcb, sizeof(tcb), "%016" PRIx64, tee->tcb);
	json_t *object = json_pack(
		"{s:s, s:i, s:b, s:b, s:s, s:o}", "kind", sgpu_platform_word(tee->kind), "version",
		(int)tee->version, "debug", tee->debug, "migratable", tee->migratable, "tcb", tcb,
		"measurement", measure_hex(tee->measurement, sizeof(tee->measurement)));
	if (tee->kind == SGPU_PLATFORM_SNP) {
		json_object_set_new(object, "vmpl", json_integer(tee->vmpl));
		return object;
	}
	json_object_set_new(object, "sept_ve", json_boolean(tee->sept_ve));
	for (int i = 0; i < 4; i++) {
		char name[8];
		snprintf(name, sizeof(name), "rtmr%d", i);
		json_object_set_new(object, name, measure_hex(tee->rtmr[i], sizeof(tee->rtmr[i])));
	}
	return object;
}
