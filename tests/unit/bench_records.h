/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of the bench, made up.
 */
#ifndef BENCH_RECORDS_H
#define BENCH_RECORDS_H

#include <bench/bench.h>

#include "unit.h"

static struct sgpu_error error;

static inline void set(json_t *record, const char *key, double value)
{
	CHECK(json_object_set_new(record, key, json_real(value)) == 0);
}

static inline json_t *passed(const char *name, const char *variant, uint64_t size, double median,
			     double mad)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:I, s:s}, s:i, s:f, s:f, s:f, s:f, s:f, "
			 "s:i, s:I, s:i}",
			 "record", "measurement", "case", name, "variant", variant, "unit",
			 SGPU_BENCH_BYTES_PER_SECOND, "status", "passed", "parameters",
			 "size_bytes", (json_int_t)size, "direction", "h2d", "n", 9, "min_ns",
			 median - 1, "median_ns", median, "p95_ns", median + 1, "mad_ns", mad,
			 "spread", 2 / median, "cpu_median_ns", 7, "bytes", (json_int_t)size,
			 "operations", 2);
}

static inline void set_ratio(json_t *record, double ratio, double mad)
{
	CHECK(json_object_set_new(record, "ratio_to", json_string("plain")) == 0);
	set(record, "ratio", ratio);
	set(record, "ratio_min", ratio - 0.01);
	set(record, "ratio_p95", ratio + 0.01);
	set(record, "ratio_mad", mad);
}

/* Takes over the record. */
static inline void add(struct sgpu_bench_results *results, json_t *record)
{
	results->records = results->records ? results->records : json_array();
	CHECK(json_array_append_new(results->records, record) == 0);
}

#endif
