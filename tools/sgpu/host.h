/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts: machines with a server, which has to prove what it runs before each job is sealed to it.
 */
#ifndef SGPU_HOST_H
#define SGPU_HOST_H

#include "sgpu.h"

enum { HOST_NAME_MAX_SIZE = 64, NONCE_TEXT = 65 };

struct host {
	char name[HOST_NAME_MAX_SIZE + 1];
	char directory[PATH_MAX]; /* of its files */
	char policy[PATH_MAX + 16], roots[PATH_MAX + 16];
	json_t *json;		    /* host.json */
	const char *address;	    /* of ssh; NULL: this machine */
	const char *socket;	    /* of the server there; NULL: the default */
	char command[2 * PATH_MAX]; /* what ssh executes */
};

void host_name_files(struct host *host);
/* Errors: SGPU_EUSAGE: no name of a host. */
SGPU_MUST_CHECK int host_place(const char *name, struct host *host, struct sgpu_error *error);
/* Kept by `host add`. Errors: SGPU_EUSAGE: there is none of that name; SGPU_EPOLICY: others can
 * change its files. */
SGPU_MUST_CHECK int host_load(const char *name, struct host *host, struct sgpu_error *error);
void host_clear(struct host *host);
/* Sets the words of a program of the host's machine; `words` is "sgpu-run -q" and the like, and its
 * own words need no quoting. */
void host_words(struct host *host, const char *program, const char *arguments, struct words *words);

/* Asks for a quote for a new nonce. *quote: a memory file. Returns an exit status after a message.
 */
int host_quote(struct host *host, char nonce[NONCE_TEXT], int *quote);
/* Judges a quote by a policy. *recipient: a memory file with the key to seal to. Returns an exit
 * status after a message. */
int host_appraise(const struct host *host, const char *policy, const char *nonce, int quote,
		  int *recipient);
/* Asks a host for a quote and judges it by what was kept. */
int host_prove(struct host *host, int *recipient);

#endif
