/* SPDX-License-Identifier: Apache-2.0
 *
 * What sgpu-batch(5) says of MAC, identity, segment keys and contexts, computed a second time with
 * OpenSSL alone.
 */
#include <stdint.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "batch/batch.h"

#include "unit.h"

static struct sgpu_error error;
static uint8_t batch_key[SGPU_KEY_SIZE];

/* The documented construction once more, with OpenSSL alone: HKDF by two HMACs, then the MAC over a
 * payload as it lies. */
static void check_mac(bool is_response, const char *label)
{
	uint8_t prk[32], mac_key[32], mac[32], info[40];
	unsigned size = 32;
	const size_t length = strlen(label);
	char payload[] = "eyJ2ZXJzaW9uIjoyfQ", index[] = "{}";
	struct sgpu_batch b = { .response = is_response, .payload = payload, .index_text = index };

	memset(b.id, 7, sizeof(b.id));
	memset(batch_key, 0x42, sizeof(batch_key));
	memcpy(info, label, length);
	info[length] = 1;
	REQUIRE(HMAC(EVP_sha256(), b.id, sizeof(b.id), batch_key, 32, prk, &size) != NULL);
	REQUIRE(HMAC(EVP_sha256(), prk, 32, info, length + 1, mac_key, &size) != NULL);
	REQUIRE(HMAC(EVP_sha256(), mac_key, 32, (const uint8_t *)payload, strlen(payload), mac,
		     &size) != NULL);
	CHECK(sgpu_batch_sign(&b, batch_key, &error) == 0);
	CHECK(!memcmp(mac, b.mac, 32));
}

UNIT_TEST(the_mac_is_what_the_page_says)
{
	check_mac(false, "sgpu v2 mac batch");
	check_mac(true, "sgpu v2 mac response");
}

UNIT_TEST(the_identity_is_what_the_page_says)
{
	uint8_t text[14 + 16 + 8 + 32] = "sgpu v2 batch", wanted[32], identity[32];
	struct sgpu_batch b = { .counter = 0x0102030405060708 };

	memset(b.id, 7, sizeof(b.id));
	memset(b.index_sha256, 9, sizeof(b.index_sha256));
	memset(text + 14, 7, 16);
	memcpy(text + 30, "\1\2\3\4\5\6\7\10", 8);
	memset(text + 38, 9, 32);
	REQUIRE(EVP_Digest(text, sizeof(text), wanted, NULL, EVP_sha256(), NULL) == 1);
	CHECK(sgpu_batch_identity(&b, identity, &error) == 0 && !memcmp(identity, wanted, 32));
}

UNIT_TEST(segment_keys_and_contexts_are_what_the_page_says)
{
	struct sgpu_batch b = { 0 };
	uint8_t key[32], other[32], prk[32], wanted[32], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t size = 0;
	unsigned length = 32;
	memset(b.id, 1, sizeof(b.id));
	memset(b.manifest_sha256, 2, sizeof(b.manifest_sha256));
	memset(b.response_id, 5, sizeof(b.response_id));
	memset(batch_key, 3, sizeof(batch_key));
	CHECK(sgpu_batch_segment_key(&b, batch_key, "scan", NULL, key, context, &size, &error) ==
	      0);
	REQUIRE(size == 8 + 16 + 32 + 1 + 4);
	CHECK(!memcmp(context, "sgpu v2", 8) && !memcmp(context + 8, b.id, 16));
	CHECK(!memcmp(context + 24, b.manifest_sha256, 32) && !memcmp(context + 56, "iscan", 5));
	REQUIRE(HMAC(EVP_sha256(), b.id, sizeof(b.id), batch_key, 32, prk, &length) != NULL);
	REQUIRE(HMAC(EVP_sha256(), prk, 32, (const uint8_t *)"sgpu v2 segment in scan\1", 24,
		     wanted, &length) != NULL);
	CHECK(!memcmp(key, wanted, 32));
	CHECK(sgpu_batch_segment_key(&b, batch_key, "scan", b.response_id, other, context, &size,
				     &error) == 0);
	REQUIRE(HMAC(EVP_sha256(), prk, 32, (const uint8_t *)"sgpu v2 segment out scan\1", 25,
		     wanted, &length) != NULL);
	CHECK(!memcmp(other, wanted, 32) && context[56] == 'o');
	REQUIRE(size == 8 + 16 + 32 + 1 + 16 + 4);
	CHECK(!memcmp(context + 57, b.response_id, 16) && !memcmp(context + 73, "scan", 4));
	char long_id[SGPU_ID_MAX + 2];
	memset(long_id, 'a', sizeof(long_id));
	long_id[SGPU_ID_MAX + 1] = '\0';
	CHECK(sgpu_batch_segment_key(&b, batch_key, long_id, b.response_id, key, context, &size,
				     &error) == SGPU_EINVALID);
	CHECK(sgpu_batch_segment_key(&b, batch_key, long_id + 1, b.response_id, key, context, &size,
				     &error) == 0);
	CHECK(size == SGPU_SEGMENT_CONTEXT_MAX);
}

int main(void)
{
	UNIT_RUN(the_mac_is_what_the_page_says);
	UNIT_RUN(the_identity_is_what_the_page_says);
	UNIT_RUN(segment_keys_and_contexts_are_what_the_page_says);
	return unit_done();
}
