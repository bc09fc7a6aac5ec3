/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers of NIfTI-1 and NIfTI-2, read and written by one table of their fields.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "files/internal.h"
#include "manifest/manifest.h"

enum field {
	SIZE,
	DIM,
	INTENT_P,
	INTENT,
	DATATYPE, /* and bitpix */
	SLICE_START,
	PIXDIM,
	VOX_OFFSET,
	SCALING, /* slope and intercept */
	SLICE_END,
	CODES,	 /* slice_code and xyzt_units */
	CAL,	 /* cal_max, cal_min, slice_duration, toffset */
	DESCRIP, /* and aux_file */
	FORMS,	 /* qform_code, sform_code */
	AFFINE,	 /* quaternion, offset, srow */
	INTENT_NAME,
	DIM_INFO,
	FIELDS
};
/* Where a field is in version 1 and 2, and the width of one of its `count` numbers. Neighbours in
 * both versions are one field; those of NIfTI-1 that nobody reads are left out and stay as they
 * are. */
static const struct {
	uint16_t at[2];
	uint8_t width[2], count;
	bool real[2];
} fields[FIELDS] = {
	[SIZE] = { { 0, 0 }, { 4, 4 }, 1, { false } },
	[DIM] = { { 40, 16 }, { 2, 8 }, 8, { false } },
	[INTENT_P] = { { 56, 80 }, { 4, 8 }, 3, { true, true } },
	[INTENT] = { { 68, 504 }, { 2, 4 }, 1, { false } },
	[DATATYPE] = { { 70, 12 }, { 2, 2 }, 2, { false } },
	[SLICE_START] = { { 74, 224 }, { 2, 8 }, 1, { false } },
	[PIXDIM] = { { 76, 104 }, { 4, 8 }, 8, { true, true } },
	[VOX_OFFSET] = { { 108, 168 }, { 4, 8 }, 1, { true, false } },
	[SCALING] = { { 112, 176 }, { 4, 8 }, 2, { true, true } },
	[SLICE_END] = { { 120, 232 }, { 2, 8 }, 1, { false } },
	[CODES] = { { 122, 496 }, { 1, 4 }, 2, { false } },
	[CAL] = { { 124, 192 }, { 4, 8 }, 4, { true, true } },
	[DESCRIP] = { { 148, 240 }, { 1, 1 }, 104, { false } },
	[FORMS] = { { 252, 344 }, { 2, 4 }, 2, { false } },
	[AFFINE] = { { 256, 352 }, { 4, 8 }, 18, { true, true } },
	[INTENT_NAME] = { { 328, 508 }, { 1, 1 }, 16, { false } },
	[DIM_INFO] = { { 39, 524 }, { 1, 1 }, 1, { false } },
};
static const struct {
	uint16_t size, magic_at, magic_size;
	const char *single, *pair;
} versions[2] = {
	{ 348, 344, 4, "n+1", "ni1" },
	{ 540, 4, 8, "n+2\0\r\n\032\n", "ni2\0\r\n\032\n" },
};
/* Types of NIfTI by number; `why` those that are refused. */
static const struct type {
	int16_t number;
	uint8_t dtype;
	const char *why;
} types[] = {
	{ 2, SGPU_U8, NULL },
	{ 4, SGPU_I16, NULL },
	{ 8, SGPU_I32, NULL },
	{ 16, SGPU_F32, NULL },
	{ 64, SGPU_F64, NULL },
	{ 256, SGPU_I8, NULL },
	{ 512, SGPU_U16, NULL },
	{ 768, SGPU_U32, NULL },
	{ 1024, SGPU_I64, NULL },
	{ 1280, SGPU_U64, NULL },
	{ 1, SGPU_NONE, "single bits" },
	{ 32, SGPU_NONE, "complex numbers" },
	{ 128, SGPU_NONE, "colours (RGB)" },
	{ 1536, SGPU_NONE, "floating-point numbers of 128 bits" },
	{ 1792, SGPU_NONE, "complex numbers" },
	{ 2048, SGPU_NONE, "complex numbers" },
	{ 2304, SGPU_NONE, "colours (RGBA)" },
	{ 0, SGPU_NONE, "of no type of NIfTI" },
};

/* ---- fields ---- */
static uint8_t *at(const uint8_t *header, int version, enum field field, int i)
{
	return (uint8_t *)(uintptr_t)header + fields[field].at[version] +
	       i * fields[field].width[version];
}

static double get(const uint8_t *header, int version, enum field field, int i)
{
	const int width = fields[field].width[version], shift = 64 - 8 * width;
	const uint64_t value = files_get(at(header, version, field, i), width);
	double real;
	float narrow;

	if (!fields[field].real[version]) {
		return (double)((int64_t)(value << shift) >> shift);
	}
	memcpy(&real, &value, sizeof(real));
	memcpy(&narrow, &value, sizeof(narrow)); /* little-endian: the lower half */
	return width == 8 ? real : (double)narrow;
}

static void put(uint8_t *header, int version, enum field field, int i, double value)
{
	const int width = fields[field].width[version];
	const float narrow = (float)value;
	uint64_t bits = 0;

	if (!fields[field].real[version]) {
		bits = fabs(value) < 0x1p62 ? (uint64_t)(int64_t)value : 0;
	} else if (width == 8) {
		memcpy(&bits, &value, sizeof(value));
	} else {
		memcpy(&bits, &narrow, sizeof(narrow));
	}
	files_put(at(header, version, field, i), width, bits);
}

static void swap_fields(uint8_t *header, int version)
{
	for (int field = 0; field < FIELDS; field++) {
		const int width = fields[field].width[version];

		for (int i = 0; i < fields[field].count; i++) {
			uint8_t *number = at(header, version, field, i);

			files_put(number, width,
				  __builtin_bswap64(files_get(number, width)) >> (64 - 8 * width));
		}
	}
}

/* ---- reading ---- */
/* Returns 0 or 1 for version 1 or 2 of a header of `size` bytes; -1: it is none. */
static int version_of(const uint8_t *header, size_t size)
{
	for (int version = 0; version < 2; version++) {
		const uint32_t wanted = versions[version].size;
		const uint32_t stated = (uint32_t)files_get(header, 4);

		if (size >= wanted && (stated == wanted || __builtin_bswap32(stated) == wanted)) {
			return version;
		}
	}
	return -1;
}

static bool has_magic(const uint8_t *header, int version, const char *magic)
{
	return memcmp(header + versions[version].magic_at, magic, versions[version].magic_size) ==
	       0;
}

bool sgpu_file_is_nifti(const struct sgpu_file *file)
{
	return version_of(file->first, file->first_size) >= 0;
}

static int take_type(struct sgpu_file *file, int version)
{
	const int number = (int)get(file->first, version, DATATYPE, 0);
	const double intent = get(file->first, version, INTENT, 0);
	const struct type *type = types;

	while (type->number && type->number != number) {
		type++;
	}
	if (type->why) {
		return sgpu_file_refuse(file,
					"has voxels that are %s (type %d); only plain numbers "
					"can be used",
					type->why, number);
	}
	if (intent >= 3000 && intent < 3100) {
		return sgpu_file_refuse(file,
					"is CIFTI, rows of a surface or of connections, and no "
					"volume of voxels");
	}
	file->info.type.dtype = type->dtype;
	return get(file->first, version, DATATYPE, 1) == 8 * (double)sgpu_dtype_size(type->dtype)
		       ? SGPU_OK
		       : sgpu_file_refuse(file, "is damaged: its header has two sizes of a voxel");
}

static int take_shape(struct sgpu_file *file, int version)
{
	const double rank = get(file->first, version, DIM, 0);
	uint64_t extents[7];
	bool good = rank >= 1 && rank <= 7;

	for (int i = 0; good && i < rank; i++) {
		const double extent = get(file->first, version, DIM, i + 1);

		good = extent >= 0;
		extents[i] = good ? (uint64_t)extent : 0;
	}
	if (!good) {
		return sgpu_file_refuse(file, "is damaged: its header has no extents");
	}
	if (sgpu_file_set_shape(file, extents, (int)rank)) {
		return sgpu_hint(file->error,
				 "there is no place for vectors or matrices of voxels");
	}
	file->info.first_fastest = file->info.type.rank > 1;
	return SGPU_OK;
}

/* A slope of 0 means that there is no scaling, whatever the intercept. */
static int take_scaling(struct sgpu_file *file, int version)
{
	struct sgpu_file_info *info = &file->info;
	const double slope = get(file->first, version, SCALING, 0),
		     inter = get(file->first, version, SCALING, 1);
	char text[SGPU_TYPE_TEXT_MAX];
	struct sgpu_type type;

	info->scaled = slope != 0.0 && (slope != 1.0 || inter != 0.0);
	info->slope = info->scaled ? slope : 1;
	info->inter = info->scaled ? inter : 0;
	if (isfinite(info->slope) && isfinite(info->inter)) {
		return SGPU_OK;
	}
	sgpu_file_payload_type(info, &type);
	sgpu_type_text(&type, text); /* u8[3,4] is written u8:3,4 here */
	text[strcspn(text, "]")] = '\0';
	text[strcspn(text, "[")] = ':';
	sgpu_file_refuse(file, "has the scaling %g * value + %g, which is no number", slope, inter);
	return sgpu_hint(file->error, "'%s:%s:%" PRIu64 "' takes the stored values without it%s",
			 file->name, text, file->skip, info->gzip ? ", of the unpacked file" : "");
}

/* Sizes of voxels, in a unit of length that the header names; without one they are taken as
 * millimetres, as programs do. */
static void take_voxel(struct sgpu_file *file, int version)
{
	static const double millimetres[8] = { 1, 1000, 1, 0.001, 0, 0, 0, 0 };
	const double unit = millimetres[(int)get(file->first, version, CODES, 1) & 7];

	for (int i = 0; i < 3; i++) {
		const double size = fabs(get(file->first, version, PIXDIM, i + 1)) * unit;

		file->info.voxel[i] = isfinite(size) ? size : 0;
	}
}

static int take_start(struct sgpu_file *file, int version)
{
	const double start = get(file->first, version, VOX_OFFSET, 0),
		     least = file->pair ? 0 : versions[version].size,
		     most = version ? 0x1p53 : 0x1p24; /* whole numbers are exact below */

	if (!(start >= least && start < most) || start != (double)(uint64_t)start) {
		return sgpu_file_refuse(file, "is damaged: its voxels begin nowhere");
	}
	file->skip = (uint64_t)start;
	return SGPU_OK;
}

int sgpu_file_read_nifti(struct sgpu_file *file)
{
	const int version = version_of(file->first, file->first_size);
	int rc;

	file->pair = has_magic(file->first, version, versions[version].pair);
	if (!file->pair && !has_magic(file->first, version, versions[version].single)) {
		if (version) {
			return sgpu_file_refuse(file,
						"is damaged: NIfTI-2 without its magic number");
		}
		sgpu_file_refuse(file,
				 "is in the format ANALYZE 7.5, which does not say which side "
				 "of the body is left");
		return sgpu_hint(file->error, "convert it to NIfTI where its origin is known");
	}
	file->swapped = files_get(file->first, 4) != versions[version].size;
	if (file->swapped) {
		swap_fields(file->first, version);
	}
	file->info.format = SGPU_FILE_NIFTI;
	file->header_size = versions[version].size;
	take_voxel(file, version);
	rc = take_type(file, version);
	rc = rc ? rc : take_shape(file, version);
	rc = rc ? rc : take_start(file, version);
	return rc ? rc : take_scaling(file, version);
}

/* ---- writing ---- */
/* The header of a file of which nothing is known, as nibabel makes it for the affine 1. */
static void make_plain(uint8_t *header)
{
	put(header, 0, SIZE, 0, versions[0].size);
	header[38] = 'r';
	for (int i = 0; i < 8; i++) {
		put(header, 0, PIXDIM, i, 1);
	}
	put(header, 0, FORMS, 1, 2);
	for (int i = 0; i < 3; i++) {
		put(header, 0, AFFINE, 6 + 5 * i, 1); /* srow */
	}
}

/* Sets the extents, unless those that are there differ only by trailing ones of 1. */
static void set_shape(uint8_t *header, int version, const struct sgpu_type *type)
{
	const double before = get(header, version, DIM, 0);
	bool same = before >= 1 && before <= 7;

	for (int i = 0; same && i < 7; i++) {
		const double extent = i < before ? get(header, version, DIM, i + 1) : 1;

		same = extent == (i < type->rank ? (double)type->shape[i] : 1);
	}
	for (int i = 0; !same && i < 8; i++) {
		put(header, version, DIM, i,
		    i == 0	      ? (type->rank ? type->rank : 1)
		    : i <= type->rank ? (double)type->shape[i - 1]
				      : 1);
	}
}

/* Sets what the new data say: type, extents, no scaling, no meaning of the old values. */
static void set_content(uint8_t *header, int version, int number, const struct sgpu_type *type)
{
	const int size = versions[version].size;

	put(header, version, SIZE, 0, size);
	memcpy(header + versions[version].magic_at, versions[version].single,
	       versions[version].magic_size);
	put(header, version, DATATYPE, 0, number);
	put(header, version, DATATYPE, 1, 8 * (double)sgpu_dtype_size(type->dtype));
	put(header, version, VOX_OFFSET, 0, size + 4);
	put(header, version, SCALING, 0, 1);
	put(header, version, SCALING, 1, 0);
	put(header, version, INTENT, 0, 0);
	memset(at(header, version, INTENT_P, 0), 0, 3u * fields[INTENT_P].width[version]);
	memset(at(header, version, INTENT_NAME, 0), 0, fields[INTENT_NAME].count);
	set_shape(header, version, type);
}

int sgpu_file_nifti_head(const char *name, const struct sgpu_file_style *style,
			 const struct sgpu_type *type, uint8_t head[FILES_HEAD_MAX], size_t *size,
			 struct sgpu_error *error)
{
	uint8_t plain[348] = { 0 };
	const uint8_t *like = style->header ? style->header : plain;
	const int from = style->header ? version_of(like, style->header_size) : 0;
	int version = from, i = 0;

	make_plain(plain);
	while (types[i].dtype != type->dtype && !types[i].why) {
		i++;
	}
	if (types[i].why) {
		sgpu_fail(error, SGPU_EINVALID, "'%s': NIfTI has no type %s", name,
			  sgpu_dtype_name(type->dtype));
		return sgpu_hint(error, "a .npy file has, or cast to f32 first");
	}
	if (from < 0 || files_get(like, 4) != versions[from].size) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s': the header to keep is no NIfTI header", name);
	}
	for (int k = 0; k < type->rank; k++) {
		version = type->shape[k] > INT16_MAX ? 1 : version;
	}
	memset(head, 0, FILES_HEAD_MAX);
	if (version == from) {
		memcpy(head, like, versions[from].size);
	}
	for (int field = 0; version != from && field < FIELDS; field++) {
		for (int k = 0; k < fields[field].count; k++) {
			put(head, version, field, k, get(like, from, field, k));
		}
	}
	set_content(head, version, types[i].number, type);
	*size = versions[version].size + 4; /* four zeros: no extensions */
	return SGPU_OK;
}
