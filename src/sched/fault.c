/* SPDX-License-Identifier: MIT */
/*
 * Runs in a signal handler, on the alternate stack that every thread of the runtime has (thread.c),
 * in a process that is about to die: only async-signal-safe calls, no heap, no lock of ours. The one
 * exception is dl_iterate_phdr() (backtrace.h), which takes the loader's lock, that only a crash inside
 * the loader itself would hold. The facts come first, so that they are out whatever happens after.
 */
#include "sched/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
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

static struct sigaction former_segv, former_bus, former_stall;
static int stall_signal; /* 0: not caught */

/* ---- printing ---- */

static struct sn_out out;

static void put(const char *text)
{
	sn_out_text(&out, text);
}

static void put_number(uint64_t value, unsigned base)
{
	sn_out_number(&out, value, base);
}

/*
 * The interrupted code's, on the stack that its stack pointer is in, or was before it overflowed. Static:
 * the frames of a recursion would fill the signal's stack. One report at a time: the process dies of the
 * first, and stalls are asked for by the monitor, one after the other.
 */
static void put_backtrace(const ucontext_t *context, const struct sn_stack *stack)
{
	static struct sn_modules modules;
	static uintptr_t first[FIRST_FRAMES], rest[LAST_FRAMES];
	struct sn_registers registers;
	uint64_t count, last = 0, number;
	bool complete;

	sn_registers_interrupted(context, &registers);
	sn_modules_find(&modules);
	count = sn_backtrace(&modules, &registers, stack->low, stack->high, true, first,
			     FIRST_FRAMES, &complete);
	for (uint64_t i = 0; i < count; i++)
		sn_out_frame(&out, &modules, i, first[i], i > 0);
	/* One by one, each over the one eight before it. */
	for (; !complete && count >= FIRST_FRAMES; last++)
		if (sn_backtrace(&modules, &registers, stack->low, stack->high, false,
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

/* ---- the handler ---- */

static void put_task(const struct sn_task *task)
{
	put("task ");
	put_number(sn_task_id(task), 10);
	put(" \"");
	put(sn_task_name(task));
	put("\"");
}

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

static void report(const struct sn_stack *stack, const void *address, const ucontext_t *context)
{
	struct sn_thread *self = sn_thread_self();
	struct owner owner = {.low = stack->low};

	out.fd = STDERR_FILENO;
	out.error = 0;
	(void)sn_block_each(is_owner, &owner);
	if (self && self->task && self->task == owner.task) {
		put("sennit: stack overflow in ");
		put_task(owner.task);
		put(": its ");
		put_number((uint64_t)(stack->high - stack->low) / 1024, 10);
		put(" KiB are used up (sn_task_attr.stack_size sets the size)\n");
	} else {
		put("sennit: the guard below the stack of ");
		if (owner.task)
			put_task(owner.task);
		else
			put("no task any more");
		put(" was hit at 0x");
		put_number((uintptr_t)address, 16);
		if (self && self->task) {
			put(" by ");
			put_task(self->task);
		}
		put(": a wild pointer\n");
	}
	sn_out_flush(&out);
	/* A thread of the program's own: its stack's end is not known, but its first frame ends the walk. */
	put_backtrace(context, self && self->task
				       ? &self->task->stack
				       : &(struct sn_stack){.high = (char *)UINTPTR_MAX});
	sn_out_flush(&out);
}

static void handle_fault(int signum, siginfo_t *info, void *context)
{
	const struct sigaction *former = signum == SIGSEGV ? &former_segv : &former_bus;
	struct sn_stack stack;
	bool in_guard;

	/* si_code > 0: sent by the kernel, so si_addr means something. */
	if (info->si_code > 0 && sn_stack_find(info->si_addr, &stack, &in_guard) && in_guard) {
		report(&stack, info->si_addr, context);
	} else if (former->sa_flags & SA_SIGINFO) {
		former->sa_sigaction(signum, info, context);
		return;
	} else if (former->sa_handler != SIG_DFL && former->sa_handler != SIG_IGN) {
		former->sa_handler(signum);
		return;
	}
	/*
	 * The default action, with the faulting instruction as its cause: it is executed again when
	 * the handler returns. One that was sent by somebody does not come again by itself.
	 */
	signal(signum, SIG_DFL);
	if (info->si_code <= 0)
		raise(signum);
}

/* ---- stalls ---- */

/* On the thread that stalls: nobody else may look at its task. */
static void put_stall(struct sn_thread *self, int64_t stayed, const ucontext_t *context)
{
	struct sn__lease *lease = &self->lease;

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
	put_backtrace(context, &self->task->stack);
}

static void handle_stall(int signum, siginfo_t *info, void *context)
{
	struct sn_thread *self = sn_thread_self();
	int64_t stayed = self ? atomic_exchange(&self->stall_asked, 0) : 0;
	int saved = errno;

	if (stayed) {
		out.fd = STDERR_FILENO;
		put_stall(self, stayed, context);
		sn_out_flush(&out);
	} else if (former_stall.sa_flags & SA_SIGINFO)
		former_stall.sa_sigaction(signum, info, context);
	else if (former_stall.sa_handler != SIG_DFL && former_stall.sa_handler != SIG_IGN)
		former_stall.sa_handler(signum);
	errno = saved;
}

int sn_fault_catch_stalls(void)
{
	struct sigaction action = {.sa_sigaction = handle_stall,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	long signum = sn_environment_number("SENNIT_STALL_SIGNAL", 1, SIGRTMAX, SIGURG);

	if (signum < 0)
		return -EINVAL;
	sigemptyset(&action.sa_mask);
	if (sigaction((int)signum, &action, &former_stall) < 0) {
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

void sn_fault_install(void)
{
	struct sigaction action = {.sa_sigaction = handle_fault,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	sigemptyset(&action.sa_mask);
	sigaction(SIGSEGV, &action, &former_segv);
	sigaction(SIGBUS, &action, &former_bus);
}

/* Only if the handler is still ours: the program may have installed its own meanwhile. */
static void put_back(int signum, const struct sigaction *former)
{
	struct sigaction current;

	if (sigaction(signum, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) &&
	    current.sa_sigaction == handle_fault)
		sigaction(signum, former, NULL);
}

void sn_fault_uninstall(void)
{
	put_back(SIGSEGV, &former_segv);
	put_back(SIGBUS, &former_bus);
	if (stall_signal)
		sigaction(stall_signal, &former_stall, NULL);
	stall_signal = 0;
}
