/* SPDX-License-Identifier: Apache-2.0
 *
 * Between stream.c and schedule.c; the device's lock is held in all of these.
 */
#ifndef SGPU_DEVICE_CPU_SCHEDULE_H
#define SGPU_DEVICE_CPU_SCHEDULE_H

#include <device/cpu/cpu.h>

#if defined(__x86_64__) || defined(__i386__)
#define SGPU_CPU_PAUSE() __builtin_ia32_pause()
#else
#define SGPU_CPU_PAUSE() ((void)0)
#endif

/* Puts a stream behind those that have something to run. */
void sgpu_cpu_make_ready(struct sgpu_stream *stream);
/* Sees to it that a thread comes for what is ready. */
void sgpu_cpu_wake(struct sgpu_device *device);
void sgpu_cpu_event_unref(struct sgpu_event *event);

#endif
