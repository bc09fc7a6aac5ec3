/* SPDX-License-Identifier: Apache-2.0
 *
 * The passphrases of a person's keys; sgpu and sgpu-measure are linked with this file, too.
 */
#ifndef SGPU_PASSPHRASE_H
#define SGPU_PASSPHRASE_H

#include <sgpu/keys.h>

#include "cli.h"

/* For verbs with a person's keys: --passphrase-fd. */
extern const struct cli_option passphrase_rows[];
extern int passphrase_fd; /* -1: the option was not given */

/* For sgpu_key_ask: reads a passphrase from the descriptor or the terminal. */
int passphrase_ask(const char *name, char text[SGPU_PASSPHRASE_MAX], size_t *size,
		   struct sgpu_error *error);
/* Encrypts the text of keys by a new passphrase, asked for twice. */
SGPU_MUST_CHECK int passphrase_protect(const char *name, char **text, size_t *size,
				       struct sgpu_error *error);

#endif
