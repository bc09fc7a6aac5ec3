/* SPDX-License-Identifier: Apache-2.0
 *
 * Every member of every JSON file of a batch and a response, and every member of their streams:
 * dropped, doubled, of another type, too long, taken from another batch, and one more that is
 * unknown. What was changed is signed again where its author could do so, so that not a digest
 * refuses it. tests/vectors/batch-members.txt has what each must come to: the step of reading, the
 * code and a part of the text.
 */
#include "tar_header.h"
#include "batch_parts.h"
#include "crypto/key.h"

static const char *const doc_names[] = { "seal",  "payload", "protected",
					 "index", "note",    "locations" };

/* ---- changes ---- */
enum how { DROPPED, DOUBLED, TYPED, LONG, SWAPPED, UNKNOWN, HOWS };
static const char *const how_names[] = { "dropped",  "doubled", "type",
					 "too-long", "swapped", "unknown" };

struct change {
	enum doc doc;
	enum how how;
	char pointer[MEMBER_MAX]; /* of the member, "/segments/0/size" */
};

/* The object that has the member, whose name is *key. */
static json_t *parent_of(json_t *tree, const char *pointer, const char **key)
{
	char part[MEMBER_MAX];
	const char *slash;

	for (pointer++; (slash = strchr(pointer, '/')) != NULL; pointer = slash + 1) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - pointer), pointer);
		tree = json_is_array(tree) ? json_array_get(tree, (size_t)atoi(part))
					   : json_object_get(tree, part);
	}
	*key = pointer;
	return tree;
}

static json_t *of_another_type(const json_t *value)
{
	return json_is_string(value)	? json_integer(7)
	       : json_is_integer(value) ? json_string("7")
	       : json_is_array(value)	? json_object()
					: json_array();
}

static json_t *too_long(const char *key, const json_t *value)
{
	static char text[5001];
	const int count = !strcmp(key, "signatures") || !strcmp(key, "recipients")
				  ? SGPU_RECIPIENTS_MAX
				  : SGPU_MANIFEST_SEGMENTS_MAX;
	json_t *json;

	if (json_is_integer(value)) {
		return json_integer((json_int_t)1 << 53);
	}
	if (json_is_string(value)) {
		memset(text, 'A', sizeof(text) - 1);
		return json_sprintf("%s%s", json_string_value(value), text);
	}
	json = json_deep_copy(value);
	for (int i = 0; json_is_array(json) && i < count; i++) {
		json_array_append(json, json_array_get(json, 0));
	}
	json_object_set_new(json, "long", json_string(text));
	return json;
}

static void change_element(json_t *array, size_t at, enum how how)
{
	if (how == DROPPED) {
		json_array_remove(array, at);
	} else if (how == DOUBLED) {
		json_array_insert(array, at + 1, json_array_get(array, at));
	} else {
		json_array_set_new(array, at, of_another_type(json_array_get(array, at)));
	}
}

/* twice: receives the name, marked, of a member that is to be there twice. */
static void change_tree(json_t *tree, const struct change *change, json_t *other,
			char twice[MEMBER_MAX + 8])
{
	const char *key;
	json_t *parent = parent_of(tree, change->pointer, &key),
	       *value = json_object_get(parent, key);

	if (json_is_array(parent)) {
		change_element(parent, (size_t)atoi(key), change->how);
	} else if (change->how == DROPPED) {
		json_object_del(parent, key);
	} else if (change->how == DOUBLED) {
		snprintf(twice, MEMBER_MAX + 8, "%s#", key);
		json_object_set(parent, twice, value);
		snprintf(twice, MEMBER_MAX + 8, "\"%s#\":", key);
	} else if (change->how == TYPED) {
		json_object_set_new(parent, key, of_another_type(value));
	} else if (change->how == LONG) {
		json_object_set_new(parent, key, too_long(key, value));
	} else if (change->how == SWAPPED) {
		value = json_object_get(parent_of(other, change->pointer, &key), key);
		json_object_set(parent, key, value);
	} else {
		json_object_set_new(parent, key, json_integer(1));
	}
}

/* The text of a tree with the change, if it is of this one. */
static char *text_of(enum doc doc, json_t *tree, const struct change *change,
		     const struct scene *other)
{
	char twice[MEMBER_MAX + 8] = "", *text, *at;
	json_t *copy = json_deep_copy(tree);

	if (change && change->doc == doc) {
		change_tree(copy, change, other->docs[doc], twice);
	}
	text = json_dumps(copy, JSON_COMPACT);
	if (twice[0]) {
		at = strchr(strstr(text, twice), '#');
		memmove(at, at + 1, strlen(at));
	}
	json_decref(copy);
	return text;
}

static void put_digest(json_t *tree, const char *key, const char *text, size_t size)
{
	uint8_t digest[SGPU_SHA256_SIZE];

	if (sgpu_sha256(text, size, digest, &error)) {
		abort();
	}
	json_object_set_new(tree, key, b64(digest, sizeof(digest)));
}

/* A signature whose header may be any text. */
static json_t *signature(const char *header, const char *payload)
{
	uint8_t raw[SGPU_SIGNATURE_SIZE];
	char *protected = malloc(SGPU_BASE64URL_MAX(strlen(header))), *text = NULL;
	json_t *entry;

	sgpu_base64url_encode(header, strlen(header), protected);
	if (asprintf(&text, "%s.%s", protected, payload) < 0 ||
	    sgpu_signing_sign(&owner, text, strlen(text), raw, &error)) {
		abort();
	}
	entry = json_pack("{s:s, s:o}", "protected", protected, "signature", b64(raw, sizeof(raw)));
	free(protected);
	free(text);
	return entry;
}

/* ---- streams ---- */
struct member {
	const char *name;
	const char *data;
	size_t size;
};

struct stream_change {
	int member;
	enum how how;
};

static void put_member(int fd, const struct member *member, const struct stream_change *change)
{
	static const uint8_t zeros[128];
	const bool typed = change && change->how == TYPED;
	const size_t size = member->size + (change && change->how == LONG ? 512 : 0);
	const off_t at = lseek(fd, 0, SEEK_CUR);
	uint8_t block[SGPU_TAR_BLOCK];
	unsigned sum = 0;

	if (put_header(fd, member->name, size, &error) ||
	    sgpu_write(fd, "b", member->data ? member->data : (const char *)zeros, member->size,
		       &error) ||
	    sgpu_tar_padding(fd, "b", member->size, &error)) {
		abort();
	}
	if (typed) { /* a directory */
		if (pread(fd, block, sizeof(block), at) != sizeof(block)) {
			abort();
		}
		block[156] = '5';
		memset(block + 148, ' ', 8);
		for (size_t i = 0; i < sizeof(block); i++) {
			sum += block[i];
		}
		snprintf((char *)block + 148, 8, "%06o", sum);
		if (pwrite(fd, block, sizeof(block), at) != sizeof(block)) {
			abort();
		}
	}
}

static int put_stream(const struct member *members, int count, const struct stream_change *change)
{
	static const struct member unknown = { "x", "y", 1 };
	const int fd = memfd_create("batch", 0);

	for (int i = 0; i < count; i++) {
		const bool here = change && change->member == i;
		const bool swap = here && change->how == SWAPPED;

		if (here && change->how == UNKNOWN) {
			put_member(fd, &unknown, NULL);
		}
		if (swap && i + 1 < count) {
			put_member(fd, &members[i + 1], NULL);
		}
		if (!here || change->how != DROPPED) {
			put_member(fd, &members[i], here ? change : NULL);
		}
		if (here && change->how == DOUBLED) {
			put_member(fd, &members[i], NULL);
		}
		i += swap;
	}
	if (sgpu_tar_end(fd, "b", &error) || lseek(fd, 0, SEEK_SET)) {
		abort();
	}
	return fd;
}

/* Puts payload, MAC and signature into seal.json. What is taken from another batch is there after
 * MAC and signature were made. */
static void seal_it(const struct scene *scene, json_t *seal, json_t *payload,
		    const struct change *change, const struct scene *other)
{
	const bool old = change && change->how == SWAPPED;
	struct sgpu_batch made = { .response = scene->response };
	const json_t *header_tree = scene->docs[PROTECTED];

	memset(made.id, 7, sizeof(made.id));
	made.index_text = strdup(""); /* it is there, so that only the MAC is made */
	for (int last = old ? 0 : 1; last < 2; last++) {
		const struct change *now = old && !last ? NULL : change;
		char *text = text_of(PAYLOAD, payload, now, other), *header = NULL;
		json_t *entry = NULL;

		made.payload = malloc(SGPU_BASE64URL_MAX(strlen(text)));
		sgpu_base64url_encode(text, strlen(text), made.payload);
		json_object_set_new(seal, "payload", json_string(made.payload));
		if (header_tree) {
			header = text_of(PROTECTED, scene->docs[PROTECTED], now, other);
			entry = signature(header, made.payload);
		}
		if (!old || !last) {
			if (sgpu_batch_sign(&made, batch_key, &error)) {
				abort();
			}
			json_object_set_new(seal, "mac", b64(made.mac, sizeof(made.mac)));
			if (entry) {
				json_object_set_new(seal, "signatures", json_pack("[O]", entry));
			}
		} else if (entry) {
			json_object_set(json_array_get(json_object_get(seal, "signatures"), 0),
					"protected", json_object_get(entry, "protected"));
		}
		json_decref(entry);
		free(made.payload);
		free(header);
		free(text);
	}
	free(made.index_text);
}

static char *sealed_note(const struct scene *scene, const struct change *change,
			 const struct scene *other, size_t *size)
{
	struct sgpu_batch made = { .note = text_of(NOTE, scene->docs[NOTE], change, other) };

	memset(made.id, 7, sizeof(made.id));
	made.note_size = strlen(made.note);
	if (sgpu_batch_seal_note(&made, batch_key, &error)) {
		abort();
	}
	*size = made.note_size;
	return made.note;
}

static int write_scene(const struct scene *scene, const struct change *change,
		       const struct stream_change *stream, const struct scene *other, int *count,
		       char (*names)[MEMBER_MAX])
{
	const bool old = change && change->how == SWAPPED;
	json_t *index = json_deep_copy(scene->docs[INDEX]),
	       *payload = json_deep_copy(scene->docs[PAYLOAD]),
	       *seal = json_deep_copy(scene->docs[SEAL]);
	char *texts[3], *signed_index;
	struct member members[8], note = { "note", NULL, 0 };
	int used = 0, fd;

	note.data = sealed_note(scene, change, other, &note.size);
	if (!old || change->doc != NOTE) {
		put_digest(index, "note_sha256", note.data, note.size);
	}
	texts[1] = text_of(INDEX, index, change, other);
	signed_index = text_of(INDEX, index, old ? NULL : change, other);
	put_digest(payload, "index_sha256", signed_index, strlen(signed_index));
	free(signed_index);
	seal_it(scene, seal, payload, change, other);
	texts[0] = text_of(SEAL, seal, change, other);
	texts[2] = text_of(LOCATIONS, scene->docs[LOCATIONS], change, other);
	members[used++] = (struct member){ "seal.json", texts[0], strlen(texts[0]) };
	members[used++] = (struct member){ scene->response ? "response.json" : "batch.json",
					   texts[1], strlen(texts[1]) };
	if (scene->manifest) {
		members[used++] =
			(struct member){ "manifest.json", scene->manifest, scene->manifest_size };
	}
	members[used++] = note;
	members[used++] = (struct member){ "locations.json", texts[2], strlen(texts[2]) };
	for (int i = 0; i < scene->payloads; i++) {
		members[used++] = (struct member){ scene->names[i], NULL, scene->sizes[i] };
	}
	for (int i = 0; names && i < used; i++) {
		snprintf(names[i], MEMBER_MAX, "/%s", members[i].name);
	}
	fd = put_stream(members, used, stream);
	if (count) {
		*count = used;
	}
	free((char *)(uintptr_t)note.data);
	for (int i = 0; i < 3; i++) {
		free(texts[i]);
	}
	json_decref(index);
	json_decref(payload);
	json_decref(seal);
	return fd;
}

/* ---- reading, step by step, as sgpu-run does ---- */
static const char *read_scene(int fd, bool response, int *code)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *batch = NULL;
	uint8_t key[SGPU_KEY_SIZE];
	char kid[SGPU_KID_SIZE + 1], *paths[3] = { NULL };
	json_t *files[3] = { NULL };
	const char *step = "seal";
	int segment = 0;

	if (sgpu_tar_open(fd, "b", &reader, &error)) {
		abort();
	}
	*code = sgpu_batch_read_seal(reader, response ? SGPU_READ_RESPONSE : SGPU_READ_BATCH,
				     &batch, &error);
#define STEP(name, call)      \
	if (!*code) {         \
		step = name;  \
		*code = call; \
	}
	STEP("key", sgpu_batch_unwrap(batch, &keys[1], 1, key, &error));
	STEP("mac", sgpu_batch_verify(batch, key, &error));
	if (!response) {
		STEP("owner", sgpu_batch_owner(batch, owners, 1, kid, &error));
	}
	STEP("rest", sgpu_batch_read_rest(reader, batch, NULL, &error));
	while (!*code && segment >= 0) {
		STEP("payloads", sgpu_batch_next_payload(reader, batch, &segment, &error));
	}
	if (!*code && response) {
		STEP("note", sgpu_batch_paths(batch, key, paths, files, &error));
	}
	for (int i = 0; i < 3; i++) {
		free(paths[i]);
		json_decref(files[i]);
	}
	sgpu_batch_free(&batch);
	sgpu_tar_close(&reader);
	close(fd);
	return *code ? step : "taken";
}

/* ---- the table ---- */
static char *table;
static int cases, wrong;

/* Looks up and compares the line "FILE POINTER HOW STEP CODE TEXT". */
static void compare(const char *file, const char *pointer, const char *how, const char *step,
		    int code)
{
	char begin[2 * MEMBER_MAX], got[1024];
	const char *line;
	size_t length;

	cases++;
	snprintf(begin, sizeof(begin), "\n%s %s %s ", file, pointer, how);
	snprintf(got, sizeof(got), "%s%s %s %s\n", begin, step, code ? sgpu_error_name(code) : "-",
		 code ? error.text : "-");
	line = strstr(table, begin);
	length = line ? strcspn(line + 1, "\n") + 1 : 0;
	if (!line || strncmp(got, line, length) != 0) {
		printf("# got %s", got + 1);
		wrong++;
	}
}

struct walk {
	struct scene *scene, *other;
	enum doc doc;
};

static void try_member(const struct walk *walk, const char *pointer, enum how how)
{
	struct change change = { .doc = walk->doc, .how = how };
	char file[32];
	int code = 0;

	snprintf(change.pointer, sizeof(change.pointer), "%s", pointer);
	snprintf(file, sizeof(file), "%s:%s", walk->scene->response ? "response" : "batch",
		 doc_names[walk->doc]);
	const int fd = write_scene(walk->scene, &change, NULL, walk->other, NULL, NULL);
	const char *step = read_scene(fd, walk->scene->response, &code);

	compare(file, pointer, how_names[how], step, code);
}

static bool differs(const struct walk *walk, const char *pointer)
{
	const char *key;
	json_t *here = parent_of(walk->scene->docs[walk->doc], pointer, &key),
	       *there = parent_of(walk->other->docs[walk->doc], pointer, &key);

	return !json_equal(json_object_get(here, key), json_object_get(there, key));
}

static void try_members(const struct walk *walk, const json_t *tree, const char *pointer)
{
	char place[MEMBER_MAX];
	const char *key;
	json_t *value;
	size_t i;

	json_array_foreach (tree, i, value) {
		snprintf(place, sizeof(place), "%s/%zu", pointer, i);
		for (enum how how = DROPPED; how <= TYPED; how++) {
			try_member(walk, place, how);
		}
		try_members(walk, value, place);
	}
	if (!json_is_object(tree)) {
		return;
	}
	snprintf(place, sizeof(place), "%s/x", pointer);
	try_member(walk, place, UNKNOWN);
	json_object_foreach ((json_t *)(uintptr_t)tree, key, value) {
		snprintf(place, sizeof(place), "%s/%s", pointer, key);
		for (enum how how = DROPPED; how <= SWAPPED; how++) {
			if (how != SWAPPED || differs(walk, place)) {
				try_member(walk, place, how);
			}
		}
		try_members(walk, value, place);
	}
}

static void try_streams(struct scene *scene)
{
	char names[8][MEMBER_MAX];
	int count = 0, code = 0;

	close(write_scene(scene, NULL, NULL, NULL, &count, names));
	for (int i = 0; i < count; i++) {
		for (enum how how = DROPPED; how < HOWS; how++) {
			const struct stream_change change = { .member = i, .how = how };

			if (how == SWAPPED && i + 1 == count) {
				continue; /* swapped with the next one, which it has not */
			}
			const int fd = write_scene(scene, NULL, &change, NULL, NULL, NULL);
			const char *step = read_scene(fd, scene->response, &code);

			compare(scene->response ? "response:stream" : "batch:stream", names[i],
				how_names[how], step, code);
		}
	}
}

static void try_scene(bool response)
{
	struct scene scene, other;
	int code = 0;

	make_scene(&other, response, true);
	make_scene(&scene, response, false);
	CHECK(!strcmp(
		read_scene(write_scene(&scene, NULL, NULL, NULL, NULL, NULL), response, &code),
		"taken"));
	for (enum doc doc = SEAL; doc < DOCS; doc++) {
		const struct walk walk = { &scene, &other, doc };

		if (scene.docs[doc] && !(response ? doc == LOCATIONS : doc == NOTE)) {
			try_members(&walk, scene.docs[doc], "");
		}
	}
	try_streams(&scene);
	free_scene(&scene);
	free_scene(&other);
}

UNIT_TEST(each_member_of_a_batch_that_is_changed_is_refused_at_its_step)
{
	try_scene(false);
	CHECK(wrong == 0);
}

UNIT_TEST(each_member_of_a_response_that_is_changed_is_refused_at_its_step)
{
	wrong = 0;
	try_scene(true);
	CHECK(wrong == 0);
	CHECK(cases >= 200);
	printf("# %d cases\n", cases);
}

/* Keys of which the table has the thumbprints. */
#define RFC7748_D "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo"
#define RFC7748_X "hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo"
#define RFC8037_D "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
#define RFC8037_X "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
#define RFC7515_X "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
#define RFC7515_Y "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
#define RFC7515_D "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"

static struct sgpu_key_set fixed(const char *jwk)
{
	struct sgpu_key_set set;

	if (sgpu_key_set_parse(jwk, strlen(jwk), "jwk", &set, &error)) {
		fprintf(stderr, "%s\n", error.text);
		abort();
	}
	return set;
}

int main(void)
{
	const char *path = "tests/vectors/batch-members.txt";
	size_t size = 0;
	FILE *file = fopen(path, "r");

	table = calloc(1, 1 << 18);
	if (file && table) {
		size = fread(table + 1, 1, (1 << 18) - 2, file);
		fclose(file);
	}
	if (!size) {
		printf("1..0 # SKIP %s: not run in the source tree\n", path);
		return 0;
	}
	table[0] = '\n';
	keys[0] = fixed("{\"kty\":\"oct\",\"k\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"}")
			  .key;
	keys[1] = fixed("{\"kty\":\"OKP\",\"crv\":\"X25519\",\"d\":\"" RFC7748_D
			"\",\"x\":\"" RFC7748_X "\"}")
			  .key;
	owner = fixed("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"d\":\"" RFC8037_D
		      "\",\"x\":\"" RFC8037_X "\"}")
			.signing;
	stranger = fixed("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"" RFC7515_X
			 "\",\"y\":\"" RFC7515_Y "\",\"d\":\"" RFC7515_D "\"}")
			   .signing;
	owners[0] = owner.kid;
	UNIT_RUN(each_member_of_a_batch_that_is_changed_is_refused_at_its_step);
	UNIT_RUN(each_member_of_a_response_that_is_changed_is_refused_at_its_step);
	free(table);
	return unit_done();
}
