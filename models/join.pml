/* SPDX-License-Identifier: MIT */
/*
 * The join word and the end of a task: src/sched/task.c.
 *
 * What is modelled, by the names of the C code:
 *   ending()    task_main(), sn_exit_task(), the switch away from the ended task, commit_end()
 *   joiner()    join(): the first look, the park with commit_join(), the look after it
 *   detacher()  sn_detach()
 * The states of the join word are enum join_state; JOINER(i) is the address of joiner i.
 *
 * Abstracted: memory. Every access to the word is a read-modify-write or an acquire load, and what
 * they publish (the result; the task's saved registers) is written before a release on the same word,
 * so that the order of the steps is what counts.
 *
 * A handle is released once: by sn_join() or sn_detach(), one of them. The header answers a call that
 * meets another with -EBUSY, which a program can only rely on while the task lives: with TWO, two
 * owners call at the same time, and the task does not end before both calls have come to the word.
 *
 * Safety (assertions): the stack is freed once, not while the task still stands on it, and nobody
 * looks at the word after that; a joiner that succeeds sees the result; who is woken is parked, and
 * woken once. At the end the stack was freed, one call has succeeded, and no joiner sleeps.
 *
 * Mutants, each of which must be caught:
 *   END_BEFORE_SWITCH   the word says ENDED before the task has left its stack
 *   STORE_END           commit_end() loads and stores instead of exchanging
 *   FREE_TWICE          commit_end() frees the stack for a joiner, too
 *   COMMIT_STORES       commit_join() stores its address without comparing
 *   LOOK_AGAIN          with TWO: commit_join() has met another joiner and only makes its own
 *                       runnable, which then looks for itself, and may find ENDED or a freed stack
 */
#define RUNNING 0
#define ENDED 1
#define DETACHED 2
#define JOINER(i) (3 + (i))

byte word = RUNNING; /* task->join */
bool on_stack = 1;   /* the task stands on its stack */
bool result;
bool freed;
bool parked[2], runnable[2], busy[2];
byte succeeded;      /* calls that released the handle */
byte settled;        /* calls that have come to the word */

inline task_free()
{
	assert(!on_stack && !freed);
	freed = 1
}

#define USED assert(!freed) /* the word lies on the task's stack */

inline sn_ready(i)
{
	assert(parked[i] && !runnable[i]);
	runnable[i] = 1
}

proctype ending()
{
	byte former;

#ifdef TWO
	settled == 2;
#endif
	result = 1;
#ifndef END_BEFORE_SWITCH
	on_stack = 0; /* the switch */
#endif
	/* commit_end() */
#ifdef STORE_END
	d_step { USED; former = word };
	d_step { USED; word = ENDED };
#else
	d_step { USED; former = word; word = ENDED };
#endif
	if
	:: former == RUNNING
	:: former == DETACHED -> task_free()
	:: former >= JOINER(0) ->
		sn_ready(former - JOINER(0));
#ifdef FREE_TWICE
		task_free()
#endif
	fi;
#ifdef END_BEFORE_SWITCH
	on_stack = 0
#endif
}

proctype joiner(byte i)
{
	byte state;

	d_step { USED; state = word }
	if
	:: state == RUNNING ->
		/* sn_park(): the switch, then commit_join() */
		parked[i] = 1;
		d_step {
			USED;
			settled++;
			state = word;
#ifdef COMMIT_STORES
			word = JOINER(i)
#else
			if
			:: state == RUNNING -> word = JOINER(i)
			:: else
			fi
#endif
		}
#ifndef COMMIT_STORES
		if
		:: state == RUNNING
		:: state == ENDED -> sn_ready(i)
		:: state == DETACHED || state >= JOINER(0) ->
#	ifndef LOOK_AGAIN
			busy[i] = 1; /* wake_reason: -EBUSY */
#	endif
			sn_ready(i)
		fi;
#endif
		d_step { runnable[i] -> runnable[i] = 0; parked[i] = 0 };
		if
		:: busy[i] -> state = RUNNING; goto out
		:: else
		fi;
		d_step { USED; state = word }
	:: else -> settled++
	fi;
	if
	:: state == ENDED ->
		assert(result);
		d_step { task_free(); succeeded++ }
	:: else /* -EBUSY */
	fi;
out:	skip
}

proctype detacher()
{
	byte state;

	d_step {
		USED;
		settled++;
		state = word;
		if
		:: state == RUNNING -> word = DETACHED; succeeded++
		:: else
		fi
	}
	if
	:: state == ENDED -> d_step { task_free(); succeeded++ }
	:: else /* 0 or -EBUSY */
	fi
}

init
{
	atomic {
		run ending();
#ifdef TWO
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
