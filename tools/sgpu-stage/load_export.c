/* SPDX-License-Identifier: Apache-2.0
 *
 * Shell assignments for the variables that a manifest names. A manifest comes from outside and a
 * shell evaluates this, so nothing of it is printed but names that are looked at once more here;
 * what is assigned is a handle that a runner validates, never a pointer.
 */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "load.h"

static bool is_name(const char *name)
{
	static const char digits[] = "0123456789";
	static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

	return name[0] && !strchr(digits, name[0]) && strspn(name, all) == strlen(name);
}

static int print_handle(const struct load *load, const struct load_slice *slice, const char *name,
			struct sgpu_error *error)
{
	if (!is_name(name)) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' is not the name of a shell variable",
				 name);
	}
	printf("%s='sgpu:%s:%llu:%llu'\n", name, load->region.id, (unsigned long long)slice->offset,
	       (unsigned long long)slice->size);
	return SGPU_OK;
}

/* The largest size that the output may have; the response tells the one that it has. */
static int print_size(const struct load_slice *slice, const char *name, struct sgpu_error *error)
{
	if (!is_name(name)) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' is not the name of a shell variable",
				 name);
	}
	printf("%s='%llu'\n", name, (unsigned long long)slice->size);
	return SGPU_OK;
}

static int export_segment(const struct load *load, int i, const struct sgpu_segment *segment,
			  struct sgpu_error *error)
{
	const struct load_slice *slice = &load->slices[i];
	int which, code = SGPU_OK;

	for (which = 0; code == SGPU_OK && which < SGPU_DMA_VARS; which++) {
		const char *name = segment->dma_var[which];
		const bool of_output =
			which == SGPU_DMA_OUTPUT_HOST || which == SGPU_DMA_OUTPUT_SIZE;

		if (!name) {
			continue;
		}
		if (!slice->staged || of_output == (slice->from.kind != SGPU_LOCATION_NONE)) {
			cli_note("segment '%s' has no place in the region: '%s' is not set",
				 segment->id, name);
		} else if (which == SGPU_DMA_OUTPUT_SIZE) {
			code = print_size(slice, name, error);
		} else {
			code = print_handle(load, slice, name, error);
		}
	}
	return code;
}

int load_export(const struct load *load, struct sgpu_error *error)
{
	int i, index, code = SGPU_OK;

	for (i = 0; code == SGPU_OK && i < load->batch->segment_count; i++) {
		index = sgpu_manifest_segment(load->manifest, load->batch->segments[i].id);
		if (index >= 0) {
			code = export_segment(load, i, &load->manifest->segments[index], error);
		}
	}
	return code == SGPU_OK && fflush(stdout) != 0 ? sgpu_fail_write(error, "standard output")
						      : code;
}
