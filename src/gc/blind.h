/* SPDX-License-Identifier: MIT */
/*
 * For the tests of the collector bridge: on request the bridge hides roots from the collector, so
 * that the tests can prove that they would notice missing ones.
 */
#ifndef SENNIT_GC_BLIND_H
#define SENNIT_GC_BLIND_H

enum sn_gc_blindness {
	SN_GC_BLIND_STACKS = 1,    /* the stacks of tasks that are on no thread */
	SN_GC_BLIND_ARGUMENTS = 2, /* the arguments in the tasks' blocks */
	SN_GC_BLIND_RUNNING = 4,   /* the tasks' stacks on which threads are */
	SN_GC_BLIND_VALUES = 8,    /* channels and scopes get their memory from malloc() */
	SN_GC_BLIND_SWITCHES = 16, /* stacks of tasks in the middle of a switch */
};

extern int sn_gc_blind; /* 0 */

#endif
