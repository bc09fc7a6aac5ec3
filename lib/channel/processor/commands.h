/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands: each in a file of its own name. Writers of the tables call them, but for CH_SUBMIT,
 * which a reader calls.
 */
#ifndef SGPU_PROCESSOR_COMMANDS_H
#define SGPU_PROCESSOR_COMMANDS_H

#include "channel/processor/processor.h"

int sgpu_do_create(struct sgpu_processor *processor, const struct sgpu_command *command,
		   struct sgpu_reply *reply);
int sgpu_do_pde(struct sgpu_processor *processor, const struct sgpu_command *command,
		struct sgpu_reply *reply);
int sgpu_do_pte(struct sgpu_processor *processor, const struct sgpu_command *command,
		struct sgpu_reply *reply);
int sgpu_do_measure(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply);
int sgpu_do_destroy(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply);
int sgpu_do_submit(struct sgpu_processor *processor, const struct sgpu_command *command,
		   struct sgpu_reply *reply);

/* Unconditional teardown: no MAC, device errors ignored. */
void sgpu_destroy_by_force(struct sgpu_processor *processor, struct sgpu_channel *channel);

#endif
