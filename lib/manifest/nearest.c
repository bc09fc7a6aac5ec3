/* SPDX-License-Identifier: Apache-2.0
 *
 * The name that was probably meant, by edit distance.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "manifest/reader.h"

enum { NAME_MAX_COMPARED = SGPU_ID_MAX };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Returns the edits from a to b, ignoring case, or limit + 1 if there are more. Optimal string
 * alignment, in which swapping two adjacent letters is one edit; keeps three rows of the table. */
static unsigned distance_of(const char *a, const char *b, unsigned limit)
{
	unsigned rows[3][NAME_MAX_COMPARED + 1];
	unsigned *above = rows[0], *last = rows[1], *now = rows[2], *spare;
	size_t la = strnlen(a, NAME_MAX_COMPARED + 1), lb = strnlen(b, NAME_MAX_COMPARED + 1);

	if (la > NAME_MAX_COMPARED || lb > NAME_MAX_COMPARED ||
	    (la > lb ? la - lb : lb - la) > limit) {
		return limit + 1;
	}
	for (size_t j = 0; j <= lb; j++) {
		last[j] = (unsigned)j;
	}
	for (size_t i = 1; i <= la; i++) {
		unsigned least = now[0] = (unsigned)i;

		for (size_t j = 1; j <= lb; j++) {
			now[j] = min3(last[j] + 1, now[j - 1] + 1,
				      last[j - 1] + !same_letter(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]) && above[j - 2] + 1 < now[j]) {
				now[j] = above[j - 2] + 1;
			}
			least = now[j] < least ? now[j] : least;
		}
		if (least > limit) {
			return limit + 1;
		}
		spare = above;
		above = last;
		last = now;
		now = spare;
	}
	return last[lb];
}

const char *sgpu_nearest_name(const char *name, const char *const *names)
{
	const char *nearest = NULL;
	size_t length = strlen(name);
	unsigned best = length < 3 ? 2 : (unsigned)(length / 3) + 1; /* more than the most edits */

	for (size_t i = 0; names[i]; i++) {
		unsigned distance = distance_of(name, names[i], best - 1);

		if (distance < best) {
			best = distance;
			nearest = names[i];
		}
		if (!best) {
			return nearest;
		}
	}
	if (nearest || length < 2) {
		return nearest;
	}
	/* The name may be an abbreviation: take the shortest name that starts with it. */
	for (size_t i = 0; names[i]; i++) {
		if (strncasecmp(name, names[i], length) == 0 &&
		    (!nearest || strlen(names[i]) < strlen(nearest))) {
			nearest = names[i];
		}
	}
	return nearest;
}
