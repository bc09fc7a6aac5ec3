/* SPDX-License-Identifier: Apache-2.0
 *
 * Types, sizes and diagnostics for other parts of the library.
 */
#ifndef SGPU_MANIFEST_MANIFEST_H
#define SGPU_MANIFEST_MANIFEST_H

#include <stdarg.h>

#include <sgpu/manifest.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the length of an id, even if too long; 0 if it is malformed. */
size_t sgpu_id_length(const char *id);
/* Returns the length of a name of letters, digits and '_', not first a digit; 0 for any other. */
size_t sgpu_identifier(const char *name);
bool sgpu_has_control(const char *text);
size_t sgpu_dtype_size(enum sgpu_dtype dtype); /* bytes of one element; 0 for SGPU_NONE */
/* False unless the product of the extents is below 2^53. */
bool sgpu_type_elements(const struct sgpu_type *type, uint64_t *elements);
bool sgpu_type_equal(const struct sgpu_type *a, const struct sgpu_type *b);
/* Sets the type of a segment with size_of_file. size: bytes, below 2^53. */
static inline void sgpu_segment_set_size(struct sgpu_segment *segment, uint64_t size)
{
	segment->type = (struct sgpu_type){ SGPU_U8, 1, { size, 0, 0, 0 } };
}
/* Returns the segment that an operation reads by argument k or, if k is arg_count, as its module;
 * -1: none. */
static inline int sgpu_operation_reads(const struct sgpu_operation *operation, int k)
{
	if (k == operation->arg_count) {
		return operation->module ? operation->module->segment : -1;
	}
	return operation->args[k].output ? -1 : operation->args[k].segment;
}

/* hint may be NULL. Text and hint become printable ASCII, as in sgpu_fail. */
void sgpu_diagnostic_add(struct sgpu_diagnostics *diagnostics, const char *pointer,
			 const char *hint, const char *format, ...) SGPU_PRINTF(4, 5);
/* The same at the member `field`, or NULL, of the value at the pointer `where`. */
void sgpu_diagnostic_addv(struct sgpu_diagnostics *diagnostics, const char *where,
			  const char *field, const char *hint, const char *format,
			  va_list arguments) __attribute__((format(printf, 5, 0)));

#ifdef __cplusplus
}
#endif
/* Whether a name can be a client_dma_*_var: that of a shell variable without a meaning. */
bool sgpu_variable_is_free(const char *name);

#endif
