/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a script's line.
 */
#include <stdarg.h>
#include <string.h>

#include <sgpu/base.h>

#include "channel_script.h"

int script_fault(struct script *script, struct sgpu_error *error, const char *format, ...)
{
	char text[256];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	return sgpu_fail(error, SGPU_EINVALID, "%s:%u: %s", script->name, script->line, text);
}

/* A word of a script is shown when it looks like one: what was given in place of a script may be a
 * key. */
const char *script_shown(const char *word, char text[SCRIPT_SHOWN])
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t length = strlen(word);

	if (length <= SCRIPT_SHOWN_WORD && strspn(word, plain) == length) {
		snprintf(text, SCRIPT_SHOWN, "'%s'", word);
	} else {
		snprintf(text, SCRIPT_SHOWN, "a word of %zu characters", length);
	}
	return text;
}

static const char *next(struct script *script)
{
	return script->at < script->count ? script->words[script->at] : NULL;
}

bool script_word(struct script *script, const char *word)
{
	const char *here = next(script);

	if (!here || strcmp(here, word) != 0) {
		return false;
	}
	script->at++;
	return true;
}

/* Decimal, or hexadecimal after 0x. */
static bool parse(const char *text, uint64_t max, uint64_t *value)
{
	bool hex = strncmp(text, "0x", 2) == 0;
	const char *digits = hex ? text + 2 : text;
	uint64_t number = 0;

	if (!*digits) {
		return false;
	}
	for (; *digits; digits++) {
		const char *set = "0123456789abcdef", *found = strchr(set, *digits);
		uint64_t base = hex ? 16 : 10;

		if (!found || (uint64_t)(found - set) >= base ||
		    !sgpu_mul_u64(number, base, &number) ||
		    !sgpu_add_u64(number, (uint64_t)(found - set), &number)) {
			return false;
		}
	}
	*value = number;
	return number <= max;
}

int script_number(struct script *script, const char *what, uint64_t max, uint64_t *value,
		  struct sgpu_error *error)
{
	const char *word = next(script);
	char shown[SCRIPT_SHOWN];

	if (!word) {
		return script_fault(script, error, "%s is missing", what);
	}
	if (!parse(word, max, value)) {
		return script_fault(script, error, "%s is no %s from 0 to %llu",
				    script_shown(word, shown), what, (unsigned long long)max);
	}
	script->at++;
	return SGPU_OK;
}

int script_frame(struct script *script, const char *what, uint32_t *frame, struct sgpu_error *error)
{
	uint64_t value;
	int rc;

	if (script_word(script, "none")) {
		*frame = SGPU_NO_FRAME;
		return SGPU_OK;
	}
	rc = script_number(script, what, SGPU_NO_FRAME - 1, &value, error);
	*frame = rc == SGPU_OK ? (uint32_t)value : SGPU_NO_FRAME;
	return rc;
}
