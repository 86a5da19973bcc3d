/* SPDX-License-Identifier: MIT */
/*
 * How the checked build sees system calls, on x86_64.
 *
 * While a thread must not wait, the kernel turns each of its system calls into a SIGSYS (system
 * call user dispatch, prctl(2)). A byte in the thread's memory says whether the kernel does so.
 * Therefore a thread that may wait pays nearly nothing. It does not matter who makes the call: this
 * library, the C library, or a callback of the program.
 *
 * A call that does not wait passes (is_brief()): the handler makes it in the thread's place, from
 * the one piece of code that the kernel exempts, and leaves the result in the registers. Every
 * other call ends the process (sn_checked_fail()). is_brief() is a list of known calls. A call that
 * is not in it fails once; then either the caller is repaired or the list gets a line.
 *
 * In gdb, "handle SIGSYS nostop noprint pass" keeps these signals from stopping the program.
 *
 * fork() and exec() end the dispatch, so a child's thread asks for it again. A child that shares
 * the memory (process/process_child.h) is not looked at.
 *
 * If SIGSYS is blocked the kernel ends the process without a message, with SIGSYS as the cause. A
 * thread therefore unblocks SIGSYS at the moment from which it must not wait, and the runtime's own
 * threads and handlers never block it. A signal handler of the program that blocks it can still end
 * the process in this way, if it interrupts a thread that must not wait. Those of libgc, which stop
 * and restart threads, block it, too. Therefore src/gc takes SIGSYS out of their masks, and the
 * handler here makes the call that suspends the thread.
 *
 * Rejected:
 *   - Replacing the C library's functions (ld --wrap, or macros): this does not see calls that the
 *     library makes within itself, such as those of malloc(), fclose() or a destructor of the
 *     program.
 *   - A seccomp filter with SECCOMP_RET_TRAP: it cannot see whether a lock is held, cannot be
 *     removed, and is inherited by programs that the process starts.
 *   - ptrace: it needs a second process and two switches for each call of each thread, and rules
 *     out a debugger.
 *   - Looking at voluntary context switches (getrusage()) at each release: it sees only waits that
 *     happen, and not what might.
 */
#include "wait/checked.h"

#if SENNIT_CHECKED

#	if defined(__x86_64__)

#		include <errno.h>
#		include <fcntl.h>
#		include <linux/futex.h>
#		include <poll.h>
#		include <pthread.h>
#		include <signal.h>
#		include <stdatomic.h>
#		include <stddef.h>
#		include <stdint.h>
#		include <string.h>
#		include <sys/prctl.h>
#		include <sys/socket.h>
#		include <sys/syscall.h>
#		include <sys/wait.h>
#		include <time.h>
#		include <ucontext.h>
#		include <unistd.h>

#		ifndef PR_SET_SYSCALL_USER_DISPATCH
#			define PR_SET_SYSCALL_USER_DISPATCH 59
#			define PR_SYS_DISPATCH_ON 1
#		endif
#		ifndef SYS_pidfd_send_signal
#			define SYS_pidfd_send_signal 424
#		endif
#		ifndef SYS_process_madvise
#			define SYS_process_madvise 440
#		endif
#		ifndef RWF_NOWAIT
#			define RWF_NOWAIT 8
#		endif
#		define PASS 0
#		define TRAP 1

/* The kernel's structure: the C library's has no restorer. */
struct action {
	void (*handler)(int signum, siginfo_t *info, void *context);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};
#		define KERNEL_SA_RESTORER 0x04000000

static __thread volatile unsigned char selector;
static __thread bool armed; /* in this process */
static bool available;
static _Atomic bool has_collector; /* set once */

/* The descriptor of a file of the kernel's that the heap reads; else -1. */
static __thread long heap_fd = -1;

/*
 * The exempt code: the return from the handler, in the bytes by which debuggers and unwinders
 * recognize it, and a function of the C ABI that makes a system call.
 */
void sn_checked_restore(void);
long sn_checked_call(long number, const long *arguments);
extern const char sn_checked_exempt_end[];
__asm__(".pushsection .text\n"
	".hidden sn_checked_restore, sn_checked_call, sn_checked_exempt_end\n"
	".globl sn_checked_restore, sn_checked_call, sn_checked_exempt_end\n"
	".type sn_checked_restore, @function\n"
	".type sn_checked_call, @function\n"
	"nop\n"
	"sn_checked_restore:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	"sn_checked_call:\n"
	"	.cfi_startproc\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %r11\n"
	"	mov 0(%r11), %rdi\n"
	"	mov 8(%r11), %rsi\n"
	"	mov 16(%r11), %rdx\n"
	"	mov 24(%r11), %r10\n"
	"	mov 32(%r11), %r8\n"
	"	mov 40(%r11), %r9\n"
	"	syscall\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"sn_checked_exempt_end:\n"
	"	nop\n"
	".popsection\n");

/* ---- what does not wait ---- */

static long call(long number, long a, long b, long c)
{
	const long arguments[6] = {a, b, c};

	return sn_checked_call(number, arguments);
}

static bool is_nonblocking(long fd)
{
	const long flags = call(SYS_fcntl, fd, F_GETFL, 0);

	return flags < 0 || (flags & O_NONBLOCK);
}

static bool is_zero(long at)
{
	const struct timespec *time = (const struct timespec *)at;

	return time && time->tv_sec == 0 && time->tv_nsec == 0;
}

static bool is_brief_futex(long op, long value, long until)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_WAKE_OP:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_UNLOCK_PI:
		return true;
	case FUTEX_WAIT:
		/* This is how the heap's own lock waits. A mutex of the program looks the same; a
		 * condition variable, a semaphore and a join do not. */
		return (op & FUTEX_PRIVATE_FLAG) && value == 2 && !until &&
		       sn_checked_may_allocate();
	default:
		return false;
	}
}

/* The heap counts the CPUs for a new arena, and before it gives back part of an arena for the first
 * time it looks whether memory is overcommitted. Neither file is on a device. */
static bool is_of_heap(const char *path)
{
	return strcmp(path, "/sys/devices/system/cpu/online") == 0 ||
	       strcmp(path, "/proc/sys/vm/overcommit_memory") == 0;
}

static bool is_brief(long number, const long *a)
{
	switch (number) {
	case SYS_futex:
		return is_brief_futex(a[1], a[2], a[3]);
	/* These read the state of the process or the machine, or change only the caller's own. */
	case SYS_getpid:
	case SYS_gettid:
	case SYS_getppid:
	case SYS_getuid:
	case SYS_geteuid:
	case SYS_sched_yield:
	case SYS_sched_getaffinity:
	case SYS_clock_gettime:
	case SYS_clock_getres:
	case SYS_gettimeofday:
	case SYS_time:
	case SYS_getcpu:
	case SYS_uname:
	case SYS_sysinfo:
	case SYS_getrlimit:
	case SYS_prlimit64:
	case SYS_prctl:
	case SYS_getrusage:
	case SYS_rt_sigaction:
	case SYS_rt_sigpending:
	case SYS_timer_create:
	case SYS_timer_settime:
	case SYS_timer_gettime:
	case SYS_timer_delete:
	case SYS_timerfd_settime:
	/* membarrier interrupts each CPU, which answers without waiting. */
	case SYS_membarrier:
	/* Signals are queued. */
	case SYS_kill:
	case SYS_tgkill:
	case SYS_rt_tgsigqueueinfo:
	case SYS_pidfd_send_signal:
	/* epoll's own lock is held for moments. */
	case SYS_epoll_ctl:
	case SYS_exit:
	case SYS_exit_group:
		return true;
	case SYS_fcntl:
		return a[1] != F_SETLKW && a[1] != F_OFD_SETLKW && a[1] != F_SETLK &&
		       a[1] != F_OFD_SETLK && a[1] != F_SETLEASE;
	case SYS_openat:
		return sn_checked_may_allocate() && is_of_heap((const char *)a[1]);
	case SYS_close:
		return a[0] == heap_fd;
	case SYS_read:
		return a[0] == heap_fd || is_nonblocking(a[0]);
	case SYS_write:
	case SYS_readv:
	case SYS_writev:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
		return is_nonblocking(a[0]);
	case SYS_recvfrom:
	case SYS_sendto:
		return (a[3] & MSG_DONTWAIT) || is_nonblocking(a[0]);
	case SYS_recvmsg:
	case SYS_sendmsg:
		return (a[2] & MSG_DONTWAIT) || is_nonblocking(a[0]);
	case SYS_preadv2:
	case SYS_pwritev2:
		return (a[5] & RWF_NOWAIT) || is_nonblocking(a[0]);
	case SYS_poll:
		return (int)a[2] == 0;
	case SYS_rt_sigtimedwait:
	case SYS_ppoll:
		return is_zero(a[2]);
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)a[3] == 0;
	case SYS_epoll_pwait2:
		return is_zero(a[3]);
	/* The runtime makes this call nowhere; a collector's handler does, in a thread that may
	 * hold a lock. The threads that wait for the lock are stopped, too, or wait as long: the
	 * collecting thread takes no lock of the runtime meanwhile. */
	case SYS_rt_sigsuspend:
		return atomic_load(&has_collector);
	case SYS_wait4:
		return a[2] & WNOHANG;
	case SYS_waitid:
		return a[3] & WNOHANG;
	/* New descriptors. */
	case SYS_dup:
	case SYS_dup2:
	case SYS_dup3:
	case SYS_eventfd2:
	case SYS_epoll_create1:
	case SYS_timerfd_create:
	case SYS_pipe2:
	case SYS_socket:
		return true;
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_madvise:
	case SYS_process_madvise: /* of the own process: guards */
	case SYS_mincore:
	case SYS_mlock:
	case SYS_munlock:
	case SYS_brk:
		return sn_checked_may_allocate();
	default:
		return false;
	}
}

static const char *name_of(long number)
{
	static const struct {
		long number;
		const char *name;
	} names[] = {
#		define NAME(name) {SYS_##name, #                name}
		NAME(futex),         NAME(read),
		NAME(write),         NAME(readv),
		NAME(writev),        NAME(pread64),
		NAME(pwrite64),      NAME(preadv2),
		NAME(pwritev2),      NAME(openat),
		NAME(open),          NAME(close),
		NAME(poll),          NAME(ppoll),
		NAME(select),        NAME(pselect6),
		NAME(epoll_wait),    NAME(epoll_pwait),
		NAME(epoll_pwait2),  NAME(nanosleep),
		NAME(mmap),          NAME(munmap),
		NAME(mremap),        NAME(mprotect),
		NAME(madvise),       NAME(brk),
		NAME(connect),       NAME(accept),
		NAME(accept4),       NAME(recvfrom),
		NAME(sendto),        NAME(recvmsg),
		NAME(sendmsg),       NAME(wait4),
		NAME(waitid),        NAME(clone),
		NAME(clone3),        NAME(fork),
		NAME(vfork),         NAME(execve),
		NAME(fsync),         NAME(flock),
		NAME(ioctl),         NAME(newfstatat),
		NAME(fstat),         NAME(unlink),
		NAME(pause),         NAME(clock_nanosleep),
		NAME(rt_sigsuspend), NAME(rt_sigtimedwait),
#		undef NAME
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (names[i].number == number)
			return names[i].name;
	return "system call";
}

/* ---- the handler ---- */

static long change_mask(ucontext_t *context, const long *a)
{
	uint64_t *mask = (uint64_t *)&context->uc_sigmask;
	const uint64_t *set = (const uint64_t *)a[1];
	const uint64_t unblockable = 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1);
	const uint64_t before = *mask;

	if (a[3] != 8)
		return -EINVAL;
	if (set) {
		if (a[0] == SIG_BLOCK)
			*mask |= *set;
		else if (a[0] == SIG_UNBLOCK)
			*mask &= ~*set;
		else if (a[0] == SIG_SETMASK)
			*mask = *set;
		else
			return -EINVAL;
		/* With SIGSYS blocked, the kernel would end the process at the next call. */
		*mask &= ~(unblockable | 1ull << (SIGSYS - 1));
	}
	if (a[2])
		*(uint64_t *)a[2] = before;
	return 0;
}

static void handle(int signum, siginfo_t *info, void *opaque)
{
	ucontext_t *context = opaque;
	greg_t *at = context->uc_mcontext.gregs;
	const long number = info->si_syscall;
	const long a[6] = {at[REG_RDI], at[REG_RSI], at[REG_RDX],
			   at[REG_R10], at[REG_R8],  at[REG_R9]};

	(void)signum;
	selector = PASS;
	if (number == SYS_rt_sigreturn) {
		/* The handler of another signal returns: make it do so at the exempt place. */
		at[REG_RIP] = (greg_t)(uintptr_t)sn_checked_restore;
	} else if (number == SYS_rt_sigprocmask) {
		at[REG_RAX] = change_mask(context, a);
	} else if (is_brief(number, a)) {
		at[REG_RAX] = sn_checked_call(number, a);
		if (number == SYS_openat)
			heap_fd = at[REG_RAX];
		else if (number == SYS_close)
			heap_fd = -1;
	} else {
		sn_checked_fail(context, "%s calls %s (%ld: %#lx, %#lx)", sn_checked_who(),
				name_of(number), number, (unsigned long)a[0], (unsigned long)a[1]);
	}
	selector = TRAP;
}

/* ---- the kernel's part ---- */

static void in_child(void)
{
	armed = false;
	if (selector == TRAP)
		sn_checked_watch(true);
}

static void install(void)
{
	const struct action action = {.handler = handle,
				      .flags = SA_SIGINFO | SA_ONSTACK | KERNEL_SA_RESTORER,
				      .restorer = sn_checked_restore,
				      .mask = ~(uint64_t)0};

	available = syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, sizeof action.mask) == 0;
	pthread_atfork(NULL, NULL, in_child);
}

/* A program may have blocked every signal of a thread that now takes a lock. */
static void unblock(void)
{
	const uint64_t set = 1ull << (SIGSYS - 1);
	const long arguments[6] = {SIG_UNBLOCK, (long)&set, 0, sizeof set};

	sn_checked_call(SYS_rt_sigprocmask, arguments);
}

void sn_checked_watch(bool on)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const int saved = errno;

	selector = PASS;
	if (on && !armed) {
		pthread_once(&once, install);
		if (available &&
		    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, sn_checked_restore,
			  sn_checked_exempt_end - (const char *)sn_checked_restore, &selector) < 0)
			available = false;
		armed = true;
	}
	if (on)
		unblock();
	errno = saved;
	selector = on ? TRAP : PASS;
}

void sn_checked_collector(void)
{
	atomic_store(&has_collector, true);
}

bool sn_checked_sees_calls(void)
{
	sn_checked_watch(true);
	sn_checked_watch(false);
	return available;
}

#	else

void sn_checked_watch(bool on)
{
	(void)on;
}

void sn_checked_collector(void) {}

bool sn_checked_sees_calls(void)
{
	return false;
}

#	endif
#endif
