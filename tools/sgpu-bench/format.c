/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers with units, for people.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "verbs.h"

/* By the unit of a case; each is a thousand of the one before. */
static const char *const scales[][5] = {
	[SGPU_BENCH_BYTES_PER_SECOND] = { "B/s", "kB/s", "MB/s", "GB/s" },
	[SGPU_BENCH_OPERATIONS_PER_SECOND] = { "op/s", "kop/s", "Mop/s" },
	[SGPU_BENCH_NS] = { "ns", "us", "ms", "s" },
};

double rounded(double value, int digits)
{
	return round(value * pow(10, digits)) / pow(10, digits);
}

/* Three digits that count, in the largest unit that leaves one before the point. */
static const char *scaled(double value, const char *const *units, char text[TEXT_MAX])
{
	double scale = 1;
	int digits;

	for (; units[1] && value >= 1000 * scale; units++) {
		scale *= 1000;
	}
	value /= scale;
	digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	snprintf(text, TEXT_MAX, "%.*f %s", digits, rounded(value, digits), *units);
	return text;
}

const char *time_text(double ns, char text[TEXT_MAX])
{
	return scaled(ns, scales[SGPU_BENCH_NS], text);
}

const char *value_text(const struct sgpu_bench_record *record, char text[TEXT_MAX])
{
	scaled(sgpu_bench_value(record), scales[record->unit], text);
	if (record->unit == SGPU_BENCH_NS && record->operations > 1) {
		strncat(text, "/op", TEXT_MAX - strlen(text) - 1);
	}
	return text;
}

const char *parameter_text(const struct sgpu_bench_record_parameter *parameter, char text[TEXT_MAX])
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB" };
	const size_t length = strlen(parameter->key);
	const bool is_size = length >= 5 && strcmp(parameter->key + length - 5, "bytes") == 0;
	uint64_t value = parameter->number;
	int unit = 0;

	while (is_size && value >= 1024 && value % 1024 == 0 && unit < 4) {
		value /= 1024;
		unit++;
	}
	if (parameter->is_number) {
		snprintf(text, TEXT_MAX, "%" PRIu64 "%s", value, is_size ? units[unit] : "");
	} else {
		snprintf(text, TEXT_MAX, "%s", parameter->text);
	}
	return text;
}
