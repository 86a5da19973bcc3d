/* SPDX-License-Identifier: MIT */
/*
 * A pinned task parks: its thread gives its processor away, and waits for one to be handed over
 * together with the task.
 *
 * What is modelled, by the names of the C code in src/sched:
 *   pinned()   the thread: leave_task(), the commit that publishes the task (as
 *              commit_reschedule(), so it is runnable immediately), await_pinned(),
 *              sn_await_processor()
 *   other()    two threads that have, or get, a processor: sn_global_get(), hand_over(),
 *              become_idle()
 *
 * Abstracted: the parker is a flag, what the lock guards is one step, and a processor that is given
 * away goes to a thread that has none.
 *
 * Safety: a processor has one owner at a time. At rest no processor is lost (each has an owner or
 * is idle), the task runs, and its thread has the processor that it was handed.
 *
 * Mutants, each of which must be caught:
 *   ASSIGN_AT_ONCE   hand_over() assigns the processor to the waiting thread, which may not have
 *                    given its own away yet, instead of leaving it for the thread to take
 */
#define PROCESSORS 2
#define NONE 255
#define IDLE 254

byte owner[PROCESSORS];      /* only in the model: a thread, IDLE, or NONE in between */
byte processor[3] = NONE;
byte handed = NONE;          /* to thread 0, before its parker is released */
bool parker;
byte queue;                  /* the task, bound to thread 0 */
byte rounds = 2;
bool runs = 1;

proctype pinned()
{
	byte p;

	do
	:: rounds > 0 ->
		rounds--;
		/* leave_task(), the commit */
		runs = 0;
		queue = 1;
		/* await_pinned() */
		p = processor[0];
		processor[0] = NONE;
		d_step {
			assert(p != NONE && owner[p] == 0);
			owner[p] = IDLE;
			p = 0
		}
end:		do
		:: atomic { parker -> parker = 0 };
#ifdef ASSIGN_AT_ONCE
			if
			:: processor[0] != NONE -> break
			:: else
			fi
#else
			if
			:: handed != NONE -> break
			:: else
			fi
#endif
		od;
#ifndef ASSIGN_AT_ONCE
		atomic { processor[0] = handed; owner[handed] = 0; handed = NONE };
#endif
		assert(owner[processor[0]] == 0);
		runs = 1
	:: rounds == 0 -> break
	od
}

proctype other(byte t)
{
	byte p;

end:	do
	:: d_step { processor[t] == NONE && queue > 0 && owner[0] == IDLE ->
		owner[0] = t; processor[t] = 0 }
	:: d_step { processor[t] == NONE && queue > 0 && owner[1] == IDLE ->
		owner[1] = t; processor[t] = 1 }
	:: processor[t] != NONE ->
		if
		:: d_step { queue > 0 -> queue-- };
			/* hand_over() */
			d_step { p = processor[t]; processor[t] = NONE; assert(owner[p] == t) };
#ifdef ASSIGN_AT_ONCE
			d_step { owner[p] = 0; processor[0] = p };
#else
			d_step { assert(handed == NONE); owner[p] = NONE; handed = p };
#endif
			p = 0;
			parker = 1
		:: d_step { queue == 0 -> owner[processor[t]] = IDLE; processor[t] = NONE }
		fi
	od
}

init
{
	atomic {
		owner[0] = 0;
		processor[0] = 0;
		owner[1] = 1;
		processor[1] = 1;
		run pinned();
		run other(1);
		run other(2)
	}
	timeout;
	assert(runs && queue == 0);
	assert(processor[0] != NONE && owner[processor[0]] == 0);
	assert(owner[0] == 0 || owner[0] == IDLE);
	assert(owner[1] == 0 || owner[1] == IDLE)
}
