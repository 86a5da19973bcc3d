/* SPDX-License-Identifier: MIT */
/*
 * sn_tie() and sn_untie() beside a signal handler on the same task's stack: src/sched/tie.c.
 *
 * They run in the task's own code, without a lock. A handler that has interrupted them may enter the
 * runtime, as the hooked close() does (src/hooks/connect.c). If the thread has lost its processor,
 * the task waits there for another one, and may run apart afterwards. A handler with the first
 * signal mask may also make a hooked call that parks. sn_foreign_may_park() refuses that from the
 * first store of sn_tie() to the last of sn_untie(): the task counts as tied then, or is about to,
 * so the handler would neither tie nor count it, but untie it.
 *
 * What is modelled, by the names of the C code:
 *   task()      sn_tie() and sn_untie(), ROUNDS times, one store in each step, in the order in which
 *               a compiler barrier keeps them
 *   handle()    sn_processor_regain() with sn_tie_came_back(), or a hooked call that parks, between
 *               any two of these steps, at most HANDLERS times
 * Not modelled: `tied` is a bit-field, whose store loads the byte and stores it with its neighbour
 * may_block. A handler in between leaves `tied` as it was, and its may_block, a hint, is lost. Nor
 * is what comes before: the calling thread's block is read, and then its task. A handler that parks
 * in between may move the task, and the block is then that of a thread which runs another task.
 *
 * Other threads do not touch the fields while the task runs these calls: those that untie a task
 * have taken it out of a queue, and this one is in none, or in the global queue, where it does not
 * count as tied.
 *
 * Safety: after each call the fields fit together, and `owned` counts the task while it is tied. At
 * each entry of the runtime the thread has what the interrupted code finds afterwards. A task that
 * parks is tied and counted, so that its home does not end.
 *
 * Mutants, each of which must be caught:
 *   HALF_UNTIED   sn_tie_came_back() looks only whether the task is bound
 *   TIED_FIRST    sn_untie() stores `tied` before `bound`
 *   IS_BOUND_FIRST  sn_task_bind_to() stores `is_bound` before `bound`
 *   PARKS_ANYWHERE  sn_foreign_may_park() does not look how the task is tied
 *   NOT_RESTORED  sn_processor_regain() does not restore how the task was tied
 *   SPLIT_COUNT   sn_untie() decrements `owned` by a load and a store, and the handler's thread
 *                 unties a task that waits
 */
#ifndef ROUNDS
#	define ROUNDS 2
#endif
#ifndef HANDLERS
#	define HANDLERS 2
#endif

/* Values of bound. */
#define NOBODY 0
#define HOME 1
#define NO_HOME 2

/* Values of tied. */
#define NOT 0
#define TIED 1
#define APART 2

byte bound, tied;
bool is_bound;
bool apart;
byte owned = 1; /* another task is tied to the thread, and waits */
byte handlers = HANDLERS;
bool waits = 1; /* the other task, until the monitor unties it */

inline unbind_in_handler()
{
	bound = (apart -> NO_HOME : NOBODY);
	is_bound = (bound != NOBODY);
	tied = (apart -> APART : NOT)
}

/* sn_tie_is_over(), which sn_foreign_may_park() asks. */
#ifdef PARKS_ANYWHERE
#	define MAY_PARK true
#else
#	define MAY_PARK (bound == NOBODY && tied == NOT || bound == NO_HOME && tied == APART)
#endif

/* One step: nobody else sees what it does. The signal comes, or not. */
inline handle()
{
	if
	:: true
	:: d_step {
		handlers > 0 && MAY_PARK ->
		handlers--;
		/* sn_tie() */
		if
		:: bound == NOBODY || tied == APART ->
			bound = HOME;
			is_bound = 1;
			tied = TIED;
			owned++
		:: else
		fi;
		/* It parks. */
		assert(bound == HOME && is_bound && tied == TIED && owned == 1 + waits);
		/* sn_untie() */
		owned--;
		unbind_in_handler()
	}
	:: d_step {
		handlers > 0 ->
		handlers--;
		was_bound = bound;
		was_tied = tied;
		bound = HOME;
		is_bound = 1;
		tied = NOT;
		/* sn_await_processor() */
		bound = was_bound;
		is_bound = (bound != NOBODY);
#ifndef NOT_RESTORED
		tied = was_tied;
#endif
		/* sn_tie_came_back() */
		apart = 1;
		if
#ifdef HALF_UNTIED
		:: bound == NOBODY -> unbind_in_handler()
#else
		:: bound == NOBODY && tied == NOT -> unbind_in_handler()
#endif
		:: else
		fi;
		was_bound = 0;
		was_tied = 0
	}
	fi
}

/* sn_task_bind_to() in the interrupted code. */
inline bind_to(whom)
{
#ifdef IS_BOUND_FIRST
	is_bound = (whom != NOBODY);
	handle();
	bound = whom
#else
	bound = whom;
	handle();
	is_bound = (whom != NOBODY)
#endif
}

#define FREE (is_bound == (bound != NOBODY) && \
	(bound == NOBODY && tied == NOT || bound == NO_HOME && tied == APART && apart))

proctype task()
{
	byte rounds = ROUNDS, was_bound, was_tied, read;
	bool seen;

	do
	:: rounds > 0 ->
		rounds--;
		/* sn_tie() */
		assert(FREE);
		handle();
		bind_to(HOME);
		handle();
		tied = TIED;
		handle();
		owned++;
		handle();
		assert(bound == HOME && is_bound && tied == TIED && owned == 1 + waits);
		/* sn_untie() */
		read = tied;
		handle();
		assert(read == TIED && bound == HOME);
#ifdef SPLIT_COUNT
		read = owned;
		handle();
		owned = read - 1;
#else
		owned--;
#endif
		handle();
		seen = apart;
		handle();
#ifdef TIED_FIRST
		tied = (seen -> APART : NOT);
		handle();
		bind_to((seen -> NO_HOME : NOBODY));
#else
		bind_to((seen -> NO_HOME : NOBODY));
		handle();
		tied = (seen -> APART : NOT);
#endif
		handle();
		assert(FREE && owned == waits);
		d_step { read = 0; seen = 0 }
	:: rounds == 0 -> break
	od
}

/* untie_waiting(), of the other task. */
proctype monitor()
{
	d_step { waits = 0; owned-- }
}

init
{
	atomic { run task(); run monitor() }
}
