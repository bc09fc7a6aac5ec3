/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_of PID FILE...: for each file, which holds a marker, prints its name and how often the
 * marker stands in the memory of a process, in all mappings that can be read; then how much was
 * read, and how much could not be. For root.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MARKERS = 8, MARKER_MAX = 64 };
#define PIECE ((size_t)16 << 20)

static struct {
	const char *name;
	uint8_t bytes[MARKER_MAX];
	size_t size;
	uint64_t count;
} markers[MARKERS];
static int marker_count;
static uint64_t bytes_read, bytes_refused;
static uint8_t *piece;

static void search(size_t size)
{
	int i;

	for (i = 0; i < marker_count; i++) {
		const uint8_t *at = piece, *end = piece + size;
		while ((at = memmem(at, (size_t)(end - at), markers[i].bytes, markers[i].size)) !=
		       NULL) {
			markers[i].count++;
			at += markers[i].size;
		}
	}
}

/* Pieces overlap, so that a marker across their border is seen. */
static void search_mapping(int memory, uint64_t begin, uint64_t end)
{
	uint64_t at = begin, skip = 4096;

	while (at < end) {
		size_t want = end - at < PIECE ? (size_t)(end - at) : PIECE;
		ssize_t got = pread(memory, piece, want, (off_t)at);
		if (got <= 0) {
			/* Perhaps one page alone, perhaps all of a mapping that is terabytes large.
			 */
			bytes_refused += skip < end - at ? skip : end - at;
			at += skip;
			skip = skip < PIECE ? 2 * skip : skip;
			continue;
		}
		skip = 4096;
		search((size_t)got);
		bytes_read += (uint64_t)got;
		at += (uint64_t)got;
		if (at < end && got > MARKER_MAX) {
			at -= MARKER_MAX;
		}
	}
}

static int read_marker(const char *name)
{
	FILE *file = fopen(name, "rb");

	if (!file || marker_count == MARKERS) {
		return -1;
	}
	markers[marker_count].name = name;
	markers[marker_count].size = fread(markers[marker_count].bytes, 1, MARKER_MAX, file);
	fclose(file);
	return markers[marker_count++].size >= 16 ? 0 : -1;
}

int main(int argc, char **argv)
{
	char path[64], line[512], rights[8];
	uint64_t begin, end;
	FILE *maps;
	int i, memory;

	piece = malloc(PIECE);
	for (i = 2; i < argc; i++) {
		if (read_marker(argv[i])) {
			fprintf(stderr, "memory_of: no marker in '%s'\n", argv[i]);
			return 2;
		}
	}
	snprintf(path, sizeof(path), "/proc/%s/maps", argc > 2 ? argv[1] : "");
	maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%s/mem", argc > 2 ? argv[1] : "");
	memory = open(path, O_RDONLY | O_CLOEXEC);
	if (!piece || !maps || memory < 0) {
		fprintf(stderr, "memory_of: cannot read the memory of '%s'\n",
			argc > 2 ? argv[1] : "");
		return 2;
	}
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &begin, &end, rights) == 3 &&
		    rights[0] == 'r' && !strstr(line, "[vvar") && !strstr(line, "[vsyscall]")) {
			search_mapping(memory, begin, end);
		}
	}
	for (i = 0; i < marker_count; i++) {
		printf("%s %" PRIu64 "\n", markers[i].name, markers[i].count);
	}
	printf("read %" PRIu64 " MiB, refused %" PRIu64 " KiB\n", bytes_read >> 20,
	       bytes_refused >> 10);
	return 0;
}
