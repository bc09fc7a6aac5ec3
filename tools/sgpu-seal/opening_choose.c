/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal open: is the response ours, which of its outputs are wanted, and where do they go.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "opening.h"

enum { SPARE_DESCRIPTORS = 64, DESCRIPTORS_AN_OUTPUT = 3, NAMES_SHOWN = 400 };

static int read_batch(const struct opening *opening, struct sgpu_batch **batch,
		      struct sgpu_error *error)
{
	struct sgpu_tar_reader *reader = NULL;
	const int fd = open(opening->batch_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", opening->batch_path);
	}
	/* Without a key to verify it with, it is believed. */
	int code = opening->keys.signer_count
			   ? 0
			   : sgpu_check_trusted(fd, opening->batch_path,
						"says which response is wanted", error);
	code = code ? code : sgpu_tar_open(fd, opening->batch_path, &reader, error);
	code = code ? code : sgpu_batch_read_head(reader, false, batch, error);
	sgpu_tar_close(&reader);
	close(fd);
	return code;
}

/* One of the keys that sign has signed the batch. */
static int check_signature(const struct opening *opening, const struct sgpu_batch *batch,
			   struct sgpu_error *error)
{
	bool is_signed = !opening->keys.signer_count;
	int code = 0;

	for (int i = 0; !code && !is_signed && i < opening->keys.signer_count; i++) {
		code = sgpu_batch_signed_by(batch, opening->keys.signers[i].kid, &is_signed, error);
	}
	if (!code && !is_signed) {
		sgpu_fail(error, SGPU_EAUTH,
			  "'%s' is not signed by a key of yours: anyone could have written it",
			  opening->batch_path);
		return sgpu_hint(error, "if another owner sealed it, give the public half of their "
					"signing key with -k, too");
	}
	return code;
}

/* An X25519 key proves nothing about who wrapped the batch key, and an old response verifies too:
 * only the batch itself says which response belongs to it. */
static int compare_batch(const struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	struct sgpu_batch *batch = NULL;
	uint8_t key[SGPU_KEY_SIZE];
	int code = read_batch(opening, &batch, error);
	if (!code) {
		code = sgpu_batch_unwrap(batch, opening->keys.list, opening->keys.count, key,
					 error);
	}
	code = code ? code : sgpu_batch_verify(batch, key, error);
	code = code ? code : check_signature(opening, batch, error);
	if (!code &&
	    (!opening->has_key || !sgpu_equal(key, opening->batch_key, sizeof(key)) ||
	     !sgpu_equal(batch->id, response->id, sizeof(batch->id)) ||
	     !sgpu_equal(batch->manifest_sha256, response->manifest_sha256, SGPU_SHA256_SIZE))) {
		code = sgpu_fail(error, SGPU_EAUTH, "'%s' is not the response to '%s'",
				 opening->in_name, opening->batch_path);
	}
	sgpu_wipe(key, sizeof(key));
	sgpu_batch_free(&batch);
	return code;
}

int opening_authenticate(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	int code = 0;
	if (!response->has_mac && opening->keys.count) {
		sgpu_fail(error, SGPU_EAUTH, "'%s' has no mac: anyone could have written it",
			  opening->in_name);
		return sgpu_hint(error,
				 "if the batch was not sealed, open its response without -k");
	}
	if (response->has_mac && !opening->keys.count) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s' is sealed: a key is needed, with -k",
				 opening->in_name);
	}
	if (response->has_mac) {
		code = sgpu_batch_unwrap(response, opening->keys.list, opening->keys.count,
					 opening->batch_key, error);
		opening->has_key = code == 0;
		code = code ? code : sgpu_batch_verify(response, opening->batch_key, error);
	} else {
		cli_note("'%s' has no mac: it is not known who wrote it", opening->in_name);
	}
	if (!code && opening->batch_path) {
		code = compare_batch(opening, error);
	}
	return code;
}

static void list_names(const struct sgpu_batch *response, char text[NAMES_SHOWN])
{
	size_t used = 0;
	text[0] = '\0';
	for (int i = 0; i < response->segment_count && used + SGPU_ID_MAX + 8 < NAMES_SHOWN; i++) {
		used += (size_t)snprintf(text + used, NAMES_SHOWN - used, "%s%s", i ? ", " : "",
					 response->segments[i].id);
		if (i + 1 < response->segment_count && used + SGPU_ID_MAX + 8 >= NAMES_SHOWN) {
			snprintf(text + used, NAMES_SHOWN - used, ", ...");
		}
	}
}

/* --only, or all. */
static int mark_wanted(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	char names[NAMES_SHOWN];
	list_names(response, names);
	int wanted = 0;
	for (int i = 0; i < opening->only.count; i++) {
		const int segment = sgpu_batch_segment(response, opening->only.items[i]);
		if (segment < 0) {
			return sgpu_fail(error, SGPU_EUSAGE, "'%s' is not an output; there are: %s",
					 opening->only.items[i], names);
		}
		wanted += !opening->targets[segment].wanted;
		opening->targets[segment].wanted = true;
	}
	for (int i = 0; !opening->only.count && i < response->segment_count; i++) {
		opening->targets[i].wanted = true;
		wanted++;
	}
	if (!opening->folder && wanted != 1) {
		sgpu_fail(error, SGPU_EUSAGE, "%d outputs do not fit one file: %s", wanted, names);
		return sgpu_hint(error, "choose one with --only, or a directory for all with -C");
	}
	return 0;
}

/* What can be said about an output before there is one: it is no file that is read, and it exists
 * only if it may be replaced. */
static int check_below(const struct opening *opening, const char *path, struct sgpu_error *error)
{
	struct stat status;
	char *place = NULL;
	int code = 0;

	if (asprintf(&place, "/proc/self/fd/%d/%s", opening->below.fd, path) < 0) {
		return sgpu_fail_nomem(error);
	}
	if (cli_is_input(place)) {
		code = sgpu_fail(error, SGPU_EUSAGE,
				 "output '%s' below '%s' would replace a file that is read", path,
				 opening->folder);
	} else if (!opening->force && lstat(place, &status) == 0 && S_ISREG(status.st_mode)) {
		(void)sgpu_fail(error, SGPU_ESYSTEM, "'%s/%s' exists", opening->folder, path);
		code = sgpu_hint(error, "--force replaces it");
	}
	free(place);
	return code;
}

/* The check of the manifest found that no two are the same, and that none leads out. */
static int take_paths(struct opening *opening, const struct sgpu_manifest *manifest,
		      struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	char normal[SGPU_LOCATION_MAX + 1];
	for (int i = 0; i < response->segment_count; i++) {
		const int at = sgpu_manifest_segment(manifest, response->segments[i].id);
		const char *path = at < 0 ? NULL : manifest->segments[at].location;
		if (!opening->targets[i].wanted) {
			continue;
		}
		if (!path || !strcmp(path, "-")) {
			path = response->segments[i].id;
		}
		if (!sgpu_location_normal(path, normal)) {
			return sgpu_fail(error, SGPU_EPOLICY, "the output '%s' is not below '%s'",
					 path, opening->folder);
		}
		opening->targets[i].path = strdup(normal);
		int code = opening->targets[i].path ? check_below(opening, normal, error)
						    : sgpu_fail_nomem(error);
		if (code) {
			return code;
		}
	}
	return 0;
}

/* As many outputs as there can be wait for the whole response to verify; each takes descriptors. */
static void raise_limits(struct opening *opening)
{
	struct rlimit limit = { 0 };
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)!setrlimit(RLIMIT_NOFILE, &limit);
		(void)!getrlimit(RLIMIT_NOFILE, &limit);
	}
	const rlim_t most = SGPU_MANIFEST_SEGMENTS_MAX * DESCRIPTORS_AN_OUTPUT + SPARE_DESCRIPTORS;
	const rlim_t usable = limit.rlim_cur < most ? limit.rlim_cur : most;
	opening->pending_max = usable > 2 * SPARE_DESCRIPTORS
				       ? (int)((usable - SPARE_DESCRIPTORS) / DESCRIPTORS_AN_OUTPUT)
				       : 1;
}

int opening_choose(struct opening *opening, struct sgpu_error *error)
{
	const struct sgpu_batch *response = opening->response;
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	opening->targets = calloc((size_t)response->segment_count + 1, sizeof(*opening->targets));
	if (!opening->targets) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < response->segment_count; i++) {
		opening->targets[i].output = (struct sgpu_output)SGPU_OUTPUT_INIT;
	}
	int code = mark_wanted(opening, error);
	if (code || !opening->folder) {
		return code;
	}
	raise_limits(opening);
	code = sgpu_manifest_parse(response->manifest_text, response->manifest_size, &manifest,
				   &diagnostics, error);
	code = code ? code : take_paths(opening, manifest, error);
	sgpu_manifest_free(&manifest);
	sgpu_diagnostics_clear(&diagnostics);
	return code;
}
