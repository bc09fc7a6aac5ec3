/* SPDX-License-Identifier: Apache-2.0
 *
 * The published flows of a conversion, as formulas.
 */
#include "conversion.h"

/* Linux puts so many entries into a page-state change (VMGEXIT_PSC_MAX_ENTRY), each of 4 KiB or 2
 * MiB. A call of a TDX guest to its hypervisor passes the TDX module on both ways. */
enum { SNP_ENTRIES = 64, TDX_EXITS = 2 };

uint64_t conversion_exits(unsigned terms, const struct conversion_call *call)
{
	const uint64_t parts =
		call->page_bytes > CONVERSION_HUGE ? call->page_bytes / CONVERSION_HUGE : 1;

	return terms & CONVERSION_SNP_EXITS ? (call->pages * parts + SNP_ENTRIES - 1) / SNP_ENTRIES
	       : terms & CONVERSION_TDX_EXITS ? TDX_EXITS
	       : terms & CONVERSION_EXIT      ? call->pages
					      : 0;
}

double conversion_model(unsigned terms, const struct conversion_call *call,
			const struct conversion_costs *costs)
{
	const bool clears =
		terms & CONVERSION_CLEAR || (terms & CONVERSION_ACCEPT && call->to_private);
	const double page_ns =
		(terms & CONVERSION_FAULT ? costs->fault_ns : 0) + (clears ? costs->clear_ns : 0);

	return (terms & CONVERSION_FLIP ? costs->flip_ns : 0) +
	       (double)conversion_exits(terms, call) * costs->exit_ns +
	       (double)call->pages * page_ns;
}
