/* SPDX-License-Identifier: MIT */
/*
 * without_vdso PROGRAM [ARGUMENT...]: runs a program without the address of the vDSO, as valgrind
 * does.
 *
 * The child stops at its exec. Its auxiliary vector is then at the top of its new stack, where this
 * program replaces AT_SYSINFO_EHDR by AT_IGNORE. Exits with the child's status.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static long word(pid_t pid, unsigned long address)
{
	errno = 0;
	return ptrace(PTRACE_PEEKDATA, pid, address, 0);
}

static int hide(pid_t pid)
{
	struct user_regs_struct registers;
	unsigned long at;

	if (ptrace(PTRACE_GETREGS, pid, 0, &registers) < 0)
		return -1;
#ifdef __x86_64__
	at = registers.rsp;
#else
	at = (unsigned long)registers.esp;
#endif
	/* The layout: count, arguments, zero, environment, zero, pairs. */
	at += sizeof(long) * (2 + (unsigned long)word(pid, at));
	while (word(pid, at) && !errno)
		at += sizeof(long);
	for (at += sizeof(long); word(pid, at) != AT_NULL && !errno; at += 2 * sizeof(long))
		if (word(pid, at) == AT_SYSINFO_EHDR)
			return (int)ptrace(PTRACE_POKEDATA, pid, at, AT_IGNORE);
	return -1;
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: without_vdso PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execv(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status)) {
		fprintf(stderr, "without_vdso: cannot start %s\n", argv[1]);
		return 2;
	}
	if (hide(pid) < 0) {
		fprintf(stderr, "without_vdso: found no AT_SYSINFO_EHDR\n");
		ptrace(PTRACE_KILL, pid, 0, 0);
		return 2;
	}
	ptrace(PTRACE_DETACH, pid, 0, 0);
	if (waitpid(pid, &status, 0) < 0)
		return 2;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
