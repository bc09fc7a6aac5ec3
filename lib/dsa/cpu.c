/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions that hand a descriptor to the device, and the one that waits. As bytes, so that
 * the rest of the library needs no CPU flags. SFENCE comes first: the device may read the job's
 * memory before this thread's stores to it are visible otherwise.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "dsa/queue.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { UMWAIT_CYCLES = 50000, LIGHT_STATE = 1 };

void sgpu_dsa_cpu_detect(struct sgpu_dsa_cpu *cpu)
{
	unsigned a, b, c, d;
	char name[12];

	memset(cpu, 0, sizeof(*cpu));
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		cpu->waitpkg = c & (1u << 5);
		cpu->movdir64b = c & (1u << 28);
		cpu->enqcmd = c & (1u << 29);
	}
	if (__get_cpuid_max(0, NULL) >= 0x21) {
		__cpuid_count(0x21, 0, a, b, c, d);
		memcpy(name, &b, 4);
		memcpy(name + 4, &d, 4);
		memcpy(name + 8, &c, 4);
		cpu->tdx = memcmp(name, "IntelTDX    ", sizeof(name)) == 0;
	}
}

/* All lines of the page are the one portal; those who write to the same line wait for each other.
 */
static void *next_place(struct sgpu_dsa *dsa)
{
	void *place = dsa->portal + dsa->place;

	dsa->place = (dsa->place + sizeof(struct dsa_hw_desc)) % 4096;
	return place;
}

int sgpu_dsa_submit_movdir64b(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	__asm__ volatile("sfence\n\t.byte 0x66, 0x0f, 0x38, 0xf8, 0x02" /* movdir64b (%rdx), %rax */
			 :
			 : "a"(next_place(dsa)), "d"(descriptor)
			 : "memory");
	return SGPU_OK;
}

int sgpu_dsa_submit_enqcmd(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	bool full;

	__asm__ volatile("sfence\n\t.byte 0xf2, 0x0f, 0x38, 0xf8, 0x02" /* enqcmd (%rdx), %rax */
			 : "=@ccz"(full)
			 : "a"(next_place(dsa)), "d"(descriptor)
			 : "memory");
	return full ? SGPU_ERETRY : SGPU_OK;
}

/* The look between the two sees what was written before UMONITOR. */
void sgpu_dsa_umwait(const struct dsa_completion_record *record)
{
	const uint64_t until = __builtin_ia32_rdtsc() + UMWAIT_CYCLES;

	__asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0xf0"
			 :
			 : "a"(record)
			 : "memory"); /* umonitor %rax */
	if (__atomic_load_n(&record->status, __ATOMIC_ACQUIRE) == DSA_COMP_NONE) {
		__asm__ volatile(".byte 0xf2, 0x0f, 0xae, 0xf1" /* umwait %ecx */
				 :
				 : "c"(LIGHT_STATE), "a"((uint32_t)until),
				   "d"((uint32_t)(until >> 32))
				 : "memory", "cc");
	}
}
#else
void sgpu_dsa_cpu_detect(struct sgpu_dsa_cpu *cpu)
{
	memset(cpu, 0, sizeof(*cpu));
}

int sgpu_dsa_submit_movdir64b(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	return sgpu_dsa_submit_write(dsa, descriptor);
}

int sgpu_dsa_submit_enqcmd(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	return sgpu_dsa_submit_write(dsa, descriptor);
}

void sgpu_dsa_umwait(const struct dsa_completion_record *record)
{
	(void)record;
}
#endif

/* The kernel submits, from Linux 6.10 on: for parts on which what a process submits itself may harm
 * others. */
int sgpu_dsa_submit_write(struct sgpu_dsa *dsa, const struct dsa_hw_desc *descriptor)
{
	ssize_t sent = write(dsa->fd, descriptor, sizeof(*descriptor));

	if (sent == (ssize_t)sizeof(*descriptor)) {
		return SGPU_OK;
	}
	return sent < 0 && (errno == EAGAIN || errno == EINTR) ? SGPU_ERETRY : SGPU_EUNAVAILABLE;
}
