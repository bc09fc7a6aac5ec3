/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table of operations as text and as JSON.
 */
#ifndef SGPU_MANIFEST_OP_INFO_H
#define SGPU_MANIFEST_OP_INFO_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "ops/ops.h"

enum { OP_TEXT_MAX = 160 };
const char *op_param_kind(enum sgpu_param_kind kind);
/* "f32 f64" */
void op_dtypes_text(unsigned dtypes, char text[OP_TEXT_MAX]);
/* "3" or "1 to 4" */
void op_ranks_text(const struct sgpu_op_argument *argument, char text[OP_TEXT_MAX]);
/* "0 to 5", "at least 0", "none|relu", "true|false"; empty when anything goes */
void op_range_text(const struct sgpu_op_param *param, char text[OP_TEXT_MAX]);
/* The default, "none" or "required". */
void op_default_text(const struct sgpu_op_param *param, char text[OP_TEXT_MAX]);
/* The default as a manifest would write it; NULL when it has none. */
json_t *op_default_json(const struct sgpu_op_param *param);
/* A number as JSON: an integer where it is one. NULL for a bound that is none. */
json_t *op_number_json(double number);

#endif
