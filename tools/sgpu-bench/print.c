/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables in Markdown, which are aligned for a terminal, too; and numbers with units.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verbs.h"

/* Rounds to `digits` decimals, halves away from 0, so that others can recompute a table. */
static double rounded(double value, int digits)
{
	return round(value * pow(10, digits)) / pow(10, digits);
}

/* Three significant digits, in the largest unit that leaves one before the point. */
static const char *scaled(double value, const char *unit, char text[TEXT_MAX])
{
	static const char *const scales[][5] = {
		{ SGPU_BENCH_BYTES_PER_SECOND, "kB/s", "MB/s", "GB/s" },
		{ SGPU_BENCH_OPERATIONS_PER_SECOND, "kop/s", "Mop/s" },
		{ SGPU_BENCH_NS, "us", "ms", "s" },
	};
	const char *const *name = scales[0];
	int digits;

	while (strcmp(*name, unit) != 0) {
		name += SGPU_ARRAY_LENGTH(scales[0]);
	}
	for (; name[1] && value >= 1000; name++) {
		value /= 1000;
	}
	digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	snprintf(text, TEXT_MAX, "%.*f %s", digits, rounded(value, digits), *name);
	return text;
}

const char *time_text(double ns, char text[TEXT_MAX])
{
	return scaled(ns, SGPU_BENCH_NS, text);
}

const char *value_text(const json_t *record, char text[TEXT_MAX])
{
	const char *unit = sgpu_bench_text(record, "unit");

	scaled(sgpu_bench_value(record), unit, text);
	if (strcmp(unit, SGPU_BENCH_NS) == 0 && sgpu_bench_number(record, "operations") > 1) {
		strncat(text, "/op", TEXT_MAX - strlen(text) - 1);
	}
	return text;
}

/* "h2d, 64 MiB", or "streams 4" where a number alone says nothing. */
static const char *point_text(const json_t *record, char text[LABEL_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t length = 0;
	const char *key;
	json_t *parameter;

	text[0] = '\0';
	json_object_foreach (json_object_get(record, "parameters"), key, parameter) {
		const size_t end = strlen(key);
		const bool is_size = end >= 5 && strcmp(key + end - 5, "bytes") == 0;
		char one[SGPU_BENCH_NAME_MAX + 24];
		json_int_t value = json_integer_value(parameter);
		int unit = 0;

		for (; is_size && value >= 1024 && value % 1024 == 0 && unit < 4; unit++) {
			value /= 1024;
		}
		if (json_is_string(parameter)) {
			snprintf(one, sizeof(one), "%s", json_string_value(parameter));
		} else if (is_size) {
			snprintf(one, sizeof(one), "%" JSON_INTEGER_FORMAT " %s", value,
				 units[unit]);
		} else {
			snprintf(one, sizeof(one), "%s %" JSON_INTEGER_FORMAT, key, value);
		}
		if (length < LABEL_MAX) {
			length += (size_t)snprintf(text + length, LABEL_MAX - length, "%s%s",
						   length ? ", " : "", one);
		}
	}
	return text;
}

/* Escapes all that could be taken for HTML or formatting. */
static int put_plain(FILE *out, const char *text)
{
	int width = 0;

	for (const char *c = text; *c; c++) {
		const bool is_inside = *c == '_' && c > text && isalnum((unsigned char)c[-1]) &&
				       isalnum((unsigned char)c[1]);

		if (!is_inside && strchr("|\\<>&*_`[]", *c)) {
			fputc('\\', out);
			width++;
		}
		fputc(*c, out);
		width++;
	}
	return width;
}

void print_row(FILE *out, const struct column *columns, const char *const *cells)
{
	for (; columns->head; columns++, cells++) {
		int width;

		fputs("| ", out);
		width = put_plain(out, *cells ? *cells : "");
		fprintf(out, "%*s ", width < columns->width ? columns->width - width : 0, "");
	}
	fputs("|\n", out);
}

void print_head(FILE *out, const struct column *columns)
{
	for (int i = 0; columns[i].head; i++) {
		fprintf(out, "| %-*s ", columns[i].width, columns[i].head);
	}
	fputs("|\n", out);
	for (int i = 0; columns[i].head; i++) {
		fputs("|---", out);
	}
	fputs("|\n", out);
}

static const struct column record_columns[] = {
	{ "case", 12 },	   { "point", 32 }, { "variant", 18 }, { "result", 12 }, { "min", 7 },
	{ "median", 7 },   { "p90", 7 },    { "p95", 7 },      { "spread", 7 },	 { "CPU time", 8 },
	{ "CPU/wall", 8 }, { "n", 4 },	    { "ratio", 15 },   { "goal", 7 },	 { NULL, 0 },
};

/* Of a member; "" if the record lacks it. */
static const char *member_time(const json_t *record, const char *key, char text[TEXT_MAX])
{
	const double ns = sgpu_bench_number(record, key);

	return json_object_get(record, key) ? time_text(ns, text) : "";
}

static void print_passed(FILE *out, const json_t *r, const char *point)
{
	char text[7][TEXT_MAX], spread[TEXT_MAX], share[TEXT_MAX], n[TEXT_MAX],
		ratio[LABEL_MAX] = "";
	const char *const to = sgpu_bench_text(r, "ratio_to");
	const char *const cells[] = {
		sgpu_bench_text(r, "case"),
		point,
		sgpu_bench_text(r, "variant"),
		value_text(r, text[0]),
		member_time(r, "min_ns", text[1]),
		member_time(r, "median_ns", text[2]),
		member_time(r, "p90_ns", text[3]),
		member_time(r, "p95_ns", text[4]),
		spread,
		member_time(r, "cpu_median_ns", text[5]),
		share,
		n,
		ratio,
		member_time(r, "goal_ns", text[6]),
	};

	snprintf(spread, sizeof(spread), "%.1f %%",
		 rounded(sgpu_bench_number(r, "spread") * 100, 1));
	snprintf(share, sizeof(share), "%.2f",
		 rounded(sgpu_bench_number(r, "cpu_median_ns") / sgpu_bench_number(r, "median_ns"),
			 2));
	snprintf(n, sizeof(n), "%.0f", sgpu_bench_number(r, "n"));
	if (to[0]) {
		snprintf(ratio, sizeof(ratio), "%.3f x %s",
			 rounded(sgpu_bench_number(r, "ratio"), 3), to);
	}
	print_row(out, record_columns, cells);
}

void print_record(FILE *out, const json_t *record)
{
	char point[LABEL_MAX], why[LABEL_MAX + TEXT_MAX];

	if (!record) {
		print_head(out, record_columns);
	} else if (sgpu_bench_passed(record)) {
		print_passed(out, record, point_text(record, point));
	} else {
		const char *const cells[SGPU_ARRAY_LENGTH(record_columns)] = {
			sgpu_bench_text(record, "case"), point_text(record, point),
			sgpu_bench_text(record, "variant"), why
		};

		snprintf(why, sizeof(why), "%s: %s", sgpu_bench_text(record, "status"),
			 sgpu_bench_text(record, "reason"));
		print_row(out, record_columns, cells);
	}
}

void print_environment(FILE *out, const json_t *environment)
{
	static const struct column columns[] = { { "machine", 26 }, { "", 40 }, { NULL, 0 } };
	const char *key;
	json_t *value;

	print_head(out, columns);
	json_object_foreach ((json_t *)environment, key, value) {
		char *text = json_is_string(value)
				     ? NULL
				     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		const char *shown = text ? text : json_string_value(value);

		if (strcmp(key, "record") != 0 && shown && shown[0] && !json_is_null(value)) {
			print_row(out, columns, (const char *const[]){ key, shown });
		}
		free(text);
	}
	fputc('\n', out);
}
