/* SPDX-License-Identifier: Apache-2.0
 *
 * What inputs and results have in common: a place on a device, keys and transfers.
 *
 * The index has each sealed input's header, so its key is known before its payload arrives; a
 * result's header is drawn with its key. Keys are loaded in groups, inputs before results, since
 * a message to a device costs far more than one more key in it. So a GPU may have an
 * input's key until settle(), if an output's operation failed.
 */
#include <stdlib.h>

#include "crypto/crypto.h"
#include "run/private.h"

enum { KEYS_AT_ONCE = 64 };

static void fill_in(struct sgpu_run *run, int number, bool result)
{
	const struct sgpu_plan *plan = run->job.plan;
	const struct sgpu_batch_segment *of = &run->job.batch->segments[number];
	const int segment = run->job.to_manifest[number];
	const int buffer =
		result ? plan->segments[segment].out_buffer : plan->segments[segment].in_buffer;
	struct sgpu_payload *p = &run->payloads[result * run->job.batch->segment_count + number];

	*p = (struct sgpu_payload){ .run = run,
				    .of = of,
				    .segment = segment,
				    .result = result,
				    .device = -1,
				    .file = { .fd = -1 } };
	if (buffer < 0) {
		return;
	}
	p->device = plan->buffers[buffer].device;
	p->memory = run->memory.buffers[buffer];
	p->sealed = result ? of->masking == SGPU_MASKING_AES_GCM : of->sealed;
	p->header = p->sealed ? SGPU_SEALED_HEADER : 0;
	if (result) { /* unless it turns out to be smaller */
		p->actual = of->size;
		p->size = sgpu_segment_masked_size(of);
	} else {
		p->size = sgpu_batch_payload_size(run->job.batch, number);
		p->host = of->location.kind == SGPU_LOCATION_LEASE
				  ? sgpu_leases_at(&run->leases, &of->location)
				  : NULL;
	}
}

int sgpu_payloads_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const int count = run->job.batch->segment_count;

	run->payloads = calloc(2 * (size_t)count + 1, sizeof(*run->payloads));
	for (int i = 0; run->payloads && i < count; i++) {
		fill_in(run, i, false);
		fill_in(run, i, true);
	}
	return run->payloads ? SGPU_OK : sgpu_fail_nomem(error);
}

/* ---- keys ---- */
/* Opens an input's key by its header, or draws a result's. */
static int make_material(const struct sgpu_payload *p, struct sgpu_sealed_keys *material,
			 struct sgpu_error *error)
{
	const struct sgpu_job *job = &p->run->job;
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size = 0;
	int rc = sgpu_batch_segment_key(job->batch, job->batch_key, p->of->id,
					p->result ? job->response_id : NULL, key, context,
					&context_size, error);

	if (rc == SGPU_OK && !p->result) {
		rc = sgpu_sealed_keys_open(key, context, context_size, p->of->header, material,
					   error);
		rc = rc == SGPU_EKEY ? SGPU_EAUTH : rc;
	} else if (rc == SGPU_OK) {
		rc = sgpu_sealed_keys_new(key, context, context_size, material, error);
	}
	sgpu_wipe(key, sizeof(key));
	return rc;
}

/* Loads the keys of `first` and of later payloads on its device whose key is not loaded yet. */
static int load_group(struct sgpu_payload *first, struct sgpu_error *error)
{
	struct sgpu_run *run = first->run;
	const struct sgpu_payload *end = run->payloads + 2 * run->job.batch->segment_count;
	struct sgpu_sealed_keys material[KEYS_AT_ONCE];
	struct sgpu_device_key *loaded[KEYS_AT_ONCE];
	struct sgpu_payload *group[KEYS_AT_ONCE];
	struct sgpu_stream *stream;
	int made = 0, rc = sgpu_run_get_stream(run, first->device, SGPU_RUN_PLAN, &stream, error);

	for (struct sgpu_payload *p = first; rc == SGPU_OK && p < end && made < KEYS_AT_ONCE; p++) {
		if (p->sealed && !p->key && !p->ended && p->device == first->device) {
			/* Another payload whose key cannot be made fails in its own turn. */
			rc = make_material(p, &material[made], p == first ? error : NULL);
			group[made] = p;
			made += rc == SGPU_OK;
		}
	}
	rc = made > 0 ? sgpu_device_keys_load(stream, material, made, loaded, error) : rc;
	for (int i = 0; rc == SGPU_OK && i < made; i++) {
		group[i]->key = loaded[i];
		memcpy(group[i]->header_bytes, material[i].header, SGPU_SEALED_HEADER);
	}
	sgpu_wipe(material, sizeof(material));
	return rc;
}

int sgpu_payload_key(struct sgpu_payload *p, struct sgpu_error *error)
{
	return !p->sealed || p->key ? SGPU_OK : load_group(p, error);
}

/* ---- small payloads ---- */
int sgpu_payload_works(struct sgpu_payload *p, void *host, struct sgpu_small *small,
		       struct sgpu_work works[2])
{
	static const enum sgpu_work_kind kinds[2][2] = {
		{ SGPU_WORK_COPY_IN, SGPU_WORK_OPEN_FROM },
		{ SGPU_WORK_COPY_OUT, SGPU_WORK_SEAL_TO },
	};
	const bool out = p->result;
	const uint64_t size = out ? p->actual : p->size - p->header;

	small->copy.untimed = small->check.untimed = !sgpu_run_times(p->run, size);
	works[0] = (struct sgpu_work){ .kind = kinds[out][p->sealed],
				       .in = out ? p->memory : 0,
				       .out = out ? 0 : p->memory,
				       .from = out ? NULL : host,
				       .to = out ? host : NULL,
				       .size = size,
				       .key = p->key,
				       .last = p->sealed,
				       .alone = !p->host,
				       .task = p->sealed ? &small->check : &small->copy };
	works[1] = (struct sgpu_work){ .kind = SGPU_WORK_DIGEST,
				       .in = p->memory,
				       .to = p->digest,
				       .size = size,
				       .task = &small->check };
	return p->sealed ? 1 : 2;
}

/* ---- transfers ---- */
void sgpu_payload_note(const struct sgpu_payload *p, enum sgpu_span_kind kind, uint64_t begin_ns,
		       uint64_t end_ns, uint64_t bytes)
{
	const struct sgpu_span span = { .kind = kind,
					.device = p->run->devices[p->device]->number,
					.label = p->of->id,
					.begin_ns = begin_ns,
					.end_ns = end_ns,
					.bytes = bytes };

	sgpu_trace_add(p->run, &span);
}

static void note_span(void *argument, const struct sgpu_transfer_span *span)
{
	static const enum sgpu_span_kind kinds[SGPU_STEPS] = {
		[SGPU_STEP_READ] = SGPU_SPAN_READ,	   [SGPU_STEP_COPY_IN] = SGPU_SPAN_COPY_IN,
		[SGPU_STEP_OPEN] = SGPU_SPAN_OPEN,	   [SGPU_STEP_SEAL] = SGPU_SPAN_SEAL,
		[SGPU_STEP_COPY_OUT] = SGPU_SPAN_COPY_OUT, [SGPU_STEP_WRITE] = SGPU_SPAN_WRITE,
	};
	const struct sgpu_payload *p = argument;

	sgpu_payload_note(p, kinds[span->step], span->begin_ns, span->end_ns, span->bytes);
	if (span->step == (p->sealed ? SGPU_STEP_OPEN : SGPU_STEP_COPY_IN)) {
		atomic_fetch_add(&p->run->bytes_in, span->bytes);
	}
}

int sgpu_payload_begin(struct sgpu_payload *p, struct sgpu_transfer_request *request,
		       struct sgpu_error *error)
{
	struct sgpu_run *run = p->run;
	struct sgpu_engine *engine = run->devices[p->device]->engine;
	const bool in_region =
		p->result ? p->of->place != NULL : p->of->location.kind == SGPU_LOCATION_REGION;
	int rc = SGPU_OK;

	if (p->host) {
		request->end =
			(struct sgpu_endpoint){ .memory = p->host + p->header,
						.registered = !p->data &&
							      run->job.options->leases_registered };
	} else if (p->file.fd >= 0) {
		rc = sgpu_endpoint_in_file(engine, p->file.fd, p->file.name,
					   p->file.offset + p->header, in_region, &request->end,
					   error);
	}
	rc = rc ? rc
		: sgpu_run_get_stream(run, p->device,
				      p->result ? SGPU_RUN_COPY_OUT : SGPU_RUN_COPY_IN,
				      &request->copy, error);
	rc = rc ? rc
		: sgpu_run_get_stream(run, p->device, p->result ? SGPU_RUN_SEAL : SGPU_RUN_OPEN,
				      &request->crypt, error);
	request->direction = p->result ? SGPU_TRANSFER_OUT : SGPU_TRANSFER_IN;
	request->key = p->key;
	request->last = p->sealed;
	request->digested = !p->sealed;
	request->memory = p->memory;
	request->rank = run->rank;
	request->untimed = !sgpu_run_times(run, request->size);
	request->span = note_span;
	request->argument = p;
	rc = rc ? rc : sgpu_transfer_begin(engine, request, &p->transfer, error);
	if (rc == SGPU_OK) {
		p->next = run->under_way[request->direction];
		run->under_way[request->direction] = p;
	} else if (request->end.close) {
		request->end.close(request->end.context);
	}
	return rc;
}

bool sgpu_payloads_advance(struct sgpu_run *run, enum sgpu_transfer_direction direction)
{
	bool any = false;

	for (struct sgpu_payload **link = &run->under_way[direction]; *link;) {
		struct sgpu_payload *p = *link;
		const struct sgpu_transfer_result *result;

		any |= sgpu_transfer_step(p->transfer, false);
		result = sgpu_transfer_end(p->transfer);
		if (!result) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		for (int i = 0; i < SGPU_PATHS; i++) {
			(p->result ? run->result.paths.out : run->result.paths.in)[i] +=
				result->bytes[i];
		}
		(p->result ? sgpu_output_moved : sgpu_input_moved)(p, result);
		sgpu_transfer_free(&p->transfer);
	}
	return any;
}

void sgpu_payloads_stop(struct sgpu_run *run, int rc)
{
	for (int i = 0; i < 2; i++) {
		for (struct sgpu_payload *p = run->under_way[i]; p; p = p->next) {
			sgpu_transfer_stop(p->transfer, rc);
		}
	}
}
