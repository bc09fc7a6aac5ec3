/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that another side may write to, and that changes as soon as it was read: whoever looks at
 * it a second time finds something else. No other side has to write at the right moment for that:
 * the memory is protected, and one instruction at a time reads it.
 */
#ifndef READ_ONCE_H
#define READ_ONCE_H

#ifdef __x86_64__
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { TRAP_FLAG = 0x100 };

static struct {
	void *base;
	size_t size;
	int left;	      /* reads until the change */
	void (*change)(void); /* through another mapping */
	struct sigaction before[2];
} read_once;

static void let_read(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	(void)signal;
	(void)info;
	(void)mprotect(read_once.base, read_once.size, PROT_READ | PROT_WRITE);
	c->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void after_read(int signal, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	(void)signal;
	(void)info;
	c->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	if (--read_once.left == 0) {
		read_once.change();
	}
	(void)mprotect(read_once.base, read_once.size, PROT_NONE);
}

/* From now on, for the thread that reads next. */
static void read_once_begin(void *base, size_t size, int reads, void (*change)(void))
{
	const struct sigaction read = { .sa_sigaction = let_read, .sa_flags = SA_SIGINFO },
			       trap = { .sa_sigaction = after_read, .sa_flags = SA_SIGINFO };

	read_once.base = base;
	read_once.size = size;
	read_once.left = reads;
	read_once.change = change;
	(void)sigaction(SIGSEGV, &read, &read_once.before[0]);
	(void)sigaction(SIGTRAP, &trap, &read_once.before[1]);
	(void)mprotect(base, size, PROT_NONE);
}

/* How many reads were missing; less than 0: there were more. The memory is no longer watched, if it
 * is there. */
static int read_once_end(void)
{
	(void)mprotect(read_once.base, read_once.size, PROT_READ | PROT_WRITE);
	(void)sigaction(SIGSEGV, &read_once.before[0], NULL);
	(void)sigaction(SIGTRAP, &read_once.before[1], NULL);
	return read_once.left;
}
#endif

#endif
