/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables in Markdown, which are aligned for a terminal, too; and numbers with units.
 */
#include <ctype.h>
#include <inttypes.h>
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
static const char *scaled(double value, enum sgpu_bench_unit unit, char text[TEXT_MAX])
{
	static const char *const scales[][5] = {
		[SGPU_BENCH_BYTES_PER_SECOND] = { "B/s", "kB/s", "MB/s", "GB/s" },
		[SGPU_BENCH_OPERATIONS_PER_SECOND] = { "op/s", "kop/s", "Mop/s" },
		[SGPU_BENCH_NS] = { "ns", "us", "ms", "s" },
	};
	const char *const *name = scales[unit];
	int digits;

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

const char *value_text(const struct sgpu_bench_record *record, char text[TEXT_MAX])
{
	scaled(sgpu_bench_value(record), record->unit, text);
	if (record->unit == SGPU_BENCH_NS && record->operations > 1) {
		strncat(text, "/op", TEXT_MAX - strlen(text) - 1);
	}
	return text;
}

/* "h2d, 64 MiB", or "streams 4" where a number alone says nothing. */
static const char *point_text(const struct sgpu_bench_record *record, char text[LABEL_MAX])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t length = 0;

	text[0] = '\0';
	for (int i = 0; i < record->parameter_count && length < LABEL_MAX; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];
		const size_t key = strlen(p->key);
		const bool is_size = key >= 5 && strcmp(p->key + key - 5, "bytes") == 0;
		char one[SGPU_BENCH_NAME_MAX + 24];
		uint64_t value = p->number;
		int unit = 0;

		for (; is_size && value >= 1024 && value % 1024 == 0 && unit < 4; unit++) {
			value /= 1024;
		}
		if (!p->is_number) {
			snprintf(one, sizeof(one), "%s", p->text);
		} else if (is_size) {
			snprintf(one, sizeof(one), "%" PRIu64 " %s", value, units[unit]);
		} else {
			snprintf(one, sizeof(one), "%s %" PRIu64, p->key, value);
		}
		length += (size_t)snprintf(text + length, LABEL_MAX - length, "%s%s",
					   length ? ", " : "", one);
	}
	return text;
}

/* ---- rows ---- */
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

/* ---- records ---- */
static const struct column record_columns[] = {
	{ "case", 12 },	   { "point", 32 }, { "variant", 18 }, { "result", 12 }, { "min", 7 },
	{ "median", 7 },   { "p90", 7 },    { "p95", 7 },      { "spread", 7 },	 { "CPU time", 8 },
	{ "CPU/wall", 8 }, { "n", 4 },	    { "ratio", 15 },   { "goal", 7 },	 { NULL, 0 },
};

static void print_passed(FILE *out, const struct sgpu_bench_record *r, const char *point)
{
	char text[7][TEXT_MAX], spread[TEXT_MAX], share[TEXT_MAX], n[TEXT_MAX],
		ratio[LABEL_MAX] = "";
	const char *const cells[] = {
		r->name,
		point,
		r->variant,
		value_text(r, text[0]),
		time_text(r->ns.min, text[1]),
		time_text(r->ns.median, text[2]),
		r->ns.p90 > 0 ? time_text(r->ns.p90, text[3]) : "",
		time_text(r->ns.p95, text[4]),
		spread,
		time_text(r->cpu_ns, text[5]),
		share,
		n,
		ratio,
		r->goal_ns > 0 ? time_text(r->goal_ns, text[6]) : "",
	};

	snprintf(spread, sizeof(spread), "%.1f %%", rounded(r->ns.spread * 100, 1));
	snprintf(share, sizeof(share), "%.2f", rounded(r->cpu_ns / r->ns.median, 2));
	snprintf(n, sizeof(n), "%" PRIu64, r->ns.n);
	if (r->ratio_to[0]) {
		snprintf(ratio, sizeof(ratio), "%.3f x %s", rounded(r->ratio.median, 3),
			 r->ratio_to);
	}
	print_row(out, record_columns, cells);
}

void print_record(FILE *out, const struct sgpu_bench_record *record)
{
	char point[LABEL_MAX], why[LABEL_MAX + TEXT_MAX];

	if (!record) {
		print_head(out, record_columns);
	} else if (record->status == SGPU_BENCH_PASSED) {
		print_passed(out, record, point_text(record, point));
	} else {
		const char *const cells[SGPU_ARRAY_LENGTH(record_columns)] = {
			record->name, point_text(record, point), record->variant, why
		};

		snprintf(why, sizeof(why), "%s: %s", sgpu_bench_statuses[record->status],
			 record->reason);
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
