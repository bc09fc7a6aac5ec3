/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of spans, apart from the trace: sgpu-run prints them, and links no cryptography.
 */
#include "run/run.h"

const char *sgpu_span_name(enum sgpu_span_kind kind)
{
	static const char *const names[SGPU_SPAN_KINDS] = {
		[SGPU_SPAN_READ] = "read",   [SGPU_SPAN_COPY_IN] = "copy_in",
		[SGPU_SPAN_OPEN] = "open",   [SGPU_SPAN_KERNEL] = "kernel",
		[SGPU_SPAN_SEAL] = "seal",   [SGPU_SPAN_COPY_OUT] = "copy_out",
		[SGPU_SPAN_WRITE] = "write", [SGPU_SPAN_MOVE] = "move",
	};

	return (unsigned)kind < SGPU_SPAN_KINDS ? names[kind] : "unknown";
}
