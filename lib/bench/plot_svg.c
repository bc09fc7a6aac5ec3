/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes, lines, bars and text as SVG 1.1. Colours: the palette of M. Okabe and K. Ito (2008), which people who see
 * colours differently can tell apart; beyond it lines are dashed.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/plot.h"

enum { WIDTH = 960, LEFT = 80, RIGHT = 660, BAR_LEFT = 450, BAR_RIGHT = 860, PANEL = 300, GAP = 70, HEAD = 56,
       ROW = 18 };

static const char *const colours[] = { "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
				       "#8C7A00" };
static const char *const dashes[] = { "", " stroke-dasharray=\"6 3\"", " stroke-dasharray=\"2 3\"" };

static const char *colour(int series)
{
	return colours[(size_t)series % SGPU_ARRAY_LENGTH(colours)];
}

static const char *dash(int series)
{
	return dashes[(size_t)series / SGPU_ARRAY_LENGTH(colours) % SGPU_ARRAY_LENGTH(dashes)];
}

static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&': fputs("&amp;", out); break;
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		case '"': fputs("&quot;", out); break;
		default: fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
		}
	}
}

/* anchor: "start", "middle" or "end". */
static void put_text(FILE *out, double x, double y, const char *anchor, const char *class, const char *text)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
	put_escaped(out, text);
	fputs("</text>\n", out);
}

static void put_line(FILE *out, double x1, double y1, double x2, double y2, const char *class)
{
	fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class);
}

static void value_text(enum sgpu_bench_unit unit, double value, char *text, size_t size)
{
	static const char *const names[][4] = {
		{ "B/s", "kB/s", "MB/s", "GB/s" }, { "op/s", "kop/s", "Mop/s", "Gop/s" }, { "ns", "us", "ms", "s" },
	};
	int scale = 0;

	while (scale < 3 && value >= 999.5) {
		value /= 1000;
		scale++;
	}
	snprintf(text, size, "%.3g %s", value, names[unit][scale]);
}

static void size_text(double bytes, char *text, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	int unit = 0;

	while (unit < 5 && bytes >= 1024) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, size, "%.4g %s", bytes, units[unit]);
}

/* From the value below that is 1, 2 or 5 times a power of ten to the next above. */
static void round_axis(struct plot_axis *axis)
{
	static const double steps[] = { 1, 2, 5, 10 };
	double low = pow(10, floor(log10(axis->least))), high = pow(10, floor(log10(axis->most)));
	double least = low, most = high * 10;

	for (int i = 0; i < 4; i++) {
		least = steps[i] * low <= axis->least * 1.0001 ? steps[i] * low : least;
		most = steps[3 - i] * high >= axis->most * 0.9999 ? steps[3 - i] * high : most;
	}
	if (least >= most * 0.999) {
		least /= 2;
	}
	*axis = (struct plot_axis){ least, most };
}

static double place(const struct plot_axis *axis, double value)
{
	double span = log(axis->most / axis->least);

	return span > 0 ? log(value / axis->least) / span : 0.5;
}

/* Calls draw for the values of an axis that are labelled: decades, and 2 and 5 where these are few. */
static void each_tick(struct plot *plot, const struct plot_axis *axis, void (*draw)(struct plot *plot, double value))
{
	static const double steps[] = { 1, 2, 5 };
	double decades = log10(axis->most / axis->least);
	int skip = decades > 12 ? (int)(decades / 6) : 1, position = 0;

	for (double decade = pow(10, floor(log10(axis->least))); decade <= axis->most * 1.001; decade *= 10) {
		for (int i = 0; i < (decades < 3 ? 3 : 1); i++) {
			double value = decade * steps[i];

			if (value >= axis->least * 0.999 && value <= axis->most * 1.001 && position % skip == 0) {
				draw(plot, value);
			}
		}
		position++;
	}
}

static void begin_panel(struct plot *plot, const char *title, enum sgpu_bench_unit unit, double height)
{
	static const char *const what[] = { "bytes a second, more is better", "operations a second, more is better",
					    "time of an operation, less is better" };
	char text[PLOT_LABEL_MAX];

	plot->top = plot->panels == 0 ? HEAD + 40 : plot->top + plot->height + GAP;
	plot->height = height;
	plot->unit = unit;
	plot->panels++;
	snprintf(text, sizeof(text), "%s: %s", title, what[unit]);
	put_text(plot->body, LEFT, plot->top - 14, "start", "panel", text);
}

double sgpu_plot_x(const struct plot *plot, double value)
{
	return LEFT + (RIGHT - LEFT) * place(&plot->x, value);
}

double sgpu_plot_y(const struct plot *plot, double value)
{
	return plot->top + plot->height * (1 - place(&plot->y, value));
}

static void y_tick(struct plot *plot, double value)
{
	double y = sgpu_plot_y(plot, value);
	char text[64];

	value_text(plot->unit, value, text, sizeof(text));
	put_line(plot->body, LEFT, y, RIGHT, y, "grid");
	put_text(plot->body, LEFT - 6, y + 4, "end", "tick", text);
}

static void size_ticks(struct plot *plot)
{
	double factor = 2, span = log2(plot->x.most / plot->x.least);
	char text[64];

	while (span / log2(factor) > 11) {
		factor *= 2;
	}
	for (double size = pow(2, ceil(log2(plot->x.least) - 0.001)); size <= plot->x.most * 1.001; size *= factor) {
		double x = sgpu_plot_x(plot, size);

		size_text(size, text, sizeof(text));
		put_line(plot->body, x, plot->top, x, plot->top + plot->height, "grid");
		put_text(plot->body, x, plot->top + plot->height + 16, "middle", "tick", text);
	}
}

void sgpu_plot_begin_lines(struct plot *plot, const char *title, enum sgpu_bench_unit unit, const struct plot_axis *x,
		      const struct plot_axis *y, int series)
{
	double height = series * ROW > PANEL ? series * ROW : PANEL;

	plot->x = *x;
	plot->y = *y;
	round_axis(&plot->y);
	begin_panel(plot, title, unit, height);
	each_tick(plot, &plot->y, y_tick);
	size_ticks(plot);
	put_line(plot->body, LEFT, plot->top + height, RIGHT, plot->top + height, "axis");
	put_line(plot->body, LEFT, plot->top, LEFT, plot->top + height, "axis");
}

static void flush_line(struct plot *plot, int series)
{
	if (plot->point_count > 1) {
		fprintf(plot->body, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"",
			colour(series), dash(series));
		for (int i = 0; i < plot->point_count; i++) {
			fprintf(plot->body, "%s%.1f,%.1f", i ? " " : "", plot->points[i][0], plot->points[i][1]);
		}
		fputs("\"/>\n", plot->body);
	}
}

void sgpu_plot_point(struct plot *plot, double x, double y, int series, bool first)
{
	plot->point_count = first ? 0 : plot->point_count;
	if (plot->point_count == (int)SGPU_ARRAY_LENGTH(plot->points)) {
		flush_line(plot, series);
		plot->points[0][0] = plot->points[plot->point_count - 1][0];
		plot->points[0][1] = plot->points[plot->point_count - 1][1];
		plot->point_count = 1;
	}
	plot->points[plot->point_count][0] = x;
	plot->points[plot->point_count++][1] = y;
	fprintf(plot->body, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, colour(series));
}

void sgpu_plot_end_line(struct plot *plot, int series)
{
	flush_line(plot, series);
	plot->point_count = 0;
}

void sgpu_plot_legend(struct plot *plot, const char *label, int series)
{
	double y = plot->top + 10 + series * ROW;

	fprintf(plot->body, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"%s/>\n",
		RIGHT + 14, y - 4, RIGHT + 40, y - 4, colour(series), dash(series));
	put_text(plot->body, RIGHT + 46, y, "start", "label", label);
}

static double bar_x(const struct plot *plot, double value)
{
	return BAR_LEFT + (BAR_RIGHT - BAR_LEFT) * place(&plot->x, value);
}

static void bar_tick(struct plot *plot, double value)
{
	double x = bar_x(plot, value);
	char text[64];

	value_text(plot->unit, value, text, sizeof(text));
	put_line(plot->body, x, plot->top, x, plot->top + plot->height, "grid");
	put_text(plot->body, x, plot->top + plot->height + 16, "middle", "tick", text);
}

void sgpu_plot_begin_bars(struct plot *plot, const char *title, enum sgpu_bench_unit unit, const struct plot_axis *axis,
		     int bars)
{
	plot->x = *axis;
	plot->x.least /= 2; /* the shortest bar has some length, too */
	round_axis(&plot->x);
	begin_panel(plot, title, unit, bars * ROW + 6);
	/* 2 and 5 would run into each other here. */
	if (log10(plot->x.most / plot->x.least) < 3) {
		plot->x.least = pow(10, floor(log10(plot->x.least)));
		plot->x.most = fmax(pow(10, ceil(log10(plot->x.most) - 0.001)), plot->x.least * 10);
	}
	each_tick(plot, &plot->x, bar_tick);
	put_line(plot->body, BAR_LEFT, plot->top, BAR_LEFT, plot->top + plot->height, "axis");
}

void sgpu_plot_bar(struct plot *plot, const char *label, double value, int index)
{
	double y = plot->top + 4 + index * ROW, end = bar_x(plot, value);
	char text[64];

	value_text(plot->unit, value, text, sizeof(text));
	put_text(plot->body, BAR_LEFT - 6, y + 11, "end", "label", label);
	fprintf(plot->body, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", BAR_LEFT, y,
		fmax(end - BAR_LEFT, 1), ROW - 5, colour(0));
	put_text(plot->body, end + 5, y + 11, "start", "label", text);
}

void sgpu_plot_end_panel(struct plot *plot)
{
	fputc('\n', plot->body);
}

bool sgpu_plot_document(const struct plot *plot, const char *subtitle, char **svg, size_t *size)
{
	FILE *out = open_memstream(svg, size);
	double height = plot->top + plot->height + 40;

	if (!out) {
		return false;
	}
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n", WIDTH, height, WIDTH, height);
	fputs("<style>text { font-family: sans-serif; fill: #222 } .title { font-size: 18px; font-weight: bold } "
	      ".panel { font-size: 14px; font-weight: bold } .label, .tick, .note { font-size: 11px } "
	      ".tick, .note { fill: #555 } .grid { stroke: #ddd } .axis { stroke: #444 }</style>\n", out);
	fprintf(out, "<rect width=\"%d\" height=\"%.0f\" fill=\"white\"/>\n", WIDTH, height);
	put_text(out, LEFT, 28, "start", "title", "sgpu-bench");
	put_text(out, LEFT, 46, "start", "note", subtitle);
	fwrite(plot->text, 1, plot->size, out);
	fputs("</svg>\n", out);
	if (fclose(out) != 0) {
		free(*svg);
		*svg = NULL;
		return false;
	}
	return true;
}
