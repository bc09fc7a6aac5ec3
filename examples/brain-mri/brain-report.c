/* SPDX-License-Identifier: Apache-2.0
 *
 * brain-report SCAN.nii MASK.u8 REFERENCE.nii [PICTURE.png]: the Dice coefficient of a mask against
 * the voxels of a reference that are not zero, and a picture of three slices of the scan (from
 * above, from the front, from the side) through the middle of the mask, the mask laid over in red
 * and the border of the reference in green.
 *
 * Reads NIfTI-1 files that hold u8 voxels, little-endian and not compressed.
 */
#include <errno.h>
#include <inttypes.h>
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	HEADER_SIZE = 348,
	DIM = 40,	  /* int16_t: number of dimensions, then their lengths, x first */
	DATATYPE = 70,	  /* int16_t: 2 is u8 */
	VOX_OFFSET = 108, /* float: where the voxels begin */
	LENGTH_MAX = 1024,
	ZOOM = 2, /* picture elements a voxel */
	GAP = 4,
};

struct volume {
	int length[3];	 /* x, y, z */
	uint8_t *voxels; /* x varies fastest */
};

/* A slice: which axis of the volume goes to the right, which goes up, and where it cuts the third.
 */
struct slice {
	int right, up, cut, at;
};

static int fail(const char *path, const char *what)
{
	fprintf(stderr, "brain-report: error: '%s': %s\n", path, what);
	return -1;
}

static size_t count(const struct volume *v)
{
	return (size_t)v->length[0] * (size_t)v->length[1] * (size_t)v->length[2];
}

static int read_header(FILE *file, const char *path, struct volume *v)
{
	uint8_t header[HEADER_SIZE];
	int16_t dim[4], datatype;
	float offset;

	if (fread(header, 1, sizeof(header), file) != sizeof(header) ||
	    memcmp(header + 344, "n+1", 4) != 0) {
		return fail(path, "not a NIfTI-1 file");
	}
	memcpy(dim, header + DIM, sizeof(dim));
	memcpy(&datatype, header + DATATYPE, sizeof(datatype));
	memcpy(&offset, header + VOX_OFFSET, sizeof(offset));
	for (int i = 0; i < 3; i++) {
		v->length[i] = dim[i + 1];
		if (v->length[i] < 1 || v->length[i] > LENGTH_MAX) {
			return fail(path, "a dimension is out of range");
		}
	}
	if (dim[0] < 3 || datatype != 2 || !(offset >= 352 && offset < 65536)) {
		return fail(path, "not a volume of bytes");
	}
	return fseek(file, (long)offset, SEEK_SET) ? fail(path, strerror(errno)) : 0;
}

/* With `header`, its shape is read into v; without, the file holds v's shape and nothing else. */
static int read_volume(const char *path, int header, struct volume *v)
{
	FILE *file = fopen(path, "rb");
	int result = -1;

	if (!file) {
		return fail(path, strerror(errno));
	}
	if (!header || read_header(file, path, v) == 0) {
		v->voxels = malloc(count(v));
		if (!v->voxels) {
			fail(path, "out of memory");
		} else if (fread(v->voxels, 1, count(v), file) != count(v)) {
			fail(path, "too short");
		} else {
			result = 0;
		}
	}
	fclose(file);
	return result;
}

static int voxel(const struct volume *v, const int at[3])
{
	size_t row = (size_t)at[2] * (size_t)v->length[1] + (size_t)at[1];

	return v->voxels[row * (size_t)v->length[0] + (size_t)at[0]];
}

static void print_dice(const struct volume *mask, const struct volume *reference)
{
	uint64_t in_mask = 0, in_reference = 0, in_both = 0, total;

	for (size_t i = 0; i < count(mask); i++) {
		in_mask += mask->voxels[i] != 0;
		in_reference += reference->voxels[i] != 0;
		in_both += mask->voxels[i] != 0 && reference->voxels[i] != 0;
	}
	total = in_mask + in_reference;
	printf("mask: %" PRIu64 " voxels, reference: %" PRIu64 ", both: %" PRIu64 "\n", in_mask,
	       in_reference, in_both);
	printf("Dice coefficient: %.4f\n", total ? 2.0 * (double)in_both / (double)total : 1.0);
}

/* The middle of the mask along each axis, or of the volume when it is empty. */
static void middle(const struct volume *mask, int at[3])
{
	double sum[3] = { 0 }, inside = 0;
	size_t i = 0;

	for (int z = 0; z < mask->length[2]; z++) {
		for (int y = 0; y < mask->length[1]; y++) {
			for (int x = 0; x < mask->length[0]; x++) {
				double in = mask->voxels[i++] != 0;

				sum[0] += in * x;
				sum[1] += in * y;
				sum[2] += in * z;
				inside += in;
			}
		}
	}
	for (int axis = 0; axis < 3; axis++) {
		at[axis] = inside > 0 ? (int)(sum[axis] / inside) : mask->length[axis] / 2;
	}
	at[0] -= at[0] / 5; /* the very middle is the cleft between the halves of the brain */
}

/* Whether a voxel is inside while one of its four neighbours in the slice is not. */
static int is_border(const struct volume *v, const struct slice *s, const int at[3])
{
	const int axes[2] = { s->right, s->up };

	if (!voxel(v, at)) {
		return 0;
	}
	for (int i = 0; i < 4; i++) {
		int next[3] = { at[0], at[1], at[2] };

		next[axes[i / 2]] += i % 2 ? 1 : -1;
		if (next[axes[i / 2]] < 0 || next[axes[i / 2]] >= v->length[axes[i / 2]] ||
		    !voxel(v, next)) {
			return 1;
		}
	}
	return 0;
}

static void colour(const struct volume *scan, const struct volume *mask,
		   const struct volume *reference, const struct slice *s, const int at[3],
		   uint8_t rgb[3])
{
	int grey = voxel(scan, at);

	rgb[0] = rgb[1] = rgb[2] = (uint8_t)grey;
	if (voxel(mask, at)) {
		rgb[0] = (uint8_t)(grey + (255 - grey) * 2 / 5);
		rgb[1] = rgb[2] = (uint8_t)(grey * 3 / 5);
	}
	if (is_border(reference, s, at)) {
		rgb[0] = rgb[2] = 40;
		rgb[1] = 220;
	}
}

/* Draws a slice with its left edge at column `left` of an image of `width` columns; the bottom is
 * the image's. */
static void draw(uint8_t *image, int width, int height, int left, const struct slice *s,
		 const struct volume *scan, const struct volume *mask,
		 const struct volume *reference)
{
	for (int v = 0; v < scan->length[s->up] * ZOOM; v++) {
		for (int h = 0; h < scan->length[s->right] * ZOOM; h++) {
			size_t place =
				(size_t)(height - 1 - v) * (size_t)width + (size_t)(left + h);
			int at[3];

			at[s->right] = h / ZOOM;
			at[s->up] = v / ZOOM;
			at[s->cut] = s->at;
			colour(scan, mask, reference, s, at, image + 3 * place);
		}
	}
}

static int write_picture(const char *path, const struct volume *scan, const struct volume *mask,
			 const struct volume *reference)
{
	struct slice slices[3] = { { 0, 1, 2, 0 },
				   { 0, 2, 1, 0 },
				   { 1, 2, 0, 0 } }; /* axial, coronal, sagittal */
	png_image png = { .version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB };
	int at[3], width = 2 * GAP, height = 0, left = 0;
	uint8_t *image;

	middle(mask, at);
	for (int i = 0; i < 3; i++) {
		int rows = scan->length[slices[i].up] * ZOOM;

		slices[i].at = at[slices[i].cut];
		width += scan->length[slices[i].right] * ZOOM;
		height = rows > height ? rows : height;
	}
	image = calloc((size_t)width * (size_t)height, 3);
	if (!image) {
		return fail(path, "out of memory");
	}
	for (int i = 0; i < 3; i++) {
		draw(image, width, height, left, &slices[i], scan, mask, reference);
		left += scan->length[slices[i].right] * ZOOM + GAP;
	}
	png.width = (png_uint_32)width;
	png.height = (png_uint_32)height;
	if (!png_image_write_to_file(&png, path, 0, image, 0, NULL)) {
		fail(path, png.message);
	} else {
		printf("picture: %s\n", path);
	}
	free(image);
	return png.warning_or_error & PNG_IMAGE_ERROR ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct volume scan = { { 0 }, NULL }, mask = { { 0 }, NULL }, reference = { { 0 }, NULL };
	int status = 3;

	if (argc != 4 && argc != 5) {
		fprintf(stderr,
			"usage: brain-report SCAN.nii MASK.u8 REFERENCE.nii [PICTURE.png]\n");
		return 2;
	}
	if (read_volume(argv[1], 1, &scan) == 0 && read_volume(argv[3], 1, &reference) == 0) {
		memcpy(mask.length, scan.length, sizeof(mask.length));
		if (memcmp(scan.length, reference.length, sizeof(scan.length)) != 0) {
			fail(argv[3], "not the shape of the scan");
		} else if (read_volume(argv[2], 0, &mask) == 0) {
			print_dice(&mask, &reference);
			status = argc == 5 && write_picture(argv[4], &scan, &mask, &reference) ? 3
											       : 0;
		}
	}
	free(scan.voxels);
	free(mask.voxels);
	free(reference.voxels);
	return status;
}
