/* SPDX-License-Identifier: Apache-2.0
 *
 * What a policy has revoked is refused by name, whatever else the policy says.
 */
#include "attest/quote.h"
#include "json_text.h"
#include "test_attest.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define LENIENT                                                                              \
	"'runner':{'digests':'any','debug':true,'modules':true,'files':true,'owners':'any'," \
	"'sessions':'any','confinement':false,'process':false},"                             \
	"'device':{'code':'any'},'platform':{'at_least':'plain'}"
enum { TEXT_MAX = 2048, HEX = 2 * SGPU_SHA256_SIZE + 1 };

static struct world w;
static struct sgpu_quote_result verified;

/* Also of code on a device, which the CPU device has none of. */
static int quote_and_verify(struct sgpu_device *device)
{
	static const uint8_t nonce[32] = { 1 };
	const struct sgpu_quote_subject s = { .nonce = nonce,
					      .nonce_size = sizeof(nonce),
					      .device = device };
	const struct sgpu_quote_checks c = {
		.roots = &w.roots, .nonce = nonce, .nonce_size = sizeof(nonce), .now = NOW
	};
	static const uint8_t codes[2][32] = { { 7 }, { 8 } };
	char *quote = NULL;
	size_t size = 0;
	int code = sgpu_quote_create(&s, w.ak, &w.chain, NOW, &quote, &size, NULL);

	code = code ? code : sgpu_quote_verify(quote, size, &c, &verified, NULL);
	free(quote);
	if (!code) {
		json_t *list = json_object_get(
			sgpu_member_at(verified.claims, "submods/cpu/" SGPU_OWN), "code");
		for (int i = 0; i < 2; i++) {
			json_array_append_new(
				list, json_pack("{s:s, s:i, s:o}", "name", "k", "size", 1, "digest",
						sgpu_json_from_bytes(codes[i], sizeof(codes[i]))));
		}
	}
	return code;
}

/* A policy with this list and, in front of it, these other members. */
static json_t *policy_of(const char *others, const char *revoked)
{
	json_t *policy = NULL;
	struct sgpu_error error = { 0 };
	char text[TEXT_MAX];

	snprintf(text, sizeof(text), "{'version':1,%s%s'revoked':%s}", others, *others ? "," : "",
		 revoked);
	char *json = json_text(text);
	const int code = sgpu_policy_parse(json, strlen(json), "p.json", &policy, &error);
	free(json);
	if (code) {
		CHECK(error.code == SGPU_EINVALID && strstr(error.text, "p.json") &&
		      strstr(error.text, "revoked"));
		return NULL;
	}
	return policy;
}

/* Whether the policy accepts; what it says is in *appraisal, for the caller to clear. */
static bool accepts(const char *others, const char *revoked, struct sgpu_appraisal *appraisal)
{
	json_t *policy = policy_of(others, revoked);

	memset(appraisal, 0, sizeof(*appraisal));
	CHECK(policy && !sgpu_appraise(policy, &verified, NOW, appraisal, NULL));
	json_decref(policy);
	return appraisal->accepted;
}

static int in_vector(const struct sgpu_appraisal *a, const char *submod, const char *part)
{
	const json_t *one = json_object_get(json_object_get(a->ear, "submods"), submod);

	return (int)json_integer_value(
		json_object_get(json_object_get(one, "ear_trustworthiness_vector"), part));
}

static void check_refused(const char *hex, const char *claim, const char *submod, const char *part)
{
	static const char *const parts[] = { "instance-identity", "configuration", "executables",
					     "hardware", "runtime-opaque" };
	static const char *const all[] = { LENIENT, "" };
	char list[512];

	for (size_t i = 0; i < 2; i++) {
		struct sgpu_appraisal a;
		snprintf(list, sizeof(list), "['" ZEROS "','%s']", hex);
		CHECK(!accepts(all[i], list, &a));
		/* A policy that would refuse all the rest does not come to it. */
		CHECK(json_array_size(a.reasons) == 1);
		const json_t *reason = json_array_get(a.reasons, 0);
		CHECK(!strcmp(json_string_value(json_object_get(reason, "claim")), claim));
		CHECK(!strcmp(json_string_value(json_object_get(reason, "got")), hex));
		CHECK(strstr(json_string_value(json_object_get(reason, "text")), "is revoked"));
		CHECK(json_equal(
			json_object_get(json_object_get(a.ear, SGPU_EAT_PROFILE), "revoked"),
			a.reasons));
		CHECK(!strcmp(json_string_value(json_object_get(
				      json_object_get(json_object_get(a.ear, "submods"), "runner"),
				      "ear_status")),
			      "contraindicated"));
		for (size_t p = 0; p < SGPU_ARRAY_LENGTH(parts); p++) {
			CHECK(in_vector(&a, "runner", parts[p]) ==
			      (!strcmp(submod, "runner") && !strcmp(part, parts[p]) ? 96 : 0));
			CHECK(in_vector(&a, "cpu", parts[p]) ==
			      (!strcmp(submod, "cpu") && !strcmp(part, parts[p]) ? 96 : 0));
		}
		sgpu_appraisal_clear(&a);
	}
}

UNIT_TEST(what_is_revoked_is_refused_by_name_and_before_all_else)
{
	const json_t *runner = sgpu_member_at(verified.claims, "submods/runner/" SGPU_OWN);
	uint8_t hash[SGPU_SHA256_SIZE];
	char hex[HEX];

	REQUIRE(!sgpu_signer_fingerprint(w.ek, hash, NULL));
	sgpu_hex_encode(hash, sizeof(hash), hex);
	check_refused(hex, "ueid", "runner", "instance-identity");
	REQUIRE(!sgpu_signer_fingerprint(w.ak, hash, NULL));
	sgpu_hex_encode(hash, sizeof(hash), hex);
	check_refused(hex, "attestation key", "runner", "instance-identity");
	REQUIRE(!sgpu_base64url_decode(json_string_value(json_object_get(runner, "digest")), hash,
				       sizeof(hash), NULL));
	sgpu_hex_encode(hash, sizeof(hash), hex);
	check_refused(hex, "runner.digest", "runner", "executables");
	check_refused("0700000000000000000000000000000000000000000000000000000000000000",
		      "device.code", "cpu", "executables");
	check_refused("0800000000000000000000000000000000000000000000000000000000000000",
		      "device.code", "cpu", "executables");
}

UNIT_TEST(what_is_revoked_of_others_changes_nothing)
{
	static const char *const lists[] = {
		"[]", "['" ZEROS "']",
		"['0700000000000000000000000000000000000000000000000000000000000001','" ZEROS "']"
	};
	struct sgpu_appraisal a;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(lists); i++) {
		CHECK(accepts(LENIENT, lists[i], &a) && !json_object_get(a.ear, SGPU_EAT_PROFILE));
		sgpu_appraisal_clear(&a);
		CHECK(!accepts("", lists[i], &a) && json_array_size(a.reasons) > 5);
		sgpu_appraisal_clear(&a);
	}
}

UNIT_TEST(all_that_is_revoked_is_listed)
{
	struct sgpu_appraisal a;
	char list[512], hex[HEX];

	sgpu_hex_encode(verified.ak, sizeof(verified.ak), hex);
	snprintf(list, sizeof(list), "['07%s','%s']", &ZEROS[2], hex);
	CHECK(!accepts(LENIENT, list, &a) && json_array_size(a.reasons) == 2);
	sgpu_appraisal_clear(&a);
}

UNIT_TEST(a_list_of_what_is_revoked_is_read_strictly)
{
	static const char *const wrong[] = {
		"'any'",
		"{}",
		"null",
		"[1]",
		"['']",
		"['" ZEROS "00']",
		"[['" ZEROS "']]",
		"['sha256:" ZEROS "']",
		"['000000000000000000000000000000000000000000000000000000000000000']",
		"['000000000000000000000000000000000000000000000000000000000000000A']",
		"['000000000000000000000000000000000000000000000000000000000000000g']",
		"['AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA']",
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(wrong); i++) {
		json_t *policy = policy_of(LENIENT, wrong[i]);
		CHECK(!policy);
		json_decref(policy);
	}
}

int main(void)
{
	struct sgpu_device *device = NULL;

	setenv("SGPU_TSM_ROOT", "/nonexistent", 1);
	setenv("SGPU_GRAMINE_ROOT", "/nonexistent", 1);
	if (world_make(&w) ||
	    sgpu_device_open("cpu", &(struct sgpu_device_config){ .jobs = 1 }, &device, NULL) ||
	    quote_and_verify(device)) {
		printf("Bail out! cannot make a quote\n");
		return 1;
	}
	UNIT_RUN(what_is_revoked_is_refused_by_name_and_before_all_else);
	UNIT_RUN(what_is_revoked_of_others_changes_nothing);
	UNIT_RUN(all_that_is_revoked_is_listed);
	UNIT_RUN(a_list_of_what_is_revoked_is_read_strictly);
	sgpu_quote_result_clear(&verified);
	sgpu_device_close(&device);
	world_free(&w);
	return unit_done();
}
