/* SPDX-License-Identifier: MIT */
/*
 * Runs in a signal handler, on the alternate stack that every thread of the runtime has (thread.c),
 * often in a process that is about to die: only async-signal-safe calls, no heap, no lock of ours. The one
 * exception is dl_iterate_phdr() (backtrace.h), which takes the loader's lock, that only a crash inside
 * the loader itself would hold. The facts come first, so that they are out whatever happens after.
 *
 * One report at a time, as its tables are static: `reporter` names the thread, and others wait for it,
 * for some seconds at most. A report walks a stack that may be garbage. When it faults itself, the nested
 * signal finds that its own thread is the reporter, and jumps back to where the walk began; what follows
 * is the former action, with what the first signal told. A signal whose action is to end the process
 * leaves `reporter` at DYING, so that a second one does not write into its end.
 *
 * The former action is carried out as the kernel would: with its mask, once only if it is of
 * SA_RESETHAND. By default the faulting instruction is executed again, and the process dies of that, so
 * that a core shows it and not this file.
 *
 * Who handles such signals on purpose, and lives on, would have a report of each. So after the first of a
 * kind only overflows are told.
 */
#include "sched/fault.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sched/backtrace.h"
#include "sched/dump.h"
#include "sched/processor.h"
#include "sched/stack.h"
#include "sched/task.h"
#include "sched/thread.h"

/* The first frames show the recursion's period, the last ones who began it. */
#define FIRST_FRAMES 16
#define LAST_FRAMES 8

/* How long a second report waits for the first. */
#define PATIENCE_MS 5000

/* A larger frame than this is nobody's. */
#define LARGEST_FRAME ((uintptr_t)16 << 20)
/* What a function may use below the stack pointer, or a call push, with room to spare. */
#define BELOW_SP 256

/* So close to address 0 it is a null pointer, or a member of what one points to. */
#define NULL_SIZE 65536

enum { SEGV, BUS, ABRT, CAUGHT };
static const int signums[CAUGHT] = {SIGSEGV, SIGBUS, SIGABRT};
static const char *const names[CAUGHT] = {"SIGSEGV", "SIGBUS", "SIGABRT"};

static struct sigaction former[CAUGHT], former_stall;
static _Atomic bool spent[CAUGHT]; /* of SA_RESETHAND, and has been called */
static _Atomic bool told[CAUGHT];  /* in this run, other than an overflow */
static bool tell;                  /* SENNIT_FAULT_REPORTS */
static int stall_signal;           /* 0: not caught */

/* ---- one at a time ---- */

#define DYING (-1)

static _Atomic pid_t reporter; /* its tid; 0: nobody */
/* The reporter's own: whether a fault may jump to give_up. A signal handler of the same thread reads it. */
static volatile sig_atomic_t may_give_up;
static sigjmp_buf give_up;

static pid_t my_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static bool report_begin(void)
{
	pid_t me = my_tid();

	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		pid_t nobody = 0;

		/* Acquire, and release at the end: what the last reporter left in the static tables. */
		if (atomic_compare_exchange_strong_explicit(
			    &reporter, &nobody, me, memory_order_acquire, memory_order_relaxed))
			return true;
		if (nobody == me)
			return false;
		poll(NULL, 0, 1);
	}
	return false;
}

static void report_end(bool dying)
{
	atomic_store_explicit(&reporter, dying ? DYING : 0, memory_order_release);
}

/* ---- printing ---- */

static struct sn_out out; /* the reporter's, as all that is static from here on */
static struct sn_modules modules;

static void put(const char *text)
{
	sn_out_text(&out, text);
}

static void put_number(uint64_t value, unsigned base)
{
	sn_out_number(&out, value, base);
}

static void put_address(uintptr_t address)
{
	put("0x");
	put_number(address, 16);
}

/* "312 bytes", "73 KiB" */
static void put_size(uintptr_t size)
{
	static const char *const units[] = {" bytes", " KiB", " MiB", " GiB"};
	int unit = 0;

	for (; unit < 3 && size >= (uintptr_t)64 << 10; unit++)
		size /= 1024;
	put_number(size, 10);
	put(size == 1 && unit == 0 ? " byte" : units[unit]);
}

static void put_task(const struct sn_task *task)
{
	put("task ");
	put_number(sn_task_id(task), 10);
	put(" \"");
	put(sn_task_name(task));
	put("\"");
}

/*
 * The interrupted code's. limit: no frame lies outside of it. Static tables: the frames of a recursion
 * would fill the signal's stack.
 */
static void put_backtrace(struct sn_registers *registers, const struct sn_stack *limit)
{
	static uintptr_t first[FIRST_FRAMES], rest[LAST_FRAMES];
	uint64_t count, last = 0, number;
	bool complete;

	count = sn_backtrace(&modules, registers, limit->low, limit->high, true, first,
			     FIRST_FRAMES, &complete);
	for (uint64_t i = 0; i < count; i++)
		sn_out_frame(&out, &modules, i, first[i], i > 0);
	/* One by one, each over the one eight before it. */
	for (; !complete && count >= FIRST_FRAMES; last++)
		if (sn_backtrace(&modules, registers, limit->low, limit->high, false,
				 &rest[last % LAST_FRAMES], 1, &complete) == 0)
			break;
	count += last;
	number = last > LAST_FRAMES ? count - LAST_FRAMES : FIRST_FRAMES;
	if (number > FIRST_FRAMES) {
		put("  ... ");
		put_number(number - FIRST_FRAMES, 10);
		put(" more frames ...\n");
	}
	for (; last > 0 && number < count; number++)
		sn_out_frame(&out, &modules, number, rest[(number - FIRST_FRAMES) % LAST_FRAMES],
			     true);
}

/* ---- what has happened ---- */

struct owner {
	const char *low;
	const struct sn_task *task; /* NULL: none */
};

static int is_owner(struct sn_task *task, void *arg)
{
	struct owner *owner = arg;

	if (sn_task_stack(task).low != owner->low)
		return 0;
	owner->task = task;
	return 1;
}

static const struct sn_task *owner_of(const struct sn_stack *stack)
{
	struct owner owner = {.low = stack->low};

	(void)sn_block_each(is_owner, &owner);
	return owner.task;
}

struct fault {
	const char *name;
	const siginfo_t *info;
	const struct sn_task
		*task;         /* that the thread runs; NULL: it is none of ours, or runs none */
	struct sn_stack stack; /* the task's */
	struct sn_registers registers;
	uintptr_t sp;
	bool has_address, in_slot, in_guard, overflow;
	uintptr_t address;
	struct sn_stack slot; /* the stack that the address lies in, or below in its guard */
};

static bool is_within(const struct sn_stack *stack, uintptr_t address)
{
	return address >= (uintptr_t)stack->low && address < (uintptr_t)stack->high;
}

/*
 * The stack pointer has left the task's stack at its lower end, or is about to. Beyond the guard it has
 * come by a large frame: to another task's stack or guard, or to where the fault is too. Anywhere else it may
 * be on purpose: on a signal's stack, or that of a coroutine of the program's own.
 */
static bool has_overflowed(const struct fault *fault)
{
	uintptr_t low = (uintptr_t)fault->stack.low, below = low - fault->sp;
	struct sn_stack slot;
	bool in_guard;

	if (!fault->task || !fault->has_address || is_within(&fault->stack, fault->address))
		return false;
	if (fault->in_guard && fault->slot.low == fault->stack.low)
		return true;
	if (fault->sp >= low || below > LARGEST_FRAME)
		return false;
	return (fault->address < low && fault->address >= fault->sp - BELOW_SP) ||
	       (sn_stack_find((const void *)fault->sp, &slot, &in_guard) &&
		slot.low != fault->stack.low);
}

static void examine(struct fault *fault, int which, const siginfo_t *info,
		    const ucontext_t *context)
{
	struct sn_thread *self = sn_thread_self();

	*fault = (struct fault){.name = names[which], .info = info};
	if (self && self->task) {
		fault->task = self->task;
		fault->stack = self->task->stack;
	}
	sn_registers_interrupted(context, &fault->registers);
	fault->sp = fault->registers.at[SN_REGISTER_SP];
	/* Sent by the kernel, and not for an address that the processor does not tell (on x86 one that is
	 * not canonical). */
	fault->has_address = which != ABRT && info->si_code > 0 && info->si_code != SI_KERNEL;
	if (fault->has_address) {
		fault->address = (uintptr_t)info->si_addr;
		fault->in_slot = sn_stack_find(info->si_addr, &fault->slot, &fault->in_guard);
	}
	fault->overflow = has_overflowed(fault);
}

/* ---- the report ---- */

static bool is_first_task(const struct sn_task *task)
{
	return !atomic_load_explicit(&task->spawned_at, memory_order_relaxed);
}

static void put_overflow(const struct fault *fault)
{
	put("sennit: stack overflow in ");
	put_task(fault->task);
	put(": its ");
	put_number((uint64_t)(fault->stack.high - fault->stack.low) / 1024, 10);
	put(" KiB are used up (");
	if (is_first_task(fault->task))
		put("sn_run_attr.first_stack_size or SENNIT_STACK_SIZE sets the size");
	else if (fault->task->stack_class == sn_stack_default_class())
		put("sn_task_attr.stack_size sets the size, SENNIT_STACK_SIZE that of all tasks");
	else
		put("sn_task_attr.stack_size sets the size");
	put(")\n");
}

static void put_wild_pointer(const struct fault *fault)
{
	const struct sn_task *owner = owner_of(&fault->slot);

	put("sennit: the guard below the stack of ");
	if (owner)
		put_task(owner);
	else
		put("no task any more");
	put(" was hit at ");
	put_address(fault->address);
	if (fault->task) {
		put(" by ");
		put_task(fault->task);
	}
	put(": a wild pointer\n");
}

static void put_signal(const struct fault *fault)
{
	put("sennit: ");
	put(fault->name);
	put(" in ");
	put_task(fault->task);
	if (fault->info->si_code <= 0 && fault->info->si_pid != getpid()) {
		put(", sent by process ");
		put_number((uint64_t)fault->info->si_pid, 10);
	}
	put("\n");
}

/* Of an address that is not in the task's stack: "312 bytes below its stack" */
static void put_distance(const struct fault *fault, uintptr_t address)
{
	uintptr_t low = (uintptr_t)fault->stack.low, high = (uintptr_t)fault->stack.high;

	put_size(address < low ? low - address : address - high + 1);
	put(address < low ? " below its stack" : " above its stack");
}

static void put_slot(const struct fault *fault, const struct sn_stack *slot, bool in_guard)
{
	const struct sn_task *owner;

	if (slot->low == fault->stack.low) {
		put(in_guard ? ", in its guard" : "");
		return;
	}
	owner = owner_of(slot);
	put(in_guard ? ", in the guard below the stack of " : ", in the stack of ");
	if (owner)
		put_task(owner);
	else
		put("no task");
}

static void put_address_line(const struct fault *fault)
{
	put("  address ");
	put_address(fault->address);
	put(": ");
	if (fault->address < NULL_SIZE) {
		put("a null pointer, or a member of what one points to");
	} else if (is_within(&fault->stack, fault->address)) {
		put("within its stack");
	} else {
		put_distance(fault, fault->address);
		if (fault->in_slot)
			put_slot(fault, &fault->slot, fault->in_guard);
		else if (fault->info->si_signo == SIGSEGV)
			put(fault->info->si_code == SEGV_MAPERR ? ", where nothing is mapped"
								: ", where that is not allowed");
	}
	put("\n");
}

static void put_stack_line(const struct fault *fault)
{
	struct sn_stack slot;
	bool in_guard;

	put("  its stack: ");
	put_address((uintptr_t)fault->stack.low);
	put(" to ");
	put_address((uintptr_t)fault->stack.high);
	put(" (");
	put_number((uint64_t)(fault->stack.high - fault->stack.low) / 1024, 10);
	put(" KiB), the stack pointer ");
	if (is_within(&fault->stack, fault->sp) || fault->sp == (uintptr_t)fault->stack.high) {
		put_size((uintptr_t)fault->stack.high - fault->sp);
		put(" below its upper end");
	} else {
		put_distance(fault, fault->sp);
		if (sn_stack_find((const void *)fault->sp, &slot, &in_guard))
			put_slot(fault, &slot, in_guard);
	}
	put("\n");
}

/* Needs the loader, and walks a stack: whatever is told here may be the last. */
static void put_details(struct fault *fault)
{
	/* Its end is not known of a thread's own stack, nor of a coroutine's; the first frame ends the
	 * walk, or may_give_up does. */
	struct sn_stack limit = {.high = (char *)UINTPTR_MAX};

	sn_modules_find(&modules);
	if (fault->task) {
		put("  ");
		if (is_first_task(fault->task))
			put("the first task, of sn_run()");
		else
			sn_out_spawned(&out, &modules,
				       atomic_load_explicit(&fault->task->spawned_at,
							    memory_order_relaxed),
				       atomic_load_explicit(&fault->task->spawned_by,
							    memory_order_relaxed));
		put("\n");
		sn_out_flush(&out);
	}
	if (fault->task && (fault->overflow || is_within(&fault->stack, fault->sp)))
		limit = fault->stack;
	put_backtrace(&fault->registers, &limit);
}

static void report(struct fault *fault)
{
	out = (struct sn_out){.fd = STDERR_FILENO};
	if (fault->overflow)
		put_overflow(fault);
	else if (fault->in_guard && !(fault->task && fault->slot.low == fault->stack.low))
		put_wild_pointer(fault);
	else
		put_signal(fault);
	if (fault->task) {
		if (fault->has_address)
			put_address_line(fault);
		put_stack_line(fault);
	}
	sn_out_flush(&out);
	/* Without the signal mask: none is blocked that was not before. */
	if (sigsetjmp(give_up, 0) == 0) {
		may_give_up = 1;
		put_details(fault);
	} else {
		put("  (the report itself has come to a fault here)\n");
	}
	may_give_up = 0;
	sn_out_flush(&out);
}

/* ---- the handler ---- */

static bool is_default(const struct sigaction *action, const siginfo_t *info)
{
	/* What the kernel raises cannot be ignored. */
	return action->sa_handler == SIG_DFL ||
	       (action->sa_handler == SIG_IGN && info->si_code > 0);
}

/* What the former action of the signal is by now. */
static struct sigaction action_before(int which)
{
	if (atomic_load(&spent[which]))
		return (struct sigaction){.sa_handler = SIG_DFL};
	return former[which];
}

static void call(int signum, const struct sigaction *action, siginfo_t *info, void *context)
{
	sigset_t mask = action->sa_mask, before;

	if (!(action->sa_flags & SA_NODEFER))
		sigaddset(&mask, signum);
	pthread_sigmask(SIG_BLOCK, &mask, &before);
	if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(signum, info, context);
	else
		action->sa_handler(signum);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void chain(int which, siginfo_t *info, void *context)
{
	int signum = signums[which];
	struct sigaction action = action_before(which);

	if (is_default(&action, info)) {
		signal(signum, SIG_DFL);
		/* One that was sent by somebody does not come again by itself. */
		if (info->si_code <= 0)
			raise(signum);
	} else if (action.sa_handler != SIG_IGN) {
		if ((action.sa_flags & SA_RESETHAND) && atomic_exchange(&spent[which], true)) {
			/* Another thread has been faster. */
			chain(which, info, context);
			return;
		}
		call(signum, &action, info, context);
	}
}

static bool is_worth_telling(const struct fault *fault, int which)
{
	if (fault->overflow || fault->in_guard)
		return true;
	return fault->task && tell && !atomic_exchange(&told[which], true);
}

static void handle_fault(int signum, siginfo_t *info, void *context)
{
	int which = signum == SIGSEGV ? SEGV : signum == SIGBUS ? BUS : ABRT;
	struct sigaction action = action_before(which);
	int saved = errno;
	struct fault fault;

	if (may_give_up && atomic_load_explicit(&reporter, memory_order_relaxed) == my_tid())
		siglongjmp(give_up, 1);
	examine(&fault, which, info, context);
	if (is_worth_telling(&fault, which) && report_begin()) {
		report(&fault);
		report_end(is_default(&action, info));
	}
	errno = saved;
	chain(which, info, context);
	errno = saved;
}

/* ---- stalls ---- */

/* On the thread that stalls: nobody else may look at its task. */
static void put_stall(struct sn_thread *self, int64_t stayed, const ucontext_t *context)
{
	struct sn__lease *lease = &self->lease;
	struct sn_registers registers;

	put("sennit: stall: ");
	if (lease->inside ||
	    lease->stays != atomic_load_explicit(&self->stall_stay, memory_order_relaxed) ||
	    !self->task) {
		put("one of ");
		put_number((uint64_t)stayed / 1000000, 10);
		put(" ms was over when its thread got the signal\n");
		return;
	}
	put_task(self->task);
	put(" has kept its processor for ");
	put_number((uint64_t)stayed / 1000000, 10);
	put(" ms");
	if (lease->blocking) {
		put(", blocking in ");
		put(*lease->blocking ? lease->blocking : "a bracket");
	}
	put("\n");
	sn_modules_find(&modules);
	sn_registers_interrupted(context, &registers);
	put_backtrace(&registers, &self->task->stack);
}

static void handle_stall(int signum, siginfo_t *info, void *context)
{
	struct sn_thread *self = sn_thread_self();
	int64_t stayed = self ? atomic_exchange(&self->stall_asked, 0) : 0;
	int saved = errno;

	if (stayed) {
		/* Not beside another report: the monitor asks again. */
		if (report_begin()) {
			out = (struct sn_out){.fd = STDERR_FILENO};
			put_stall(self, stayed, context);
			sn_out_flush(&out);
			report_end(false);
		}
	} else if (former_stall.sa_flags & SA_SIGINFO)
		former_stall.sa_sigaction(signum, info, context);
	else if (former_stall.sa_handler != SIG_DFL && former_stall.sa_handler != SIG_IGN)
		former_stall.sa_handler(signum);
	errno = saved;
}

/*
 * In a child of fork() the handler may be ours already, from the parent's run: then what was there before
 * it is known, and the handler is not to come before itself. 0, 1 when it was ours, or an error.
 */
static int catch_instead(int signum, const struct sigaction *action, struct sigaction *before)
{
	struct sigaction current;

	bool ours;

	/* Known before the handler is there, as that chains to it. */
	if (sigaction(signum, NULL, &current) < 0)
		return -errno;
	ours = (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == action->sa_sigaction;
	if (!ours)
		*before = current;
	if (sigaction(signum, action, NULL) < 0)
		return -errno;
	return ours;
}

int sn_fault_catch_stalls(void)
{
	struct sigaction action = {.sa_sigaction = handle_stall,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	long signum = sn_environment_number("SENNIT_STALL_SIGNAL", 1, SIGRTMAX, SIGURG);

	if (signum < 0)
		return -EINVAL;
	sigemptyset(&action.sa_mask);
	if (catch_instead((int)signum, &action, &former_stall) < 0) {
		sn_log("SENNIT_STALL_SIGNAL=%ld: that signal cannot be caught", signum);
		return -EINVAL;
	}
	stall_signal = (int)signum;
	return 0;
}

void sn_fault_report_stall(struct sn_thread *thread, uint32_t stay, int64_t stayed)
{
	atomic_store_explicit(&thread->stall_stay, stay, memory_order_relaxed);
	atomic_store(&thread->stall_asked, stayed);
	pthread_kill(thread->pthread, stall_signal);
}

void sn_fault_install(bool tell_all)
{
	struct sigaction action = {.sa_sigaction = handle_fault,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	sigemptyset(&action.sa_mask);
	tell = tell_all;
	may_give_up = 0;
	atomic_store(&reporter, 0);
	for (int which = 0; which < CAUGHT; which++) {
		if (catch_instead(signums[which], &action, &former[which]) == 0)
			atomic_store(&spent[which], false);
		atomic_store(&told[which], false);
	}
}

/* Only if the handler is still ours: the program may have installed its own meanwhile. */
static void put_back(int which)
{
	struct sigaction current, action = action_before(which);

	if (sigaction(signums[which], NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
	    current.sa_sigaction == handle_fault)
		sigaction(signums[which], &action, NULL);
}

int sn_fault_own_signal(void)
{
	bool had_none = !(former_stall.sa_flags & SA_SIGINFO) &&
			(former_stall.sa_handler == SIG_DFL || former_stall.sa_handler == SIG_IGN);

	return had_none ? stall_signal : 0;
}

void sn_fault_uninstall(void)
{
	struct sigaction current;

	for (int which = 0; which < CAUGHT; which++)
		put_back(which);
	if (stall_signal && sigaction(stall_signal, NULL, &current) == 0 &&
	    (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == handle_stall)
		sigaction(stall_signal, &former_stall, NULL);
	stall_signal = 0;
}
