/* SPDX-License-Identifier: MIT */
/*
 * Waiting for either of two descriptors: sn_fd_wait_either() in src/io/fd_wait.c.
 *
 * What is modelled, by the names of the C code:
 *   task()           serve_both() of src/copy/relay.c: takes edges, tries what they are for, and
 *                    waits
 *   commit()         commit_wait(). There are two of them, because one may still run when its task
 *                    has been woken on another thread and waits again
 *   poller()         side_event(), for each edge; two of them, because two threads may poll at the
 *                    same time
 *   end_with()       sn_fd_end_with() of either descriptor
 * The states of a side are NONE, READY and WAITING (the address of the task). OTHER forwards its
 * wake-ups to FIRST: its edges also wake the task that waits there.
 *
 * Every access to the words is sequentially consistent in the code, so there are no store buffers.
 * Deadlines are in side.pml, because the task waits on a side as any other task does.
 *
 * Safety (assertions): a task is made runnable only when it is parked, and once for each park. At
 * rest: a task that is still parked has nothing to read from either descriptor, and neither has
 * ended.
 *
 * Mutants, each of which must be caught:
 *   NO_RECHECK       commit_wait() does not look at the other side after it has announced the task
 *   NO_CONTROL       it does not look at the other side's control
 *   FORWARD_FIRST    the poller checks which task waits on FIRST before it makes OTHER ready
 *   COMMIT_INSISTS   commit_wait() wakes its task although another party has taken it off the side
 *   PLAIN_UNBLOCK    side_unblock() loads and stores instead of comparing and swapping
 *   END_FORGETS      sn_fd_end_with() of the other does not check which task waits on FIRST
 */
#define NONE 0
#define READY 1
#define WAITING 2

#define FIRST 0
#define OTHER 1

#ifndef EDGES
#	define EDGES 2
#endif

byte state[2] = NONE;
bool ended[2];           /* control */
bool data[2];            /* in the kernel's buffer */
chan edge = [EDGES] of { bit };
bool parked, runnable;
chan committing = [0] of { bit };

inline sn_ready()
{
	assert(parked && !runnable);
	runnable = 1
}

/* took is a variable of the caller. */
inline side_unblock(side)
{
#ifdef PLAIN_UNBLOCK
	took = (state[side] == WAITING);
	if
	:: took -> state[side] = NONE
	:: else
	fi
#else
	d_step {
		took = (state[side] == WAITING);
		if
		:: took -> state[side] = NONE
		:: else
		fi
	}
#endif
}

inline wake_if_taken()
{
	if
	:: took -> took = 0; sn_ready()
	:: else
	fi
}

proctype task()
{
	do
	:: d_step { state[FIRST] == READY -> state[FIRST] = NONE; }
		d_step { data[FIRST] = 0 }
	:: d_step { state[OTHER] == READY -> state[OTHER] = NONE; }
		d_step { data[OTHER] = 0 }
	:: else ->
		/* sn_fd_wait_either(): commit() finds an edge that comes from here on. */
		if
		:: ended[FIRST] || ended[OTHER] -> break
		:: else
		fi;
		parked = 1;
		committing!1;
end_parked:	d_step { runnable -> runnable = 0; parked = 0 };
		if
		:: ended[FIRST] || ended[OTHER] -> break
		:: else
		fi
	od
}

proctype commit()
{
	bool took, again;

end:	do
	:: committing?1 ->
		if
		:: d_step { state[FIRST] == NONE -> state[FIRST] = WAITING };
			again = ended[FIRST];
#ifndef NO_CONTROL
			again = again || ended[OTHER];
#endif
#ifndef NO_RECHECK
			again = again || state[OTHER] == READY;
#endif
			if
			:: again ->
				side_unblock(FIRST);
#ifdef COMMIT_INSISTS
				took = 0;
				sn_ready();
#else
				wake_if_taken();
#endif
			:: else
			fi;
			again = 0
		:: state[FIRST] != NONE -> sn_ready()
		fi
	od
}

proctype kernel()
{
	byte n;

end:	do
	:: n < EDGES -> n++; d_step { data[FIRST] = 1; edge!FIRST }
	:: n < EDGES -> n++; d_step { data[OTHER] = 1; edge!OTHER }
	od
}

proctype poller()
{
	bit side;
	bool took;

end:	do
	:: edge?side ->
#ifdef FORWARD_FIRST
		if
		:: side == OTHER -> side_unblock(FIRST); wake_if_taken()
		:: else
		fi;
#endif
		d_step {
			took = (state[side] == WAITING);
			state[side] = READY
		}
		if
		:: took -> wake_if_taken()
#ifndef FORWARD_FIRST
		:: !took && side == OTHER -> side_unblock(FIRST); wake_if_taken()
#endif
		:: else
		fi
	od
}

proctype end_with(bit side)
{
	bool took;

	if
	:: ended[side] = 1
	:: goto out
	fi;
	side_unblock(side);
	wake_if_taken();
#ifndef END_FORGETS
	if
	:: side == OTHER -> side_unblock(FIRST); wake_if_taken()
	:: else
	fi;
#endif
out:	skip
}

init
{
	atomic {
		run task();
		run commit();
		run commit();
		run kernel();
		run poller();
		run poller();
		run end_with(FIRST);
		run end_with(OTHER)
	}
	timeout;
	assert(!parked || (!data[FIRST] && !data[OTHER] && !ended[FIRST] && !ended[OTHER]))
}
