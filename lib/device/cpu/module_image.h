/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that modules run in (tools/module-host), which the library carries and starts. No
 * file is.
 */
#ifndef SGPU_DEVICE_CPU_MODULE_IMAGE_H
#define SGPU_DEVICE_CPU_MODULE_IMAGE_H

#include <sys/types.h>

#include <sgpu/error.h>

#define SGPU_HIDDEN __attribute__((visibility("hidden")))
/* An ELF file, without what debuggers read. */
extern SGPU_HIDDEN const unsigned char sgpu_module_host_image[], sgpu_module_host_image_end[];

/* A memory file with the program in it, which nobody can change; the caller closes it. Errors:
 * SGPU_EUNAVAILABLE: memory files may not be executed here; SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_module_host_file(int *fd, struct sgpu_error *error);
/* Starts it with a duplicate of `control` as SGPU_HOST_CONTROL, nothing to read, nowhere to print,
 * and no environment. Errors: SGPU_EUNAVAILABLE, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_module_host_spawn(int control, pid_t *pid, struct sgpu_error *error);

#endif
