/* SPDX-License-Identifier: MIT */
/*
 * One side of a descriptor: src/sched/side.h, src/io/fd_wait.c.
 *
 * What is modelled, by the names of the C code:
 *   task()           sn_conn_read_some(), again and again, until the end of the stream: the
 *                    attempt, and sn_fd_await() after EAGAIN, or before the attempt if the previous
 *                    one has left the socket empty (drained) With QUIET, at any point instead: the
 *                    task ends, and leaves the stream to one that begins when it can be read
 *                    (stream/when_readable.c); the model has one task for both, because never more
 *                    than one of them uses the side
 *   commit()         commit_wait(). There are two of them, because one may still run when its task
 *                    has been woken on another thread and waits again
 *   poller()         sn_fds_event(), for each edge. The kernel reports the state at the moment when
 *                    the poller fetches the edge
 *   end_with()       sn_fd_end_with(), once to cancel and once to close
 *   set_deadline()   sn_conn_set_deadline(), with sn_fd_set_deadline()
 *   timers()         sn_fd_deadline_fire(), called by sn_timers_run() with the heap's lock held
 *   arm()            arm(), without the descriptor's lock, so that more can happen than in the
 *                    code
 * With NO_MEMORY, there may be no memory for the heap: commit_wait() then wakes its task, and
 * sn_conn_set_deadline() does it for a deadline that has passed. (It returns an error for one that
 * has not, which is left out.)
 * The states of the side are NONE, READY and WAITING (the address of the task).
 *
 * Abstracted: time is SOON, which comes once, and FAR, which does not; a deadline is 0 (none) or
 * one of these, and so is the time of the timer. Every access to the words is sequentially
 * consistent in the code, so there are no store buffers. The descriptor is not destroyed, because
 * its structure never is. sn_fd_pause() is a deadline under another name.
 *
 * Safety (assertions): a task is made runnable only when it is parked, and once for each park. At
 * rest: a task that is still parked has neither bytes nor an end to read, is neither cancelled nor
 * closed, and its deadline has not passed. A read that fails because of its deadline has made an
 * attempt since it began and since it was parked.
 *
 * Mutants, each of which must be caught:
 *   NO_RECHECK       commit_wait() does not read control after it has announced the task
 *   DEADLINE_FIRST   commit_wait() reads the deadline before it announces the task
 *   SET_LATE         sn_fd_set_deadline() looks for a waiting task before it stores the deadline
 *   COMMIT_INSISTS   commit_wait() wakes its task although another party has taken it off the side
 *   PLAIN_UNBLOCK    side_unblock() loads and stores instead of comparing and swapping
 *   EDGE_DROPPED     an edge that finds no task leaves no READY
 *   DRAINED_BLINDLY  a read that has taken all bytes makes the next one wait, whatever epoll has
 *                    reported
 *   FORGET_LATE      the edge is forgotten after the attempt instead of before
 *   IRREGULAR_LATE   the poller makes the side ready before it records the end
 *   QUIET_BLINDLY    a task that has yet to begin is parked without a look at the socket
 *   LOOK_FIRST       its spawner looks before it takes the edge that is there
 *   ARMED_LATE       armed is stored after the heap's lock has been released
 *   ARMED_FIRST      commit_wait() reads armed before it announces the task
 *   SET_ARMED_FIRST  sn_fd_set_deadline() reads armed before it stores the deadline
 *   CLEARED_LATE     the timer clears armed after it has looked for a task
 *   FIRE_UNLOCKED    a timer that has fired leaves the heap in a step of its own
 *   TIMEOUT_BLINDLY  a wait that its deadline has ended fails without another attempt
 *   PASSED_UNTOLD    sn_conn_set_deadline() wakes nobody if it gets no timer
 *   DRAINED_TIMEOUT  a read that waits before its first attempt fails without one
 */
#define NONE 0
#define READY 1
#define WAITING 2
#define SOON 1
#define FAR 2

#ifndef EDGES
#	define EDGES 2
#endif
#ifndef SETTINGS
#	define SETTINGS 2
#endif

byte state = NONE;
bool closed, cancelled;  /* control */
byte deadline;
byte timer;              /* the time at which it fires; 0: not in the heap */
byte armed;              /* if not 0, the timer fires at this time or earlier */
bool heap_locked;
bool soon_is_past;

bool data, fin;          /* in the kernel's buffer */
bool irregular;          /* epoll has reported the end */
chan edge = [EDGES] of { bit };
bool parked, runnable;
chan committing = [0] of { bit };

#define PAST(d) ((d) == SOON && soon_is_past)

inline sn_ready()
{
	assert(parked && !runnable);
	runnable = 1
}

/* took is a variable of the caller. */
inline side_unblock()
{
#ifdef PLAIN_UNBLOCK
	took = (state == WAITING);
	if
	:: took -> state = NONE
	:: else
	fi
#else
	d_step {
		took = (state == WAITING);
		if
		:: took -> state = NONE
		:: else
		fi
	}
#endif
}

/* sn_timer_advance() */
inline advance(when)
{
	d_step {
		!heap_locked ->
		if
		:: timer == 0 || when < timer -> timer = when
		:: else
		fi;
#ifndef ARMED_LATE
		armed = when
#endif
	}
#ifdef ARMED_LATE
	;
	armed = when
#endif
}

inline arm(when)
{
	if
	:: armed != 0 && armed <= when
	:: else -> advance(when)
	fi
}

/* sn_fd_forget() */
inline forget()
{
	d_step {
		if
		:: state == READY -> state = NONE
		:: else
		fi
	}
}

/* sn_conn_begin(), as far as it can refuse; break is the caller's. */
#define REFUSED (closed || cancelled || PAST(deadline))

proctype task()
{
	bool drained, took, ended, news, tried;

	do
	:: !drained ->
		/* attempt_some() */
		tried = 1;
#ifndef FORGET_LATE
		forget();
#endif
		d_step {
			took = data;
			ended = !data && fin;
			data = 0
		};
#ifdef FORGET_LATE
		forget();
#endif
		if
		:: took ->
			took = 0;
			tried = 0; /* begins the next read */
#ifdef DRAINED_BLINDLY
			drained = 1
#else
			drained = !irregular
#endif
		:: ended -> break
		:: !took && !ended -> goto await
		fi
	:: drained ->
await:		drained = 0;
		/* sn_fd_await() */
		if
		:: closed || cancelled -> break
		:: else
		fi;
		if
		:: PAST(deadline) ->
#ifndef DRAINED_TIMEOUT
			if
			:: !tried -> goto again
			:: else
			fi;
#endif
			assert(tried);
			break
		:: else
		fi;
		if
		:: d_step { state == READY -> state = NONE }
		:: d_step { state != READY -> parked = 1 };
			committing!1;
end_parked:		d_step { runnable -> runnable = 0; parked = 0; tried = 0 };
			if
			:: closed || cancelled -> break
			:: else
			fi;
			if
			:: d_step { state == READY -> state = NONE }
			:: state != READY
#ifdef TIMEOUT_BLINDLY
				;
				if
				:: PAST(deadline) -> assert(tried); break
				:: else
				fi
#endif
			fi
		fi;
again:		skip
#ifdef QUIET
	:: !REFUSED ->
		/* is_readable(): the look finds an end if ended is set */
#	ifdef LOOK_FIRST
		ended = (data || fin);
#	endif
		d_step {
			news = (state == READY);
			if
			:: news -> state = NONE
			:: else
			fi
		};
#	ifndef LOOK_FIRST
		ended = (data || fin);
#	endif
#	ifdef QUIET_BLINDLY
		ended = 0;
#	endif
		if
		:: ended && (news || !drained)
		:: !ended || (!news && drained) ->
			/* sn_fd_park_new() */
			parked = 1;
			committing!1;
end_quiet:		d_step { runnable -> runnable = 0; parked = 0 };
			forget() /* on_begin() */
		fi;
		d_step { drained = 0; ended = 0; news = 0; tried = 0 };
		/* the first read of the task, which has not looked yet */
		if
		:: closed || cancelled -> break
		:: else
		fi
#endif
	od
}

proctype commit()
{
	byte when;
	bool took;
#ifdef ARMED_FIRST
	byte early;
#endif

end:	do
	:: committing?1 ->
#ifdef ARMED_FIRST
		early = armed;
#endif
#ifdef DEADLINE_FIRST
		when = deadline;
#endif
		if
		:: d_step { state == NONE -> state = WAITING };
#ifndef DEADLINE_FIRST
			when = deadline;
#endif
			if
#ifdef ARMED_FIRST
			:: when != 0 && early != 0 && early <= when
			:: when != 0 && !(early != 0 && early <= when) -> advance(when)
#else
			:: when != 0 -> arm(when)
#endif
#ifdef NO_MEMORY
			:: when != 0 && !(armed != 0 && armed <= when) ->
				side_unblock();
				if
				:: took -> took = 0; sn_ready()
				:: else
				fi
#endif
			:: else
			fi;
			when = 0;
#ifndef NO_RECHECK
			if
			:: closed || cancelled ->
				side_unblock();
#	ifdef COMMIT_INSISTS
				sn_ready();
#	else
				if
				:: took -> took = 0; sn_ready()
				:: else
				fi
#	endif
			:: else
			fi
#endif
		:: state != NONE -> when = 0; sn_ready()
		fi
	od
}

proctype kernel()
{
	byte n;

end:	do
	:: n < EDGES -> n++; d_step { data = 1; edge!1 }
	:: n < EDGES && !fin -> n++; d_step { fin = 1; edge!1 }
	od
}

proctype poller()
{
	bool took, ended;

end:	do
	:: d_step { edge?1 -> ended = fin };
#ifndef IRREGULAR_LATE
		irregular = irregular || ended;
#endif
		d_step {
			took = (state == WAITING);
#ifdef EDGE_DROPPED
			if
			:: took -> state = READY
			:: else
			fi
#else
			state = READY
#endif
		}
		if
		:: took -> took = 0; sn_ready()
		:: else
		fi;
#ifdef IRREGULAR_LATE
		irregular = irregular || ended;
#endif
		ended = 0
	od
}

proctype end_with(bool close)
{
	bool took;

	if
	:: d_step { close -> closed = 1 }
	:: d_step { !close && !closed -> cancelled = 1 }
	:: !close && closed -> goto out
	:: goto out
	fi;
	side_unblock();
	if
	:: took -> took = 0; sn_ready()
	:: else
	fi;
out:	skip
}

proctype set_deadline()
{
	byte n, when;
	bool waiting, took;
#ifdef SET_ARMED_FIRST
	byte early;
#endif

	do
	:: n < SETTINGS ->
		n++;
		if
		:: when = 0
		:: when = SOON
		:: when = FAR
		fi;
#ifdef SET_ARMED_FIRST
		early = armed;
#endif
#ifdef SET_LATE
		waiting = (state == WAITING);
		deadline = when;
#else
		deadline = when;
		waiting = (state == WAITING);
#endif
		if
#ifdef SET_ARMED_FIRST
		:: waiting && when != 0 && early != 0 && early <= when
		:: waiting && when != 0 && !(early != 0 && early <= when) -> advance(when)
#else
		:: waiting && when != 0 -> arm(when)
#endif
#ifdef NO_MEMORY
		:: waiting && PAST(when) && !(armed != 0 && armed <= when) ->
#	ifndef PASSED_UNTOLD
			side_unblock();
			if
			:: took -> took = 0; sn_ready()
			:: else
			fi
#	endif
#endif
		:: else
		fi;
		waiting = 0
	:: break
	od
}

proctype timers()
{
	byte when;
	bool took;

end:	do
	:: d_step { !soon_is_past -> soon_is_past = 1 }
	:: d_step { PAST(timer) -> heap_locked = 1 };
		/* sn_fd_deadline_fire() */
#ifndef CLEARED_LATE
		armed = 0;
#endif
		when = deadline;
		if
		:: when == 0
		:: when != 0 && !PAST(when) -> armed = when /* and so is the timer, below */
		:: PAST(when) -> when = 0; side_unblock()
		fi;
#ifdef CLEARED_LATE
		if
		:: when == 0 -> armed = 0
		:: else
		fi;
#endif
#ifdef FIRE_UNLOCKED
		heap_locked = 0;
		timer = when;
#else
		d_step { timer = when; heap_locked = 0 };
#endif
		when = 0;
		if
		:: took -> took = 0; sn_ready()
		:: else
		fi
	od
}

init
{
	atomic {
		run task();
		run commit();
		run commit();
		run kernel();
		run poller();
#ifndef UNENDED
		run end_with(0);
		run end_with(1);
#endif
		run set_deadline();
		run timers()
	}
	timeout;
	assert(!parked || (!data && !fin && !closed && !cancelled && !PAST(deadline)))
}
