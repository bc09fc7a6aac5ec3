/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files that make outputs: the names that one has, temporary ones and its own.
 */
#ifndef SGPU_BASE_OUTPUT_NAME_H
#define SGPU_BASE_OUTPUT_NAME_H

#include <sgpu/io.h>

/* Removes temporary files of this user in the directory that no living process holds. */
void sgpu_output_names_collect(int directory);
/* Creates the output under a temporary name. */
SGPU_MUST_CHECK int sgpu_output_name_create(struct sgpu_output *output, mode_t mode,
					    struct sgpu_error *error);
/* Gives it its name, if nothing has that. */
SGPU_MUST_CHECK int sgpu_output_name_give(struct sgpu_output *output, struct sgpu_error *error);
/* Gives the output its name, and replaces a file of that name. */
SGPU_MUST_CHECK int sgpu_output_name_replace(struct sgpu_output *output, struct sgpu_error *error);

#endif
