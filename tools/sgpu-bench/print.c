/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as lines of text, as CSV (RFC 4180) and as Markdown.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/private.h"
#include "verbs.h"

enum { LABEL_MAX = 256, CELL_MAX = 320 };

/* "h2d 64 MiB", or "streams 4" where a number alone says nothing. */
static void point_text(const struct sgpu_bench_record *record, char label[LABEL_MAX])
{
	char value[TEXT_MAX];
	int length = 0;

	label[0] = '\0';
	for (int i = 0; i < record->parameter_count && length < LABEL_MAX; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];
		bool named = p->is_number && !strstr(p->key, "bytes");

		length += snprintf(label + length, (size_t)(LABEL_MAX - length), "%s%s%s%s",
				   length ? ", " : "", named ? p->key : "", named ? " " : "",
				   parameter_text(p, value));
	}
}

/* What people want to know of a measurement. */
enum column {
	VARIANT,
	RESULT,
	MEDIAN,
	P95,
	EACH_P50,
	EACH_P99,
	SPREAD,
	CPU_TIME,
	N,
	RATIO,
	COLUMNS
};
static const char headings[COLUMNS][CELL_MAX] = { "variant",  "result",	  "median", "p95",
						  "each p50", "each p99", "spread", "CPU time",
						  "n",	      "ratio" };

/* One that did not pass has its status, and the reason in the next cell. */
static void fill_cells(const struct sgpu_bench_record *record, char cells[COLUMNS][CELL_MAX])
{
	int length;

	memset(cells, 0, COLUMNS * CELL_MAX);
	snprintf(cells[VARIANT], CELL_MAX, "%s", record->variant);
	if (record->status != SGPU_BENCH_PASSED) {
		snprintf(cells[RESULT], CELL_MAX, "%s", sgpu_bench_status_name(record->status));
		snprintf(cells[RESULT + 1], CELL_MAX, "%s", record->reason);
		return;
	}
	value_text(record, cells[RESULT]);
	time_text(record->ns.median, cells[MEDIAN]);
	time_text(record->ns.p95, cells[P95]);
	if (record->latency.p50_ns > 0) {
		time_text(record->latency.p50_ns, cells[EACH_P50]);
		time_text(record->latency.p99_ns, cells[EACH_P99]);
	}
	snprintf(cells[SPREAD], CELL_MAX, "%.1f %%", rounded(record->ns.spread * 100, 1));
	time_text(record->cpu_ns, cells[CPU_TIME]);
	snprintf(cells[N], CELL_MAX, "%" PRIu64, record->ns.n);
	if (record->ratio_to[0]) {
		length = snprintf(cells[RATIO], CELL_MAX, "%.3f x %s",
				  rounded(record->ratio.median, 3), record->ratio_to);
		if (record->reference_ratio > 0) {
			snprintf(cells[RATIO] + length, (size_t)(CELL_MAX - length),
				 " (%s: %.3g x)", record->reference, record->reference_ratio);
		}
	}
}

void print_record(FILE *out, const struct sgpu_bench_record *record)
{
	char label[LABEL_MAX], cells[COLUMNS][CELL_MAX], least[TEXT_MAX];

	point_text(record, label);
	fill_cells(record, cells);
	fprintf(out, "%-11s %-40s %-18s ", record->name, label, record->variant);
	if (record->status != SGPU_BENCH_PASSED) {
		fprintf(out, "%s: %s\n", cells[RESULT], cells[RESULT + 1]);
		return;
	}
	fprintf(out, "%12s  min %8s  median %8s  p95 %8s  CPU %8s  n %-5s", cells[RESULT],
		time_text(record->ns.min, least), cells[MEDIAN], cells[P95], cells[CPU_TIME],
		cells[N]);
	if (cells[EACH_P50][0]) {
		fprintf(out, "  each p50 %8s  p99 %8s", cells[EACH_P50], cells[EACH_P99]);
	}
	fprintf(out, "%s%s\n", cells[RATIO][0] ? "  " : "", cells[RATIO]);
}

/* ---- CSV ---- */
static void csv_text(FILE *out, const char *text)
{
	const char *const quote = strpbrk(text, ",\"\r\n") ? "\"" : "";

	fputs(quote, out);
	for (; *text; text++) {
		fputs(*text == '"' ? "\"" : "", out);
		fputc(*text, out);
	}
	fputs(quote, out);
}

/* A member of the record's JSON, but for parameters, which are one text, and the value. NULL behind
 * the last one. */
static const char *csv_column(size_t i)
{
	static const char *const first[] = { "case",   "variant", "parameters", "status",
					     "reason", "unit",	  "value" };

	return i < SGPU_ARRAY_LENGTH(first) ? first[i]
					    : sgpu_bench_members[i - SGPU_ARRAY_LENGTH(first)].key;
}

void print_csv(FILE *out, const struct sgpu_bench_record *record)
{
	json_t *object = record ? sgpu_bench_record_json(record) : NULL;
	char parameters[SGPU_BENCH_KEY_MAX] = "";

	if (record) {
		sgpu_bench_add_parameters(record, ' ', parameters);
		json_object_set_new(object, "parameters",
				    json_string(parameters + (parameters[0] == ' ')));
	}
	if (record && record->status == SGPU_BENCH_PASSED) {
		json_object_set_new(object, "value", json_real(sgpu_bench_value(record)));
	}
	for (size_t i = 0; csv_column(i); i++) {
		const json_t *value = json_object_get(object, csv_column(i));

		fputs(i ? "," : "", out);
		if (!record) {
			fputs(csv_column(i), out);
		} else if (json_is_number(value)) {
			fprintf(out, "%.12g", json_number_value(value));
		} else if (value) {
			csv_text(out, json_string_value(value));
		}
	}
	fputs("\r\n", out);
	json_decref(object);
}

/* ---- Markdown ---- */
/* No HTML and no formatting is made of it. */
static void print_plain(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("|\\<>&*_`[]", *text)) {
			fputc('\\', out);
		}
		fputc(*text, out);
	}
}

void print_cell(FILE *out, const char *text)
{
	fputs("| ", out);
	print_plain(out, text);
	fputc(' ', out);
}

/* "size_bytes" is "size" where the unit stands in the cells. */
static void head_cell(FILE *out, const char *key)
{
	char text[SGPU_BENCH_NAME_MAX];
	char *end;

	snprintf(text, sizeof(text), "%s", key);
	end = strstr(text, "_bytes");
	if (end && end[6] == '\0') {
		*end = '\0';
	}
	for (char *c = text; *c; c++) {
		*c = *c == '_' ? ' ' : *c;
	}
	print_cell(out, text);
}

static void print_cells(FILE *out, const char (*cells)[CELL_MAX], bool latencies)
{
	for (int c = 0; c < COLUMNS; c++) {
		if (latencies || (c != EACH_P50 && c != EACH_P99)) {
			print_cell(out, cells[c]);
		}
	}
	fputs("|\n", out);
}

static void markdown_row(FILE *out, const struct sgpu_bench_record *record, json_t *keys,
			 bool latencies)
{
	char text[TEXT_MAX], cells[COLUMNS][CELL_MAX];
	const char *key;
	json_t *unused;

	json_object_foreach (keys, key, unused) {
		int i = 0;

		while (i < record->parameter_count && strcmp(record->parameters[i].key, key) != 0) {
			i++;
		}
		print_cell(out, i < record->parameter_count
					? parameter_text(&record->parameters[i], text)
					: "");
	}
	fill_cells(record, cells);
	print_cells(out, cells, latencies);
}

/* The value of a key, which is `fresh` if there was none. Keys keep the order in which they first
 * come. */
static json_t *find_or_add(json_t *object, const char *key, json_t *fresh)
{
	if (!json_object_get(object, key)) {
		json_object_set(object, key, fresh);
	}
	json_decref(fresh);
	return json_object_get(object, key);
}

/* The columns are the parameters of all points, in the order in which they first come, and the
 * figures. */
static bool markdown_case(FILE *out, const struct sgpu_bench_record *records, const char *name,
			  const json_t *numbers)
{
	json_t *keys = json_object(), *number;
	bool latencies = false, good = true;
	size_t i;

	json_array_foreach (numbers, i, number) {
		const struct sgpu_bench_record *record = &records[json_integer_value(number)];

		latencies = latencies || record->latency.p50_ns > 0;
		for (int k = 0; k < record->parameter_count; k++) {
			good = find_or_add(keys, record->parameters[k].key, json_true()) && good;
		}
	}
	fputs("\n## ", out);
	print_plain(out, name);
	fputs("\n\n", out);
	json_object_foreach (keys, name, number) {
		head_cell(out, name);
	}
	print_cells(out, headings, latencies);
	for (i = 0; i < json_object_size(keys) + COLUMNS - (latencies ? 0 : 2); i++) {
		fputs("|---", out);
	}
	fputs("|\n", out);
	json_array_foreach (numbers, i, number) {
		markdown_row(out, &records[json_integer_value(number)], keys, latencies);
	}
	json_decref(keys);
	return good;
}

static void markdown_environment(FILE *out, const json_t *environment)
{
	const char *key;
	json_t *value;

	fputs("| | |\n|---|---|\n", out);
	json_object_foreach ((json_t *)environment, key, value) {
		char *text = json_is_string(value)
				     ? NULL
				     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		const char *shown = json_is_string(value) ? json_string_value(value) : text;

		if (strcmp(key, "record") != 0 && shown && shown[0] && !json_is_null(value)) {
			head_cell(out, key);
			print_cell(out, shown);
			fputs("|\n", out);
		}
		free(text);
	}
}

int print_markdown(FILE *out, const struct sgpu_bench_results *results)
{
	json_t *cases = json_object(), *numbers; /* of the records */
	const char *name;
	bool good = true;

	if (results->environment) {
		markdown_environment(out, results->environment);
	}
	for (size_t i = 0; i < results->count; i++) {
		numbers = find_or_add(cases, results->records[i].name, json_array());
		good = json_array_append_new(numbers, json_integer((json_int_t)i)) == 0 && good;
	}
	json_object_foreach (cases, name, numbers) {
		good = markdown_case(out, results->records, name, numbers) && good;
	}
	json_decref(cases);
	return good ? 0 : cli_fail(SGPU_ENOMEM, "out of memory");
}
