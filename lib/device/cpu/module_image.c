/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that modules run in, as bytes of the library, so that a digest of the library covers
 * it, too. make links the program before this file is compiled.
 */
#include <device/cpu/cpu.h>

__asm__(".pushsection .rodata\n"
	".balign 16\n"
	".globl sgpu_module_host_image\n"
	".hidden sgpu_module_host_image\n"
	".type sgpu_module_host_image, %object\n"
	"sgpu_module_host_image:\n"
	".incbin \"sgpu-module-host.image\"\n"
	".size sgpu_module_host_image, . - sgpu_module_host_image\n"
	".globl sgpu_module_host_image_end\n"
	".hidden sgpu_module_host_image_end\n"
	".type sgpu_module_host_image_end, %object\n"
	"sgpu_module_host_image_end:\n"
	".byte 0\n"
	".size sgpu_module_host_image_end, 1\n"
	".popsection\n");
