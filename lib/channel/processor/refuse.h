/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals.
 */
#ifndef SGPU_PROCESSOR_REFUSE_H
#define SGPU_PROCESSOR_REFUSE_H

#include <sgpu/channel.h>

/* Fills in the reply and returns its code. */
int sgpu_refuse(struct sgpu_reply *reply, enum sgpu_refusal refusal, const char *format, ...)
	SGPU_PRINTF(3, 4);
/* As sgpu_refuse: this machine has no memory for a table, which is nobody's fault. */
int sgpu_refuse_memory(struct sgpu_reply *reply);
/* As sgpu_refuse, for a device that failed; the text is the device's where it gave one. */
int sgpu_refuse_device(struct sgpu_reply *reply, int code, const char *what);

#endif
