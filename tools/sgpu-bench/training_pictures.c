/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures to train on: those of Fashion-MNIST (Xiao, Rasul, Vollgraf, 2017) from the files of Debian's package
 * dataset-fashion-mnist, which gzip unpacks, or made ones of as many classes.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../examples/fashion-train/network.h"
#include "cases.h"

extern char **environ;

/* Starts gzip for a file of the data set: the end of a pipe, or -1. */
static int unpack(const char *file, pid_t *child)
{
	const char *folder = getenv("SGPU_FASHION_MNIST"), *gzip = "gzip";
	char path[4096];
	const char *const arguments[] = { gzip, "-dcq", "--", path, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], rc;

	snprintf(path, sizeof(path), "%s/%s", folder && *folder ? folder : "/usr/share/datasets/fashion-mnist", file);
	if (access(path, R_OK) != 0 || pipe2(ends, O_CLOEXEC) != 0) {
		return -1;
	}
	rc = posix_spawn_file_actions_init(&actions);
	if (rc == 0) {
		rc = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
		rc = rc ? rc : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
		rc = rc ? rc : posix_spawnp(child, gzip, &actions, NULL, (char *const *)(uintptr_t)arguments, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[1]);
	if (rc != 0) {
		close(ends[0]);
		return -1;
	}
	return ends[0];
}

/* The first `size` bytes of items behind a header, which tells what they are. */
static bool read_items(const char *file, const char *header, size_t header_size, uint8_t *items, size_t size)
{
	uint8_t head[16];
	pid_t child;
	int fd = unpack(file, &child);
	FILE *from = fd < 0 ? NULL : fdopen(fd, "r");
	/* Bytes 4 to 7 are the number of items: if there are too few, the file ends too soon. */
	bool right = from && fread(head, header_size, 1, from) == 1 && memcmp(head, header, 4) == 0 &&
		     memcmp(head + 8, header + 8, header_size - 8) == 0 && fread(items, size, 1, from) == 1;

	if (from) {
		fclose(from); /* gzip ends, as the pipe does */
	} else if (fd >= 0) {
		close(fd);
	}
	if (fd >= 0) {
		waitpid(child, NULL, 0);
	}
	return right;
}

void bench_draw(uint8_t *picture, uint64_t class, uint64_t number)
{
	for (uint64_t i = 0; i < NETWORK_PIXELS; i++) {
		uint64_t shape = (class * NETWORK_PIXELS + i / 4 + 1) * 0x9e3779b97f4a7c15u;
		uint64_t noise = (number * NETWORK_PIXELS + i + 1) * 0xbf58476d1ce4e5b9u;

		picture[i] = (uint8_t)((shape >> 56) / 2 + (noise >> 57));
	}
}

bool bench_pictures(uint8_t *images, uint8_t *labels, size_t count)
{
	bool found = read_items("train-images-idx3-ubyte.gz", "\0\0\10\3----\0\0\0\34\0\0\0\34", 16, images,
				count * NETWORK_PIXELS) &&
		     read_items("train-labels-idx1-ubyte.gz", "\0\0\10\1----", 8, labels, count);

	for (size_t i = 0; found && i < count; i++) {
		found = labels[i] < NETWORK_CLASSES;
	}
	for (size_t i = 0; !found && i < count; i++) {
		labels[i] = (uint8_t)(i % NETWORK_CLASSES);
		bench_draw(images + i * NETWORK_PIXELS, labels[i], i);
	}
	return found;
}
