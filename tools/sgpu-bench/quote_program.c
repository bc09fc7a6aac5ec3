/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's digest, of the case quote: from the cache of files, and from where the file lies.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/io.h>

#include "cases.h"

/* A copy of the program, which nobody runs: one that runs cannot be put out of the cache. */
struct program {
	int fd;
	uint64_t size;
	char path[64];
	uint8_t expected[SGPU_CHANNEL_DIGEST_SIZE], digest[SGPU_CHANNEL_DIGEST_SIZE];
};

static int copy(struct program *p, const char *folder, struct sgpu_error *error)
{
	char *data = NULL;
	size_t size = 0;
	int rc = sgpu_read_file("/proc/self/exe", SIZE_MAX, &data, &size, error);

	rc = rc ? rc : sgpu_write(p->fd, folder, data, size, error);
	if (rc == SGPU_OK && fsync(p->fd) != 0) {
		rc = sgpu_fail_errno(error, "cannot write to '%s'", folder);
	}
	p->size = size;
	free(data);
	return rc;
}

/* Whether any of it is in the cache, which reading it would be served from. */
static bool is_cached(const struct program *p)
{
	size_t pages = (size_t)(p->size + 4095) / 4096;
	unsigned char *present = calloc(pages, 1);
	void *memory = mmap(NULL, (size_t)p->size, PROT_READ, MAP_SHARED, p->fd, 0);
	bool any = !present || memory == MAP_FAILED || mincore(memory, (size_t)p->size, present) != 0;

	for (size_t i = 0; i < pages && !any; i++) {
		any = present[i] & 1;
	}
	if (memory != MAP_FAILED) {
		munmap(memory, (size_t)p->size);
	}
	free(present);
	return any;
}

static int make_cold(void *argument, struct sgpu_error *error)
{
	struct program *p = argument;

	if (posix_fadvise(p->fd, 0, 0, POSIX_FADV_DONTNEED) != 0 || is_cached(p)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "the copy of the program stays in the cache of files");
	}
	memset(p->digest, 0, sizeof(p->digest));
	return SGPU_OK;
}

static int forget(void *argument, struct sgpu_error *error)
{
	struct program *p = argument;

	(void)error;
	memset(p->digest, 0, sizeof(p->digest));
	return SGPU_OK;
}

static int run(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct program *p = argument;

	(void)ns;
	return sgpu_measure_file(p->path, p->digest, NULL, error);
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct program *p = argument;

	return memcmp(p->digest, p->expected, sizeof(p->digest)) == 0 ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the copy's digest is not the program's");
}

static int measure(struct sgpu_bench *bench, struct program *p, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "cached", .prepare = forget, .run = run, .verify = verify, .argument = p },
		{ .name = "from the disk", .prepare = make_cold, .run = run, .verify = verify, .argument = p },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "program", 0 },
								{ "program_bytes", NULL, p->size } },
						.bytes = p->size, .bytes_formula = "program_bytes" };
	struct sgpu_error why = { 0 };
	int count = 2, rc = SGPU_OK;

	if (make_cold(p, &why) != SGPU_OK) {
		sgpu_bench_waive(bench, &point, variants[1].name, "%s", why.text);
		count = 1;
	}
	/* Into the cache, where each reading leaves it. */
	rc = run(p, NULL, error);
	return rc == SGPU_OK ? sgpu_bench_measure(bench, &point, variants, count, error) : rc;
}

int bench_quote_program(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const char *folder = getenv("TMPDIR") && *getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	struct program p = { .fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) };
	int rc;

	if (p.fd < 0) {
		const struct sgpu_bench_point point = { .parameters = { { "what", "program", 0 } } };

		sgpu_bench_waive(bench, &point, NULL, "cannot make a file in '%s': %s", folder, strerror(errno));
		return SGPU_OK;
	}
	snprintf(p.path, sizeof(p.path), "/proc/self/fd/%d", p.fd);
	rc = sgpu_measure_file("/proc/self/exe", p.expected, NULL, error);
	rc = rc == SGPU_OK ? copy(&p, folder, error) : rc;
	rc = rc == SGPU_OK ? measure(bench, &p, error) : rc;
	close(p.fd);
	return rc;
}
