/* SPDX-License-Identifier: Apache-2.0
 *
 * Appraisal of the runner: its program, who can look into it, what it takes from batches, and from
 * whom.
 */
#include <stdio.h>
#include <string.h>

#include "attest/appraise/appraise.h"

static void judge_program(struct sgpu_judging *s, const json_t *wanted, const json_t *runner)
{
	const json_t *digests = json_object_get(wanted, "digests"), *own = sgpu_claims_own(runner);
	const char *version = json_string_value(json_object_get(wanted, "version"));
	const char *measured = sgpu_judge_text(own, "measured", "nothing");
	enum sgpu_finding *part = &s->findings.executables;
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE];

	sgpu_judge_hex(json_object_get(own, "digest"), SGPU_KT128_SIZE, hex);
	sgpu_judge(s, part, sgpu_judge_in(digests, hex), "runner.digest",
		   sgpu_judge_expected(digests, expected), hex,
		   "the runner is not a program that the policy knows");
	if (version) {
		const char *got =
			json_string_value(json_array_get(json_object_get(runner, "swversion"), 0));
		snprintf(expected, sizeof(expected), "at least %s", version);
		sgpu_judge(s, part, got && sgpu_version_compare(got, version) >= 0,
			   "runner.swversion", expected, got ? got : "none",
			   "the runner is older than the policy wants");
	}
	if (!json_is_false(json_object_get(wanted, "process"))) {
		sgpu_judge(s, part, !strcmp(measured, "process"), "runner.measured", "process",
			   measured, "the digest is of a file, not of the process that signed");
	}
}

/* Judges who can look into the process, its guest and its GPU. */
static void judge_debug(struct sgpu_judging *s, const json_t *runner)
{
	const char *whole = sgpu_judge_text(s->result->claims, "dbgstat", "none");
	const char *got = sgpu_judge_text(runner, "dbgstat", "none");
	const char *mode =
		sgpu_judge_text(sgpu_claims_own(sgpu_claims_device_of(s->result->claims, NULL)),
				"confidential", "off");
	enum sgpu_finding *part = &s->findings.configuration;

	sgpu_judge(s, part, !strcmp(whole, "disabled") && !strcmp(got, "disabled"), "dbgstat",
		   "disabled", strcmp(whole, "disabled") ? whole : got,
		   "the runner may be looked into by a debugger");
	if (s->result->tee_verified) {
		sgpu_judge(s, part, !s->result->tee.debug, "tee.debug", "off", "on",
			   "the guest was started with debugging on");
	}
	sgpu_judge(s, part, strcmp(mode, "devtools") != 0, "device.confidential", "off or on", mode,
		   "the GPU is in its development mode");
}

static void judge_owners(struct sgpu_judging *s, const json_t *wanted, const json_t *own)
{
	const json_t *named = json_object_get(wanted, "owners"),
		     *owners = json_object_get(own, "owners"), *item;
	enum sgpu_finding *part = &s->findings.configuration;
	const char *expected = json_is_string(named)	? "anybody"
			       : json_array_size(named) ? "owners of the policy"
							: "owners that the policy names";
	size_t i;

	if (!json_array_size(owners)) {
		sgpu_judge(s, part, json_is_string(named), "runner.owners", expected, "anybody",
			   "the runner takes work of anybody");
		return;
	}
	json_array_foreach ((json_t *)owners, i, item) {
		sgpu_judge(s, part, sgpu_judge_in(named, json_string_value(item)), "runner.owners",
			   expected, json_string_value(item),
			   "the runner takes work of an owner that the policy does not know");
	}
}

/* How much a word for `sessions` allows: all words but these two allow anybody. */
static int freedom(const char *word)
{
	return !strcmp(word, "none") ? 0 : !strcmp(word, "owners") ? 1 : 2;
}

/* A policy that does not say whose sessions it accepts accepts those of the owners that it names.
 * The quote of an older runner does not say it either, and is judged as "any" is, as is one that
 * speaks of owners and names none. */
static void judge_sessions(struct sgpu_judging *s, const json_t *wanted, const json_t *own)
{
	const bool named = json_array_size(json_object_get(wanted, "owners")) > 0;
	const char *said = sgpu_judge_text(own, "sessions", "not said"),
		   *got = !strcmp(said, "owners") && !json_object_get(own, "owners") ? "any" : said,
		   *most = sgpu_judge_text(wanted, "sessions", named ? "owners" : "none");

	sgpu_judge(s, &s->findings.configuration, freedom(got) <= freedom(most), "runner.sessions",
		   most, got, "the runner takes more sessions than the policy accepts");
}

/* Describes the first member, at any depth, that is not true; NULL if all are. */
static const char *first_lack(const json_t *object, char text[SGPU_REASON_SIZE])
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)object, name, value) {
		char inner[SGPU_REASON_SIZE];
		const char *lack = json_is_object(value) ? first_lack(value, inner) : NULL;
		if (lack) {
			snprintf(text, SGPU_REASON_SIZE, "%.64s: %.64s", name, lack);
			return text;
		}
		if (!json_is_object(value) && !json_is_true(value)) {
			snprintf(text, SGPU_REASON_SIZE, "no %.64s", name);
			return text;
		}
	}
	return NULL;
}

static void judge_confinement(struct sgpu_judging *s, const json_t *own)
{
	const json_t *confinement = json_object_get(own, "confinement");
	char text[SGPU_REASON_SIZE];
	const char *lack =
		json_object_size(confinement) ? first_lack(confinement, text) : "nothing";

	sgpu_judge(s, &s->findings.configuration, !lack, "runner.confinement", "all that there is",
		   lack ? lack : "", "the kernel does not confine the runner in full");
}

void sgpu_judge_runner(struct sgpu_judging *s)
{
	const json_t *wanted = json_object_get(s->policy, "runner"),
		     *runner = sgpu_member_at(s->result->claims, "submods/runner");
	const json_t *own = sgpu_claims_own(runner);
	const char *key = sgpu_judge_text(wanted, "key", ""),
		   *got = sgpu_judge_text(own, "key", "none");
	enum sgpu_finding *part = &s->findings.configuration;
	/* An ephemeral key is better than one in a file, so every policy accepts it. A policy that
	 * names no key also accepts a runner without one, to which nothing can be sealed. */
	bool good =
		!strcmp(got, "ephemeral") || !strcmp(got, key) || (!*key && !strcmp(got, "none"));

	judge_program(s, wanted, runner);
	if (!json_is_true(json_object_get(wanted, "debug"))) {
		judge_debug(s, runner);
	}
	if (!json_is_true(json_object_get(wanted, "modules"))) {
		sgpu_judge(s, part, json_is_false(json_object_get(own, "modules")),
			   "runner.modules", "not allowed", "allowed",
			   "the runner loads modules that a batch brings");
	}
	if (!json_is_true(json_object_get(wanted, "files"))) {
		sgpu_judge(s, part, json_is_false(json_object_get(own, "files")), "runner.files",
			   "closed", "open", "the runner opens files that a batch names");
	}
	judge_owners(s, wanted, own);
	judge_sessions(s, wanted, own);
	if (!json_is_false(json_object_get(wanted, "confinement"))) {
		judge_confinement(s, own);
	}
	sgpu_judge(s, part, good, "runner.key", *key ? key : "ephemeral", got,
		   "the recipient's key is not of the kind that the policy wants");
}
