/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of version 2 between two owners, the host, and two runners, as a bounded state machine for spin. The host is the
 * attacker: it keeps all that is sent, and gives a runner or an owner any member of what it has where another belongs.
 * Cryptography is perfect: what a key protects is read or made by those alone who hold the key.
 *
 * Both owners are on the list of both runners. They signed the first batch together, for the first runner; the second owner
 * rewraps it for both, which leaves that owner's signature alone. The second batch is the second owner's, for both. It has
 * no HIGH input, since a HIGH input opens with its own manifest alone. The number of a batch stands for its identity, its
 * key and each of its members. Two processes work for the first runner, with one record of what it took, and one for the
 * second. Three batches are taken at most, in every order of steps.
 *
 * Each rule that a program enforces, or that an owner keeps, has a name: with -DWITHOUT_NAME that rule is left out, and the
 * model has to find the attack. tests/bats/model.bats runs the model whole and once without each rule.
 * docs/threat-model.md, "The protocol", has the same in words.
 *
 *   -DRECORD_BEFORE=STEP   a runner records the identity before this step of admission, and not after the last
 *   -DNO_STATE   a runner keeps no directory for state: a restart forgets which batches it took
 *   -DUNOWNED    sgpu-run without --owners: no signature, no memory of batches, no window. What then holds is checked alone
 *   -DFOREIGN    the host has the key of a recipient of both batches. What then holds is checked alone
 *   -DREACHABLE  the honest end counts as an error, which shows that the model can get there
 */

/* WITHOUT(NAME) is true with -DWITHOUT_NAME, and otherwise false. */
#define WITHOUT(name) WITHOUT_1(WITHOUT_##name)
#define WITHOUT_1(value) WITHOUT_2(value)
#define WITHOUT_2(value) WITHOUT_3(COMMA_IF_##value)
#define WITHOUT_3(before) WITHOUT_4(before true, false, 0)
#define WITHOUT_4(before, is, ...) is
#define COMMA_IF_1 0,

#ifdef UNOWNED
#define WITHOUT_OWNERS 1
#define WITHOUT_REPLAY_CACHE 1
#define WITHOUT_EXPIRY 1
#endif
#ifdef FOREIGN
#define WITHOUT_TRUSTED_SEALING 1
#define WITHOUT_TRUSTED_ANSWERING 1
#endif

/* ---- quotes: the policy asks for a report of the hardware, and that covers more than signing key and nonce ---- */
#define BINDS_CLAIMS(r, key) (WITHOUT(REPORT_BINDS_CLAIMS) || (r) == (key))
#define FRESH(r) (WITHOUT(NONCE) || (r) != KEY_ENDED)
#define KNOWN_IMAGE(r) (WITHOUT(MEASUREMENT) || (r) != KEY_EVIL)
#define DEBUG_OFF(r) (WITHOUT(DEBUG_OFF) || (r) != KEY_DEBUG)
#define APPRAISED(r, key) (WITHOUT(REPORT) || (BINDS_CLAIMS(r, key) && FRESH(r) && KNOWN_IMAGE(r) && DEBUG_OFF(r)))

/* ---- seal.json. The host does not have the key of an owner's batch, and makes no mac and no input under it ---- */
#define MAC_VALID (WITHOUT(MAC) || WITHOUT(TRUSTED_SEALING) || form != FORGED || key == BATCH_HOST)
/* The signature covers recipients and wrapped keys, and the digest of the index. */
#define HOST_SIGNS (form == FORGED && ((WITHOUT(SIGNED_RECIPIENTS) && b != BATCH_HOST) || \
	(WITHOUT(SIGNED_INDEX) && key != BATCH_HOST)))
#define SIGNED (WITHOUT(OWNERS) || signer != NOBODY || HOST_SIGNS)

/* ---- what seal.json and the index name. The host's index names what the host likes ---- */
#define NAMES(part) (part == index || index == BATCH_HOST)
#define IS_INDEX (WITHOUT(INDEX_DIGEST) || index == b)
#define IS_MANIFEST (WITHOUT(MANIFEST_DIGEST) || NAMES(manifest)) /* in the stream */
#define IS_ANSWER (WITHOUT(ANSWER_DIGEST) || NAMES(manifest))	  /* that was asked for */
#define IS_NOTE (WITHOUT(NOTE_DIGEST) || NAMES(note))
#define IS_LOW (WITHOUT(KT128) || NAMES(low))
/* A sealed input opens with its key and manifest; its context has the segment and says that it is an input. */
#define OPENS (WITHOUT(OPENING) || (high == BATCH_1 && manifest == BATCH_1) || \
	(high == BATCH_HOST && WITHOUT(TRUSTED_SEALING)) || (high == OTHER_SEGMENT && WITHOUT(SEGMENT)) || \
	(high == OUTPUT && WITHOUT(INPUT_DIRECTION)))

/* ---- the record ---- */
#ifdef WITHOUT_IDENTITY /* a batch is known by the first that signed it, and by what was signed, recipients too */
#define NAMES_OF_ONE (FORMS * SIGNERS)
#define REMEMBERED remembered[(r * BATCHES + b) * NAMES_OF_ONE + form * SIGNERS + signer]
#else
#define NAMES_OF_ONE 1
#define REMEMBERED remembered[r * BATCHES + b]
#endif
#define NEW ((WITHOUT(REPLAY_CACHE) || !REMEMBERED) && (WITHOUT(EXPIRY) || !old[b]))
#ifndef RECORD_BEFORE
#define RECORD_BEFORE PAYLOADS
#endif

/* ---- an owner opens a response. The host does not have the key of an owner's batch ---- */
#define MADE_UP_PASSES (WITHOUT(RESPONSE_MAC) || WITHOUT(TRUSTED_ANSWERING))
#define ANSWERS (WITHOUT(BATCH_CHECK) || run_batch[a] == question) /* open --batch, for an owner's X25519 key */
#define IS_RESPONSE_INDEX (WITHOUT(RESPONSE_INDEX_DIGEST) || b == a)
/* The context of an output has the id of its response, and says that it is an output. */
#define SAME_RESPONSE (c == a || (WITHOUT(RESPONSE_ID) && run_batch[c] == run_batch[a]))
#define IS_RESPONSE_LOW (WITHOUT(RESPONSE_KT128) || d == b)

/* Batches: one of both owners, one of the second, and all that the host makes. */
#define BATCH_1 0
#define BATCH_2 1
#define BATCH_HOST 2
#define BATCHES 3
#define OTHER_SEGMENT 3 /* a sealed input of the same batch, of another segment */
#define OUTPUT 4	/* of a run of that batch */
#define NOTHING 5
/* What a seal.json is: as sealed, rewrapped by the second owner, or the host's. */
#define SEALED 0
#define REWRAPPED 1
#define FORGED 2
#define FORMS 3
/* The first listed owner whose signature it has. Signatures are not under the mac, so the host can leave out any. */
#define NOBODY 0
#define OWNER 1
#define SECOND 2
#define SIGNERS 3
/* Steps of admission. */
#define MAC 1
#define OWNERS 2
#define INDEX 3
#define MANIFEST 4
#define NOTE 5
#define LOCATIONS 6
#define PAYLOADS 7
/* Recipient keys by where their private half is. The host can get a genuine report of the hardware for each. */
#define KEY_NONE 0
#define KEY_ENDED 1   /* of a good runner that has ended; the host has got it since */
#define KEY_DEBUG 2   /* of a good runner that the host debugs */
#define KEY_EVIL 3    /* of a program of the host's */
#define KEY_RUNNER 4  /* in the good runner's memory, and nowhere else */
#define RUNNERS 2
#define RUNS 3

byte sealed_to = KEY_NONE;     /* to which key the owners sealed */
bool host_reads_input;         /* a HIGH input of an owner */
bool host_reads_output;        /* a HIGH output of an owner's manifest */
bool key_read;                 /* a file with a key of the runner's side */
bool region_read;              /* a region of another user */
bool left_record;              /* the identity of a batch that was refused before it was taken */
bool ran_foreign;              /* a manifest or a LOW input of the host's */
bool ran_altered;              /* under the key of an owner's batch, with a part that is not that batch's */
bool ran_exchanged;            /* a HIGH input that its owner did not seal for that segment, likewise */
byte taken[RUNNERS * BATCHES]; /* how often */
bool remembered[RUNNERS * BATCHES * NAMES_OF_ONE], old[BATCHES];
byte cached[RUNNERS * BATCHES]; /* by digest: a wrong manifest and one; right ones make no difference */
byte takes, runs;
byte run_batch[RUNS];
bool accepted, accepted_mixed; /* mixed: parts of what an owner accepted are not of one run of the batch in question */

/* The owner verifies a quote: claims that name `key`, beside a report of `r`. Without a leaked attestation key the claims
 * are those that the runner of the report made. */
inline appraise(r, key)
{
	if
	:: APPRAISED(r, key) ->
		sealed_to = key;
		host_reads_input = key != KEY_RUNNER
	:: else -> skip
	fi
}

inline record()
{
	REMEMBERED = !WITHOUT(REPLAY_CACHE);
	recorded = true
}

/* A step of admission that refuses unless `right`. */
inline step(number, right)
{
	if
	:: RECORD_BEFORE == number ->
		if
		:: NEW -> record()
		:: else -> goto refused
		fi
	:: else -> skip
	fi;
	if
	:: right -> skip
	:: else -> goto refused
	fi
}

/* The host gives a runner a seal.json. */
inline choose_seal()
{
	if
	:: form = FORGED; key = BATCH_HOST; b = BATCH_HOST
	:: form = FORGED; key = BATCH_HOST; select(b : BATCH_1 .. BATCH_2)
	:: sealed_to == KEY_RUNNER ->
		if
		:: form = SEALED; b = BATCH_1; select(signer : NOBODY .. SECOND)
		:: form = REWRAPPED; b = BATCH_1; signer = SECOND
		:: form = SEALED; b = BATCH_2; signer = SECOND
		fi;
		key = b
	:: sealed_to == KEY_RUNNER -> /* what was wrapped for the runner, beside what the host likes */
		form = FORGED; select(b : BATCH_1 .. BATCH_HOST); select(key : BATCH_1 .. BATCH_2)
	fi
}

/* The manifest comes in the stream, or is known, or is asked for. */
inline find_manifest()
{
	if
	:: select(manifest : BATCH_1 .. BATCH_HOST); step(MANIFEST, IS_MANIFEST)
	:: cached[r * BATCHES + index] != 0 -> manifest = cached[r * BATCHES + index] - 1
	:: cached[r * BATCHES + index] == 0 ->
		select(manifest : BATCH_1 .. BATCH_HOST);
		if
		:: WITHOUT(CACHE_OF_COMPARED) && manifest != index -> /* kept before it is compared */
			cached[r * BATCHES + index] = manifest + 1
		:: else -> skip
		fi;
		step(MANIFEST, IS_ANSWER)
	:: step(MANIFEST, false) /* nobody answers */
	fi
}

inline admit()
{
	choose_seal();
	if /* the batch key: the first batch is for the first runner as long as nobody rewraps it */
	:: form == SEALED && b == BATCH_1 && r != 0 -> goto refused
	:: else -> skip
	fi;
	step(MAC, MAC_VALID);
	step(OWNERS, SIGNED);
	select(index : BATCH_1 .. BATCH_HOST);
	step(INDEX, IS_INDEX);
	find_manifest();
	select(note : BATCH_1 .. BATCH_HOST);
	step(NOTE, IS_NOTE);
	if /* locations.json: in the stream or in a region of the sender's; a file; somebody's region */
	:: step(LOCATIONS, true)
	:: key_read = key_read || WITHOUT(FILES_CLOSED); step(LOCATIONS, WITHOUT(FILES_CLOSED))
	:: region_read = region_read || WITHOUT(REGION_OWNER); step(LOCATIONS, WITHOUT(REGION_OWNER))
	fi
}

/* Payloads, in the stream or where locations.json says. */
inline receive()
{
	if
	:: key == BATCH_1 -> select(high : BATCH_1 .. OUTPUT)
	:: key != BATCH_1 -> high = key
	:: high = NOTHING
	fi;
	if
	:: high == NOTHING || (key == BATCH_1 && !OPENS) -> goto failed
	:: else -> select(low : BATCH_1 .. BATCH_HOST)
	fi;
	if
	:: IS_LOW -> skip
	:: else -> goto failed
	fi;
	run_batch[runs] = (key == b -> b : BATCH_HOST); /* the response is under that key */
	runs++;
	ran_foreign = ran_foreign || (key == BATCH_HOST && (b == BATCH_HOST || manifest == BATCH_HOST || low == BATCH_HOST));
	ran_altered = ran_altered || (key != BATCH_HOST &&
		(b != key || index != key || manifest != key || note != key || low != key));
	ran_exchanged = ran_exchanged || (key != BATCH_HOST && high != key);
	host_reads_output = host_reads_output || (key == BATCH_HOST && manifest != BATCH_HOST)
}

/* A process of runner r. */
proctype worker(byte r)
{
	byte form, b, key, signer, index, manifest, note, high, low;
	bool recorded;

end:
	do
	:: atomic { takes < RUNS -> admit();
		if
		:: WITHOUT(LOCK) && !recorded && !NEW -> goto refused /* looks here, and not when it writes */
		:: else -> skip
		fi
		};
		atomic {
			if
			:: takes < RUNS && (recorded || WITHOUT(LOCK) || NEW) -> skip
			:: else -> goto refused
			fi;
			record();
			takes++;
			taken[r * BATCHES + b]++;
			receive();
			goto again;
failed:			if
			:: WITHOUT(STAYS_TAKEN) -> /* so that it can be sent again */
				REMEMBERED = false
			:: else -> skip
			fi;
			goto again;
refused:		left_record = left_record || recorded;
again:			form = 0; b = 0; key = 0; signer = 0; index = 0; manifest = 0; note = 0; high = 0; low = 0;
			recorded = false
		}
	od
}

/* An owner opens a response to one of the batches: seal.json of run a or made up, the index of run b, outputs of runs c
 * and d. */
proctype opener()
{
	byte question, a, b, c, d;

end:
	do
	:: atomic { runs > 0 && !accepted ->
		select(question : BATCH_1 .. BATCH_2);
		if
		:: MADE_UP_PASSES -> accepted = true; accepted_mixed = true; goto again
		:: select(a : 0 .. RUNS - 1)
		fi;
		if
		:: a < runs && ANSWERS -> select(b : 0 .. RUNS - 1)
		:: else -> goto again
		fi;
		if
		:: b < runs && IS_RESPONSE_INDEX -> select(c : 0 .. RUNS - 1)
		:: else -> goto again
		fi;
		if
		:: c < runs && SAME_RESPONSE -> select(d : 0 .. RUNS - 1)
		:: WITHOUT(OUTPUT_DIRECTION) -> c = RUNS; select(d : 0 .. RUNS - 1) /* the batch's own input */
		:: else -> goto again
		fi;
		if
		:: d < runs && IS_RESPONSE_LOW ->
			accepted = true;
			accepted_mixed = run_batch[a] != question || b != a || c != a || d != a
		:: else -> skip
		fi;
again:		question = 0; a = 0; b = 0; c = 0; d = 0
	}
	od
}

/* The window passes, so that the record forgets what is older; and the host restarts a runner without a record. */
proctype time()
{
end:
	do
	:: atomic { takes > 0 && !old[BATCH_1] ->
		old[BATCH_1] = true;
		remembered[BATCH_1 * NAMES_OF_ONE] = false;
		remembered[(BATCHES + BATCH_1) * NAMES_OF_ONE] = false }
#ifdef NO_STATE
	:: atomic { remembered[BATCH_1] || remembered[BATCH_2] -> remembered[BATCH_1] = false; remembered[BATCH_2] = false }
#endif
	od
}

#define HOLDS(what) atomic { what -> assert(!what) }
#define ONCE(batch) (taken[batch] <= 1 && taken[BATCHES + batch] <= 1)

/* What must hold in every state. */
proctype invariants()
{
end:
	if
	:: HOLDS(key_read)
	:: HOLDS(region_read)
	:: HOLDS(left_record)
	:: HOLDS(ran_altered)
#ifndef UNOWNED
	:: HOLDS(ran_foreign)
#endif
#ifndef FOREIGN /* a recipient reads inputs and outputs, and makes them */
	:: HOLDS(host_reads_input)
	:: HOLDS(accepted_mixed)
	:: HOLDS(ran_exchanged)
#endif
#if !defined(FOREIGN) && !defined(UNOWNED)
	:: HOLDS(host_reads_output)
#endif
#if !defined(NO_STATE) && !defined(UNOWNED)
	:: atomic { !ONCE(BATCH_1) || !ONCE(BATCH_2) -> assert(ONCE(BATCH_1) && ONCE(BATCH_2)) }
#endif
#ifdef REACHABLE /* both runners have run the first batch, and the owner has an answer */
	:: atomic { accepted && !accepted_mixed && taken[BATCH_1] == 1 && taken[BATCHES + BATCH_1] == 1 -> assert(false) }
#endif
	fi
}

init
{
	byte report, key;

	atomic {
		select(report : KEY_ENDED .. KEY_RUNNER);
		if
		:: key = report
		:: select(key : KEY_ENDED .. KEY_RUNNER) /* the attestation key has leaked: nothing may rest on it alone */
		fi;
		appraise(report, key);
		report = 0;
		key = 0;
		run invariants();
		run worker(0);
		run worker(1);
#ifndef UNOWNED /* without a record, time and a second process make no difference */
		run worker(0);
		run time();
#endif
		run opener()
	}
}
