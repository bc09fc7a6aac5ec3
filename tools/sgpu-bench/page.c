/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a report. make joins the scripts of report/ to one before this file is compiled.
 */
#include <openssl/evp.h>

#include <sgpu/crypto.h>

#include "page.h"

#define FILE_AS_BYTES(name, path)                                                                    \
	extern const char page_##name[], page_##name##_end[];                                        \
	__asm__(".pushsection .rodata\n"                                                             \
		".globl page_" #name ", page_" #name "_end\n"                                        \
		".hidden page_" #name ", page_" #name "_end\n"                                       \
		".type page_" #name ", %object\n"                                                    \
		".type page_" #name "_end, %object\n"                                                \
		"page_" #name ":\n"                                                                  \
		".incbin \"" path "\"\n"                                                             \
		"page_" #name "_end:\n"                                                              \
		".byte 0\n"                                                                          \
		".size page_" #name ", page_" #name "_end - page_" #name "\n"                        \
		".popsection\n")

FILE_AS_BYTES(style, "tools/sgpu-bench/report/report.css");
FILE_AS_BYTES(body, "tools/sgpu-bench/report/report.html");
FILE_AS_BYTES(script, "report.js");

enum { HASH_TEXT_SIZE = 4 * ((SGPU_SHA256_SIZE + 2) / 3) + 1 };

static void put(FILE *out, const char *begin, const char *end)
{
	fwrite(begin, 1, (size_t)(end - begin), out);
}

/* What a policy calls an inline script or style by. */
static int hash(const char *begin, const char *end, char text[HASH_TEXT_SIZE], struct sgpu_error *error)
{
	uint8_t digest[SGPU_SHA256_SIZE];
	int rc = sgpu_sha256(begin, (size_t)(end - begin), digest, error);

	if (rc == SGPU_OK) {
		EVP_EncodeBlock((unsigned char *)text, digest, sizeof(digest));
	}
	return rc;
}

int page_begin(FILE *out, struct sgpu_error *error)
{
	char style[HASH_TEXT_SIZE], script[HASH_TEXT_SIZE];
	int rc = hash(page_style, page_style_end, style, error);

	rc = rc ? rc : hash(page_script, page_script_end, script, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	fprintf(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
		"form-action 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'\">\n<style>", style, script);
	put(out, page_style, page_style_end);
	fputs("</style>\n", out);
	put(out, page_body, page_body_end);
	fputs("<script type=\"application/json\" id=\"results\">", out);
	return SGPU_OK;
}

void page_end(FILE *out)
{
	fputs("</script>\n<script>", out);
	put(out, page_script, page_script_end);
	fputs("</script>\n</body>\n</html>\n", out);
}

void page_put_json(FILE *out, const char *text, size_t size, char separator)
{
	for (const char *end = text + size; text < end; text++) {
		if (*text == '<') {
			fputs("\\u003c", out);
		} else {
			fputc(*text == '\n' ? separator : *text, out);
		}
	}
}
