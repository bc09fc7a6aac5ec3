/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open: the places that outputs go to.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"
#include "opening.h"

int seal_refuse_name(const char *place, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EPOLICY,
		  "'%s' is on a file system where every file has a name: if this was killed, "
		  "plaintext would be left there",
		  place);
	return sgpu_hint(error,
			 "choose another place, or accept that with --allow-named-temporary");
}

/* With a key there are secrets to be expected, so that it is told before the response has come. */
static bool minds_names(const struct opening *opening)
{
	return opening->keys.count && !opening->named;
}

static int prepare_folder(struct opening *opening, struct sgpu_error *error)
{
	int code = sgpu_output_directory_open(&opening->below, opening->folder, 0700, error);
	if (code) {
		return code;
	}
	const int nameless = openat(opening->below.fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (nameless >= 0) {
		close(nameless);
		return 0;
	}
	if (faccessat(opening->below.fd, ".", W_OK, AT_EACCESS)) {
		return sgpu_fail_errno(error, "cannot write to directory '%s'", opening->folder);
	}
	return minds_names(opening) ? seal_refuse_name(opening->folder, error) : 0;
}

static int prepare_file(struct opening *opening, struct sgpu_error *error)
{
	int code = opening->force
			   ? sgpu_output_open(&opening->out, opening->out_path, 0600, error)
			   : sgpu_output_open_new(&opening->out, opening->out_path, 0600, error);
	if (code == SGPU_ESYSTEM && !opening->force && access(opening->out_path, F_OK) == 0) {
		return sgpu_hint(error, "--force replaces a file that exists");
	}
	if (!code && sgpu_output_has_name(&opening->out) && minds_names(opening)) {
		code = seal_refuse_name(opening->out_path, error);
	}
	return code;
}

int opening_prepare(struct opening *opening, struct sgpu_error *error)
{
	return opening->folder ? prepare_folder(opening, error) : prepare_file(opening, error);
}

int opening_below(const struct opening *opening, int i, mode_t mode, struct sgpu_output *output,
		  struct sgpu_error *error)
{
	const char *path = opening->targets[i].path;
	char *shown = NULL;

	if (asprintf(&shown, "%s/%s", opening->folder, path) < 0) {
		return sgpu_fail_nomem(error);
	}
	int code = sgpu_output_open_beneath(output, opening->below.fd, path, shown, mode,
					    !opening->force, error);
	free(shown);
	return code;
}

int opening_target_open(struct opening *opening, int i, struct sgpu_error *error)
{
	struct opening_target *target = &opening->targets[i];
	const bool secret = opening->response->segments[i].masking == SGPU_MASKING_AES_GCM;
	const mode_t mode = secret ? 0600 : 0644;
	int code = 0;
	if (target->path) {
		code = opening_below(opening, i, mode, &target->output, error);
	} else {
		target->output = opening->out;
		opening->out = (struct sgpu_output)SGPU_OUTPUT_INIT;
		code = sgpu_output_set_mode(&target->output, mode, error);
	}
	if (!code && secret && !opening->named && sgpu_output_has_name(&target->output)) {
		code = seal_refuse_name(target->output.path, error);
	}
	return code;
}
