/* SPDX-License-Identifier: MIT */
/*
 * This runs in a signal handler, on the alternate stack that every thread of the runtime has
 * (thread.c), often in a process that is about to die. Therefore it makes only async-signal-safe
 * calls, and uses no heap and no lock of sennit's. The one exception is dl_iterate_phdr()
 * (modules.h), which takes the loader's lock; a thread that crashes holds that only if it crashes
 * in the loader itself. The facts are written first, so that they are out whatever happens next.
 *
 * There is one report at a time (report.h). If that does not end for 5 s, a line says that there is
 * no other. A report walks a stack that may be corrupt. If the report itself faults, the nested
 * signal finds that its own thread is the reporter, and jumps back to where the walk began. Then
 * the previous action follows, with the information of the first signal. After a signal whose
 * action ends the process there is no other report, so that a second one cannot write into the end
 * of the first.
 *
 * The previous action is carried out as the kernel would do it: with its mask, and only once if it
 * has SA_RESETHAND. By default the faulting instruction is executed again and the process dies of
 * it, so that a core shows that instruction and not this file.
 *
 * A program that handles such signals on purpose, and continues, would get a report of each.
 * Therefore only overflows are reported after the first signal of a kind.
 */
#include "debug/fault.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/log.h"
#include "debug/report.h"
#include "sched/control_block.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "stack/stack_slab.h"

/* No function has a larger frame than this. */
#define LARGEST_FRAME ((uintptr_t)16 << 20)
/* How far below the stack pointer a function may use the stack, or a call may push, and more. */
#define BELOW_SP 256

/* An address below this is a null pointer, or that of a member accessed through one. */
#define NULL_SIZE 65536

enum { SEGV, BUS, ABRT, CAUGHT };
static const int signums[CAUGHT] = {SIGSEGV, SIGBUS, SIGABRT};
static const char *const names[CAUGHT] = {"SIGSEGV", "SIGBUS", "SIGABRT"};

static struct sigaction former[CAUGHT];
static _Atomic bool spent[CAUGHT];    /* the action has SA_RESETHAND, and was called */
static _Atomic bool reported[CAUGHT]; /* in this run, other than an overflow */
static bool report_all;               /* SENNIT_FAULT_REPORTS */

/* Whether a fault may jump to give_up. Used by the reporter; a signal handler of the same thread
 * reads it. */
static volatile sig_atomic_t may_give_up;
static sigjmp_buf give_up;

/* ---- what has happened ---- */

struct owner {
	const char *low;
	const struct sn_task *task; /* NULL if the stack has none */
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
	const struct sn_task *task; /* the one that the thread runs; NULL if it runs none */
	struct sn_stack stack;      /* the task's */
	struct sn_registers registers;
	uintptr_t sp;
	bool has_address, in_slot, in_guard, overflow;
	uintptr_t address;
	struct sn_stack slot; /* the stack that contains the address, or whose guard does */
};

static bool is_within(const struct sn_stack *stack, uintptr_t address)
{
	return address >= (uintptr_t)stack->low && address < (uintptr_t)stack->high;
}

/*
 * Whether the stack pointer has left the task's stack at its lower end, or is about to. If it is
 * beyond the guard, a large frame has taken it there: to another task's stack or guard, or to near
 * the address of the fault. If it is anywhere else, it may be there on purpose: on a signal stack,
 * or on that of a coroutine of the program.
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
	/* True if the kernel raised the signal, unless the processor did not report the address (on
	 * x86, one that is not canonical). */
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
	sn_put("sennit: stack overflow in ");
	sn_put_task(fault->task);
	sn_put(": its ");
	sn_put_number((uint64_t)(fault->stack.high - fault->stack.low) / 1024, 10);
	sn_put(" KiB are used up (");
	if (is_first_task(fault->task))
		sn_put("sn_run_attr.first_stack_size or SENNIT_STACK_SIZE sets the size");
	else if (fault->task->stack_class == sn_stack_default_class())
		sn_put("sn_task_attr.stack_size sets the size, SENNIT_STACK_SIZE that of all "
		       "tasks");
	else
		sn_put("sn_task_attr.stack_size sets the size");
	sn_put(")\n");
}

static void put_wild_pointer(const struct fault *fault)
{
	const struct sn_task *owner = owner_of(&fault->slot);

	sn_put("sennit: the guard below ");
	if (owner) {
		sn_put("the stack of ");
		sn_put_task(owner);
	} else {
		sn_put("a stack that is not in use");
	}
	sn_put(" was hit at ");
	sn_put_address(fault->address);
	if (fault->task) {
		sn_put(" by ");
		sn_put_task(fault->task);
	}
	sn_put(": a wild pointer\n");
}

static void put_signal(const struct fault *fault)
{
	sn_put("sennit: ");
	sn_put(fault->name);
	sn_put(" in ");
	sn_put_task(fault->task);
	if (fault->info->si_code <= 0 && fault->info->si_pid != getpid()) {
		sn_put(", sent by process ");
		sn_put_number((uint64_t)fault->info->si_pid, 10);
	}
	sn_put("\n");
}

/* An address further away than this is a wild pointer, whose distance from the stack says
 * nothing. */
#define FAR_AWAY ((uint64_t)1 << 40)

/* For an address outside the task's stack: prints "312 bytes below its stack". */
static void put_distance(const struct fault *fault, uintptr_t address)
{
	uintptr_t low = (uintptr_t)fault->stack.low, high = (uintptr_t)fault->stack.high;
	/* 64 bits on every machine, because it is compared with FAR_AWAY. */
	uint64_t distance = address < low ? low - address : address - high + 1;

	if (distance >= FAR_AWAY) {
		sn_put("far from its stack");
		return;
	}
	sn_put_size(distance);
	sn_put(address < low ? " below its stack" : " above its stack");
}

static void put_slot(const struct fault *fault, const struct sn_stack *slot, bool in_guard)
{
	const struct sn_task *owner;

	if (slot->low == fault->stack.low) {
		sn_put(in_guard ? ", in its guard" : "");
		return;
	}
	owner = owner_of(slot);
	sn_put(in_guard ? ", in the guard below the stack of " : ", in the stack of ");
	if (owner)
		sn_put_task(owner);
	else
		sn_put("no task");
}

static void put_address_line(const struct fault *fault)
{
	sn_put("  address ");
	sn_put_address(fault->address);
	sn_put(": ");
	if (fault->address < NULL_SIZE) {
		sn_put("a null pointer, or a member of what one points to");
	} else if (is_within(&fault->stack, fault->address)) {
		sn_put("within its stack");
	} else {
		put_distance(fault, fault->address);
		if (fault->in_slot)
			put_slot(fault, &fault->slot, fault->in_guard);
		else if (fault->info->si_signo == SIGSEGV)
			sn_put(fault->info->si_code == SEGV_MAPERR
				       ? ", where nothing is mapped"
				       : ", where access is not allowed");
	}
	sn_put("\n");
}

static void put_stack_line(const struct fault *fault)
{
	struct sn_stack slot;
	bool in_guard;

	sn_put("  its stack: ");
	sn_put_address((uintptr_t)fault->stack.low);
	sn_put(" to ");
	sn_put_address((uintptr_t)fault->stack.high);
	sn_put(" (");
	sn_put_number((uint64_t)(fault->stack.high - fault->stack.low) / 1024, 10);
	sn_put(" KiB), the stack pointer ");
	if (is_within(&fault->stack, fault->sp) || fault->sp == (uintptr_t)fault->stack.high) {
		sn_put_size((uintptr_t)fault->stack.high - fault->sp);
		sn_put(" below its upper end");
	} else {
		put_distance(fault, fault->sp);
		if (sn_stack_find((const void *)fault->sp, &slot, &in_guard))
			put_slot(fault, &slot, in_guard);
	}
	sn_put("\n");
}

/* Calls the loader and walks a stack, which may fault: any line printed here may be the last. */
static void put_details(struct fault *fault)
{
	/* The upper end of a thread's own stack, or of a coroutine's, is not known. The walk ends
	 * at the first frame, or at a fault, from which may_give_up lets it jump back. */
	struct sn_stack limit = {.high = (char *)UINTPTR_MAX};

	sn_report_find_modules();
	if (fault->task) {
		sn_put("  ");
		if (is_first_task(fault->task))
			sn_put("the first task, of sn_run()");
		else
			sn_put_spawned(atomic_load_explicit(&fault->task->spawned_at,
							    memory_order_relaxed),
				       atomic_load_explicit(&fault->task->spawned_by,
							    memory_order_relaxed));
		sn_put("\n");
		sn_put_flush();
	}
	if (fault->task && (fault->overflow || is_within(&fault->stack, fault->sp)))
		limit = fault->stack;
	sn_put_backtrace(&fault->registers, &limit);
}

static void report(struct fault *fault)
{
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
	sn_put_flush();
	/* Does not save the signal mask, because this changes nothing in it. */
	if (sigsetjmp(give_up, 0) == 0) {
		may_give_up = 1;
		put_details(fault);
	} else {
		sn_put("  (the report itself faulted here)\n");
	}
	may_give_up = 0;
	sn_put_flush();
}

/* ---- the handler ---- */

static bool is_default(const struct sigaction *action, const siginfo_t *info)
{
	/* A signal that the kernel raises cannot be ignored. */
	return action->sa_handler == SIG_DFL ||
	       (action->sa_handler == SIG_IGN && info->si_code > 0);
}

/* The previous action of the signal, as it is now: the default if its handler was to run once. */
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
		/* A signal that was sent does not come again by itself. */
		if (info->si_code <= 0)
			raise(signum);
	} else if (action.sa_handler != SIG_IGN) {
		if ((action.sa_flags & SA_RESETHAND) && atomic_exchange(&spent[which], true)) {
			/* Another thread was faster. */
			chain(which, info, context);
			return;
		}
		call(signum, &action, info, context);
	}
}

static bool is_worth_reporting(const struct fault *fault, int which)
{
	if (fault->overflow || fault->in_guard)
		return true;
	return fault->task && report_all && !atomic_exchange(&reported[which], true);
}

static void handle_fault(int signum, siginfo_t *info, void *context)
{
	int which = signum == SIGSEGV ? SEGV : signum == SIGBUS ? BUS : ABRT;
	struct sigaction action = action_before(which);
	int saved = errno;
	struct fault fault;

	if (may_give_up && sn_report_is_mine())
		siglongjmp(give_up, 1);
	examine(&fault, which, info, context);
	if (is_worth_reporting(&fault, which)) {
		if (sn_report_begin(SN_STDERR_PATIENCE)) {
			report(&fault);
			sn_report_end(is_default(&action, info));
		} else if (!sn_report_is_mine()) {
			sn_report_refused(fault.name, fault.task);
		}
	}
	errno = saved;
	chain(which, info, context);
	errno = saved;
}

/* ---- the beginning and the end ---- */

void sn_fault_install(bool all_faults)
{
	struct sigaction action = {.sa_sigaction = handle_fault,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	sigemptyset(&action.sa_mask);
	report_all = all_faults;
	may_give_up = 0;
	sn_report_reset();
	for (int which = 0; which < CAUGHT; which++) {
		if (sn_catch_instead(signums[which], &action, &former[which]) == 0)
			atomic_store(&spent[which], false);
		atomic_store(&reported[which], false);
	}
}

/* Restores the previous action, unless the program has installed a handler of its own since. */
static void put_back(int which)
{
	struct sigaction current, action = action_before(which);

	if (sigaction(signums[which], NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
	    current.sa_sigaction == handle_fault)
		sigaction(signums[which], &action, NULL);
}

void sn_fault_uninstall(void)
{
	for (int which = 0; which < CAUGHT; which++)
		put_back(which);
}
