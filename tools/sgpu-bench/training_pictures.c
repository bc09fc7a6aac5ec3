/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures to train on: those of Fashion-MNIST (Xiao, Rasul, Vollgraf, 2017) from the files of
 * Debian's package dataset-fashion-mnist, which gzip unpacks, or made ones of as many classes.
 */
#include <stdio.h>
#include <string.h>

#include "../../examples/fashion-train/network.h"
#include "cases.h"

/* The shell, and not a string made here, puts the folder into the command: no name of it can be
 * more than a name. */
#define UNPACK(file)                                                                         \
	"exec gzip -dcq -- \"${SGPU_FASHION_MNIST:-/usr/share/datasets/fashion-mnist}/" file \
	"\" 2>/dev/null"

/* The first `size` bytes of items behind a header, which tells what they are. */
static bool read_items(const char *command, const char *header, size_t header_size, uint8_t *items,
		       size_t size)
{
	uint8_t head[16];
	FILE *from = popen(command, "re");
	/* Bytes 4 to 7 are the number of items: if there are too few, the file ends too soon. */
	bool right = from && fread(head, header_size, 1, from) == 1 &&
		     memcmp(head, header, 4) == 0 &&
		     memcmp(head + 8, header + 8, header_size - 8) == 0 &&
		     fread(items, size, 1, from) == 1;

	if (from) {
		pclose(from); /* gzip ends, as the pipe does */
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
	bool found =
		read_items(UNPACK("train-images-idx3-ubyte.gz"), "\0\0\10\3----\0\0\0\34\0\0\0\34",
			   16, images, count * NETWORK_PIXELS) &&
		read_items(UNPACK("train-labels-idx1-ubyte.gz"), "\0\0\10\1----", 8, labels, count);

	for (size_t i = 0; found && i < count; i++) {
		found = labels[i] < NETWORK_CLASSES;
	}
	for (size_t i = 0; !found && i < count; i++) {
		labels[i] = (uint8_t)(i % NETWORK_CLASSES);
		bench_draw(images + i * NETWORK_PIXELS, labels[i], i);
	}
	return found;
}
