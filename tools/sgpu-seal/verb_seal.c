/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal seal: seals a batch. Secret payloads are sealed from their files, others copied; they
 * go into the new batch or into a lease.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "parts.h"
#include "lease.h"

enum { LINE = 64 }; /* bytes; payloads in a lease begin at multiples of this */

/* A lease from a server on this machine. Other processes of this user may write to it at any time,
 * so what is sealed into it is never read back. */
struct seal_lease {
	bool wanted;
	const char *socket; /* of the server, or NULL */
	uint64_t size;	    /* bytes placed so far */
	struct lease_client client;
	struct sgpu_lease_mapping mapping;
};

struct task {
	struct seal_keys keys;
	const char *out_path, *seal_path;
	bool by_reference, require_high;
	const char *in_name;
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *batch;
	struct sgpu_location *from; /* where each payload was, by segment */
	uint8_t batch_key[SGPU_KEY_SIZE];
	struct seal_lease lease;
	struct sgpu_source *slices; /* where payloads go, by segment */
	struct sgpu_output out;
	struct seal_meter meter;
	uint64_t payload_bytes;
	int sealed_count;
};

const struct cli_option seal_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "key", 'k', "KEY", "your own key, to open the response later",
	  CLI_LIST(struct task, keys.own) },
	{ "recipient", 'r', "FILE", "the runner's public key, or a key shared with it",
	  CLI_LIST(struct task, keys.others) },
	{ "output", 'o', "FILE", "write the sealed batch there", CLI_TEXT(struct task, out_path) },
	{ "seal-out", 0, "FILE",
	  "write the seal there, too: what 'open --batch' needs of the batch",
	  CLI_TEXT(struct task, seal_path) },
	{ "by-reference", 0, NULL, "leave LOW payloads in their files and regions",
	  CLI_FLAG(struct task, by_reference) },
	{ "lease", 0, NULL, "put payloads into memory of the server that will run the batch",
	  CLI_FLAG(struct task, lease.wanted) },
	{ "socket", 0, "PATH", "of that server (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct task, lease.socket) },
	{ "require-high", 0, NULL, "refuse a batch without HIGH segments",
	  CLI_FLAG(struct task, require_high) },
	SEAL_JOBS(struct task),
	CLI_END,
};

static uint64_t microseconds_since_1970(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static bool is_high_input(const struct sgpu_batch_segment *s)
{
	return s->input && s->masking == SGPU_MASKING_AES_GCM;
}

/* Checks a payload's source before the first byte is written: a later failure would leave an
 * incomplete output. */
static int check_source(const struct task *task, int i, struct sgpu_error *error)
{
	const struct sgpu_location *from = &task->from[i];
	const uint64_t size = task->batch->segments[i].size;
	struct seal_array array = { .other = -1 };
	int rc = 0;

	if (from->array) {
		rc = seal_array_open(from, size, &array, error);
	} else if (from->kind == SGPU_LOCATION_FILE || from->kind == SGPU_LOCATION_REGION) {
		rc = sgpu_source_open(from, size, &array.source, error);
	}
	seal_array_close(&array);
	return rc;
}

static int place_in_lease(struct seal_lease *lease, uint64_t size, struct sgpu_location *location,
			  struct sgpu_error *error)
{
	uint64_t end;

	*location = (struct sgpu_location){ .kind = SGPU_LOCATION_LEASE, .offset = lease->size };
	if (!sgpu_add_u64(lease->size, size, &end) || end > SGPU_LEASE_POOL_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "the payloads are too large for a lease");
	}
	lease->size = (end + LINE - 1) / LINE * LINE;
	return 0;
}

/* Turns a packed segment into the one to be written. */
static int plan_segment(struct task *task, int i, struct sgpu_error *error)
{
	struct sgpu_batch_segment *s = &task->batch->segments[i];
	if (!s->input) {
		return 0;
	}
	if (s->location.kind == SGPU_LOCATION_FILE) {
		cli_remember_input(s->location.file);
	}
	/* A LOW payload in a region was put there for the runner. */
	const bool stays = !is_high_input(s) &&
			   (task->by_reference || s->location.kind == SGPU_LOCATION_REGION);
	if (s->location.kind == SGPU_LOCATION_INLINE || !stays) {
		task->from[i] = s->location;
		s->location = (struct sgpu_location){ .kind = SGPU_LOCATION_INLINE };
	}
	if (is_high_input(s)) {
		s->sealed = true;
		s->sealed_size = sgpu_segment_masked_size(s);
		task->sealed_count++;
	}
	if (s->place) {
		s->location = *s->place;
		free(s->place);
		s->place = NULL;
		task->payload_bytes += s->size;
		struct sgpu_error fault = { 0 };
		const int rc =
			sgpu_slice_open(&s->location, s->sealed_size, &task->slices[i], &fault);
		if (rc) {
			sgpu_fail(error, rc, "segment '%s': %s", s->id, fault.text);
			return sgpu_hint(error, "%s", fault.hint);
		}
	}
	if (s->location.kind == SGPU_LOCATION_INLINE) {
		task->payload_bytes += s->size;
	}
	if (task->lease.wanted && s->location.kind == SGPU_LOCATION_INLINE) {
		const int rc = place_in_lease(&task->lease, sgpu_batch_payload_size(task->batch, i),
					      &s->location, error);
		if (rc) {
			return rc;
		}
	}
	return check_source(task, i, error);
}

/* Warns, or fails with --require-high, if no segment is HIGH: if the author forgot HIGH, all data
 * would travel as plaintext. */
static int check_high(const struct task *task, struct sgpu_error *error)
{
	for (int i = 0; i < task->batch->segment_count; i++) {
		if (task->batch->segments[i].masking == SGPU_MASKING_AES_GCM) {
			return 0;
		}
	}
	if (task->require_high) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "no segment of '%s' is HIGH, which --require-high asks for",
				 task->in_name);
	}
	cli_warning("no segment of '%s' is HIGH: everything in it travels in the clear",
		    task->in_name);
	return 0;
}

static int plan(struct task *task, struct sgpu_error *error)
{
	struct sgpu_batch *batch = task->batch;
	int rc = 0;
	if (batch->recipients) {
		sgpu_fail(error, SGPU_EINVALID, "'%s' is sealed already", task->in_name);
		return sgpu_hint(error, "'sgpu-seal rewrap' changes who can open it");
	}
	rc = check_high(task, error);
	if (rc) {
		return rc;
	}
	task->from = calloc((size_t)batch->segment_count + 1, sizeof(*task->from));
	task->slices = calloc((size_t)batch->segment_count + 1, sizeof(*task->slices));
	if (!task->from || !task->slices) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_places_check(batch, error);
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		rc = plan_segment(task, i, error);
	}
	if (!rc && cli_is_input(task->out_path)) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "'%s' holds a payload of the batch",
			       task->out_path);
	}
	/* Two batches sealed from one have no common keys or contexts; a runner takes each once. */
	rc = rc ? rc : sgpu_random(batch->id, sizeof(batch->id), error);
	rc = rc ? rc : sgpu_random(task->batch_key, sizeof(task->batch_key), error);
	for (int i = 0; !rc && i < batch->segment_count; i++) {
		rc = batch->segments[i].sealed
			     ? sgpu_batch_draw_header(batch, task->batch_key, i, error)
			     : 0;
	}
	sgpu_batch_change(batch, true);
	batch->packed = false;
	rc = rc ? rc : sgpu_batch_seal_note(batch, task->batch_key, error);
	for (int i = 0; !rc && i < task->keys.count; i++) {
		rc = sgpu_batch_wrap(batch, &task->keys.list[i], task->batch_key, error);
	}
	batch->counter = microseconds_since_1970();
	for (int i = 0; !rc && i < task->keys.signer_count; i++) {
		rc = sgpu_batch_add_signature(batch, &task->keys.signers[i], error);
	}
	return rc ? rc : sgpu_batch_sign(batch, task->batch_key, error);
}

/* The archive has the payloads whose old location, in task->from, is inline, in their order. */
static int prepare_payload(void *argument, struct sgpu_host_part *part, struct sgpu_error *error)
{
	struct seal_payload *payload = argument;
	struct task *task = payload->moves->owner;
	const struct sgpu_batch_segment *s = &task->batch->segments[payload->segment];
	const struct sgpu_location *from = &task->from[payload->segment];
	const char *member = NULL;
	uint64_t size = 0;
	int rc;

	if (from->array) {
		rc = seal_payload_from_array(payload, part, from, error);
	} else if (from->kind != SGPU_LOCATION_INLINE) {
		rc = seal_payload_from(payload, part, from, error);
	} else {
		rc = sgpu_tar_next(task->reader, &member, &size, error);
		if (!rc && (!member || strncmp(member, "segments/", 9) ||
			    strcmp(member + 9, s->id) || size != s->size)) {
			rc = sgpu_fail(error, SGPU_EINVALID,
				       "'%s': the payload of '%s' is not where it belongs",
				       task->in_name, s->id);
		}
		if (!rc) {
			seal_payload_from_archive(payload, part);
		}
	}
	if (!rc && s->sealed) {
		part->header = s->header;
		rc = seal_payload_key(payload, part, task->batch, task->batch_key, error);
	}
	return rc;
}

static int open_lease(struct seal_lease *lease, struct sgpu_batch *batch, struct sgpu_error *error)
{
	const uint64_t size = lease->size ? lease->size : LINE; /* all payloads may be empty */
	int rc = lease_client_open(lease->socket, batch->id, NULL, size, &lease->client, error);

	if (rc) {
		return rc;
	}
	for (int i = 0; i < batch->segment_count; i++) {
		struct sgpu_location *location = &batch->segments[i].location;
		if (location->kind == SGPU_LOCATION_LEASE) {
			memcpy(location->region, lease->client.lease.id, sizeof(location->region));
		}
	}
	return sgpu_lease_map(lease->client.pool, &lease->client.lease, &lease->mapping, error);
}

static int write_leased(void *memory, uint64_t position, const void *data, size_t size,
			struct sgpu_error *error)
{
	(void)error;
	memcpy((uint8_t *)memory + position, data, size);
	return 0;
}

static int write_slice(void *context, uint64_t position, const void *data, size_t size,
		       struct sgpu_error *error)
{
	const struct sgpu_source *slice = context;

	return sgpu_pwrite(slice->fd, slice->name, data, size, slice->offset + position, error);
}

/* Moves the payloads that go into the batch, or those that go into a lease or a slice. The others
 * stay. */
static int move_payloads(struct task *task, bool elsewhere, struct seal_moves *moves,
			 struct sgpu_error *error)
{
	const struct seal_payload *failed = NULL;
	int rc = seal_moves_create(moves, task->batch->segment_count, task->reader, task,
				   &task->out, error);

	for (int i = 0; !rc && i < task->batch->segment_count; i++) {
		const struct sgpu_batch_segment *s = &task->batch->segments[i];
		const bool leased = s->location.kind == SGPU_LOCATION_LEASE;
		const enum sgpu_host_action action = s->sealed ? SGPU_HOST_SEAL : SGPU_HOST_COPY;

		if (elsewhere ? !leased && !task->slices[i].owned
			      : s->location.kind != SGPU_LOCATION_INLINE) {
			continue;
		}
		if (elsewhere) {
			seal_moves_add(moves, action, i, s->size, s->id, prepare_payload);
			moves->parts[moves->count - 1].sink = (struct sgpu_endpoint){
				.write = leased ? write_leased : write_slice,
				.parallel = true,
				.context = leased ? (void *)(task->lease.mapping.memory +
							     s->location.offset)
						  : &task->slices[i]
			};
		} else {
			rc = seal_moves_member(moves, task->batch, action, i, prepare_payload,
					       error);
		}
		moves->parts[moves->count - 1].digest = s->sealed ? NULL : s->kt128;
	}
	return rc ? rc : seal_moves_run(moves, &task->meter, &failed, error);
}

/* Writes the batch after leases and regions, so that nobody who reads it reads there too early. */
static int write_batch(struct task *task, struct sgpu_error *error)
{
	const bool leased = task->lease.wanted;
	const int fd = task->out.fd;
	const char *path = task->out.path, *member = NULL;
	struct seal_moves moves[2] = { SEAL_MOVES_INIT, SEAL_MOVES_INIT };
	struct sgpu_output seal = SGPU_OUTPUT_INIT;
	uint64_t size = 0;
	int rc = leased ? open_lease(&task->lease, task->batch, error) : 0;

	rc = rc ? rc : move_payloads(task, true, &moves[0], error);
	rc = rc || !leased ? rc : lease_client_done(&task->lease.client, error);
	if (!rc && task->seal_path) {
		rc = cli_output_take(&seal, task->seal_path, 0600, false, error);
		rc = rc ? rc
			: sgpu_batch_write_head(seal.fd, task->seal_path, task->batch, true, error);
		rc = rc ? rc : sgpu_output_commit(&seal, error);
		sgpu_output_close(&seal);
	}
	rc = rc ? rc : sgpu_batch_write_head(fd, path, task->batch, false, error);
	rc = rc ? rc : move_payloads(task, false, &moves[1], error);
	rc = rc ? rc : sgpu_tar_padding(fd, path, moves[1].at, error);
	rc = rc ? rc : sgpu_tar_next(task->reader, &member, &size, error);
	if (!rc && member) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s': '%s' does not belong there",
			       task->in_name, member);
	}
	seal_moves_clear(&moves[0]);
	seal_moves_clear(&moves[1]);
	return rc ? rc : sgpu_tar_end(fd, path, error);
}

static int run(struct task *task, int in, struct sgpu_error *error)
{
	int rc = cli_output_take(&task->out, task->out_path, 0644, false, error);
	rc = rc ? rc : sgpu_tar_open(in, task->in_name, &task->reader, error);
	rc = rc ? rc : sgpu_batch_read(task->reader, SGPU_READ_BATCH, &task->batch, error);
	rc = rc ? rc : plan(task, error);
	if (rc) {
		return rc;
	}
	cli_progress_begin("sealing", task->payload_bytes);
	rc = write_batch(task, error);
	cli_progress_end();
	return rc ? rc : sgpu_output_commit(&task->out, error);
}

static void report(const struct task *task)
{
	json_t *signers = json_array();
	uint64_t bytes_out = 0;

	for (int i = 0; i < task->keys.signer_count; i++) {
		json_array_append_new(signers, json_string(task->keys.signers[i].kid));
	}
	for (int i = 0; i < task->batch->segment_count; i++) {
		const enum sgpu_location_kind kind = task->batch->segments[i].location.kind;
		if (kind == SGPU_LOCATION_INLINE || kind == SGPU_LOCATION_LEASE ||
		    task->slices[i].owned) {
			bytes_out += sgpu_batch_payload_size(task->batch, i);
		}
	}
	seal_record(json_pack("{s:s, s:o, s:I, s:i, s:i, s:o, s:o}", "verb", "seal", "batch_id",
			      sgpu_json_from_bytes(task->batch->id, sizeof(task->batch->id)),
			      "counter", (json_int_t)task->batch->counter, "segments",
			      task->batch->segment_count, "sealed", task->sealed_count,
			      "recipients", seal_recipient_kids(task->batch), "signed_by", signers),
		    task->payload_bytes, bytes_out);
}

static void clear(struct task *task)
{
	sgpu_output_close(&task->out);
	sgpu_lease_unmap(&task->lease.mapping);
	lease_client_close(&task->lease.client);
	for (int i = 0; task->from && i < task->batch->segment_count; i++) {
		free(task->from[i].file);
		free(task->from[i].array);
	}
	for (int i = 0; task->slices && i < task->batch->segment_count; i++) {
		sgpu_source_close(&task->slices[i]);
	}
	free(task->slices);
	free(task->from);
	sgpu_tar_close(&task->reader);
	sgpu_batch_free(&task->batch);
	sgpu_wipe(task->batch_key, sizeof(task->batch_key));
	seal_keys_clear(&task->keys);
}

static int read_options(struct task *task, int argc, char **argv, char ***paths)
{
	int status = cli_read(argc, argv, task, paths);

	status = status ? status : seal_keys_load(&task->keys, SEAL_OWNER);
	if (status) {
		return status;
	}
	if (!task->keys.count) {
		return cli_usage("a key is missing: your own with -k, the runner's with -r");
	}
	if (task->lease.socket && !task->lease.wanted) {
		return cli_usage("--socket is for --lease");
	}
	if (!task->keys.own.count) {
		cli_warning("without -k, only the recipients can open the response");
	}
	return 0;
}

int verb_seal(int argc, char **argv)
{
	struct task task = { .out_path = "-",
			     .out = SGPU_OUTPUT_INIT,
			     .lease = { .client = LEASE_CLIENT_INIT } };
	struct sgpu_error error = { 0 };
	char **paths;
	int in = -1, status = read_options(&task, argc, argv, &paths);

	status = status ? status : cli_input(paths[0], &task.in_name, &in);
	status = status ? status : cli_binary_output(task.out_path);
	status = status ? status : cli_output_prepare(task.out_path, 0644, false);
	status = status ? status : cli_output_prepare(task.seal_path, 0600, false);
	if (!status) {
		cli_signals(NULL);
		status = run(&task, in, &error) ? cli_error(&error) : 0;
		if (!status) {
			report(&task);
		}
	}
	clear(&task);
	return cli_finish(status);
}
