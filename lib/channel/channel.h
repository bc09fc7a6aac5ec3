/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure channels, after Graviton (Volos, Vaswani, Bruno, OSDI 2018, sections 4 to 6; sgpu(7)), on
 * stock hardware: the command processor is trusted software over the device's own memory mapping.
 *
 * Three parties exchange the messages below and share nothing else:
 *   processor   trusted: owns the table of pages, the page tables, the keys and the mapping
 *   allocator   not trusted: decides by commands which pages are mapped where
 *   session     trusted, the owner's: holds the channel key (CEK), seals groups, checks answers
 *
 * Each channel, even of one owner, has its own context: an address space, a CEK, page tables and
 * pages. Memory is counted in frames, the device's small pages.
 */
#ifndef SGPU_CHANNEL_CHANNEL_H
#define SGPU_CHANNEL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/keys.h>
#include <sgpu/device.h>

/* ---- the address space of a channel ----
 * A directory has at most SGPU_CHANNEL_ENTRIES entries; each can hold a table of as many small
 * pages, a table of big pages for the same range, or both. So VA = (directory index *
 * SGPU_CHANNEL_ENTRIES + small index) * size of a small page; the device's address is the context's
 * base + VA. Each directory or table occupies a protected frame, but its contents are in the
 * processor's memory. Each used frame belongs to one channel. */
enum {
	SGPU_CHANNEL_ENTRIES = 4096,
	SGPU_CHANNEL_MAX = 1024,       /* channel ids are below this */
	SGPU_CHANNEL_PAGES_MAX = 4096, /* pages in one CH_PTE */
	SGPU_CHANNEL_MAC_SIZE = 32,
	SGPU_GROUP_MAX = 16384, /* most bytes of a sealed command group with its tag */
};

enum sgpu_channel_op {
	SGPU_CH_CREATE = 1,
	SGPU_CH_PDE = 2,
	SGPU_CH_PTE = 3,
	SGPU_CH_MEASURE = 4,
	SGPU_CH_DESTROY = 5,
	SGPU_CH_SUBMIT = 6, /* a sealed command group */
};

enum { SGPU_NO_FRAME = 0xffffffff };

/* A command to the processor. A big page is given by its first frame. */
struct sgpu_command {
	enum sgpu_channel_op op;
	uint32_t channel;
	union {
		struct {
			uint32_t directory;    /* frame */
			uint8_t owner_key[32]; /* X25519, public */
		} create;
		struct {
			uint32_t index;
			uint32_t table; /* its frame; SGPU_NO_FRAME: remove the old table */
			bool big;
		} pde;
		struct {
			uint32_t directory_index, table_index;
			bool big;
			bool has_mac; /* `mac` authorises an unmapping of these pages */
			uint64_t mac_counter;
			uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
			uint32_t count; /* pages, 1 to SGPU_CHANNEL_PAGES_MAX, in one table */
			/* To map: `count` frames, borrowed; all entries are empty. To unmap: NULL;
			 * no entry is empty. */
			const uint32_t *pages;
		} pte;
		struct {
			uint64_t va, size;
			bool keyed; /* the digest takes a key derived from the CEK */
		} measure;
		struct {
			bool has_mac;
			uint64_t mac_counter;
			uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
		} destroy;
		struct {
			const uint8_t *group; /* ciphertext and tag; borrowed */
			uint32_t size;
			uint64_t counter; /* the group's number, as claimed */
		} submit;
	};
};

/* A refused command changed nothing, unless the device failed: then mapped pages may have been
 * cleared. The numbers: sgpu-session(5). */
enum sgpu_refusal {
	SGPU_REFUSED_NOT, /* the command was carried out */
	SGPU_REFUSED_MALFORMED,
	SGPU_REFUSED_NO_CHANNEL,
	SGPU_REFUSED_EXISTS,
	SGPU_REFUSED_RANGE, /* frame, index, address or size out of range, or not aligned */
	SGPU_REFUSED_NOT_FREE = 6,
	SGPU_REFUSED_FOREIGN, /* another channel's page; a hello of no owner */
	SGPU_REFUSED_LOCKED,  /* no MAC authorises this, or the table has entries */
	SGPU_REFUSED_MAC,     /* wrong, or not the next one */
	SGPU_REFUSED_ALIAS,   /* two pages for one address, or one page at two addresses */
	SGPU_REFUSED_NO_TABLE,
	SGPU_REFUSED_NOT_MAPPED,   /* in this channel */
	SGPU_REFUSED_COUNTER = 15, /* a group was lost, replayed or reordered */
	SGPU_REFUSED_SEAL,	   /* the group does not verify */
	SGPU_REFUSED_LIMIT,	   /* no serial number is left */
	SGPU_REFUSED_DEVICE,	   /* the device failed, or a channel cannot be made */
	SGPU_REFUSALS
};
/* For the channel's owner, to whose key HPKE (base mode) seals the CEK: info SGPU_GRANT_INFO,
 * associated data the members before `enc`. A grant is sent as it lies in memory. */
#define SGPU_GRANT_INFO "sgpu channel v1"
struct sgpu_grant {
	uint32_t channel;
	uint32_t serial; /* in every nonce and MAC; this processor never uses one twice */
	uint8_t owner_hash[SGPU_SHA256_SIZE]; /* SHA-256 of the owner's public key */
	uint8_t processor[16];		      /* random, drawn when the processor was made */
	uint8_t enc[32], sealed_cek[SGPU_KEY_SIZE + SGPU_TAG_SIZE];
};
/* The report of a CH_PTE or CH_MEASURE to the owner. The MAC covers the report and the command.
 * CH_MEASURE's digest is masked: the untrusted side may have a single byte measured, and could
 * guess it. */
struct sgpu_report {
	uint32_t channel, serial;
	uint64_t counter;  /* of the channel's reports, from 1 */
	uint64_t va, size; /* bytes that the command covered */
	union {
		uint32_t pages; /* CH_PTE: how many it mapped */
		uint32_t keyed; /* CH_MEASURE: 0 or 1 */
	};
	/* CH_PTE: KT128 of the mapped pages' frame numbers, 32-bit little endian. CH_MEASURE:
	 * sgpu_measure_pages, `keyed` as in the command. */
	uint8_t digest[SGPU_KT128_SIZE];
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
};

struct sgpu_reply {
	enum sgpu_refusal refusal;
	int code; /* SGPU_OK, SGPU_EINVALID, SGPU_EPOLICY, SGPU_EAUTH, SGPU_EDEVICE, SGPU_ENOMEM */
	struct sgpu_error error;
	union {
		struct sgpu_grant grant;   /* CH_CREATE */
		struct sgpu_report report; /* CH_PTE, CH_MEASURE */
	};
};

/* ---- the processor ---- */
struct sgpu_processor;

struct sgpu_processor_config {
	uint32_t frames;     /* of physical memory, from 0; at most info.total / info.small */
	uint64_t space_size; /* bytes of a context's address space, 0: twice the frames */
};

enum { SGPU_SMALL, SGPU_BIG, SGPU_KINDS };
struct sgpu_layout {
	uint64_t page_size[SGPU_KINDS];
	uint64_t window; /* bytes that a directory's entry covers */
	uint64_t space;	 /* bytes, as space_size */
	uint32_t frames_of[SGPU_KINDS], entries_of[SGPU_KINDS], directory_entries;
};
struct sgpu_layout sgpu_layout_of(const struct sgpu_pages_info *info,
				  const struct sgpu_processor_config *config);

/* Borrows the device, which zeroes memory that was never mapped. Errors: SGPU_EUNAVAILABLE (the
 * device maps no pages). */
SGPU_MUST_CHECK int sgpu_processor_create(struct sgpu_device *device,
					  const struct sgpu_processor_config *config,
					  struct sgpu_processor **processor,
					  struct sgpu_error *error);
/* Clears and unmaps all channels' pages, and wipes their keys. Where the device fails, pages stay
 * as they are. */
void sgpu_processor_free(struct sgpu_processor **processor);

/* Carries out the untrusted side's command, which is read once; a CH_SUBMIT goes to
 * sgpu_processor_open_group. Several threads may call this. Returns reply->code. */
int sgpu_processor_command(struct sgpu_processor *processor, const struct sgpu_command *command,
			   struct sgpu_reply *reply);

SGPU_MUST_CHECK int sgpu_processor_space(struct sgpu_processor *processor, uint32_t channel,
					 sgpu_devptr *base, struct sgpu_error *error);
/* ---- for trusted code in the processor's own program ---- */
struct sgpu_hello; /* keys.h */
/* Every range must be mapped in the channel's context, which becomes the one that kernels reach.
 * Requests are served in the order of the calls; one for the active context does not wait until
 * others have left. Until sgpu_processor_leave nothing is unmapped, no other context becomes
 * reachable, and the caller may send no command and begin no other request. Errors, after which
 * there is nothing to leave: SGPU_EUSAGE (a range outside the context, no such channel),
 * SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_processor_enter(struct sgpu_processor *processor, uint32_t channel,
					 const struct sgpu_device_range *ranges, int count,
					 struct sgpu_error *error);
void sgpu_processor_leave(struct sgpu_processor *processor);
/* Binds the channel of a grant to a session, whose groups alone it takes from then on. Errors:
 * SGPU_EUSAGE (the channel had a group, or does not exist), SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_processor_bind(struct sgpu_processor *processor,
					const struct sgpu_grant *grant,
					const struct sgpu_hello *hello, struct sgpu_error *error);
/* Opens a CH_SUBMIT's group into `items`: *size bytes, which the caller carries out and wipes.
 * Nobody may change *command meanwhile. Returns reply->code. */
int sgpu_processor_open_group(struct sgpu_processor *processor, const struct sgpu_command *command,
			      uint8_t items[SGPU_GROUP_MAX], size_t *size,
			      struct sgpu_reply *reply);
/* Seals the only answer to the group opened last, number *counter. `sealed` has room for size +
 * SGPU_TAG_SIZE. Errors: SGPU_EUSAGE (no such channel, no group to answer, too long). */
SGPU_MUST_CHECK int sgpu_processor_answer(struct sgpu_processor *processor, uint32_t channel,
					  const void *answer, size_t size, uint8_t *sealed,
					  uint64_t *counter, struct sgpu_error *error);
/* Checks that the processor made this very grant, and that its channel exists: anybody can seal
 * their own key to an owner. Errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_processor_vouch(struct sgpu_processor *processor,
					 const struct sgpu_grant *grant, struct sgpu_error *error);

/* ---- the session: the owner's side of one channel ---- */
struct sgpu_session;
/* Opens a grant's CEK with the owner's X25519 private key. A grant does not show who made it. Open
 * a grant only once: a second session would use the first one's nonces again. Errors: SGPU_EAUTH,
 * SGPU_EKEY (the grant is for another key). */
SGPU_MUST_CHECK int sgpu_session_open(const struct sgpu_key *owner, const struct sgpu_grant *grant,
				      struct sgpu_session **session, struct sgpu_error *error);
void sgpu_session_close(struct sgpu_session **session);
/* Seals `items` as the next group, number *counter; `group` has room for size + SGPU_TAG_SIZE. If
 * the group does not arrive, or is refused for its counter or seal, the same bytes can be sent
 * again. One thread at a time. */
SGPU_MUST_CHECK int sgpu_session_seal(struct sgpu_session *session, const void *items, size_t size,
				      uint8_t *group, uint64_t *counter, struct sgpu_error *error);
/* Opens the answer to group `counter`, which must be later than the last answered one. `answer` has
 * room for size - SGPU_TAG_SIZE. Errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_session_answer(struct sgpu_session *session, const uint8_t *sealed,
					size_t size, uint64_t counter, uint8_t *answer);
/* Makes the MAC for a CH_PTE that unmaps `unmapped`, an address and a size, or, if NULL, for
 * CH_DESTROY. *counter: the authorisation's. */
void sgpu_session_authorise(struct sgpu_session *session, const uint64_t unmapped[2],
			    uint64_t *counter, uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
/* Checks that a report is of this channel and operation and newer than the last, and unmasks a
 * measured digest. Errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_session_report(struct sgpu_session *session, enum sgpu_channel_op op,
					struct sgpu_report *report, struct sgpu_error *error);

/* ---- the allocator, which is not trusted ----
 * One thread at a time. `config` is the processor's. */
struct sgpu_allocator;
/* Has the processor carry out a command. The owner's side of this function authorises unmapping,
 * and fails for a summary that it does not believe. Returns reply->code. */
typedef int (*sgpu_command_fn)(void *argument, const struct sgpu_command *command,
			       struct sgpu_reply *reply);
SGPU_MUST_CHECK int sgpu_allocator_create(const struct sgpu_pages_info *info,
					  const struct sgpu_processor_config *config,
					  sgpu_command_fn send, void *argument,
					  struct sgpu_allocator **allocator,
					  struct sgpu_error *error);
void sgpu_allocator_free(struct sgpu_allocator **allocator);
SGPU_MUST_CHECK int sgpu_allocator_channel(struct sgpu_allocator *allocator,
					   const uint8_t owner_key[32], struct sgpu_grant *grant,
					   struct sgpu_error *error);
/* Maps `size` bytes, rounded up to whole pages, at *va, in big pages where they fit. Even after an
 * error, *mapped bytes stay mapped. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_allocator_map(struct sgpu_allocator *allocator, uint32_t channel,
				       uint64_t size, uint64_t *va, uint64_t *mapped,
				       struct sgpu_error *error);
/* Unmaps all that one sgpu_allocator_map mapped. */
SGPU_MUST_CHECK int sgpu_allocator_unmap(struct sgpu_allocator *allocator, uint32_t channel,
					 uint64_t va, uint64_t mapped, struct sgpu_error *error);
/* Sends CH_MEASURE; sgpu_session_report must check the report. */
SGPU_MUST_CHECK int sgpu_allocator_measure(struct sgpu_allocator *allocator, uint32_t channel,
					   uint64_t va, uint64_t size, bool keyed,
					   struct sgpu_report *report, struct sgpu_error *error);
/* mac NULL: without the owner's authorisation. */
SGPU_MUST_CHECK int sgpu_allocator_destroy(struct sgpu_allocator *allocator, uint32_t channel,
					   uint64_t counter, const uint8_t *mac,
					   struct sgpu_error *error);

/* ---- secure contexts ----
 * Graviton's runtime functions (cudaSecureMalloc and others) as library calls; context.h says how.
 *
 * Code written for sgpu/device.h, such as lib/run, can run inside a context: sgpu_secure_device().
 *
 * Sizes are bytes. Several threads may use a context, except to create or destroy it. */
struct sgpu_secure;

struct sgpu_secure_config {
	/* A context of the same device, whose processor this one shares; neither reaches the
	 * other's memory. NULL: the context makes a processor, which takes all of the device's
	 * memory. */
	struct sgpu_secure *sibling;
	/* For tests: called between the allocator and the processor. NULL: none. */
	sgpu_command_fn between;
};

/* config NULL: zeros. The device is borrowed and must outlive the context. Errors:
 * SGPU_EUNAVAILABLE (the device maps no pages), SGPU_ENOMEM, SGPU_EUSAGE (a sibling of another
 * device), SGPU_EAUTH, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_create(struct sgpu_device *device,
				       const struct sgpu_secure_config *config,
				       struct sgpu_secure **context, struct sgpu_error *error);
/* Clears and frees everything. Work must have ended, and streams, modules, and contexts that name
 * this one as their sibling must have been freed. */
void sgpu_secure_destroy(struct sgpu_secure **context);

/* Returns the context as a device, which the context owns: sgpu_device_close ignores it. */
struct sgpu_device *sgpu_secure_device(struct sgpu_secure *context);

/* Copies from the host to the device, and waits for the end. The host seals the data under a random
 * key, and the device opens and verifies them, so only ciphertext passes in between. The copy does
 * not wait for streams: work that writes the memory must have ended. Errors: SGPU_EAUTH,
 * SGPU_EUSAGE (outside the context's memory), SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_memcpy(struct sgpu_secure *context, const void *host,
				       sgpu_devptr memory, uint64_t size, struct sgpu_error *error);

/* Copies the image into protected memory, measures it there (CH_MEASURE), compares the result with
 * `digest` (sgpu_measure_pages, not keyed), and only then loads a copy in host memory, since
 * drivers take code only from there. Free the module with sgpu_device_module_free. Errors:
 * SGPU_EPOLICY (the digest differs), those of sgpu_device_module_load. sgpu_device_module_launch_on
 * refuses a launch whose `memory` is NULL (SGPU_EPOLICY) or outside the context (SGPU_EUSAGE). On a
 * GPU only the mapping of pages limits what else a function touches. */
SGPU_MUST_CHECK int sgpu_secure_module_load(struct sgpu_secure *context, const void *image,
					    size_t size, const uint8_t digest[SGPU_KT128_SIZE],
					    struct sgpu_device_module **module,
					    struct sgpu_error *error);
/* Measures the context's device memory by CH_MEASURE, and verifies the answer. keyed: with a key of
 * the context, so only its own digests can be compared. Errors: SGPU_EUSAGE (memory outside the
 * context), SGPU_EAUTH, SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_secure_measure(struct sgpu_secure *context, sgpu_devptr memory,
					uint64_t size, bool keyed, uint8_t digest[SGPU_KT128_SIZE],
					struct sgpu_error *error);

struct sgpu_secure_stats {
	uint64_t requests;		   /* accepted ones that touch device memory */
	uint64_t commands, refused;	   /* the allocator's commands; how many were refused */
	uint64_t mapped_bytes, used_bytes; /* of pages; of allocations */
};
void sgpu_secure_get_stats(struct sgpu_secure *context, struct sgpu_secure_stats *stats);

#endif
