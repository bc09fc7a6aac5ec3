/* SPDX-License-Identifier: Apache-2.0
 *
 * What files are, by their first bytes; and that sealed data, which are random, are never taken for
 * anything else.
 */
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "unit.h"

static bool is_told(const void *first, size_t size, const char *what)
{
	struct sgpu_error error;
	char text[128];

	snprintf(text, sizeof(text), "'a' is %s, not b", what);
	return sgpu_fail_sniffed(&error, -1, "a", first, size, "b") == SGPU_EINVALID &&
	       !strcmp(error.text, text);
}

#define IS(text, what) CHECK(is_told(text, sizeof(text) - 1, what))

UNIT_TEST(known_beginnings_are_named)
{
	uint8_t block[SGPU_SNIFF_SIZE] = "seal.json";

	memcpy(block + 257, "ustar", 5);
	CHECK(sgpu_sniff(block, sizeof(block)) == SGPU_SNIFFED_BATCH);
	CHECK(sgpu_sniff(block, 100) == SGPU_SNIFFED_BATCH);
	memcpy(block, "other\0.json", 11);
	CHECK(sgpu_sniff(block, sizeof(block)) == SGPU_SNIFFED_TAR);
	memcpy(block, "response.json", 14);
	CHECK(is_told(block, sizeof(block), "a response of version 1"));
	IS("{\"kty\":\"oct\"}", "a JSON Web Key");
	IS("{\n \"keys\": [ {\"kty\": \"OKP\"} ] }", "a set of JSON Web Keys");
	IS("\n {\"version\":1,\"manifest_id\":\"a\"}", "a manifest");
	IS("[1, 2]", "JSON text");
	IS("-----BEGIN PRIVATE KEY-----\nMC4CAQAw", "a key or another thing in PEM");
	IS("\x1f\x8b\x08\x00", "gzip data");
	IS("\177ELF\2", "an ELF program or module");
	IS("two words\n", "text");
	IS("gr\xc3\xbc\xc3\x9f"
	   "e an alle\n",
	   "text");
}

UNIT_TEST(random_bytes_are_of_no_known_kind)
{
	uint8_t block[SGPU_SNIFF_SIZE];
	unsigned seed = 7, other = 0;

	for (int round = 0; round < 20000; round++) {
		const size_t size = round % 2 ? sizeof(block) : 80 + (size_t)round % 400;
		for (size_t i = 0; i < size; i++) {
			block[i] = (uint8_t)(rand_r(&seed) >> 7);
		}
		other += !is_told(block, size, "data of no known kind");
	}
	CHECK(other == 0);
}

UNIT_TEST(nothing_on_standard_input_is_no_input)
{
	struct sgpu_error error;

	CHECK(sgpu_fail_sniffed(&error, -1, "standard input", "", 0, "a batch") == SGPU_EINVALID);
	CHECK(!strcmp(error.text, "no input") && !error.hint[0]);
	for (int i = 0; i < 3; i++) {
		const bool is_pipe = i < 2;
		int ends[2] = { -1, -1 };

		CHECK(i == 0   ? !pipe(ends)
		      : i == 1 ? !socketpair(AF_UNIX, SOCK_STREAM, 0, ends)
			       : (ends[0] = open("/dev/null", O_RDONLY)) >= 0);
		CHECK(sgpu_fail_sniffed(&error, ends[0], "standard input", "", 0, "x") ==
		      (is_pipe ? SGPU_ENOINPUT : SGPU_EINVALID));
		CHECK(sgpu_fail_sniffed(&error, ends[0], "a", "", 0, "x") == SGPU_EINVALID);
		CHECK(sgpu_fail_sniffed(&error, ends[0], "standard input", "x", 1, "x") ==
		      SGPU_EINVALID);
		close(ends[0]);
		close(ends[1]);
	}
	CHECK(sgpu_fail_sniffed(&error, -1, "a", "", 0, "a batch") == SGPU_EINVALID &&
	      !strcmp(error.text, "'a' is empty"));
	CHECK(sgpu_fail_sniffed(&error, -1, "a", "\x1f\x8b\x08", 3, "a batch") == SGPU_EINVALID);
	CHECK(!strcmp(error.text, "'a' is gzip data, not a batch") && error.hint[0]);
	CHECK(sgpu_fail_sniffed(NULL, -1, "a", "x", 1, "a batch") == SGPU_EINVALID);
}

int main(void)
{
	UNIT_RUN(known_beginnings_are_named);
	UNIT_RUN(random_bytes_are_of_no_known_kind);
	UNIT_RUN(nothing_on_standard_input_is_no_input);
	return unit_done();
}
