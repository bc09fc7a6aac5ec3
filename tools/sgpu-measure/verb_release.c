/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure release: the digests of a build, signed by who releases it, so that those who
 * install it can write a policy: a JWS in its general JSON serialization, see sgpu-measure(1).
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/version.h>

#include "attest/quote.h"
#include "base/json.h"
#include "crypto/crypto.h"
#include "device/device.h"
#include "parts.h"

#define TYP "sgpu-release+jws"

enum { RELEASE_VERSION = 1, RELEASE_MAX = 64 << 10, TEXT_MAX = 256, FILES_MAX = 256 };
static const char where[] = "release";

struct task {
	const char *build_path, *key_path, *out_path;
};

const struct cli_option release_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "build", 0, "DIR", "the files of this build", CLI_TEXT(struct task, build_path) },
	{ "key", 'k', "KEY", "the key to sign with, of 'sgpu-seal keygen'",
	  CLI_INPUT(struct task, key_path) },
	{ "output", 'o', "FILE", "where it goes (default: standard output)",
	  CLI_TEXT(struct task, out_path) },
	CLI_END,
};

static int add_file(json_t *list, const char *name, uint64_t size, const uint8_t *digest,
		    struct sgpu_error *error)
{
	json_t *file = json_pack("{s:s, s:I, s:o}", "name", name, "size", (json_int_t)size,
				 "digest", sgpu_json_from_bytes(digest, SGPU_KT128_SIZE));

	return json_array_append_new(list, file) == 0 ? 0 : sgpu_fail_nomem(error);
}

static int path_of(char path[PATH_MAX], const char *folder, const char *name,
		   struct sgpu_error *error)
{
	if ((size_t)snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "the path of the build is too long");
	}
	cli_remember_input(path);
	return 0;
}

int release_of_build(const char *folder, json_t **release, struct sgpu_error *error)
{
	uint8_t digest[SGPU_KT128_SIZE];
	struct sgpu_device_code found;
	char path[PATH_MAX];
	json_t *files = json_array();
	uint64_t size = 0;
	int rc = files ? path_of(path, folder, "bin/sgpu-enclave", error) : sgpu_fail_nomem(error);

	*release = NULL;
	rc = rc ? rc : sgpu_measure_file(path, digest, &size, error);
	rc = rc ? rc : add_file(files, RELEASE_RUNNER, size, digest, error);
	rc = rc ? rc : path_of(path, folder, "lib/sgpu/sgpu-cuda.so", error);
	if (!rc && access(path, F_OK) != 0) {
		cli_note(
			"the build has no '%s': quotes of machines with a GPU will not be accepted",
			path);
	} else if (!rc) {
		rc = sgpu_device_code_of_file(path, &found, error);
		rc = rc ? rc : add_file(files, found.name, found.size, found.digest, error);
	}
	if (!rc) {
		*release = json_pack("{s:i, s:s, s:O}", "version", RELEASE_VERSION, "release",
				     SGPU_VERSION, "files", files);
		rc = *release ? 0 : sgpu_fail_nomem(error);
	}
	json_decref(files);
	return rc;
}

const json_t *release_file(const json_t *release, const char *name)
{
	const json_t *file = NULL;
	size_t i = 0;

	json_array_foreach (json_object_get(release, "files"), i, file) {
		const bool runner = strcmp(cli_text_of(file, "name"), RELEASE_RUNNER) == 0;

		if (name ? strcmp(cli_text_of(file, "name"), name) == 0 : !runner) {
			return file;
		}
	}
	return NULL;
}

static const struct sgpu_member all[] = {
	NEEDED("version", INTEGER),
	NEEDED("release", TEXT, .max = TEXT_MAX),
	NEEDED("files", ARRAY, .min = 1, .max = FILES_MAX),
	NEEDED("files/*", OBJECT),
	NEEDED("files/*/name", TEXT, .max = TEXT_MAX),
	NEEDED("files/*/size", INTEGER),
	NEEDED("files/*/digest", BYTES, .min = SGPU_KT128_SIZE, .max = SGPU_KT128_SIZE),
	{ .path = NULL },
};

static int check(const json_t *release, struct sgpu_error *error)
{
	const json_int_t version = json_integer_value(json_object_get(release, "version"));
	int rc = sgpu_members_check(release, where, all, error);

	if (!rc && version != RELEASE_VERSION) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: version %lld is not %d", where,
			       (long long)version, RELEASE_VERSION);
	}
	if (!rc && !release_file(release, RELEASE_RUNNER)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: no file '%s'", where, RELEASE_RUNNER);
	}
	return rc;
}

static int verify(const json_t *jws, const char *payload, const struct sgpu_key *key,
		  struct sgpu_error *error)
{
	const json_t *entry = NULL;
	struct sgpu_key named;
	size_t i = 0;

	json_array_foreach (json_object_get(jws, "signatures"), i, entry) {
		if (sgpu_signature_key(entry, TYP, &named, NULL) == 0 &&
		    strcmp(named.kid, key->kid) == 0) {
			return sgpu_signature_verify(entry, payload, &named, error);
		}
	}
	return sgpu_fail(error, SGPU_EAUTH, "the release is not signed by '%s'", key->kid);
}

int release_read(const char *path, const struct sgpu_key *key, json_t **release,
		 struct sgpu_error *error)
{
	const char *payload = NULL;
	char *text = NULL;
	size_t size = 0;
	json_t *jws = NULL, *signatures;
	const struct sgpu_field fields[] = {
		{ "payload", SGPU_FIELD_TEXT, .to = &payload },
		{ "signatures", SGPU_FIELD_JSON, .to = &signatures },
	};
	int rc = sgpu_read_file(path, NULL, RELEASE_MAX, &text, &size, error);

	*release = NULL;
	rc = rc ? rc : sgpu_json_parse(text, size, where, &jws, error);
	rc = rc ? rc : sgpu_fields_read(jws, where, fields, SGPU_ARRAY_LENGTH(fields), error);
	rc = rc ? rc : verify(jws, payload, key, error);
	rc = rc ? rc : sgpu_json_decode(payload, strlen(payload), where, release, error);
	rc = rc ? rc : check(*release, error);
	json_decref(jws);
	free(text);
	if (rc) {
		json_decref(*release);
		*release = NULL;
	}
	return rc;
}

static int sign(const struct task *task, const json_t *release, json_t **jws,
		struct sgpu_error *error)
{
	struct sgpu_key_set keys = { 0 };
	json_t *payload = NULL, *entry = NULL;
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_key_set_load(task->key_path, &keys, error);

	if (!rc && !keys.signing.secret_known) {
		rc = sgpu_fail(error, SGPU_EINVALID, "key '%s' has no key to sign with",
			       task->key_path);
	}
	rc = rc ? rc : sgpu_json_canonical(release, &text, &size, error);
	payload = rc ? NULL : sgpu_json_from_bytes(text, size);
	rc = rc	       ? rc
	     : payload ? sgpu_signature_make(&keys.signing, TYP, json_string_value(payload), &entry,
					     error)
		       : sgpu_fail_nomem(error);
	if (!rc) {
		*jws = json_pack("{s:O, s:[o]}", "payload", payload, "signatures", entry);
		rc = *jws ? 0 : sgpu_fail_nomem(error);
	}
	sgpu_key_set_clear(&keys);
	json_decref(payload);
	free(text);
	return rc;
}

int verb_release(int argc, char **argv)
{
	struct task task = { 0 };
	struct sgpu_error error = { 0 };
	json_t *release = NULL, *jws = NULL;
	char **paths;
	int status = cli_read(argc, argv, &task, &paths);

	if (!status && (!task.build_path || !task.key_path)) {
		status = cli_usage("the build is named with --build, the key with -k");
	}
	status = status ? status : cli_output_prepare(task.out_path, 0644, false);
	if (!status) {
		int rc = release_of_build(task.build_path, &release, &error);

		rc = rc ? rc : sign(&task, release, &jws, &error);
		rc = rc ? rc : cli_write_json(task.out_path, 0644, json_incref(jws), &error);
		status = rc ? cli_error(&error) : 0;
	}
	json_decref(release);
	json_decref(jws);
	return status;
}
