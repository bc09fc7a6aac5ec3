/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that are opened before the input is read, however much later they are written: a place
 * that cannot be is told before a long job has run.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "cli_private.h"

static struct prepared {
	const char *path;
	struct sgpu_output output;
} * prepared;
static size_t prepared_count;

/* To open one waits for its reader, who may wait for something else of ours. */
static bool is_pipe(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
}

int cli_output_prepare(const char *path, mode_t mode, bool is_new)
{
	struct sgpu_error error = { 0 };
	struct prepared *grown;

	if (cli_is_standard(path) || is_pipe(path)) {
		return 0;
	}
	grown = realloc(prepared, (prepared_count + 1) * sizeof(*grown));
	if (!grown) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	prepared = grown;
	grown += prepared_count;
	grown->path = path;
	if (is_new ? sgpu_output_open_new(&grown->output, path, mode, &error)
		   : sgpu_output_open(&grown->output, path, mode, &error)) {
		return cli_error(&error);
	}
	prepared_count++;
	return 0;
}

int cli_output_take(struct sgpu_output *output, const char *path, mode_t mode,
		    struct sgpu_error *error)
{
	for (size_t i = 0; !cli_is_standard(path) && i < prepared_count; i++) {
		if (prepared[i].path && !strcmp(prepared[i].path, path)) {
			*output = prepared[i].output;
			prepared[i].path = NULL;
			return 0;
		}
	}
	return sgpu_output_open(output, cli_is_standard(path) ? "-" : path, mode, error);
}

void cli_outputs_close(void)
{
	while (prepared_count) {
		prepared_count--;
		if (prepared[prepared_count].path) {
			sgpu_output_close(&prepared[prepared_count].output);
		}
	}
	free(prepared);
	prepared = NULL;
}
