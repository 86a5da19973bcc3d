/* SPDX-License-Identifier: MIT */
/*
 * The parking place of a thread: src/wait/futex.c.
 *
 * What is modelled, by the names of the C code:
 *   owner()      sn_await_processor() of src/sched/idle.c around sn_parker_wait(), first with a
 *                deadline and then without one, as sleep_in_parker() does
 *   releaser()   sn_parker_release(): the first call has something to hand over, the second one has
 *                not
 * The owner's plain stores wait in its store buffer (stored) until a read-modify-write, or until
 * they drain.
 *
 * Abstracted: the deadline passes at any time. The futex wakes at any time, too.
 *
 * Safety, at rest: the owner has what was handed over, and does not sleep.
 *
 * Mutants, each of which must be caught:
 *   STORE_EMPTY   the owner consumes an earlier release by a plain store: a release that comes
 *                 between the check and the store is lost, with what it announced
 *   LATE_WRITE    the item is handed over after the release
 *   NO_LAST_LOOK  after the deadline the owner overwrites the word without reading its value
 */
#define EMPTY 0
#define RELEASED 1
#define ASLEEP 2
#define NOTHING 255

byte word = EMPTY;
byte stored = NOTHING;
bool in_futex;
bool handed, done;

proctype cpu()
{
end:	do
	:: d_step { stored != NOTHING -> word = stored; stored = NOTHING }
	od
}

inline drain()
{
	if
	:: stored != NOTHING -> word = stored; stored = NOTHING
	:: else
	fi
}

proctype owner()
{
	byte seen;
	bool deadline = 1;

again:	/* sn_parker_wait() */
	atomic {
		drain();
		seen = word;
		if
		:: seen == EMPTY -> word = ASLEEP
		:: else
		fi
	}
	if
	:: seen != EMPTY ->
#ifdef STORE_EMPTY
		stored = EMPTY;
#else
		word = EMPTY;
#endif
		goto released
	:: else
	fi;
sleep:	if
	:: atomic { word == ASLEEP -> in_futex = 1 };
end_sleep:	if
		:: !in_futex
		:: atomic { deadline -> in_futex = 0 };
			deadline = 0;
#ifdef NO_LAST_LOOK
			word = EMPTY;
			goto again
#else
			d_step { seen = word; word = EMPTY };
			if
			:: seen == RELEASED -> goto released
			:: else -> goto again
			fi
#endif
		fi
	:: word != ASLEEP
	fi;
	if
	:: d_step { word == RELEASED -> word = EMPTY } -> goto released
	:: word != RELEASED -> goto sleep
	fi;

released:
	if
	:: handed -> done = 1
	:: else -> goto again
	fi
}

proctype releaser(bool hands)
{
	byte former;

#ifndef LATE_WRITE
	if
	:: hands -> handed = 1
	:: else
	fi;
#endif
	d_step { former = word; word = RELEASED };
	if
	:: former == ASLEEP -> in_futex = 0
	:: else
	fi;
#ifdef LATE_WRITE
	if
	:: hands -> handed = 1
	:: else
	fi
#endif
}

init
{
	atomic {
		run owner();
		run cpu();
		run releaser(0);
		run releaser(1)
	}
	timeout;
	assert(done)
}
