/* SPDX-License-Identifier: Apache-2.0
 *
 * See enclave.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "base/io.h"
#include "crypto/crypto.h"
#include "enclave.h"

/* Bytes of a heap's largest block, and unused ones at its end. */
enum { KEPT_BLOCK = 4 << 20, KEPT_HEAP = 8 << 20 };

#define SLACK_NS 1000UL /* of timers: runs wait for devices in short steps */
/* For a device to end a stopped run. A GPU abandons a kernel in a third of it, but a call of its
 * driver may wait for ever. */
#define STUCK_NS UINT64_C(15000000000)

static int check_evidence(const struct run_request *r)
{
	const struct runner_options *o = &r->runner;
	const bool all = r->nonce.size > 0 && o->attestation_key && o->certificate,
		   any = r->nonce.size > 0 || o->attestation_key || o->certificate || r->owner;

	if (r->quote ? !all : any) {
		return cli_usage(r->quote ? "--quote needs --nonce, --attestation-key and "
					    "--certificate"
					  : "--nonce, --attestation-key, --certificate and "
					    "--owner are for a run with --quote");
	}
	return r->quote && cli_is_standard(r->quote)
		       ? cli_usage("the quote goes to a file, since standard output is for what "
				   "follows")
		       : 0;
}

int enclave_check(struct enclave *w)
{
	const struct run_request *request = w->request;
	const struct runner_options *o = &request->runner;
	struct sgpu_error error = { 0 };
	const int status = request->serve ? 0 : check_evidence(request);
	int rc;

	if (status) {
		return status;
	}
	rc = runner_devices(o->device, w->names, &w->named, &error);
	rc = rc || !o->files.count ? rc : sgpu_files_create(&w->files, &error);
	for (int i = 0; rc == SGPU_OK && i < o->files.count; i++) {
		rc = sgpu_files_allow(w->files, o->files.items[i], &error);
	}
	rc = rc || !o->owners ? rc : sgpu_owners_load(o->owners, &w->owners, &error);
	if (rc != SGPU_OK) {
		return rc == SGPU_EUSAGE && !error.hint[0] ? cli_usage("%s", error.text)
							   : cli_error(&error);
	}
	if (w->named != 1 && (request->session || o->attestation_key)) {
		return cli_usage("--device: '%s' names several devices: a quote names one device, "
				 "and a session has one",
				 o->device);
	}
	if (o->keys.count > ENCLAVE_KEYS_MAX) {
		return cli_usage("more than %d keys", ENCLAVE_KEYS_MAX);
	}
	if ((w->files || o->state || o->window_ns) && w->owners.count == 0) {
		return cli_usage("--files, --state and --replay-window need --owners: anybody's "
				 "batch could read those files, or use up the ids of others");
	}
	return 0;
}

int enclave_begin(struct enclave *w, void (*stop)(void))
{
	struct sgpu_error error = { 0 };

	/* The next batch reuses this one's memory. By default the C library would return it to the
	 * kernel after each batch of some ten KiB, and fault it in again. */
	(void)mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK);
	(void)mallopt(M_TRIM_THRESHOLD, KEPT_HEAP);
	for (int i = 0; i < w->request->runner.keys.count; i++) {
		if (cli_take_input(w->request->runner.keys.items[i])) {
			return sgpu_exit_status(SGPU_EUSAGE);
		}
	}
	cli_harden();
	(void)prctl(PR_SET_TIMERSLACK, SLACK_NS); /* all threads inherit it */
	w->keys = sgpu_secret_alloc(ENCLAVE_KEYS_SIZE);
	if (!w->keys) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	cli_signals(stop);
	return w->request->runner.attestation_key && signer_begin(w->request, &error) != SGPU_OK
		       ? cli_error(&error)
		       : 0;
}

/* Notes the file of a key before the key is read: no batch fetches a file with its inode. The key's
 * loader reports a missing file, and a pipe is read to its end. */
static int note_key(struct enclave *w, const char *key, struct sgpu_error *error)
{
	struct stat *file = &w->key_files[w->key_file_count];

	if (!cli_input_stat(key, file) || !S_ISREG(file->st_mode)) {
		return SGPU_OK;
	}
	w->key_names[w->key_file_count++] = key;
	return w->files ? sgpu_files_except(w->files, file, error) : SGPU_OK;
}

static int load_keys(struct enclave *w, struct sgpu_error *error)
{
	const char *signing = w->request->runner.attestation_key, *owner = w->request->owner;
	int rc = signing ? note_key(w, signing, error) : SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < w->request->runner.keys.count; i++) {
		const char *key = w->request->runner.keys.items[i];

		rc = note_key(w, key, error);
		rc = rc ? rc : sgpu_key_load_private(key, &w->keys[i], error);
		w->key_count += rc == SGPU_OK;
	}
	rc = rc || !owner ? rc : sgpu_key_load(owner, &w->owner, error);
	return rc == SGPU_OK && owner && w->owner.kind == SGPU_KEY_OCT
		       ? sgpu_fail(error, SGPU_EKEY,
				   "'%s' is a symmetric key, the owner's is an X25519 key", owner)
		       : rc;
}

/* Refuses a GPU that is named in two ways. */
static int open_next(struct enclave *w, struct sgpu_error *error)
{
	const int number = w->device_count;
	const struct sgpu_device_config config = { .jobs = w->request->runner.jobs };
	struct enclave_device *d = &w->devices[number];
	int rc = sgpu_device_open(w->names[number], &config, &d->device, error);

	w->device_count += rc == SGPU_OK;
	rc = rc ? rc : sgpu_device_get_info(d->device, &d->about, error);
	w->on_gpu = w->devices[0].about.opens_on_device;
	for (int k = 0; rc == SGPU_OK && k < number; k++) {
		if (d->about.uuid[0] && strcmp(d->about.uuid, w->devices[k].about.uuid) == 0) {
			rc = sgpu_fail(error, SGPU_EUSAGE,
				       "--device: '%s' and '%s' are the same GPU", w->names[k],
				       w->names[number]);
		}
	}
	return rc == SGPU_OK && w->request->runner.allow_modules
		       ? confinement_of_modules(d->device, &w->modules, error)
		       : rc;
}

static int open_devices(struct enclave *w, struct sgpu_error *error)
{
	const int most = w->named ? w->named : RUNNER_DEVICES_MAX;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < most; i++) {
		if (!w->named) {
			snprintf(w->names[i], sizeof(w->names[i]), "cuda:%d", i);
		}
		rc = open_next(w, error);
		if (rc == SGPU_EUNAVAILABLE && !w->named && i > 0) {
			return SGPU_OK; /* there is no GPU i */
		}
	}
	return rc;
}

/* Refuses a key that can still be opened by its name, since a run could do that, too. Where the
 * file has none, it is enough to close descriptors. */
static int refuse_open_keys(const struct enclave *w, struct sgpu_error *error)
{
	for (int i = 0; i < w->key_file_count; i++) {
		const bool has_name = w->key_files[i].st_nlink > 0;
		const int fd =
			has_name ? open(w->key_names[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

		sgpu_close(fd);
		if (has_name && (fd >= 0 || (errno != EACCES && errno != ENOENT))) {
			sgpu_fail(error, SGPU_EPOLICY, "a run can read the key '%s' again",
				  w->key_names[i]);
			return sgpu_hint(error, "move the key to a directory of its own");
		}
	}
	return SGPU_OK;
}

/* Warns if the kernel lacks Landlock. */
static int confine_files(const struct enclave *w, struct landlock_needs *needs,
			 struct sgpu_error *error)
{
	int rc;

	if (landlock_version() == 0) {
		if (!cli_harden_off()) {
			cli_warning("files are not confined: this kernel has no Landlock, or it is "
				    "off");
		}
		return SGPU_OK;
	}
	needs->files = w->files;
	needs->state = w->request->runner.state;
	needs->kind = w->named > 0 && strcmp(w->names[0], "cpu") == 0 ? HARDEN_CPU : HARDEN_GPU;
	rc = landlock_confine(needs, error);
	return rc ? rc : refuse_open_keys(w, error);
}

/* The private half of the key that the quote names never leaves this process and is lost with it.
 * So a batch sealed to the key, or a session bound to it, opens in the measured program or
 * nowhere. */
static int write_quote(struct enclave *w, struct sgpu_error *error)
{
	const struct run_request *r = w->request;
	char *text = NULL;
	size_t size = 0;
	int rc = signer_claim(w, error);

	rc = rc ? rc : signer_ask(r->nonce.data, r->nonce.size, &text, &size, error);
	rc = rc ? rc : cli_write_text(r->quote, 0666, text, size, error);
	free(text);
	sgpu_close(signer_fd);
	signer_fd = -1;
	return rc;
}

int enclave_open(struct enclave *w, struct landlock_needs *needs, struct sgpu_error *error)
{
	static const uint8_t key[SGPU_KEY_SIZE];
	const uint64_t window_ns = w->request->runner.window_ns,
		       usual_us = SGPU_REPLAY_WINDOW_DAYS * UINT64_C(86400000000);
	struct sgpu_aead *aead = NULL;
	int rc = SGPU_OK;

	if (w->request->runner.allow_modules && w->named > 0 &&
	    strncmp(w->names[0], "cuda", 4) != 0) {
		rc = sgpu_device_prepare_modules(SGPU_HOST_PATH, w->named, error);
	}
	rc = rc ? rc : load_keys(w, error);
	if (rc == SGPU_OK && w->owners.count > 0) {
		rc = sgpu_replay_create(w->request->runner.state,
					window_ns ? window_ns / 1000 : usual_us, &w->replay, error);
	}
	/* Without an AEAD each sealed segment would fail. */
	rc = rc ? rc : sgpu_aead_create(NULL, key, &aead, error);
	sgpu_aead_free(&aead);
	rc = rc ? rc : confine_files(w, needs, error);
	rc = rc ? rc : open_devices(w, error);
	return rc || !w->request->quote ? rc : write_quote(w, error);
}

int enclave_authority(const struct enclave *w, struct sgpu_session_authority *authority,
		      struct sgpu_error *error)
{
	const struct sgpu_key *key = w->quoted;

	if (w->sessions == WIRE_SESSIONS_NONE) {
		return sgpu_fail(error, SGPU_EPOLICY, "this server takes no sessions");
	}
	if (!w->devices[0].context) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "device '%s' has no secure contexts, which sessions need",
				 w->names[0]);
	}
	for (int i = 0; !key && i < w->key_count; i++) {
		key = w->keys[i].kind == SGPU_KEY_X25519 ? &w->keys[i] : NULL;
	}
	*authority = (struct sgpu_session_authority){ .key = key };
	if (w->sessions == WIRE_SESSIONS_OWNERS) {
		authority->owners = (const char *const *)w->owners.names;
		authority->owner_count = w->owners.count;
	}
	if (key) {
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EUNAVAILABLE,
		  "the runner has no X25519 key, which sessions are bound to");
	return sgpu_hint(error, "'sgpu-seal keygen --x25519' makes one, for -k");
}

/* Warns if the kernel lacks filters. That is an error with a quote, which already claims them. */
static int filter_calls(const struct enclave *w, struct sgpu_error *error)
{
	const int rc = harden_filter(w->on_gpu ? HARDEN_GPU : HARDEN_CPU, error);

	if (rc == SGPU_EUNAVAILABLE && !w->request->runner.attestation_key) {
		cli_warning("%s", error->text);
		return SGPU_OK;
	}
	return rc;
}

static bool is_key(const struct enclave *w, int fd)
{
	struct stat status;
	int i = 0;

	if (fstat(fd, &status) != 0) {
		return false;
	}
	while (i < w->key_file_count && (status.st_dev != w->key_files[i].st_dev ||
					 status.st_ino != w->key_files[i].st_ino)) {
		i++;
	}
	return i < w->key_file_count;
}

/* Closes every descriptor of the keys' files, even inherited ones, but `kept`. */
static int close_keys(const struct enclave *w, int kept, struct sgpu_error *error)
{
	DIR *open_ones = opendir("/proc/self/fd");
	/* In their places, so that no later file gets number 0, 1 or 2. */
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool closed = open_ones && nothing >= 0;
	struct dirent *entry;
	uint64_t fd;
	int rc;

	while (closed && (entry = readdir(open_ones))) {
		if (sgpu_parse_u64(entry->d_name, "descriptor", 0, INT_MAX, &fd, NULL) == SGPU_OK &&
		    (int)fd != kept && is_key(w, (int)fd)) {
			closed = dup2(nothing, (int)fd) >= 0;
		}
	}
	rc = closed ? SGPU_OK
		    : sgpu_fail_errno(error,
				      "cannot close the descriptors of keys, by /proc/self/fd");
	if (open_ones) {
		closedir(open_ones);
	}
	sgpu_close(nothing);
	return rc;
}

int enclave_start(struct enclave *w, int kept, struct sgpu_error *error)
{
	struct sgpu_device *devices[RUNNER_DEVICES_MAX] = { NULL };
	struct sgpu_runner_config config = { .more = devices + 1,
					     .more_count = w->device_count - 1,
					     .shared_files = w->shared_files };
	int rc = close_keys(w, kept, error);

	/* What kernels print may be HIGH. */
	rc = rc || cli_harden_off() ? rc : cli_silence(error);
	for (int i = 0; rc == SGPU_OK && i < w->device_count; i++) {
		struct enclave_device *d = &w->devices[i];

		rc = sgpu_secure_create(d->device, NULL, &d->context, error);
		devices[i] = rc == SGPU_OK ? sgpu_secure_device(d->context) : d->device;
		if (rc == SGPU_EUNAVAILABLE) {
			cli_detail("no secure context: %s", error->text);
			rc = SGPU_OK;
		}
	}
	rc = rc ? rc : filter_calls(w, error);
	config.device = devices[0];
	return rc ? rc : sgpu_runner_create(&config, &w->runner, error);
}

struct sgpu_run_options enclave_run_options(const struct enclave *w)
{
	return (struct sgpu_run_options){ .keys = w->keys,
					  .key_count = w->key_count,
					  .files = w->files,
					  .allow_modules = w->request->runner.allow_modules,
					  .owners = (const char *const *)w->owners.names,
					  .owner_count = w->owners.count,
					  .replay = w->replay };
}

void enclave_stop(struct enclave *w)
{
	sgpu_runner_free(&w->runner);
	for (int i = 0; i < w->device_count; i++) {
		struct enclave_device *d = &w->devices[i];
		struct sgpu_secure_stats stats;

		if (cli_verbose && d->context) {
			sgpu_secure_get_stats(d->context, &stats);
			cli_detail("secure context: %" PRIu64 " MiB of pages, %" PRIu64
				   " commands, %" PRIu64 " refused, %" PRIu64 " requests",
				   stats.mapped_bytes >> 20, stats.commands, stats.refused,
				   stats.requests);
		}
		sgpu_secure_destroy(&d->context);
		sgpu_device_close(&d->device);
	}
}

int enclave_end(struct enclave *w, int status)
{
	enclave_stop(w);
	if (w->keys) {
		sgpu_secret_free(w->keys, ENCLAVE_KEYS_SIZE);
	}
	status = cli_finish(status);
	if (w->on_gpu) {
		/* In exit(), a GPU's driver would wait for a kernel that never ends. */
		fflush(stderr);
		_exit(status);
	}
	return status;
}

void enclave_watch(const struct enclave *w, const struct sgpu_run *run,
		   struct sgpu_run_progress *progress)
{
	sigset_t all;

	sgpu_run_get_progress(run, progress);
	if (progress->stopping_ns > STUCK_NS && (w->on_gpu || w->request->serve)) {
		sgpu_wipe(w->keys, ENCLAVE_KEYS_SIZE);
		cli_fail(SGPU_EDEVICE, "the device does not stop what it was told to stop");
		sigfillset(&all);
		pthread_sigmask(SIG_UNBLOCK, &all, NULL);
		_exit(cli_finish(sgpu_exit_status(SGPU_EDEVICE)));
	}
}
