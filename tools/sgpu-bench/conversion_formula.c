/* SPDX-License-Identifier: Apache-2.0
 *
 * The published flows of a conversion, as formulas.
 */
#include "conversion.h"

/* Linux puts so many entries into a page-state change (VMGEXIT_PSC_MAX_ENTRY), each of 4 KiB or 2 MiB. A call of a TDX
 * guest to its hypervisor passes the TDX module on both ways. */
enum { SNP_ENTRIES = 64, TDX_EXITS = 2 };

uint64_t conversion_exits(enum conversion_flow flow, const struct conversion_call *call)
{
	const uint64_t parts = call->page_bytes > CONVERSION_HUGE ? call->page_bytes / CONVERSION_HUGE : 1;

	return flow == CONVERSION_SNP_PAPER ? 0 : flow == CONVERSION_TDX ? TDX_EXITS :
	       (call->pages * parts + SNP_ENTRIES - 1) / SNP_ENTRIES;
}

double conversion_model(enum conversion_flow flow, const struct conversion_call *call,
			const struct conversion_costs *costs)
{
	/* The host maps each page anew; the TDX module clears a page that is accepted. */
	const double fault_ns = flow == CONVERSION_SNP_PAPER ? 0 : costs->fault_ns;
	const double clear_ns = flow == CONVERSION_TDX && call->to_private ? costs->clear_ns : 0;

	return costs->flip_ns + (double)conversion_exits(flow, call) * costs->exit_ns +
	       (double)call->pages * (fault_ns + clear_ns);
}
