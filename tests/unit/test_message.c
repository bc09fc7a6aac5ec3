/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: what vsnprintf makes of them, without anything that a terminal obeys, with values that
 * are no names cut short, and no keys.
 */
#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "unit.h"

#define SECRET "sK2ubo6PDM-pmWAVS-WoSColLS3s8qKgZXQtfk42PCI"

static struct sgpu_error error;

static const char *quoted(const char *value)
{
	sgpu_fail(&error, SGPU_EINVALID, "'%s'", value);
	return error.text;
}

static bool ascii(const char *text)
{
	for (; *text; text++) {
		if (*text < 0x20 || *text > 0x7e) {
			return false;
		}
	}
	return true;
}

/* By the C library's reading of UTF-8. */
static bool plain(const char *text)
{
	static const wchar_t marks[] =
		L"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069";
	wchar_t wide[SGPU_ERROR_TEXT_MAX];
	const size_t length = mbstowcs(wide, text, SGPU_ERROR_TEXT_MAX);

	for (size_t i = 0; length != (size_t)-1 && i < length; i++) {
		if (iswcntrl((wint_t)wide[i]) || (wide[i] >= 0x80 && wide[i] < 0xa0) ||
		    wcschr(marks, wide[i])) {
			return false;
		}
	}
	return length != (size_t)-1;
}

/* Any eight characters of the secret in a row count. */
static bool tells(const char *text, const char *secret)
{
	char part[9] = "";

	for (size_t i = 0; i + 8 <= strlen(secret); i++) {
		memcpy(part, secret + i, 8);
		if (strstr(text, part)) {
			return true;
		}
	}
	return false;
}

UNIT_TEST(bytes_that_a_terminal_obeys_are_escaped)
{
	CHECK(!strcmp(quoted("a\033[31m\n"), "'a\\x1b[31m\\x0a'"));
	CHECK(!strcmp(quoted("a\x9b"
			     "31m"),
		      "'a\\x9b31m'"));
	CHECK(!strcmp(quoted("a\xc2\x9b"), "'a\\xc2\\x9b'"));
	CHECK(!strcmp(quoted("a\xe2\x80\xae"
			     "b"),
		      "'a\\xe2\\x80\\xaeb'"));
	CHECK(!strcmp(quoted("a\xe2\x81\xa6\xe2\x80\x8f"), "'a\\xe2\\x81\\xa6\\xe2\\x80\\x8f'"));
	/* What nobody sees: tags, a filler, a soft hyphen, a choice of shape. */
	CHECK(!strcmp(quoted("a\xf3\xa0\x81\xa2\xe3\x85\xa4"),
		      "'a\\xf3\\xa0\\x81\\xa2\\xe3\\x85\\xa4'"));
	CHECK(!strcmp(quoted("a\xc2\xad\xef\xb8\x8f"), "'a\\xc2\\xad\\xef\\xb8\\x8f'"));
	CHECK(!strcmp(quoted("a\xff\xc3"), "'a\\xff\\xc3'"));
	CHECK(!strcmp(quoted("back\\slash"), "'back\\slash'"));
	/* Surrogates, too long forms, and what is beyond Unicode. */
	CHECK(!strcmp(quoted("\xed\xa0\x80"
			     "\xc1\x81"
			     "\xe0\x82\x9b"
			     "\xf4\x90\x80\x80"),
		      "'\\xed\\xa0\\x80\\xc1\\x81\\xe0\\x82\\x9b\\xf4\\x90\\x80\\x80'"));
	/* What was escaped once stays as it is. */
	const char *once = "'a\\x9b'";
	sgpu_fail(&error, SGPU_EINVALID, "%s", once);
	CHECK(!strcmp(error.text, once));
}

UNIT_TEST(other_characters_stay_where_they_can_be_shown)
{
	static const char name[] = "\xe6\x89\xab\xe6\x8f\x8f M\xc3\xbcller \xf0\x9f\xa7\xa0.nii";
	char text[100];

	CHECK(strstr(quoted(name), name));
	sgpu_escape(name, strlen(name), text, sizeof(text), true);
	CHECK(!strcmp(text, name));
	sgpu_escape(name, strlen(name), text, sizeof(text), false);
	CHECK(!strcmp(text,
		      "\\xe6\\x89\\xab\\xe6\\x8f\\x8f M\\xc3\\xbcller \\xf0\\x9f\\xa7\\xa0.nii"));
	/* Cut before the character that has no room, or that a short value would cut. */
	CHECK(sgpu_escape(name, strlen(name), text, 6, true) == 3 && !strcmp(text, "\xe6\x89\xab"));
	CHECK(!strcmp(SGPU_EXCERPT("1234567890123456789012\xe6\x89\xab\""),
		      "1234567890123456789012..."));
}

UNIT_TEST(names_are_whole_and_other_values_short)
{
	char path[301] = "/", text[401] = "";

	memset(path + 1, 'p', sizeof(path) - 2);
	memset(text, 't', sizeof(text) - 1);
	CHECK(strlen(quoted(path)) == strlen(path) + 2);
	CHECK(!strcmp(quoted(text), "'tttttttttttttttttttttttt...'"));
	CHECK(!strcmp(quoted("a name of fewer than 64 bytes, with blanks"),
		      "'a name of fewer than 64 bytes, with blanks'"));
	CHECK(!strcmp(quoted("{\"segments\": [1, 2, 3], \"operations\": []}"),
		      "'{\"segments\": [1, 2, 3], ...'"));
	CHECK(!strcmp(quoted("first line of a file\nsecond line"),
		      "'first line of a file\\x0asec...'"));
	CHECK(!strcmp(quoted("{\"a\": 1}"), "'{\"a\": 1}'"));
	sgpu_fail(&error, SGPU_EINVALID, "'%.64s' and '%.3s'", text, "abcdef");
	CHECK(strlen(error.text) == 64 + 2 + 5 + 5 && strstr(error.text, "' and 'abc'"));
}

UNIT_TEST(nothing_of_a_key_is_told)
{
	static const char *const keys[] = {
		"{\"kty\":\"oct\",\"k\":\"" SECRET "\",\"kid\":\"x\"}",
		"{\"k\":\"" SECRET "\",\"kty\":\"oct\"}",
		"{ \"d\" : \"" SECRET "\" }",
		"  \"k\": \"" SECRET "\"",
		"{\"keys\":[{\"k\":\"" SECRET "\"}]}",
		"-----BEGIN PRIVATE KEY-----\n" SECRET,
		"/tmp/{\"k\":\"" SECRET "\"}",
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(keys); i++) {
		CHECK(!strcmp(quoted(keys[i]), "'...'"));
		sgpu_fail_errno(&error, "cannot open '%s'", keys[i]);
		CHECK(!tells(error.text, SECRET));
	}
}

/* The parser's own words quote what it saw last. */
UNIT_TEST(faults_of_json_tell_no_strings)
{
	static const char *const texts[] = {
		"{\"kty\":\"oct\",\"k\":\"" SECRET, "{\"k\": " SECRET "}",
		"{\"k\": \"" SECRET "\" x}",	    "\"" SECRET "\" \"a\"",
		"{\"k\": \"" SECRET "\n\"}",	    "{\"" SECRET "\":1,\"" SECRET "\":2}",
	};
	json_t *value = NULL;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(texts); i++) {
		CHECK(sgpu_json_parse(texts[i], strlen(texts[i]), NULL, &value, &error) ==
		      SGPU_EINVALID);
		CHECK(!tells(error.text, SECRET) && *error.text);
	}
	CHECK(sgpu_json_parse("{\"a\": 1,}", 10, NULL, &value, &error) == SGPU_EINVALID);
	CHECK(strstr(error.text, "'}'"));
}

static void SGPU_PRINTF(1, 2) same_as_printf(const char *format, ...)
{
	char expected[SGPU_ERROR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(expected, sizeof(expected), format, arguments);
	va_end(arguments);
	va_start(arguments, format);
	sgpu_vfail(&error, SGPU_EINVALID, format, arguments);
	va_end(arguments);
	if (strcmp(expected, error.text)) {
		printf("# '%s' is not '%s'\n", error.text, expected);
		unit_bad++;
	}
}

UNIT_TEST(conversions_are_those_of_printf)
{
	same_as_printf("%d %5d %-5d| %04o %#x %u %c %%", -3, 42, 7, 0640u, 255u, 9u, 'z');
	same_as_printf("%ld %lu %lld %llu %#llx", -1L, 2UL, -3LL, 4ULL, 5ULL);
	same_as_printf("%zu %zd %" PRIu64 " %" PRId64 " %jd %td", (size_t)1, (ssize_t)-2,
		       UINT64_MAX, INT64_MIN, (intmax_t)-3, (ptrdiff_t)-4);
	same_as_printf("%.0f %.2f %8.3f %g %.15g %.17g %e", 0.5, 1.005, 2.0, 1e300, 0.1, 0.1, 3.0);
	same_as_printf("%.*s|%.*s|%*d|%.*f", 3, "abcdef", 10, "ab", 6, 1, 2, 0.125);
	same_as_printf("%s: '%s' is %s", "name", "value", "missing");
}

/* Random bytes, as texts and as values: never one that a terminal obeys, never an escape or a
 * character cut in two. */
UNIT_TEST(random_bytes_come_out_plain)
{
	static const unsigned char likely[] = { 0xc2, 0xd8, 0xe0, 0xe2, 0xed, 0xf4, 0x80,
						0x81, 0x8f, 0x9b, 0x9c, 0xa6, 0xae };
	unsigned seed = 20240607;
	char bytes[200], text[64];

	for (int round = 0; round < 20000; round++) {
		const size_t size = (size_t)rand_r(&seed) % sizeof(bytes);
		for (size_t i = 0; i < size; i++) {
			bytes[i] = (char)(round % 2 ? likely[(size_t)rand_r(&seed) % sizeof(likely)]
						    : 1 + rand_r(&seed) % 255);
		}
		bytes[size] = '\0';
		if (!plain(quoted(bytes)) || !error.text[0]) {
			unit_bad++;
		}
		sgpu_fail(&error, SGPU_EINVALID, "%s and '%.9s'", bytes, bytes);
		unit_bad += !plain(error.text);
		const size_t room = 1 + (size_t)rand_r(&seed) % sizeof(text);
		const bool utf8 = rand_r(&seed) % 2;
		const size_t used = sgpu_escape(bytes, size, text, room, utf8);
		CHECK(used < room && text[used] == '\0' && strlen(text) == used &&
		      (utf8 ? plain(text) : ascii(text)));
		CHECK(size == 0 || used + 4 >= room || used >= size);
	}
}

int main(void)
{
	if (!setlocale(LC_CTYPE, "C.UTF-8")) {
		puts("Bail out! there is no locale C.UTF-8");
		return 1;
	}
	UNIT_RUN(bytes_that_a_terminal_obeys_are_escaped);
	UNIT_RUN(other_characters_stay_where_they_can_be_shown);
	UNIT_RUN(names_are_whole_and_other_values_short);
	UNIT_RUN(nothing_of_a_key_is_told);
	UNIT_RUN(faults_of_json_tell_no_strings);
	UNIT_RUN(conversions_are_those_of_printf);
	UNIT_RUN(random_bytes_come_out_plain);
	return unit_done();
}
