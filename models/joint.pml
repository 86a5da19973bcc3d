/* SPDX-License-Identifier: MIT */
/*
 * A wait on one side of a descriptor that the deadline of the other side ends, too: sn_layer_run()
 * in src/stream/layer.c.
 *
 * What is modelled, by the names of the C code:
 *   task()      run(): sets joint, attempts in vain, and waits again
 *   commit()    commit_wait() on the reading side. There are two of them, because one may still run
 *               when its task has been woken on another thread and waits again
 *   setter()    sn_conn_set_deadline() of the writing side: a later deadline, which ends nothing,
 *               and then one in the past
 * The states of the reading side are NONE, READY and WAITING (the address of the task). No task
 * waits on the writing side.
 *
 * Every access is sequentially consistent in the code, so there are no store buffers. Timers are in
 * side.pml; here they never fire.
 *
 * Safety (assertions): a task is made runnable only when it is parked, and once for each park. At
 * rest: the operation has ended.
 *
 * Mutants, each of which must be caught:
 *   JOINT_LAST       the operation sets joint after it has read the deadline
 *   STORE_LAST       the setter reads joint before it stores the deadline
 *   ONLY_UNBLOCKS    the setter takes the task off the side instead of making the side ready
 *   NO_JOINT         the setter does not look at the reading side, as for other operations
 *   COMMIT_INSISTS   commit_wait() parks its task although the side is ready
 */
#define NONE 0
#define READY 1
#define WAITING 2

#define AHEAD 1
#define FURTHER 2
#define PAST 3

byte state = NONE;
byte deadline = AHEAD;
bool joint, over;
bool parked, runnable;
chan committing = [0] of { bit };

inline sn_ready()
{
	assert(parked && !runnable);
	runnable = 1
}

proctype task()
{
	byte seen;

#ifndef JOINT_LAST
	joint = 1;
#endif
	do
	:: seen = deadline;
#ifdef JOINT_LAST
		joint = 1;
#endif
		if
		:: seen == PAST -> break
		:: else
		fi;
		/* wait_for_edge() of io/fd_wait.c */
		if
		:: d_step { state == READY -> state = NONE }
		:: else ->
			parked = 1;
			committing!1;
end_parked:		d_step { runnable -> runnable = 0; parked = 0 };
			d_step {
				if
				:: state == READY -> state = NONE
				:: else
				fi
			}
		fi
	od;
	joint = 0;
	over = 1
}

proctype commit()
{
end:	do
	:: committing?1 ->
		if
		:: d_step { state == NONE -> state = WAITING }
#ifdef COMMIT_INSISTS
		:: d_step { state != NONE -> state = WAITING }
#else
		:: state != NONE -> sn_ready()
#endif
		fi
	od
}

proctype setter()
{
	byte next = FURTHER;
	bool took, is_joint;

	do
#ifdef STORE_LAST
	:: is_joint = joint;
		deadline = next;
#else
	:: deadline = next;
		is_joint = joint;
#endif
#ifdef NO_JOINT
		is_joint = 0;
#endif
		if
		:: is_joint ->
			d_step {
				took = (state == WAITING);
#ifdef ONLY_UNBLOCKS
				if
				:: took -> state = NONE
				:: else
				fi
#else
				state = READY
#endif
			}
			if
			:: took -> took = 0; sn_ready()
			:: else
			fi
		:: else
		fi;
		if
		:: next == PAST -> break
		:: else -> next = PAST
		fi
	od
}

init
{
	atomic {
		run task();
		run commit();
		run commit();
		run setter()
	}
	timeout;
	assert(over)
}
