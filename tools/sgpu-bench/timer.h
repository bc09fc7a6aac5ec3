/* SPDX-License-Identifier: Apache-2.0
 *
 * The timer of a GPU's tasks.
 */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include <jansson.h>

#include <sgpu/device.h>

/* The value of an option: 0, or the exit status. */
int timer_take(enum sgpu_device_timer *timer, const char *name);
/* Compares both timers of a GPU, and adds their difference to the description of the environment, as a part of the time
 * by %globaltimer. */
void timer_compare(struct sgpu_device *device, json_t *environment);

#endif
