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

/* Returns the edits from a to b, ignoring case; at least `most` if the lengths alone say so.
 * Swapping two adjacent letters is one edit (optimal string alignment). */
static unsigned distance_of(const char *a, const char *b, unsigned most)
{
	const size_t la = strlen(a), lb = strlen(b);
	unsigned edits[NAME_MAX_COMPARED + 1][NAME_MAX_COMPARED + 1]; /* of their beginnings */

	if (la > NAME_MAX_COMPARED || lb > NAME_MAX_COMPARED ||
	    (la > lb ? la - lb : lb - la) >= most) {
		return most;
	}
	for (size_t i = 0; i <= la; i++) {
		for (size_t j = 0; j <= lb; j++) {
			if (!i || !j) {
				edits[i][j] = (unsigned)(i + j);
				continue;
			}
			edits[i][j] = min3(edits[i - 1][j] + 1, edits[i][j - 1] + 1,
					   edits[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]) &&
			    edits[i - 2][j - 2] + 1 < edits[i][j]) {
				edits[i][j] = edits[i - 2][j - 2] + 1;
			}
		}
	}
	return edits[la][lb];
}

const char *sgpu_nearest_name(const char *name, const char *const *names)
{
	const char *nearest = NULL;
	size_t length = strlen(name);
	unsigned best = length < 3 ? 2 : (unsigned)(length / 3) + 1; /* more than the most edits */

	for (size_t i = 0; names[i]; i++) {
		unsigned distance = distance_of(name, names[i], best);

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
	/* For an abbreviation, take the shortest name that starts with it. */
	for (size_t i = 0; names[i]; i++) {
		if (strncasecmp(name, names[i], length) == 0 &&
		    (!nearest || strlen(names[i]) < strlen(nearest))) {
			nearest = names[i];
		}
	}
	return nearest;
}
