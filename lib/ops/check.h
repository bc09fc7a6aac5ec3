/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking a manifest against the table: what the files of the check share.
 */
#ifndef SGPU_OPS_CHECK_H
#define SGPU_OPS_CHECK_H

#include <stdbool.h>

#include <sgpu/manifest.h>
#include <sgpu/ops.h>

struct sgpu_ops_checker {
	struct sgpu_op_report report; /* first: infer functions get its address */
	struct sgpu_manifest *manifest;
	struct sgpu_diagnostics *diagnostics; /* NULL: diagnostics only set `failed` */
	const struct sgpu_operation *operation;
	int index;     /* of the operation */
	bool failed;   /* the operation at hand has a diagnostic */
	bool *known;   /* by segment: its type is established */
	bool *missing; /* by segment: a type was needed and not stated */
};

/* Records a diagnostic at /operations/<index>/<member>/<name>; member and name may be NULL. */
void sgpu_ops_report(struct sgpu_ops_checker *checker, const char *member, const char *name,
		     const char *hint, const char *format, ...) SGPU_PRINTF(5, 6);
/* Records a diagnostic at /segments/<segment>/<member>; member may be NULL. */
void sgpu_ops_segment_report(struct sgpu_ops_checker *checker, int segment, const char *member,
			     const char *hint, const char *format, ...) SGPU_PRINTF(5, 6);
/* "did you mean 'x'?" for the nearest of the names, or NULL when none is near. */
const char *sgpu_ops_near(const char *name, const char *const *names,
			  char hint[SGPU_ERROR_HINT_MAX]);

/* Whether the manifest has data_type_info of a segment, good or bad. */
bool sgpu_ops_states_type(const struct sgpu_ops_checker *checker, int segment);
/* The types of a module's arguments and of the segment that holds it. */
void sgpu_ops_check_module(struct sgpu_ops_checker *checker);

/* Reads the operation's parameters into the call, whose op is set. */
void sgpu_ops_check_params(struct sgpu_ops_checker *checker, struct sgpu_op_call *call);

#endif
