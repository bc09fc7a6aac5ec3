/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device does for CH_PTE.
 */
#ifndef SGPU_PROCESSOR_PAGES_H
#define SGPU_PROCESSOR_PAGES_H

#include "channel/processor/processor.h"

enum sgpu_page_action { SGPU_PAGE_NONE, SGPU_PAGE_ADD, SGPU_PAGE_DROP, SGPU_PAGE_SWAP };
struct sgpu_page_change {
	struct sgpu_context *context;
	int kind;
	uint64_t va;
	uint32_t count;
	const uint32_t *before, *after; /* `count` pages each */
	const uint8_t *actions;		/* what becomes of each on the device */
};
/* All of it or, when the device fails, none of it; only that what was to be dropped may be clear
 * then, and, when the device fails again, missing. */
int sgpu_pages_change(struct sgpu_processor *processor, const struct sgpu_page_change *change,
		      struct sgpu_error *error);

#endif
