/* SPDX-License-Identifier: MIT */
/*
 * The monitor's nap between two looks, which must not be long while no processor is idle.
 *
 * What is modelled, by the names of the C code:
 *   monitor()   sn_sysmon_nap() for longer than SN_MONITOR_BUSY_NS, again and again
 *   takes()     sn_idle_get(), and sn_sysmon_all_taken() if none is left; sn_idle_put()
 *
 * Abstracted: a short nap ends at any time, a long one only when it is ended. The look,
 * and naps that are short from the beginning, are left out. Other reasons to end a nap early only
 * make it shorter.
 *
 * Safety: when no party can take a step and no processor is idle, the monitor is not in a long nap.
 * And no short nap is ended as too long, because it would begin again.
 *
 * Mutants, each of which must be caught:
 *   NO_LOOK      the monitor does not look whether a processor is idle
 *   LOOK_FIRST   it looks before it says that it naps
 *   READ_FIRST   the thread looks for a nap before it takes the processor
 *   WHY_FIRST    the monitor looks whether the nap was ended before it reads the word on which it
 *                sleeps
 *   WHY_LAST     the thread says that it has ended the nap after it has changed that word
 *   NO_WAKE      the thread ends the nap without a change of that word
 *   NOT_SAID     the monitor does not say that it has made the nap short
 */
#ifndef PROCESSORS
#	define PROCESSORS 2
#endif
#ifndef TIMES
#	define TIMES 2
#endif

#define NONE 0 /* nap_until: none; within SN_MONITOR_BUSY_NS; later */
#define SHORT 1
#define LONG 2

byte idle = PROCESSORS;
byte nap = NONE;
bool in_long_nap, in_short_nap, why;
byte word;

active proctype monitor()
{
	byte seen;
	bool cut, ended;

end:	do
	:: true ->
#ifdef LOOK_FIRST
		cut = idle == 0;
#endif
		nap = LONG;
#if !defined(NO_LOOK) && !defined(LOOK_FIRST)
		cut = idle == 0;
#endif
#ifndef NOT_SAID
		/* the compare-and-swap */
		atomic {
			if
			:: cut && nap == LONG -> nap = SHORT
			:: else
			fi
		};
#endif
#ifdef WHY_FIRST
		ended = why;
		seen = word;
#else
		seen = word;
		ended = why;
#endif
		if
		:: ended
		:: else ->
			/* sn_futex_wait() */
			atomic { in_long_nap = !cut; in_short_nap = cut };
end_nap:		if
			:: cut
			:: word != seen
			fi;
			atomic { in_long_nap = 0; in_short_nap = 0 }
		fi;
		nap = NONE;
		why = 0
	od
}

proctype takes()
{
	byte left, times = TIMES;
	bool naps;

	do
	:: times > 0 ->
		times--;
#ifdef READ_FIRST
		naps = nap == LONG;
#endif
		atomic { idle > 0 -> idle--; left = idle };
		if
		:: left == 0 ->
#ifndef READ_FIRST
			naps = nap == LONG;
#endif
			if
			:: naps ->
				/* the compare-and-swap */
				atomic {
					naps = nap == LONG;
					if
					:: naps ->
						assert(!in_short_nap);
						nap = NONE
					:: else
					fi
				};
				if
#ifdef NO_WAKE
				:: naps -> why = 1
#elif defined(WHY_LAST)
				:: naps -> word++; why = 1
#else
				:: naps -> why = 1; word++
#endif
				:: else
				fi
			:: else
			fi
		:: else
		fi;
		if
		:: idle++
		:: times == 0 /* keeps the processor: computes, or blocks */
		fi
	:: else -> break
	od
}

init
{
	byte i;

	atomic {
		for (i : 1 .. PROCESSORS) {
			run takes()
		}
	}
	timeout;
	assert(idle > 0 || !in_long_nap)
}
