/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that modules of the CPU device run in: its memory file, and how it is started.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <device/cpu/cpu.h>
#include <device/cpu/module_wire.h>

#include "unit.h"

/* Under vm.memfd_noexec=2 there is none, which tests/bats/module-confinement.bats tries. */
static bool memory_file(int *fd, struct sgpu_error *error)
{
	return sgpu_cpu_code_file(SGPU_HOST_PROGRAM, "a test", sgpu_module_host_image,
				  (size_t)(sgpu_module_host_image_end - sgpu_module_host_image),
				  S_IXUSR, fd, error) == SGPU_OK;
}

UNIT_TEST(the_memory_file_is_the_program_and_cannot_be_changed)
{
	const size_t size = (size_t)(sgpu_module_host_image_end - sgpu_module_host_image);
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct sgpu_error error = { 0 };
	void *memory;
	int fd = -1;

	CHECK(sgpu_elf_is_shared(sgpu_module_host_image, size) &&
	      sgpu_elf_is_native(sgpu_module_host_image));
	CHECK(sgpu_elf_is_whole(sgpu_module_host_image, size));
	if (!memory_file(&fd, &error) && error.code == SGPU_EUNAVAILABLE) {
		SKIP("memory files may not be executed here");
	}
	CHECK(fd >= 0);
	CHECK(lseek(fd, 0, SEEK_END) == (off_t)size);
	CHECK((fcntl(fd, F_GET_SEALS) & seals) == seals);
	CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(memcmp(memory, sgpu_module_host_image, size) == 0);
	munmap(memory, size);
	CHECK(pwrite(fd, "", 1, 0) < 0 && errno == EPERM);
	CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
	CHECK(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	close(fd);
}

/* The lowest ones are those that it takes for itself. */
UNIT_TEST(it_starts_whichever_descriptors_are_free)
{
	int saved[SGPU_HOST_CONTROL + 1], ends[2], status = -1, fd;
	struct sgpu_host_answer hello = { 0 };
	struct sgpu_error error = { 0 };
	bool said = false;
	pid_t pid = -1;
	int code;

	if (!memory_file(&fd, &error)) {
		SKIP("memory files may not be executed here");
	}
	close(fd);
	fflush(stdout);
	for (fd = 0; fd <= SGPU_HOST_CONTROL; fd++) {
		saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
		close(fd);
	}
	code = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
	if (code == 0) {
		code = sgpu_module_host_spawn(ends[1], &pid, &error);
		close(ends[1]);
	}
	if (code == SGPU_OK) {
		said = poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, 20000) == 1 &&
		       sgpu_host_receive(ends[0], &hello, sizeof(hello), NULL);
		close(ends[0]);
		waitpid(pid, &status, 0);
	}
	for (fd = 0; fd <= SGPU_HOST_CONTROL; fd++) {
		if (saved[fd] >= 0) {
			dup2(saved[fd], fd);
			close(saved[fd]);
		}
	}
	CHECK(code == SGPU_OK);
	CHECK(said && hello.kind == SGPU_HOST_HELLO && hello.confinement.process);
	CHECK(WIFEXITED(status) &&
	      WEXITSTATUS(status) == 0); /* it ends when its socket is closed */
}

int main(void)
{
	UNIT_RUN(the_memory_file_is_the_program_and_cannot_be_changed);
	UNIT_RUN(it_starts_whichever_descriptors_are_free);
	return unit_done();
}
