/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure channels, after Graviton (Volos, Vaswani, Bruno: Graviton: Trusted Execution Environments
 * on GPUs, OSDI 2018, sections 4 to 6), on stock hardware: the command processor is trusted
 * software over the device's own memory mapping.
 *
 * Three parties that share nothing but the messages below:
 *   processor   trusted. Owns the table of pages, the page tables, the channel keys, and the
 *               mapping.
 *   allocator   not trusted. Decides which pages are mapped at which addresses, and says so in
 *               commands.
 *   session     trusted, the owner's side. Holds the channel key (CEK), seals command groups,
 *               checks what comes back.
 *
 * A channel's context is its own: an address space, a CEK, tables and pages, which it shares with
 * no other channel, even of the same owner. Memory is counted in frames, the small pages of the
 * device.
 */
#ifndef SGPU_CHANNEL_CHANNEL_H
#define SGPU_CHANNEL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/keys.h>
#include <sgpu/device.h>

/* ---- the address space of a channel ----
 * A directory has SGPU_CHANNEL_ENTRIES entries; each can hold a table of small pages, a table of
 * big pages, or both. A table of small pages has SGPU_CHANNEL_ENTRIES entries, one of big pages as
 * many as cover the same range. So VA = (directory index * SGPU_CHANNEL_ENTRIES + small index) *
 * small; the device's address is the context's base + VA. A directory and a table take one frame
 * each of the protected region; what they hold is kept in hidden memory. */
enum {
	SGPU_CHANNEL_ENTRIES = 4096,
	SGPU_CHANNEL_MAX = 1024,       /* channel ids are below */
	SGPU_CHANNEL_PAGES_MAX = 4096, /* pages in one CH_PTE */
	SGPU_CHANNEL_MAC_SIZE = 32,
	SGPU_GROUP_MAX = 16384, /* bytes of a sealed command group with its tag */
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

/* A command as the allocator gives it. Frames are numbers; a page of size `big` is named by its
 * first frame. `via` is the channel through which the command is sent. For CH_SUBMIT it is the
 * channel itself, else a bootstrap channel. CH_CREATE of a bootstrap channel ignores it. */
struct sgpu_command {
	enum sgpu_channel_op op;
	uint32_t via, channel;
	union {
		struct {
			uint32_t directory; /* frame */
			/* Without a key: a bootstrap channel if the directory is unprotected, else
			 * a channel whose pages are not locked and which takes no groups. */
			bool has_key;
			uint8_t owner_key[32]; /* X25519, public */
		} create;
		struct {
			uint32_t index;
			uint32_t table; /* frame; SGPU_NO_FRAME only takes the old table out */
			bool big;
		} pde;
		struct {
			uint32_t directory_index, table_index;
			bool big;
			bool has_mac; /* authorises the unmapping of what is mapped there */
			uint64_t mac_counter;
			uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
			uint32_t count; /* pages, 1 to SGPU_CHANNEL_PAGES_MAX; within the table */
			/* `count` frames: for entries that are all empty, or those that the entries
			 * have already; or all SGPU_NO_FRAME, to unmap entries of which none is
			 * empty. Borrowed. */
			const uint32_t *pages;
		} pte;
		struct {
			uint64_t va, size;
			bool keyed; /* the digest is keyed with the CEK, else anybody can compute it
				     */
		} measure;
		struct {
			bool has_mac;
			uint64_t mac_counter;
			uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
		} destroy;
		struct {
			const uint8_t *group; /* ciphertext and tag; borrowed */
			uint32_t size;
			uint64_t counter; /* it claims to be number `counter` of the channel */
		} submit;
	};
};

/* Why a command was refused; a refused command changes nothing. (If the device fails during an
 * unmapping, the pages stay, but may have been cleared.) */
enum sgpu_refusal {
	SGPU_REFUSED_NOT, /* it was carried out */
	SGPU_REFUSED_MALFORMED,
	SGPU_REFUSED_NO_CHANNEL, /* there is no such channel */
	SGPU_REFUSED_EXISTS,	 /* the channel exists */
	SGPU_REFUSED_RANGE,	 /* frame, index, address or size out of range, or not aligned */
	SGPU_REFUSED_REGION,	 /* the page lies in the wrong region */
	SGPU_REFUSED_NOT_FREE,	 /* the page is in use */
	SGPU_REFUSED_FOREIGN,	 /* the page belongs to another channel */
	SGPU_REFUSED_LOCKED,	 /* locked, and no MAC authorises it */
	SGPU_REFUSED_MAC,	 /* the MAC does not verify, or its counter is not the next one */
	SGPU_REFUSED_ALIAS, /* two physical pages for one virtual, or a page that stands at another
			       address */
	SGPU_REFUSED_NO_TABLE,	 /* no page table is mapped there */
	SGPU_REFUSED_NOT_EMPTY,	 /* the table has entries */
	SGPU_REFUSED_NOT_MAPPED, /* the range is not mapped in this channel */
	SGPU_REFUSED_BOOTSTRAP, /* a wrong `via`, or a command that is not for bootstrap channels */
	SGPU_REFUSED_COUNTER, /* dropped, replayed or reordered: the counter is not the next one */
	SGPU_REFUSED_SEAL,    /* the group does not verify under the CEK */
	SGPU_REFUSED_GROUP,   /* it has items where none are taken */
	SGPU_REFUSED_LIMIT,   /* too many channels, references or entries */
	SGPU_REFUSED_DEVICE,  /* the device failed; the text says how */
	SGPU_REFUSALS
};
/* What a channel's owner gets from CH_CREATE. The CEK is sealed with HPKE (base mode) to the
 * owner's key: info "sgpu channel v1", associated data channel || serial || owner_hash ||
 * processor, integers little endian. */
struct sgpu_grant {
	uint32_t channel;
	uint32_t serial; /* never used twice by this processor: part of every nonce and MAC */
	uint8_t owner_hash[SGPU_SHA256_SIZE]; /* SHA-256 of the owner's public key */
	uint8_t processor[16];		      /* random, drawn when the processor was made */
	uint8_t enc[32], sealed_cek[SGPU_KEY_SIZE + SGPU_TAG_SIZE];
};
/* What CH_PTE reports. The MAC is under a key derived from the CEK and covers the whole summary, so
 * that the owner knows what was really mapped; it has no meaning without the CEK. */
struct sgpu_summary {
	uint32_t channel, serial;
	uint64_t counter; /* number among this channel's reports, from 1: the owner refuses old ones
			   */
	uint64_t va, size;		 /* bytes that the command covered */
	uint32_t protected_pages, pages; /* pages that it mapped: protected ones, and all */
	/* KT128 of the frame numbers of the protected ones, 32-bit little endian. */
	uint8_t hash[SGPU_KT128_SIZE];
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
};

/* What CH_MEASURE reports. The digest is that of sgpu_measure_pages, if keyed with a key derived
 * from the CEK. The untrusted side carries it and may have a single byte measured, which it could
 * guess from the digest. So the digest of a channel with a key is masked (sgpu_mask_measurement);
 * the session takes the mask off. */
struct sgpu_measurement {
	uint32_t channel, serial;
	uint64_t counter; /* in one sequence with sgpu_summary's */
	uint64_t va, size;
	bool keyed;
	uint8_t digest[SGPU_KT128_SIZE];
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
};

struct sgpu_reply {
	enum sgpu_refusal refusal;
	int code; /* SGPU_OK; else SGPU_EINVALID, SGPU_EPOLICY, SGPU_EAUTH, SGPU_EDEVICE */
	struct sgpu_error error;
	union {
		struct sgpu_grant grant;     /* CH_CREATE with a key */
		struct sgpu_summary summary; /* CH_PTE of a channel with a key */
		/* CH_MEASURE; of a channel without key: no MAC, not keyed */
		struct sgpu_measurement measurement;
	};
};

/* ---- the processor ---- */
struct sgpu_processor;

struct sgpu_processor_config {
	uint32_t frames;      /* physical memory; at most info.total / info.small */
	uint32_t unprotected; /* frames at the beginning, which hold nothing of an owner */
	uint32_t hidden;      /* frames at the end that nobody maps, for keys and tables */
	uint64_t space_size;  /* bytes of addresses a context gets, 0: twice the frames */
};

/* The device is borrowed. All frames are assumed to hold secrets at first: each is cleared before
 * it is first mapped, unless the device says that memory that was never mapped is new (info.fresh).
 * Errors: SGPU_EUNAVAILABLE where the device maps no pages. */
SGPU_MUST_CHECK int sgpu_processor_create(struct sgpu_device *device,
					  const struct sgpu_processor_config *config,
					  struct sgpu_processor **processor,
					  struct sgpu_error *error);
/* Destroys all channels: clears, unmaps; wipes keys. */
void sgpu_processor_free(struct sgpu_processor **processor);

/* Carries out a command of the untrusted side of this program. The struct is read once, at first.
 * May be called from several threads. Returns reply->code. */
int sgpu_processor_command(struct sgpu_processor *processor, const struct sgpu_command *command,
			   struct sgpu_reply *reply);

/* Base and size of the space of the channel's context. */
SGPU_MUST_CHECK int sgpu_processor_space(struct sgpu_processor *processor, uint32_t channel,
					 sgpu_devptr *base, uint64_t *size,
					 struct sgpu_error *error);
/* ---- for trusted code in the processor's own program: lib/secure ---- */
struct sgpu_binding; /* keys.h */
/* Begins a request of trusted code in this process (lib/secure): every range must be mapped in the
 * context of the channel, and that context becomes the one that kernels reach. Contexts that want
 * the device take turns in the order in which they ask; a context that is active already does not
 * wait for requests under way. Until sgpu_processor_leave nothing is unmapped and no other context
 * becomes reachable: the caller enqueues the request in between, sends no command, and begins no
 * other request. A range of no bytes touches nothing. Errors: SGPU_EUSAGE (a range that is not the
 * context's, no such channel), SGPU_EDEVICE; there is nothing to leave then. */
SGPU_MUST_CHECK int sgpu_processor_enter(struct sgpu_processor *processor, uint32_t channel,
					 const struct sgpu_device_range *ranges, int count,
					 struct sgpu_error *error);
void sgpu_processor_leave(struct sgpu_processor *processor);
/* Binds the channel of a grant, before its first group: it then takes groups of the bound session
 * alone. Errors: SGPU_EUSAGE (the channel has had a group, or does not exist), SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_processor_bind(struct sgpu_processor *processor,
					const struct sgpu_grant *grant,
					const struct sgpu_binding *binding,
					struct sgpu_error *error);
/* Opens the group of a CH_SUBMIT, which nobody changes meanwhile: *size bytes of items, which the
 * caller carries out and wipes. Returns reply->code. */
int sgpu_processor_open_group(struct sgpu_processor *processor, const struct sgpu_command *command,
			      uint8_t items[SGPU_GROUP_MAX], size_t *size,
			      struct sgpu_reply *reply);
/* Seals the answer to the group that was taken last: once, under its number *counter. `sealed` has
 * room for size + SGPU_TAG_SIZE. Errors: SGPU_EUSAGE (no group is left to answer; more than
 * SGPU_GROUP_MAX). */
SGPU_MUST_CHECK int sgpu_processor_answer(struct sgpu_processor *processor, uint32_t channel,
					  const void *answer, size_t size, uint8_t *sealed,
					  uint64_t *counter, struct sgpu_error *error);
/* Checks that the processor made this very grant, and that its channel exists. Anybody can seal a
 * key of their own to an owner, so a grant from other hands proves nothing by itself. Errors:
 * SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_processor_vouch(struct sgpu_processor *processor,
					 const struct sgpu_grant *grant, struct sgpu_error *error);

/* ---- the session: the owner's side of one channel ---- */
struct sgpu_session;
/* Opens the CEK in a grant with the owner's X25519 private key. Errors: SGPU_EAUTH, SGPU_EKEY (the
 * grant is for another key). That a grant opens does not prove who made it: the evidence that came
 * with it does. A grant is opened only once, since a second session would seal with the numbers,
 * and so the nonces, of the first. */
SGPU_MUST_CHECK int sgpu_session_open(const struct sgpu_key *owner, const struct sgpu_grant *grant,
				      struct sgpu_session **session, struct sgpu_error *error);
void sgpu_session_close(struct sgpu_session **session); /* wipes it */
/* Seals the next group: `group` has room for size + SGPU_TAG_SIZE. *counter is its number. If the
 * group does not arrive, the same bytes can be sent again. If it was refused for its counter or its
 * seal, its number is not used up. One thread at a time. */
SGPU_MUST_CHECK int sgpu_session_seal(struct sgpu_session *session, const void *items, size_t size,
				      uint8_t *group, uint64_t *counter, struct sgpu_error *error);
/* Opens the sealed answer to group number `counter`, which must be newer than the last one that was
 * opened. `answer` has room for size - SGPU_TAG_SIZE. Errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_session_answer(struct sgpu_session *session, const uint8_t *sealed,
					size_t size, uint64_t counter, uint8_t *answer,
					struct sgpu_error *error);
/* Make the MAC for a CH_PTE that unmaps, and for CH_DESTROY. Each takes the next number of the
 * channel's authorisations: *counter. */
void sgpu_session_unmap(struct sgpu_session *session, uint64_t va, uint64_t size, uint64_t *counter,
			uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
void sgpu_session_destroy(struct sgpu_session *session, uint64_t *counter,
			  uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
/* Checks that a report is this channel's, unaltered, and newer than all before. Errors: SGPU_EAUTH.
 */
SGPU_MUST_CHECK int sgpu_session_summary(struct sgpu_session *session,
					 const struct sgpu_summary *summary,
					 struct sgpu_error *error);
/* Checks a measurement likewise, and takes the mask off its digest. */
SGPU_MUST_CHECK int sgpu_session_measurement(struct sgpu_session *session,
					     struct sgpu_measurement *measurement,
					     struct sgpu_error *error);

/* ---- the allocator: the untrusted side that works ----
 * One thread at a time. The config is the processor's: it needs one unprotected frame, for its
 * bootstrap channel, number 0. */
struct sgpu_allocator;
/* How the allocator's commands reach the processor: sgpu_processor_command, a wire, or a test in
 * between. Returns reply->code. */
typedef int (*sgpu_command_fn)(void *processor, const struct sgpu_command *command,
			       struct sgpu_reply *reply);
SGPU_MUST_CHECK int sgpu_allocator_create(const struct sgpu_pages_info *info,
					  const struct sgpu_processor_config *config,
					  sgpu_command_fn send, void *processor,
					  struct sgpu_allocator **allocator,
					  struct sgpu_error *error);
void sgpu_allocator_free(struct sgpu_allocator **allocator);
/* Makes a channel for an owner's key: *grant. */
SGPU_MUST_CHECK int sgpu_allocator_channel(struct sgpu_allocator *allocator,
					   const uint8_t owner_key[32], struct sgpu_grant *grant,
					   struct sgpu_error *error);
/* What the owner's side does for the allocator: it takes each summary, and authorises the unmapping
 * of a range. */
typedef int (*sgpu_report_fn)(void *argument, const struct sgpu_summary *summary,
			      struct sgpu_error *error);
typedef void (*sgpu_authorise_fn)(void *argument, uint64_t va, uint64_t size, uint64_t *counter,
				  uint8_t mac[SGPU_CHANNEL_MAC_SIZE]);
/* Maps `size` bytes, rounded up to whole pages, in big pages as far as they fit. *va: where;
 * *mapped: bytes. The summaries go to `report`, one for each command. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_allocator_map(struct sgpu_allocator *allocator, uint32_t channel,
				       uint64_t size, uint64_t *va, uint64_t *mapped,
				       sgpu_report_fn report, void *argument,
				       struct sgpu_error *error);
/* Unmaps what sgpu_allocator_map gave: asks `authorise` for a MAC for each range; `report` gets the
 * summaries. A MAC that went out may be used at any time: until a summary says that nothing is
 * mapped in its range any more, the owner uses nothing there. */
SGPU_MUST_CHECK int sgpu_allocator_unmap(struct sgpu_allocator *allocator, uint32_t channel,
					 uint64_t va, uint64_t mapped, sgpu_authorise_fn authorise,
					 sgpu_report_fn report, void *argument,
					 struct sgpu_error *error);
/* Sends CH_MEASURE: the processor's measurement, for sgpu_session_measurement. */
SGPU_MUST_CHECK int sgpu_allocator_measure(struct sgpu_allocator *allocator, uint32_t channel,
					   uint64_t va, uint64_t size, bool keyed,
					   struct sgpu_measurement *measurement,
					   struct sgpu_error *error);
/* Destroys a channel. mac NULL: without the owner's authorisation. */
SGPU_MUST_CHECK int sgpu_allocator_destroy(struct sgpu_allocator *allocator, uint32_t channel,
					   uint64_t counter, const uint8_t *mac,
					   struct sgpu_error *error);

#endif
