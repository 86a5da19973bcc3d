/* SPDX-License-Identifier: MIT */
/*
 * The deadline of a scope, which fires, is moved, and ends with the scope:
 * src/sync/scope_deadline.c.
 *
 * What is modelled, by the names of the C code:
 *   opener()   sn_scope_begin_deadline(); scope_close() with await_last(), sn_scope_close_by() if
 *              CLOSE_BY, and sn_scope_end_deadline(); then the scope is freed
 *   worker()   a task in the scope: sn_scope_give_up() when it ends
 *   mover()    sn_scope_set_deadline(), once: to a later time, to none, or to a time that has
 *              passed
 *   firing()   the heap takes out an active timer at any moment: fire(), then expire()
 * Of sn_scope_cancel_for() and expire(), the model has the error, but not the visits of tasks;
 * scope_cancel.pml has those.
 *
 * Abstracted: times. Any active timer may fire at any moment. A handle is held in one step, with
 * the check of its generation (sn_scope_hold_handle()). No memory is missing.
 *
 * Safety (assertions): no party touches the scope after it was freed, and no timer is active then;
 * a timer is not started twice; a move that finds no active timer and is in time has no firing
 * before it; when all tasks and movers are done, the deadline does not cancel the scope any more.
 * At the end: when a mover got -ETIMEDOUT, or set a time that had passed, the scope is cancelled.
 *
 * Variants: MOVERS (2), CLOSE_BY.
 *
 * Mutants, each of which must be caught:
 *   FIRE_NO_COUNT   fire() does not count itself in running
 *   MOVE_NO_COUNT   a mover does not count itself in running, but only reads it
 *   EXPIRED_LATE    expire() sets expired, outside the heap's lock
 *   REASON_FIRST    set_timer() does not look for the reason once more when no timer was active
 *   NO_LOCK         a mover does not take the scope's lock
 *   NO_STOP         closing does not stop the timer
 *   STOP_EARLY      closing stops the timer before it waits
 *   PAST_FORGETS    a time that has passed only stops the timer
 */
#ifndef MOVERS
#	define MOVERS 2
#endif

#define OK 0
#define TIMED_OUT 1

byte error, running;
bool expired, armed, locked, heap_locked, freed;

/* Only in the model, not in the code. */
bool fired;               /* a firing has counted itself */
bool drained;             /* the opener has seen running at 0 */
byte told_late, over;

#define TOUCH() assert(!freed)

inline lock_scope()
{
	atomic { !locked -> TOUCH(); locked = 1 }
}
inline unlock_scope()
{
	atomic { TOUCH(); locked = 0 }
}
inline lock_heap()
{
	atomic { !heap_locked -> heap_locked = 1 }
}
inline unlock_heap()
{
	heap_locked = 0
}

/* Cancels the scope because of its deadline. */
inline cancel()
{
	atomic {
		TOUCH();
		assert(!drained);
		if
		:: error == OK -> error = TIMED_OUT
		:: else
		fi
	}
}

inline give_up()
{
	atomic { TOUCH(); assert(running > 0); running-- }
}

proctype firing()
{
	bool took;

end:	do
	:: lock_heap();
		if
		:: armed ->
			TOUCH();
			armed = 0;
			atomic {
				TOUCH();
#ifdef FIRE_NO_COUNT
				took = 1
#else
				took = running > 0;
				if
				:: took -> running++
				:: else
				fi
#endif
			}
			if
			:: took ->
				atomic {
					fired = 1;
#ifndef EXPIRED_LATE
					expired = 1
#endif
				}
			:: else
			fi
		:: else ->
			took = 0
		fi;
		unlock_heap();
		if
		:: took ->
#ifdef EXPIRED_LATE
			TOUCH();
			expired = 1;
#endif
			cancel();
#ifndef FIRE_NO_COUNT
			give_up()
#endif
		:: else
		fi
	od
}

inline reason(why)
{
	atomic { TOUCH(); why = (error != OK || expired -> TIMED_OUT : OK) }
}

/* sn_timer_move() if stays is set, otherwise sn_timer_stop(). */
inline change(stays, set)
{
	lock_heap();
	set = armed;
	armed = (stays && armed);
	unlock_heap()
}

/* Called with the scope's lock. stays: the new time is a deadline. */
inline set_timer(stays, set, why)
{
	change(stays, set);
	if
	:: set -> why = OK
	:: else ->
#ifndef REASON_FIRST
		reason(why);
#endif
		/* The move was in time, so no earlier deadline cancels the scope. */
		assert(why != OK || !fired);
		if
		:: why == OK && stays ->
			lock_heap();
			assert(!armed);
			TOUCH();
			armed = 1;
			unlock_heap()
		:: else
		fi
	fi
}

proctype mover()
{
	bool set, stays, past;
	byte why;

	/* sn_scope_hold_handle() */
	if
	:: atomic {
		!freed && running > 0 ->
#ifndef MOVE_NO_COUNT
			running++
#endif
		}
	:: atomic { freed || running == 0 -> goto done } /* -EBADF */
	fi;
	if
	:: stays = 1
	:: stays = 0
	:: stays = 0; past = 1
	fi;
#ifndef NO_LOCK
	lock_scope();
#endif
	reason(why);
	if
	:: why == OK ->
		set_timer(stays, set, why)
	:: else
	fi;
#ifndef NO_LOCK
	unlock_scope();
#endif
	if
	:: why == OK && past ->
#ifndef PAST_FORGETS
		cancel();
#endif
		told_late++
	:: why != OK ->
		told_late++
	:: else
	fi;
#ifndef MOVE_NO_COUNT
	give_up();
#endif
done:	over++
}

proctype worker()
{
	give_up();
	over++
}

proctype opener()
{
	bool set;
	byte why;

	/* await_last(): drops the opener's own count */
#ifdef STOP_EARLY
	change(0, set);
#endif
	give_up();
#ifdef CLOSE_BY
	if
	:: running > 0 ->
		lock_scope();
		reason(why);
		if
		:: why == OK -> set_timer(1, set, why)
		:: else
		fi;
		unlock_scope()
	:: running == 0
	fi;
#endif
	atomic { running == 0 -> drained = 1 }
#if !defined(NO_STOP) && !defined(STOP_EARLY)
	change(0, set);
#endif
	atomic { freed = 1; assert(!armed); over++ }
}

init {
	byte i;

	atomic {
		running = 2; /* one for the opener, one for the worker */
		if
		:: armed = 1
		:: armed = 0
		fi;
		run opener();
		run worker();
		run firing();
		for (i : 1 .. MOVERS) {
			run mover()
		}
	}
	over == MOVERS + 2 ->
	assert(!armed && running == 0);
	assert(told_late == 0 || error == TIMED_OUT)
}
