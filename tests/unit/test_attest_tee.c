/* SPDX-License-Identifier: Apache-2.0
 *
 * TSM records: their form, and published ones of real processors.
 */
#include "tee_maker.h"

/* A published record, in tests/vectors. */
struct vector {
	json_t *document;
	struct sgpu_chain roots, certificates;
	char *record;
};

static bool load(const char *path, struct vector *vector)
{
	memset(vector, 0, sizeof(*vector));
	vector->document = json_load_file(path, 0, NULL);
	if (!vector->document) {
		return false;
	}
	const char *root = json_string_value(json_object_get(vector->document, "root"));
	const char *given = json_string_value(json_object_get(vector->document, "certificates"));
	vector->record = json_dumps(json_object_get(vector->document, "record"), JSON_COMPACT);
	tee_need(root && given && vector->record &&
			 !sgpu_chain_parse(root, strlen(root), path, &vector->roots, NULL),
		 path);
	tee_need(!*given ||
			 !sgpu_chain_parse(given, strlen(given), path, &vector->certificates, NULL),
		 path);
	return true;
}

static void unload(struct vector *vector)
{
	sgpu_chain_clear(&vector->roots);
	sgpu_chain_clear(&vector->certificates);
	free(vector->record);
	json_decref(vector->document);
}

static struct sgpu_tee_report result;
static struct sgpu_error error;

static int verify_at(const struct vector *vector, int64_t now)
{
	memset(&error, 0, sizeof(error));
	return sgpu_tsm_verify(
		vector->record, strlen(vector->record),
		&(struct sgpu_quote_checks){ .tee_certificates = &vector->certificates,
					     .tee_roots = &vector->roots,
					     .now = now },
		&result, &error);
}

enum { REAL_NOW = 1795000000 /* November 2026 */ };

static bool holds(const uint8_t *field, size_t size, const char *hex)
{
	char text[129];

	sgpu_hex_encode(field, size, text);
	return !strcmp(text, hex);
}

UNIT_TEST(a_report_of_a_milan_processor_verifies)
{
	struct vector vector;

	if (!load("tests/vectors/snp-milan.json", &vector)) {
		SKIP("tests/vectors/snp-milan.json: not run in the source tree");
	}
	CHECK(verify_at(&vector, REAL_NOW) == SGPU_OK);
	CHECK(result.kind == SGPU_PLATFORM_SNP && result.debug);
	CHECK(verify_at(&vector, REAL_NOW + INT64_C(20) * 365 * 86400) == SGPU_EEXPIRED);
	sgpu_chain_clear(&vector.certificates);
	CHECK(verify_at(&vector, REAL_NOW) == SGPU_ECHAIN);
	unload(&vector);
}

UNIT_TEST(a_tdx_quote_of_a_production_guest_verifies)
{
	struct vector vector;

	if (!load("tests/vectors/tdx-v4.json", &vector)) {
		SKIP("tests/vectors/tdx-v4.json: not run in the source tree");
	}
	CHECK(verify_at(&vector, REAL_NOW) == SGPU_OK);
	CHECK(result.kind == SGPU_PLATFORM_TDX && result.version == 4 && !result.debug);
	CHECK(!result.migratable && !result.vmpl);
	CHECK(holds(
		result.measurement, 48,
		"7357a10d2e2724dffe68813e3cc4cfcde6814d749f2fb62e3953e54f6e0b50a219786afe2cd478f6"
		"84b52c61837e1114"));
	CHECK(holds(result.rtmr[2], 48,
		    "faf666cc4672d4d0886cee8dc310276f9f21ddf26f11aa1252fe59ce61916948211bc249ea9b54"
		    "c2be03"
		    "a35b4ba9a952"));
	CHECK(verify_at(&vector, REAL_NOW - INT64_C(3) * 365 * 86400) == SGPU_EEXPIRED);
	unload(&vector);
}

UNIT_TEST(roots_of_one_maker_do_not_vouch_for_the_other)
{
	struct vector milan, tdx;

	if (!load("tests/vectors/snp-milan.json", &milan)) {
		SKIP("tests/vectors/snp-milan.json: not run in the source tree");
	}
	REQUIRE(load("tests/vectors/tdx-v4.json", &tdx));
	struct sgpu_chain saved = milan.roots;
	milan.roots = tdx.roots;
	CHECK(verify_at(&milan, REAL_NOW) == SGPU_ECHAIN);
	tdx.roots = saved;
	CHECK(verify_at(&tdx, REAL_NOW) == SGPU_ECHAIN);
	unload(&milan);
	unload(&tdx);
}

UNIT_TEST(a_record_of_another_form_is_refused)
{
	static const char *const records[] = {
		"",
		"[]",
		"{}",
		"{\"outblob\":\"AA\"}",
		"{\"outblob\":\"AA\",\"provider\":1}",
		"{\"outblob\":\"AA\",\"provider\":\"arm_cca_guest\\n\"}",
		"{\"outblob\":\"AA\",\"provider\":\"sev_guest\\n\",\"more\":1}",
		"{\"outblob\":\"A\",\"provider\":\"sev_guest\\n\"}",
		"{\"outblob\":\"AA==\",\"provider\":\"sev_guest\\n\"}",
		"{\"outblob\":[],\"provider\":\"sev_guest\\n\"}",
		"{\"outblob\":\"\",\"provider\":\"sev_guest\\n\"}",
		"{\"outblob\":\"\",\"provider\":\"tdx_guest\\n\"}",
		"{\"auxblob\":\"!\",\"outblob\":\"AA\",\"provider\":\"sev_guest\\n\"}",
		"{\"outblob\":\"AA\",\"provider\":\"sev_guest\\n\\n\"}",
		"{\"outblob\":\"AA\",\"provider\":\"sev_guests\"}",
	};
	const struct sgpu_chain none = { 0 };
	const struct sgpu_quote_checks checks = { .tee_roots = &none, .now = TEE_NOW };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(records); i++) {
		memset(&error, 0, sizeof(error));
		memset(&result, 0xff, sizeof(result));
		CHECK(sgpu_tsm_verify(records[i], strlen(records[i]), &checks, &result, &error) ==
		      SGPU_EINVALID);
		CHECK(error.text[0] && result.kind == SGPU_PLATFORM_PLAIN);
		CHECK(!strstr(records[i], "arm_cca_guest") ||
		      strstr(error.text, "'arm_cca_guest'"));
	}
}

int main(void)
{
	UNIT_RUN(a_report_of_a_milan_processor_verifies);
	UNIT_RUN(a_tdx_quote_of_a_production_guest_verifies);
	UNIT_RUN(roots_of_one_maker_do_not_vouch_for_the_other);
	UNIT_RUN(a_record_of_another_form_is_refused);
	return unit_done();
}
