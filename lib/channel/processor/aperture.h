/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's view of the unprotected region.
 */
#ifndef SGPU_PROCESSOR_APERTURE_H
#define SGPU_PROCESSOR_APERTURE_H

#include "channel/processor/processor.h"

/* Frames that are to be mapped in a context leave it. */
int sgpu_aperture_drop(struct sgpu_processor *processor, uint32_t first, uint32_t count,
		       struct sgpu_error *error);

#endif
