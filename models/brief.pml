/* SPDX-License-Identifier: MIT */
/*
 * Debts to the poller: owes_poller and brief tasks, src/sched/brief.c.
 *
 * What is modelled, by the names of the C code:
 *   thread()    sleep_in_poller() with take_news() and sn_ready_each(); sn_next_task(),
 *               about_to_run(), sn_stop_spinning(), sn_brief_pay(), hand_over(); a task that makes
 *               others runnable (sn_ready()) and parks, computes forever, or stays outside; a brief
 *               one that calls sn_brief_poll() or sn_brief_end(); become_idle(), sleep_in_parker();
 *               sn_processor_regain()
 *   monitor()   sn_lease_revoke(), sn_processor_give(), sn_processors_notice()
 *   network()   events, each of which makes a task runnable, brief or not; a timer that becomes due
 *   foreign()   a foreign thread's sn_ready()
 *   cpu()       the store buffers: that of the run queue's tail, as in idle.pml. An announced task
 *               spends no time in it, because idle.pml models that. A task that is queued without
 *               an announcement stays in it until something drains it.
 *
 * Abstracted:
 *   - As in idle.pml: queues are counters, what the lock guards is one step, there is always a
 *     thread to start, a processor is handed over in one step, and everything comes to rest.
 *     sn_wake_one() gives the processor away in the step that takes it.
 *   - Something always waits for the poller: sn_nobody_would_notice() is polling == 0.
 *   - FEW_BRIEF is 1, and the poller finds one event at a time. Only the poller and sn_brief_poll()
 *     look for events.
 *   - Time: sn_brief_poll() may find at any moment that the poller's events have waited for too
 *     long, and any turn may be fair. The timer is in the heap of processor 0, and makes nothing
 *     runnable. Naps are in idle.pml.
 *   - The monitor looks at timers all the time, but revokes only REVOCATIONS times. It cannot take
 *     the processor from a task that computes.
 *
 * Safety (assertions), at rest: no task is queued while a processor is idle, and no processor is
 * idle while no thread is in the poller. The exception is a thread that owes a wake-up and stays in
 * code that has promised to be brief (LEFT). Then at most a few brief tasks wait, in its own ring;
 * none do, and no event does, if it calls sn_brief_turn() again and again. No timer is due while a
 * processor is idle, whatever is owed. spinning is 0.
 *
 * Variants: TASKS, EVENTS, FOREIGN, REVOCATIONS; RETURNS (a thread whose processor was revoked
 * returns); TIMER; BOUND (the foreign thread's task is bound to a thread that waits); QUIET (at
 * first everything is idle, and a thread is about to sleep in the poller; otherwise both processors
 * run something).
 *
 * Mutants, each of which must be caught:
 *   NO_FENCE        sn_brief_pay() without its fence
 *   PAY_UNPOLLED    sn_brief_pay() ignores whether a thread polls
 *   PAY_UNSEEN      sn_brief_pay() does not look for what sn_ready() has left
 *   NOT_PAID        about_to_run() runs a task that is not brief without paying
 *   END_OWES        sn_brief_end() does not pay
 *   POLL_OWES       sn_brief_poll() looks for events only, though tasks were left waiting
 *   DEBT_REVOKED    sn_processor_give() ignores the debt of the thread whose processor was revoked
 *   ALL_LEFT        sn_ready() announces no brief task, however many there are
 *   ANY_LEFT        sn_ready() leaves a task unannounced that is not brief
 *   LEFT_BY_ALL     sn_ready() leaves a brief task unannounced although its thread owes nothing
 *   OWN_ONLY        sn_stop_spinning() of a thread that owes ignores the queues of others too
 *   PARKER_OWES     with BOUND: sleep_in_parker() does not pay
 *   NO_NOTICE       with TIMER: no sn_processors_notice()
 * A thread that does not forget its debt when it becomes idle is no mutant, because it would only
 * pay the debt once more.
 */
#ifndef TASKS
#	define TASKS 1 /* tasks still to come, besides those that run at first */
#endif
#ifndef EVENTS
#	define EVENTS 1
#endif
#ifndef FOREIGN
#	define FOREIGN 0 /* tasks that foreign threads make runnable */
#endif
#ifndef REVOCATIONS
#	define REVOCATIONS 0
#endif
#define PROCESSORS 2
#ifdef BOUND
#	define WAITS(t) (t == PROCESSORS + 1)
#	define THREADS (PROCESSORS + 2)
#else
#	define WAITS(t) 0
#	define THREADS (PROCESSORS + 1 + REVOCATIONS)
#endif
#define GLOBAL PROCESSORS
#define NONE 255
#define FEW 1
#ifdef QUIET
#	define RUNS(t) (t == 0)
#else
#	define RUNS(t) (t < PROCESSORS)
#endif

/* Tasks in the queues: brief ones, and others. */
byte brief[PROCESSORS + 1];
byte plain[PROCESSORS + 1];
bool idle[PROCESSORS];
byte idle_count;
byte spinning;
bool polling;
byte in_poller;
byte list;                 /* threads in the list of idle ones, one bit each */
byte processor[THREADS] = NONE;
bool counted[THREADS];     /* struct sn_thread's spinning */
bool owes[THREADS];
bool parker[THREADS];
bool outside[THREADS];
byte promised[THREADS];    /* 1: in user code that has promised to be brief; 2: it also calls
                            * sn_brief_turn() */
byte born[PROCESSORS];     /* 1: waits for a thread to start; 2: for one that will count as
                            * spinning */
byte pending[THREADS];     /* brief tasks that were put into the ring, but are still in the store
                            * buffer */
byte events;
bool due;                  /* a timer is due */
bool bound;                /* with BOUND: the waiting thread's task is in the global queue */
byte to_come = TASKS;
hidden byte hp;

#ifdef BOUND
#	define WORK_IN(p) (brief[p] + plain[p] > 0 || p == GLOBAL && bound)
#else
#	define WORK_IN(p) (brief[p] + plain[p] > 0)
#endif
#define WORK_EXISTS (WORK_IN(0) || WORK_IN(1) || WORK_IN(GLOBAL))
#define WORK_BESIDE(p) (WORK_IN(GLOBAL) || WORK_IN(1 - (p)))
/* How many the thread itself sees. */
#define WORK_SEEN(t) (WORK_EXISTS || pending[t] > 0)

/* Whether sn_brief_poll() would have an effect. */
#ifdef POLL_OWES
#	define TURN_DOES(t) (polling || events > 0 || due)
#else
#	define TURN_DOES(t) (polling || events > 0 || due || brief[processor[t]] + plain[processor[t]] > 0)
#endif

/* What a thread that owes a wake-up may leave undone at rest. */
#define LEFT(t) (owes[t] && promised[t] && processor[t] != NONE && !WORK_BESIDE(processor[t]) && \
	plain[processor[t]] == 0 && brief[processor[t]] <= (promised[t] == 1 -> FEW : 0))

/* ---- all inside d_step ---- */

inline drain(t)
{
	if
	:: pending[t] > 0 ->
		brief[processor[t]] = brief[processor[t]] + pending[t]; pending[t] = 0
	:: else
	fi
}

inline idle_put(p)
{
	assert(!idle[p]);
	idle[p] = 1;
	idle_count++
}

/* The result is in hp; NONE if there is none. */
inline idle_get()
{
	if
	:: idle[0] -> hp = 0; idle[0] = 0; idle_count--
	:: else ->
		if
		:: idle[1] -> hp = 1; idle[1] = 0; idle_count--
		:: else -> hp = NONE
		fi
	fi
}

inline hand(u, p, s)
{
	list = list & ~(1 << u);
	processor[u] = p;
	counted[u] = s;
	parker[u] = 1
}

inline uncount()
{
	assert(spinning > 0);
	spinning--
}

inline start_spinning(t)
{
	if
	:: !counted[t] -> counted[t] = 1; spinning++
	:: else
	fi
}

inline start_processor(p, s)
{
	if
	:: list & 1 -> hand(0, p, s)
	:: else ->
		if
		:: list & 2 -> hand(1, p, s)
		:: else ->
			if
			:: list & 4 -> hand(2, p, s)
			:: else ->
#if THREADS > 3
				if
				:: list & 8 -> hand(3, p, s)
				:: else -> born[p] = 1 + s
				fi
#else
				born[p] = 1 + s
#endif
			fi
		fi
	fi
}

/* ---- waking; last is a variable of the caller ---- */

inline wake_one()
{
	if
	:: d_step { spinning == 0 -> spinning = 1 };
		d_step {
			idle_get();
			if
			:: hp == NONE -> uncount()
			:: else -> start_processor(hp, 1)
			fi
		}
	:: spinning > 0
	fi
}

inline announce(t)
{
	d_step { drain(t); last = (idle_count > 0 && spinning == 0) }
	finish_announcing()
}

inline finish_announcing()
{
	if
	:: last -> last = 0; wake_one()
	:: else
	fi
}

inline pay_poller(t)
{
	d_step {
		last = 0;
		if
		:: owes[t] ->
			owes[t] = 0;
#ifndef NO_FENCE
			drain(t);
#endif
#ifdef PAY_UNPOLLED
			last = (idle_count > 0 && WORK_SEEN(t))
#else
#	ifdef PAY_UNSEEN
			last = (idle_count > 0 && !polling)
#	else
			last = (idle_count > 0 && (WORK_SEEN(t) || !polling))
#	endif
#endif
		:: else
		fi
	}
	if
	:: last -> last = 0; wake_one()
	:: else
	fi
}

inline stop_spinning(t)
{
	d_step {
		last = 0;
		if
		:: counted[t] -> drain(t); counted[t] = 0; uncount(); last = (spinning == 0)
		:: else
		fi
	}
	if
	:: last ->
		d_step {
#ifdef OWN_ONLY
			last = (idle_count > 0 && !owes[t] && (WORK_EXISTS || !polling))
#else
			if
			:: owes[t] -> last = (idle_count > 0 && WORK_BESIDE(processor[t]))
			:: else -> last = (idle_count > 0 && (WORK_EXISTS || !polling))
			fi
#endif
		}
		if
		:: last -> last = 0; wake_one()
		:: else
		fi
	:: else
	fi
}

/* A thread with a processor makes a task runnable, brief or not. */
inline sn_ready(t, b)
{
	d_step {
		last = 0;
		if
		:: b ->
			pending[t]++;
#ifdef LEFT_BY_ALL
			last = 1;
#else
			last = owes[t];
#endif
#ifndef ALL_LEFT
			if
			:: pending[t] + brief[processor[t]] + plain[processor[t]] > FEW -> last = 0
			:: else
			fi
#endif
		:: else ->
			drain(t);
			plain[processor[t]]++;
#ifdef ANY_LEFT
			last = owes[t]
#endif
		fi
	}
	if
	:: last -> last = 0
	:: else -> announce(t)
	fi
}

/* found and v are variables of the caller. */
inline sn_brief_poll(t)
{
	/* others_wait */
	found = (brief[processor[t]] + plain[processor[t]] + pending[t] > 0);
	if
	:: d_step { !polling && events > 0 -> events--; v = 1 }; sn_ready(t, v)
	:: d_step { !polling && events > 0 -> events--; v = 0 }; sn_ready(t, v)
	:: polling || events == 0
	fi;
#ifdef POLL_OWES
	found = 0;
#endif
	if
	:: found || polling || due -> found = 0; pay_poller(t)
	:: else
	fi;
	v = 0
}

/* The results are in found and is_brief; v is set if the task has to be handed over. */
inline take(q)
{
	if
	:: brief[q] > 0 -> brief[q]--; is_brief = 1; found = 1
	:: else ->
		if
		:: plain[q] > 0 -> plain[q]--; is_brief = 0; found = 1
#ifdef BOUND
		:: plain[q] == 0 && q == GLOBAL && bound -> bound = 0; v = 1; is_brief = 0; found = 1
#endif
		:: else
		fi
	fi
}

/* ---- */

proctype cpu()
{
end:	do
	:: d_step { pending[0] > 0 -> drain(0) }
	:: d_step { pending[1] > 0 -> drain(1) }
	:: d_step { pending[2] > 0 -> drain(2) }
#if THREADS > 3
	:: d_step { pending[3] > 0 -> drain(3) }
#endif
	od
}

proctype thread(byte t; bool runs)
{
	byte v;
	bool found, last, is_brief;

	if
	:: runs && processor[t] == NONE -> goto sleep_in_poller
	:: runs && processor[t] != NONE -> goto running
#ifdef BOUND
	:: WAITS(t) ->
end_waits:	atomic { parker[t] -> parker[t] = 0 }
		goto running
#endif
	:: !runs && !WAITS(t) -> goto end_parker
	fi;

running: /* runs a task */
	do
	:: d_step { to_come > 0 -> to_come--; v = 1 }; sn_ready(t, v)
	:: d_step { to_come > 0 -> to_come--; v = 0 }; sn_ready(t, v)
	:: is_brief && owes[t] -> sn_brief_poll(t)
	:: is_brief -> is_brief = 0; /* sn_brief_end() */
#ifndef END_OWES
		pay_poller(t)
#endif
	:: d_step { outside[t] = 1; promised[t] = is_brief }; goto end_user_code
	:: promised[t] = is_brief; goto end_user_code /* computes */
	:: is_brief -> promised[t] = 2; goto end_turns
	:: break
	od;

next_task:
	skip;
	d_step {
		v = 0;
		drain(t);
		found = 0;
		is_brief = 0;
		if
		:: due && processor[t] == 0 -> due = 0
		:: else
		fi
	}
	if
	:: d_step {
		take(processor[t]);
		if
		:: !found -> take(GLOBAL)
		:: else
		fi
	}
	:: d_step { WORK_IN(GLOBAL) && WORK_IN(processor[t]) -> take(GLOBAL) } /* a fair turn */
	fi;
	if
	:: found -> goto about_to_run
	:: !found && !counted[t] -> goto become_idle /* enough threads are looking */
	:: !found -> d_step { start_spinning(t) }
	fi;
	/* steal() */
	d_step {
		due = 0;
		take(1 - processor[t])
	}
	if
	:: found
	:: else -> goto become_idle
	fi;

about_to_run:
	found = 0;
	stop_spinning(t);
#ifdef BOUND
	if
	:: v == 1 -> /* hand_over(); sleep_in_parker() pays */
		d_step {
			v = 0;
			drain(t);
			processor[PROCESSORS + 1] = processor[t];
			processor[t] = NONE;
			parker[PROCESSORS + 1] = 1
		}
#	ifndef PARKER_OWES
		pay_poller(t);
#	endif
		goto sleep_in_parker
	:: else
	fi;
#endif
#ifndef NOT_PAID
	if
	:: !is_brief -> pay_poller(t)
	:: else
	fi;
#endif
	goto running;

become_idle:
	if
	:: d_step { !WORK_IN(GLOBAL) -> idle_put(processor[t]); processor[t] = NONE }
	:: WORK_IN(GLOBAL) -> goto next_task
	fi;
	d_step {
		owes[t] = 0;
		if
		:: counted[t] -> counted[t] = 0; uncount()
		:: else
		fi
	}
	if
	:: WORK_EXISTS ->
		d_step {
			idle_get();
			if
			:: hp != NONE -> processor[t] = hp; start_spinning(t)
			:: else
			fi
		}
		if
		:: processor[t] != NONE -> goto next_task
		:: else
		fi
	:: else
	fi;
sleep_in_poller:
	if
	:: d_step { !polling -> polling = 1; in_poller++; assert(in_poller == 1) }
	:: polling -> goto sleep_in_parker
	fi;
end_poller:
	if
	:: d_step { events > 0 -> events--; v = 1; in_poller-- } /* a brief task is ready */
	:: d_step { events > 0 -> events--; v = 2; in_poller-- } /* or one that is not brief */
	:: d_step { due -> in_poller-- }
	fi;
	polling = 0;
	d_step {
		idle_get();
		processor[t] = hp;
		if
		:: hp != NONE ->
			start_spinning(t);
			/* take_news() */
			if
			:: v == 1 -> owes[t] = 1
			:: else
			fi
		:: else ->
			if
			:: v == 1 -> brief[GLOBAL]++
			:: v == 2 -> plain[GLOBAL]++
			:: else
			fi
		fi
	}
	if
	:: processor[t] != NONE ->
		if
		:: v > 0 -> sn_ready(t, v == 1)
		:: else
		fi;
		goto next_task
	:: else ->
		if
		:: v > 0 -> announce(t)
		:: else
		fi
	fi;

sleep_in_parker:
	atomic {
		v = 0;
		do
		:: v < PROCESSORS && born[v] == 0 -> v++
		:: else -> break
		od;
		if
		:: v < PROCESSORS -> processor[t] = v; counted[t] = born[v] - 1; born[v] = 0; parker[t] = 1
		:: else -> list = list | (1 << t)
		fi;
		v = 0
	}
end_parker:
	atomic { parker[t] -> parker[t] = 0 }
	goto next_task;

end_turns: /* also computes forever, but calls sn_brief_turn() */
	do
	:: owes[t] && TURN_DOES(t) -> sn_brief_poll(t)
	od;

end_user_code: /* while it is outside, until the monitor takes the processor */
	processor[t] == NONE;
#ifdef RETURNS
	/* sn_processor_regain(), if there is an idle processor. The thread still has its old
	 * debt. */
	d_step {
		outside[t] = 0;
		promised[t] = 0;
		idle_get();
		processor[t] = hp
	}
	if
	:: processor[t] != NONE -> goto running
	:: else
	fi
#endif
}

#if FOREIGN > 0
proctype foreign()
{
	byte n = FOREIGN;
	bool last;

	do
	:: n > 0 ->
#	ifdef BOUND
		d_step { n--; bound = 1 }
#	else
		d_step { n--; plain[GLOBAL]++ }
#	endif
		last = (idle_count > 0 && spinning == 0);
		finish_announcing()
	:: else -> break
	od
}
#endif

proctype network()
{
	byte n;

end:	do
	:: n < EVENTS -> d_step { events++; n++ }
#ifdef TIMER
	:: n < EVENTS + 1 -> d_step { due = 1; n = EVENTS + 1 }
#endif
	od
}

#if REVOCATIONS > 0
inline revoke(t)
{
	d_step {
		revocations > 0 && outside[t] && processor[t] != NONE ->
		revocations--;
		drain(t);
		p = processor[t];
		processor[t] = NONE;
		/* sn_processor_give() */
		given = (WORK_IN(p) || WORK_IN(GLOBAL) || (p == 0 && due))
	}
}
#endif

#if REVOCATIONS > 0 || defined(TIMER)
proctype monitor()
{
	byte p, revocations = REVOCATIONS;
	bool given;

end:	do
#if REVOCATIONS > 0
	::	if
		:: revoke(0)
		:: revoke(1)
		:: revoke(2)
		:: revoke(3)
		fi;
		d_step {
			if
			:: given -> start_processor(p, 0)
			:: else -> idle_put(p)
			fi;
			p = 0
		}
#	ifdef DEBT_REVOKED
		if
		:: !given && (WORK_EXISTS || !polling) -> wake_one()
		:: else
		fi;
#	else
		if
		:: given && idle_count > 0 && !polling -> wake_one()
		:: !given && (WORK_EXISTS || !polling) -> wake_one()
		:: else
		fi;
#	endif
		given = 0
#endif
#if defined(TIMER) && !defined(NO_NOTICE)
	:: due && idle_count > 0 && !polling -> wake_one() /* sn_processors_notice() */
#endif
#if REVOCATIONS == 0 && defined(NO_NOTICE)
	:: false
#endif
	od
}
#endif

init
{
	byte i;

	atomic {
		do
		:: i < THREADS ->
			if
#ifdef QUIET
			:: i < PROCESSORS ->
				idle_put(i);
				if
				:: i > 0 -> list = list | (1 << i)
				:: else
				fi
#else
			:: i < PROCESSORS -> processor[i] = i
#endif
			:: i >= PROCESSORS && !WAITS(i) -> list = list | (1 << i)
			:: else
			fi;
			run thread(i, RUNS(i));
			i++
		:: else -> break
		od;
		i = 0;
		run cpu();
		run network();
#if FOREIGN > 0
		run foreign();
#endif
#if REVOCATIONS > 0 || defined(TIMER)
		run monitor()
#endif
	}
	/* At rest. */
	timeout;
	assert(spinning == 0);
	assert(!due || idle_count == 0);
#if THREADS > 3
	assert(idle_count == 0 || !WORK_EXISTS && in_poller || LEFT(0) || LEFT(1) || LEFT(2) || LEFT(3))
#else
	assert(idle_count == 0 || !WORK_EXISTS && in_poller || LEFT(0) || LEFT(1) || LEFT(2))
#endif
}
