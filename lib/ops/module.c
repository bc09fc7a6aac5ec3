/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations whose kernel is in a module, which a segment holds: the kernel is unknown, so nothing
 * can be inferred.
 */
#include <string.h>

#include "ops_private.h"

const struct sgpu_op sgpu_op_module = {
	.name = "module",
	.help = "A function of a module that the batch brings",
};

/* Without data_type_info, the module's size is that of its file, so the segment must have a
 * file. */
static void check_image(struct sgpu_ops_checker *checker, int index)
{
	struct sgpu_segment *segment = &checker->manifest->segments[index];

	if (checker->known[index] || checker->manifest->segments[index].type_given ||
	    !sgpu_segment_is_input(segment)) {
		return;
	}
	if (segment->location && strcmp(segment->location, "-") == 0) {
		checker->missing[index] = true;
		return;
	}
	segment->size_of_file = true;
}

static void check_output(struct sgpu_ops_checker *checker, int index)
{
	const struct sgpu_segment *segment = &checker->manifest->segments[index];

	if (segment->type_stated) {
		checker->known[index] = true;
	} else if (sgpu_segment_is_input(segment)) {
		checker->missing[index] = true;
	} else if (!checker->manifest->segments[index].type_given) {
		sgpu_ops_segment_report(
			checker, index, NULL,
			"\"data_type_info\": {\"dtype\": ..., \"shape\": ...}",
			"'%s' needs data_type_info: what a module writes has no type of its own",
			segment->id ? segment->id : "");
	}
}

void sgpu_ops_check_module(struct sgpu_ops_checker *checker)
{
	const struct sgpu_operation *operation = checker->operation;

	for (int i = 0; i < operation->arg_count; i++) {
		int segment = operation->args[i].segment;

		if (segment < 0) {
			continue;
		}
		if (operation->args[i].output) {
			check_output(checker, segment);
		} else if (!checker->known[segment]) {
			checker->missing[segment] = true;
		}
	}
	if (operation->module->segment >= 0) {
		check_image(checker, operation->module->segment);
	}
}
