/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of a host, and how it proves what it runs: `sgpu-serve quote` there, `sgpu-measure
 * appraise` here.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "crypto/crypto.h"
#include "host.h"

enum { NONCE_SIZE = 32, HOST_JSON_MAX = 1 << 16 };

static bool is_name(const char *name)
{
	const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					   "0123456789_.-");

	return length && length <= HOST_NAME_MAX_SIZE && !name[length] &&
	       isalnum((unsigned char)*name);
}

void host_name_files(struct host *host)
{
	snprintf(host->policy, sizeof(host->policy), "%s/policy.json", host->directory);
	snprintf(host->roots, sizeof(host->roots), "%s/roots.crt", host->directory);
}

int host_place(const char *name, struct host *host, struct sgpu_error *error)
{
	char part[HOST_NAME_MAX_SIZE + 16];
	int rc;

	memset(host, 0, sizeof(*host));
	if (!is_name(name)) {
		sgpu_fail(error, SGPU_EUSAGE, "'%s' is no name of a host", SGPU_EXCERPT(name));
		return sgpu_hint(error, "letters, digits, '.', '_' and '-', at most %d",
				 HOST_NAME_MAX_SIZE);
	}
	snprintf(host->name, sizeof(host->name), "%s", name);
	snprintf(part, sizeof(part), "hosts/%s", name);
	rc = home_path(part, host->directory, error);
	host_name_files(host);
	return rc;
}

static int read_json(struct host *host, struct sgpu_error *error)
{
	json_t *version, *address = NULL, *socket = NULL;
	const struct sgpu_field fields[] = {
		{ "version", SGPU_FIELD_JSON, .to = &version },
		{ "address", SGPU_FIELD_JSON, .to = &address },
		{ "socket", SGPU_FIELD_JSON, .to = &socket },
	};
	char path[PATH_MAX + 16], *text = NULL;
	size_t size = 0;
	int rc;

	snprintf(path, sizeof(path), "%s/host.json", host->directory);
	rc = home_check(path, S_IFREG, error);
	rc = rc ? rc
		: sgpu_read_file(path, "says where a host is", HOST_JSON_MAX, &text, &size, error);
	host->json = rc ? NULL : json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	if (!rc && (!host->json ||
		    sgpu_fields_read(host->json, path, fields, SGPU_ARRAY_LENGTH(fields), error))) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is damaged", path);
	}
	host->address = json_string_value(address);
	host->socket = json_string_value(socket);
	return rc;
}

int host_load(const char *name, struct host *host, struct sgpu_error *error)
{
	char above[PATH_MAX];
	int rc = host_place(name, host, error);

	if (!rc && access(host->directory, F_OK) != 0) {
		sgpu_fail(error, SGPU_EUSAGE, "there is no host '%s'", name);
		return sgpu_hint(error,
				 "'sgpu host list' shows them, 'sgpu host add %s ADDRESS' adds it",
				 name);
	}
	*strrchr(strcpy(above, host->directory), '/') = '\0';
	rc = rc ? rc : home_check(above, S_IFDIR, error);
	rc = rc ? rc : home_check(host->directory, S_IFDIR, error);
	rc = rc ? rc : home_check(host->policy, S_IFREG, error);
	rc = rc ? rc : home_check(host->roots, S_IFREG, error);
	return rc ? rc : read_json(host, error);
}

void host_clear(struct host *host)
{
	json_decref(host->json);
	host->json = NULL;
}

/* Appends a word as a shell reads it. */
static void append_quoted(char *text, size_t size, const char *word)
{
	cli_append(text, size, "'");
	for (; *word; word++) {
		cli_append(text, size, *word == '\'' ? "'\\''" : "%c", *word);
	}
	cli_append(text, size, "'");
}

void host_words(struct host *host, const char *program, const char *arguments, struct words *words)
{
	if (host->address) {
		snprintf(host->command, sizeof(host->command), "%s %s", program, arguments);
		if (host->socket) {
			cli_append(host->command, sizeof(host->command), " --socket ");
			append_quoted(host->command, sizeof(host->command), host->socket);
		}
		words_add_all(words, "ssh", "-T", "--", host->address, host->command, NULL);
		return;
	}
	snprintf(host->command, sizeof(host->command), "%s", arguments);
	words_add(words, program);
	for (char *rest = host->command, *word; (word = strsep(&rest, " ")) != NULL;) {
		words_add(words, word);
	}
	if (host->socket) {
		words_add_all(words, "--socket", host->socket, NULL);
	}
}

int host_quote(struct host *host, char nonce[NONCE_TEXT], int *quote)
{
	struct program program = { .in = program_input(-1) };
	struct sgpu_error error = { 0 };
	uint8_t bytes[NONCE_SIZE];
	char arguments[NONCE_TEXT + 32];
	int status;

	*quote = -1;
	if (sgpu_random(bytes, sizeof(bytes), &error)) {
		return cli_error(&error);
	}
	sgpu_hex_encode(bytes, sizeof(bytes), nonce);
	snprintf(arguments, sizeof(arguments), "quote --json --nonce %s", nonce);
	host_words(host, "sgpu-serve", arguments, &program.words);
	status = program_read(&program, "quote", quote);
	programs_retryable = status == sgpu_exit_status(SGPU_ESYSTEM);
	return status;
}

int host_appraise(const struct host *host, const char *policy, const char *nonce, int quote,
		  int *recipient)
{
	struct program program = { .speaks = true };

	words_add_all(&program.words, "sgpu-measure", "appraise", "-q", "-p", policy, "--roots",
		      host->roots, "--nonce", nonce, "--recipient", "-", NULL);
	if (cli_json) {
		words_add(&program.words, "--json");
	}
	program.in = program_input(quote);
	(void)lseek(quote, 0, SEEK_SET);
	return program_read(&program, "recipient", recipient);
}

int host_prove(struct host *host, int *recipient)
{
	char nonce[NONCE_TEXT];
	int quote, status = host_quote(host, nonce, &quote);

	*recipient = -1;
	if (!status) {
		status = host_appraise(host, host->policy, nonce, quote, recipient);
		if (status) {
			cli_note("'sgpu host update %s' shows what has changed, and asks",
				 host->name);
		}
	}
	sgpu_close(quote);
	return status;
}
