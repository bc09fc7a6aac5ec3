/* SPDX-License-Identifier: Apache-2.0
 *
 * In which pieces a payload moves, and on which path.
 *
 *   registered  the device reads the file's own memory; costs a pin of every page
 *   pinned      the cores copy into memory that was pinned once and is lent again and again
 *   pageable    ordinary memory, when the device cannot pin: the driver copies once more
 */
#include "run/transfers.h"

uint64_t sgpu_piece_next(uint64_t left, uint64_t most)
{
	uint64_t half = left / 2 / SGPU_CHUNK * SGPU_CHUNK;

	if (left <= SGPU_RUN_PIECE_MIN) {
		return left;
	}
	half = half < SGPU_RUN_PIECE_MIN ? SGPU_RUN_PIECE_MIN : half;
	return half < most ? half : most;
}

uint64_t sgpu_piece_sealed(uint64_t size, bool last)
{
	return size + (size / SGPU_CHUNK + last) * SGPU_TAG_SIZE;
}

/* Measured on an H200 (PCIe 5.0 x16, 16 cores, driver 580), per GiB: to register 45 ms on pages of 4 KiB and 25 ms
 * on huge ones, to unregister 18 ms; the bus 55 GB/s. A core copies 4.5 GB/s, all of them no more than 37 GB/s. A
 * copy overlaps with the transfer, so that the slower of the two counts; registering has to come first. */
bool sgpu_register_pays(uint64_t size, unsigned cores, bool huge)
{
	const double gib = 1 << 30, bus = 55e9, core = 4.5e9, memory = 37e9, unregister = 0.018;
	double bytes = (double)size, rate = core * (cores < 1 ? 1 : cores), copied, registered;

	/* Below, the calls cost about as much as they save. */
	if (size < 4 * (uint64_t)SGPU_RUN_PIECE_MIN) {
		return false;
	}
	rate = rate < memory ? rate : memory;
	copied = bytes / (rate < bus ? rate : bus);
	registered = bytes / gib * ((huge ? 0.025 : 0.045) + unregister) + bytes / bus;
	return registered < copied;
}
