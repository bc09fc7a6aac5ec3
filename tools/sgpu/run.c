/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu run: operations on files, sealed all the way. `sgpu-manifest init` makes the manifest; then
 * pack, seal, run and open work in a pipe, as in a shell.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>
#include <sgpu/manifest.h>

#include "manifest/manifest.h"
#include "host.h"
#include "sgpu.h"

enum {
	SHOWN_MAX = 64, /* elements that are printed where no file is named */
	RETRY_MS = 1000,
	SEAL_PIPE = 1 << 19, /* bytes, more than SGPU_SEAL_JSON_MAX */
};

/* How long a host may take beyond --timeout: it answers with what had failed by then. */
#define SLACK_NS UINT64_C(5000000000)

/* Names a descriptor that a program inherits, to be read from its beginning. */
#define FD_NAME "/dev/fd/%d"

/* The file of the runner's key in commands that are only printed. */
static const char run_key[] = "run.jwk";

enum step { PACK, SEAL, RUN, OPEN, STEPS };

struct run {
	struct words init; /* the words of `sgpu-manifest init` */
	const char *first; /* the first word that is no option */
	int words;
	const char *output;  /* the first file of -o */
	const char *outside; /* one that is not below the current directory */
	int outputs;
	const char *on, *device, *timeout, *folder;
	struct host host;
	uint64_t wait_ns; /* how long to try again what can be tried again */
	bool dry, force;
	/* ---- once the manifest is there ---- */
	json_t *manifest;
	const char *path;	/* of a manifest that the user gave, or NULL */
	struct sgpu_type shown; /* of the output that is printed */
	bool print;
	int manifest_fd, result_fd, key_fd; /* memory files */
	int owner_fd;			    /* the owner's key, if a passphrase protects its file */
	int seal[2]; /* a pipe, through which open learns which batch was sealed */
	char owner[PATH_MAX], key[24], seal_names[2][24];
};

/* ---- options: those of init are passed on ---- */
static int pass(void *values, const char *option, const char *value)
{
	words_add_all(&((struct run *)values)->init, option, value, NULL);
	return 0;
}

static int take_map(void *values, const char *value)
{
	return pass(values, "--map", value);
}

static int take_then(void *values, const char *value)
{
	return pass(values, "--then", value);
}

static int take_low(void *values, const char *value)
{
	return pass(values, "--low", value);
}

static int take_like(void *values, const char *value)
{
	return pass(values, "--like", value);
}

static int take_cast(void *values, const char *value)
{
	return pass(values, "--cast", value);
}

static int take_size(void *values, const char *value)
{
	return pass(values, "--max-size", value);
}

static int take_output(void *values, const char *value)
{
	struct run *run = values;
	const size_t name = strcspn(value, "=/");
	const char *file = value[name] == '=' ? value + name + 1 : value;

	run->output = run->output ? run->output : file;
	run->outside = sgpu_location_outside(file) ? file : run->outside;
	run->outputs++;
	return pass(values, "-o", value);
}

static int take_word(void *values, const char *value)
{
	struct run *run = values;

	run->first = run->first ? run->first : value;
	run->words++;
	words_add(&run->init, value);
	return 0;
}

const struct cli_option run_options[] = {
	{ CLI_ROWS(passphrase_rows) },
	{ "on", 0, "HOST", "run on this host of 'sgpu host', not here", CLI_TEXT(struct run, on) },
	{ "map", 0, "EXPRESSION", "compute this for each element of the files that it names",
	  CLI_TAKE(take_map) },
	{ "then", 0, "OPERATION", "one more operation, which reads what the one before wrote",
	  CLI_TAKE(take_then) },
	{ "output", 'o', "[NAME=]FILE", "the file of an output: .nii .nii.gz .npy .npz, else raw",
	  CLI_TAKE(take_output) },
	{ "low", 0, "NAME", "this argument of the operation before is LOW; may be repeated",
	  CLI_TAKE(take_low) },
	{ "like", 0, "NAME", "the input whose geometry and units outputs have",
	  CLI_TAKE(take_like) },
	{ "cast", 0, "DTYPE", "cast to this type where no cast keeps every value",
	  CLI_TAKE(take_cast) },
	{ "max-size", 0, "SIZE", "most bytes that a compressed file may hold",
	  CLI_TAKE(take_size) },
	{ "directory", 'C', "DIR", "of the outputs of a manifest (default: the current one)",
	  CLI_TEXT(struct run, folder) },
	{ "force", 0, NULL, "replace existing files", CLI_FLAG(struct run, force) },
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct run, device) },
	{ "timeout", 0, "DURATION", "fail unfinished work after this time: 90, 500ms, 5m",
	  CLI_TEXT(struct run, timeout) },
	{ "wait", 0, "DURATION", "how long to try again what can succeed later",
	  CLI_DURATION(struct run, wait_ns, 0) },
	{ "dry-run", 0, NULL, "print the commands that do the same, and run nothing",
	  CLI_FLAG(struct run, dry) },
	{ "", 0, NULL, NULL, CLI_TAKE(take_word) },
	CLI_END,
};

/* ---- the manifest ---- */
/* Whether the only word is the path of a JSON document. */
static bool is_manifest(const struct run *run)
{
	struct stat status;
	const bool alone = run->words == 1 && run->init.count == 3 &&
			   stat(run->first, &status) == 0 && S_ISREG(status.st_mode);
	const int fd = alone ? open(run->first, O_RDONLY | O_CLOEXEC) : -1;
	char start[64];
	const ssize_t got = fd < 0 ? -1 : read(fd, start, sizeof(start) - 1);

	sgpu_close(fd);
	start[got > 0 ? got : 0] = '\0';
	return got > 0 && start[strspn(start, " \t\r\n")] == '{';
}

/* Reads a type that init has written. */
static int read_type(const json_t *json, struct sgpu_type *type)
{
	const json_t *extents = json_object_get(json, "shape"), *extent;
	uint64_t bytes;
	size_t i;

	*type = (struct sgpu_type){ .dtype = sgpu_dtype_parse(cli_text_of(json, "dtype")) };
	json_array_foreach (extents, i, extent) {
		if (i < SGPU_RANK_MAX) {
			type->shape[type->rank++] = (uint64_t)json_integer_value(extent);
		}
	}
	return type->dtype != SGPU_NONE && sgpu_type_bytes(type, &bytes)
		       ? 0
		       : cli_fail(SGPU_EINVALID, "init wrote an output without a type");
}

/* Finds the one output, whose few elements are printed where no file is named. */
static int find_shown(struct run *run)
{
	json_t *segment;
	size_t i;
	int count = 0, status;

	run->manifest = json_loadfd(run->manifest_fd, 0, NULL);
	if (!run->manifest) {
		return cli_fail(SGPU_EINVALID, "init wrote no manifest");
	}
	json_array_foreach (json_object_get(run->manifest, "segments"), i, segment) {
		if (strcmp(cli_text_of(segment, "direction"), "OUTPUT") == 0) {
			count++;
			status = read_type(json_object_get(segment, "data_type_info"), &run->shown);
			if (status) {
				return status;
			}
		}
	}
	return count == 1 ? 0
			  : cli_usage("%d outputs need files: -o NAME=FILE for each that you want",
				      count);
}

static int check_shown(struct run *run)
{
	uint64_t count = 0;
	int status = find_shown(run);

	if (!status && (!sgpu_type_elements(&run->shown, &count) || count > SHOWN_MAX)) {
		char type[SGPU_TYPE_TEXT_MAX];

		sgpu_type_text(&run->shown, type);
		status = cli_usage("the output is %s, more than is printed: -o FILE names its file",
				   type);
	}
	run->print = !status;
	return status;
}

/* Makes the runner's key of this run, which no file on a disk holds. */
static int make_key(struct run *run, struct sgpu_error *error)
{
	struct sgpu_key_set keys = { .key.kind = SGPU_KEY_NONE };
	int rc = sgpu_key_generate(SGPU_KEY_OCT, &keys.key, error);

	rc = rc ? rc : key_file(&keys, &run->key_fd, error);
	sgpu_key_set_clear(&keys);
	return rc;
}

/* Asks for the passphrase of the owner's key once, in the place of two programs that need the key.
 */
static int take_owner(struct run *run, struct sgpu_error *error)
{
	struct sgpu_key_set keys = { .key.kind = SGPU_KEY_NONE };
	int rc = home_owner(run->owner, error);

	rc = rc || run->dry ? rc : sgpu_key_set_load(run->owner, &keys, error);
	if (!rc && keys.locked) {
		rc = key_file(&keys, &run->owner_fd, error);
		snprintf(run->owner, sizeof(run->owner), FD_NAME, run->owner_fd);
	}
	sgpu_key_set_clear(&keys);
	return rc;
}

/* ---- the four programs ---- */
/* Here, sgpu-run becomes a sgpu-enclave with the key of this run; on a host, it hands the batch to
 * the server. */
static void set_run(struct run *run, struct words *words)
{
	char arguments[64] = "-q --json";

	if (run->on) {
		if (run->timeout) {
			cli_append(arguments, sizeof(arguments), " --timeout %s", run->timeout);
		}
		host_words(&run->host, "sgpu-run", arguments, words);
		return;
	}
	words_add_all(words, "sgpu-run", "-q", "--local", "-k", run->dry ? run_key : run->key,
		      NULL);
	if (run->device) {
		words_add_all(words, "--device", run->device, NULL);
	}
	if (run->timeout) {
		words_add_all(words, "--timeout", run->timeout, NULL);
	}
}

/* Sets the command lines. Of all, only seal shows progress. */
static void set_commands(struct run *run, struct program list[STEPS])
{
	for (int i = 0; i < STEPS; i++) {
		list[i] = (struct program){ .in = -1,
					    .out = -1,
					    .speaks = i == SEAL && isatty(cli_error_fd) };
	}
	words_add_all(&list[PACK].words, "sgpu-manifest", "pack", "-q", NULL);
	words_add_all(&list[SEAL].words, "sgpu-seal", "seal", "-k", run->owner, "-r",
		      run->dry ? run_key : run->key, "--seal-out",
		      run->dry ? "job.seal" : run->seal_names[1], NULL);
	list[SEAL].keep[0] = run->key_fd;
	list[RUN].keep[0] = run->on ? -1 : run->key_fd;
	list[SEAL].keep[1] = list[OPEN].keep[0] = run->owner_fd;
	list[SEAL].give = run->seal[1];
	list[OPEN].give = run->seal[0];
	set_run(run, &list[RUN].words);
	words_add_all(&list[OPEN].words, "sgpu-seal", "open", "-q", "-k", run->owner, "--batch",
		      run->dry ? "job.seal" : run->seal_names[0], NULL);
	for (int i = 0; i < STEPS; i++) {
		/* Records, which are shown as this program's own messages. Those of pack name
		 * places in a manifest. */
		if (!run->dry && (i != PACK || cli_json) && (!list[i].speaks || cli_json) &&
		    (i != RUN || !run->on)) {
			words_add(&list[i].words, "--json");
		}
	}
	if (run->path) {
		words_add(&list[PACK].words, run->path);
	} else {
		words_add(&list[PACK].words, "--allow-outside");
		list[PACK].in = run->manifest_fd;
	}
	if (cli_quiet) {
		words_add(&list[SEAL].words, "-q");
	}
	if (run->force) {
		words_add(&list[OPEN].words, "--force");
	}
	if (run->print) {
		list[OPEN].out = run->result_fd;
	} else if (run->outputs == 1) {
		words_add_all(&list[OPEN].words, "-o", run->output, NULL);
	} else {
		words_add_all(&list[OPEN].words, "-C", run->folder ? run->folder : ".", NULL);
	}
}

/* ---- what is printed ---- */
/* How the host proves what it runs, and which key it has. */
static void print_proof(struct run *run)
{
	struct words quote = { .count = 0 }, appraise = { .count = 0 };
	struct host host = run->host; /* whose command is another one */

	printf("nonce=$(od -An -N 32 -tx1 /dev/urandom | tr -d ' \\n')\n");
	host_words(&host, "sgpu-serve", "quote --nonce " NONCE_WORD, &quote);
	words_print(&quote, " > quote\n");
	words_add_all(&appraise, "sgpu-measure", "appraise", "-q", "-p", run->host.policy,
		      "--roots", run->host.roots, "--nonce", NONCE_WORD, "--recipient", run_key,
		      "quote", NULL);
	words_print(&appraise, "\n");
}

static void print_commands(struct run *run, const struct program list[STEPS])
{
	if (run->on) {
		print_proof(run);
	} else {
		printf("sgpu-seal keygen --no-sign -o %s\n", run_key);
	}
	if (!run->path) {
		words_print(&run->init, " |\n    ");
	}
	for (int i = 0; i < STEPS; i++) {
		words_print(&list[i].words, i + 1 < STEPS ? " |\n    " : "\n");
	}
}

/* ---- the verb ---- */
/* A seal is small beside what a pipe holds, so that seal need not wait for open. */
static int make_seal_pipe(struct run *run)
{
	if (pipe2(run->seal, O_CLOEXEC) != 0 || fcntl(run->seal[1], F_SETPIPE_SZ, SEAL_PIPE) < 0) {
		return cli_fail(SGPU_ESYSTEM, "cannot make a pipe");
	}
	for (int i = 0; i < 2; i++) {
		snprintf(run->seal_names[i], sizeof(run->seal_names[i]), FD_NAME, run->seal[i]);
	}
	return 0;
}

static int attempt(struct run *run)
{
	struct program list[STEPS];
	struct sgpu_error error = { 0 };
	uint64_t limit_ns = 0;
	int status = 0;

	/* The host is told the limit, and is not relied upon to keep to it. */
	if (run->timeout && sgpu_parse_duration(run->timeout, "--timeout", &limit_ns, &error)) {
		return cli_error(&error);
	}
	programs_deadline_ns = run->on && limit_ns ? sgpu_now_ns() + limit_ns + SLACK_NS : 0;

	if (run->on) {
		sgpu_close(run->key_fd);
		status = host_prove(&run->host, &run->key_fd);
	}
	snprintf(run->key, sizeof(run->key), FD_NAME, run->key_fd);
	status = status ? status : make_seal_pipe(run);
	if (status) {
		return status;
	}
	set_commands(run, list);
	if (list[PACK].in >= 0) { /* which is closed after the start */
		list[PACK].in = program_input(list[PACK].in);
	}
	(void)lseek(run->manifest_fd, 0, SEEK_SET);
	(void)lseek(run->result_fd, 0, SEEK_SET);
	return programs_run(list, STEPS);
}

static int run_programs(struct run *run)
{
	const uint64_t begin = sgpu_now_ns();
	struct program list[STEPS];
	struct sgpu_error error = { 0 };
	int rc = take_owner(run, &error), status;

	rc = rc || run->dry || run->on ? rc : make_key(run, &error);
	rc = rc || !run->on ? rc : host_load(run->on, &run->host, &error);
	rc = rc || !run->print ? rc : memory_file("result", &run->result_fd, &error);
	if (rc) {
		return cli_error(&error);
	}
	if (run->dry) {
		set_commands(run, list);
		print_commands(run, list);
		return 0;
	}
	for (status = attempt(run); status && programs_retryable && !sgpu_io_interrupted() &&
				    sgpu_now_ns() - begin < run->wait_ns;
	     status = attempt(run)) {
		cli_note("trying again");
		(void)poll(NULL, 0, RETRY_MS);
	}
	return status || !run->print ? status : print_elements(&run->shown, run->result_fd);
}

static void clear(struct run *run)
{
	json_decref(run->manifest);
	sgpu_close(run->manifest_fd);
	sgpu_close(run->result_fd);
	sgpu_close(run->key_fd);
	sgpu_close(run->owner_fd);
	host_clear(&run->host);
}

int verb_run(int argc, char **argv)
{
	static struct run run = {
		.manifest_fd = -1, .result_fd = -1, .key_fd = -1, .owner_fd = -1, .seal = { -1, -1 }
	};
	char **arguments;
	int status;

	words_add_all(&run.init, "sgpu-manifest", "init", NULL);
	status = cli_read(argc, argv, &run, &arguments);
	if (!status && !run.words) {
		status = cli_usage("an operation is missing: 'sgpu-manifest ops' lists them");
	}
	if (status) {
		return status;
	}
	cli_signals(NULL);
	run.path = is_manifest(&run) ? run.first : NULL;
	if (run.on && run.device) {
		return cli_usage("the device of a host is its own: --device goes without --on");
	}
	if (run.outputs > 1 && run.outside) {
		return cli_usage("'%s': files of several outputs are in this directory or below",
				 SGPU_EXCERPT(run.outside));
	}
	if (run.folder && !run.path) {
		return cli_usage("-C is for the outputs of a manifest; -o FILE names a file");
	}
	if (!run.path) {
		struct program init = { .in = -1, .speaks = true };

		if (cli_json) {
			words_add(&run.init, "--json");
		}
		if (cli_quiet) {
			words_add(&run.init, "-q");
		}
		init.words = run.init;
		status = program_read(&init, "manifest", &run.manifest_fd);
	}
	status = status || run.path || run.outputs ? status : check_shown(&run);
	status = status ? status : run_programs(&run);
	clear(&run);
	return cli_finish(status);
}
