/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-run, one file each.
 */
#ifndef SGPU_RUN_VERBS_H
#define SGPU_RUN_VERBS_H

#include "cli.h"

extern const struct cli_option submit_options[], worker_options[], serve_options[],
	status_options[], session_options[], quote_options[], info_options[], ops_options[];
int verb_submit(int argc, char **argv);
int verb_worker(int argc, char **argv);
int verb_serve(int argc, char **argv);
int verb_status(int argc, char **argv);
int verb_session(int argc, char **argv);
int verb_quote(int argc, char **argv);
int verb_info(int argc, char **argv);
int verb_ops(int argc, char **argv);

#endif
