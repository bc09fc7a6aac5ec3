/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between two owners, the host, a runner and a second recipient as a bounded state machine, for spin. The host
 * is the attacker: it carries every message, keeps all of them, and drops, replays, swaps and recombines what it has.
 * Cryptography is perfect: what a key protects is readable or made by those alone who hold the key.
 *
 * The runner's list has both owners. Both signed the first batch, and each of them rewraps it for another recipient, which
 * leaves the rewrapper's signature alone, over other recipients. The second batch is the second owner's. Three runs, every
 * order of steps. Each rule that a program enforces, or that an owner keeps, is a macro: with -DWITHOUT_NAME that rule is
 * left out, and the model has to find the attack. tests/bats/model.bats runs the model whole and once without each rule.
 * docs/threat-model.md, "The protocol", has the same in words.
 *
 *   -DNO_STATE   the runner keeps no directory for state: a restart forgets which batches ran
 *   -DUNOWNED    sgpu-run without --owners: no signature, no memory of batches, no window. What then holds is checked alone
 *   -DFOREIGN    the host has the key of the second recipient. What then holds is checked alone
 *   -DREACHABLE  the honest end counts as an error, which shows that the model can get there
 */

#ifdef UNOWNED
#define WITHOUT_OWNERS
#define WITHOUT_REPLAY_CACHE
#define WITHOUT_EXPIRY
#endif
#ifdef FOREIGN
#define WITHOUT_TRUSTED_SEALING
#define WITHOUT_TRUSTED_ANSWERING
#endif
#ifdef WITHOUT_REPORT_BINDS_CLAIMS /* the report covers signing key and nonce alone */
#define BINDS_CLAIMS(r, key) (true)
#else
#define BINDS_CLAIMS(r, key) (report_key[r] == (key))
#endif
#ifdef WITHOUT_NONCE
#define FRESH(r) (true)
#else
#define FRESH(r) (report_nonce[r] == NONCE_NEW)
#endif
#ifdef WITHOUT_MEASUREMENT
#define KNOWN_IMAGE(r) (true)
#else
#define KNOWN_IMAGE(r) (report_image[r] == IMAGE_GOOD)
#endif
#ifdef WITHOUT_DEBUG_OFF
#define DEBUG_OFF(r) (true)
#else
#define DEBUG_OFF(r) (!report_debug[r])
#endif
#ifdef WITHOUT_REPORT /* the policy asks for no report of the hardware: the signature is enough */
#define DEMANDS_REPORT false
#else
#define DEMANDS_REPORT true
#endif
#ifdef WITHOUT_OWNERS /* sgpu-run without --owners */
#define SIGNED(signer, changed) (true)
#else
#ifdef WITHOUT_SIGNED_RECIPIENTS /* the signature covers id, manifest and runner, but neither recipients nor wrapped keys */
#define SIGNED(signer, changed) (LISTED(signer))
#else
#define SIGNED(signer, changed) (LISTED(signer) && !(changed))
#endif
#endif
#ifdef WITHOUT_REPLAY_CACHE
#define UNSEEN(b, signer, content) (true)
#else
#ifdef WITHOUT_IDENTITY /* a batch is remembered by its owner, the first that signed, and by what is signed, recipients too */
#define UNSEEN(b, signer, content) (!remembered_of[(b) * SIGNERS + (signer)] && !remembered_as[(b) * CONTENTS + (content)])
#else
#define UNSEEN(b, signer, content) (!remembered[b])
#endif
#endif
#ifdef WITHOUT_EXPIRY
#define RECENT(b) (true)
#else
#define RECENT(b) (!old[b])
#endif
#ifdef WITHOUT_FILES_CLOSED /* payloads are fetched from any file, whoever made the batch */
#define FILES_CLOSED false
#else
#define FILES_CLOSED true
#endif
#ifdef WITHOUT_TRUSTED_SEALING /* the second recipient's key, which is the host's, seals inputs under the batch key */
#define HOST_SEALS true
#else
#define HOST_SEALS false
#endif
#ifdef WITHOUT_TRUSTED_ANSWERING /* and whole responses */
#define HOST_ANSWERS true
#else
#define HOST_ANSWERS false
#endif
#ifdef WITHOUT_RESPONSE_MAC
#define MAC_VALID(genuine) (true)
#else
#define MAC_VALID(genuine) (genuine)
#endif
#ifdef WITHOUT_BATCH_CHECK /* sgpu-seal open without --batch, for an owner's X25519 key */
#define ANSWERS(run) (true)
#else
#define ANSWERS(run) ((run) != NO_RUN && run_batch[run] == BATCH_1)
#endif
#ifdef WITHOUT_RESPONSE_ID
#define SAME_RESPONSE(payload, run) (run_batch[payload] == run_batch[run])
#else
#define SAME_RESPONSE(payload, run) ((payload) == (run))
#endif
#ifdef WITHOUT_DIRECTION
#define IS_OUTPUT(is_input) (true)
#else
#define IS_OUTPUT(is_input) (!(is_input))
#endif

/* Batches: one of both owners, one of the second, and one that the host makes. */
#define BATCH_1 0
#define BATCH_2 1
#define BATCH_HOST 2
#define BATCHES 3
/* Who signed; of both owners, the first. */
#define NOBODY 0
#define OWNER 1
#define HOST 2
#define SECOND 3
#define SIGNERS 4
#define LISTED(signer) ((signer) == OWNER || (signer) == SECOND)
/* What is signed of a batch: as it was sealed, or rewrapped by the one or the other for the second recipient. */
#define SEALED 0
#define REWRAPPED 1
#define REWRAPPED_BY_SECOND 2
#define CONTENTS 3
/* Recipient keys by where their private half is. */
#define KEY_NONE 0
#define KEY_RUNNER 1  /* in the good runner's memory, and nowhere else */
#define KEY_ENDED 2   /* of a good runner that has ended; the host has got it since */
#define KEY_DEBUG 3   /* of a good runner that the host debugs */
#define KEY_EVIL 4    /* of a program of the host's */
#define HOST_READS(key) ((key) == KEY_ENDED || (key) == KEY_DEBUG || (key) == KEY_EVIL)
/* Genuine reports that the host can get, one for each of these keys; the hardware tells the truth in each. */
#define REPORTS 5
#define IMAGE_GOOD 1
#define IMAGE_EVIL 2
#define NONCE_OLD 1
#define NONCE_NEW 2
#define RUNS 3
#define NO_RUN 3

byte report_image[REPORTS], report_nonce[REPORTS], report_key[REPORTS];
bool report_debug[REPORTS];

byte sealed_to = KEY_NONE;      /* to which key the owners sealed both batches */
bool host_signs_quotes;         /* the attestation key has leaked, on whatever way */
bool key_read;                  /* and it leaked because the runner read a file that a batch named */
bool host_reads_input;          /* a HIGH input of the owner */
bool host_reads_output;         /* a HIGH output of an owner's manifest */
bool ran_foreign;               /* a batch that no owner made */
bool ran_exchanged;             /* a batch of the owners, with a HIGH input that neither of them sealed */
byte times_run[BATCHES];
bool remembered[BATCHES], old[BATCHES];
#ifdef WITHOUT_IDENTITY
bool remembered_of[BATCHES * SIGNERS], remembered_as[BATCHES * CONTENTS];
#endif
byte runs;
byte run_batch[RUNS];
bool accepted;
bool accepted_mixed;            /* parts of what the owner accepted are not of one run of the batch */

/* The owner verifies a quote: claims that name `key`, beside report `r`; without a leaked attestation key the claims
 * are those that the runner of the report made. Then both batches are sealed to the key that the quote names. */
inline appraise(r, key)
{
	if
	:: DEMANDS_REPORT ->
		if
		:: BINDS_CLAIMS(r, key) && FRESH(r) && KNOWN_IMAGE(r) && DEBUG_OFF(r) -> sealed_to = key
		:: else -> skip
		fi
	:: !DEMANDS_REPORT -> sealed_to = key
	fi;
	if
	:: HOST_READS(sealed_to) -> host_reads_input = true
	:: else -> skip
	fi
}

/* The host gives the runner a batch. changed: the host put its own batch key and recipients beside what the owner
 * made. exchanged: the batch is the owners' but for a HIGH input, which somebody else sealed under the batch key. */
inline submit(b, signer, content, changed, exchanged)
{
	if
	:: !FILES_CLOSED -> key_read = true /* digests of single bytes tell what the file of the attestation key holds */
	:: FILES_CLOSED -> skip
	fi;
	if
	:: SIGNED(signer, changed) && UNSEEN(b, signer, content) && RECENT(b) && runs < RUNS ->
		remembered[b] = true;
#ifdef WITHOUT_IDENTITY
		remembered_of[b * SIGNERS + signer] = true;
		remembered_as[b * CONTENTS + content] = true;
#endif
		ran_exchanged = ran_exchanged || exchanged;
		run_batch[runs] = b;
		runs++;
		times_run[b]++;
		if
		:: !LISTED(signer) -> ran_foreign = true
		:: else -> skip
		fi;
		if
		:: changed -> host_reads_output = true
		:: else -> skip
		fi
	:: else -> skip
	fi
}

/* The owner opens a response to the first batch: the index of run `index` (NO_RUN: made up by the host), the outputs of
 * the runs `first` and `second`, or the batch's own sealed input in the place of the second output. */
inline open_response(index, first, second, input)
{
	if
	:: index < runs && first < runs && second < runs && MAC_VALID(true) && ANSWERS(index) &&
	   SAME_RESPONSE(first, index) && SAME_RESPONSE(second, index) && IS_OUTPUT(input) ->
		accepted = true;
		accepted_mixed = first != index || second != index || run_batch[index] != BATCH_1 || input
	:: index == NO_RUN && (MAC_VALID(false) || ANSWERS(NO_RUN) || HOST_ANSWERS) -> /* made up */
		accepted = true;
		accepted_mixed = true
	:: else -> skip
	fi
}

init
{
	byte a, b, c;

	d_step {
		report_image[KEY_RUNNER] = IMAGE_GOOD;
		report_nonce[KEY_RUNNER] = NONCE_NEW;
		report_key[KEY_RUNNER] = KEY_RUNNER;
		report_image[KEY_ENDED] = IMAGE_GOOD;
		report_nonce[KEY_ENDED] = NONCE_OLD;
		report_key[KEY_ENDED] = KEY_ENDED;
		report_image[KEY_DEBUG] = IMAGE_GOOD;
		report_nonce[KEY_DEBUG] = NONCE_NEW;
		report_key[KEY_DEBUG] = KEY_DEBUG;
		report_debug[KEY_DEBUG] = true;
		report_image[KEY_EVIL] = IMAGE_EVIL;
		report_nonce[KEY_EVIL] = NONCE_NEW;
		report_key[KEY_EVIL] = KEY_EVIL;
	}
	do
	:: atomic { !host_signs_quotes -> host_signs_quotes = true } /* assumed: nothing may rest on the AK alone */
	:: atomic { sealed_to == KEY_NONE -> select(a : KEY_RUNNER .. KEY_EVIL); b = a;
		if
		:: host_signs_quotes -> select(b : KEY_RUNNER .. KEY_EVIL)
		:: true -> skip
		fi;
		appraise(a, b); a = 0; b = 0 }
	:: atomic { sealed_to == KEY_RUNNER -> submit(BATCH_1, OWNER, SEALED, false, false) }
	:: atomic { sealed_to == KEY_RUNNER -> submit(BATCH_1, OWNER, REWRAPPED, false, false) }
	:: atomic { sealed_to == KEY_RUNNER -> submit(BATCH_1, SECOND, REWRAPPED_BY_SECOND, false, false) }
	:: atomic { sealed_to == KEY_RUNNER -> submit(BATCH_2, SECOND, SEALED, false, false) }
	:: atomic { sealed_to == KEY_RUNNER -> submit(BATCH_1, OWNER, SEALED, true, false) }
	:: atomic { true -> submit(BATCH_HOST, HOST, SEALED, false, false) }
	:: atomic { true -> submit(BATCH_HOST, NOBODY, SEALED, false, false) }
	:: atomic { sealed_to == KEY_RUNNER && HOST_SEALS -> submit(BATCH_1, OWNER, REWRAPPED, false, true) }
	:: atomic { sealed_to == KEY_RUNNER && HOST_SEALS -> /* a recipient leaves out a signature */
		submit(BATCH_1, SECOND, SEALED, false, false) }
	:: atomic { sealed_to == KEY_RUNNER && !old[BATCH_1] -> /* the window passes: the cache forgets what is older */
		old[BATCH_1] = true; remembered[BATCH_1] = false }
#ifdef NO_STATE
	:: atomic { remembered[BATCH_1] || remembered[BATCH_2] -> /* the host restarts the runner */
		remembered[BATCH_1] = false; remembered[BATCH_2] = false }
#endif
	:: atomic { runs > 0 && !accepted -> select(a : 0 .. NO_RUN); select(b : 0 .. 2); select(c : 0 .. 2);
		if
		:: true -> open_response(a, b, c, false)
		:: true -> open_response(a, b, c, true)
		fi;
		a = 0; b = 0; c = 0 }
	:: atomic { runs == 0 && sealed_to != KEY_NONE && !accepted ->
		open_response(NO_RUN, 0, 0, false) }
	:: break
	od
}

/* What must hold in every state. */
active proctype invariants()
{
end:
	if
	:: atomic { key_read -> assert(!key_read) }
#ifndef FOREIGN /* a recipient reads inputs and outputs, and makes them */
	:: atomic { host_reads_input -> assert(!host_reads_input) }
	:: atomic { accepted_mixed -> assert(!accepted_mixed) }
	:: atomic { ran_exchanged -> assert(!ran_exchanged) }
#endif
#if !defined(FOREIGN) && !defined(UNOWNED)
	:: atomic { host_reads_output -> assert(!host_reads_output) }
#endif
#ifndef UNOWNED
	:: atomic { ran_foreign -> assert(!ran_foreign) }
#endif
#if !defined(NO_STATE) && !defined(UNOWNED)
	:: atomic { times_run[BATCH_1] > 1 || times_run[BATCH_2] > 1 ->
		assert(times_run[BATCH_1] <= 1 && times_run[BATCH_2] <= 1) }
#endif
#ifdef REACHABLE
	:: atomic { accepted && !accepted_mixed && times_run[BATCH_1] == 1 -> assert(false) }
#endif
	fi
}
