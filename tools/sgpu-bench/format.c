/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units, for people.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "verbs.h"

struct scale {
	double least;
	const char *unit;
};

double rounded(double value, int digits)
{
	return round(value * pow(10, digits)) / pow(10, digits);
}

/* Three digits that count, in the largest unit that leaves one before the point. */
static const char *scaled(double value, const struct scale *scales, int count, char text[TEXT_MAX])
{
	int i = 0, digits;

	while (i < count - 1 && value < scales[i].least) {
		i++;
	}
	value /= scales[i].least;
	digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	snprintf(text, TEXT_MAX, "%.*f %s", digits, rounded(value, digits), scales[i].unit);
	return text;
}

const char *time_text(double ns, char text[TEXT_MAX])
{
	static const struct scale scales[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } };

	return scaled(ns, scales, SGPU_ARRAY_LENGTH(scales), text);
}

const char *value_text(const struct sgpu_bench_record *record, char text[TEXT_MAX])
{
	static const struct scale bytes[] = { { 1e9, "GB/s" }, { 1e6, "MB/s" }, { 1e3, "kB/s" }, { 1, "B/s" } };
	static const struct scale operations[] = { { 1e6, "Mop/s" }, { 1e3, "kop/s" }, { 1, "op/s" } };
	double value = sgpu_bench_value(record);

	switch (record->unit) {
	case SGPU_BENCH_BYTES_PER_SECOND:
		return scaled(value, bytes, SGPU_ARRAY_LENGTH(bytes), text);
	case SGPU_BENCH_OPERATIONS_PER_SECOND:
		return scaled(value, operations, SGPU_ARRAY_LENGTH(operations), text);
	default:
		time_text(value, text);
		if (record->operations > 1) {
			strncat(text, "/op", TEXT_MAX - strlen(text) - 1);
		}
		return text;
	}
}

static bool is_size(const char *key)
{
	size_t length = strlen(key);

	return length >= 5 && strcmp(key + length - 5, "bytes") == 0;
}

const char *parameter_text(const struct sgpu_bench_record_parameter *parameter, char text[TEXT_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	uint64_t value = parameter->number;
	int unit = 0;

	if (!parameter->is_number) {
		snprintf(text, TEXT_MAX, "%s", parameter->text);
	} else if (is_size(parameter->key)) {
		while (value >= 1024 && value % 1024 == 0 && unit < 4) {
			value /= 1024;
			unit++;
		}
		snprintf(text, TEXT_MAX, "%" PRIu64 " %s", value, units[unit]);
	} else {
		snprintf(text, TEXT_MAX, "%" PRIu64, value);
	}
	return text;
}
