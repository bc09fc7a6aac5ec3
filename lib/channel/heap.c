/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a secure context. Pages are mapped in large pieces and kept; blocks of them are
 * allocated without a call of the driver. A freed block is cleared by the stream `clearer`, and
 * used again when the clearing is known to have ended. Summaries are checked with the owner's key,
 * and against the addresses that the allocator returns and the pages in its command.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "channel/channel.h"
#include "crypto/crypto.h"
#include "device/arena.h"
#include "channel/context.h"

/* Bytes to map: a quarter of those mapped, within these bounds; more if a block needs more. */
#define GROW_MIN ((uint64_t)2 << 20)
#define GROW_MAX ((uint64_t)256 << 20)

static uint64_t round_up(uint64_t size, uint64_t multiple)
{
	return (size + multiple - 1) / multiple * multiple;
}

static void poison(const struct sgpu_secure *context, sgpu_devptr address, uint64_t size)
{
	if (context->poisons) {
		SGPU_POISON(address, size);
	}
}

static void unpoison(const struct sgpu_secure *context, sgpu_devptr address, uint64_t size)
{
	if (context->poisons) {
		SGPU_UNPOISON(address, size);
	}
}

/* *total: the memory of all pages; *available: that less blocks in use, the channel's directory and
 * its page tables. The arena's lock is held. */
static void count_memory(struct sgpu_secure *context, uint64_t *total, uint64_t *available)
{
	const uint64_t frames = context->ground->config.frames,
		       tables = 1 + 2 * (frames / SGPU_CHANNEL_ENTRIES + 2),
		       taken = tables * context->ground->pages.small + context->arena.used_bytes;

	*total = frames * context->ground->pages.small;
	*available = *total - sgpu_min_u64(taken, *total);
}

/* The device counts the pages of this context as used, a GPU also those that were mapped once; here
 * those in no allocation are free. */
void sgpu_secure_info(struct sgpu_device_guard *guard, struct sgpu_device_info *info)
{
	struct sgpu_secure *context = sgpu_secure_guarded(guard);
	uint64_t total, available, most;

	pthread_mutex_lock(&context->arena_lock);
	count_memory(context, &total, &available);
	most = info->opens_on_device ? context->mapped_most : context->arena.mapped_bytes;
	info->memory_free += most - sgpu_min_u64(context->arena.used_bytes, most);
	pthread_mutex_unlock(&context->arena_lock);
	info->memory_total = sgpu_min_u64(total, info->memory_total);
	info->memory_free = sgpu_min_u64(available, info->memory_free);
	info->secure = true;
}

/* The arena's lock is held. */
static int out_of_memory(struct sgpu_secure *context, uint64_t size, struct sgpu_error *error)
{
	uint64_t total, available;

	count_memory(context, &total, &available);
	return sgpu_fail(error, SGPU_ENOMEM,
			 "out of device memory: %llu bytes asked for, %llu available",
			 (unsigned long long)size, (unsigned long long)available);
}

/* ---- the owner's side of the allocator's commands ---- */
static uint64_t size_of(const struct sgpu_secure *context, const struct sgpu_command *command)
{
	const struct sgpu_pages_info *pages = &context->ground->pages;

	return command->pte.count * (command->pte.big ? pages->big : pages->small);
}

void sgpu_secure_authorise(struct sgpu_secure *context, struct sgpu_command *command)
{
	const uint64_t size = size_of(context, command);

	/* The processor compares this range with that of the command. */
	command->pte.has_mac = context->next < context->end && size <= context->end - context->next;
	if (command->pte.has_mac) {
		sgpu_session_authorise(context->session, (const uint64_t[]){ context->next, size },
				       &command->pte.mac_counter, command->pte.mac);
	}
}

/* The ground's lock is held, so the summary answers this command. */
int sgpu_secure_take_summary(struct sgpu_secure *context, const struct sgpu_command *command,
			     struct sgpu_report *summary, struct sgpu_error *error)
{
	const uint32_t count = command->pte.pages ? command->pte.count : 0;
	const bool begins = command->pte.pages && context->next == 0;
	uint8_t hash[SGPU_KT128_SIZE];
	int rc = context->session
			 ? sgpu_session_report(context->session, SGPU_CH_PTE, summary, error)
			 : sgpu_fail(error, SGPU_EAUTH, "pages came before a session");

	if (rc != SGPU_OK) {
		return rc;
	}
	sgpu_kt128(command->pte.pages, count * sizeof(*command->pte.pages), NULL, 0, hash,
		   sizeof(hash));
	if (summary->pages != count || summary->size != size_of(context, command) ||
	    (!begins && summary->va != context->next) ||
	    !sgpu_equal(summary->digest, hash, sizeof(hash))) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "other pages or addresses were changed than the allocator said");
	}
	context->first = begins ? summary->va : context->first;
	context->next = summary->va + summary->size;
	return SGPU_OK;
}

/* ---- mapping ---- */
/* After a failure an authorisation may still be valid, so the range may be unmapped at any time. */
static int unmap(struct sgpu_secure *context, uint64_t va, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_ground *ground = context->ground;
	int rc;

	pthread_mutex_lock(&ground->lock);
	ground->sender = context;
	context->next = va;
	context->end = va + size;
	rc = sgpu_allocator_unmap(ground->allocator, context->grant.channel, va, size, error);
	if (rc == SGPU_OK && context->next != context->end) {
		rc = sgpu_fail(error, SGPU_EAUTH,
			       "the allocator unmapped other addresses than it said");
	}
	context->end = context->next; /* nothing more is authorised */
	pthread_mutex_unlock(&ground->lock);
	context->authorisation_lost = context->authorisation_lost || rc != SGPU_OK;
	return rc;
}

static int map(struct sgpu_secure *context, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_ground *ground = context->ground;
	uint64_t va = 0, mapped = 0, first, next;
	int added, rc;

	pthread_mutex_lock(&ground->lock);
	ground->sender = context;
	context->first = context->next = context->end = 0;
	rc = sgpu_allocator_map(ground->allocator, context->grant.channel, size, &va, &mapped,
				error);
	first = context->first;
	next = context->next;
	pthread_mutex_unlock(&ground->lock);
	if (rc == SGPU_OK && (first != va || next - first != mapped || mapped < size)) {
		return sgpu_fail(error, SGPU_EAUTH,
				 "the allocator mapped other addresses than it said");
	}
	/* Pages mapped before a failure are usable. */
	added = next > first ? sgpu_arena_add(&context->arena, context->base + first, next - first)
			     : SGPU_OK;
	if (added == SGPU_EUSAGE) { /* the memory stays mapped and unused */
		return sgpu_fail(error, SGPU_EAUTH,
				 "the allocator mapped addresses that are in use");
	}
	if (added != SGPU_OK) {
		(void)unmap(context, first, next - first, NULL);
		return sgpu_fail_nomem(error);
	}
	poison(context, context->base + first, next - first);
	if (context->arena.mapped_bytes > context->mapped_most) {
		context->mapped_most = context->arena.mapped_bytes;
	}
	return rc;
}

/* Whether `rc` means out of memory: the processor only says that the device failed. */
static bool ran_out(struct sgpu_secure *context, int rc, uint64_t size)
{
	struct sgpu_device_info info;

	return rc == SGPU_ENOMEM ||
	       (rc == SGPU_EDEVICE &&
		sgpu_device_get_info(context->ground->device, &info, NULL) == SGPU_OK &&
		info.memory_free < size);
}

/* Maps whole big pages, more than a block of `extent` bytes needs; just enough if memory runs
 * out. */
static int grow(struct sgpu_secure *context, uint64_t extent, struct sgpu_error *error)
{
	const struct sgpu_pages_info *pages = &context->ground->pages;
	uint64_t want = context->arena.mapped_bytes / 4, least = round_up(extent, pages->small);
	uint64_t total, available;
	int rc;

	count_memory(context, &total, &available);
	if (extent > available) {
		return SGPU_ENOMEM;
	}

	want = want < GROW_MIN ? GROW_MIN : want > GROW_MAX ? GROW_MAX : want;
	want = round_up(want < extent ? extent : want, pages->big);
	rc = map(context, want, error);
	if (least < want && ran_out(context, rc, want)) {
		rc = map(context, least, error);
	}
	return ran_out(context, rc, least) ? SGPU_ENOMEM : rc;
}

/* ---- clearing ---- */
/* If this fails, the block is never given out again. The arena's lock is held. */
static void start_clearing(struct sgpu_secure *context, struct sgpu_block *block)
{
	const struct sgpu_device_range range = { block->range.address, block->range.extent };
	int rc;

	block->task = (struct sgpu_task){ .untimed = true };
	unpoison(context, block->range.address, block->range.extent);
	rc = sgpu_processor_enter(context->ground->processor, context->grant.channel, &range, 1,
				  NULL);
	if (rc < 0) {
		return;
	}
	rc = sgpu_device_clear(context->clearer, range.address, range.size, &block->task);
	sgpu_processor_leave(context->ground->processor);
	if (rc == SGPU_OK) {
		sgpu_arena_await(&context->arena, block);
	}
}

/* Waits for all clearings. A block whose clearing failed is never used again. */
static void settle(struct sgpu_secure *context)
{
	struct sgpu_block *block;

	if (!context->arena.clearing || sgpu_stream_sync(context->clearer, NULL) != SGPU_OK) {
		return;
	}
	sgpu_arena_note_cleared(&context->arena, context->arena.serial);
	while ((block = sgpu_arena_next_cleared(&context->arena))) {
		if (block->task.code == SGPU_OK) {
			poison(context, block->range.address, block->range.extent);
			sgpu_arena_release(&context->arena, block);
		}
	}
}

/* Unmaps every idle region. The arena's lock is held. An authorisation that no authentic summary
 * answers can still be used, and until then the processor accepts no later one. So that region's
 * memory is not used again. */
static int trim(struct sgpu_secure *context, struct sgpu_error *error)
{
	struct sgpu_arena_region *region, *next;
	int rc = SGPU_OK;

	settle(context);
	for (region = context->arena.regions; rc == SGPU_OK && region; region = next) {
		next = region->next;
		if (!sgpu_arena_is_idle(region)) {
			continue;
		}
		if (context->authorisation_lost) {
			return sgpu_fail(
				error, SGPU_EAUTH,
				"the context gives no pages back: an authorisation was lost");
		}
		sgpu_arena_withhold(&context->arena, region);
		unpoison(context, region->address, region->extent);
		rc = unmap(context, region->address - context->base, region->extent, error);
		if (rc == SGPU_OK) {
			sgpu_arena_drop(&context->arena, region);
		}
	}
	return rc;
}

/* ---- allocating ---- */
/* Finds a block in free memory, in memory that was being cleared, or in new pages. Clearings are
 * waited for when nothing else is free, mostly long after their end. */
static int obtain(struct sgpu_secure *context, uint64_t size, struct sgpu_block **block,
		  struct sgpu_error *error)
{
	uint64_t extent = sgpu_arena_extent(size);
	int rc = SGPU_OK;

	*block = sgpu_arena_take(&context->arena, size);
	if (!*block && context->arena.clearing_bytes >= extent) {
		settle(context);
		*block = sgpu_arena_take(&context->arena, size);
	}
	if (!*block) {
		rc = grow(context, extent, error);
		if (rc == SGPU_ENOMEM && context->arena.clearing) {
			settle(context);
		}
		*block = sgpu_arena_take(&context->arena, size);
	}
	if (*block) {
		return SGPU_OK;
	}
	return rc == SGPU_OK || rc == SGPU_ENOMEM ? out_of_memory(context, size, error) : rc;
}

int sgpu_secure_alloc(struct sgpu_device_guard *guard, uint64_t size, sgpu_devptr *memory,
		      struct sgpu_error *error)
{
	struct sgpu_secure *context = sgpu_secure_guarded(guard);
	struct sgpu_block *block = NULL;
	int rc;

	pthread_mutex_lock(&context->arena_lock);
	rc = size > INT64_MAX ? out_of_memory(context, size, error)
			      : obtain(context, size, &block, error);
	/* If each mapped piece is too small, the idle ones are unmapped: mapped again, their pages
	 * may form one large piece. */
	if (rc == SGPU_ENOMEM && size <= INT64_MAX && context->arena.regions &&
	    trim(context, NULL) == SGPU_OK) {
		rc = obtain(context, size, &block, error);
	}
	if (rc == SGPU_OK) {
		*memory = block->range.address;
		unpoison(context, block->range.address, size);
	}
	pthread_mutex_unlock(&context->arena_lock);
	return rc;
}

void sgpu_secure_give(struct sgpu_device_guard *guard, sgpu_devptr memory)
{
	struct sgpu_secure *context = sgpu_secure_guarded(guard);
	struct sgpu_block *block;

	pthread_mutex_lock(&context->arena_lock);
	block = sgpu_arena_find(&context->arena, memory);
	if (block && block->range.address == memory) {
		sgpu_arena_leave(&context->arena, block);
		start_clearing(context, block);
	}
	pthread_mutex_unlock(&context->arena_lock);
}

/* The processor clears and unmaps the pages when the channel is destroyed. */
void sgpu_secure_memory_close(struct sgpu_secure *context)
{
	pthread_mutex_lock(&context->arena_lock);
	settle(context);
	for (struct sgpu_arena_region *region = context->arena.regions; region;
	     region = region->next) {
		unpoison(context, region->address, region->extent);
	}
	sgpu_arena_clear(&context->arena);
	pthread_mutex_unlock(&context->arena_lock);
}
