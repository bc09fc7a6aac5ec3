/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of the case session that are opened for it, with a secure context and without: in this process, whose device is
 * open already, and each as the first of a process of its own.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/io.h>
#include <sgpu/secure.h>

#include "secure/group.h"

#include "cases.h"

/* What is opened, and which end of it is timed. */
struct opening {
	struct sgpu_bench *bench;
	struct sgpu_key owner;     /* made beforehand */
	bool ends;
};

struct opened {
	struct sgpu_device *device;
	struct sgpu_secure *context;
	struct sgpu_stream *stream;
};

/* Up to a stream that takes work. BENCH_AGREED also makes the owner's key, and agrees one with the device where there is
 * one to agree. */
static int open_all(const char *selector, unsigned jobs, const struct sgpu_key *owner, enum bench_opening kind,
		    struct opened *opened, struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = jobs, .bare_keys = kind != BENCH_AGREED };
	const struct sgpu_secure_config with = { .owner = kind == BENCH_SECURE ? owner : NULL };
	struct sgpu_device_agreement agreement;
	int rc = sgpu_device_open(selector, &config, &opened->device, error);

	if (rc == SGPU_OK && kind == BENCH_AGREED) {
		rc = sgpu_device_agree(opened->device, &agreement, error);
	}
	if (rc == SGPU_OK && kind != BENCH_PLAIN) {
		rc = sgpu_secure_create(opened->device, &with, &opened->context, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_create(opened->context ? sgpu_secure_device(opened->context) : opened->device,
					&opened->stream, error);
	}
	return rc;
}

static void close_all(struct opened *opened)
{
	sgpu_stream_free(&opened->stream);
	sgpu_secure_destroy(&opened->context);
	sgpu_device_close(&opened->device);
}

int bench_open(const char *selector, unsigned jobs, const struct sgpu_key *owner, enum bench_opening kind,
	       uint64_t *opening_ns, uint64_t *closing_ns, struct sgpu_error *error)
{
	struct opened opened = { 0 };
	uint64_t begin = sgpu_now_ns(), middle;
	int rc = open_all(selector, jobs, owner, kind, &opened, error);

	middle = sgpu_now_ns();
	close_all(&opened);
	*opening_ns = middle - begin;
	*closing_ns = sgpu_now_ns() - middle;
	return rc;
}

/* ---- in this process ---- */
static int run(const struct opening *o, enum bench_opening kind, uint64_t *ns, struct sgpu_error *error)
{
	uint64_t opening, closing;
	int rc = bench_open(o->bench->info.selector, o->bench->options.jobs, &o->owner, kind, &opening, &closing, error);

	*ns = o->ends ? closing : opening;
	return rc;
}

static int run_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run(argument, BENCH_PLAIN, ns, error);
}

static int run_secure(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run(argument, BENCH_SECURE, ns, error);
}

static int run_agreed(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run(argument, BENCH_AGREED, ns, error);
}

/* ---- in a process of its own ---- */
/* What the verb `open` of this program says, up to its end. */
static int listen_to(pid_t child, int fd, char *text, size_t size, struct sgpu_error *error)
{
	size_t got = 0;
	int status = -1, rc = sgpu_read(fd, "sgpu-bench open", text, size - 1, &got, error);

	text[rc == SGPU_OK ? got : 0] = '\0';
	if (waitpid(child, &status, 0) != child) {
		return sgpu_fail_errno(error, "cannot wait for 'sgpu-bench open'");
	}
	return rc != SGPU_OK || status == 0 ? rc :
	       sgpu_fail(error, SGPU_EDEVICE, "'sgpu-bench open' ended with status %d",
			 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int run_process(const struct opening *o, enum bench_opening kind, uint64_t *ns, struct sgpu_error *error)
{
	unsigned long long opening, closing;
	struct sgpu_pipe pipe = { 0, 0 };
	char text[64];
	pid_t child;
	int rc = bench_start(o->bench, kind == BENCH_SECURE ? "--secure" : NULL, NULL, &child, &pipe, error);

	rc = rc ? rc : listen_to(child, pipe.in, text, sizeof(text), error);
	if (pipe.in > 0) {
		close(pipe.out);
		close(pipe.in);
	}
	if (rc == SGPU_OK && sscanf(text, "%llu %llu", &opening, &closing) != 2) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "'sgpu-bench open' did not say how long it took");
	}
	*ns = rc == SGPU_OK ? opening : 0;
	return rc;
}

static int process_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run_process(argument, BENCH_PLAIN, ns, error);
}

static int process_secure(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	return run_process(argument, BENCH_SECURE, ns, error);
}

/* ---- the points ---- */
int bench_session_open(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct opening o = { .bench = bench };
	const struct sgpu_bench_variant processes[] = {
		{ .name = "plain", .run = process_plain, .argument = &o },
		{ .name = "secure", .run = process_secure, .argument = &o },
	};
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = run_plain, .argument = &o },
		{ .name = "secure", .run = run_secure, .argument = &o },
		{ .name = "secure, keys made", .run = run_agreed, .argument = &o },
	};
	const struct sgpu_bench_point first = { .parameters = { { "what", "first of a process", 0 } } };
	const struct sgpu_bench_point creation = { .parameters = { { "what", "create", 0 } } };
	const struct sgpu_bench_point end = { .parameters = { { "what", "destroy", 0 } } };
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &o.owner, error);

	rc = rc == SGPU_OK ? sgpu_bench_measure(bench, &first, processes, 2, error) : rc;
	rc = rc == SGPU_OK ? sgpu_bench_measure(bench, &creation, variants, 3, error) : rc;
	o.ends = true;
	rc = rc == SGPU_OK ? sgpu_bench_measure(bench, &end, variants, 2, error) : rc;
	sgpu_key_clear(&o.owner);
	return rc;
}
