/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure channel: carries out a script of channel commands, one a line, and prints summaries,
 * measurements and refusals: for tests, for teaching, and to compare other implementations with.
 */
#include <unistd.h>

#include <sgpu/base.h>

#include "channel_script.h"
#include "verbs.h"

enum { FRAMES_MAX = 1 << 24 };

struct request {
	const char *device;
	uint64_t frames, unprotected, hidden;
};

const struct cli_option channel_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu (the default), cuda, cuda:N",
	  CLI_TEXT(struct request, device) },
	{ "frames", 0, "N", "small pages of physical memory (1024)",
	  CLI_NUMBER(struct request, frames, 0, FRAMES_MAX) },
	{ "unprotected", 0, "N", "of them at the beginning for the host (16)",
	  CLI_NUMBER(struct request, unprotected, 0, FRAMES_MAX) },
	{ "hidden", 0, "N", "of them at the end for the processor alone (16)",
	  CLI_NUMBER(struct request, hidden, 0, FRAMES_MAX) },
	CLI_END,
};

static int begin(struct script *script, const struct request *r, struct sgpu_error *error)
{
	int rc = sgpu_device_open(r->device, NULL, &script->device, error);

	rc = rc ? rc : sgpu_pager_of(script->device, &script->pager, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (r->frames > script->pager.info.total / script->pager.info.small) {
		return sgpu_fail(
			error, SGPU_ENOMEM, "%llu frames of %llu bytes: the device has %llu",
			(unsigned long long)r->frames, (unsigned long long)script->pager.info.small,
			(unsigned long long)(script->pager.info.total / script->pager.info.small));
	}
	script->config.frames = (uint32_t)r->frames;
	script->config.unprotected = (uint32_t)r->unprotected;
	script->config.hidden = (uint32_t)r->hidden;
	return sgpu_processor_create(&script->pager, &script->config, &script->processor, error);
}

/* A line without its end; *more is false when there is none. */
static int next_line(struct script *script, FILE *file, char *line, bool *more,
		     struct sgpu_error *error)
{
	size_t length = 0;
	int c;

	script->line++;
	while ((c = getc(file)) != EOF && c != '\n') {
		if (c == '\0') {
			return script_fault(script, error, "a zero byte");
		}
		if (length == SCRIPT_LINE - 1) {
			return script_fault(script, error, "a line of more than %d bytes",
					    SCRIPT_LINE - 1);
		}
		line[length++] = (char)c;
	}
	line[length] = '\0';
	*more = c != EOF || length > 0;
	return SGPU_OK;
}

static int carry_out(struct script *script, FILE *file, struct sgpu_error *error)
{
	static char line[SCRIPT_LINE];
	bool more = true;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && more) {
		rc = next_line(script, file, line, &more, error);
		if (rc == SGPU_OK && more) {
			rc = script_line(script, line, error);
		}
	}
	if (rc == SGPU_OK && ferror(file)) {
		return sgpu_fail_errno(error, "cannot read '%s'", script->name);
	}
	return rc;
}

static int run(const struct request *r, const char *path)
{
	static struct script script;
	struct sgpu_error error = { 0 };
	FILE *file;
	int fd, rc = cli_input(path, &script.name, &fd);

	if (rc) {
		return rc;
	}
	file = fdopen(fd, "r");
	if (!file) {
		rc = sgpu_fail_nomem(&error);
		close(fd);
		return cli_error(&error);
	}
	rc = begin(&script, r, &error);
	rc = rc ? rc : carry_out(&script, file, &error);
	fclose(file);
	script_end(&script);
	if (rc != SGPU_OK) {
		return cli_error(&error);
	}
	return script.unexpected ? cli_fail(SGPU_EDIFFERS,
					    "%u of the commands came out otherwise than expected",
					    script.unexpected)
				 : 0;
}

int verb_channel(int argc, char **argv)
{
	struct request r = { .device = "cpu", .frames = 1024, .unprotected = 16, .hidden = 16 };
	char **paths;
	const int status = cli_read(argc, argv, &r, &paths);

	return status ? status : run(&r, paths[0]);
}
