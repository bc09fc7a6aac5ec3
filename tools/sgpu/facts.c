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

enum { PEM_LINE = 64 };

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

/* Decodes base64url; the result, from malloc, ends with a NUL. NULL: it is none. */
static char *decode(const char *text, size_t length, size_t *size)
{
	char *copy = strndup(text, length), *data = malloc(length + 1);

	*size = length * 6 / 8;
	if (copy && data && sgpu_base64url_decode(copy, data, *size, NULL) == SGPU_OK) {
		data[*size] = '\0';
	} else {
		free(data);
		data = NULL;
	}
	free(copy);
	return data;
}

/* Copies standard base64, as x5c has, to base64url without padding. */
static char *to_base64url(const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; c && *c; c++) {
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c == '=' ? '\0' : *c;
	}
	return copy;
}

static bool take_certificate(const char *x5c, struct facts *facts)
{
	char *text = to_base64url(x5c), *der;
	uint8_t digest[SGPU_SHA256_SIZE];
	size_t size = 0, length = strlen(x5c), used = 0;

	der = text ? decode(text, strlen(text), &size) : NULL;
	facts->certificate = malloc(2 * length + 128);
	if (!der || !facts->certificate || sgpu_sha256(der, size, digest, NULL) != SGPU_OK) {
		free(text);
		free(der);
		return false;
	}
	sgpu_hex_encode(digest, sizeof(digest), facts->authority);
	used = (size_t)sprintf(facts->certificate, "-----BEGIN CERTIFICATE-----\n");
	for (size_t at = 0; at < length; at += PEM_LINE) {
		used += (size_t)sprintf(facts->certificate + used, "%.*s\n", PEM_LINE, x5c + at);
	}
	sprintf(facts->certificate + used, "-----END CERTIFICATE-----\n");
	free(text);
	free(der);
	return true;
}

/* Takes the certificate at the end of the token's chain. */
static bool take_authority(const json_t *quote, struct facts *facts)
{
	const json_t *eat = json_array_get(json_object_get(quote, "eat"), 1), *chain;
	const char *text = json_string_value(eat), *last;
	size_t size = 0, header_size = 0;
	char *token = text ? decode(text, strlen(text), &size) : NULL;
	char *header = token ? decode(token, strcspn(token, "."), &header_size) : NULL;
	json_t *json = header ? json_loadb(header, header_size, 0, NULL) : NULL;
	bool good;

	chain = json_object_get(json, "x5c");
	last = json_string_value(json_array_get(chain, json_array_size(chain) - 1));
	good = last && take_certificate(last, facts);
	json_decref(json);
	free(header);
	free(token);
	return good;
}

int facts_read(int quote, struct facts *facts)
{
	struct program inspect = { .out = -1, .speaks = true };
	struct sgpu_error error = { 0 };
	json_t *shown = NULL, *json = NULL;
	int fd = -1, status = memory_file("claims", &fd, &error) ? cli_error(&error) : 0;

	words_add_all(&inspect.words, "sgpu-measure", "inspect", "--json", NULL);
	inspect.in = dup(quote);
	inspect.out = fd;
	if (!status && lseek(quote, 0, SEEK_SET) == 0) {
		status = programs_run(&inspect, 1);
	}
	if (!status && lseek(quote, 0, SEEK_SET) == 0 && lseek(fd, 0, SEEK_SET) == 0) {
		json = json_loadfd(quote, 0, NULL);
		shown = json_loadfd(fd, 0, NULL);
		take_claims(json_object_get(shown, "claims"), facts);
		if (!*facts->digest || !take_authority(json, facts)) {
			status = cli_fail(SGPU_EINVALID, "the host's quote is incomplete");
		}
	}
	json_decref(json);
	json_decref(shown);
	sgpu_close(fd);
	return status;
}

void facts_clear(struct facts *facts)
{
	json_decref(facts->owners);
	free(facts->certificate);
}
