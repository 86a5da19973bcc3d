/* SPDX-License-Identifier: MIT */
/* Signals to a program, and its number, by the handle of the program. */
#include <sennit/process.h>

#include "process/process.h"
#include "wait/lock.h"

static int kill_by(sn_process *handle, int signum,
		   int (*send)(const struct sn_process *process, int signum))
{
	struct sn_process *process;
	int err = sn_process_lock_handle(&process, handle);

	if (err < 0)
		return err;
	err = send(process, signum);
	sn_unlock(&sn_processes_lock);
	return err;
}

int sn_process_kill(sn_process *process, int signum)
{
	return kill_by(process, signum, sn_process_send);
}

int sn_process_kill_group(sn_process *process, int signum)
{
	return kill_by(process, signum, sn_process_send_group);
}

pid_t sn_process_pid(sn_process *handle)
{
	struct sn_process *process;
	pid_t pid = sn_process_lock_handle(&process, handle);

	if (pid < 0)
		return pid;
	pid = process->pid;
	sn_unlock(&sn_processes_lock);
	return pid;
}
