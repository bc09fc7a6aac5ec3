/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims about this process, its device and its platform. Nothing here proves them; a verifier sees
 * who signed them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/version.h>

#include "attest/internal.h"
#include "attest/quote.h"
#include "host/host.h"
#include "base/io.h"
#include "crypto/crypto.h"
#include "device/device.h"

enum { PROGRAM_MAX = 1 << 30 }; /* bytes */

/* ---- the program: which one it is, and who can look into it ---- */
int sgpu_measure_file(const char *path, uint8_t digest[SGPU_KT128_SIZE], uint64_t *size,
		      struct sgpu_error *error)
{
	/* A pipe or a device may block or never end. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;
	char *program = NULL;
	size_t length = 0;

	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	int rc = fstat(fd, &status) || !S_ISREG(status.st_mode)
			 ? sgpu_fail(error, SGPU_ESYSTEM,
				     "cannot measure '%s': it is no regular file", path)
			 : sgpu_read_fd(fd, path, PROGRAM_MAX, &program, &length, error);
	if (!rc) {
		sgpu_kt128(program, length, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1,
			   digest, SGPU_KT128_SIZE);
	}
	if (!rc && size) {
		*size = length;
	}
	free(program);
	close(fd);
	return rc;
}

enum { PATH_SIZE = 4096 };

const char *sgpu_debug_status(void)
{
	char text[4096];
	bool traced = !sgpu_peek("/proc/self/status", text, sizeof(text)) ||
		      !strstr(text, "\nTracerPid:\t0\n");

	return !traced && prctl(PR_GET_DUMPABLE) == 0 ? "disabled" : "enabled";
}

/* The last part of the path; for this process, of the path that it was started by. */
static void base_name(const char *path, char name[PATH_SIZE])
{
	static const char deleted[] = " (deleted)";
	char link[PATH_SIZE] = "";

	if (!path) {
		ssize_t length = readlink("/proc/self/exe", link, sizeof(link) - 1);
		path = length > 0 ? link : "unknown";
		/* The kernel's mark for a file that was replaced since. */
		char *mark = strstr(link, deleted);
		if (mark && !mark[strlen(deleted)]) {
			*mark = '\0';
		}
	}
	const char *slash = strrchr(path, '/');
	snprintf(name, PATH_SIZE, "%s", slash ? slash + 1 : path);
}

static int add_owners(const struct sgpu_quote_subject *subject, json_t *own,
		      struct sgpu_error *error)
{
	json_t *list = json_array();
	int bad = json_object_set_new(own, "owners", list);

	for (int i = 0; i < subject->owner_count && !bad; i++) {
		bad = json_array_append_new(list, json_string(subject->owners[i]));
	}
	return bad ? sgpu_fail_nomem(error) : 0;
}

static int runner_claims(const struct sgpu_quote_subject *subject, json_t **claims,
			 struct sgpu_error *error)
{
	const char *path = subject->runner_path ? subject->runner_path : "/proc/self/exe";
	const char *key = !subject->recipient		 ? "none"
			  : subject->recipient_ephemeral ? "ephemeral"
							 : "stored";
	/* Of another program, whose state is not known, the worst is claimed. */
	const bool file = subject->runner_path != NULL;
	uint8_t digest[SGPU_KT128_SIZE] = { 0 };
	char name[PATH_SIZE];
	uint64_t size = 0;

	int rc = sgpu_measure_file(path, digest, &size, error);
	if (rc) {
		return rc;
	}
	base_name(subject->runner_path, name);
	json_t *own = json_pack("{s:o, s:I, s:s, s:b, s:b, s:s, s:s}", "digest",
				sgpu_json_from_bytes(digest, sizeof(digest)), "size",
				(json_int_t)size, "measured", file ? "file" : "process", "modules",
				file || subject->allows_modules, "files", file || subject->files,
				"sessions",
				file		    ? "any"
				: subject->sessions ? subject->sessions
						    : "none",
				"key", key);
	rc = own ? 0 : sgpu_fail_nomem(error);
	if (!rc && !file && subject->owner_count > 0) {
		rc = add_owners(subject, own, error);
	}
	if (!rc && !file && subject->confinement &&
	    json_object_set_new(own, "confinement", json_deep_copy(subject->confinement))) {
		rc = sgpu_fail_nomem(error);
	}
	json_t *made =
		rc ? NULL
		   : json_pack("{s:s, s:[s], s:s, s:O}", "swname", name, "swversion", SGPU_VERSION,
			       "dbgstat", file ? "enabled" : sgpu_debug_status(), SGPU_OWN, own);
	json_decref(own);
	*claims = made;
	return rc || made ? rc
			  : sgpu_fail(error, SGPU_EINVALID,
				      "the program's name is not UTF-8, or memory is out");
}

/* ---- the device: its identity, the code loaded on it, and how keys reach it ---- */
enum { HWMODEL_MAX = 32 /* RFC 9711, section 4.2.4 */ };

static json_t *code_claims(const struct sgpu_device_code *list, int count)
{
	json_t *array = json_array();

	for (int i = 0; array && i < count; i++) {
		json_t *item = json_pack(
			"{s:s, s:I, s:o}", "name", list[i].name, "size", (json_int_t)list[i].size,
			"digest", sgpu_json_from_bytes(list[i].digest, sizeof(list[i].digest)));
		if (!item || json_array_append_new(array, item)) {
			json_decref(array);
			array = NULL;
		}
	}
	return array;
}

/* The CPU device's memory is the program's own. A GPU's driver can look into it unless confidential
 * mode is on. */
static const char *device_debug(bool on_gpu, const char *confidential)
{
	return on_gpu ? !strcmp(confidential, "on") ? "disabled" : "enabled" : sgpu_debug_status();
}

static const char *unless_empty(const char *text)
{
	return text[0] ? text : NULL;
}

/* Also fills in info and *agreement. */
static int device_claims(const struct sgpu_quote_subject *subject, const char **name,
			 struct sgpu_device_info *info, struct sgpu_device_agreement *agreement,
			 json_t **claims, struct sgpu_error *error)
{
	struct sgpu_device_code code_list[SGPU_DEVICE_CODE_MAX];
	int rc = sgpu_device_get_info(subject->device, info, error);
	int count = 0;

	rc = rc ? rc : sgpu_device_agree(subject->device, agreement, error);
	if (!rc) {
		count = sgpu_device_code_digests(subject->device, code_list, error);
		rc = count < 0 ? count : 0;
	}
	if (rc) {
		return rc;
	}
	bool on_gpu = strncmp(info->selector, "cpu", 3) != 0;
	size_t length = strnlen(info->name, HWMODEL_MAX);
	*name = on_gpu ? "gpu-0" : "cpu";
	json_t *own = json_pack(
		"{s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:I, s:I, s:o, s:b, s:s, s:b, s:o*}",
		"selector", info->selector, "name", info->name, "uuid", unless_empty(info->uuid),
		"driver", unless_empty(info->driver), "vbios", unless_empty(info->vbios),
		"capability", unless_empty(info->capability), "confidential",
		unless_empty(info->confidential), "memory", (json_int_t)info->memory_total,
		"compute_units", (json_int_t)info->compute_units, "code",
		code_claims(code_list, count), "agreed", agreement->agreed, "agreement",
		agreement->text, "preemption", subject->preemption,
		/* Out of memory is found by sgpu_claims_check: `agreed` does not stand alone. */
		"agreement_key",
		agreement->agreed
			? sgpu_json_from_bytes(agreement->public_key, sizeof(agreement->public_key))
			: NULL);
	*claims =
		own ? json_pack(
			      "{s:o, s:s, s:o}", "hwmodel",
			      sgpu_json_from_bytes(length ? info->name : "?", length ? length : 1),
			      "dbgstat", device_debug(on_gpu, info->confidential), SGPU_OWN, own)
		    : NULL;
	return *claims ? 0 : sgpu_fail_nomem(error);
}

/* ---- all claims ---- */
static json_t *platform_claims(const struct sgpu_device_info *info,
			       const struct sgpu_device_agreement *agreement)
{
	struct sgpu_platform platform;
	bool on_gpu = info->selector[0] && strncmp(info->selector, "cpu", 3) != 0;

	sgpu_platform_detect(&platform);
	const struct sgpu_protection *row =
		sgpu_platform_protection(&platform, on_gpu, info->confidential, agreement->agreed);
	return json_pack("{s:s, s:s, s:b, s:b, s:s, s:s, s:s, s:s, s:b}", "kind",
			 sgpu_platform_word(platform.kind), "seen", platform.seen,
			 "virtual_machine", platform.virtual_machine, "reports", platform.reports,
			 "row", row->row, "enclave_memory", row->enclave_memory, "device_memory",
			 row->device_memory, "bus", row->bus, "protects", row->protects);
}

static int own_claims(const struct sgpu_quote_subject *subject, const struct sgpu_device_info *info,
		      const struct sgpu_device_agreement *agreement, json_t **claims,
		      struct sgpu_error *error)
{
	uint8_t hash[SGPU_SHA256_SIZE] = { 0 };
	json_t *own = json_pack("{s:o}", "platform", platform_claims(info, agreement));
	int rc = subject->owner_key ? sgpu_sha256(subject->owner_key, 32, hash, error) : 0;

	if (!rc && (!own || (subject->owner_key &&
			     json_object_set_new(own, "owner_key_hash",
						 sgpu_json_from_bytes(hash, sizeof(hash)))))) {
		rc = sgpu_fail_nomem(error);
	}
	*claims = own; /* also after a failure */
	return rc;
}

/* "cnf": the recipient's public key (RFC 7800). */
static json_t *recipient_claims(const struct sgpu_key *key)
{
	return json_pack("{s:{s:s, s:s, s:o, s:s}}", "jwk", "kty", "OKP", "crv", "X25519", "x",
			 sgpu_json_from_bytes(key->public_half, 32), "kid", key->kid);
}

int sgpu_quote_check_nonce(const uint8_t *nonce, size_t size, struct sgpu_error *error)
{
	if (!nonce || size < SGPU_NONCE_MIN || size > SGPU_NONCE_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a nonce has %d to %d bytes, not %zu",
				 SGPU_NONCE_MIN, SGPU_NONCE_MAX, nonce ? size : 0);
	}
	return SGPU_OK;
}

int sgpu_quote_claims(const struct sgpu_quote_subject *subject, int64_t now, json_t **claims,
		      struct sgpu_error *error)
{
	struct sgpu_device_agreement agreement = { .agreed = false };
	struct sgpu_device_info info = { .selector = "" };
	json_t *runner = NULL, *device = NULL, *own = NULL, *made = NULL;
	const char *device_name = "cpu";

	*claims = NULL;
	int rc = sgpu_quote_check_nonce(subject->nonce, subject->nonce_size, error);
	if (!rc && subject->recipient && subject->recipient->kind == SGPU_KEY_OCT) {
		rc = sgpu_fail(error, SGPU_EUSAGE,
			       "batches are sealed to an X25519 key, not to a symmetric one");
	}
	rc = rc ? rc : runner_claims(subject, &runner, error);
	if (!rc && subject->device) {
		rc = device_claims(subject, &device_name, &info, &agreement, &device, error);
	}
	rc = rc ? rc : own_claims(subject, &info, &agreement, &own, error);
	if (!rc) {
		made = json_pack("{s:s, s:I, s:o, s:s, s:[s], s:s, s:o*, s:{s:O, s:O*}, s:O}",
				 "eat_profile", SGPU_EAT_PROFILE, "iat", (json_int_t)now,
				 "eat_nonce",
				 sgpu_json_from_bytes(subject->nonce, subject->nonce_size),
				 "swname", "sgpu", "swversion", SGPU_VERSION, "dbgstat",
				 json_string_value(json_object_get(runner, "dbgstat")), "cnf",
				 subject->recipient ? recipient_claims(subject->recipient) : NULL,
				 "submods", "runner", runner, device_name, device, SGPU_OWN, own);
		rc = made ? sgpu_claims_check(made, error) : sgpu_fail_nomem(error);
	}
	json_decref(runner);
	json_decref(device);
	json_decref(own);
	if (rc) {
		json_decref(made);
		return rc;
	}
	*claims = made;
	return 0;
}
