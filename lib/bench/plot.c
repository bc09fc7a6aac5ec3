/* SPDX-License-Identifier: Apache-2.0
 *
 * Results as a script for gnuplot: below one another, a panel for each case.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/bench.h>

enum { CASES_MAX = 64, SERIES_MAX = 24, BARS_MAX = 80, LABEL_MAX = 256 };
/* Pixels. */
enum { WIDTH = 960, HEAD = 70, PANEL = 300, ROW = 18, GAP = 80 };

struct plot {
	FILE *out;
	const struct sgpu_bench_results *results;
	int panels, top; /* where the next panel begins */
};

/* How gnuplot writes a value of each unit: after scaling, with a prefix as in "GB/s". */
static const struct {
	const char *what, *format, *scale;
} units[] = {
	{ "bytes a second, more is better", "%cB/s", "1" },
	{ "operations a second, more is better", "%cop/s", "1" },
	{ "time of an operation, less is better", "%cs", "1e-9" },
};

/* Names come from files of others, and a script may run programs: only characters that mean nothing within quotes stay. */
static void put_quoted(FILE *out, char quote, const char *text)
{
	fputc(quote, out);
	for (; *text; text++) {
		fputc(isalnum((unsigned char)*text) || strchr(" ,.:;_-+/()=<>", *text) ? *text : '_', out);
	}
	fputc(quote, out);
}

static const char size_key[] = "size_bytes", rate_key[] = "requests_per_second";

/* What can be an axis: a size, or a rate that was asked for. */
static const struct sgpu_bench_record_parameter *size_of(const struct sgpu_bench_record *record)
{
	for (int i = 0; i < record->parameter_count; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];

		if (p->is_number && (strcmp(p->key, size_key) == 0 || strcmp(p->key, rate_key) == 0)) {
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
static void label_of(const struct sgpu_bench_record *record, bool without_size, char label[LABEL_MAX])
{
	const struct sgpu_bench_record_parameter *size = without_size ? size_of(record) : NULL;
	int length = snprintf(label, LABEL_MAX, "%s", record->variant);

	for (int i = 0; i < record->parameter_count && length < LABEL_MAX; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];
		size_t room = (size_t)(LABEL_MAX - length);

		if (p != size) {
			length += p->is_number ?
				snprintf(label + length, room, ", %s %llu", p->key, (unsigned long long)p->number) :
				snprintf(label + length, room, ", %s", p->text);
		}
	}
}

/* Margins, title, grid and axes of the next panel, whose values are on the `axis`, "x" or "y". */
static void begin_panel(struct plot *plot, const struct sgpu_bench_record *record, const char *axis, int height,
			double left, double right)
{
	FILE *out = plot->out;

	fprintf(out, "reset\nset tmargin at screen 1-%d./H\nset bmargin at screen 1-%d./H\n", plot->top,
		plot->top + height);
	fprintf(out, "set key at screen 0.7, screen 1-%d./H left top Left reverse noenhanced\n", plot->top);
	fprintf(out, "set lmargin at screen %g\nset rmargin at screen %g\nset title ", left, right);
	put_quoted(out, '\'', record->name);
	fprintf(out, ".': %s'\nset grid\nset logscale %s 10\nset format %s '%%.0s %s'\n", units[record->unit].what, axis,
		axis, units[record->unit].format);
	plot->top += height + GAP;
	plot->panels++;
}

/* Lines over the size or the rate, one for each label. */
static void draw_lines(struct plot *plot, const struct sgpu_bench_record *one)
{
	char labels[SERIES_MAX][LABEL_MAX], label[LABEL_MAX];
	bool rate = false;
	int count = 0;

	fprintf(plot->out, "$data << END\n");
	for (size_t i = 0; i < plot->results->count; i++) {
		const struct sgpu_bench_record *record = &plot->results->records[i];
		int at = 0;

		if (!is_drawn(record, one->name) || !size_of(record)) {
			continue;
		}
		label_of(record, true, label);
		while (at < count && strcmp(labels[at], label) != 0) {
			at++;
		}
		if (at == count && count < SERIES_MAX) {
			snprintf(labels[count++], LABEL_MAX, "%s", label);
		}
		rate = strcmp(size_of(record)->key, rate_key) == 0;
		fprintf(plot->out, "%.17g %.17g %d\n", fmax((double)size_of(record)->number, 1), sgpu_bench_value(record),
			at);
	}
	fprintf(plot->out, "END\n");
	begin_panel(plot, one, "y", count * ROW > PANEL ? count * ROW : PANEL, 0.085, 0.69);
	fputs(rate ? "set logscale x 10\nset format x '%.0s %c/s'\n" : "set logscale x 2\nset format x '%.0b %BB'\n",
	      plot->out);
	fputs("set datafile missing NaN\nplot ", plot->out);
	for (int i = 0; i < count; i++) {
		fprintf(plot->out, "$data using 1:($3==%d ? $2*%s : NaN) with linespoints lt %d pt 7 ps 0.5 title ", i,
			units[one->unit].scale, i + 1);
		put_quoted(plot->out, '\'', labels[i]);
		fputs(i + 1 < count ? ", " : "\n", plot->out);
	}
}

/* Bars, with their values at the ends. */
static void draw_bars(struct plot *plot, const struct sgpu_bench_record *one, bool without_sizes)
{
	const char *scale = units[one->unit].scale;
	double least = INFINITY;
	char label[LABEL_MAX];
	int count = 0;

	fprintf(plot->out, "$data << END\n");
	for (size_t i = 0; i < plot->results->count && count < BARS_MAX; i++) {
		const struct sgpu_bench_record *record = &plot->results->records[i];

		if (is_drawn(record, one->name) && !(without_sizes && size_of(record))) {
			label_of(record, false, label);
			fprintf(plot->out, "%.17g ", sgpu_bench_value(record));
			put_quoted(plot->out, '"', label);
			fputc('\n', plot->out);
			least = fmin(least, sgpu_bench_value(record));
			count++;
		}
	}
	fprintf(plot->out, "END\n");
	if (count > 0) {
		begin_panel(plot, one, "x", count * ROW, 0.5, 0.93);
		fprintf(plot->out, "L = %.17g*%s/2\nset xrange [L:*]\nset yrange [%d-0.5:-0.5]\nset ytics noenhanced\n", least,
			scale, count);
		fprintf(plot->out, "plot $data using (L):0:(L):($1*%s):($0-0.35):($0+0.35):ytic(2) with boxxyerror fs solid "
			"notitle, $data using ($1*%s):0:(gprintf('%%.1s %s', $1*%s)) with labels left offset 0.5,0 notitle\n",
			scale, scale, units[one->unit].format, scale);
	}
}

static void draw_cases(struct plot *plot)
{
	const char *names[CASES_MAX];
	int count = 0;

	for (size_t i = 0; i < plot->results->count; i++) {
		const struct sgpu_bench_record *record = &plot->results->records[i];
		int at = 0;

		while (at < count && strcmp(names[at], record->name) != 0) {
			at++;
		}
		if (at == count && count < CASES_MAX && is_drawn(record, record->name)) {
			bool lines = size_varies(plot->results, record->name);

			names[count++] = record->name;
			if (lines) {
				draw_lines(plot, record);
			}
			draw_bars(plot, record, lines);
		}
	}
}

static const char *environment_text(const struct sgpu_bench_results *results, const char *key)
{
	const char *text = json_string_value(json_object_get(results->environment, key));

	return text ? text : "";
}

int sgpu_bench_plot(const struct sgpu_bench_results *results, char **script, size_t *size, struct sgpu_error *error)
{
	struct plot plot = { .results = results, .top = HEAD };
	char title[LABEL_MAX];
	char *panels = NULL;
	size_t panels_size = 0;
	bool good;

	*script = NULL;
	plot.out = open_memstream(&panels, &panels_size);
	if (!plot.out) {
		return sgpu_fail_nomem(error);
	}
	draw_cases(&plot);
	good = fclose(plot.out) == 0;
	if (good && plot.panels == 0) {
		free(panels);
		return sgpu_fail(error, SGPU_EINVALID, "there is nothing to draw: no measurement passed");
	}
	plot.out = good ? open_memstream(script, size) : NULL;
	if (plot.out) {
		snprintf(title, sizeof(title), "sgpu-bench: %.80s; %.60s; %.24s", environment_text(results, "device"),
			 environment_text(results, "processor"), environment_text(results, "date"));
		fprintf(plot.out, "H = %d\nset terminal svg size %d,H noenhanced font 'sans,11' background 'white'\n"
			"set multiplot title ", plot.top, WIDTH);
		put_quoted(plot.out, '\'', results->environment ? title : "sgpu-bench");
		fprintf(plot.out, "\n%s", panels);
		good = fclose(plot.out) == 0;
	}
	free(panels);
	return plot.out && good ? SGPU_OK : sgpu_fail_nomem(error);
}
