/* SPDX-License-Identifier: MIT */
/*
 * Cancelling a scope and a scope inside, also by the deadline, whose thread hands the visits over:
 * src/sync/scope_cancel.c. How a deadline is moved is in scope.pml.
 *
 * What is modelled, by the names of the C code:
 *   opener()     the opener of the outer scope: scope_close(), with sn_scope_end_deadline()
 *   nest()       a task in the outer scope, which opens the inner one with link_to_outer(), starts
 *                a task there, waits, closes it with unlink_from_outer(), and ends
 *   leaf()       the task in the inner scope
 *   joiner()     sn_scope_task_new() with the handle of the outer scope, at any moment, and the
 *                task
 *   firing()     fire() of the outer scope's timer, at any moment, and sn_scope_expire()
 *   helper()     the tasks that hand_over() starts: visit_expired() and cancel_rest()
 *   canceller()  sn_scope_cancel() of the outer scope, at any moment or never
 * A task waits in a wait that only a cancellation ends: sn_cancel_publish() and sn_cancel_take(),
 * which are one step each, because both hold the task's lock.
 *
 * Abstracted: the list of tasks is a set; `ahead` are the tasks after the marker. The visitor
 * releases the lock after each task. The number of tasks is a hint in the code, so here the thread
 * of the timer may hand over or not, and there may be no memory for the task. Of the watches there
 * is nothing. The run does not end.
 *
 * Safety (assertions): nothing touches a scope that was freed; a scope has one visitor at a time,
 * and one in its life; a task is woken once; when a scope is freed, its visitor is done. At the
 * end, if the outer scope was cancelled, each task has ended, so each was notified.
 *
 * Mutants, each of which must be caught:
 *   BOTH_VISIT      the thread of the timer hands the scope over, and visits it all the same
 *   ANY_SETS        set_error() does not check that it is the first
 *   COUNT_EARLY     the thread gives up its count of the scope when it hands it over
 *   REST_FORGOTTEN  visit_expired() forgets the scopes inside
 *   REST_UNHELD     the visitor puts the inner scope on the list of work without a count of it
 *   NO_MEMORY       without memory for the task nothing visits the scope
 *   REASON_LATE     the visitor sets the reason after its visit
 *   JOIN_BLIND      a task does not read the reason before it waits
 *   LISTED_LATE     a task is added to the list after it was started
 *   OPEN_BLIND      link_to_outer() does not read the reason
 *   OPENER_MISSED   the visitor does not visit the opener
 */
#define OUTER 0
#define INNER 1
#define NO_SCOPE 2

/* The tasks that can wait. */
#define NEST 0
#define LEAF 1
#define JOINER 2
#define TASKS 3

#define bit_of(t) (1 << (t))

/* Of each scope. */
bool error[2], reason[2], locked[2], freed[2];
byte running[2];
byte holds[2];           /* active: a keyword of spin */
byte tasks[2];          /* a set */
byte ahead[2];          /* of these, the ones that the visitor has not come to */
bool inner_linked;      /* the inner scope is in the outer one's list */
bool armed = 1;         /* the outer scope's timer */

/* Of each task. */
byte cancel[TASKS];     /* the scope in which it works */
byte waiting, ready;    /* sets */

/* What hand_over() gives to its task. */
chan handed = [1] of { byte };
#define WHOLE 0         /* visit_expired() */
#define REST 1          /* cancel_rest() */

/* Only in the model, not in the code. */
bool visiting[2], visited[2];
byte over;

#define TOUCH(s) assert(!freed[s])

inline lock(s)
{
	atomic { !locked[s] -> TOUCH(s); locked[s] = 1 }
}
inline unlock(s)
{
	atomic { TOUCH(s); locked[s] = 0 }
}
inline give_up(s)
{
	atomic { TOUCH(s); assert(running[s] > 0); running[s]-- }
}
inline let_go(s)
{
	atomic { TOUCH(s); assert(holds[s] > 0); holds[s]-- }
}

/* ---- tasks ---- */

/* Begins a wait that only a cancellation ends. If the scope is cancelled, the wait is over. */
inline publish(t)
{
	atomic {
		TOUCH(cancel[t]);
#ifndef JOIN_BLIND
		if
		:: reason[cancel[t]] -> ready = ready | bit_of(t)
		:: else -> waiting = waiting | bit_of(t)
		fi
#else
		waiting = waiting | bit_of(t)
#endif
	}
}

inline park(t)
{
	atomic { (ready & bit_of(t)) -> ready = ready & ~bit_of(t) }
}

/* sn_cancel_take(). The task may work in another scope than the one that is visited. */
inline take(t)
{
	atomic {
		if
		:: (waiting & bit_of(t)) && reason[cancel[t]] ->
			waiting = waiting & ~bit_of(t);
			taken = taken | bit_of(t)
		:: else
		fi
	}
}

inline ready_each()
{
	atomic {
		assert((ready & taken) == 0);
		ready = ready | taken;
		taken = 0
	}
}

inline task_ended(t, s)
{
	lock(s);
	tasks[s] = tasks[s] & ~bit_of(t);
	ahead[s] = ahead[s] & ~bit_of(t);
	unlock(s);
	give_up(s)
}

inline add_task(t, s)
{
	lock(s);
	d_step {
		tasks[s] = tasks[s] | bit_of(t);
		if
		:: visiting[s] -> ahead[s] = ahead[s] | bit_of(t)
		:: else
		fi
	};
	unlock(s)
}

/* ---- visits ---- */

inline visit_tasks(s)
{
	atomic {
		assert(!visiting[s] && !visited[s]);
		visiting[s] = 1;
		ahead[s] = tasks[s]
	};
	do
	:: ahead[s] & bit_of(NEST) ->
		ahead[s] = ahead[s] & ~bit_of(NEST);
		take(NEST);
		pause(s)
	:: ahead[s] & bit_of(LEAF) ->
		ahead[s] = ahead[s] & ~bit_of(LEAF);
		take(LEAF);
		pause(s)
	:: ahead[s] & bit_of(JOINER) ->
		ahead[s] = ahead[s] & ~bit_of(JOINER);
		take(JOINER);
		pause(s)
	:: ahead[s] == 0 -> break
	od
}

inline pause(s)
{
	unlock(s);
	ready_each();
	lock(s)
}

inline hold_inner()
{
	atomic {
		if
		:: inner_linked ->
			TOUCH(INNER);
#ifndef REST_UNHELD
			holds[INNER]++;
#endif
			work = 1
		:: else
		fi
	}
}

inline visit_outer()
{
	lock(OUTER);
	visit_tasks(OUTER);
	hold_inner();
	atomic { visiting[OUTER] = 0; visited[OUTER] = 1 };
	unlock(OUTER);
	ready_each()
#ifdef REASON_LATE
	;
	reason[OUTER] = 1
#endif
}

inline visit_inner()
{
	lock(INNER);
	visit_tasks(INNER);
#ifndef OPENER_MISSED
	take(NEST);
#endif
	atomic { visiting[INNER] = 0; visited[INNER] = 1 };
	unlock(INNER);
	ready_each()
#ifdef REASON_LATE
	;
	reason[INNER] = 1
#endif
}

inline set_error(s)
{
	atomic {
		TOUCH(s);
#ifdef ANY_SETS
		first = 1;
#else
		first = !error[s];
#endif
		error[s] = 1
	}
#ifndef REASON_LATE
	;
	if
	:: first -> atomic { TOUCH(s); reason[s] = 1 }
	:: !first
	fi
#endif
}

/* cancel_next() for all of the list of work. The inner scope has none inside. */
inline cancel_work()
{
	if
	:: work ->
		work = 0;
		set_error(INNER);
		if
		:: first -> visit_inner()
		:: !first
		fi;
#ifndef REST_UNHELD
		let_go(INNER)
#else
		skip
#endif
	:: !work
	fi
}

proctype canceller()
{
	byte taken;
	bool first, work;

	/* sn_scope_hold_handle() */
	if
	:: atomic { holds[OUTER] > 0 -> holds[OUTER]++ }
	:: goto done
	fi;
	set_error(OUTER);
	if
	:: first -> visit_outer()
	:: !first
	fi;
	cancel_work();
	let_go(OUTER);
done:	over++
}

proctype helper()
{
	byte what, taken;
	bool first, work;

endhelp: do
	:: handed ? what ->
		if
		:: what == WHOLE ->
			visit_outer();
#ifdef REST_FORGOTTEN
			if
			:: work -> work = 0; let_go(INNER)
			:: !work
			fi;
#endif
#ifndef COUNT_EARLY
			give_up(OUTER)
#endif
		:: what == REST -> work = 1
		fi;
		cancel_work()
	od
}

proctype firing()
{
	byte taken;
	bool first, work;

	/* fire(), under the heap's lock */
endfire: atomic {
		armed ->
		armed = 0;
		TOUCH(OUTER);
		if
		:: running[OUTER] > 0 -> running[OUTER]++
		:: else -> goto done
		fi
	};
	set_error(OUTER);
	if
	:: first ->
		if
		:: handed ! WHOLE;
#ifdef COUNT_EARLY
			give_up(OUTER);
#endif
#ifdef BOTH_VISIT
			visit_outer();
#endif
			goto done
		/* There are few tasks, or there is no memory. */
#ifdef NO_MEMORY
		:: skip
#else
		:: visit_outer()
#endif
		fi
	:: !first
	fi;
	give_up(OUTER);
	if
	:: work -> handed ! REST
	:: cancel_work()
	fi;
done:	skip
}

/* ---- the life of the scopes ---- */

proctype joiner()
{
	/* sn_scope_task_new() */
	if
	:: atomic { running[OUTER] > 0 -> running[OUTER]++ }
	:: running[OUTER] == 0 -> goto done
	fi;
	if
	:: atomic { reason[OUTER] -> TOUCH(OUTER) };
		give_up(OUTER);
		goto done
	:: atomic { !reason[OUTER] -> TOUCH(OUTER) }
	fi;
	cancel[JOINER] = OUTER;
#ifndef LISTED_LATE
	add_task(JOINER, OUTER);
	publish(JOINER);
#else
	publish(JOINER);
	add_task(JOINER, OUTER);
#endif
	park(JOINER);
	task_ended(JOINER, OUTER);
done:	over++
}

proctype leaf()
{
	publish(LEAF);
	park(LEAF);
	task_ended(LEAF, INNER);
	over++
}

proctype nest()
{
	/* link_to_outer() */
	lock(OUTER);
	if
#ifdef OPEN_BLIND
	:: inner_linked = 1; unlock(OUTER)
#else
	:: !reason[OUTER] -> inner_linked = 1; unlock(OUTER)
	:: reason[OUTER] ->
		unlock(OUTER);
		over++;
		goto ended
#endif
	fi;
	cancel[NEST] = INNER;
	atomic { running[INNER]++; cancel[LEAF] = INNER };
	add_task(LEAF, INNER);
	run leaf();
	publish(NEST);
	park(NEST);

	/* scope_close() */
	give_up(INNER);
	running[INNER] == 0;
	lock(OUTER);
	inner_linked = 0;
	unlock(OUTER);
	let_go(INNER);
	holds[INNER] == 0;
	cancel[NEST] = OUTER;
	atomic { assert(!visiting[INNER] && !locked[INNER]); freed[INNER] = 1 };
ended:	task_ended(NEST, OUTER);
	over++
}

proctype opener()
{
	give_up(OUTER);
	running[OUTER] == 0;
	armed = 0; /* sn_scope_end_deadline() */
	let_go(OUTER);
	holds[OUTER] == 0;
	atomic { assert(!visiting[OUTER] && !locked[OUTER]); freed[OUTER] = 1; over++ }
}

init {
	atomic {
		running[OUTER] = 2; /* one for the opener, one for nest() */
		holds[OUTER] = 1;
		running[INNER] = 1;
		holds[INNER] = 1;
		tasks[OUTER] = bit_of(NEST);
		cancel[NEST] = OUTER;
		run opener();
		run nest();
		run joiner();
		run firing();
		run helper();
		run canceller()
	}
	timeout;
	/* Without canceller() the timer has fired: the tasks wait until then. */
	assert(error[OUTER]);
	assert(over == 5 && freed[OUTER] && freed[INNER] == visited[INNER])
}
