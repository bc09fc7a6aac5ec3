/* SPDX-License-Identifier: Apache-2.0
 *
 * Between plot.c, which knows what is drawn, and plot_svg.c, which knows how.
 */
#ifndef SGPU_BENCH_PLOT_H
#define SGPU_BENCH_PLOT_H

#include <stdio.h>

#include <sgpu/bench.h>

enum { PLOT_LABEL_MAX = 256 };

/* A logarithmic axis: first what the values span, then what the axis does, in powers of ten (or two, for sizes). */
struct plot_axis {
	double least, most;
};

struct plot {
	FILE *body;             /* what is drawn, without the document around it */
	char *text;             /* what body has written, once it is closed */
	size_t size;
	int panels;
	double top, height;     /* of the panel that is drawn; then where the next one starts */
	enum sgpu_bench_unit unit;
	struct plot_axis x, y;
	double points[64][2];   /* of the line that is drawn */
	int point_count;
};

/* A panel of lines: sizes below, values on the left, the legend on the right. */
void sgpu_plot_begin_lines(struct plot *plot, const char *title, enum sgpu_bench_unit unit, const struct plot_axis *x,
		      const struct plot_axis *y, int series);
double sgpu_plot_x(const struct plot *plot, double value);
double sgpu_plot_y(const struct plot *plot, double value);
void sgpu_plot_point(struct plot *plot, double x, double y, int series, bool first);
void sgpu_plot_end_line(struct plot *plot, int series);
void sgpu_plot_legend(struct plot *plot, const char *label, int series);
/* A panel of bars: a row for each, labels on the left, values at their ends. */
void sgpu_plot_begin_bars(struct plot *plot, const char *title, enum sgpu_bench_unit unit, const struct plot_axis *axis,
		     int bars);
void sgpu_plot_bar(struct plot *plot, const char *label, double value, int index);
void sgpu_plot_end_panel(struct plot *plot);
/* The whole document, from malloc; false when out of memory. */
bool sgpu_plot_document(const struct plot *plot, const char *subtitle, char **svg, size_t *size);

#endif
