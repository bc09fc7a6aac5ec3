/* SPDX-License-Identifier: Apache-2.0
 *
 * The other forms in which a manifest is shown.
 */
#ifndef SGPU_MANIFEST_SHOW_H
#define SGPU_MANIFEST_SHOW_H

#include <stdlib.h>

#include <sgpu/manifest.h>

/* The type of a segment; a module without data_type_info is "u8[file]". */
void show_type(const struct sgpu_segment *segment, char text[SGPU_TYPE_TEXT_MAX]);
/* Operations step by step: those of one step can run at the same time. */
void show_steps(const struct sgpu_manifest *manifest, const int *level, int last);
/* Graphviz: segments as ellipses, HIGH ones filled, operations as boxes, order without data dashed.
 */
void show_dot(const struct sgpu_manifest *manifest);
json_t *show_json(const struct sgpu_manifest *manifest);

#endif
