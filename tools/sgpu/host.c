/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu host: keeps what is demanded of a host. The digests of a policy are those of the owner's own
 * build or of a signed release, never those that the host shows. The first use decides the address
 * and the authority alone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "base/io.h"
#include "base/json.h"
#include "facts.h"
#include "host.h"
#include "runner/start.h"

struct request {
	const char *socket, *build, *release, *key, *roots, *at_least, *sessions, *digest;
	bool yes;
	struct facts facts;
	char place[PATH_MAX]; /* of the host's directory, in the end */
};

const struct cli_option host_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "socket", 0, "PATH", "of the server on that machine (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct request, socket) },
	{ "build", 0, "DIR", "the build that the host has to run (default: this one)",
	  CLI_TEXT(struct request, build) },
	{ "release", 0, "FILE", "in its place, the signed digests of a release",
	  CLI_TEXT(struct request, release) },
	{ "key", 'k', "KEY", "with --release: whose signature it must have",
	  CLI_TEXT(struct request, key) },
	{ "accept-digest", 0, "HEX", "accept this sgpu-enclave or device code, too",
	  CLI_TEXT(struct request, digest) },
	{ "roots", 0, "FILE", "the authority that certifies the host (default: that of its quote)",
	  CLI_TEXT(struct request, roots) },
	{ "at-least", 0, "KIND", "what the platform has to be: plain, sgx, tdx or snp",
	  CLI_TEXT(struct request, at_least) },
	{ "sessions", 0, "WHOSE", "whose sessions the host may take: none, owners or any",
	  CLI_TEXT(struct request, sessions) },
	{ "yes", 'y', NULL, "ask nothing", CLI_FLAG(struct request, yes) },
	CLI_END,
};

/* ---- files ---- */
static int write_file(const struct host *host, const char *name, json_t *json, const char *text)
{
	char path[PATH_MAX + 16];
	struct sgpu_error error = { 0 };
	int rc;

	snprintf(path, sizeof(path), "%s/%s", host->directory, name);
	rc = json ? cli_write_json(path, 0600, json, &error)
		  : cli_write_text(path, 0600, text, strlen(text), &error);
	return rc ? cli_error(&error) : 0;
}

static void remove_directory(const char *path)
{
	static const char *const names[] = { "host.json", "policy.json", "roots.crt" };
	char file[PATH_MAX + 16];

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(names); i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]);
		(void)unlink(file);
	}
	(void)rmdir(path);
}

/* Makes a new directory beside the host's, of no host's name, which takes its place in the end. */
static int begin_directory(struct host *host, struct request *r)
{
	struct sgpu_error error = { 0 };
	char *slash;

	snprintf(r->place, sizeof(r->place), "%s", host->directory);
	slash = strrchr(host->directory, '/');
	*slash = '\0';
	if ((mkdir(host->directory, 0700) != 0 && errno != EEXIST) ||
	    (strcpy(slash, "/.new.XXXXXX"), !mkdtemp(host->directory))) {
		sgpu_fail_errno(&error, "cannot make a directory beside '%s'", r->place);
		*r->place = '\0';
		return cli_error(&error);
	}
	host_name_files(host);
	return 0;
}

/* Puts the new directory in its place, in one step; of another call for this name, one wins. */
static int end_directory(struct host *host, const struct request *r, bool is_new, int status)
{
	struct sgpu_error error = { 0 };

	if (!status && renameat2(AT_FDCWD, host->directory, AT_FDCWD, r->place,
				 is_new ? RENAME_NOREPLACE : RENAME_EXCHANGE) != 0) {
		sgpu_fail_errno(&error, "cannot name '%s'", r->place);
		status = cli_error(&error);
	}
	if (status || !is_new) {
		remove_directory(host->directory); /* the new one, or by now the old one */
	}
	return status;
}

/* ---- the policy ---- */
/* Returns the policy of the owner's build or of a release, NULL after a message. */
static json_t *base_policy(const struct request *r, int *status)
{
	struct program program = { .in = -1, .speaks = true };
	const char *at_least = r->at_least ? r->at_least : r->facts.kind;
	char build[PATH_MAX];
	json_t *policy = NULL;
	int fd;

	words_add_all(&program.words, "sgpu-measure", "policy", "-q", "--owners", "any",
		      "--at-least", at_least, NULL);
	if (r->release) {
		words_add_all(&program.words, "--release", r->release, "-k", r->key, NULL);
	} else {
		/* the build that this program is of: the directory above its own */
		words_add_all(&program.words, "--build",
			      r->build ? r->build : runner_beside("..", build), NULL);
	}
	*status = program_read(&program, "policy", &fd);
	if (!*status) {
		policy = json_loadfd(fd, 0, NULL);
		*status = policy ? 0 : cli_fail(SGPU_ESYSTEM, "sgpu-measure wrote no policy");
	}
	sgpu_close(fd);
	return policy;
}

static int accept(json_t *policy, const char *object, const char *list, const char *shown,
		  const struct request *r, const char *what)
{
	json_t *values = json_object_get(json_object_get(policy, object), list);
	struct sgpu_error error = { 0 };
	const json_t *value;
	size_t i;

	json_array_foreach (values, i, value) {
		if (strcmp(json_string_value(value), shown) == 0) {
			return 0;
		}
	}
	if (r->digest && strcmp(r->digest, shown) == 0) {
		return json_array_append_new(values, json_string(shown))
			       ? cli_fail(SGPU_ENOMEM, "out of memory")
			       : 0;
	}
	sgpu_fail(&error, SGPU_EPOLICY, "the host runs another %s: %s; yours is %s", what, shown,
		  json_array_size(values) ? json_string_value(json_array_get(values, 0)) : "none");
	sgpu_hint(&error,
		  "a release that you trust: --release FILE -k KEY; or, after you have made "
		  "sure: --accept-digest HEX");
	return cli_error(&error);
}

/* Makes the policy: digests of the build, and of what the host shows its owners alone. */
static int make_policy(const struct host *host, const struct request *r)
{
	int status;
	json_t *policy = base_policy(r, &status), *runner = json_object_get(policy, "runner");

	if (status) {
		return status;
	}
	status = accept(policy, "runner", "digests", r->facts.digest, r, "sgpu-enclave");
	for (int i = 0; i < r->facts.code_count && !status; i++) {
		status = accept(policy, "device", "code", r->facts.code[i], r, "device code");
	}
	json_object_set_new(runner, "sessions", json_string(r->sessions ? r->sessions : "owners"));
	if (json_array_size(r->facts.owners)) {
		json_object_set(runner, "owners", r->facts.owners);
	}
	if (status) {
		json_decref(policy);
		return status;
	}
	return write_file(host, "policy.json", policy, NULL);
}

/* ---- what is shown ---- */
static void print_place(const char *before, const struct host *host)
{
	printf("%s%s%s%s\n", before, host->address ? host->address : "this machine",
	       host->socket ? ", " : "", host->socket ? host->socket : "");
}

static void show_facts(const struct host *host, const struct request *r)
{
	const struct facts *f = &r->facts;

	if (strcmp(f->kind, "plain") == 0) {
		printf("The operator of this host can read your data.\n");
	} else {
		printf("platform   %s\n", f->row);
	}
	print_place("address    ", host);
	printf("device     ");
	cli_print_line(stdout, "%s", f->device);
	printf("runs       sgpu-enclave %.16s..., as the policy demands\n", f->digest);
	printf("authority  %s\n", f->authority);
}

/* Says what is missing on the host for batches of this owner. */
static int show_missing(const struct host *host, const struct request *r)
{
	struct sgpu_error error = { 0 };
	struct sgpu_key_set keys = { 0 };
	char path[PATH_MAX];
	bool listed = false;
	const json_t *value;
	size_t i;
	int rc = home_owner(path, &error);

	rc = rc ? rc : sgpu_key_set_load(path, &keys, &error);
	if (rc) {
		return cli_error(&error);
	}
	json_array_foreach (r->facts.owners, i, value) {
		listed |= strcmp(json_string_value(value), keys.signing.kid) == 0;
	}
	if (!json_array_size(r->facts.owners)) {
		cli_warning("host '%s' takes batches of anybody: its server has no --owners",
			    host->name);
	} else if (!listed) {
		cli_warning(
			"host '%s' does not take your batches yet: its file of owners needs the "
			"line below, and then 'sgpu-serve reload'; afterwards 'sgpu host update "
			"%s'",
			host->name, host->name);
		printf("%s\n", keys.signing.kid);
	}
	sgpu_key_set_clear(&keys);
	return 0;
}

/* Asks on the terminal. */
static int confirm(const struct request *r, const char *question)
{
	FILE *terminal = r->yes ? NULL : fopen("/dev/tty", "r+e");
	char answer[16] = "";

	if (r->yes) {
		return 0;
	}
	if (!terminal) {
		return cli_usage("there is no terminal to ask on: --yes, with --roots FILE");
	}
	(void)fflush(stdout);
	fprintf(terminal, "%s [y/N] ", question);
	(void)fflush(terminal);
	if (!fgets(answer, sizeof(answer), terminal)) {
		answer[0] = '\0';
	}
	fclose(terminal);
	return answer[0] == 'y' || answer[0] == 'Y' ? 0
						    : cli_fail(SGPU_EPOLICY, "nothing was kept");
}

static json_t *load(const char *directory, const char *name)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return json_load_file(path, 0, NULL);
}

/* Prints the members that two objects have differently; returns their number. */
static int print_changes(const char *where, const json_t *old, const json_t *new)
{
	json_t *both = json_object();
	const char *member;
	json_t *unused;
	int count = 0;

	json_object_update(both, (json_t *)(uintptr_t)old);
	json_object_update(both, (json_t *)(uintptr_t) new);
	json_object_foreach (both, member, unused) {
		const json_t *was = json_object_get(old, member),
			     *is = json_object_get(new, member);
		char place[128];

		snprintf(place, sizeof(place), "%s%s%s", where, *where ? "." : "", member);
		if (json_is_object(was) && json_is_object(is)) {
			count += print_changes(place, was, is);
		} else if (!json_equal(was, is)) {
			char *before = was ? json_dumps(was, JSON_COMPACT | JSON_ENCODE_ANY) : NULL,
			     *after = is ? json_dumps(is, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

			printf("changes    %s: %s -> %s\n", place, before ? before : "not there",
			       after ? after : "not there");
			free(before);
			free(after);
			count++;
		}
	}
	json_decref(both);
	return count;
}

static void show_changes(const char *old_directory, const char *new_directory)
{
	json_t *old = load(old_directory, "policy.json"), *new = load(new_directory, "policy.json");

	if (!print_changes("", old, new)) {
		printf("changes    none in the policy\n");
	}
	json_decref(old);
	json_decref(new);
}

/* ---- verbs ---- */
/* Writes the authority: of --roots, else the last certificate of the quote. */
static int keep_roots(const struct host *host, const struct request *r)
{
	char *text = NULL;
	size_t size = 0;
	struct sgpu_error error = { 0 };
	int status;

	if (!r->roots) {
		return write_file(host, "roots.crt", NULL, r->facts.certificate);
	}
	if (sgpu_read_file(r->roots, "says who certifies hosts", 1 << 20, &text, &size, &error)) {
		return cli_error(&error);
	}
	status = write_file(host, "roots.crt", NULL, text);
	free(text);
	return status;
}

/* Asks the host, makes a policy, judges the quote by it, shows that, and asks the user. */
static int keep(struct host *host, struct request *r, bool is_new)
{
	char nonce[NONCE_TEXT], old_roots[sizeof(host->roots)];
	int quote, recipient = -1, status = host_quote(host, nonce, &quote);

	memcpy(old_roots, host->roots, sizeof(old_roots));
	status = status ? status : facts_read(quote, &r->facts);
	status = status ? status : begin_directory(host, r);
	r->roots = r->roots || is_new ? r->roots : old_roots;
	status = status ? status : keep_roots(host, r);
	status = status ? status
			: write_file(host, "host.json",
				     json_pack("{s:i, s:s*, s:s*}", "version", 1, "address",
					       host->address, "socket", host->socket),
				     NULL);
	status = status ? status : make_policy(host, r);
	if (!status) {
		status = host_appraise(host, host->policy, nonce, quote, &recipient);
		if (status && r->roots == old_roots) {
			cli_note("the authority that the host names has the digest %s; if that is "
				 "another, and its operator confirms it: --roots FILE",
				 r->facts.authority);
		}
	}
	if (!status) {
		show_facts(host, r);
		if (!is_new) {
			show_changes(r->place, host->directory);
		}
		if (r->sessions && strcmp(r->sessions, "any") == 0) {
			printf("sessions   of anybody: whoever reaches the server uses the device "
			       "beside your jobs\n");
		}
		status = confirm(r, "Keep this as what is demanded of the host?");
	}
	status = *r->place ? end_directory(host, r, is_new, status) : status;
	status = status ? status : show_missing(host, r);
	sgpu_close(recipient);
	sgpu_close(quote);
	return status;
}

static bool is_address(const char *text)
{
	return *text && *text != '-' &&
	       !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789_.-@:%[]")];
}

static int host_add(const char *name, const char *address, struct request *r)
{
	struct host host;
	struct sgpu_error error = { 0 };

	if (host_place(name, &host, &error)) {
		return cli_error(&error);
	}
	if (access(host.directory, F_OK) == 0) {
		return cli_usage("there is a host '%s' already: 'sgpu host update %s'", name, name);
	}
	if (!address && !r->socket) {
		return cli_usage("an address is missing; of a server here, --socket PATH");
	}
	if (address && !is_address(address)) {
		return cli_usage("'%s' is no address for ssh: [USER@]HOST", SGPU_EXCERPT(address));
	}
	if (!r->roots && isatty(STDIN_FILENO) == 0 && r->yes) {
		return cli_usage(
			"--yes without a terminal needs --roots FILE: who certifies the host");
	}
	host.address = address;
	host.socket = r->socket;
	return keep(&host, r, true);
}

static int host_update(const char *name, struct request *r)
{
	struct host host;
	struct sgpu_error error = { 0 };
	int status = host_load(name, &host, &error) ? cli_error(&error) : 0;
	json_t *old = status ? NULL : load(host.directory, "policy.json");

	/* What was demanded stays demanded, unless the user says otherwise. */
	r->at_least = r->at_least ? r->at_least
				  : json_string_value(json_object_get(
					    json_object_get(old, "platform"), "at_least"));
	r->sessions = r->sessions ? r->sessions
				  : json_string_value(json_object_get(
					    json_object_get(old, "runner"), "sessions"));
	if (!status && r->socket) {
		host.socket = r->socket;
	}
	status = status ? status : keep(&host, r, false);
	json_decref(old);
	host_clear(&host);
	return status;
}

static int host_show(const char *name)
{
	struct host host;
	struct sgpu_error error = { 0 };
	json_t *policy;
	char *digests;
	const char *least;

	if (host_load(name, &host, &error)) {
		return cli_error(&error);
	}
	policy = load(host.directory, "policy.json");
	least = cli_text_of(json_object_get(policy, "platform"), "at_least");
	printf("%s\n", strcmp(least, "plain")
			       ? "The operator of this host cannot read your data, as "
				 "far as the platform's report goes."
			       : "The operator of this host can read your data.");
	print_place("address    ", &host);
	printf("platform   at least %s\n", least);
	digests = json_dumps(json_object_get(json_object_get(policy, "runner"), "digests"),
			     JSON_COMPACT);
	printf("runs       sgpu-enclave of %s\n", digests ? digests : "?");
	printf("policy     %s, certified by %s\n", host.policy, host.roots);
	free(digests);
	json_decref(policy);
	host_clear(&host);
	return 0;
}

static int host_remove(const char *name)
{
	struct host host;
	struct sgpu_error error = { 0 };

	if (host_load(name, &host, &error)) {
		return cli_error(&error);
	}
	remove_directory(host.directory);
	host_clear(&host);
	return access(host.directory, F_OK) == 0
		       ? cli_fail(SGPU_ESYSTEM, "'%s' cannot be removed", host.directory)
		       : 0;
}

static int host_list(void)
{
	char path[PATH_MAX];
	struct sgpu_error error = { 0 };
	struct dirent **names = NULL;
	int count;

	if (home_path("hosts", path, &error)) {
		return cli_error(&error);
	}
	count = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		struct host host;

		if (names[i]->d_name[0] != '.' &&
		    host_load(names[i]->d_name, &host, &error) == SGPU_OK) {
			printf("%s\t", host.name);
			print_place("", &host);
			host_clear(&host);
		}
		free(names[i]);
	}
	free(names);
	return 0;
}

int verb_host(int argc, char **argv)
{
	static struct request r;
	char **words;
	int status = cli_read(argc, argv, &r, &words), count = 0;

	if (status) {
		return status;
	}
	cli_signals(NULL);
	while (words[count]) {
		count++;
	}
	if (r.release && !r.key) {
		return cli_usage("--release needs the key of who signed it, -k");
	}
	if (count == 1 && strcmp(words[0], "list") == 0) {
		status = host_list();
	} else if (count == 2 && strcmp(words[0], "show") == 0) {
		status = host_show(words[1]);
	} else if (count == 2 && strcmp(words[0], "remove") == 0) {
		status = host_remove(words[1]);
	} else if (count == 2 && strcmp(words[0], "update") == 0) {
		status = host_update(words[1], &r);
	} else if ((count == 2 || count == 3) && strcmp(words[0], "add") == 0) {
		status = host_add(words[1], words[2], &r);
	} else {
		status = cli_usage(
			"one of: add NAME [ADDRESS], list, show NAME, update NAME, remove "
			"NAME");
	}
	facts_clear(&r.facts);
	return cli_finish(status);
}
