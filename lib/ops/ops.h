/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations, sgpu-ops(7): one table, whose rows describe them, and for each device one file
 * per operation or group of related ones.
 */
#ifndef SGPU_OPS_OPS_H
#define SGPU_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/base.h>

#include "device/device.h"
#include "manifest/manifest.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SGPU_PARAMS_MAX = 12 };

/* Sets of element types. ANY: all of a manifest; ALL: those that operations compute with. */
#define SGPU_TYPE_BIT(dtype) (1u << (dtype))
#define SGPU_TYPES_FLOAT (SGPU_TYPE_BIT(SGPU_F32) | SGPU_TYPE_BIT(SGPU_F64))
#define SGPU_TYPES_ALL                                                         \
	(SGPU_TYPES_FLOAT | SGPU_TYPE_BIT(SGPU_I32) | SGPU_TYPE_BIT(SGPU_U8) | \
	 SGPU_TYPE_BIT(SGPU_I16) | SGPU_TYPE_BIT(SGPU_F16))
#define SGPU_TYPES_ANY (SGPU_TYPE_BIT(SGPU_DTYPE_COUNT) - SGPU_TYPE_BIT(SGPU_F32))

struct sgpu_op_argument {
	const char *name; /* "input", "a", "b", ...; an output's starts with "output" */
	bool optional;
	unsigned dtypes; /* set of SGPU_TYPE_BIT */
	int min_rank, max_rank;
	const char *help; /* one line */
};

enum sgpu_param_kind {
	SGPU_PARAM_NUMBER,
	SGPU_PARAM_INTEGER,
	SGPU_PARAM_BOOLEAN,
	SGPU_PARAM_CHOICE,
	SGPU_PARAM_TEXT
};

struct sgpu_op_param {
	const char *name;
	enum sgpu_param_kind kind;
	bool required;
	double min, max;	    /* NUMBER, INTEGER: inclusive; TEXT: of its length */
	double standard;	    /* default; BOOLEAN: 0 or 1; CHOICE: index into choices */
	const char *const *choices; /* CHOICE: NULL-terminated */
	const char *help;
};

/* A parameter's value, as in `standard`. INTEGER: exact below 2^53. TEXT: whether it is given. */
struct sgpu_op_value {
	bool given;
	double number;
};

/* A call. Arguments and parameters are indexed as in `op`. */
struct sgpu_op_call {
	const struct sgpu_op *op;
	/* dtype SGPU_NONE: the optional argument is absent */
	struct sgpu_type type[SGPU_ARGUMENTS_MAX];
	bool present[SGPU_ARGUMENTS_MAX]; /* the manifest gives it, maybe without a type */
	void *data[SGPU_ARGUMENTS_MAX]; /* device addresses, aligned to 64 bytes; NULL if absent. No
				   output overlaps an input or the scratch memory. */
	struct sgpu_op_value param[SGPU_PARAMS_MAX];
	const char *text; /* of the TEXT parameter; lives as long as the manifest */
	void *scratch;	  /* device memory of op->scratch() bytes, aligned to 4096 */
};

/* Receives infer's diagnostics: about the named argument or parameter or, if both names are NULL,
 * about the operation. */
struct sgpu_op_report {
	void (*diagnostic)(struct sgpu_op_report *report, const char *argument, const char *param,
			   const char *text);
	/* the caller's private data follow */
};
/* For infer functions: formats and reports a diagnostic. */
void sgpu_op_diagnose(struct sgpu_op_report *report, const char *argument, const char *param,
		      const char *format, ...) SGPU_PRINTF(4, 5);

struct sgpu_op {
	const char *name; /* "gaussian3d" */
	const char *help; /* one line */
	/* They end with a NULL name; inputs come first. */
	struct sgpu_op_argument args[SGPU_ARGUMENTS_MAX + 1];
	struct sgpu_op_param params[SGPU_PARAMS_MAX + 1];
	/* Called when the types of all required inputs are known, and the dtypes and ranks of all
	 * inputs are valid. Fills the types of outputs (SGPU_NONE on entry), may fill that of an
	 * optional input that is present without one, and reports diagnostics. Must not touch
	 * data. */
	void (*infer)(struct sgpu_op_call *call, struct sgpu_op_report *report);
	/* Bytes of scratch memory for a call whose types are known. NULL: none. */
	uint64_t (*scratch)(const struct sgpu_op_call *call);
	/* For sgpu_op_run on the CPU. The result must not depend on the number of workers. Returns
	 * 0, SGPU_ECANCELED, or an error with its text. */
	sgpu_op_fn cpu;
	/* Whether the run decides the size of the output (launch->status[1]). */
	bool (*at_most)(const struct sgpu_op_call *call); /* NULL: never */
};

/* Sorted by name; static; ends with NULL. */
const struct sgpu_op *const *sgpu_ops(void);
const struct sgpu_op *sgpu_op_find(const char *name);
bool sgpu_op_is_output(const struct sgpu_op_argument *argument);
/* Return the index of an argument or a parameter, or -1. */
int sgpu_op_arg(const struct sgpu_op *op, const char *name);
int sgpu_op_param(const struct sgpu_op *op, const char *name);

/* Runs a call in a launch, by the device's own implementation or, if that is NULL, the CPU's. A
 * call whose outputs are all empty is left out: where one extent is 0, memory does not bound the
 * others, and loops over them could take forever. */
SGPU_MUST_CHECK int sgpu_op_run(struct sgpu_op_call *call, sgpu_op_fn on_device,
				struct sgpu_launch *launch);

/* Checks a parsed manifest against the table and infers the types that it leaves open, in graph
 * order. Records all diagnostics; skips parts that the parser has reported. Returns 0 or
 * SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_ops_check(struct sgpu_manifest *manifest,
				   struct sgpu_diagnostics *diagnostics, struct sgpu_error *error);

/* Parses and checks a manifest, and gives its diagnostics lines and columns. SGPU_EINVALID:
 * *diagnostics has all errors, *error the first, and *manifest is NULL. */
SGPU_MUST_CHECK int sgpu_ops_load_manifest(const char *text, size_t size, const char *name,
					   unsigned options, struct sgpu_manifest **manifest,
					   struct sgpu_diagnostics *diagnostics,
					   struct sgpu_error *error);

/* Stands for a kernel of a module, which a segment holds; not in the table, without arguments,
 * parameters and code. */
extern const struct sgpu_op sgpu_op_module;

/* Fills in a call's types and parameters, but no data, for an operation of a checked manifest. For
 * a module, call->op is sgpu_op_module, and arguments have the manifest's order. */
SGPU_MUST_CHECK int sgpu_ops_prepare(const struct sgpu_manifest *manifest, int operation,
				     struct sgpu_op_call *call, struct sgpu_error *error);

/* Enqueues a launch of a call whose data are set, and tells the device which memory it touches:
 * tensors and scratch memory. */
SGPU_MUST_CHECK int sgpu_op_enqueue(struct sgpu_stream *stream, sgpu_launch_fn function,
				    void *argument, const struct sgpu_op_call *call,
				    struct sgpu_task *task);

enum {
	SGPU_MAP_EXPRESSION_MAX = 4096, /* bytes */
	SGPU_MAP_TEXT_MAX = 3072,	/* of `code`: base64url of 256 instructions */
};

/* map, as people write it: compiles the parameter `expression` of a manifest's operation to `code`,
 * and gives its arguments the table's names, in the expression's order. Leaves other operations as
 * they are. SGPU_EINVALID: the text says where in the expression. */
SGPU_MUST_CHECK int sgpu_map_compile(json_t *operation, struct sgpu_error *error);
/* The same for all operations of a manifest's text. Returns the new text, from malloc; NULL if
 * there is nothing to compile, or a fault, which is among the diagnostics. */
char *sgpu_map_compile_text(const char *text, size_t size, struct sgpu_diagnostics *diagnostics);

#ifdef __cplusplus
}
#endif
#endif
