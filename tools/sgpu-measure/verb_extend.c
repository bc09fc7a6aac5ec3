/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure extend: adds a digest to a run-time measurement register (RTMR) of a TDX guest, so that every later report of
 * the hardware says that it was there.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "parts.h"
#include "verbs.h"

enum { RTMR = CLI_LONG, DIGEST };
enum { RTMR_MAX = 3, SHA384_SIZE = 48, PIECE = 1 << 16 };

const struct cli_option extend_options[] = {
	CLI_COMMON,
	{ "rtmr", RTMR, "N", "which register, 0 to 3; guests may extend 2 and 3" },
	{ "digest", DIGEST, "HEX", "48 bytes to extend it by, not the SHA-384 of a file" },
	{ NULL, 0, NULL, NULL },
};

static int digest_file(int fd, const char *name, uint8_t digest[SHA384_SIZE], struct sgpu_error *error)
{
	static uint8_t piece[PIECE];
	EVP_MD_CTX *state = EVP_MD_CTX_new();
	size_t got = sizeof(piece);
	int code = state && EVP_DigestInit_ex(state, EVP_sha384(), NULL) == 1 ? 0 :
		   sgpu_fail(error, SGPU_ESYSTEM, "SHA-384 is not to be had from OpenSSL");

	while (!code && got == sizeof(piece)) {
		code = sgpu_read(fd, name, piece, sizeof(piece), &got, error);
		if (!code && EVP_DigestUpdate(state, piece, got) != 1) {
			code = sgpu_fail(error, SGPU_ESYSTEM, "SHA-384 of '%s' failed", name);
		}
	}
	if (!code && EVP_DigestFinal_ex(state, digest, NULL) != 1) {
		code = sgpu_fail(error, SGPU_ESYSTEM, "SHA-384 of '%s' failed", name);
	}
	EVP_MD_CTX_free(state);
	return code;
}

static int report(unsigned rtmr, const uint8_t digest[SHA384_SIZE])
{
	char hex[2 * SHA384_SIZE + 1];

	sgpu_hex_encode(digest, SHA384_SIZE, hex);
	if (cli_json) {
		return measure_print_record(json_pack("{s:i, s:s}", "rtmr", (int)rtmr, "digest", hex), false);
	}
	cli_detail("RTMR %u extended by %s", rtmr, hex);
	return 0;
}

static int extend(unsigned rtmr, const char *hex, const char *path)
{
	uint8_t digest[SHA384_SIZE];
	struct sgpu_error error = { 0 };
	const char *name = NULL;
	int code = 0;

	if (hex) {
		if (sgpu_hex_decode(hex, digest, sizeof(digest), &error)) {
			return cli_usage("--digest: %s", error.text);
		}
	} else {
		const int fd = cli_input(path, &name);
		if (fd < 0) {
			return cli_is_standard(path) ? 2 : 3;
		}
		code = digest_file(fd, name, digest, &error);
		if (fd > STDERR_FILENO) {
			close(fd);
		}
	}
	if (!code) {
		code = sgpu_rtmr_extend(rtmr, digest, &error);
	}
	return code ? cli_error(&error) : report(rtmr, digest);
}

int verb_extend(int argc, char **argv)
{
	const char *value = NULL, *hex = NULL;
	struct sgpu_error error = { 0 };
	uint64_t rtmr = RTMR_MAX + 1;
	int first = argc;

	for (int key = 0; (key = cli_next(argc, argv, &value, &first)) != 0;) {
		switch (key) {
		case RTMR:
			if (sgpu_parse_u64(value, "--rtmr", 0, RTMR_MAX, &rtmr, &error)) {
				return cli_error(&error);
			}
			break;
		case DIGEST:
			hex = value;
			break;
		default:
			return 2;
		}
	}
	if (!cli_positionals(argc, first, 0, 1)) {
		return 2;
	}
	if (rtmr > RTMR_MAX) {
		return cli_usage("the register is missing, with --rtmr");
	}
	if (hex && first < argc) {
		return cli_usage("--digest and a file exclude each other");
	}
	return extend((unsigned)rtmr, hex, first < argc ? argv[first] : NULL);
}
