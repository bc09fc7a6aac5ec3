/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage load: puts a batch's payloads into one region, and writes the batch with their new
 * places.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "host/host.h"
#include "batch/batch.h"
#include "dsa/dsa.h"
#include "manifest/manifest.h"
#include "transfer/transfer.h"
#include "verbs.h"

struct load_slice {
	bool staged;	       /* it has a place in the region */
	uint64_t offset, size; /* of that place */
	struct load *load;
	struct sgpu_source source; /* of a payload, while it is copied; fd -1: the archive's pipe */
};

struct load {
	struct sgpu_region_options options;
	const char *out_path;
	unsigned node; /* UINT_MAX: none */
	bool export, published;
	struct sgpu_output out;
	unsigned jobs;
	struct sgpu_files *files;     /* folders whose files batches may name; NULL: none */
	struct sgpu_sources *sources; /* opens payloads in `files` */
	const char *in_name;
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *batch;
	struct load_slice *slices; /* by segment */
	uint64_t total;		   /* bytes of the region */
	uint64_t payload;	   /* bytes to copy */
	int staged, outputs, left; /* of segments; left: in their files */
	struct sgpu_region region;
	struct sgpu_dsa *dsa; /* reads payloads in files, or NULL */
};

static int take_files(void *values, const char *folder)
{
	struct load *load = values;
	struct sgpu_error error = { 0 };
	int rc = load->files ? SGPU_OK : sgpu_files_create(&load->files, &error);

	rc = rc ? rc : sgpu_files_allow(load->files, folder, &error);
	return rc ? cli_error(&error) : 0;
}

const struct cli_option load_options[] = {
	{ "output", 'o', "FILE", "write the staged batch there", CLI_TEXT(struct load, out_path) },
	{ "files", 0, "DIR",
	  "let the batch name payloads in files of this directory; may be repeated",
	  CLI_TAKE(take_files) },
	{ "keep", 0, NULL, "let the region stay until it is released or expires",
	  CLI_FLAG(struct load, options.keep) },
	{ "lifetime", 0, "DURATION",
	  "time until the region expires: 90s, 30m, 2h, 1d (default: 1h)",
	  CLI_DURATION(struct load, options.lifetime_ns, 0) },
	{ "node", 0, "N", "bind the region to this NUMA node",
	  CLI_NUMBER(struct load, node, 0, 65535) },
	{ "export", 0, NULL, "print shell assignments of handles; needs -o, implies --keep",
	  CLI_FLAG(struct load, export) },
	{ "jobs", 'j', "N", "threads; as many as there are processors by default",
	  CLI_NUMBER(struct load, jobs, 0, SGPU_POOL_JOBS_MAX) },
	CLI_END,
};

static int check_payloads(const struct load *load, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = load->batch;
	struct stat status;

	for (int i = 0; load->files && i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind == SGPU_LOCATION_FILE &&
		    sgpu_files_look(load->files, batch->segments[i].location.file, &status, NULL) ==
			    SGPU_OK) {
			cli_remember_file(&status);
		}
	}
	return cli_is_input(load->out_path)
		       ? sgpu_fail(error, SGPU_EUSAGE, "'%s' holds a payload of the batch",
				   load->out_path)
		       : 0;
}

/* ---- the plan of a region: one slice for each payload, on its own pages. A sealed slice starts at
 * 8 modulo 16: its chunks, after a header of 56 bytes, are then aligned if opened in place ---- */
enum { PAGE = 4096, SEALED_SHIFT = 8 };

static int place(struct load *load, int segment, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &load->batch->segments[segment];
	struct load_slice *slice = &load->slices[segment];

	slice->offset = load->total + (s->sealed ? SEALED_SHIFT : 0);
	slice->size = size;
	slice->staged = true;
	if (!sgpu_add_u64(slice->offset, size, &load->total) ||
	    load->total > SGPU_JSON_INTEGER_MAX - 2 * PAGE) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s': the payloads are too large together",
				 load->in_name);
	}
	load->total = (load->total + PAGE - 1) / PAGE * PAGE;
	return SGPU_OK;
}

static int plan_input(struct load *load, int segment, struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &load->batch->segments[segment];

	if (s->location.kind != SGPU_LOCATION_INLINE && s->location.kind != SGPU_LOCATION_FILE) {
		return SGPU_OK;
	}
	if (s->masking == SGPU_MASKING_AES_GCM && !s->sealed) {
		cli_note("segment '%s' is HIGH and not sealed: it stays in its file", s->id);
		load->left++;
		return SGPU_OK;
	}
	/* A file needs the user's consent: the batch's author chose it, and could tell from the
	 * outcome whether a guess at its content was right. */
	if (s->location.kind == SGPU_LOCATION_FILE && sgpu_files_count(load->files) == 0) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "segment '%s' is in a file, and no directory is open to batches", s->id);
		return sgpu_hint(
			error,
			"'--files DIR' opens one; 'sgpu-seal seal' puts payloads into the batch");
	}
	if (!s->sealed && !s->has_kt128) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "segment '%s' has no kt128 to compare its payload with", s->id);
	}
	load->staged++;
	load->payload += sgpu_batch_payload_size(load->batch, segment);
	return place(load, segment, sgpu_batch_payload_size(load->batch, segment), error);
}

static int plan(struct load *load, struct sgpu_error *error)
{
	const struct sgpu_manifest *manifest = load->batch->manifest;
	int i, rc = SGPU_OK;

	load->slices = calloc((size_t)load->batch->segment_count + 1, sizeof(*load->slices));
	if (!load->slices) {
		return sgpu_fail_nomem(error);
	}
	for (i = 0; rc == SGPU_OK && i < load->batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &load->batch->segments[i];
		const int index = manifest ? sgpu_manifest_segment(manifest, s->id) : -1;
		const struct sgpu_segment *described =
			index < 0 ? NULL : &manifest->segments[index];

		if (s->input) {
			rc = plan_input(load, i, error);
		} else if (described && described->sensitivity == SGPU_LOW &&
			   described->direction == SGPU_OUTPUT && !s->place &&
			   described->dma_var[SGPU_DMA_OUTPUT_HOST]) {
			load->outputs++;
			rc = place(load, i, s->size, error);
		}
	}
	if (load->outputs > 0) {
		load->options.keep = true;
		load->options.use |= SGPU_REGION_RESULTS;
	}
	return rc;
}

/* ---- the payloads. Memory is allocated piece by piece, as data arrive, so a batch that only
 * claims to be large gets none. Digests of LOW payloads are checked in the region, on the bytes
 * that a runner will read ---- */
enum { LARGE = 64 << 20 }; /* the least bytes for an accelerator */

static int read_payload(void *context, uint64_t position, void *data, size_t size, size_t *got,
			struct sgpu_error *error)
{
	const struct load_slice *slice = context;
	const struct sgpu_source *from = &slice->source;
	struct load *load = slice->load;
	int rc = sgpu_region_back(&load->region, slice->offset + position, size, error);

	*got = size;
	if (!rc && from->fd < 0) {
		return sgpu_tar_read(load->reader, data, size, error);
	}
	rc = rc ? rc
		: sgpu_dsa_pread(load->dsa, from->fd, from->name, data, size,
				 from->offset + position, got, error);
	return rc || *got == size ? rc
				  : sgpu_fail(error, SGPU_ESYSTEM, "'%s' changed while it was read",
					      from->name);
}

static void end_payload(void *context)
{
	sgpu_source_close(&((struct load_slice *)context)->source);
}

/* The archive has its payloads in the order of the segments. */
static int find_payload(void *argument, struct sgpu_host_part *part, struct sgpu_error *error)
{
	struct load_slice *slice = argument;
	struct load *load = slice->load;
	int segment = (int)(slice - load->slices);
	const struct sgpu_location *location = &load->batch->segments[segment].location;
	struct sgpu_descriptor archive;
	int rc;

	if (location->kind == SGPU_LOCATION_FILE) {
		return sgpu_sources_open(load->sources, location, slice->size, false,
					 &slice->source, error);
	}
	rc = sgpu_batch_next_payload(load->reader, load->batch, &segment, error);
	sgpu_descriptor_from_fd(sgpu_tar_fd(load->reader), load->in_name, &archive);
	part->source.ordered = !archive.positioned;
	if (!rc && archive.positioned) {
		slice->source.fd = archive.fd;
		slice->source.offset = archive.offset;
		snprintf(slice->source.name, sizeof(slice->source.name), "%s", load->in_name);
		/* Called in advance: the payload is read before anything else in the archive. */
		sgpu_tar_consumed(load->reader, slice->size);
	}
	sgpu_descriptor_close(&archive);
	return rc;
}

/* Also allocates the outputs' memory, so that a runner cannot run out of it. */
static int copy_payloads(struct load *load, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = load->batch;
	struct sgpu_host_move move = { .jobs = load->jobs, .progress = cli_progress };
	int segment, rc = SGPU_OK;

	move.parts = calloc((size_t)load->staged + 1, sizeof(*move.parts));
	if (!move.parts) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &batch->segments[i];
		struct load_slice *slice = &load->slices[i];

		if (slice->staged && s->input) {
			slice->load = load;
			slice->source.fd = -1;
			move.parts[move.count++] = (struct sgpu_host_part){
				.action = SGPU_HOST_COPY,
				.name = s->id,
				.size = slice->size,
				.source = { .read_some = read_payload,
					    .close = end_payload,
					    .context = slice },
				.sink = { .memory = load->region.data + slice->offset },
				.digest = s->sealed ? NULL : s->kt128,
				.prepare = find_payload,
				.argument = slice,
			};
		}
	}
	rc = sgpu_host_move(&move, error);
	free(move.parts);
	for (int i = 0; rc == SGPU_OK && i < batch->segment_count; i++) {
		const struct load_slice *slice = &load->slices[i];

		if (slice->staged && !batch->segments[i].input) {
			rc = sgpu_region_back(&load->region, slice->offset, slice->size, error);
		}
	}
	return rc ? rc : sgpu_batch_next_payload(load->reader, load->batch, &segment, error);
}

static int fill(struct load *load, struct sgpu_error *error)
{
	struct sgpu_error why;
	int rc;

	if (load->payload >= LARGE && sgpu_dsa_open(&load->dsa, &why) != SGPU_OK) {
		cli_detail("no accelerator copies: %s", why.text);
	}
	rc = copy_payloads(load, error);
	if (load->dsa) {
		cli_detail("an accelerator copied %llu bytes%s%s",
			   (unsigned long long)load->dsa->copied, load->dsa->why.code ? ": " : "",
			   load->dsa->why.text);
	}
	sgpu_dsa_close(&load->dsa);
	return rc;
}

static int relocate(struct load *load, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < load->batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &load->batch->segments[i];
		struct sgpu_location at = { .kind = SGPU_LOCATION_REGION,
					    .offset = load->slices[i].offset };

		memcpy(at.region, load->region.id, sizeof(at.region));
		if (load->slices[i].staged && s->input) {
			free(s->location.file);
			s->location = at;
		} else if (load->slices[i].staged) {
			rc = sgpu_segment_place(s, &at, error);
		}
	}
	return rc;
}

static int stage(struct load *load, struct sgpu_error *error)
{
	const struct sgpu_region *region = &load->region;
	int reaped = 0, rc = sgpu_region_reap(&reaped, error);

	if (rc < 0) {
		return rc;
	}
	if (reaped > 0) {
		cli_detail("%d expired regions were removed", reaped);
	}
	rc = plan(load, error);
	if (rc == SGPU_OK && load->staged + load->outputs > 0) {
		rc = sgpu_region_create(load->total, &load->options, &load->region, error);
		if (rc == SGPU_OK) {
			stage_warn_of_directory(region->path);
			cli_detail("region %s: %llu bytes for %d payloads and %d outputs%s",
				   region->id, (unsigned long long)region->size, load->staged,
				   load->outputs, region->keep ? ", kept" : "");
		}
	}
	if (rc == SGPU_OK) {
		cli_progress_begin("staging", load->payload);
		rc = fill(load, error);
		cli_progress_end();
	}
	if (rc == SGPU_OK && load->region.fd >= 0) {
		rc = sgpu_region_publish(&load->region, error);
		load->published = rc == SGPU_OK;
	}
	return rc;
}

/* ---- shell assignments for the variables that a manifest names. A shell evaluates them, and a
 * manifest comes from outside, so only names that are validated again here are printed. Values are
 * handles, which a runner validates, not pointers ---- */
static int export_segment(const struct load *load, int i, const struct sgpu_segment *segment,
			  struct sgpu_error *error)
{
	const struct load_slice *slice = &load->slices[i];
	char handle[SGPU_HANDLE_TEXT];

	for (int which = 0; which < SGPU_DMA_VARS; which++) {
		const char *name = segment->dma_var[which];
		const bool of_output =
			which == SGPU_DMA_OUTPUT_HOST || which == SGPU_DMA_OUTPUT_SIZE;

		if (!name) {
			continue;
		}
		if (!slice->staged || of_output == load->batch->segments[i].input) {
			cli_note("segment '%s' has no place in the region: '%s' is not set",
				 segment->id, name);
		} else if (!sgpu_variable_is_free(name)) {
			return sgpu_fail(error, SGPU_EPOLICY,
					 "'%s' is not the name of a shell variable", name);
		} else if (which == SGPU_DMA_OUTPUT_SIZE) {
			/* The output's largest size; the response states the actual one. */
			printf("%s='%llu'\n", name, (unsigned long long)slice->size);
		} else {
			sgpu_handle_text(load->region.id, slice->offset, slice->size, handle);
			printf("%s='%s'\n", name, handle);
		}
	}
	return SGPU_OK;
}

static int export(const struct load *load, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && load->batch->manifest && i < load->batch->segment_count;
	     i++) {
		const int index =
			sgpu_manifest_segment(load->batch->manifest, load->batch->segments[i].id);

		if (index >= 0) {
			rc = export_segment(load, i, &load->batch->manifest->segments[index],
					    error);
		}
	}
	return rc == SGPU_OK && fflush(stdout) != 0 ? sgpu_fail_write(error, "standard output")
						    : rc;
}

static void record(const struct load *load)
{
	if (!cli_json) {
		return;
	}
	cli_print_json(json_pack("{s:s, s:s?, s:i, s:i, s:i, s:I, s:I, s:b, s:I}", "verb", "load",
				 "region", load->region.fd >= 0 ? load->region.id : NULL, "staged",
				 load->staged, "outputs", load->outputs, "left", load->left,
				 "bytes", (json_int_t)load->payload, "region_bytes",
				 (json_int_t)load->region.size, "keep", load->region.keep,
				 "expires", (json_int_t)load->region.expires),
		       stderr, JSON_COMPACT);
}

static int run(struct load *load, int in, struct sgpu_error *error)
{
	int rc = cli_output_take(&load->out, load->out_path, 0644, false, error);

	rc = rc ? rc : sgpu_tar_open(in, load->in_name, &load->reader, error);
	rc = rc ? rc : sgpu_batch_read(load->reader, SGPU_READ_BATCH, &load->batch, error);
	rc = rc ? rc : check_payloads(load, error);
	rc = rc ? rc : sgpu_sources_create(load->files, &load->sources, error);
	rc = rc ? rc : stage(load, error);
	rc = rc ? rc : relocate(load, error);
	rc = rc ? rc
		: sgpu_batch_write_head(load->out.fd, load->out.path, load->batch, false, error);
	rc = rc ? rc : sgpu_tar_end(load->out.fd, load->out.path, error);
	rc = rc ? rc : sgpu_output_commit(&load->out, error);
	if (rc == SGPU_OK && load->export) {
		rc = export(load, error);
	}
	if (rc < 0 && load->published && sgpu_region_release(load->region.id, NULL) < 0) {
		cli_warning("region %s could not be removed; it will expire", load->region.id);
	}
	return rc;
}

int verb_load(int argc, char **argv)
{
	struct load load = { .options = { .use = SGPU_REGION_INPUTS },
			     .region = { .fd = -1 },
			     .out_path = "-",
			     .node = UINT_MAX,
			     .out = SGPU_OUTPUT_INIT };
	struct sgpu_error error = { 0 };
	char **arguments;
	int in = -1, status = cli_read(argc, argv, &load, &arguments);

	load.options.numa_node = load.node == UINT_MAX ? -1 : (int)load.node;
	load.options.keep = load.options.keep || load.export;
	if (status == 0 && load.export && strcmp(load.out_path, "-") == 0) {
		status = cli_usage(
			"--export writes to standard output, so the batch needs a file: -o FILE");
	}
	status = status ? status : cli_input(*arguments, &load.in_name, &in);
	status = status ? status : cli_binary_output(load.out_path);
	if (status == 0) {
		cli_signals(NULL);
		status = run(&load, in, &error) < 0 ? cli_error(&error) : 0;
	}
	if (status == 0) {
		record(&load);
	}
	sgpu_output_close(&load.out);
	free(load.slices);
	sgpu_sources_free(&load.sources);
	sgpu_files_free(&load.files);
	sgpu_region_close(&load.region);
	sgpu_batch_free(&load.batch);
	sgpu_tar_close(&load.reader);
	return cli_finish(status);
}
