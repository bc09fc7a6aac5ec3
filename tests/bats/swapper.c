/* SPDX-License-Identifier: Apache-2.0
 *
 * Swaps two names as fast as it can, until it is killed: what a local attacker does against a path
 * that is looked at first and opened then. See outputs.bats.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* exchange A B: the two names; link NAME TARGET: a link to the target, and a file. */
int main(int argc, char **argv)
{
	if (argc != 4) {
		return 2;
	}
	for (;;) {
		if (!strcmp(argv[1], "exchange")) {
			(void)!renameat2(AT_FDCWD, argv[2], AT_FDCWD, argv[3], RENAME_EXCHANGE);
			continue;
		}
		(void)!symlink(argv[3], "swapped.link");
		(void)!rename("swapped.link", argv[2]);
		close(open("swapped.file", O_WRONLY | O_CREAT, 0600));
		(void)!rename("swapped.file", argv[2]);
	}
}
