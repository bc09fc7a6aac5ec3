/* SPDX-License-Identifier: Apache-2.0
 *
 * Printing faults and tables.
 */
#ifndef SGPU_MANIFEST_REPORT_H
#define SGPU_MANIFEST_REPORT_H

#include <stdio.h>

#include "document.h"

/* One line a fault on standard error, hints below it; with --json one record a line to `records`. */
void report_faults(const struct document *document, FILE *records);

/* An aligned table: rows of cells, the first of which are the headings. */
enum { TABLE_COLUMNS_MAX = 8 };
struct table {
	int columns;
	size_t count, capacity; /* cells */
	char **cells;
	bool failed;
};
/* Adds the next cell; NULL is an empty one. */
void table_cell(struct table *table, const char *text);
/* Prints it to standard output, two blanks between the columns, and frees it. Returns an exit status. */
int table_print(struct table *table);

#endif
