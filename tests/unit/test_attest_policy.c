/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies and appraisal: each rule by itself, both ways, and what the result says.
 */
#include "json_text.h"
#include "test_attest.h"

static struct world w;
static struct sgpu_device *device;
static struct sgpu_key recipient, owner;
static struct sgpu_quote_result verified;
static const uint8_t nonce[32] = { 1, 2, 3, 4 };

/* A verified quote of this process on the CPU device. */
static int quote_and_verify(void)
{
	struct sgpu_quote_subject s = { .nonce = nonce,
					.nonce_size = sizeof(nonce),
					.recipient = &recipient,
					.recipient_ephemeral = true,
					.owner_key = owner.public_half,
					.device = device };
	struct sgpu_quote_checks c = {
		.roots = &w.roots, .nonce = nonce, .nonce_size = sizeof(nonce), .now = NOW
	};
	char *quote = NULL;
	size_t size = 0;
	int code = sgpu_quote_create(&s, w.ak, &w.chain, NOW, &quote, &size, NULL);

	code = code ? code : sgpu_quote_verify(quote, size, &c, &verified, NULL);
	free(quote);
	return code;
}

static json_t *own_of(const char *submod)
{
	json_t *object =
		submod ? json_object_get(json_object_get(verified.claims, "submods"), submod)
		       : verified.claims;

	return json_object_get(object, SGPU_EAT_PROFILE);
}

/* Lets everything of this machine pass, so that a test sees what it asks for and nothing else. */
static const char lenient[] =
	"{'version':1,'runner':{'digests':'any','debug':true,'modules':true,'files':true,"
	"'owners':'any','sessions':'any','confinement':false,'key':'stored','process':false},"
	"'platform':{'at_least':'plain'}}";

#define RUNNER(members) "{'version':1,'runner':{" members "}}"
#define DEVICE(members) "{'version':1,'device':{" members "}}"
#define PLATFORM(members) "{'version':1,'platform':{" members "}}"

/* Whatever the guest. */
#define ANY_GUEST                                                         \
	"'measurements':'any','rtmr0':'any','rtmr1':'any','rtmr2':'any'," \
	"'rtmr3':'any'"

/* Of JSON with ' for ". */
static json_t *load(const char *text)
{
	char *json = json_text(text);
	json_t *loaded = json_loads(json, 0, NULL);

	free(json);
	return loaded;
}

static int parse(const char *text, json_t **policy, struct sgpu_error *error)
{
	char *json = json_text(text);
	int code = sgpu_policy_parse(json, strlen(json), "p.json", policy, error);

	free(json);
	return code;
}

/* How many reasons a policy finds; -1 when it does not parse. The first reason's claim must be
 * `claim`. */
static int strictly(const char *text, const char *claim)
{
	json_t *policy = NULL;
	struct sgpu_appraisal appraisal;
	struct sgpu_error error = { 0 };
	int count = -1;

	if (parse(text, &policy, &error)) {
		printf("# %s\n", error.text);
		return -1;
	}
	if (!sgpu_appraise(policy, &verified, NOW, &appraisal, NULL)) {
		count = (int)json_array_size(appraisal.reasons);
		const json_t *first = json_array_get(appraisal.reasons, 0);
		const char *got = json_string_value(json_object_get(first, "claim"));
		if (appraisal.accepted != (count == 0) || (claim && (!got || strcmp(got, claim))) ||
		    (count && (!json_string_value(json_object_get(first, "expected"))[0] ||
			       !json_string_value(json_object_get(first, "text"))[0]))) {
			printf("# %s: claim '%s'\n", text, got ? got : "none");
			count = -2;
		}
		const char *status = json_string_value(json_object_get(
			json_object_get(json_object_get(appraisal.ear, "submods"), "runner"),
			"ear_status"));
		if (!status || (count > 0) != !strcmp(status, "contraindicated")) {
			printf("# status '%s' with %d reasons\n", status, count);
			count = -3;
		}
		sgpu_appraisal_clear(&appraisal);
	}
	json_decref(policy);
	return count;
}

/* The same of the lenient policy, with the members of `text` put over it. */
static int reasons(const char *text, const char *claim)
{
	json_t *whole = load(lenient), *change = load(text), *value;
	const char *key;

	json_object_foreach (change, key, value) {
		json_t *part = json_object_get(whole, key);
		if (!json_is_object(part) || !json_is_object(value) ||
		    json_object_update(part, value)) {
			json_object_set(whole, key, value);
		}
	}
	char *merged = json_dumps(whole, JSON_COMPACT);
	int count = strictly(merged, claim);
	free(merged);
	json_decref(change);
	json_decref(whole);
	return count;
}

static int refused(const char *text)
{
	json_t *policy = NULL;
	struct sgpu_error error = { 0 };

	return parse(text, &policy, &error) == SGPU_EINVALID && !policy &&
	       strstr(error.text, "p.json");
}

static char *policy_of_claims(void)
{
	json_t *made;
	int rc = sgpu_policy_from_claims(verified.claims, &made, NULL);
	char *text = rc ? NULL : json_dumps(made, JSON_COMPACT);

	json_decref(made);
	return text;
}

UNIT_TEST(a_policy_from_a_quote_accepts_that_quote)
{
	char *text = policy_of_claims();
	json_t *made;

	REQUIRE(text && strictly(text, NULL) == 0);
	/* Another program is another digest. */
	json_t *kept = json_incref(json_object_get(own_of("runner"), "digest"));
	json_object_set_new(own_of("runner"), "digest",
			    json_string("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
	CHECK(strictly(text, "runner.digest") == 1);
	json_object_set_new(own_of("runner"), "digest", kept);
	CHECK(strictly(text, NULL) == 0);
	free(text);
	json_t *other = json_deep_copy(verified.claims);
	json_array_set_new((json_t *)sgpu_member_at(other, "submods/runner/swversion"), 0,
			   json_string("1..2"));
	CHECK(sgpu_policy_from_claims(other, &made, NULL) == SGPU_EINVALID && !made);
	json_object_del(other, "iat");
	CHECK(sgpu_policy_from_claims(other, &made, NULL) == SGPU_EINVALID && !made);
	json_decref(other);
}

static int allocations_left;

static void *allocate_some(size_t size)
{
	return allocations_left-- > 0 ? malloc(size) : NULL;
}

/* A policy without one of its members would accept more. */
UNIT_TEST(a_policy_is_whole_or_not_made_when_memory_ends)
{
	json_t *whole, *policy;
	int made = 0;

	REQUIRE(!sgpu_policy_from_claims(verified.claims, &whole, NULL));
	for (int least = 0; made < 3; least++) {
		json_set_alloc_funcs(allocate_some, free);
		allocations_left = least;
		const int rc = sgpu_policy_from_claims(verified.claims, &policy, NULL);
		json_set_alloc_funcs(malloc, free);
		CHECK(rc == SGPU_OK ? json_equal(policy, whole) : !policy);
		made += rc == SGPU_OK;
		json_decref(policy);
	}
	json_decref(whole);
}

/* Each member by itself: what the lenient policy lets pass is refused without it. */
UNIT_TEST(what_a_policy_does_not_name_it_refuses)
{
	/* clang-format off */
	static const struct {
		const char *part, *member, *claim;
	} named[] = {
		{ "runner", "digests", "runner.digest" }, { "runner", "debug", "dbgstat" },
		{ "runner", "modules", "runner.modules" }, { "runner", "files", "runner.files" },
		{ "runner", "owners", "runner.owners" }, { "runner", "sessions", "runner.sessions" },
		{ "runner", "confinement", "runner.confinement" },
		{ "runner", "key", "runner.key" }, { "runner", "process", "runner.measured" },
		{ "platform", "at_least", "platform.kind" },
	};
	/* clang-format on */

	json_object_set_new(own_of("runner"), "modules", json_true());
	json_object_set_new(own_of("runner"), "files", json_true());
	json_object_set_new(own_of("runner"), "sessions", json_string("any"));
	json_object_set_new(own_of("runner"), "measured", json_string("file"));
	json_object_set_new(own_of("runner"), "key", json_string("stored"));
	CHECK(strictly(lenient, NULL) == 0);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(named); i++) {
		json_t *policy = load(lenient);
		json_object_del(json_object_get(policy, named[i].part), named[i].member);
		char *text = json_dumps(policy, JSON_COMPACT);
		/* Without at_least a report is demanded, too. */
		CHECK(strictly(text, named[i].claim) == 1 + !strcmp(named[i].member, "at_least"));
		free(text);
		json_decref(policy);
	}
	CHECK(strictly("{'version':1}", "runner.digest") == 11);
	json_object_set_new(own_of("runner"), "modules", json_false());
	json_object_set_new(own_of("runner"), "files", json_false());
	json_object_set_new(own_of("runner"), "sessions", json_string("none"));
	json_object_set_new(own_of("runner"), "measured", json_string("process"));
	json_object_set_new(own_of("runner"), "key", json_string("ephemeral"));
}

#define A "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
/* What is said and what is wanted. Runners whose quotes do not say it took anybody's. */
UNIT_TEST(sessions_of_owners_are_accepted_with_the_owners_or_by_name)
{
	static const char *const said[] = { "none", "owners", "any", NULL };
	static const struct {
		const char *sessions, *owners; /* NULL: not named */
		int most;
	} wanted[] = { { "none", "any", 0 }, { "owners", "any", 1 }, { "any", "any", 2 },
		       { NULL, "any", 0 },   { NULL, NULL, 1 },	     { "none", NULL, 0 } };
	json_t *own = own_of("runner"), *policy = load(lenient),
	       *runner = json_object_get(policy, "runner");

	json_object_set_new(own, "owners", json_pack("[s]", A));
	for (int i = 0; i < 4; i++) {
		json_object_del(own, "sessions");
		json_object_set_new(own, "sessions", json_string(said[i])); /* NULL: nothing */
		for (size_t k = 0; k < SGPU_ARRAY_LENGTH(wanted); k++) {
			const int lacks = (i > 2 ? 2 : i) > wanted[k].most;
			json_object_set_new(runner, "owners",
					    json_pack(wanted[k].owners ? "s" : "[s]",
						      wanted[k].owners ? "any" : A));
			json_object_del(runner, "sessions");
			json_object_set_new(runner, "sessions", json_string(wanted[k].sessions));
			char *text = json_dumps(policy, JSON_COMPACT);

			CHECK(strictly(text, lacks ? "runner.sessions" : NULL) == lacks);
			free(text);
		}
	}
	json_object_del(own, "owners");
	json_object_set_new(own, "sessions", json_string("none"));
	json_decref(policy);
}

UNIT_TEST(the_runner_is_judged_by_owners_files_and_confinement)
{
#define B "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA"
	json_t *own = own_of("runner");

	/* Work of anybody is none of an owner that the policy names. */
	CHECK(reasons(RUNNER("'owners':['" A "']"), "runner.owners") == 1);
	CHECK(reasons(RUNNER("'owners':[]"), "runner.owners") == 1);
	json_object_set_new(own, "owners", json_pack("[s]", A));
	CHECK(reasons(RUNNER("'owners':['" A "']"), NULL) == 0);
	CHECK(reasons(RUNNER("'owners':['" B "','" A "']"), NULL) == 0);
	CHECK(reasons(RUNNER("'owners':['" B "']"), "runner.owners") == 1);
	CHECK(reasons(RUNNER("'owners':[]"), "runner.owners") == 1);
	CHECK(reasons(RUNNER("'owners':'any'"), NULL) == 0);
	/* One owner more than the policy names can send work of their own. */
	json_object_set_new(own, "owners", json_pack("[s, s]", A, B));
	CHECK(reasons(RUNNER("'owners':['" A "']"), "runner.owners") == 1);
	json_object_del(own, "owners");
	CHECK(reasons(RUNNER("'files':false"), NULL) == 0);
	json_object_set_new(own, "files", json_true());
	CHECK(reasons(RUNNER("'files':false"), "runner.files") == 1);
	json_object_set_new(own, "files", json_false());
	static const char confined[] = RUNNER("'confinement':true");
	CHECK(reasons(confined, "runner.confinement") == 1);
	json_object_set_new(own, "confinement",
			    json_pack("{s:b, s:{s:b}}", "seccomp", 1, "modules", "process", 1));
	CHECK(reasons(confined, NULL) == 0);
	json_object_set_new(own, "confinement",
			    json_pack("{s:b, s:{s:b}}", "seccomp", 1, "modules", "process", 0));
	CHECK(reasons(confined, "runner.confinement") == 1);
	json_object_set_new(own, "confinement", json_pack("{s:b}", "seccomp", 0));
	CHECK(reasons(confined, "runner.confinement") == 1);
	json_object_set_new(own, "confinement", json_object());
	CHECK(reasons(confined, "runner.confinement") == 1);
	json_object_del(own, "confinement");
#undef A
#undef B
}

UNIT_TEST(a_recipient_of_low_order_is_refused)
{
	/* RFC 7748, section 6.1 and its security considerations: 0, 1, of order 8, p - 1 and p. */
	/* clang-format off */
	static const uint8_t low[][32] = {
		{ 0 }, { 1 },
		{ 0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
		  0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00 },
		{ 0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
		{ 0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f },
	};
	/* clang-format on */
	json_t *kept = json_incref(json_object_get(verified.claims, "cnf"));

	CHECK(reasons("{'version':1}", NULL) == 0);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(low); i++) {
		json_object_set_new(verified.claims, "cnf",
				    json_pack("{s:{s:s, s:s, s:o}}", "jwk", "kty", "OKP", "crv",
					      "X25519", "x", sgpu_json_from_bytes(low[i], 32)));
		CHECK(reasons("{'version':1}", "cnf") == 1);
	}
	json_object_set_new(verified.claims, "cnf", kept);
}

UNIT_TEST(the_runner_is_judged_by_digest_version_debug_modules_and_key)
{
	const char *zeros = "0000000000000000000000000000000000000000000000000000000000000000";
	char text[512];

	snprintf(text, sizeof(text), RUNNER("'digests':['%s']"), zeros);
	CHECK(reasons(text, "runner.digest") == 1);
	CHECK(reasons(RUNNER("'digests':[]"), "runner.digest") == 1);
	CHECK(reasons(RUNNER("'version':'0.1.0'"), NULL) == 0);
	CHECK(reasons(RUNNER("'version':'0.1'"), NULL) == 0);
	CHECK(reasons(RUNNER("'version':'0.2.1'"), "runner.swversion") == 1);
	CHECK(reasons(RUNNER("'version':'0.2.0.1'"), "runner.swversion") == 1);
	CHECK(reasons(RUNNER("'version':'0.10'"), "runner.swversion") == 1);
	CHECK(reasons(RUNNER("'debug':false"), "dbgstat") == 1);
	CHECK(reasons(RUNNER("'debug':true"), NULL) == 0);
	CHECK(reasons(RUNNER("'process':true"), NULL) == 0);
	CHECK(reasons(RUNNER("'modules':false"), NULL) == 0);
	json_object_set_new(own_of("runner"), "modules", json_true());
	json_object_set_new(own_of("runner"), "measured", json_string("file"));
	CHECK(reasons(RUNNER("'modules':false"), "runner.modules") == 1);
	CHECK(reasons(RUNNER("'modules':true"), NULL) == 0);
	CHECK(reasons(RUNNER("'process':true"), "runner.measured") == 1);
	json_object_set_new(own_of("runner"), "modules", json_false());
	json_object_set_new(own_of("runner"), "measured", json_string("process"));
	CHECK(reasons(RUNNER("'key':'ephemeral'"), NULL) == 0);
	json_object_set_new(own_of("runner"), "key", json_string("stored"));
	CHECK(reasons(RUNNER("'key':'ephemeral'"), "runner.key") == 1);
	CHECK(reasons(RUNNER("'key':'stored'"), NULL) == 0);
	json_object_set_new(own_of("runner"), "key", json_string("ephemeral"));
	CHECK(reasons(RUNNER("'key':'stored'"), NULL) == 0);
}

UNIT_TEST(debugging_is_off_only_when_all_that_can_debug_say_so)
{
	const char *policy = RUNNER("'debug':false");
	json_t *runner = json_object_get(json_object_get(verified.claims, "submods"), "runner");

	json_object_set_new(verified.claims, "dbgstat", json_string("disabled"));
	CHECK(reasons(policy, "dbgstat") == 1);
	json_object_set_new(runner, "dbgstat", json_string("disabled"));
	CHECK(reasons(policy, NULL) == 0);
	verified.tee_verified = true;
	verified.tee.debug = true;
	CHECK(reasons(policy, "tee.debug") == 1);
	verified.tee.debug = false;
	CHECK(reasons(policy, NULL) == 0);
	verified.tee_verified = false;
	json_object_set_new(own_of("cpu"), "confidential", json_string("devtools"));
	CHECK(reasons(policy, "device.confidential") == 1);
	json_object_del(own_of("cpu"), "confidential");
	json_object_set_new(runner, "dbgstat", json_string("enabled"));
	json_object_set_new(verified.claims, "dbgstat", json_string("enabled"));
}

UNIT_TEST(the_device_is_judged_by_code_driver_mode_and_agreement)
{
	json_t *own = own_of("cpu");
	char text[512], hex[65];
	uint8_t digest[32] = { 7 };

	CHECK(reasons(DEVICE("'driver':'1'"), "device.driver") == 1);
	json_object_set_new(own, "driver", json_string("driver 580.159.04, CUDA 13.0"));
	CHECK(reasons(DEVICE("'driver':'580.159.04'"), NULL) == 0);
	CHECK(reasons(DEVICE("'driver':'580.65'"), NULL) == 0);
	CHECK(reasons(DEVICE("'driver':'580.160'"), "device.driver") == 1);
	json_object_del(own, "driver");
	CHECK(reasons(DEVICE("'confidential':true"), "device.confidential") == 1);
	json_object_set_new(own, "confidential", json_string("on"));
	CHECK(reasons(DEVICE("'confidential':true"), NULL) == 0);
	json_object_del(own, "confidential");
	CHECK(reasons(DEVICE("'agreement':true"), "device.agreed") == 1);
	CHECK(reasons(DEVICE("'preemption':false"), NULL) == 0);
	json_object_set_new(own, "preemption", json_true());
	CHECK(reasons(DEVICE("'preemption':false"), "device.preemption") == 1);
	json_object_set_new(own, "preemption", json_false());
	sgpu_hex_encode(digest, sizeof(digest), hex);
	snprintf(text, sizeof(text), DEVICE("'code':['%s']"), hex);
	/* The CPU device's code is the runner's, a GPU has some of its own. */
	json_t *submods = json_object_get(verified.claims, "submods"),
	       *cpu = json_incref(json_object_get(submods, "cpu"));
	CHECK(reasons(text, NULL) == 0);
	json_object_del(submods, "cpu");
	json_object_set(submods, "gpu-0", cpu);
	/* One that names none may have any, so that no list accepts it, and none does. */
	static const char open_gpu[] = "'confidential':false,'agreement':false";
	const char *const lists[] = {
		"",
		"'code':[],",
		"'code':['",
	};
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(lists); i++) {
		snprintf(text, sizeof(text), DEVICE("%s%s%s%s"), lists[i], i == 2 ? hex : "",
			 i == 2 ? "']," : "", open_gpu);
		CHECK(reasons(text, "device.code") == 1);
	}
	snprintf(text, sizeof(text), DEVICE("'code':['%s']"), hex);
	CHECK(reasons(DEVICE("'code':'any','confidential':false,'agreement':false"), NULL) == 0);
	CHECK(reasons(DEVICE("'code':'any','agreement':false"), "device.confidential") == 1);
	CHECK(reasons(DEVICE("'code':'any','confidential':false"), "device.agreed") == 1);
	CHECK(reasons("{'version':1}", "device.code") == 3);
	json_object_set_new(own, "confidential", json_string("on"));
	CHECK(reasons(DEVICE("'code':'any'"), NULL) == 0);
	json_object_set_new(own, "preemption", json_true());
	CHECK(reasons(DEVICE("'code':'any'"), "device.preemption") == 1);
	CHECK(reasons(DEVICE("'code':'any','preemption':true"), NULL) == 0);
	json_object_set_new(own, "preemption", json_false());
	json_object_del(own, "confidential");
	json_object_del(submods, "gpu-0");
	json_object_set(submods, "cpu", cpu);
	json_object_set_new(own, "code",
			    json_pack("[{s:s, s:i, s:o}]", "name", "kernels", "size", 1, "digest",
				      sgpu_json_from_bytes(digest, sizeof(digest))));
	CHECK(reasons(text, NULL) == 0);
	digest[0] = 8;
	json_array_append_new(json_object_get(own, "code"),
			      json_pack("{s:s, s:i, s:o}", "name", "other", "size", 1, "digest",
					sgpu_json_from_bytes(digest, sizeof(digest))));
	CHECK(reasons(text, "device.code other") == 1);
	json_object_set_new(own, "code", json_array());
	CHECK(reasons(DEVICE("'code':[]"), NULL) == 0);
	json_object_del(submods, "cpu");
	CHECK(reasons(DEVICE(""), "device") == 1);
	json_object_set_new(submods, "cpu", cpu);
}

UNIT_TEST(a_platform_is_believed_for_its_hardware_only_with_a_verified_report)
{
	json_t *platform = json_object_get(own_of(NULL), "platform");

	json_object_set_new(platform, "kind", json_string("plain"));
	CHECK(reasons(PLATFORM("'at_least':'plain'"), NULL) == 0);
	CHECK(reasons(PLATFORM("'at_least':'gramine-direct'"), "platform.kind") == 1);
	CHECK(reasons(PLATFORM("'at_least':'snp'"), "platform.kind") == 2);
	json_object_set_new(platform, "kind", json_string("tdx"));
	CHECK(reasons(PLATFORM("'at_least':'plain'"), NULL) == 0);
	CHECK(reasons(PLATFORM("'at_least':'snp'"), "tee") == 1);
	CHECK(reasons(PLATFORM("'at_least':'snp','report':false"), NULL) == 0);
	CHECK(reasons(PLATFORM("'report':true"), "tee") == 1);
	verified.tee_present = true;
	CHECK(reasons(PLATFORM("'report':true"), "tee") == 1);
	verified.tee_verified = true;
	verified.tee.kind = SGPU_PLATFORM_TDX;
	verified.tee.tcb = 0x0304000000000102;
	memset(verified.tee.measurement, 0xab, sizeof(verified.tee.measurement));
	/* A report proves a guest; which one is for the policy to say. */
	CHECK(reasons(PLATFORM("'at_least':'snp'"), "tee.measurement") == 5);
	CHECK(reasons(PLATFORM("'at_least':'snp'," ANY_GUEST), NULL) == 0);
	CHECK(reasons(PLATFORM("'tcb':'0304000000000102'," ANY_GUEST), NULL) == 0);
	CHECK(reasons(PLATFORM("'tcb':'0303000000000102'," ANY_GUEST), NULL) == 0);
	/* Each byte counts by itself: a larger one does not make up for a smaller. */
	CHECK(reasons(PLATFORM("'tcb':'0203000000000103'," ANY_GUEST), "tee.tcb") == 1);
	char text[512], hex[97];
	sgpu_hex_encode(verified.tee.measurement, 48, hex);
	snprintf(text, sizeof(text), PLATFORM(ANY_GUEST ",'measurements':['%s']"), hex);
	CHECK(reasons(text, NULL) == 0);
	verified.tee.measurement[47] = 0;
	CHECK(reasons(text, "tee.measurement") == 1);
	verified.tee.rtmr[2][0] = 0xcd;
	sgpu_hex_encode(verified.tee.rtmr[2], 48, hex);
	snprintf(text, sizeof(text), PLATFORM(ANY_GUEST ",'rtmr2':['%s']"), hex);
	CHECK(reasons(text, NULL) == 0);
	verified.tee.rtmr[2][47] = 1;
	CHECK(reasons(text, "tee.rtmr2") == 1);
	CHECK(reasons(PLATFORM(ANY_GUEST ",'rtmr3':[]"), "tee.rtmr3") == 1);
	verified.tee_verified = verified.tee_present = false;
	json_object_set_new(platform, "kind", json_string("plain"));
	CHECK(reasons(text, "tee") == 1);
}

UNIT_TEST(lower_levels_and_migration_are_refused_unless_the_policy_allows_them)
{
	static const char snp[] = PLATFORM("'report':true,'measurements':'any'");
	static const char tdx[] = PLATFORM(ANY_GUEST);

	verified.tee_verified = verified.tee_present = true;
	verified.tee.kind = SGPU_PLATFORM_SNP;
	CHECK(reasons(snp, NULL) == 0);
	verified.tee.vmpl = 2;
	CHECK(reasons(snp, "tee.vmpl") == 1);
	CHECK(reasons(PLATFORM("'vmpl':1,'measurements':'any'"), "tee.vmpl") == 1);
	CHECK(reasons(PLATFORM("'vmpl':2,'measurements':'any'"), NULL) == 0);
	verified.tee.vmpl = 0;
	verified.tee.migratable = true;
	CHECK(reasons(snp, "tee.migratable") == 1);
	CHECK(reasons(PLATFORM("'migration':false,'measurements':'any'"), "tee.migratable") == 1);
	CHECK(reasons(PLATFORM("'migration':true,'measurements':'any'"), NULL) == 0);
	verified.tee.migratable = false;
	CHECK(reasons(PLATFORM("'measurements':'any','rtmr2':[]"), "tee.rtmr2") == 1);
	CHECK(reasons(tdx, NULL) == 0);
	verified.tee.kind = SGPU_PLATFORM_TDX;
	verified.tee.sept_ve = true;
	CHECK(reasons(tdx, "tee.sept_ve") == 1);
	CHECK(reasons(PLATFORM("'sept_ve':false," ANY_GUEST), "tee.sept_ve") == 1);
	CHECK(reasons(PLATFORM("'sept_ve':true," ANY_GUEST), NULL) == 0);
	verified.tee.sept_ve = false;
	CHECK(reasons(tdx, NULL) == 0);
	verified.tee_verified = verified.tee_present = false;
}

UNIT_TEST(any_member_about_hardware_demands_a_report)
{
	/* clang-format off */
	static const char *const members[] = {
		"'report':true", "'measurements':'any'", "'rtmr0':'any'", "'rtmr1':'any'",
		"'rtmr2':'any'", "'rtmr3':'any'", "'tcb':'0000000000000000'", "'vmpl':3",
		"'migration':false", "'migration':true", "'sept_ve':false", "'sept_ve':true",
	};
	/* clang-format on */
	char text[256];

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(members); i++) {
		snprintf(text, sizeof(text), PLATFORM("%s"), members[i]);
		CHECK(reasons(text, "tee") == 1);
		snprintf(text, sizeof(text), PLATFORM("'report':false,%s"), members[i]);
		CHECK(refused(text));
	}
}

UNIT_TEST(machine_and_age_are_judged)
{
	const char *zeros = "0000000000000000000000000000000000000000000000000000000000000000";
	char text[512];

	snprintf(text, sizeof(text), "{'version':1,'machines':['%s']}", zeros);
	CHECK(reasons(text, "ueid") == 1);
	CHECK(reasons("{'version':1,'certificate_age':5}", NULL) == 0);
	CHECK(reasons("{'version':1,'certificate_age':4}", "certificate age") == 1);
	CHECK(reasons("{'version':1}", NULL) == 0);
	/* All that is wrong is listed. */
	CHECK(strictly("{'version':1,'runner':{'digests':[],'version':'9','debug':false},'device':{"
		       "'confidential':true},'platform':{'at_least':'snp'},'machines':[],'"
		       "certificate_age':0}",
		       NULL) == 10);
}

UNIT_TEST(policies_are_read_strictly)
{
	struct sgpu_error error = { 0 };
	json_t *policy = NULL;

	CHECK(refused("") && refused("[]") && refused("{}") && refused("{'version':2}") &&
	      refused("{'version':'1'}"));
	CHECK(refused("{'version':1,'version':1}") && refused("{'version':1,'runer':{}}"));
	CHECK(refused(RUNNER("'digest':[]")) && refused("{'version':1,'runner':[]}"));
	CHECK(refused(RUNNER("'digests':['00']")));
	CHECK(refused(RUNNER("'digests':[1]")));
	CHECK(refused(RUNNER(
		"'digests':['000000000000000000000000000000000000000000000000000000000000000A']")));
	CHECK(refused(RUNNER("'debug':'off'")) && refused(RUNNER("'key':'none'")));
	CHECK(refused(RUNNER("'version':'x'")) && refused(RUNNER("'version':'1.'")));
	CHECK(refused(RUNNER("'digests':'all'")) && refused(RUNNER("'owners':'all'")) &&
	      refused(RUNNER("'owners':['AAAA']")) && refused(RUNNER("'owners':[1]")) &&
	      refused("{'version':1,'machines':'any'}") && refused(RUNNER("'sessions':'all'")) &&
	      refused(RUNNER("'confinement':'all'")));
	CHECK(refused(DEVICE("'driver':'580,65'")) && refused(DEVICE("'driver':'580..65'")));
	CHECK(refused(PLATFORM("'vmpl':4")) && refused(PLATFORM("'report':false,'rtmr3':[]")));
	CHECK(refused(PLATFORM("'at_least':'sev'")));
	CHECK(refused(PLATFORM("'tcb':'12'")));
	CHECK(refused(PLATFORM("'report':false,'tcb':'0000000000000000'")));
	CHECK(refused("{'version':1,'certificate_age':-1}") &&
	      refused("{'version':1,'machines':['']}"));
	CHECK(parse("{\n  'version': 1,\n}", &policy, &error) == SGPU_EINVALID &&
	      strstr(error.text, "p.json:3:"));
	char *huge = malloc((1 << 18) + 2);
	memset(huge, ' ', (1 << 18) + 1);
	huge[(1 << 18) + 1] = '\0';
	CHECK(refused(huge));
	free(huge);
}

UNIT_TEST(the_result_is_an_ear_that_says_what_was_judged)
{
	json_t *policy = NULL;
	struct sgpu_appraisal appraisal;
	char *text = policy_of_claims();

	REQUIRE(text && !sgpu_policy_parse(text, strlen(text), "p", &policy, NULL) &&
		!sgpu_appraise(policy, &verified, NOW, &appraisal, NULL));
	const json_t *runner = json_object_get(json_object_get(appraisal.ear, "submods"), "runner");
	const json_t *vector = json_object_get(runner, "ear_trustworthiness_vector");
	CHECK(!strcmp(json_string_value(json_object_get(appraisal.ear, "eat_profile")),
		      "tag:ietf.org,2026:rats/ear#03"));
	CHECK(json_integer_value(json_object_get(appraisal.ear, "iat")) == NOW);
	CHECK(json_equal(json_object_get(appraisal.ear, "eat_nonce"),
			 json_object_get(verified.claims, "eat_nonce")));
	CHECK(json_string_value(
		json_object_get(json_object_get(appraisal.ear, "ear_verifier_id"), "build")));
	CHECK(json_object_get(json_object_get(appraisal.ear, "submods"), "cpu"));
	CHECK(json_integer_value(json_object_get(vector, "executables")) == 2);
	CHECK(json_integer_value(json_object_get(vector, "instance-identity")) == 2);
	/* A plain machine is what it says of itself: nothing of its hardware was proved. */
	CHECK(json_integer_value(json_object_get(vector, "runtime-opaque")) == 32);
	CHECK(json_integer_value(json_object_get(vector, "hardware")) == 0);
	CHECK(!strcmp(json_string_value(json_object_get(runner, "ear_status")), "warning"));
	CHECK(!strncmp(json_string_value(json_array_get(
			       json_object_get(runner, "ear_appraisal_policy_ids"), 0)),
		       "tag:sgpu.dev", 12));
	sgpu_appraisal_clear(&appraisal);
	struct sgpu_quote_result none = { .claims = NULL };
	CHECK(sgpu_appraise(policy, &none, NOW, &appraisal, NULL) == SGPU_EUSAGE &&
	      !appraisal.accepted);
	/* Nor is one that was signed and did not verify otherwise. */
	none.claims = verified.claims;
	CHECK(sgpu_appraise(policy, &none, NOW, &appraisal, NULL) == SGPU_EUSAGE &&
	      !appraisal.accepted);
	json_decref(policy);
	free(text);
}

int main(void)
{
	setenv("SGPU_TSM_ROOT", "/nonexistent", 1);
	setenv("SGPU_GRAMINE_ROOT", "/nonexistent", 1);
	if (world_make(&w) || sgpu_key_generate(SGPU_KEY_X25519, &recipient, NULL) ||
	    sgpu_key_generate(SGPU_KEY_X25519, &owner, NULL) ||
	    sgpu_device_open("cpu", &(struct sgpu_device_config){ .jobs = 1 }, &device, NULL) ||
	    quote_and_verify()) {
		printf("Bail out! cannot make a quote\n");
		return 1;
	}
	/* The tests change what the machine says of itself: they are about the policy. */
	json_object_set_new(json_object_get(own_of(NULL), "platform"), "kind",
			    json_string("plain"));
	UNIT_RUN(a_policy_from_a_quote_accepts_that_quote);
	UNIT_RUN(a_policy_is_whole_or_not_made_when_memory_ends);
	UNIT_RUN(what_a_policy_does_not_name_it_refuses);
	UNIT_RUN(sessions_of_owners_are_accepted_with_the_owners_or_by_name);
	UNIT_RUN(the_runner_is_judged_by_owners_files_and_confinement);
	UNIT_RUN(a_recipient_of_low_order_is_refused);
	UNIT_RUN(the_runner_is_judged_by_digest_version_debug_modules_and_key);
	UNIT_RUN(debugging_is_off_only_when_all_that_can_debug_say_so);
	UNIT_RUN(the_device_is_judged_by_code_driver_mode_and_agreement);
	UNIT_RUN(a_platform_is_believed_for_its_hardware_only_with_a_verified_report);
	UNIT_RUN(lower_levels_and_migration_are_refused_unless_the_policy_allows_them);
	UNIT_RUN(any_member_about_hardware_demands_a_report);
	UNIT_RUN(machine_and_age_are_judged);
	UNIT_RUN(policies_are_read_strictly);
	UNIT_RUN(the_result_is_an_ear_that_says_what_was_judged);
	sgpu_quote_result_clear(&verified);
	sgpu_device_close(&device);
	world_free(&w);
	return unit_done();
}
