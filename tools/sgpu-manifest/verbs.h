/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-manifest, one file each.
 */
#ifndef SGPU_MANIFEST_VERBS_H
#define SGPU_MANIFEST_VERBS_H

#include "cli.h"

#define MANIFEST_VERB(name)                              \
	extern const struct cli_option name##_options[]; \
	int verb_##name(int argc, char **argv)

MANIFEST_VERB(check);
MANIFEST_VERB(show);
MANIFEST_VERB(canon);
MANIFEST_VERB(hash);
MANIFEST_VERB(schema);
MANIFEST_VERB(init);
MANIFEST_VERB(pack);
MANIFEST_VERB(split);
MANIFEST_VERB(merge);
MANIFEST_VERB(ops);

/* Rows that several verbs have. */
#define OPTION_OUTSIDE(type)                                                                 \
	{                                                                                    \
		"allow-outside", 0, NULL, "let inputs lie outside the manifest's directory", \
			CLI_FLAG(type, outside)                                              \
	}
#define OPTION_OUTPUT(type)                                                   \
	{                                                                     \
		"output", 'o', "FILE", "write there, not to standard output", \
			CLI_TEXT(type, output)                                \
	}

#endif
