/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices that an option names: one, or several of one kind.
 */
#ifndef SGPU_RUN_DEVICES_H
#define SGPU_RUN_DEVICES_H

#include "worker.h"

struct device_list {
	char names[WORKER_DEVICES_MAX][80]; /* each a selector of sgpu_device_open */
	int count;
	bool all; /* "cuda:all": every GPU, and no names */
};

/* "cpu", "cuda:0,1", "cuda:0,cuda:1", "cuda:all", "cpu,cpu". Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int devices_parse(const char *selector, struct device_list *list,
				  struct sgpu_error *error);

#endif
