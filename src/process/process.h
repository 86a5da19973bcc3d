/* SPDX-License-Identifier: MIT */
/*
 * Programs that were started, and the tasks that keep them.
 *
 * Each program has a keeper: a task that waits for the program's end, takes its status from the
 * kernel, and wakes the tasks that wait for it. Thus no waiter depends on another, and there is no
 * zombie when no task waits. If the program is to end with a scope, the keeper is a task of that
 * scope: the scope cannot be closed before the program has ended, and the keeper notices its
 * cancellation. The keeper is spawned before the program is started, because nothing may fail once
 * there is a program.
 *
 * Life. A record has users: the handle, the keeper, and each call in progress. The last user puts
 * it into a list of unused records for later programs; the memory is never freed. Handles have
 * generations (base/handle.h), so a stale handle is recognized.
 *
 * Once the status of a process has been taken, the kernel may give its number to another process.
 * Therefore the status is taken, and signals are sent by number, under the lock, and no signal is
 * sent after the end.
 *
 * At the end of a run the keepers are abandoned with all other tasks. Programs that still run are
 * then put into a list, and each later start of a program looks at them again. A start is abandoned
 * as well, at any entry into the runtime, so whatever has to be closed or killed then is in the
 * record. What takes long happens outside the runtime, perhaps after the end of the run:
 *   preparing  the starter finds another generation in the record, and closes what it has prepared
 *   loading    the record is not put away; whoever loads the program does that afterwards
 *
 * Who may write what: everything under the lock, except
 *   started, ended                  wait groups: from 1 to 0 by the starter, and by the keeper
 *   status, result                  the keeper, before ended is 0
 *   streams                         the starter, before there is a handle
 *   polls                           the keeper
 */
#ifndef SENNIT_PROCESS_PROCESS_H
#define SENNIT_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <sennit/process.h>
#include <sennit/waitgroup.h>

#include "base/fork.h"
#include "base/handle.h"
#include "wait/lock.h"

struct sn_process {
	_Alignas(SN_HANDLE_ALIGN) uint32_t generation;
	uint32_t users;
	bool runs;        /* the program was started, and its status has not been taken */
	bool has_handle;  /* the program has the handle, and has not closed it */
	bool leads_group; /* the process leads a group, which has its number */
	bool in_scope;    /* it ends with its scope */
	bool sweeps;      /* when it has ended, the rest of its group is killed */
	bool polls;       /* its pidfd cannot be waited for, so the keeper looks at intervals */
	bool loads;       /* it is being loaded */
	pid_t pid;
	int pidfd; /* -1: none */
	int64_t grace;
	sn_waitgroup started, ended;
	struct sn_process_status status;
	int result;               /* of waiting for the program: 0 or -ECHILD */
	sn_stream *streams[3];    /* the same one several times for a terminal; NULL: none */
	uint32_t lives[3];        /* of the streams: sn_conn_life() */
	int ends[3];              /* the ends that are no streams; -1: none */
	struct sn_launch *launch; /* what was prepared, until it is being loaded; NULL: nothing */
	struct sn_process *prev, *next;
};

/* Guards all records. */
extern struct sn_lock sn_processes_lock;

/* Takes the lock, and finds the record of a handle. Returns 0, or an error without the lock. */
int sn_process_lock_handle(struct sn_process **process, const sn_process *handle);

/* Takes the status if the program has ended, and returns whether it has. With the lock. */
bool sn_process_take_status(struct sn_process *process);

/* sn_process_kill() and sn_process_kill_group(), with the lock. */
int sn_process_send(const struct sn_process *process, int signum);
int sn_process_send_group(const struct sn_process *process, int signum);

/* Sends the signal to the program, or to its group if it leads one. Whatever is left of the group
 * when its leader has ended is killed. With the lock. */
void sn_process_stop(struct sn_process *process, int signum);

/* The keeper's work: waits until the program has ended, and takes its status. If the scope of the
 * keeper's task is cancelled, ends the program. Outside the runtime; parks. */
void sn_process_keep(struct sn_process *process);

/*
 * sn_process_start(). With `raw`, the parent's ends of pipes are not made streams, but stay
 * descriptors, which belong to the handle. In a task, outside the runtime.
 */
int sn_process_launch(sn_process **process, const char *const argv[],
		      const struct sn_process_attr *attr, bool raw);

/* Such a descriptor, or -1. The second closes it. In a task, outside the runtime. */
int sn_process_end(sn_process *process, int number);
void sn_process_close_end(sn_process *process, int number);

/* Called at the end of a run, when no task runs any more. */
void sn_processes_end(void);
void sn_processes_fork(enum sn_fork_phase phase);

#endif
