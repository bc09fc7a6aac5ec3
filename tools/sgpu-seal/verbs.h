/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-seal, one file each.
 */
#ifndef SGPU_SEAL_VERBS_H
#define SGPU_SEAL_VERBS_H

#include "cli.h"

#define SEAL_VERB(name)                                  \
	extern const struct cli_option name##_options[]; \
	int verb_##name(int argc, char **argv)

SEAL_VERB(keygen);
SEAL_VERB(pubkey);
SEAL_VERB(keyinfo);
SEAL_VERB(seal);
SEAL_VERB(open);
SEAL_VERB(seal_file);
SEAL_VERB(open_file);
SEAL_VERB(inspect);
SEAL_VERB(rewrap);

#endif
