/* SPDX-License-Identifier: MIT */
/*
 * The join word and the end of a task: src/task/join.h, join.c, life.c.
 *
 * What is modelled, by the names of the C code:
 *   ending()    task_main(), sn_exit_task(), the switch away from the ended task, commit_end(); a
 *               joiner that already waits may inherit the thread: then it runs immediately, without
 *               a queue or a claim
 *   joiner()    join(): the first look, the park with commit_join(), the look after it
 *   detacher()  sn_detach()
 * The states of the join word are enum sn_join_state; JOINER(i) is the address of joiner i.
 *
 * Abstracted: memory. Every access to the word is a read-modify-write or an acquire load. What
 * these publish (the result; the task's saved registers) is written before a release on the same
 * word, so only the order of the steps matters.
 *
 * A handle is released once, by either sn_join() or sn_detach(). The header says that a call which
 * meets another one returns -EBUSY. That holds while the handle is valid, which a second caller can
 * only know while the task lives. With TWO, two owners call at the same time, and the task does not
 * end before both are done with the word (settled). With CLAIMS it may end before that, and the
 * caller with the claim does not free the stack before both are done; then only one question is
 * left, which call gets the claim.
 *
 * Safety (assertions): the stack is freed once, and not while the task is still on it, and the word
 * is not read after that; a joiner that succeeds sees the result; a joiner that is woken is parked,
 * and woken once. At the end the stack was freed, one call has succeeded, and no joiner sleeps.
 *
 * Mutants, each of which must be caught:
 *   END_BEFORE_SWITCH   the word says ENDED before the task has left its stack
 *   STORE_END           commit_end() loads and stores instead of comparing and swapping
 *   FREE_TWICE          commit_end() frees the stack for a joiner, too
 *   COMMIT_STORES       commit_join() stores its address without comparing
 *   MARK_ENDED          with CLAIMS: commit_end() says ENDED although a joiner has the claim
 *   HEIR_BEFORE_SWITCH  the heir runs before the task has left its stack
 *   HEIR_TWICE          commit_end() wakes a joiner that has inherited the thread
 *   LOOK_ONLY           with CLAIMS: a join that need not wait reads the word, and claims nothing
 */
#define RUNNING 0
#define ENDED 1
#define DETACHED 2
#define JOINER(i) (3 + (i))

byte word = RUNNING; /* task->join */
bool on_stack = 1;   /* the task runs on its stack */
bool result;
bool freed;
bool parked[2], runnable[2];
byte succeeded;      /* calls that released the handle */
byte settled;        /* calls that are done with the word */

inline task_free()
{
	assert(!on_stack && !freed);
	freed = 1
}

#define USED assert(!freed) /* the word lies on the task's stack */

/* A compare-and-swap of the word; state gets the previous value. */
inline claim(state, from, to)
{
	USED;
	state = word;
	if
	:: state == from -> word = to
	:: else
	fi
}

inline sn_ready(i)
{
	assert(parked[i] && !runnable[i]);
	runnable[i] = 1
}

proctype ending()
{
	byte state, heir;

#ifdef TWO
	settled == 2;
#endif
	result = 1;
	/* sn_exit_task() */
	d_step { USED; state = word };
	if
	:: state >= JOINER(0) -> heir = state
	:: true /* another task is runnable */
	fi;
#ifdef HEIR_BEFORE_SWITCH
	if
	:: heir -> sn_ready(heir - JOINER(0))
	:: else
	fi;
#endif
#ifndef END_BEFORE_SWITCH
	on_stack = 0; /* the switch */
#endif
	/* commit_end() */
#ifndef HEIR_BEFORE_SWITCH
	if
	:: heir -> sn_ready(heir - JOINER(0)) /* it runs after the commit */
	:: else
	fi;
#endif
#ifndef HEIR_TWICE
	if
	:: heir -> goto over
	:: else
	fi;
#endif
#ifdef STORE_END
	d_step { USED; state = word };
	d_step { USED; word = ENDED };
#else
	d_step { claim(state, RUNNING, ENDED) };
#endif
	if
	:: state == RUNNING
	:: state == DETACHED ->
#ifdef CLAIMS
		settled == 2;
#endif
		task_free()
	:: state >= JOINER(0) ->
#ifdef MARK_ENDED
		d_step { USED; word = ENDED };
#endif
		sn_ready(state - JOINER(0));
#ifdef FREE_TWICE
		task_free()
#endif
	fi;
over:
#ifdef END_BEFORE_SWITCH
	on_stack = 0
#else
	skip
#endif
}

proctype joiner(byte i)
{
	byte state;
	bool busy;

	d_step { USED; state = word }
	if
	:: state == RUNNING ->
		/* sn_park(): the switch, then commit_join() */
		parked[i] = 1;
#ifdef COMMIT_STORES
		d_step { USED; state = word; word = JOINER(i); settled = settled + (state == RUNNING) }
#else
		d_step { claim(state, RUNNING, JOINER(i)); settled = settled + (state == RUNNING) }
#endif
		if
		:: state == RUNNING
		:: else ->
			d_step { claim(state, ENDED, JOINER(i)); settled++ }
			busy = (state != ENDED); /* wake_reason: -EBUSY */
			sn_ready(i)
		fi;
		d_step { runnable[i] -> runnable[i] = 0; parked[i] = 0 }
	:: else ->
#ifdef LOOK_ONLY
		d_step { USED; state = word; settled++ };
#else
		d_step { claim(state, ENDED, JOINER(i)); settled++ };
#endif
		busy = (state != ENDED)
	fi;
	if
	:: !busy ->
#ifdef CLAIMS
		settled == 2;
#endif
		assert(result);
		d_step { task_free(); succeeded++ }
	:: else
	fi
}

proctype detacher()
{
	byte state;

	d_step {
		claim(state, RUNNING, DETACHED);
		if
		:: state == RUNNING -> succeeded++; settled++
		:: else
		fi
	}
	if
	:: state != RUNNING ->
		d_step { claim(state, ENDED, DETACHED); settled++ }
		if
		:: state == ENDED ->
#ifdef CLAIMS
			settled == 2;
#endif
			d_step { task_free(); succeeded++ }
		:: else /* -EBUSY */
		fi
	:: else
	fi
}

init
{
	atomic {
		run ending();
#if defined(TWO) || defined(CLAIMS)
		run joiner(0);
		if
		:: run joiner(1)
		:: run detacher()
		fi
#else
		if
		:: run joiner(0)
		:: run detacher()
		fi
#endif
	};
	timeout;
	assert(freed && succeeded == 1);
	assert(!parked[0] && !parked[1])
}
