/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion of pages between private and shared: the published flows as formulas, and the sources
 * of figures.
 */
#ifndef BENCH_CONVERSION_H
#define BENCH_CONVERSION_H

#include <sgpu/bench.h>

#include "kvm_guest.h"

/* One call that converts pages. */
struct conversion_call {
	bool to_private;
	uint64_t pages, page_bytes;
};

/* The terms: an exit from a guest and the entry after it; the change of the call's page-table
 * entries, with the TLB shootdown; the fault for one page; clearing one page. */
struct conversion_costs {
	double exit_ns, flip_ns, fault_ns, clear_ns;
};

/* What a time is the sum of, as a set, and the flows. The host maps each page anew; the TDX module
 * clears one that is accepted. */
enum conversion_terms {
	CONVERSION_FLIP = 1,
	CONVERSION_FAULT = 2, /* this and the next three: for each page */
	CONVERSION_CLEAR = 4,
	CONVERSION_ACCEPT = 8, /* clearing on the way to private alone */
	CONVERSION_EXIT = 16,
	CONVERSION_SNP_EXITS = 32, /* for each 64 entries */
	CONVERSION_TDX_EXITS = 64, /* two for a call */
	CONVERSION_SNP_PAPER = CONVERSION_FLIP,
	CONVERSION_SNP = CONVERSION_FLIP | CONVERSION_SNP_EXITS | CONVERSION_FAULT,
	CONVERSION_TDX =
		CONVERSION_FLIP | CONVERSION_TDX_EXITS | CONVERSION_FAULT | CONVERSION_ACCEPT,
};

/* How often a call leaves the guest. */
uint64_t conversion_exits(unsigned terms, const struct conversion_call *call);
/* What a call takes, less what no machine without the hardware can time: PVALIDATE and RMPUPDATE of
 * SNP, and of TDG.MEM.PAGE.ACCEPT everything but the clearing. */
double conversion_model(unsigned terms, const struct conversion_call *call,
			const struct conversion_costs *costs);

struct conversion {
	struct sgpu_bench *bench;
	struct kvm_guest guest;
	bool has_guest, is_emulated; /* of an emulated guest, only the host's side is timed */
	struct sgpu_error why;	     /* why there is no guest, or that it is emulated */
	void *huge, *small;	     /* a huge page, and as much in small ones */
	struct sgpu_stream *stream;
	sgpu_devptr device_memory;
	void *pool, *private; /* pinned where the device can; ordinary */
	uint64_t room;	      /* bytes of the three above */
};

/* A variant: a way to convert. */
struct conversion_way {
	const char *name;
	/* Makes one call. Its time does not include what has to come before. */
	int (*convert)(const struct conversion_way *way, const struct conversion_call *call,
		       double *ns, struct sgpu_error *error);
	int detail;	      /* for convert */
	struct conversion *c; /* the rest is set by the functions below */
	struct conversion_call call;
	uint64_t copied; /* bytes of a buffer that is copied to the device, too */
	double least_ns; /* of all samples */
};

/* Measures a point for these variants, all of which make the same call. what: "conversion", or a
 * part of one. */
SGPU_MUST_CHECK int conversion_measure(struct conversion *c, const char *what, const char *source,
				       const struct conversion_call *call, unsigned threads,
				       struct conversion_way *ways, int count,
				       struct sgpu_error *error);
/* Measures streaming to the device: through a pool that stays shared, and with two calls that
 * convert each buffer. */
SGPU_MUST_CHECK int conversion_stream(struct conversion *c, const char *source, uint64_t page_bytes,
				      const struct conversion_way *ways, int count,
				      struct sgpu_error *error);

/* All points of a source. */
SGPU_MUST_CHECK int conversion_by_hardware(struct conversion *c, struct sgpu_error *error);
SGPU_MUST_CHECK int conversion_by_guest(struct conversion *c, struct sgpu_error *error);
SGPU_MUST_CHECK int conversion_by_model(struct conversion *c, struct sgpu_error *error);

#define CONVERSION_SMALL ((uint64_t)4 << 10)
#define CONVERSION_HUGE ((uint64_t)2 << 20)
/* The batches of the sweep: pages of a call. */
enum { CONVERSION_BATCHES = 4 };
extern const uint64_t conversion_batches[CONVERSION_BATCHES];

#endif
