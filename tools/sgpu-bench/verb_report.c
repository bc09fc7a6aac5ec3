/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-bench report: results as a page for a browser. The page has the records as they are and draws by itself; what
 * differs between runs is judged here, as `compare` does. make joins the scripts of report/ to one.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include <sgpu/crypto.h>
#include <sgpu/io.h>

#include "verbs.h"

struct request {
	const char *output;
};

const struct cli_option report_options[] = {
	CLI_COMMON,
	{ "output", 'o', "FILE", "write the page there, not to standard output", CLI_TEXT(struct request, output) },
	CLI_END,
};

struct file {
	const char *path;
	char *text;
	size_t size;
	struct sgpu_bench_results results;
};

/* ---- what is the same in every page ---- */
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

/* What stands before the data, which are one JSON value. The page loads nothing, and runs only its own script: its policy
 * names the digests of script and style. */
static int page_begin(FILE *out, struct sgpu_error *error)
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

static void page_end(FILE *out)
{
	fputs("</script>\n<script>", out);
	put(out, page_script, page_script_end);
	fputs("</script>\n</body>\n</html>\n", out);
}

/* Writes JSON so that it cannot end the element that it stands in, as one line. */
static void page_put_json(FILE *out, const char *text, size_t size)
{
	for (const char *end = text + size; text < end; text++) {
		if (*text == '<') {
			fputs("\\u003c", out);
		} else {
			fputc(*text == '\n' ? ' ' : *text, out);
		}
	}
}

/* ---- the data ---- */
/* A member of an array, of a value that was made for it. */
static int put_value(FILE *out, json_t *value, struct sgpu_error *error)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY |
					JSON_REAL_PRECISION(9)) : NULL;

	json_decref(value);
	if (!text) {
		return sgpu_fail_nomem(error);
	}
	page_put_json(out, text, strlen(text));
	free(text);
	return SGPU_OK;
}

/* The file that has noise of the machine and build of another one, or -1. */
static int find_noise(const struct file *files, int count, const struct file *of)
{
	for (int i = 0; i < count; i++) {
		if (files[i].results.noise_count > 0 &&
		    !sgpu_bench_environments_differ(files[i].results.environment, of->results.environment)) {
			return i;
		}
	}
	return -1;
}

static int put_file(FILE *out, const struct file *file, int noise, struct sgpu_error *error)
{
	const char *slash = strrchr(file->path, '/');
	const char *text = file->text, *end = text + file->size;
	bool first = true;
	int rc;

	fputs("{\"name\":", out);
	rc = put_value(out, cli_json_text(cli_is_standard(file->path) ? "standard input" : slash ? slash + 1 : file->path),
		       error);
	fprintf(out, ",\"noise\":%d,\"lines\":[", noise);
	while (rc == SGPU_OK && text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)), *stop = newline ? newline : end;

		if (stop > text) {
			fputs(first ? "\n" : ",\n", out);
			page_put_json(out, text, (size_t)(stop - text));
			first = false;
		}
		text = newline ? newline + 1 : end;
	}
	fputs("]}", out);
	return rc;
}

/* What two files have in common: [file, measurement, file, measurement, verdict, change, noise, noise was measured]. */
static int put_differences(FILE *out, const struct file *files, int a, int b, int noise, struct sgpu_error *error)
{
	const struct sgpu_bench_results *first = &files[a].results, *second = &files[b].results;
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;
	int rc = sgpu_bench_compare(first, second, noise < 0 ? NULL : &files[noise].results, false, &d, &count, error);

	for (size_t i = 0; rc == SGPU_OK && i < count; i++) {
		if (verdict_is_judged(d[i].verdict)) {
			fputs(",\n", out);
			rc = put_value(out, json_pack("[i, I, i, I, s, f, f, b]", a, (json_int_t)(d[i].first - first->records),
						      b, (json_int_t)(d[i].second - second->records),
						      sgpu_bench_verdict_name(d[i].verdict), d[i].change, d[i].noise,
						      d[i].noise_measured), error);
		}
	}
	free(d);
	return rc;
}

static int put_page(FILE *out, const struct file *files, int count, struct sgpu_error *error)
{
	int rc = page_begin(out, error);

	fputs("{\"files\":[", out);
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		fputs(i ? ",\n" : "\n", out);
		rc = put_file(out, &files[i], find_noise(files, count, &files[i]), error);
	}
	fputs("],\"differences\":[[]", out);
	for (int b = 1; rc == SGPU_OK && b < count; b++) {
		for (int a = 0; rc == SGPU_OK && a < b; a++) {
			rc = put_differences(out, files, a, b, find_noise(files, count, &files[a]), error);
		}
	}
	fputs("]}", out);
	page_end(out);
	return rc;
}

static int write_page(const struct file *files, int count, const char *path)
{
	struct sgpu_error error = { 0 };
	char *page = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&page, &size);
	int rc = out ? put_page(out, files, count, &error) : sgpu_fail_nomem(&error);
	const bool failed = out && (ferror(out) || fclose(out));

	rc = rc ? rc : failed ? sgpu_fail_nomem(&error) : cli_write_text(path, 0666, page, size, &error);
	free(page);
	return rc == SGPU_OK ? 0 : cli_error(&error);
}

int verb_report(int argc, char **argv)
{
	struct request request = { 0 };
	struct file *files = NULL;
	char **paths;
	int count = 0, status = cli_read(argc, argv, &request, &paths);

	status = status ? status : cli_output_prepare(request.output, 0666, false);
	files = status ? NULL : calloc((size_t)argc, sizeof(*files));
	if (status == 0 && !files) {
		status = cli_fail(SGPU_ENOMEM, "out of memory");
	}
	for (; status == 0 && paths[count]; count++) {
		files[count].path = paths[count];
		status = read_results(paths[count], &files[count].results, &files[count].text, &files[count].size);
	}
	if (status == 0 && !cli_binary_apart(request.output)) {
		status = 2;
	}
	status = status ? status : write_page(files, count, request.output);
	for (int i = 0; files && i < count; i++) {
		free(files[i].text);
		sgpu_bench_results_clear(&files[i].results);
	}
	free(files);
	return status;
}
