/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes each JSON file of a batch but its manifest: the first byte chooses which. What parses must
 * come back the same from its own text, and what uses it must not fault.
 */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"
#include "batch/index.h"
#include "crypto/crypto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_seal(const char *text, size_t size)
{
	static const struct sgpu_key key = { .kind = SGPU_KEY_OCT,
					     .kid = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" };
	uint8_t batch_key[SGPU_KEY_SIZE] = { 0 }, identity[SGPU_SHA256_SIZE];
	struct sgpu_batch *batch = NULL, *again = NULL;
	char *made = NULL;
	size_t made_size = 0;

	if (sgpu_seal_json_parse(text, size, &batch, NULL)) {
		return;
	}
	if (sgpu_seal_json_text(batch, &made, &made_size, NULL) ||
	    sgpu_seal_json_parse(made, made_size, &again, NULL) ||
	    strcmp(batch->payload, again->payload) != 0 ||
	    (batch->signatures && !json_equal(batch->signatures, again->signatures)) ||
	    batch->has_mac != again->has_mac || batch->counter != again->counter ||
	    memcmp(batch->index_sha256, again->index_sha256, sizeof(batch->index_sha256)) ||
	    sgpu_batch_identity(batch, identity, NULL)) {
		abort();
	}
	for (size_t i = 0; i < json_array_size(batch->signatures); i++) {
		const json_t *entry = json_array_get(batch->signatures, i);
		struct sgpu_key signer;
		int code = sgpu_signature_key(entry, SGPU_BATCH_TYP, &signer, NULL);

		code = code ? code : sgpu_signature_verify(entry, batch->payload, &signer, NULL);
		if (code && code != SGPU_EINVALID && code != SGPU_EAUTH) {
			abort();
		}
	}
	if (sgpu_batch_unwrap(batch, &key, 1, batch_key, NULL) == 0 ||
	    (batch->has_mac && sgpu_batch_verify(batch, batch_key, NULL) == 0)) {
		abort(); /* the key is in no corpus */
	}
	free(made);
	sgpu_batch_free(&again);
	sgpu_batch_free(&batch);
}

/* A batch whose seal.json has been parsed, as far as an index looks at it. */
static struct sgpu_batch *sealed(bool response)
{
	struct sgpu_batch *batch = calloc(1, sizeof(*batch));

	if (!batch) {
		abort();
	}
	batch->response = response;
	batch->recipients = json_pack("[{}]");
	return batch;
}

static void fuzz_index(bool response, const char *text, size_t size)
{
	struct sgpu_batch *batch = sealed(response), *again = sealed(response);
	char *made = NULL, *remade = NULL;
	size_t made_size = 0, remade_size = 0;

	if (!sgpu_index_parse(text, size, batch, NULL)) {
		if (sgpu_index_text(batch, &made, &made_size, NULL) ||
		    sgpu_index_parse(made, made_size, again, NULL) ||
		    sgpu_index_text(again, &remade, &remade_size, NULL) ||
		    made_size != remade_size || memcmp(made, remade, made_size) != 0) {
			abort();
		}
		for (int i = 0; i < batch->segment_count; i++) {
			if (sgpu_batch_segment(batch, batch->segments[i].id) != i) {
				abort();
			}
		}
	}
	free(made);
	free(remade);
	sgpu_batch_free(&batch);
	sgpu_batch_free(&again);
}

/* With three segments, of which the corpus speaks. */
static struct sgpu_batch *indexed(bool response)
{
	static const char *const ids[] = { "a", "b", "c" };
	struct sgpu_batch *batch = sealed(response);

	batch->segments = calloc(3, sizeof(*batch->segments));
	if (!batch->segments) {
		abort();
	}
	for (int i = 0; i < 3; i++) {
		batch->segments[i].id = strdup(ids[i]);
		batch->segments[i].size = 100;
		batch->segments[i].location.kind = SGPU_LOCATION_INLINE;
	}
	batch->segment_count = 3;
	return batch;
}

static void fuzz_locations(const char *text, size_t size)
{
	struct sgpu_batch *batch = indexed(false), *again = indexed(false);
	char *made = NULL;
	size_t made_size = 0;

	if (!sgpu_locations_parse(text, size, batch, NULL)) {
		if (sgpu_locations_text(batch, &made, &made_size, NULL) || !made ||
		    sgpu_locations_parse(made, made_size, again, NULL)) {
			abort();
		}
		for (int i = 0; i < 3; i++) {
			const struct sgpu_location *a = &batch->segments[i].location,
						   *b = &again->segments[i].location;
			if (a->kind != b->kind || a->offset != b->offset ||
			    strcmp(a->region, b->region) != 0 || !a->file != !b->file ||
			    (a->file && strcmp(a->file, b->file) != 0)) {
				abort();
			}
		}
	}
	free(made);
	sgpu_batch_free(&batch);
	sgpu_batch_free(&again);
}

static void fuzz_note(const char *text, size_t size)
{
	struct sgpu_batch *batch = indexed(true);
	char *paths[3] = { NULL };
	json_t *files[3] = { NULL };

	batch->note = malloc(size + 1);
	if (!batch->note) {
		abort();
	}
	memcpy(batch->note, text, size);
	batch->note_size = size;
	if (!sgpu_batch_paths(batch, NULL, paths, files, NULL)) {
		for (int i = 0; i < 3; i++) {
			if (paths[i][0] == '/' || strcmp(paths[i], "..") == 0 ||
			    strncmp(paths[i], "../", 3) == 0 || strstr(paths[i], "/../")) {
				abort();
			}
		}
	}
	for (int i = 0; i < 3; i++) {
		free(paths[i]);
		json_decref(files[i]);
	}
	sgpu_batch_free(&batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size) {
		return 0;
	}
	char *text = malloc(size); /* so that a read beyond its end is seen */
	if (!text) {
		return 0;
	}
	memcpy(text, data + 1, size - 1);
	switch (data[0] % 5) {
	case 0:
		fuzz_seal(text, size - 1);
		break;
	case 1:
		fuzz_index(false, text, size - 1);
		break;
	case 2:
		fuzz_index(true, text, size - 1);
		break;
	case 3:
		fuzz_locations(text, size - 1);
		break;
	default:
		fuzz_note(text, size - 1);
		break;
	}
	free(text);
	return 0;
}
