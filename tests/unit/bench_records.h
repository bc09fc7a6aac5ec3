/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of the bench, made up.
 */
#ifndef BENCH_RECORDS_H
#define BENCH_RECORDS_H

#include <stdio.h>

#include "bench/private.h"

#include "unit.h"

static struct sgpu_error error;

static inline struct sgpu_bench_record passed(const char *name, const char *variant, uint64_t size,
					      double median, double mad)
{
	struct sgpu_bench_record r = {
		.unit = SGPU_BENCH_BYTES_PER_SECOND, .bytes = size, .operations = 2, .cpu_ns = 7
	};

	snprintf(r.name, sizeof(r.name), "%s", name);
	snprintf(r.variant, sizeof(r.variant), "%s", variant);
	r.parameter_count = 2;
	snprintf(r.parameters[0].key, sizeof(r.parameters[0].key), "size_bytes");
	r.parameters[0].is_number = true;
	r.parameters[0].number = size;
	snprintf(r.parameters[1].key, sizeof(r.parameters[1].key), "direction");
	snprintf(r.parameters[1].text, sizeof(r.parameters[1].text), "h2d");
	r.ns = (struct sgpu_bench_statistics){ .n = 9,
					       .min = median - 1,
					       .median = median,
					       .p95 = median + 1,
					       .mad = mad,
					       .spread = 2 / median };
	return r;
}

static inline void set_ratio(struct sgpu_bench_record *r, double ratio, double mad)
{
	snprintf(r->ratio_to, sizeof(r->ratio_to), "plain");
	r->ratio = (struct sgpu_bench_statistics){
		.n = 9, .min = ratio - 0.01, .median = ratio, .p95 = ratio + 0.01, .mad = mad
	};
}

static inline void add(struct sgpu_bench_results *results, struct sgpu_bench_record record)
{
	CHECK(sgpu_bench_append((void **)&results->records, &results->count, &record,
				sizeof(record), &error) == SGPU_OK);
}

#endif
