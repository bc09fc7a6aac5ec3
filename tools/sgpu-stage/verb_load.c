/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage load: a filter on a batch that puts its payloads into one staged region and refers to
 * them there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "batch/batch.h"
#include "load.h"
#include "verbs.h"

struct task {
	struct load load;
	const char *out_path;
	bool export;
	bool published;
	struct sgpu_output out;
};

static int take_files(void *values, const char *folder)
{
	struct load *load = &((struct task *)values)->load;
	struct sgpu_error error = { 0 };
	int code = load->files ? SGPU_OK : sgpu_files_create(&load->files, &error);

	code = code ? code : sgpu_files_allow(load->files, folder, &error);
	return code ? cli_error(&error) : 0;
}

static int take_node(void *values, const char *text)
{
	struct sgpu_error error = { 0 };
	uint64_t node = 0;

	if (sgpu_parse_u64(text, "--node", 0, 65535, &node, &error) < 0) {
		return cli_usage("%s", error.text);
	}
	((struct task *)values)->load.options.numa_node = (int)node;
	return 0;
}

const struct cli_option load_options[] = {
	CLI_COMMON,
	{ "output", 'o', "FILE", "write the staged batch there", CLI_TEXT(struct task, out_path) },
	{ "files", 0, "DIR",
	  "let the batch name payloads in files of this directory; may be repeated",
	  CLI_TAKE(take_files) },
	{ "keep", 0, NULL, "let the region stay until it is released or expires",
	  CLI_FLAG(struct task, load.options.keep) },
	{ "lifetime", 0, "DURATION",
	  "time until the region expires: 90s, 30m, 2h, 1d (default: 1h)",
	  CLI_DURATION(struct task, load.options.lifetime_ns, 0) },
	{ "node", 0, "N", "bind the region to this NUMA node", CLI_TAKE(take_node) },
	{ "no-huge", 0, NULL, "normal pages only", CLI_FLAG(struct task, load.options.no_huge) },
	{ "export", 0, NULL, "print shell assignments of handles; needs -o, implies --keep",
	  CLI_FLAG(struct task, export) },
	{ "jobs", 'j', "N", "threads; as many as there are processors by default",
	  CLI_NUMBER(struct task, load.jobs, 0, SGPU_POOL_JOBS_MAX) },
	CLI_END,
};

/* The output may not take the place of a file that a payload is in. */
static int check_payloads(const struct task *task, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = task->load.batch;
	struct stat status;

	for (int i = 0; task->load.files && i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind == SGPU_LOCATION_FILE &&
		    sgpu_files_look(task->load.files, batch->segments[i].location.file, &status,
				    NULL) == SGPU_OK) {
			cli_remember_file(&status);
		}
	}
	return cli_is_input(task->out_path)
		       ? sgpu_fail(error, SGPU_EUSAGE, "'%s' holds a payload of the batch",
				   task->out_path)
		       : 0;
}

static int read_head(struct load *load, int in, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	int code = sgpu_tar_open(in, load->in_name, &load->reader, error);

	code = code ? code : sgpu_batch_read_head(load->reader, false, &load->batch, error);
	if (code == SGPU_OK) {
		code = sgpu_manifest_parse(load->batch->manifest_text, load->batch->manifest_size,
					   &load->manifest, &diagnostics, error);
	}
	if (code == SGPU_OK && diagnostics.count > 0) {
		code = sgpu_fail(error, SGPU_EINVALID, "'%s': the manifest is at fault: %s: %s",
				 load->in_name, diagnostics.list[0].pointer,
				 diagnostics.list[0].text);
	}
	sgpu_diagnostics_clear(&diagnostics);
	return code;
}

/* What of the memory asked for could not be had; none of it is a failure. */
static void tell_region(const struct load *load)
{
	const struct sgpu_region *region = &load->region;
	char size[STAGE_BYTES_TEXT];
	const char *kind = NULL;
	bool in_memory = true;
	uint64_t room;

	if (sgpu_stage_directory_is_fallback(region->path)) {
		cli_warning("another user has taken the usual directory: the region is in '%s'",
			    region->path);
	}
	cli_detail("region %s: %s for %d payloads and %d outputs, %s pages%s", region->id,
		   stage_bytes(region->size, size), load->staged, load->outputs,
		   sgpu_page_kind_name(region->pages), region->keep ? ", kept" : "");
	if (sgpu_stage_file_system(region->path, &kind, &in_memory, &room, NULL) == SGPU_OK &&
	    !in_memory) {
		cli_warning(
			"'%s' is not in memory (%s): LOW payloads are written to it as they are",
			region->path, kind);
	}
}

static int stage(struct task *task, struct sgpu_error *error)
{
	struct load *load = &task->load;
	int reaped = 0, code = sgpu_region_reap(&reaped, error);

	if (code < 0) {
		return code;
	}
	if (reaped > 0) {
		cli_detail("%d expired regions were removed", reaped);
	}
	code = load_plan(load, error);
	if (code == SGPU_OK && load->staged + load->outputs > 0) {
		code = sgpu_region_create(load->total, &load->options, &load->region, error);
		if (code == SGPU_OK) {
			tell_region(load);
		}
	}
	if (code == SGPU_OK) {
		cli_progress_begin("staging", load->payload);
		code = load_fill(load, error);
		cli_progress_end();
	}
	if (code == SGPU_OK && load->region.fd >= 0) {
		code = sgpu_region_publish(&load->region, error);
		task->published = code == SGPU_OK;
	}
	return code;
}

static int write_batch(struct task *task, struct sgpu_error *error)
{
	int code;

	load_relocate(&task->load);
	code = sgpu_batch_write_head(task->out.fd, task->out.path, task->load.batch, error);
	code = code ? code : sgpu_tar_end(task->out.fd, task->out.path, error);
	return code == SGPU_OK ? sgpu_output_commit(&task->out, error) : code;
}

static void record(const struct load *load)
{
	if (!cli_json) {
		return;
	}
	cli_print_json(
		json_pack("{s:s, s:s?, s:i, s:i, s:i, s:I, s:I, s:s, s:b, s:b, s:b, s:I}", "verb",
			  "load", "region", load->region.fd >= 0 ? load->region.id : NULL, "staged",
			  load->staged, "outputs", load->outputs, "left", load->left, "bytes",
			  (json_int_t)load->payload, "region_bytes", (json_int_t)load->region.size,
			  "pages", sgpu_page_kind_name(load->region.pages), "locked",
			  load->region.pages == SGPU_PAGES_HUGE, "sealed", load->region.sealed,
			  "keep", load->region.keep, "expires", (json_int_t)load->region.expires),
		stderr, JSON_COMPACT);
}

static int run(struct task *task, int in, struct sgpu_error *error)
{
	int code = sgpu_output_open(&task->out, task->out_path, 0644, error);

	code = code ? code : read_head(&task->load, in, error);
	code = code ? code : check_payloads(task, error);
	code = code ? code : sgpu_leases_create(task->load.files, &task->load.leases, error);
	code = code ? code : stage(task, error);
	code = code ? code : write_batch(task, error);
	if (code == SGPU_OK && task->export) {
		code = load_export(&task->load, error);
	}
	if (code < 0 && task->published && sgpu_region_release(task->load.region.id, NULL) < 0) {
		cli_warning("region %s could not be removed; it will expire", task->load.region.id);
	}
	return code;
}

static void clear(struct task *task)
{
	struct load *load = &task->load;
	int i;

	sgpu_output_close(&task->out);
	for (i = 0; load->slices && load->batch && i < load->batch->segment_count; i++) {
		/* Before relocation the batch still holds the path. */
		if (load->batch->segments[i].location.file != load->slices[i].from.file) {
			free(load->slices[i].from.file);
		}
	}
	free(load->slices);
	sgpu_leases_free(&load->leases);
	sgpu_files_free(&load->files);
	sgpu_region_close(&load->region);
	sgpu_manifest_free(&load->manifest);
	sgpu_batch_free(&load->batch);
	sgpu_tar_close(&load->reader);
}

int verb_load(int argc, char **argv)
{
	struct task task = { .load = { .options = { .numa_node = -1 }, .region = { .fd = -1 } },
			     .out_path = "-",
			     .out = SGPU_OUTPUT_INIT };
	struct sgpu_error error = { 0 };
	char **arguments;
	int in = -1, status = cli_read(argc, argv, &task, &arguments);

	task.load.options.keep = task.load.options.keep || task.export;
	if (status == 0 && task.export && strcmp(task.out_path, "-") == 0) {
		status = cli_usage(
			"--export writes to standard output, so the batch needs a file: -o FILE");
	}
	status = status ? status : cli_input(*arguments, &task.load.in_name, &in);
	status = status ? status : cli_binary_apart(task.out_path) ? 0 : 2;
	if (status == 0) {
		cli_signals(NULL);
		status = run(&task, in, &error) < 0 ? cli_error(&error) : 0;
	}
	if (status == 0) {
		record(&task.load);
	}
	clear(&task);
	cli_input_close(in);
	return cli_finish(status);
}
