/* SPDX-License-Identifier: Apache-2.0
 *
 * What a quote says of a host, for people; nothing here verifies it.
 */
#ifndef SGPU_FACTS_H
#define SGPU_FACTS_H

#include <jansson.h>

enum { FACTS_CODE_MAX = 16, FACTS_HEX = 65, FACTS_TEXT = 128 };

struct facts {
	char digest[FACTS_HEX];		      /* of its sgpu-enclave */
	char code[FACTS_CODE_MAX][FACTS_HEX]; /* of device code */
	int code_count;
	json_t *owners; /* whose batches it takes; NULL: anybody's */
	char kind[FACTS_TEXT], row[FACTS_TEXT], device[FACTS_TEXT];
	char authority[FACTS_TEXT]; /* SHA-256 of the certificate at the chain's end */
	char *certificate;	    /* that, in PEM */
};

/* Reads the quote in a file. Returns an exit status after a message. */
int facts_read(int quote, struct facts *facts);
void facts_clear(struct facts *facts);

#endif
