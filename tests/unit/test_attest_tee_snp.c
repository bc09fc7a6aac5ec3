/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of SEV-SNP, of the right layout and signed with keys of our own: what verifies, and that
 * nothing else does.
 */
#include "tee_maker.h"

enum { REPORT = 0x4a0, TABLE_MAX = 1 << 15 };

static const uint8_t ark_guid[16] = { 0xc0, 0xb4, 0x06, 0xa4, 0xa8, 0x03, 0x49, 0x52,
				      0x97, 0x43, 0x3f, 0xb6, 0x01, 0x4c, 0xd0, 0xae };
static const uint8_t ask_guid[16] = { 0x4a, 0xb7, 0xb3, 0x79, 0xbb, 0xac, 0x4f, 0xe4,
				      0xa0, 0x2f, 0x05, 0xae, 0xf3, 0x27, 0xc7, 0x82 };
static const uint8_t vcek_guid[16] = { 0x63, 0xda, 0x75, 0x8d, 0xe6, 0x64, 0x45, 0x64,
				       0xad, 0xc5, 0xf4, 0xb9, 0x3b, 0xe8, 0xac, 0xcd };
static const uint8_t vlek_guid[16] = { 0xa8, 0x07, 0x4b, 0xc2, 0xa2, 0x5a, 0x48, 0x3e,
				       0xaa, 0xe6, 0x39, 0xc0, 0x45, 0xa0, 0xb8, 0xa1 };
static const uint8_t other_guid[16] = { 1, 2, 3 };
static const uint8_t milan_tcb[8] = { 3, 0, 0, 0, 0, 0, 20, 209 };
static const uint8_t turin_tcb[8] = { 1, 2, 0, 4, 0, 0, 0, 73 };

static struct tee_identity ark, ask, vcek, vlek, turin;
static struct sgpu_chain roots;
static uint8_t chip[64];

static void add_part(X509 *certificate, const char *number, uint8_t value)
{
	const uint8_t low[3] = { 2, 1, value }, high[4] = { 2, 2, 0, value };

	tee_add_raw(certificate, number, value < 0x80 ? low : high,
		    value < 0x80 ? sizeof(low) : sizeof(high));
}

static struct tee_identity make_leaf(const uint8_t tcb[8], size_t chip_size, bool is_turin)
{
	struct tee_identity leaf =
		tee_start(chip_size ? "SEV-VCEK" : "SEV-VLEK", "P-384", &ask, false);

	add_part(leaf.certificate, "1.3.6.1.4.1.3704.1.3.1", tcb[is_turin ? 1 : 0]);
	add_part(leaf.certificate, "1.3.6.1.4.1.3704.1.3.2", tcb[is_turin ? 2 : 1]);
	add_part(leaf.certificate, "1.3.6.1.4.1.3704.1.3.3", tcb[is_turin ? 3 : 6]);
	add_part(leaf.certificate, "1.3.6.1.4.1.3704.1.3.8", tcb[7]);
	if (is_turin) {
		add_part(leaf.certificate, "1.3.6.1.4.1.3704.1.3.9", tcb[0]);
	}
	if (chip_size) {
		tee_add_raw(leaf.certificate, "1.3.6.1.4.1.3704.1.4", chip, chip_size);
	}
	tee_sign(leaf.certificate, ask.key);
	return leaf;
}

static void make_all(void)
{
	for (size_t i = 0; i < sizeof(chip); i++) {
		chip[i] = (uint8_t)(3 * i + 1);
	}
	ark = tee_authority("ARK-Test", "RSA", NULL);
	ask = tee_authority("SEV-Test", "RSA", &ark);
	vcek = make_leaf(milan_tcb, 64, false);
	vlek = make_leaf(milan_tcb, 0, false);
	turin = make_leaf(turin_tcb, 8, true);
	tee_push(&roots, ark.certificate);
}

static void sign_report(uint8_t report[REPORT], EVP_PKEY *key)
{
	uint8_t signature[96];

	tee_ecdsa(key, EVP_sha384(), report, 0x2a0, signature, 48);
	memset(report + 0x2a0, 0, REPORT - 0x2a0);
	for (size_t i = 0; i < 48; i++) {
		report[0x2a0 + i] = signature[47 - i];
		report[0x2a0 + 72 + i] = signature[95 - i];
	}
}

/* kind: 0 VCEK, 1 VLEK. */
static void make_report(uint8_t report[REPORT], unsigned version, unsigned kind,
			const uint8_t tcb[8], EVP_PKEY *key)
{
	memset(report, 0, REPORT);
	tee_put32(report, version);
	report[0x0a] = 3; /* policy: SMT, and the bit that is always set */
	tee_put32(report + 0x34, 1);
	report[0x48] = (uint8_t)(kind << 2);
	memset(report + 0x50, 0xd1, 64);
	memset(report + 0x90, 0x3e, 48);
	memcpy(report + 0x180, tcb, 8);
	memcpy(report + 0x1a0, chip, tcb == turin_tcb ? 8 : 64);
	sign_report(report, key);
}

/* The table, entry by entry. */
struct table {
	uint8_t data[TABLE_MAX];
	size_t entries, used; /* of how many there is room; bytes */
};

static void table_start(struct table *table, size_t entries)
{
	memset(table, 0, sizeof(*table));
	table->used = (entries + 1) * 24;
}

static void table_add(struct table *table, const uint8_t guid[16], const void *data, size_t size)
{
	uint8_t *entry = table->data + 24 * table->entries++;

	memcpy(entry, guid, 16);
	tee_put32(entry + 16, (uint32_t)table->used);
	tee_put32(entry + 20, (uint32_t)size);
	memcpy(table->data + table->used, data, size);
	table->used += size;
}

static void table_add_certificate(struct table *table, const uint8_t guid[16], X509 *certificate)
{
	size_t size = 0;
	uint8_t *der = tee_der(certificate, &size);

	table_add(table, guid, der, size);
	free(der);
}

static void usual_table(struct table *table, X509 *leaf, const uint8_t guid[16])
{
	table_start(table, 3);
	table_add_certificate(table, ark_guid, ark.certificate);
	table_add_certificate(table, ask_guid, ask.certificate);
	table_add_certificate(table, guid, leaf);
}

static struct table table;
static uint8_t good[REPORT];
static struct sgpu_tee_report result;
static struct sgpu_error error;

static int verify(const uint8_t *report, size_t size)
{
	return tee_verify("sev_guest\n", report, size, table.data, table.used, NULL, &roots,
			  TEE_NOW, &result, &error);
}

/* A good report, but for some bits of one byte, which its signature covers. */
static int verify_with(size_t at, uint8_t bits)
{
	make_report(good, 3, 0, milan_tcb, vcek.key);
	good[at] ^= bits;
	sign_report(good, vcek.key);
	return verify(good, REPORT);
}

UNIT_TEST(versions_2_to_5_verify_and_say_what_they_hold)
{
	for (unsigned version = 2; version <= 5; version++) {
		make_report(good, version, 0, milan_tcb, vcek.key);
		usual_table(&table, vcek.certificate, vcek_guid);
		CHECK(verify(good, REPORT) == SGPU_OK);
		CHECK(result.kind == SGPU_PLATFORM_SNP && result.version == version &&
		      !result.debug);
		CHECK(!memcmp(result.report_data, good + 0x50, 64) &&
		      !memcmp(result.measurement, good + 0x90, 48));
		CHECK(result.tcb == UINT64_C(0xd114000000000003));
	}
}

UNIT_TEST(other_versions_and_algorithms_are_named)
{
	make_report(good, 6, 0, milan_tcb, vcek.key);
	CHECK(verify(good, REPORT) == SGPU_EINVALID && strstr(error.text, "version 6 is unknown"));
	make_report(good, 1, 0, milan_tcb, vcek.key);
	CHECK(verify(good, REPORT) == SGPU_EINVALID && strstr(error.text, "version 1 is unknown"));
	CHECK(verify_with(0x34, 1 ^ 2) == SGPU_EINVALID && strstr(error.text, "algorithm 2"));
	make_report(good, 3, 7, milan_tcb, vcek.key);
	CHECK(verify(good, REPORT) == SGPU_EINVALID && strstr(error.text, "key 7"));
}

UNIT_TEST(a_guest_that_can_be_debugged_or_moved_is_told)
{
	CHECK(verify_with(0x0a, 8) == SGPU_OK && result.debug && !result.migratable);
	CHECK(verify_with(0x0a, 4) == SGPU_OK && !result.debug && result.migratable);
}

UNIT_TEST(a_report_says_which_level_of_the_guest_asked_and_never_the_host)
{
	usual_table(&table, vcek.certificate, vcek_guid);
	for (uint8_t level = 0; level <= 4; level++) {
		const int code = verify_with(0x30, level);

		CHECK(level == 4 ? code == SGPU_EINVALID : code == SGPU_OK && result.vmpl == level);
	}
	tee_put32(good + 0x30, 0xffffffff);
	sign_report(good, vcek.key);
	CHECK(verify(good, REPORT) == SGPU_EINVALID && strstr(error.text, "VMPL"));
}

UNIT_TEST(no_byte_can_be_altered)
{
	uint8_t bad[REPORT];

	make_report(good, 3, 0, milan_tcb, vcek.key);
	for (size_t i = 0; i < REPORT; i += tee_step(37)) {
		memcpy(bad, good, REPORT);
		bad[i] ^= 1;
		int rc = verify(bad, REPORT);
		CHECK(rc == SGPU_EINVALID || rc == SGPU_ESIGNATURE);
		CHECK(result.kind == SGPU_PLATFORM_PLAIN);
	}
}

UNIT_TEST(no_other_length_is_taken)
{
	uint8_t longer[REPORT + 1] = { 0 };

	make_report(good, 3, 0, milan_tcb, vcek.key);
	memcpy(longer, good, REPORT);
	for (size_t size = 0; size < REPORT; size += tee_step(37)) {
		CHECK(verify(good, size) == SGPU_EINVALID);
	}
	CHECK(verify(longer, sizeof(longer)) == SGPU_EINVALID);
}

UNIT_TEST(a_signature_out_of_range_is_refused)
{
	make_report(good, 3, 0, milan_tcb, vcek.key);
	good[0x2a0 + 60] = 1;
	CHECK(verify(good, REPORT) == SGPU_ESIGNATURE);
	memset(good + 0x2a0, 0, 144);
	CHECK(verify(good, REPORT) == SGPU_ESIGNATURE);
}

UNIT_TEST(the_certificate_is_for_this_security_version_and_chip)
{
	uint8_t tcb[8];

	usual_table(&table, vcek.certificate, vcek_guid);
	for (size_t i = 0; i < 8; i++) {
		memcpy(tcb, milan_tcb, 8);
		tcb[i]++;
		make_report(good, 3, 0, tcb, vcek.key);
		CHECK(verify(good, REPORT) == SGPU_EBINDING);
	}
	CHECK(verify_with(0x1a0 + 63, 1) == SGPU_EBINDING && strstr(error.text, "another chip"));
}

UNIT_TEST(turins_layout_is_known)
{
	usual_table(&table, turin.certificate, vcek_guid);
	make_report(good, 5, 0, turin_tcb, turin.key);
	CHECK(verify(good, REPORT) == SGPU_OK);
	good[0x1a0 + 8] = 1;
	sign_report(good, turin.key);
	CHECK(verify(good, REPORT) == SGPU_EBINDING);
	make_report(good, 5, 0, milan_tcb, turin.key);
	CHECK(verify(good, REPORT) == SGPU_EBINDING);
}

UNIT_TEST(a_vlek_signs_when_the_report_says_so)
{
	usual_table(&table, vlek.certificate, vlek_guid);
	make_report(good, 3, 1, milan_tcb, vlek.key);
	CHECK(verify(good, REPORT) == SGPU_OK);
	make_report(good, 3, 0, milan_tcb, vlek.key);
	CHECK(verify(good, REPORT) == SGPU_EBINDING && strstr(error.text, "names no chip"));
}

UNIT_TEST(certificates_come_from_files_too)
{
	struct sgpu_chain given = { 0 };

	make_report(good, 3, 0, milan_tcb, vcek.key);
	tee_push(&given, ask.certificate);
	tee_push(&given, vcek.certificate);
	CHECK(tee_verify("sev_guest", good, REPORT, "", 0, &given, &roots, TEE_NOW, &result,
			 &error) == SGPU_OK);
	CHECK(tee_verify("sev_guest", good, REPORT, "", 0, NULL, &roots, TEE_NOW, &result,
			 &error) == SGPU_ECHAIN);
	CHECK(strstr(error.text, "no VCEK") && error.hint[0]);
	sgpu_chain_clear(&given);
	tee_push(&given, vcek.certificate);
	CHECK(tee_verify("sev_guest", good, REPORT, "", 0, &given, &roots, TEE_NOW, &result,
			 &error) == SGPU_ECHAIN);
	sgpu_chain_clear(&given);
}

UNIT_TEST(a_table_in_pem_with_other_entries_is_read)
{
	X509 *const certificates[] = { ask.certificate, vcek.certificate };

	make_report(good, 3, 0, milan_tcb, vcek.key);
	table_start(&table, 3);
	table_add(&table, other_guid, "anything", 8);
	for (size_t i = 0; i < 2; i++) {
		size_t size = 0;
		char *pem = tee_pem(&certificates[i], 1, &size);

		table_add(&table, i ? vcek_guid : ask_guid, pem, size);
		free(pem);
	}
	CHECK(verify(good, REPORT) == SGPU_OK);
}

UNIT_TEST(a_hostile_table_is_refused)
{
	make_report(good, 3, 0, milan_tcb, vcek.key);
	for (size_t size = 0; size < 4 * 24; size += tee_step(7)) {
		usual_table(&table, vcek.certificate, vcek_guid);
		table.used = size;
		CHECK(verify(good, REPORT) == (size ? SGPU_EINVALID : SGPU_ECHAIN));
	}
	usual_table(&table, vcek.certificate, vcek_guid);
	tee_put32(table.data + 16, 0xffffffff);
	CHECK(verify(good, REPORT) == SGPU_EINVALID && strstr(error.text, "outside"));
	usual_table(&table, vcek.certificate, vcek_guid);
	tee_put32(table.data + 20, 0xffffffff);
	CHECK(verify(good, REPORT) == SGPU_EINVALID && strstr(error.text, "outside"));
	table_start(&table, 2);
	table_add(&table, ask_guid, "\x30\x82", 2);
	table_add_certificate(&table, vcek_guid, vcek.certificate);
	CHECK(verify(good, REPORT) == SGPU_ECHAIN);
	table_start(&table, 2);
	table_add_certificate(&table, ask_guid, ask.certificate);
	table_add(&table, vcek_guid, "\x30\x82", 2);
	CHECK(verify(good, REPORT) == SGPU_ECHAIN && strstr(error.text, "no VCEK"));
	table_start(&table, 9);
	for (size_t i = 0; i < 9; i++) {
		table_add(&table, other_guid, "x", 1);
	}
	CHECK(verify(good, REPORT) == SGPU_EINVALID && strstr(error.text, "more than 8"));
}

UNIT_TEST(a_chain_to_another_root_is_refused)
{
	struct tee_identity other = tee_authority("ARK-Test", "RSA", NULL);
	struct sgpu_chain wrong = { 0 }, none = { 0 };

	usual_table(&table, vcek.certificate, vcek_guid);
	make_report(good, 3, 0, milan_tcb, vcek.key);
	tee_push(&wrong, other.certificate);
	CHECK(tee_verify("sev_guest", good, REPORT, table.data, table.used, NULL, &wrong, TEE_NOW,
			 &result, &error) == SGPU_ECHAIN);
	CHECK(tee_verify("sev_guest", good, REPORT, table.data, table.used, NULL, &none, TEE_NOW,
			 &result, &error) == SGPU_ECHAIN);
	/* An intermediate is no root, even where somebody put it among them. */
	tee_push(&none, ask.certificate);
	CHECK(tee_verify("sev_guest", good, REPORT, "", 0, NULL, &none, TEE_NOW, &result, &error) ==
	      SGPU_ECHAIN);
	sgpu_chain_clear(&wrong);
	sgpu_chain_clear(&none);
	tee_free(&other);
}

UNIT_TEST(a_leaf_of_somebody_else_is_refused)
{
	struct tee_identity stranger = tee_authority("SEV-Test", "RSA", NULL), saved = ask;

	make_report(good, 3, 0, milan_tcb, vcek.key);
	ask = stranger;
	struct tee_identity leaf = make_leaf(milan_tcb, 64, false);
	ask = saved;
	usual_table(&table, leaf.certificate, vcek_guid);
	CHECK(verify(good, REPORT) == SGPU_ESIGNATURE);
	make_report(good, 3, 0, milan_tcb, leaf.key);
	CHECK(verify(good, REPORT) == SGPU_ECHAIN);
	tee_free(&leaf);
	tee_free(&stranger);
}

UNIT_TEST(what_is_no_authority_certifies_nothing)
{
	struct tee_identity saved = ask;

	/* Whoever has one chip's key could otherwise make certificates for any. */
	ask = vlek;
	struct tee_identity leaf = make_leaf(milan_tcb, 64, false);
	ask = saved;
	make_report(good, 3, 0, milan_tcb, leaf.key);
	table_start(&table, 4);
	table_add_certificate(&table, ark_guid, ark.certificate);
	table_add_certificate(&table, ask_guid, ask.certificate);
	table_add_certificate(&table, ask_guid, vlek.certificate);
	table_add_certificate(&table, vcek_guid, leaf.certificate);
	CHECK(verify(good, REPORT) == SGPU_ECHAIN);
	tee_free(&leaf);
}

UNIT_TEST(certificates_out_of_their_time_are_expired)
{
	usual_table(&table, vcek.certificate, vcek_guid);
	make_report(good, 3, 0, milan_tcb, vcek.key);
	CHECK(tee_verify("sev_guest", good, REPORT, table.data, table.used, NULL, &roots,
			 TEE_TO + 1, &result, &error) == SGPU_EEXPIRED);
	CHECK(tee_verify("sev_guest", good, REPORT, table.data, table.used, NULL, &roots,
			 TEE_FROM - 1, &result, &error) == SGPU_EEXPIRED);
}

int main(void)
{
	make_all();
	UNIT_RUN(versions_2_to_5_verify_and_say_what_they_hold);
	UNIT_RUN(other_versions_and_algorithms_are_named);
	UNIT_RUN(a_guest_that_can_be_debugged_or_moved_is_told);
	UNIT_RUN(a_report_says_which_level_of_the_guest_asked_and_never_the_host);
	UNIT_RUN(no_byte_can_be_altered);
	UNIT_RUN(no_other_length_is_taken);
	UNIT_RUN(a_signature_out_of_range_is_refused);
	UNIT_RUN(the_certificate_is_for_this_security_version_and_chip);
	UNIT_RUN(turins_layout_is_known);
	UNIT_RUN(a_vlek_signs_when_the_report_says_so);
	UNIT_RUN(certificates_come_from_files_too);
	UNIT_RUN(a_table_in_pem_with_other_entries_is_read);
	UNIT_RUN(a_hostile_table_is_refused);
	UNIT_RUN(a_chain_to_another_root_is_refused);
	UNIT_RUN(a_leaf_of_somebody_else_is_refused);
	UNIT_RUN(what_is_no_authority_certifies_nothing);
	UNIT_RUN(certificates_out_of_their_time_are_expired);
	sgpu_chain_clear(&roots);
	tee_free(&ark);
	tee_free(&ask);
	tee_free(&vcek);
	tee_free(&vlek);
	tee_free(&turin);
	return unit_done();
}
