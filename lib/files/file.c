/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a file, whatever its format, and reads its elements. IDX, which is little more than its
 * extents, is read here.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "files/internal.h"
#include "host/host.h"
#include "manifest/manifest.h"

const char *const sgpu_file_format_names[SGPU_FILE_FORMATS + 1] = { "raw", "nifti", "npy",
								    "npz", "idx",   NULL };

int sgpu_file_refuse(const struct sgpu_file *file, const char *format, ...)
{
	char text[SGPU_ERROR_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return sgpu_fail(file->error, SGPU_EINVALID, "'%s' %s", file->name, text);
}

int sgpu_file_set_shape(struct sgpu_file *file, const uint64_t *extents, int rank)
{
	const int all = rank;

	while (rank > SGPU_RANK_MAX && extents[rank - 1] == 1) {
		rank--;
	}
	if (rank > SGPU_RANK_MAX) {
		return sgpu_file_refuse(file, "has %d dimensions, at most %d are possible", all,
					(int)SGPU_RANK_MAX);
	}
	file->info.type.rank = rank;
	memcpy(file->info.type.shape, extents, (size_t)rank * sizeof(*extents));
	return SGPU_OK;
}

void sgpu_file_payload_type(const struct sgpu_file_info *info, struct sgpu_type *type)
{
	const int rank = info->type.rank;

	*type = info->type;
	for (int i = 0; info->first_fastest && i < rank; i++) {
		type->shape[i] = info->type.shape[rank - 1 - i];
	}
}

/* ---- IDX, as MNIST has it: 0, 0, type, rank, then extents, all big-endian ---- */
enum { IDX_RANK_MAX = 7, GZIP_MAGIC = 0x088b1f };
static const uint8_t idx_types[] = {
	[0x08] = SGPU_U8,  [0x09] = SGPU_I8,  [0x0b] = SGPU_I16,
	[0x0c] = SGPU_I32, [0x0d] = SGPU_F32, [0x0e] = SGPU_F64,
};

static bool is_idx(const struct sgpu_file *file)
{
	const uint8_t *first = file->first;

	return file->first_size >= 8 && !first[0] && !first[1] && first[2] < sizeof(idx_types) &&
	       idx_types[first[2]] != SGPU_NONE && first[3] >= 1 && first[3] <= IDX_RANK_MAX;
}

static int read_idx(struct sgpu_file *file)
{
	uint64_t extents[IDX_RANK_MAX];
	const int rank = file->first[3];

	for (int i = 0; i < rank; i++) {
		extents[i] = __builtin_bswap32((uint32_t)files_get(file->first + 4 + 4 * i, 4));
	}
	file->info.format = SGPU_FILE_IDX;
	file->info.type.dtype = idx_types[file->first[2]];
	file->swapped = true;
	file->skip = 4 + 4 * (uint64_t)rank;
	return sgpu_file_set_shape(file, extents, rank);
}

/* ---- opening ---- */
/* *size: of the descriptor's file, which must be regular. */
static int look(struct sgpu_file *file, int fd, uint64_t *size)
{
	struct stat status;

	if (fstat(fd, &status)) {
		return sgpu_fail_errno(file->error, "cannot look at '%s'", file->name);
	}
	if (!S_ISREG(status.st_mode)) {
		return sgpu_file_refuse(file, "is %s, not a regular file",
					S_ISDIR(status.st_mode) ? "a directory"
								: "a device or pipe");
	}
	*size = (uint64_t)status.st_size;
	return SGPU_OK;
}

/* Begins with a descriptor. */
static int begin(struct sgpu_file *file, int fd, uint64_t *size)
{
	int rc = look(file, fd, size);

	rc = rc ? rc : sgpu_file_first(file, fd, FILES_PLAIN, 0, *size);
	file->info.gzip = !rc && file->first_size > 2 && files_get(file->first, 3) == GZIP_MAGIC;
	return file->info.gzip ? sgpu_file_first(file, fd, FILES_GZIP, 0, *size) : rc;
}

/* Begins with the file of a pair that has the header. *elements: the other one. */
static int begin_pair(struct sgpu_file *file, int fd, int other, int *elements, uint64_t *size)
{
	int rc = begin(file, fd, size);

	*elements = other;
	if (rc || other < 0 || sgpu_file_is_nifti(file)) {
		return rc;
	}
	*elements = fd;
	rc = begin(file, other, size);
	return rc || sgpu_file_is_nifti(file) ? rc : begin(file, fd, size);
}

static int enter_nifti(struct sgpu_file *file, int elements, uint64_t *size)
{
	uint8_t first[sizeof(file->first)];
	int rc = sgpu_file_read_nifti(file);

	if (rc || !file->pair) {
		return rc;
	}
	if (elements < 0) {
		sgpu_file_refuse(file, "is one of a pair of files, and the other is missing");
		return sgpu_hint(file->error, "x.img or x.img.gz lies beside x.hdr");
	}
	memcpy(first, file->first, sizeof(first));
	rc = begin(file, elements, size);
	memcpy(file->first, first, sizeof(first));
	return rc;
}

static int recognise(struct sgpu_file *file, int fd, int other, const char *member, uint64_t *size)
{
	int elements, rc = begin_pair(file, fd, other, &elements, size);

	if (rc) {
		return rc;
	}
	if (sgpu_file_is_nifti(file)) {
		return enter_nifti(file, elements, size);
	}
	if (sgpu_file_is_zip(file) && !file->info.gzip) {
		rc = sgpu_file_enter_zip(file, *size, member);
		rc = rc ? rc : sgpu_file_read_npy(file);
		file->info.format = SGPU_FILE_NPZ;
		return rc;
	}
	if (sgpu_file_is_npy(file)) {
		return sgpu_file_read_npy(file);
	}
	if (is_idx(file)) {
		return read_idx(file);
	}
	(void)sgpu_fail_sniffed(file->error, fd, file->name, file->first,
				sgpu_min_u64(file->first_size, SGPU_SNIFF_SIZE),
				"an array (NIfTI, .npy, .npz or IDX)");
	return sgpu_hint(file->error, "raw data need a type and a shape: FILE:f32:181,217,181");
}

static int take_raw(struct sgpu_file *file, int fd, const struct sgpu_file_request *request,
		    uint64_t *size)
{
	const int rc = look(file, fd, size);

	file->info.type = request->raw_type;
	file->skip = request->raw_offset;
	file->window = request->window;
	return rc ? rc : sgpu_file_range(file, fd, FILES_PLAIN, 0, *size);
}

enum { BEFORE_MAX = 1 << 20 }; /* bytes before the elements that are never too many */

/* Compares what the header promises with limits, and with the file where its length says more than
 * its end. size: of the file with the elements. */
static int check_size(struct sgpu_file *file, uint64_t size, uint64_t most)
{
	const bool raw = file->info.format == SGPU_FILE_RAW;
	uint64_t end;

	most = most ? most : sgpu_host_memory_installed() / 2;
	if (!sgpu_type_bytes(&file->info.type, &file->bytes) ||
	    !sgpu_add_u64(file->skip, file->bytes, &end)) {
		return sgpu_file_refuse(file, "is damaged: its header promises too many bytes");
	}
	/* What lies before the elements, headers and their extensions, is unpacked, too. */
	if (file->coding != FILES_PLAIN &&
	    (file->bytes > most || (file->skip > BEFORE_MAX && file->skip > most))) {
		return sgpu_fail(file->error, SGPU_EPOLICY,
				 "'%s' unpacks to %" PRIu64 " bytes, at most %" PRIu64
				 " are allowed",
				 file->name, end, most);
	}
	size = file->info.format == SGPU_FILE_NPZ ? file->member_size : size;
	if (file->info.gzip || size == end || (file->window && size > end)) {
		return SGPU_OK;
	}
	return sgpu_file_refuse(file, "has %" PRIu64 " bytes, %s than the %" PRIu64 " that its %s",
				size, size < end ? "less" : "more", end,
				raw ? "type needs" : "header promises");
}

int sgpu_file_open(int fd, int other, const struct sgpu_file_request *request,
		   struct sgpu_file **result, struct sgpu_error *error)
{
	struct sgpu_file *file = *result = calloc(1, sizeof(*file));
	uint64_t size = 0;
	int rc;

	if (!file || !(file->name = strdup(request->name))) {
		sgpu_file_close(result);
		return sgpu_fail_nomem(error);
	}
	file->error = error;
	rc = request->raw ? take_raw(file, fd, request, &size)
			  : recognise(file, fd, other, request->member, &size);
	rc = rc ? rc : check_size(file, size, request->size_max);
	file->info.offset = file->skip;
	file->info.plain = file->fd == fd && file->coding == FILES_PLAIN && !file->summed &&
			   (!file->swapped || sgpu_dtype_size(file->info.type.dtype) == 1);
	rc = rc ? rc : sgpu_file_seek(file, file->skip);
	if (!rc && !file->bytes) { /* then nothing is read, but the end is looked at */
		rc = sgpu_file_read(file, file->input, 0, error);
	}
	if (rc) {
		sgpu_file_close(result);
	}
	return rc;
}

const struct sgpu_file_info *sgpu_file_info(const struct sgpu_file *file)
{
	return &file->info;
}

const void *sgpu_file_header(const struct sgpu_file *file, size_t *size)
{
	*size = file->header_size;
	return file->header_size ? file->first : NULL;
}

void sgpu_file_close(struct sgpu_file **file)
{
	if (*file) {
		(void)inflateEnd(&(*file)->inflate);
		free((*file)->name);
	}
	sgpu_free_wiped(file, sizeof(**file));
}

int sgpu_file_open_other(const char *path, int *fd, struct sgpu_error *error)
{
	const char *dot = strrchr(path, '.');
	const bool packed = dot && dot - path > 4 && strcmp(dot, ".gz") == 0;
	char *other = NULL;

	*fd = -1;
	dot = packed ? dot - 4 : dot;
	if (!dot || (strncmp(dot, ".hdr", 4) && strncmp(dot, ".img", 4)) ||
	    dot[4] != (packed ? '.' : '\0')) {
		return SGPU_OK;
	}
	if (asprintf(&other, "%.*s%s.gz", (int)(dot - path), path,
		     dot[1] == 'h' ? ".img" : ".hdr") < 0) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; *fd < 0 && i < 2; i++) {
		/* Compressed as this one is, or else not. */
		other[dot - path + 4] = packed == !i ? '.' : '\0';
		*fd = open(other, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	const int rc = *fd >= 0 || errno == ENOENT
			       ? SGPU_OK
			       : sgpu_fail_errno(error, "cannot open '%s'", other);
	free(other);
	return rc;
}

/* ---- reading ---- */
static inline void swap_all(uint8_t *data, size_t size, const size_t width)
{
	for (const uint8_t *end = data + size; data < end; data += width) {
		uint64_t value = 0;

		memcpy(&value, data, width);
		value = __builtin_bswap64(value) >> (64 - 8 * width);
		memcpy(data, &value, width);
	}
}

/* The compiler makes a loop for each width. */
static void swap(uint8_t *data, size_t size, size_t width)
{
	if (width == 2) {
		swap_all(data, size, 2);
	} else if (width == 4) {
		swap_all(data, size, 4);
	} else if (width == 8) {
		swap_all(data, size, 8);
	}
}

static int check_end(struct sgpu_file *file)
{
	uint8_t byte;
	size_t got = 0;
	int rc = file->window ? SGPU_OK : sgpu_file_get(file, &byte, 1, &got);

	if (!rc && got) {
		rc = sgpu_file_refuse(file, "is damaged: it goes on after the last element");
	}
	return rc || !file->summed || file->sum == file->member_sum
		       ? rc
		       : sgpu_file_refuse(file, "is damaged: its CRC-32 is another");
}

int sgpu_file_read(struct sgpu_file *file, void *to, size_t size, struct sgpu_error *error)
{
	const size_t width = sgpu_dtype_size(file->info.type.dtype);
	size_t got = 0;
	int rc;

	file->error = error;
	if (size > file->bytes - file->done || size % width) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s': these are no %zu bytes of elements",
				 file->name, size);
	}
	rc = sgpu_file_get(file, to, size, &got);
	file->done += got;
	if (!rc && got < size) {
		rc = sgpu_file_refuse(file, "is cut short: it has %" PRIu64 " of %" PRIu64 " bytes",
				      file->done, file->bytes);
	}
	if (!rc && file->swapped) {
		swap(to, size, width);
	}
	return rc || file->done < file->bytes ? rc : check_end(file);
}

static bool is_exact(const uint8_t *at, bool is_signed)
{
	const uint64_t value = files_get(at, 8), sign = 0 - (value >> 63),
		       magnitude = is_signed ? (value ^ sign) - sign : value;

	/* f64 has 53 bits: more are exact if the lowest ones are zero. */
	return magnitude >> 53 == 0 ||
	       64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude) <= 53;
}

int sgpu_file_fits_f64(struct sgpu_file *file, bool *fits, struct sgpu_error *error)
{
	const enum sgpu_dtype dtype = file->info.type.dtype;
	uint8_t piece[1 << 13];
	int rc = SGPU_OK;

	*fits = true;
	if (dtype != SGPU_I64 && dtype != SGPU_U64) {
		return SGPU_OK;
	}
	while (!rc && file->done < file->bytes) {
		const size_t size = sgpu_min_u64(file->bytes - file->done, sizeof(piece));

		rc = sgpu_file_read(file, piece, size, error);
		for (size_t i = 0; !rc && i < size; i += 8) {
			*fits &= is_exact(piece + i, dtype == SGPU_I64);
		}
	}
	sgpu_wipe(piece, sizeof(piece));
	file->done = 0;
	return rc ? rc : sgpu_file_seek(file, file->skip);
}
