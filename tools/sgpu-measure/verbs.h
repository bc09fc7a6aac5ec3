/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-measure, one file each.
 */
#ifndef SGPU_MEASURE_VERBS_H
#define SGPU_MEASURE_VERBS_H

#include "cli.h"

#define MEASURE_VERB(name)                               \
	extern const struct cli_option name##_options[]; \
	int verb_##name(int argc, char **argv)

MEASURE_VERB(keygen);
MEASURE_VERB(certify);
MEASURE_VERB(quote);
MEASURE_VERB(verify);
MEASURE_VERB(appraise);
MEASURE_VERB(policy);
MEASURE_VERB(inspect);
MEASURE_VERB(extend);
MEASURE_VERB(info);
MEASURE_VERB(memory);

#endif
