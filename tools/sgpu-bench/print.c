/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as lines of text, as CSV (RFC 4180) and as Markdown.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/private.h"
#include "verbs.h"

enum { LABEL_MAX = 256, KEYS_MAX = 16, CASES_MAX = 64 };

/* "h2d 64 MiB", or "streams 4" where a number alone says nothing. */
static void point_text(const struct sgpu_bench_record *record, char label[LABEL_MAX])
{
	char value[TEXT_MAX];
	int length = 0;

	label[0] = '\0';
	for (int i = 0; i < record->parameter_count && length < LABEL_MAX; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];
		bool named = p->is_number && !strstr(p->key, "bytes");

		length += snprintf(label + length, (size_t)(LABEL_MAX - length), "%s%s%s%s", length ? ", " : "",
				   named ? p->key : "", named ? " " : "", parameter_text(p, value));
	}
}

void print_record(FILE *out, const struct sgpu_bench_record *record)
{
	char label[LABEL_MAX], value[TEXT_MAX], least[TEXT_MAX], median[TEXT_MAX], p95[TEXT_MAX], cpu[TEXT_MAX];

	point_text(record, label);
	fprintf(out, "%-11s %-40s %-18s ", record->name, label, record->variant);
	if (record->status != SGPU_BENCH_PASSED) {
		fprintf(out, "%s: %s\n", sgpu_bench_status_name(record->status), record->reason);
		return;
	}
	fprintf(out, "%12s  min %8s  median %8s  p95 %8s  CPU %8s  n %-5" PRIu64, value_text(record, value),
		time_text(record->ns.min, least), time_text(record->ns.median, median), time_text(record->ns.p95, p95),
		time_text(record->cpu_ns, cpu), record->ns.n);
	if (record->latency.p50_ns > 0) {
		fprintf(out, "  each p50 %8s  p99 %8s", time_text(record->latency.p50_ns, median),
			time_text(record->latency.p99_ns, p95));
	}
	if (record->ratio_to[0]) {
		fprintf(out, "  %.3f x %s", record->ratio.median, record->ratio_to);
	}
	if (record->reference_ratio > 0) {
		fprintf(out, "  (%s: %.3g x)", record->reference, record->reference_ratio);
	}
	fputc('\n', out);
}

/* ---- CSV ---- */
static void csv_text(FILE *out, const char *text)
{
	bool quoted = strpbrk(text, ",\"\r\n") != NULL;

	if (quoted) {
		fputc('"', out);
	}
	for (; *text; text++) {
		if (*text == '"') {
			fputc('"', out);
		}
		fputc(*text, out);
	}
	if (quoted) {
		fputc('"', out);
	}
}

/* Members of the record's JSON, but for parameters, which are one text, and the value. */
static const char *const csv_columns[] = {
	"case", "variant", "parameters", "status", "reason", "unit", "value",
	"n", "min_ns", "median_ns", "p95_ns", "mad_ns", "spread", "cpu_median_ns", "bytes", "operations", "ratio_to", "ratio",
	"ratio_min", "ratio_p95", "ratio_mad", "operation_p50_ns", "operation_p99_ns", "p99_ns", "median_low_ns",
	"median_high_ns", "stopped", "bytes_formula", "cycles_per_operation", "ratio_low", "ratio_high",
};

void print_csv_head(FILE *out)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(csv_columns); i++) {
		fprintf(out, "%s%s", i ? "," : "", csv_columns[i]);
	}
	fputs("\r\n", out);
}

void print_csv(FILE *out, const struct sgpu_bench_record *record)
{
	json_t *object = sgpu_bench_record_json(record);
	char parameters[SGPU_BENCH_KEY_MAX] = "", text[TEXT_MAX];

	sgpu_bench_add_parameters(record, ' ', parameters);
	json_object_set_new(object, "parameters", json_string(parameters + (parameters[0] == ' ')));
	if (record->status == SGPU_BENCH_PASSED) {
		snprintf(text, sizeof(text), "%.1f", sgpu_bench_value(record));
		json_object_set_new(object, "value", json_string(text));
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(csv_columns); i++) {
		const json_t *value = json_object_get(object, csv_columns[i]);

		fputs(i ? "," : "", out);
		if (json_is_number(value)) {
			fprintf(out, "%.12g", json_number_value(value));
		} else if (value) {
			csv_text(out, json_string_value(value));
		}
	}
	fputs("\r\n", out);
	json_decref(object);
}

/* ---- Markdown ---- */
void print_cell(FILE *out, const char *text)
{
	fputs("| ", out);
	for (; *text; text++) {
		if (strchr("|\\<>*_`[]", *text)) {
			fputc('\\', out);
		}
		fputc(*text, out);
	}
	fputc(' ', out);
}

/* The keys of all parameters of a case, in the order in which they first come. */
static int collect_keys(const struct sgpu_bench_results *results, const char *name, const char *keys[KEYS_MAX])
{
	int count = 0;

	for (size_t i = 0; i < results->count; i++) {
		const struct sgpu_bench_record *record = &results->records[i];

		for (int k = 0; strcmp(record->name, name) == 0 && k < record->parameter_count; k++) {
			int at = 0;

			while (at < count && strcmp(keys[at], record->parameters[k].key) != 0) {
				at++;
			}
			if (at == count && count < KEYS_MAX) {
				keys[count++] = record->parameters[k].key;
			}
		}
	}
	return count;
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

static void markdown_row(FILE *out, const struct sgpu_bench_record *record, const char *const *keys, int count,
			 bool latencies)
{
	char text[TEXT_MAX], other[TEXT_MAX + SGPU_BENCH_NAME_MAX];

	for (int k = 0; k < count; k++) {
		const struct sgpu_bench_record_parameter *found = NULL;

		for (int i = 0; i < record->parameter_count; i++) {
			found = strcmp(record->parameters[i].key, keys[k]) == 0 ? &record->parameters[i] : found;
		}
		print_cell(out, found ? parameter_text(found, text) : "");
	}
	print_cell(out, record->variant);
	if (record->status != SGPU_BENCH_PASSED) {
		snprintf(other, sizeof(other), "%s", sgpu_bench_status_name(record->status));
		print_cell(out, other);
		print_cell(out, record->reason);
		fputs(latencies ? "| | | | | | | |\n" : "| | | | | |\n", out);
		return;
	}
	print_cell(out, value_text(record, text));
	print_cell(out, time_text(record->ns.median, text));
	print_cell(out, time_text(record->ns.p95, text));
	if (latencies) {
		print_cell(out, record->latency.p50_ns > 0 ? time_text(record->latency.p50_ns, text) : "");
		print_cell(out, record->latency.p50_ns > 0 ? time_text(record->latency.p99_ns, text) : "");
	}
	snprintf(text, sizeof(text), "%.1f %%", rounded(record->ns.spread * 100, 1));
	print_cell(out, text);
	print_cell(out, time_text(record->cpu_ns, text));
	snprintf(text, sizeof(text), "%" PRIu64, record->ns.n);
	print_cell(out, text);
	other[0] = '\0';
	if (record->ratio_to[0]) {
		snprintf(other, sizeof(other), "%.3f x %s", rounded(record->ratio.median, 3), record->ratio_to);
	}
	print_cell(out, other);
	fputs("|\n", out);
}

static void markdown_case(FILE *out, const struct sgpu_bench_results *results, const char *name)
{
	const char *keys[KEYS_MAX];
	int count = collect_keys(results, name, keys);
	bool latencies = false;

	for (size_t i = 0; i < results->count; i++) {
		latencies = latencies || (strcmp(results->records[i].name, name) == 0 &&
					  results->records[i].latency.p50_ns > 0);
	}
	fprintf(out, "\n## %s\n\n", name);
	for (int k = 0; k < count; k++) {
		head_cell(out, keys[k]);
	}
	fprintf(out, "| variant | result | median | p95 |%s spread | CPU time | n | ratio |\n",
		latencies ? " each p50 | each p99 |" : "");
	for (int k = 0; k < count + (latencies ? 10 : 8); k++) {
		fputs("|---", out);
	}
	fputs("|\n", out);
	for (size_t i = 0; i < results->count; i++) {
		if (strcmp(results->records[i].name, name) == 0) {
			markdown_row(out, &results->records[i], keys, count, latencies);
		}
	}
}

static void markdown_references(FILE *out, const struct sgpu_bench_results *results)
{
	bool any = false;

	for (size_t i = 0; i < results->count; i++) {
		const struct sgpu_bench_record *record = &results->records[i];
		char label[LABEL_MAX];

		if (record->status == SGPU_BENCH_PASSED && record->reference_ratio > 0) {
			fputs(any ? "" : "\n## beside published figures\n\n| case | here | published |\n"
				    "|---|---|---|\n", out);
			any = true;
			point_text(record, label);
			fprintf(out, "| %s, %s, %s | %.3f x %s | %.3g x, %s |\n", record->name, label, record->variant,
				record->ratio.median, record->ratio_to, record->reference_ratio, record->reference);
		}
	}
}

static void markdown_environment(FILE *out, const json_t *environment)
{
	const char *key;
	json_t *value;

	fputs("| | |\n|---|---|\n", out);
	json_object_foreach((json_t *)environment, key, value) {
		char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		const char *shown = json_is_string(value) ? json_string_value(value) : text;

		if (strcmp(key, "record") != 0 && shown && shown[0] && !json_is_null(value)) {
			head_cell(out, key);
			print_cell(out, shown);
			fputs("|\n", out);
		}
		free(text);
	}
}

void print_markdown(FILE *out, const struct sgpu_bench_results *results)
{
	const char *names[CASES_MAX];
	int count = 0;

	if (results->environment) {
		markdown_environment(out, results->environment);
	}
	for (size_t i = 0; i < results->count; i++) {
		const char *name = results->records[i].name;
		int at = 0;

		while (at < count && strcmp(names[at], name) != 0) {
			at++;
		}
		if (at == count && count < CASES_MAX) {
			names[count++] = name;
			markdown_case(out, results, name);
		}
	}
	markdown_references(out, results);
}
