/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure extend: extends a run-time measurement register (RTMR) of a TDX guest by a digest,
 * which every later hardware report then reflects.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "parts.h"

enum { RTMR_MAX = 3, SHA384_SIZE = 48, PIECE = 1 << 16 };

struct request {
	unsigned rtmr;
	struct cli_bytes digest;
};

const struct cli_option extend_options[] = {
	CLI_COMMON,
	{ "rtmr", 0, "N", "which register, 0 to 3; guests may extend 2 and 3",
	  CLI_NUMBER(struct request, rtmr, 0, RTMR_MAX) },
	{ "digest", 0, "HEX", "48 bytes to extend it by, not the SHA-384 of a file",
	  CLI_BYTES(struct request, digest, SHA384_SIZE, SHA384_SIZE) },
	CLI_END,
};

static int digest_file(int fd, const char *name, uint8_t digest[SHA384_SIZE],
		       struct sgpu_error *error)
{
	static uint8_t piece[PIECE];
	EVP_MD_CTX *state = EVP_MD_CTX_new();
	size_t got = sizeof(piece);
	bool good = state && EVP_DigestInit_ex(state, EVP_sha384(), NULL) == 1;
	int rc = 0;

	while (!rc && good && got == sizeof(piece)) {
		rc = sgpu_read(fd, name, piece, sizeof(piece), &got, error);
		good = EVP_DigestUpdate(state, piece, rc ? 0 : got) == 1;
	}
	good = good && EVP_DigestFinal_ex(state, digest, NULL) == 1;
	EVP_MD_CTX_free(state);
	return rc || good ? rc : sgpu_fail(error, SGPU_ESYSTEM, "SHA-384 of '%s' failed", name);
}

static int report(unsigned rtmr, const uint8_t digest[SHA384_SIZE])
{
	char hex[2 * SHA384_SIZE + 1];

	sgpu_hex_encode(digest, SHA384_SIZE, hex);
	if (cli_json) {
		return cli_print_json(json_pack("{s:i, s:s}", "rtmr", (int)rtmr, "digest", hex),
				      stdout, JSON_COMPACT);
	}
	cli_detail("RTMR %u extended by %s", rtmr, hex);
	return 0;
}

static int extend(unsigned rtmr, const struct cli_bytes *given, const char *path)
{
	uint8_t digest[SHA384_SIZE];
	struct sgpu_error error = { 0 };
	const char *name = NULL;
	int rc = 0;

	if (given->size) {
		memcpy(digest, given->data, sizeof(digest));
	} else {
		int fd;
		const int status = cli_input(path, &name, &fd);
		if (status) {
			return status;
		}
		rc = digest_file(fd, name, digest, &error);
		cli_input_close(fd);
	}
	rc = rc ? rc : sgpu_rtmr_extend(rtmr, digest, &error);
	return rc ? cli_error(&error) : report(rtmr, digest);
}

int verb_extend(int argc, char **argv)
{
	struct request request = { .rtmr = RTMR_MAX + 1 };
	char **paths;
	const int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	if (request.rtmr > RTMR_MAX) {
		return cli_usage("the register is missing, with --rtmr");
	}
	if (request.digest.size && *paths) {
		return cli_usage("--digest and a file exclude each other");
	}
	return extend(request.rtmr, &request.digest, paths[0]);
}
