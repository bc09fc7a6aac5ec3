/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "base/base.h"
#include "base/json.h"
#include "crypto/crypto.h"
#include "sgpu.h"

/* A digest of a quote, base64url, in hexadecimal; "": it is none. */
static void hex_of(const json_t *value, char hex[FACTS_HEX])
{
	const char *text = json_string_value(value);
	uint8_t digest[SGPU_SHA256_SIZE];

	hex[0] = '\0';
	if (text && sgpu_base64url_decode(text, digest, sizeof(digest), NULL) == SGPU_OK) {
		sgpu_hex_encode(digest, sizeof(digest), hex);
	}
}

static void copy_text(const json_t *object, const char *member, char text[FACTS_TEXT])
{
	const char *value = cli_text_of(object, member);

	sgpu_escape(value, strlen(value), text, FACTS_TEXT, false);
}

/* Takes the facts from what `sgpu-measure inspect` prints, whose claims have the form that it has
 * checked. */
static void take_claims(const json_t *claims, struct facts *facts)
{
	const json_t *modules = json_object_get(claims, "submods"), *module, *own, *code, *value;
	const json_t *platform =
		json_object_get(json_object_get(claims, SGPU_EAT_PROFILE), "platform");
	const char *name;
	size_t i;

	copy_text(platform, "kind", facts->kind);
	copy_text(platform, "row", facts->row);
	json_object_foreach ((json_t *)(uintptr_t)modules, name, module) {
		own = json_object_get(module, SGPU_EAT_PROFILE);
		if (strcmp(name, "runner") == 0) {
			hex_of(json_object_get(own, "digest"), facts->digest);
			facts->owners = json_incref(json_object_get(own, "owners"));
			continue;
		}
		copy_text(own, "name", facts->device);
		code = json_object_get(own, "code");
		json_array_foreach (code, i, value) {
			if (facts->code_count < FACTS_CODE_MAX) {
				hex_of(value, facts->code[facts->code_count++]);
			}
		}
	}
}

int facts_read(int quote, struct facts *facts)
{
	struct program inspect = { .in = program_input(quote), .speaks = true };
	json_t *shown = NULL;
	const json_t *authority;
	int fd, status;

	words_add_all(&inspect.words, "sgpu-measure", "inspect", "--json", NULL);
	status = program_read(&inspect, "claims", &fd);
	if (!status) {
		shown = json_loadfd(fd, 0, NULL);
		take_claims(json_object_get(shown, "claims"), facts);
		authority = json_object_get(shown, "authority");
		copy_text(authority, "sha256", facts->authority);
		facts->certificate = strdup(cli_text_of(authority, "pem"));
		if (!*facts->digest || !*facts->authority || !facts->certificate) {
			status = cli_fail(SGPU_EINVALID, "the host's quote is incomplete");
		}
	}
	json_decref(shown);
	sgpu_close(fd);
	return status;
}

void facts_clear(struct facts *facts)
{
	json_decref(facts->owners);
	free(facts->certificate);
}
