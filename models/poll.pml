/* SPDX-License-Identifier: MIT */
/*
 * The sleep in the poller, and what ends it early.
 *
 * What is modelled, by the names of the C code:
 *   poller()     sleep_in_poller() of src/sched/idle.c, again and again; sn_netpoll() and
 *                drain_wakeup() of src/sched/netpoll.c
 *   inserter()   sn_timer_start(): publish_earliest(), then sn_poller_expect(), sn_netpoll_wake()
 *   passer()     sn_poll_network(): a poll that does not sleep
 *   ender()      stop() of src/run/run.c
 *
 * Abstracted: time stands still; a timer is due at one of two moments ahead, SOON or LATE. Each
 * inserter has a processor of its own. The work that the poller does with a processor between two
 * sleeps is left out. The eventfd is a counter, and level-triggered.
 *
 * Safety, at rest: the poller sleeps no longer than until the earliest timer, and does not sleep at
 * all at the end of the runtime.
 *
 * Mutants, each of which must be caught:
 *   CLEAR_FIRST       drain_wakeup() clears wakeup_pending before it reads the eventfd: a wake-up
 *                     in between is read away, and wakeup_pending stays set forever
 *   EARLIEST_FIRST    the poller reads the timers before it has announced that it sleeps forever
 *   RELAXED           earliest is stored without a barrier before poll_until is loaded
 *   PASSING_DRAINS    a poll that does not sleep drains the eventfd
 *   STOP_FIRST        the poller checks stopping before it announces anything, and the ender wakes
 *                     only a poller that has announced itself
 */
#define NOT_POLLING 0
#define SOON 1
#define LATE 2
#define NEVER 3
#define INSERTERS 2

byte earliest[INSERTERS] = NEVER;
byte poll_until = NOT_POLLING;
bool wakeup_pending, stopping;
byte eventfd;
bool asleep;    /* sleeps in epoll */
byte until;     /* when the sleep ends */

inline sn_netpoll_wake()
{
	d_step { former = wakeup_pending; wakeup_pending = 1 };
	if
	:: !former -> eventfd++ /* write() */
	:: else -> former = 0
	fi
}

inline earliest_timer()
{
	until = earliest[0];
	if
	:: d_step { earliest[1] < until -> until = earliest[1] }
	:: earliest[1] >= until
	fi
}

proctype poller()
{
again:
#ifdef STOP_FIRST
	if
	:: stopping -> goto ended
	:: else
	fi;
#endif
#ifdef EARLIEST_FIRST
	earliest_timer();
	poll_until = NEVER;
#else
	poll_until = NEVER;
	earliest_timer();
#endif
	poll_until = until;
#ifndef STOP_FIRST
	if
	:: stopping -> goto ended
	:: else
	fi;
#endif
	asleep = 1;
end:	eventfd > 0;
	asleep = 0;
	/* drain_wakeup() */
#ifdef CLEAR_FIRST
	wakeup_pending = 0;
	eventfd = 0;
#else
	eventfd = 0;
	wakeup_pending = 0;
#endif
	poll_until = NOT_POLLING;
	goto again;
ended:	poll_until = NOT_POLLING
}

proctype inserter(byte i)
{
	byte when = LATE, seen;
	bool former;

	/* Earlier each time, because a later timer changes nothing. */
	do
	:: when == 0 -> break
	:: when > 0 ->
#ifdef RELAXED
		seen = poll_until; /* overtakes the store */
		earliest[i] = when;
#else
		earliest[i] = when;
		seen = poll_until;
#endif
		if
		:: when < seen -> sn_netpoll_wake()
		:: else
		fi;
		when--
	:: when > 0 -> when--
	od
}

proctype passer()
{
end:	do
	:: eventfd > 0 ->
#ifdef PASSING_DRAINS
		eventfd = 0;
		wakeup_pending = 0;
#endif
		break
	od
}

proctype ender()
{
	bool former;

	stopping = 1;
#ifdef STOP_FIRST
	if
	:: poll_until != NOT_POLLING -> sn_netpoll_wake()
	:: else
	fi
#else
	sn_netpoll_wake()
#endif
}

init
{
	atomic {
		run poller();
		run inserter(0);
		run inserter(1);
		run passer();
		if
		:: run ender()
		:: true
		fi
	}
	timeout;
	assert(!asleep || (until <= earliest[0] && until <= earliest[1]));
	assert(!asleep || !stopping)
}
