/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine of secure copies: what its files share.
 */
#ifndef SGPU_TRANSFER_TRANSFER_H
#define SGPU_TRANSFER_TRANSFER_H

#include <pthread.h>
#include <stdatomic.h>

#include <sgpu/transfer_old.h>

#if defined(__x86_64__)
#define SGPU_TRANSFER_PAUSE() __builtin_ia32_pause()
#else
#define SGPU_TRANSFER_PAUSE() ((void)0)
#endif

enum { SGPU_TRANSFER_SLOTS_MAX = 64 };

/* A group on its way between the host and the device: one slot of the staging memory there. */
struct sgpu_transfer_slot {
	struct sgpu_event *middle;     /* end of the first of its two steps: the copy in, or the sealing */
	struct sgpu_event *end;        /* end of both */
	struct sgpu_task copy, crypt;
};

/* Threads that work for live copies; none when the engine has one job. */
struct sgpu_transfer_crew;

struct sgpu_transfer {
	struct sgpu_device *device;
	struct sgpu_transfer_config config; /* without zeros */
	bool demotes;                  /* what was sealed */
	pthread_mutex_t lock;          /* of one copy */
	struct sgpu_stream *copy_in, *copy_out, *compute;
	sgpu_devptr staging;           /* sealed data on the device */
	uint64_t staging_size;
	uint8_t *ring;                 /* sealed data in pinned memory */
	uint64_t ring_size;
	struct sgpu_transfer_crew *crew;
	/* The copy that runs. */
	struct sgpu_transfer_slot slots[SGPU_TRANSFER_SLOTS_MAX];
	uint64_t slot_size;            /* bytes of staging memory of one */
	unsigned slot_count;
	uint64_t sent, drained;        /* groups */
};

struct sgpu_transfer_key {
	struct sgpu_transfer *transfer;
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *on_device;
	uint64_t next;                 /* chunks that were sealed */
	unsigned aead_count;
	struct sgpu_aead *aeads[];     /* one a thread */
};

/* What a copy does with one group. */
struct sgpu_transfer_group {
	uint64_t first, count;         /* chunks, from the begin of the copy */
};

/* ---- transfer.c ---- */
/* Bytes, sealed and whole pages, that a group of at most `group` bytes of plaintext may take. */
uint64_t sgpu_transfer_slot_size(const struct sgpu_transfer *transfer, uint64_t group);

/* ---- groups.c ---- */
struct sgpu_transfer_plan {
	uint64_t total;                /* chunks */
	uint64_t largest;              /* chunks of a group */
	uint64_t at_begin, at_end;     /* chunks of the smallest groups there; 0: no small ones */
};
/* The group that starts at chunk `first`. With total 0: one group of nothing. */
struct sgpu_transfer_group sgpu_transfer_group_at(const struct sgpu_transfer_plan *plan, uint64_t first);

/* Starts a copy: slots of `slot_size` bytes, as many as the staging memory holds, at most `slots`. */
void sgpu_transfer_begin(struct sgpu_transfer *transfer, uint64_t slot_size, unsigned slots);
/* Chunks of a group as they are enqueued. */
struct sgpu_transfer_run {
	struct sgpu_device_key *key;   /* NULL: nothing is opened, and the copy goes to or from `device` itself */
	uint64_t first;
	bool last;
	sgpu_devptr device;            /* plaintext; 0: the sealed data stay in the staging memory */
	uint64_t size;                 /* plaintext bytes; out only */
	void *host;                    /* sealed */
	uint64_t sealed_size;
};
/* Puts a group on the streams; a slot must be free. */
SGPU_MUST_CHECK int sgpu_transfer_send_in(struct sgpu_transfer *transfer, const struct sgpu_transfer_run *run,
					  struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_transfer_send_out(struct sgpu_transfer *transfer, const struct sgpu_transfer_run *run,
					   struct sgpu_error *error);
/* Waits for the oldest group and frees its slot. The first failure of a copy stays in the task. */
void sgpu_transfer_drain(struct sgpu_transfer *transfer, struct sgpu_task *task);
/* Whether the event of a group that was sent has completed; an error goes into the task and counts as completed. */
bool sgpu_transfer_reached(struct sgpu_event *event, struct sgpu_task *task);
/* Puts an error into a task that has none yet. */
void sgpu_transfer_note(struct sgpu_task *task, int code, const struct sgpu_error *error);
/* Ends a copy: waits for everything, and clears memory on the device (0: none) and of the host (NULL: none) when the
 * task has failed. Returns the task's code. */
int sgpu_transfer_end(struct sgpu_transfer *transfer, sgpu_devptr device, void *host, uint64_t size,
		      struct sgpu_task *task);

/* ---- crew.c ---- */
SGPU_MUST_CHECK int sgpu_transfer_crew_create(unsigned threads, struct sgpu_transfer_crew **crew,
					      struct sgpu_error *error);
void sgpu_transfer_crew_free(struct sgpu_transfer_crew **crew);
unsigned sgpu_transfer_crew_size(const struct sgpu_transfer_crew *crew);
/* Calls work(argument, thread) on all threads, with thread 0, 1, ...; join waits until all have returned. */
void sgpu_transfer_crew_start(struct sgpu_transfer_crew *crew, void (*work)(void *argument, unsigned thread),
			      void *argument);
void sgpu_transfer_crew_join(struct sgpu_transfer_crew *crew);
/* Whether all threads are awake and have begun. */
bool sgpu_transfer_crew_is_there(struct sgpu_transfer_crew *crew);
/* Passes a moment of waiting: the *rounds-th one, which starts at 0. */
void sgpu_transfer_pause(unsigned *rounds);

/* ---- live.c ---- */
/* The pinned memory of one group of a live copy, and who works on it. */
struct sgpu_transfer_share {
	/* The group's number, modulo 2^32, above a bit for each of its parts that was taken. In one word, so that
	 * nobody takes a part of a later group by mistake. */
	_Alignas(64) atomic_uint_fast64_t taken;
	_Alignas(64) atomic_uint finished; /* parts */
	atomic_uint parts;
	struct sgpu_transfer_group group;
	uint8_t *memory;
};

struct sgpu_transfer_live;
/* Works on chunks [begin, begin + count) of a copy, whose form on the bus is at `sealed`. `scratch` holds a chunk.
 * After an error *bad_chunk is the chunk, from the begin of the copy. */
typedef int sgpu_transfer_work_fn(struct sgpu_transfer_live *live, unsigned thread, uint64_t begin, uint64_t count,
				  uint8_t *sealed, void *scratch, uint64_t *bad_chunk);

struct sgpu_transfer_live {
	struct sgpu_transfer *transfer;
	struct sgpu_transfer_key *key;
	struct sgpu_transfer_plan plan;
	sgpu_transfer_work_fn *work;
	enum sgpu_transfer_stage stage;
	uint64_t base;                 /* number of the copy's first chunk */
	uint8_t *plaintext;            /* the host's */
	sgpu_devptr device;            /* the device's */
	uint64_t size;                 /* bytes of plaintext */
	uint64_t stride;               /* bytes of a whole chunk as it crosses the bus */
	bool demote;                   /* parts that were worked on */
	unsigned workers;              /* threads that prefer parts of their own */
	unsigned share_count;
	struct sgpu_transfer_share shares[SGPU_TRANSFER_SLOTS_MAX];
	_Alignas(64) atomic_uint_fast64_t offered; /* groups that can be worked on */
	_Alignas(64) atomic_bool over;
	pthread_mutex_t lock;          /* the failure below */
	int code;
	uint64_t bad_chunk;
	atomic_bool failed;
};

/* Bytes on the bus of `count` chunks from chunk `first` of the copy on, and of their plaintext. */
uint64_t sgpu_transfer_live_bytes(const struct sgpu_transfer_live *live, uint64_t first, uint64_t count);
uint64_t sgpu_transfer_live_plain(const struct sgpu_transfer_live *live, uint64_t first, uint64_t count);
/* Gives group number `number` to the threads. */
void sgpu_transfer_offer(struct sgpu_transfer_live *live, uint64_t number, struct sgpu_transfer_group group);
/* Works on one part of what was offered, if there is any. *oldest: the first group that may have one, 0 at first. */
bool sgpu_transfer_help(struct sgpu_transfer_live *live, uint64_t *oldest, unsigned thread, void *scratch);
/* Whether all parts of a group that was offered are done. */
bool sgpu_transfer_finished(struct sgpu_transfer_live *live, uint64_t number);
sgpu_transfer_work_fn sgpu_transfer_live_seal, sgpu_transfer_live_open, sgpu_transfer_live_copy,
	sgpu_transfer_live_encrypt;

/* ---- store.c ---- */
/* memcpy that leaves the caches to others: past them where the processor can. Fence: once, after the last call. */
void sgpu_transfer_store(void *to, const void *from, size_t size);
void sgpu_transfer_store_fence(void);
/* Moves memory that this core has written to the cache that all share: the bus reads what is in a core's own at little
 * more than half its speed. Most of it, since it takes time, too. No-operation where the processor cannot. */
void sgpu_transfer_demote(const void *memory, size_t size);
bool sgpu_transfer_can_demote(void);

#endif
