/* SPDX-License-Identifier: MIT */
/*
 * Waiting for descriptors, with deadlines and pauses.
 *
 * A wait that its deadline has ended returns as one that an edge has ended, and the caller tries
 * its operation once more. If the caller waits again, that wait fails, because the deadline has
 * passed when it begins. No operation therefore fails without an attempt after its deadline. That
 * attempt matters if the process or its machine was stopped: the peer may have sent something
 * during that time, and the timers may run before the poller has reported it. An edge does not
 * extend a deadline, because a peer could cause edges without any data forever.
 *
 * Arming. Deadlines mostly move to later times. The timer then stays where it is, and is armed
 * again when it fires. A wait therefore looks first, without a lock, whether the timer fires early
 * enough (armed). That is a handshake: the waiter announces itself, and whoever sets a deadline
 * stores it, before they read armed; the timer clears armed before it reads the deadline and looks
 * for a task. So either they see that the timer is firing, and wait for its heap's lock, or the
 * timer sees the task and its deadline. armed is stored under that lock, and only for a timer that
 * is in the heap or about to return there. All of these accesses are sequentially consistent.
 * models/side.pml checks this. The thread that has started the timer may be preempted before it
 * tells the poller, so a wait that relies on the timer tells the poller, too.
 *
 * Lack of memory. A wait whose timer cannot be started fails with -ENOMEM, unless its deadline has
 * passed: then it ends as if the timer had fired. A task that sets another's deadline in the past
 * ends that wait by sn_fd_expire(), which takes the task off the side by the same exchange as the
 * timer does, so only one of them makes it runnable.
 */
#include "io/fd.h"

#include <errno.h>

#include <sennit/clock.h>

#include "sched/switch.h"
#include "sched/task.h"
#include "sched/thread.h"
#include "sched/wake.h"
#include "task/cancel.h"

/* ---- deadlines ---- */

/* The earlier of deadline and pause; 0 when there is neither. */
static int64_t wake_time(struct sn_side *side)
{
	int64_t deadline = atomic_load(&side->deadline), pause = atomic_load(&side->pause);

	return pause && (!deadline || pause < deadline) ? pause : deadline;
}

struct sn_task *sn_fd_deadline_fire(struct sn_timer *timer, int64_t now, struct sn_fired *fired)
{
	struct sn_side *side = sn_container_of(timer, struct sn_side, timer);
	int64_t when;

	atomic_store(&side->armed, 0);
	SN_RACE_WINDOW();
	when = wake_time(side);
	if (when == 0)
		return NULL;
	if (when > now) {
		fired->again = when;
		atomic_store(&side->armed, when);
		return NULL;
	}
	return sn_side_unblock(side); /* the task finds out that the deadline has passed */
}

int sn_fd_check_deadline_at(struct sn_fd *d, enum sn_side_index side, int64_t now)
{
	int64_t deadline = atomic_load(&d->sides[side].deadline);

	return deadline && now >= deadline ? -ETIMEDOUT : 0;
}

int sn_fd_check_deadline(struct sn_fd *d, enum sn_side_index side)
{
	return atomic_load(&d->sides[side].deadline) ? sn_fd_check_deadline_at(d, side, sn_now())
						     : 0;
}

static bool fires_by(struct sn_side *side, int64_t deadline)
{
	int64_t armed = atomic_load(&side->armed);

	return armed && armed <= deadline;
}

static int arm(struct sn_thread *self, struct sn_fd *d, struct sn_side *side, int64_t deadline)
{
	int err;

	if (sn_likely(fires_by(side, deadline))) {
		sn_poller_expect(deadline);
		return 0;
	}
	sn_lock(&d->lock);
	err = sn_timer_advance(self, &side->timer, deadline, &side->armed);
	sn_unlock(&d->lock);
	return err;
}

int sn_fd_set_deadline(struct sn_thread *self, struct sn_fd *d, enum sn_side_index index,
		       int64_t deadline)
{
	struct sn_side *side = &d->sides[index];
	uintptr_t state;

	atomic_store(&side->deadline, deadline);
	/*
	 * If no task waits, there is no timer to arm. A task that begins to wait reads the deadline
	 * after it has announced itself in state (commit_wait()), so either it sees the new
	 * deadline or this thread sees the task.
	 */
	state = atomic_load(&side->state);
	if (deadline == 0 || state == SN_SIDE_NONE || state == SN_SIDE_READY)
		return 0;
	return arm(self, d, side, deadline);
}

void sn_fd_expire(struct sn_thread *self, struct sn_fd *d, enum sn_side_index index)
{
	struct sn_task *task = sn_side_unblock(&d->sides[index]);

	if (task)
		sn_ready(self, task, SN_READY_LAST);
}

/* ---- parking ---- */

struct wait {
	struct sn_fd *d;
	struct sn_side *side;
	struct sn_fd *other;         /* its reading side can end the wait, too; or NULL */
	struct sn_lock *cancel_lock; /* NULL: the task cannot be cancelled */
};

/* Checks whether the task is cancelled, and makes it findable for its scope, both under the lock
 * (task/cancel.h). */
static int announce_cancellable(const struct wait *wait, struct sn_task *task)
{
	int reason;

	sn_lock(wait->cancel_lock);
	task->in_side = wait->side; /* the task retracts it, even if it does not wait */
	reason = sn_cancel_reason(task);
	if (reason == 0)
		reason = sn_side_announce(wait->side, task);
	sn_unlock(wait->cancel_lock);
	return reason;
}

/*
 * Checks whether the task need not wait after all. A descriptor may have been closed or cancelled
 * between the caller's check and the announcement. Or `other` may have an edge whose poller looked
 * for the task before the announcement. Returns 0 if the task must wait, an error, or 1 for an
 * edge.
 */
static int look_again(const struct wait *wait)
{
	int err = sn_fd_error(atomic_load(&wait->d->control));

	if (err == 0 && wait->other)
		err = sn_fd_error(atomic_load(&wait->other->control));
	if (err == 0 && wait->other)
		err = atomic_load(&wait->other->sides[SN_SIDE_READ].state) == SN_SIDE_READY;
	return err;
}

static bool commit_wait(struct sn_thread *self, struct sn_task *task, void *arg)
{
	const struct wait wait =
		*(struct wait *)arg; /* copied: the stack may run once the task is announced */
	int err = wait.cancel_lock ? announce_cancellable(&wait, task)
				   : sn_side_announce(wait.side, task);
	uintptr_t state;
	int64_t when;

	if (err != 0) {
		task->wake_reason = err < 0 ? err : 0;
		return false;
	}
	SN_RACE_WINDOW();
	when = wake_time(wait.side);
	if (when)
		err = arm(self, wait.d, wait.side, when);
	if (err == 0 && look_again(&wait) == 0)
		return true;
	if (err < 0 && when <= sn_now())
		err = 0; /* it has passed, so no timer is needed to end the wait */
	state = (uintptr_t)task;
	if (!atomic_compare_exchange_strong(&wait.side->state, &state, SN_SIDE_NONE))
		return true; /* another thread has woken it */
	task->wake_reason = err;
	return false;
}

/* Parks until the side is woken, or other's reading side. Returns 0, or the error that prevented or
 * ended the wait. */
static int park_in(struct sn_fd *d, struct sn_side *side, struct sn_fd *other, const char *what)
{
	struct sn_thread *self = sn_thread_self();
	struct sn_task *task = self->task;
	bool cancellable = sn_cancel_possible(task);
	struct wait wait = {.d = d,
			    .side = side,
			    .other = other,
			    .cancel_lock = cancellable ? sn_cancel_lock_of(task) : NULL};
	int err;

	sn_task_waits(task, what, d);
	err = sn_park(self, commit_wait, &wait);

	if (cancellable)
		sn_cancel_retract(task);
	return err;
}

/* No other thread knows the new task, except that its scope may cancel it. The task stands for one
 * that has just parked, and this thread for the one that has switched away from it. */
void sn_fd_park_new(struct sn_thread *self, struct sn_fd *d, struct sn_task *task)
{
	struct sn_side *side = &d->sides[SN_SIDE_READ];
	struct wait wait = {
		.d = d, .side = side, .cancel_lock = task->cancel ? sn_cancel_lock_of(task) : NULL};

	if (!task->cancel)
		task->in_side = side;
	if (sn_unlikely(sn_fd_is_disarmed(d)))
		sn_fd_rearm(d);
	sn_task_waits(task, "a descriptor to be readable, to begin", d);
	sn_status_set(&task->word, SN_TASK_PARKED, SN_BY_CREATOR);
	SN_RACE_WINDOW();
	if (!commit_wait(self, task, &wait))
		sn_ready(self, task, SN_READY_LAST);
}

struct sn_fd *sn_fd_parked_on(struct sn_task *task)
{
	struct sn_fd *d = sn_container_of(task->in_side, struct sn_fd, sides[SN_SIDE_READ]);

	if (task->cancel)
		sn_cancel_retract(task);
	else
		task->in_side = NULL;
	return d;
}

/* ---- waits ---- */

static const char *readiness(enum sn_side_index index)
{
	return index == SN_SIDE_READ ? "a descriptor to be readable"
				     : "a descriptor to be writable";
}

/* Does what sn_fd_await() does, but returns 1 if the task was woken without an edge, perhaps by the
 * deadline. */
static int wait_for_edge(struct sn_fd *d, enum sn_side_index index)
{
	struct sn_side *side = &d->sides[index];
	uintptr_t state = SN_SIDE_READY;
	int err;

	err = sn_fd_error(atomic_load(&d->control));
	if (err == 0)
		err = sn_fd_check_deadline(d, index);
	if (err < 0)
		return err;
	if (index == SN_SIDE_READ && sn_unlikely(sn_fd_is_disarmed(d)))
		sn_fd_rearm(d);
	if (atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE))
		return 0;
	err = park_in(d, side, NULL, readiness(index));
	if (err < 0)
		return err;
	err = sn_fd_error(atomic_load(&d->control));
	if (err < 0)
		return err;
	state = SN_SIDE_READY;
	return atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE) ? 0 : 1;
}

int sn_fd_await(struct sn_fd *d, enum sn_side_index index)
{
	int err = wait_for_edge(d, index);

	return err < 0 ? err : 0;
}

int sn_fd_wait_until(struct sn_fd *d, enum sn_side_index index, int64_t until)
{
	int err;

	atomic_store(&d->sides[index].pause, until);
	err = wait_for_edge(d, index);
	atomic_store(&d->sides[index].pause, 0);
	return err;
}

static bool has_edge(struct sn_fd *d)
{
	return atomic_load(&d->sides[SN_SIDE_READ].state) == SN_SIDE_READY;
}

int sn_fd_wait_either(struct sn_fd *d, struct sn_fd *other)
{
	int err = sn_fd_error(atomic_load(&d->control) | atomic_load(&other->control));

	/* Does not check the deadline: if that has passed, the timer ends the wait immediately. */
	if (err < 0)
		return err;
	if (sn_unlikely(sn_fd_is_disarmed(d)))
		sn_fd_rearm(d);
	if (sn_unlikely(sn_fd_is_disarmed(other)))
		sn_fd_rearm(other);
	if (has_edge(d) || has_edge(other))
		return 0;
	SN_RACE_WINDOW();
	err = park_in(d, &d->sides[SN_SIDE_READ], other,
		      "either of two descriptors to be readable");
	if (err == 0)
		err = sn_fd_error(atomic_load(&d->control) | atomic_load(&other->control));
	if (err < 0 || has_edge(d) || has_edge(other))
		return err;
	return sn_fd_check_deadline(d, SN_SIDE_READ);
}

void sn_fd_forward(struct sn_fd *d, struct sn_fd *to)
{
	atomic_store(&d->sides[SN_SIDE_READ].forward_to, to ? &to->sides[SN_SIDE_READ] : NULL);
}

/* Reads first, because mostly there is no edge, and the cache line then stays shared. The wait that
 * follows finds an edge that comes after this read. */
bool sn_fd_take_edge(struct sn_fd *d, enum sn_side_index index)
{
	uintptr_t state = SN_SIDE_READY;

	return atomic_load(&d->sides[index].state) == state &&
	       atomic_compare_exchange_strong(&d->sides[index].state, &state, SN_SIDE_NONE);
}

/* The exchange is sequentially consistent, so the thread that takes the edge also sees what the
 * poller wrote before it. */
void sn_fd_forget(struct sn_fd *d, enum sn_side_index index)
{
	struct sn_side *side = &d->sides[index];
	uintptr_t state = SN_SIDE_READY;

	if (atomic_load_explicit(&side->state, memory_order_relaxed) == state)
		atomic_compare_exchange_strong(&side->state, &state, SN_SIDE_NONE);
}

/* Relaxed: both are hints. unread passes from one reader to the next with the control word. An edge
 * that is not seen here is seen by sn_fd_await(), which does a compare-and-swap before it parks. */
bool sn_fd_is_silent(struct sn_fd *d)
{
	return d->registered && atomic_load_explicit(&d->unread, memory_order_relaxed) &&
	       atomic_load_explicit(&d->sides[SN_SIDE_READ].state, memory_order_relaxed) ==
		       SN_SIDE_NONE;
}

void sn_fd_wake(struct sn_thread *self, struct sn_fd *d, enum sn_side_index index)
{
	struct sn_task *task = sn_side_ready(&d->sides[index]);

	if (task)
		sn_ready(self, task, SN_READY_LAST);
}

static int pause_until(struct sn_fd *d, enum sn_side_index index, int64_t until, const char *what)
{
	struct sn_side *side = &d->sides[index];
	int err = sn_fd_check_deadline(d, index);

	if (err < 0)
		return err;
	if (index == SN_SIDE_READ && sn_unlikely(sn_fd_is_disarmed(d)))
		sn_fd_rearm(d);
	atomic_store(&side->pause, until);
	atomic_store(&side->state, SN_SIDE_NONE); /* the edges until now are of no use */
	err = park_in(d, side, NULL, what);
	atomic_store(&side->pause, 0);
	return err < 0 ? err : sn_fd_error(atomic_load(&d->control));
}

int sn_fd_pause(struct sn_fd *d, enum sn_side_index index, int64_t until)
{
	return pause_until(d, index, until, readiness(index));
}

/*
 * A poller that still finds ignores_bytes set drops an edge that the sleeper might need. But the
 * bytes of that edge are there before the sleeper's next attempt, which finds them. The attempt
 * takes the descriptor's lock in the kernel after false was stored here, so if the bytes had come
 * after the attempt, the poller would have found false.
 */
int sn_fd_sleep(struct sn_fd *d, enum sn_side_index index, int64_t until)
{
	struct sn_side *side = &d->sides[index];
	int err;

	atomic_store(&side->ignores_bytes, true);
	err = pause_until(d, index, until, "its share of a rate");
	atomic_store(&side->ignores_bytes, false);
	return err;
}
