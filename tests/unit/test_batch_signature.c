/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of batches: what they cover, and whose are taken.
 */
#include "batch/batch.h"
#include "batch_harness.h"

static struct sgpu_key oct;
static struct sgpu_key owner, stranger;
static const char *owners[1];

static struct sgpu_batch *signed_batch(const struct sgpu_key *signer)
{
	struct sgpu_batch *batch = sealed_batch(&oct);

	if (sgpu_batch_add_signature(batch, signer, &error) ||
	    sgpu_batch_sign(batch, batch_key, &error)) {
		abort();
	}
	return batch;
}

static int owner_code(const struct sgpu_batch *batch)
{
	char kid[SGPU_KID_SIZE + 1] = "";
	const int code = sgpu_batch_owner(batch, owners, 1, kid, &error);

	CHECK(code ? !kid[0] : !strcmp(kid, owner.kid));
	return code;
}

UNIT_TEST(a_signed_batch_comes_back_and_its_owner_is_known)
{
	struct sgpu_batch *b = signed_batch(&owner), *read = NULL;

	CHECK(round_trip(b) == 0);
	REQUIRE(read_archive(archive(b), false, &read) == 0);
	CHECK(owner_code(read) == 0 && sgpu_batch_verify(read, batch_key, &error) == 0);
	sgpu_batch_free(&b);
	sgpu_batch_free(&read);
}

UNIT_TEST(unsigned_and_foreign_batches_are_refused)
{
	struct sgpu_batch *bare = sealed_batch(&oct), *foreign = signed_batch(&stranger);

	CHECK(owner_code(bare) == SGPU_EPOLICY && strstr(error.text, "not signed"));
	CHECK(owner_code(foreign) == SGPU_EPOLICY && strstr(error.text, stranger.kid));
	/* One that both have signed is the owner's, too. */
	CHECK(sgpu_batch_add_signature(foreign, &owner, &error) == 0 && owner_code(foreign) == 0);
	sgpu_batch_free(&bare);
	sgpu_batch_free(&foreign);
}

UNIT_TEST(what_a_key_has_signed_verifies_or_is_told)
{
	struct sgpu_batch *batch = signed_batch(&owner);
	bool yes = false;

	CHECK(sgpu_batch_signed_by(batch, owner.kid, &yes, &error) == 0 && yes);
	CHECK(sgpu_batch_signed_by(batch, stranger.kid, &yes, &error) == 0 && !yes);
	batch->payload[0] ^= 1;
	CHECK(sgpu_batch_signed_by(batch, owner.kid, &yes, &error) == SGPU_EAUTH && !yes);
	sgpu_batch_free(&batch);
}

UNIT_TEST(a_signature_covers_the_payload_and_not_the_mac)
{
	struct sgpu_batch *b = signed_batch(&owner);

	b->mac[0] ^= 1;
	CHECK(owner_code(b) == 0);
	for (size_t i = 0; b->payload[i]; i++) {
		b->payload[i] ^= 1;
		CHECK(owner_code(b) == SGPU_EAUTH);
		b->payload[i] ^= 1;
	}
	CHECK(owner_code(b) == 0);
	sgpu_batch_free(&b);
}

/* A host that was a recipient of any batch knows a batch key; it may not read the answer to
 * another's manifest. */
UNIT_TEST(a_host_cannot_put_its_own_recipient_beside_an_owners_manifest)
{
	const struct sgpu_key host = key_of(SGPU_KEY_OCT);

	for (int alone = 0; alone < 2; alone++) {
		struct sgpu_batch *b = signed_batch(&owner);
		json_t *signatures = json_deep_copy(b->signatures);

		if (alone) {
			json_array_clear(b->recipients);
		}
		CHECK(sgpu_batch_wrap(b, &host, batch_key, &error) == 0);
		CHECK(!b->signatures); /* they were of other recipients */
		b->signatures = signatures;
		CHECK(sgpu_batch_sign(b, batch_key, &error) == 0);
		CHECK(sgpu_batch_verify(b, batch_key, &error) ==
		      0); /* the MAC alone does not hold the host off */
		CHECK(owner_code(b) == SGPU_EAUTH && strstr(error.text, owner.kid));
		sgpu_batch_free(&b);
	}
}

/* With a recipient in its hands, the host changes what the index says of a LOW input. */
UNIT_TEST(whoever_has_the_batch_key_puts_no_other_index_under_an_owners_signature)
{
	struct sgpu_batch *b = signed_batch(&owner);
	json_t *signatures = json_incref(b->signatures);

	b->segments[1].kt128[0] ^= 1;
	sgpu_batch_change(b, true);
	CHECK(!b->signatures);
	b->signatures = signatures;
	CHECK(sgpu_batch_sign(b, batch_key, &error) == 0);
	CHECK(sgpu_batch_verify(b, batch_key, &error) == 0);
	CHECK(owner_code(b) == SGPU_EAUTH);
	sgpu_batch_free(&b);
}

UNIT_TEST(a_signature_of_another_batch_is_none_of_this)
{
	struct sgpu_batch *a = signed_batch(&owner), *b = sealed_batch(&oct);

	b->id[0] ^= 1;
	sign(b, &oct);
	b->signatures = json_deep_copy(a->signatures);
	CHECK(owner_code(b) == SGPU_EAUTH);
	sgpu_batch_free(&a);
	sgpu_batch_free(&b);
}

/* The owner's and the stranger's signatures, in this order; the stranger's of another batch unless
 * it is to verify. */
static struct sgpu_batch *batch_of_two(bool owner_first, bool both_verify)
{
	struct sgpu_batch *b = signed_batch(owner_first ? &owner : &stranger),
			  *other = sealed_batch(&oct);

	CHECK(sgpu_batch_add_signature(b, owner_first ? &stranger : &owner, &error) == 0);
	other->id[0] ^= 1;
	sgpu_batch_change(other, true);
	CHECK(sgpu_batch_add_signature(other, &stranger, &error) == 0);
	if (!both_verify) {
		json_array_set(b->signatures, owner_first ? 1 : 0,
			       json_array_get(other->signatures, 0));
	}
	sgpu_batch_free(&other);
	return b;
}

UNIT_TEST(each_signature_of_a_listed_owner_must_verify_and_the_first_one_names_the_owner)
{
	const char *const both[] = { stranger.kid, owner.kid };

	for (int owner_first = 0; owner_first < 2; owner_first++) {
		struct sgpu_batch *good = batch_of_two(owner_first, true),
				  *bad = batch_of_two(owner_first, false);
		char kid[SGPU_KID_SIZE + 1] = "";

		CHECK(sgpu_batch_owner(good, both, 2, kid, &error) == 0 &&
		      !strcmp(kid, owner_first ? owner.kid : stranger.kid));
		CHECK(sgpu_batch_owner(bad, both, 2, kid, &error) == SGPU_EAUTH && !kid[0] &&
		      strstr(error.text, stranger.kid));
		CHECK(owner_code(bad) == 0); /* whoever is not listed counts for nothing */
		CHECK(json_array_append_new(good->signatures, json_string("abc")) == 0);
		CHECK(sgpu_batch_owner(good, both, 2, kid, &error) == SGPU_EINVALID && !kid[0]);
		sgpu_batch_free(&good);
		sgpu_batch_free(&bad);
	}
}

static bool is_same(const struct sgpu_batch *batch, const uint8_t identity[SGPU_SHA256_SIZE])
{
	uint8_t now[SGPU_SHA256_SIZE];

	CHECK(sgpu_batch_identity(batch, now, &error) == 0);
	return memcmp(now, identity, sizeof(now)) == 0;
}

UNIT_TEST(an_identity_is_of_all_that_no_rewrap_no_signer_and_no_host_changes)
{
	struct sgpu_batch *b = signed_batch(&owner);
	const struct sgpu_key other = key_of(SGPU_KEY_X25519);
	uint8_t identity[SGPU_SHA256_SIZE];

	REQUIRE(sgpu_batch_identity(b, identity, &error) == 0);
	/* By another owner for another recipient, and staged. */
	json_array_clear(b->recipients);
	CHECK(sgpu_batch_wrap(b, &other, batch_key, &error) == 0);
	CHECK(sgpu_batch_add_signature(b, &stranger, &error) == 0 &&
	      sgpu_batch_sign(b, batch_key, &error) == 0);
	for (int i = 0; i < 2; i++) {
		b->segments[i].location =
			(struct sgpu_location){ .kind = SGPU_LOCATION_LEASE, .offset = 4096 };
		memset(b->segments[i].location.region, 'a', SGPU_REGION_ID_TEXT);
	}
	CHECK(is_same(b, identity));
	for (size_t i = 0; i < sizeof(b->id); i++) {
		b->id[i] ^= 1;
		CHECK(!is_same(b, identity));
		b->id[i] ^= 1;
	}
	for (size_t i = 0; i < sizeof(b->index_sha256); i++) {
		b->index_sha256[i] ^= 1;
		CHECK(!is_same(b, identity));
		b->index_sha256[i] ^= 1;
	}
	for (int i = 0; i < 64; i++) {
		b->counter ^= UINT64_C(1) << i;
		CHECK(!is_same(b, identity));
		b->counter ^= UINT64_C(1) << i;
	}
	sgpu_batch_free(&b);
}

UNIT_TEST(there_is_a_most_of_signatures)
{
	struct sgpu_batch *b = signed_batch(&owner);
	struct sgpu_key key;

	for (int i = 1; i < SGPU_SIGNATURES_MAX; i++) {
		REQUIRE(sgpu_key_generate(SGPU_KEY_ED25519, &key, &error) == 0);
		CHECK(sgpu_batch_add_signature(b, &key, &error) == 0);
	}
	REQUIRE(sgpu_key_generate(SGPU_KEY_ED25519, &key, &error) == 0);
	CHECK(sgpu_batch_add_signature(b, &key, &error) == SGPU_EUSAGE);
	CHECK(owner_code(b) == 0);
	sgpu_batch_free(&b);
}

UNIT_TEST(signatures_are_of_sealed_batches_alone)
{
	struct sgpu_batch *answer = response(&oct), *packed = packed_batch();
	uint8_t *head = NULL;
	size_t size = 0;

	CHECK(sgpu_batch_add_signature(answer, &owner, &error) == 0 &&
	      sgpu_batch_head(answer, false, &head, &size, &error) == SGPU_EINVALID && !head);
	CHECK(sgpu_batch_add_signature(packed, &owner, &error) == 0 &&
	      sgpu_batch_head(packed, false, &head, &size, &error) == SGPU_EINVALID && !head);
	CHECK(strstr(error.text, "signatures"));
	sgpu_batch_free(&answer);
	sgpu_batch_free(&packed);
}

int main(void)
{
	oct = key_of(SGPU_KEY_OCT);
	if (sgpu_key_generate(SGPU_KEY_ED25519, &owner, &error) ||
	    sgpu_key_generate(SGPU_KEY_ED25519, &stranger, &error)) {
		return 1;
	}
	owners[0] = owner.kid;
	UNIT_RUN(a_signed_batch_comes_back_and_its_owner_is_known);
	UNIT_RUN(unsigned_and_foreign_batches_are_refused);
	UNIT_RUN(what_a_key_has_signed_verifies_or_is_told);
	UNIT_RUN(a_signature_covers_the_payload_and_not_the_mac);
	UNIT_RUN(a_host_cannot_put_its_own_recipient_beside_an_owners_manifest);
	UNIT_RUN(whoever_has_the_batch_key_puts_no_other_index_under_an_owners_signature);
	UNIT_RUN(a_signature_of_another_batch_is_none_of_this);
	UNIT_RUN(each_signature_of_a_listed_owner_must_verify_and_the_first_one_names_the_owner);
	UNIT_RUN(an_identity_is_of_all_that_no_rewrap_no_signer_and_no_host_changes);
	UNIT_RUN(there_is_a_most_of_signatures);
	UNIT_RUN(signatures_are_of_sealed_batches_alone);
	return unit_done();
}
