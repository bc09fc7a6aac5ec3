/* SPDX-License-Identifier: Apache-2.0
 *
 * The workload manifest, sgpu-manifest(5): parse, validate, canonical form, dependency graph.
 */
#ifndef SGPU_MANIFEST_H
#define SGPU_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_MANIFEST_VERSION = 1,
	SGPU_ID_MAX = 80, /* bytes of an id: [A-Za-z0-9_][A-Za-z0-9_.-]* */
	SGPU_RANK_MAX = 4,
	SGPU_ARGUMENTS_MAX = 8, /* arguments of one operation */
	SGPU_MANIFEST_SEGMENTS_MAX = 65536,
	SGPU_MANIFEST_OPERATIONS_MAX = 65536,
	SGPU_MANIFEST_SIZE_MAX = 64 << 20, /* bytes of text */
	SGPU_MANIFEST_EDGES_MAX = 1 << 22, /* edges of the graph, repeated ones counted */
	SGPU_MANIFEST_ID_MAX = 128,	   /* bytes of manifest_id: printable ASCII */
	SGPU_LOCATION_MAX = 4095,	   /* bytes of data_location_client */
	SGPU_DMA_VAR_MAX = 64,		   /* bytes of the name of a client variable */
	SGPU_DIAGNOSTICS_MAX = 100,	   /* recorded; one more says that others were dropped */
	SGPU_MODULE_FUNCTION_MAX =
		255, /* bytes of the name of a module's function: a C identifier */
	SGPU_MODULE_SIZE_MAX = 256 << 20, /* bytes of a module's image */
	SGPU_MODULE_PARAMS_MAX = 128, /* parameters of a module's function, 8 bytes each at most */
	SGPU_MODULE_BLOCK_MAX = 1024, /* threads of a block */
	SGPU_MODULE_BLOCK_Z_MAX = 64,
	SGPU_MODULE_GRID_X_MAX = 0x7fffffff, /* blocks */
	SGPU_MODULE_GRID_YZ_MAX = 65535,
	SGPU_MODULE_SHARED_MAX = 227 << 10, /* bytes of dynamic shared memory of a block */
};

/* ---- element types and shapes ---- */
enum sgpu_dtype {
	SGPU_NONE,
	SGPU_F32,
	SGPU_F64,
	SGPU_I32,
	SGPU_U8,
	SGPU_I16,
	SGPU_F16,
	SGPU_I8,
	SGPU_U16,
	SGPU_U32,
	SGPU_I64,
	SGPU_U64,
	SGPU_DTYPE_COUNT
};

/* dtype SGPU_NONE: unknown. Row-major; shape[0] varies slowest. rank 0: one element. */
struct sgpu_type {
	enum sgpu_dtype dtype;
	int rank;
	uint64_t shape[SGPU_RANK_MAX];
};

const char *sgpu_dtype_name(enum sgpu_dtype dtype); /* "f32" */
enum sgpu_dtype sgpu_dtype_parse(const char *name); /* SGPU_NONE if unknown */
/* Computes the size of the data; false unless it is below 2^53. */
bool sgpu_type_bytes(const struct sgpu_type *type, uint64_t *bytes);
/* Writes "f32[181,217,181]" into `text`, cut to fit. */
enum { SGPU_TYPE_TEXT_MAX = 112 };
void sgpu_type_text(const struct sgpu_type *type, char text[SGPU_TYPE_TEXT_MAX]);

/* ---- diagnostics ---- */
struct sgpu_diagnostic {
	int line, column; /* from 1; 0 if the text has no such place */
	char *pointer; /* JSON pointer, "" for the document; unescaped: the printer escapes control
			  characters */
	char *text;    /* "'IN' is not one of INPUT, OUTPUT, INPUT_OUTPUT, INTERMEDIATE" */
	char *hint;    /* "did you mean 'INPUT'?", or NULL */
};

struct sgpu_diagnostics {
	struct sgpu_diagnostic *list;
	size_t count;
	bool out_of_memory; /* some diagnostics could not be recorded */
};

/* Fills in missing lines and columns from the text, which must be JSON, and sorts the diagnostics
 * by them. */
void sgpu_diagnostics_locate(struct sgpu_diagnostics *diagnostics, const char *text, size_t size);
void sgpu_diagnostics_clear(struct sgpu_diagnostics *diagnostics);
/* Returns the nearest of the NULL-terminated names by edit distance, or NULL if none is near. */
const char *sgpu_nearest_name(const char *name, const char *const *names);

/* ---- the manifest ---- */
enum sgpu_sensitivity { SGPU_LOW, SGPU_HIGH };
enum sgpu_direction { SGPU_INPUT, SGPU_OUTPUT, SGPU_INPUT_OUTPUT, SGPU_INTERMEDIATE };

/* The client_dma_*_var members, sgpu-manifest(5). */
enum sgpu_dma_var {
	SGPU_DMA_INPUT_HOST,
	SGPU_DMA_INPUT_DEVICE,
	SGPU_DMA_OUTPUT_HOST,
	SGPU_DMA_OUTPUT_SIZE,
	SGPU_DMA_VARS
};

struct sgpu_segment {
	const char *id;
	const char *location; /* data_location_client, or NULL */
	enum sgpu_sensitivity sensitivity;
	enum sgpu_direction direction;
	int operation;	       /* index of gpu_operation_id, or -1 */
	struct sgpu_type type; /* stated, or inferred by sgpu_ops_check */
	bool type_given;       /* the document has a data_type_info */
	bool type_stated;      /* that data_type_info is valid */
	bool has_offset; /* data_type_info.offset was given: the payload is a window of the file */
	uint64_t offset; /* bytes into the file at data_location_client */
	bool at_most;	 /* only the run determines this output's size; `type` is the largest */
	bool size_of_file; /* a module without data_type_info: as large as its file; type is u8[0]
			      until that is known */
	struct {
		const char *format; /* of an input: "nifti", "npy", "npz", "idx"; of an output:
				       "nifti", "nifti.gz", "npy", "npz"; NULL: raw */
		const char *member; /* of an .npz, or NULL */
		int like;	    /* segment whose file's geometry an output keeps, or -1 */
		bool reversed;	    /* an output's file has the extents in reverse */
		bool boolean;	    /* an output's file has u8 as bool */
	} file;
	const char *dma_var[SGPU_DMA_VARS]; /* or NULL */
	int writer;			    /* index of the operation that writes it, or -1 */
	int *readers;			    /* indexes of the operations that read it */
	int reader_count;
	bool high_flow; /* HIGH data reach it (information flow) */
};

struct sgpu_argument {
	const char *name; /* an argument whose name starts with "output" is written, any other is
			     read */
	int segment;	  /* index, or -1 if the name is wrong */
	bool output;
};

/* A parameter of a module's function, as its code sees it. */
enum sgpu_module_param_kind {
	SGPU_MODULE_POINTER,  /* 8 bytes: the device address of the argument's data */
	SGPU_MODULE_ELEMENTS, /* u64: the number of elements of the argument */
	SGPU_MODULE_BYTES,    /* u64: the argument's size in bytes */
	SGPU_MODULE_VALUE,    /* a number that the manifest gives */
};
struct sgpu_module_param {
	enum sgpu_module_param_kind kind;
	int argument;	  /* index into args of the operation; VALUE: -1 */
	unsigned size;	  /* bytes: 4 or 8 */
	uint8_t value[8]; /* VALUE: the number's bytes, in the machine's byte order */
};

/* A kernel that is a function of a module: "module:SEGMENT:FUNCTION". */
struct sgpu_module_call {
	const char *function;	    /* borrowed from the document */
	int segment;		    /* index of the INPUT with the image, or -1 if it is wrong */
	unsigned grid[3], block[3]; /* each at least 1 */
	unsigned shared_bytes;	    /* dynamic shared memory of a block */
	struct sgpu_module_param *params;
	int param_count;
	bool has_digest;    /* "module_digest" is given: only this code may run */
	uint8_t digest[32]; /* sgpu_measure_pages of the module's image */
};

struct sgpu_operation {
	const char *id;
	const char *kernel;
	json_t *params;			 /* object, for a module an array, or NULL */
	struct sgpu_module_call *module; /* NULL: the kernel is an operation of the table */
	struct sgpu_argument args[SGPU_ARGUMENTS_MAX];
	int arg_count;
	bool arguments_given; /* the document has an object of arguments, and args has them all */
	bool declassify;
	int *before; /* operations that must end before this one starts, ascending, each once */
	int before_count;
};

struct sgpu_manifest {
	json_t *json;	     /* the document; arrays are empty with SGPU_MANIFEST_UNHASHED */
	const char *id;	     /* manifest_id */
	bool all_or_nothing; /* "on_failure" is "all": if one output fails, none leaves */
	struct sgpu_segment *segments;
	int segment_count;
	struct sgpu_operation *operations;
	int operation_count;
	int *order; /* the operations in an order that the graph allows; NULL if there is a cycle */
	char *canonical; /* RFC 8785 text */
	size_t canonical_size;
	uint8_t sha256[32]; /* of the canonical text: the manifest's hash. Both are set only without
			       diagnostics */
	json_t *segment_ids, *operation_ids; /* private: from id to index */
	int *readers, *before;		     /* private: the memory of all arrays of these names */
	char *texts;			     /* private: the memory of all names */
};

/* Options of sgpu_manifest_parse. An output's location may never leave its directory. An input's
 * may, because the machines that a batch travels to lack that directory; SGPU_MANIFEST_INSIDE makes
 * this an error. SGPU_MANIFEST_UNHASHED, for documents that are not trusted, leaves canonical and
 * sha256 empty, and keeps no tree of the whole document, which takes ten times the memory of the
 * text. */
enum sgpu_manifest_options { SGPU_MANIFEST_INSIDE = 1, SGPU_MANIFEST_UNHASHED = 2 };
/* Parses a manifest and validates everything that needs no knowledge of the operations: fields,
 * names, references, graph, information flow. Records all diagnostics, in any order. Returns 0 even
 * if there are errors (check diagnostics->count); *manifest then holds what could be understood,
 * with -1 for unusable references. Errors: SGPU_EINVALID if the text is not JSON (one diagnostic,
 * *manifest NULL), SGPU_ENOMEM. sgpu_ops_check does the rest; sgpu_ops_load_manifest does
 * everything in one call. Free with sgpu_manifest_free. */
SGPU_MUST_CHECK int sgpu_manifest_parse(const char *text, size_t size, unsigned options,
					struct sgpu_manifest **manifest,
					struct sgpu_diagnostics *diagnostics,
					struct sgpu_error *error);
void sgpu_manifest_free(struct sgpu_manifest **manifest);

/* Resolves "." and ".." in a location by its text. False if it leaves its directory. */
bool sgpu_location_normal(const char *location, char normal[SGPU_LOCATION_MAX + 1]);
/* Whether the text of a location leaves its directory: absolute, or by "..". */
bool sgpu_location_outside(const char *location);

/* Returns the index of the segment with this id, or -1. */
int sgpu_manifest_segment(const struct sgpu_manifest *manifest, const char *id);

/* Whether a segment is an input, or an output; an INPUT_OUTPUT is both. */
static inline bool sgpu_segment_is_input(const struct sgpu_segment *segment)
{
	return segment->direction == SGPU_INPUT || segment->direction == SGPU_INPUT_OUTPUT;
}
static inline bool sgpu_segment_is_output(const struct sgpu_segment *segment)
{
	return segment->direction == SGPU_OUTPUT || segment->direction == SGPU_INPUT_OUTPUT;
}
const char *sgpu_sensitivity_name(enum sgpu_sensitivity sensitivity);
const char *sgpu_direction_name(enum sgpu_direction direction);

#ifdef __cplusplus
}
#endif
#endif
