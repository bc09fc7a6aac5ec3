/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as a drawing: a panel for each case, below each other. Here are the panels; plot_svg.c has axes and text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plot.h"

enum { CASES_MAX = 64, SERIES_MAX = 24, BARS_MAX = 80 };

/* ---- what belongs together ---- */
static const struct sgpu_bench_record_parameter *size_of(const struct sgpu_bench_record *record)
{
	for (int i = 0; i < record->parameter_count; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];

		if (p->is_number && strcmp(p->key, "size_bytes") == 0) {
			return p;
		}
	}
	return NULL;
}

static bool is_drawn(const struct sgpu_bench_record *record, const char *name)
{
	return strcmp(record->name, name) == 0 && sgpu_bench_value(record) > 0;
}

/* Whether a case has measurements of several sizes. */
static bool size_varies(const struct sgpu_bench_results *results, const char *name)
{
	const struct sgpu_bench_record_parameter *first = NULL;

	for (size_t i = 0; i < results->count; i++) {
		const struct sgpu_bench_record_parameter *size = size_of(&results->records[i]);

		if (is_drawn(&results->records[i], name) && size) {
			if (first && first->number != size->number) {
				return true;
			}
			first = size;
		}
	}
	return false;
}

/* "sealed, h2d, streams 4": the variant and the parameters, without the size where that is an axis. */
static void label_of(const struct sgpu_bench_record *record, bool without_size, char label[PLOT_LABEL_MAX])
{
	const struct sgpu_bench_record_parameter *size = without_size ? size_of(record) : NULL;
	int length = snprintf(label, PLOT_LABEL_MAX, "%s", record->variant);

	for (int i = 0; i < record->parameter_count && length < PLOT_LABEL_MAX; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];
		size_t room = (size_t)(PLOT_LABEL_MAX - length);

		if (p == size) {
			continue;
		}
		length += p->is_number ?
			snprintf(label + length, room, ", %s %llu", p->key, (unsigned long long)p->number) :
			snprintf(label + length, room, ", %s", p->text);
	}
}

static void widen(double value, double *least, double *most)
{
	*least = value < *least ? value : *least;
	*most = value > *most ? value : *most;
}

/* ---- lines over the size ---- */
struct series {
	char label[PLOT_LABEL_MAX];
};

static int collect_series(const struct sgpu_bench_results *results, const char *name, struct series *series,
			  struct plot_axis *x, struct plot_axis *y)
{
	int count = 0;

	for (size_t i = 0; i < results->count; i++) {
		const struct sgpu_bench_record *record = &results->records[i];
		char label[PLOT_LABEL_MAX];
		int at = 0;

		if (!is_drawn(record, name) || !size_of(record)) {
			continue;
		}
		label_of(record, true, label);
		while (at < count && strcmp(series[at].label, label) != 0) {
			at++;
		}
		if (at == count && count < SERIES_MAX) {
			snprintf(series[count++].label, PLOT_LABEL_MAX, "%s", label);
		}
		if (at < SERIES_MAX) {
			widen(fmax((double)size_of(record)->number, 1), &x->least, &x->most);
			widen(sgpu_bench_value(record), &y->least, &y->most);
		}
	}
	return count;
}

static void draw_series(struct plot *plot, const struct sgpu_bench_results *results, const char *name,
			const struct series *series, int index)
{
	char label[PLOT_LABEL_MAX];
	bool begun = false;

	for (size_t i = 0; i < results->count; i++) {
		const struct sgpu_bench_record *record = &results->records[i];

		if (!is_drawn(record, name) || !size_of(record)) {
			continue;
		}
		label_of(record, true, label);
		if (strcmp(label, series->label) == 0) {
			double x = sgpu_plot_x(plot, fmax((double)size_of(record)->number, 1));
			double y = sgpu_plot_y(plot, sgpu_bench_value(record));

			sgpu_plot_point(plot, x, y, index, !begun);
			begun = true;
		}
	}
	sgpu_plot_end_line(plot, index);
}

static void draw_lines(struct plot *plot, const struct sgpu_bench_results *results, const char *name,
		       enum sgpu_bench_unit unit)
{
	struct plot_axis x = { .least = INFINITY }, y = { .least = INFINITY };
	struct series *series = calloc(SERIES_MAX, sizeof(*series));
	int count = series ? collect_series(results, name, series, &x, &y) : 0;

	if (count > 0) {
		sgpu_plot_begin_lines(plot, name, unit, &x, &y, count);
		for (int i = 0; i < count; i++) {
			draw_series(plot, results, name, &series[i], i);
			sgpu_plot_legend(plot, series[i].label, i);
		}
		sgpu_plot_end_panel(plot);
	}
	free(series);
}

/* ---- bars ---- */
static void draw_bars(struct plot *plot, const struct sgpu_bench_results *results, const char *name,
		      enum sgpu_bench_unit unit, bool without_sizes)
{
	struct plot_axis axis = { .least = INFINITY };
	int count = 0, drawn = 0;

	for (size_t i = 0; i < results->count; i++) {
		const struct sgpu_bench_record *record = &results->records[i];

		if (is_drawn(record, name) && !(without_sizes && size_of(record)) && count < BARS_MAX) {
			widen(sgpu_bench_value(record), &axis.least, &axis.most);
			count++;
		}
	}
	if (count == 0) {
		return;
	}
	sgpu_plot_begin_bars(plot, name, unit, &axis, count);
	for (size_t i = 0; i < results->count && drawn < count; i++) {
		const struct sgpu_bench_record *record = &results->records[i];
		char label[PLOT_LABEL_MAX];

		if (is_drawn(record, name) && !(without_sizes && size_of(record))) {
			label_of(record, false, label);
			sgpu_plot_bar(plot, label, sgpu_bench_value(record), drawn++);
		}
	}
	sgpu_plot_end_panel(plot);
}

static void draw_case(struct plot *plot, const struct sgpu_bench_results *results,
		      const struct sgpu_bench_record *record)
{
	bool lines = size_varies(results, record->name);

	if (lines) {
		draw_lines(plot, results, record->name, record->unit);
	}
	draw_bars(plot, results, record->name, record->unit, lines);
}

static void draw_cases(struct plot *plot, const struct sgpu_bench_results *results)
{
	const char *names[CASES_MAX];
	int count = 0;

	for (size_t i = 0; i < results->count; i++) {
		const char *name = results->records[i].name;
		int at = 0;

		while (at < count && strcmp(names[at], name) != 0) {
			at++;
		}
		if (at == count && count < CASES_MAX && is_drawn(&results->records[i], name)) {
			names[count++] = name;
			draw_case(plot, results, &results->records[i]);
		}
	}
}

static const char *environment_text(const struct sgpu_bench_results *results, const char *key)
{
	const char *text = json_string_value(json_object_get(results->environment, key));

	return text ? text : "";
}

int sgpu_bench_plot(const struct sgpu_bench_results *results, char **svg, size_t *size, struct sgpu_error *error)
{
	struct plot plot = { 0 };
	char subtitle[PLOT_LABEL_MAX];
	bool good;

	*svg = NULL;
	plot.body = open_memstream(&plot.text, &plot.size);
	if (!plot.body) {
		return sgpu_fail_nomem(error);
	}
	snprintf(subtitle, sizeof(subtitle), "%.80s; %.60s; %.24s", environment_text(results, "device"),
		 environment_text(results, "processor"), environment_text(results, "date"));
	draw_cases(&plot, results);
	good = fclose(plot.body) == 0;
	if (good && plot.panels == 0) {
		free(plot.text);
		return sgpu_fail(error, SGPU_EINVALID, "there is nothing to draw: no measurement passed");
	}
	good = good && sgpu_plot_document(&plot, results->environment ? subtitle : "", svg, size);
	free(plot.text);
	return good ? SGPU_OK : sgpu_fail_nomem(error);
}
