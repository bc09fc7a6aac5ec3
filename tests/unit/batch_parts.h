/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch or a response in parts: the trees of its JSON files, for tests that change them.
 */
#ifndef BATCH_PARTS_H
#define BATCH_PARTS_H

#include <jansson.h>

#include "batch_harness.h"

enum { MEMBER_MAX = 128 };

/* ---- a batch or a response in parts ---- */
enum doc { SEAL, PAYLOAD, PROTECTED, INDEX, NOTE, LOCATIONS, DOCS };
struct scene {
	bool response;
	json_t *docs[DOCS];
	char *manifest;
	size_t manifest_size;
	int payloads; /* inline ones, 'name' of 'size' */
	char names[3][MEMBER_MAX];
	size_t sizes[3];
};

static struct sgpu_key keys[2];
static struct sgpu_key owner, stranger;
static const char *owners[1];

static inline json_t *b64(const void *data, size_t size)
{
	char text[SGPU_BASE64URL_MAX(256)];

	sgpu_base64url_encode(data, size, text);
	return json_string(text);
}

static inline json_t *load(const char *text)
{
	json_t *json = json_loads(text, 0, NULL);

	if (!json) {
		abort();
	}
	return json;
}

/* Takes the trees of a batch that the library has made. */
static inline void take_apart(struct scene *scene, struct sgpu_batch *batch)
{
	uint8_t *text = NULL;
	size_t size = 0;
	char *seal = NULL, *locations = NULL;
	const char *protected;

	if (sgpu_seal_json_freeze(batch, &error) ||
	    sgpu_seal_json_text(batch, &seal, &size, &error) ||
	    sgpu_locations_text(batch, &locations, &size, &error) ||
	    sgpu_base64url_read(batch->payload, strlen(batch->payload), "p", &text, &size,
				&error)) {
		abort();
	}
	scene->response = batch->response;
	scene->docs[SEAL] = load(seal);
	scene->docs[PAYLOAD] = json_loadb((char *)text, size, 0, NULL);
	scene->docs[INDEX] = load(batch->index_text);
	scene->docs[LOCATIONS] = load(locations);
	free(text);
	protected = json_string_value(json_object_get(
		json_array_get(json_object_get(scene->docs[SEAL], "signatures"), 0), "protected"));
	if (protected) {
		if (sgpu_base64url_read(protected, strlen(protected), "p", &text, &size, &error)) {
			abort();
		}
		scene->docs[PROTECTED] = json_loadb((char *)text, size, 0, NULL);
		free(text);
	}
	for (int i = 0; i < batch->segment_count; i++) {
		if (batch->segments[i].location.kind == SGPU_LOCATION_INLINE) {
			snprintf(scene->names[scene->payloads], MEMBER_MAX, "segments/%s",
				 batch->segments[i].id);
			scene->sizes[scene->payloads++] = sgpu_batch_payload_size(batch, i);
		}
	}
	free(seal);
	free(locations);
}

/* `other`: another batch of the same manifest and keys. */
static inline void make_scene(struct scene *scene, bool response, bool other)
{
	static const char note[] = "{\"version\":2,\"outputs\":[{\"segment_id\":\"sum\",\"path\":"
				   "\"results/sum.f32\"}]}";
	static const char other_note[] = "{\"version\":2,\"outputs\":[{\"segment_id\":\"sum\","
					 "\"path\":\"elsewhere\"}]}";
	struct sgpu_batch *batch = empty_batch(3);
	struct sgpu_batch_segment *s = batch->segments;

	memset(scene, 0, sizeof(*scene));
	memset(batch_key, 9, sizeof(batch_key));
	memset(batch->id, other ? 8 : 7, sizeof(batch->id));
	scene->docs[NOTE] = load(other ? other_note : note);
	batch->response = response;
	batch->counter = response ? 0 : other ? 2 : 1;
	batch->note = strdup(note);
	batch->note_size = strlen(note);
	s[0] = (struct sgpu_batch_segment){ .id = strdup("secret"),
					    .masking = SGPU_MASKING_AES_GCM,
					    .sealed = true,
					    .size = 16,
					    .sealed_size = 88,
					    .location = { .kind = SGPU_LOCATION_INLINE } };
	s[1] = (struct sgpu_batch_segment){
		.id = strdup("public"),
		.size = 16,
		.has_kt128 = true,
		.location = { .kind = response ? SGPU_LOCATION_LEASE : SGPU_LOCATION_FILE,
			      .file = response ? NULL : strdup("/data/p"),
			      .offset = other ? 8192 : 4096 }
	};
	s[2] = (struct sgpu_batch_segment){ .id = strdup("sum"),
					    .masking = SGPU_MASKING_AES_GCM,
					    .size = response ? 0 : 16 };
	sgpu_kt128(public_data, other ? 8 : 16, NULL, 0, s[1].kt128, sizeof(s[1].kt128));
	memset(s[response ? 1 : 2].location.region, other ? 'b' : 'a', SGPU_REGION_ID_TEXT);
	if (response) {
		s[2].status = SGPU_EAUTH;
		s[2].error_text = strdup("chunk 3 does not verify");
		memset(batch->response_id, other ? 6 : 5, sizeof(batch->response_id));
		memset(batch->identity, other ? 4 : 3, sizeof(batch->identity));
		batch->timings = json_pack("{s:i}", "kernel", other ? 6 : 5);
	} else {
		s[2].location.kind = SGPU_LOCATION_REGION;
		s[2].output = true; /* or its handle would have no room for its seal */
		scene->manifest = strdup(batch->manifest_text);
		scene->manifest_size = batch->manifest_size;
	}
	for (int i = 0; i < 2; i++) {
		if (sgpu_batch_wrap(batch, &keys[i], batch_key, &error)) {
			abort();
		}
	}
	if (sgpu_batch_seal_note(batch, batch_key, &error) ||
	    (!response && (sgpu_batch_draw_header(batch, batch_key, 0, &error) ||
			   sgpu_batch_add_signature(batch, other ? &stranger : &owner, &error))) ||
	    sgpu_batch_sign(batch, batch_key, &error)) {
		abort();
	}
	take_apart(scene, batch);
	sgpu_batch_free(&batch);
}

static inline void free_scene(struct scene *scene)
{
	for (int i = 0; i < DOCS; i++) {
		json_decref(scene->docs[i]);
	}
	free(scene->manifest);
}

#endif
