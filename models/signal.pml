/* SPDX-License-Identifier: MIT */
/*
 * Signals that are passed on to a task or a channel: src/process/signal.c.
 *
 * What is modelled, by the names of the C code:
 *   sender()     two signals of one number: note(), the handler
 *   poller()     sn_signal_event() and pass_on(), each time that the eventfd is readable
 *   receiver()   TASK: wait_signal(), with a deadline that may come at any time; otherwise a task
 *                that receives from a channel with a buffer of one
 *
 * Abstracted: the waiter's claim is an atomic step (waiter.pml), and so is what a channel's lock
 * guards (channel.pml).
 *
 * Safety: at the end the receiver has handled a signal that it got after the last one was sent, so
 * no signal is lost. Several that come before the receiver has got the first may merge.
 *
 * Mutants, each of which must be caught:
 *   CLEAR_LATE      pass_on() clears the bit after it has passed the signal on
 *   READ_LATE       the poller reads the eventfd after it has looked at the bits
 *   LISTED_LATE     the task passes on what is noted before it has entered the list
 *   NO_CLAIM        the signal is passed to a task whose deadline has come
 *   FORGETS         a signal that nobody wants is not noted again
 */
bool noted, readable; /* the bit of the signal; the state of the eventfd */
bool passing;       /* the lock */
bool listed, claimed, ended;
bool buffer;
byte sent, handled;

inline lock()
{
	atomic { !passing -> passing = 1 }
}
inline unlock()
{
	passing = 0
}

active proctype sender()
{
	do
	:: sent < 2 ->
		sent++;
		noted = 1;
		readable = 1
	:: else -> break
	od
}

/* The lock is held. */
inline pass_on(given)
{
	if
	:: noted ->
		given = 0;
#ifndef CLEAR_LATE
		noted = 0;
#endif
#ifdef TASK
		d_step {
			if
#	ifdef NO_CLAIM
			:: listed -> claimed = 1; given = 1; listed = 0
#	else
			:: listed && !claimed -> claimed = 1; given = 1; listed = 0
#	endif
			:: else
			fi
		};
		if
		:: given -> ended = 1
		:: else
		fi;
#else
		given = 1;
		buffer = 1; /* or the buffer was full, and the receiver will look */
#endif
#ifdef CLEAR_LATE
		if
		:: given -> noted = 0
		:: else
		fi
#elif defined(FORGETS)
		skip
#else
		if
		:: !given -> noted = 1
		:: else
		fi
#endif
	:: else
	fi
}

active proctype poller()
{
	bool given;
end:
	do
	:: readable ->
#ifndef READ_LATE
		readable = 0;
#endif
		lock();
		pass_on(given);
#ifdef READ_LATE
		readable = 0;
#endif
		unlock()
	od
}

#ifdef TASK
active proctype receiver()
{
	bool got, given;
again:
	got = 0;
#ifdef LISTED_LATE
	lock();
	pass_on(given);
	unlock();
#endif
	lock();
	d_step { listed = 1; claimed = 0; ended = 0 };
#ifndef LISTED_LATE
	pass_on(given);
#endif
	unlock();
end:
	if
	:: ended -> got = 1
	:: d_step { sent < 2 && !claimed -> claimed = 1 } /* the deadline */
	fi;
	lock();
	listed = 0;
	unlock();
	if
	:: got -> handled = sent
	:: else
	fi;
	goto again
}
#else
active proctype receiver()
{
end:
	do
	:: d_step { buffer -> buffer = 0 };
		handled = sent
	od
}
#endif

active proctype at_rest()
{
	timeout;
	assert(handled == 2)
}
