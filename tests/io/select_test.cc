// SPDX-License-Identifier: MIT
//
// Select over times, tasks, descriptors and scopes, together with channels: each kind alone,
// errors, and random selects over all kinds in which every element, end and event has to be
// accounted for.
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/channel.h"
#include "support/internals.h"
#include "support/runtime.h"

namespace
{

using namespace test;

constexpr int64_t forever = 3600 * second;

sn_case at(int64_t time)
{
	sn_case one = {};

	one.time = time;
	one.op = SN_CASE_TIME;
	return one;
}

sn_case end_of(sn_task *task, int *result = nullptr)
{
	sn_case one = {};

	one.task = task;
	one.elem = result;
	one.op = SN_CASE_JOIN;
	return one;
}

sn_case ready(int fd, int events)
{
	sn_case one = {};

	one.poll = {fd, events};
	one.op = SN_CASE_POLL;
	return one;
}

sn_case end_of(sn_scope *scope)
{
	sn_case one = {};

	one.scope = scope;
	one.op = SN_CASE_SCOPE;
	return one;
}

template <size_t n>
int select(sn_case (&cases)[n], int64_t deadline = SN_NO_DEADLINE)
{
	return sn_select(cases, n, deadline);
}

// An eventfd. Each select that it ends takes one from its count.
class Event
{
public:
	Event() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK)) { EXPECT_LE(0, fd_); }
	~Event() { close(fd_); }
	Event(const Event &) = delete;
	Event &operator=(const Event &) = delete;

	int fd() const { return fd_; }
	void signal() { EXPECT_EQ(0, eventfd_write(fd_, 1)); }
	bool take()
	{
		eventfd_t n;

		return eventfd_read(fd_, &n) == 0;
	}

private:
	int fd_;
};

TASK_TEST(SelectTime, EndsAtTheEarliest)
{
	const int64_t now = sn_now();
	sn_case cases[] = {at(now + forever), at(now + 3 * ms), at(SN_NO_DEADLINE),
			   at(now + forever)};

	EXPECT_EQ(1, select(cases));
	EXPECT_EQ(0, cases[1].result);
	EXPECT_GE(sn_now(), now + 3 * ms);
	EXPECT_EQ(1, select(cases)) << "the time has passed";
	EXPECT_EQ(1, select(cases, SN_TRY));
	EXPECT_EQ(1, select(cases, 1));
	cases[1].time = INT64_MIN;
	EXPECT_EQ(1, select(cases));
	cases[1].time = SN_NO_DEADLINE;
	EXPECT_EQ(-EAGAIN, select(cases, SN_TRY));
	EXPECT_EQ(-ETIMEDOUT, select(cases, sn_now() + ms));
	EXPECT_EQ(-ETIMEDOUT, select(cases, 1));
}

TASK_TEST(SelectTime, ComesOrAnElement)
{
	Chan<int> chan;
	int value = 0;
	sn_case cases[] = {chan.recv_case(&value), at(sn_now() + forever)};
	Task sender([&] { EXPECT_EQ(0, chan.send(7)); });

	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(0, cases[0].result);
	EXPECT_EQ(7, value);
	sender.join();
	cases[1].time = sn_now() + 2 * ms;
	EXPECT_EQ(1, select(cases));
	EXPECT_EQ(0u, chan.receivers());
	EXPECT_EQ(0, chan.close());
	cases[1].time = sn_now() + forever;
	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(-EPIPE, cases[0].result);
}

TASK_TEST(SelectJoin, JoinsATask)
{
	Chan<int> hold;
	Task before([] { return 5; }), after([&] { return hold.get_one(); });
	int first = 0, second_one = 0;
	sn_case one[] = {end_of(before.get(), &first)};

	EXPECT_EQ(0, select(one));
	EXPECT_EQ(0, one[0].result);
	EXPECT_EQ(5, first);
	EXPECT_EQ(0, select(one)) << "ready, because of an error";
	EXPECT_EQ(-ESRCH, one[0].result);
	before.release();

	sn_case two[] = {end_of(after.get(), &second_one), at(sn_now() + 2 * ms)};
	EXPECT_EQ(1, select(two));
	two[1].time = sn_now() + forever;
	Task sender([&] { EXPECT_EQ(0, hold.send(6)); });
	EXPECT_EQ(0, select(two));
	EXPECT_EQ(0, two[0].result);
	EXPECT_EQ(6, second_one);
	after.release();
	sender.join();
	EXPECT_TRUE(test::all_ended());
}

TASK_TEST(SelectJoin, WhatWasNotChosenCanBeJoined)
{
	Chan<int> hold;
	Task a([&] { return hold.get_one(); }), b([&] { return hold.get_one(); });
	int result_a = 0, result_b = 0;
	sn_case cases[] = {end_of(a.get(), &result_a), end_of(b.get(), &result_b)};
	Task sender([&] { EXPECT_EQ(0, hold.send(3)); });
	const int chosen = select(cases);

	ASSERT_TRUE(chosen == 0 || chosen == 1);
	EXPECT_EQ(0, cases[chosen].result);
	EXPECT_EQ(3, result_a + result_b);
	sender.join();
	EXPECT_EQ(0, hold.send(4));
	(chosen == 0 ? a : b).release();
	EXPECT_EQ(4, (chosen == 0 ? b : a).join());
}

TASK_TEST(SelectJoin, MistakesAreReadyWithTheirError)
{
	Chan<int> hold;
	Task joined([&] { return hold.get_one(); });
	sn_task *target = joined.get();
	Task joiner([&] { return joined.join(); });
	Task detached([&] { hold.get_one(); });
	sn_task *gone = detached.get();
	sn_case cases[] = {end_of(sn_self()), at(sn_now() + forever)};

	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(-EDEADLK, cases[0].result);
	ASSERT_TRUE(hold.await_receivers(2));
	cases[0] = end_of(target);
	// This select only tries: while another select waits for the task, this one cannot
	// join it.
	EXPECT_TRUE(test::eventually([&] { return sn_select(cases, 1, SN_TRY) == 0; }));
	EXPECT_EQ(-EBUSY, cases[0].result);
	detached.detach();
	cases[0] = end_of(gone);
	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(-EINVAL, cases[0].result);
	EXPECT_EQ(0, hold.send(1));
	EXPECT_EQ(0, hold.send(1));
	EXPECT_EQ(1, joiner.join());
	cases[0] = end_of(static_cast<sn_task *>(nullptr));
	cases[1].time = sn_now() + ms;
	EXPECT_EQ(1, select(cases)) << "NULL is never ready";
	EXPECT_TRUE(test::all_ended());
}

TASK_TEST(SelectJoin, ATaskIsInOneCase)
{
	Chan<int> hold;
	Task target([&] { return hold.get_one(); });
	sn_case cases[] = {end_of(target.get()), at(sn_now() + forever), end_of(target.get())};

	EXPECT_EQ(-EINVAL, select(cases));
	EXPECT_EQ(0, hold.send(3));
	EXPECT_EQ(3, target.join());
}

TASK_TEST(SelectPoll, ReportsEvents)
{
	Event event, other;
	sn_case cases[] = {ready(event.fd(), POLLIN), ready(other.fd(), POLLIN), ready(-1, POLLIN)};

	EXPECT_EQ(-EAGAIN, select(cases, SN_TRY));
	EXPECT_EQ(-ETIMEDOUT, select(cases, sn_now() + ms));
	other.signal();
	EXPECT_EQ(1, select(cases));
	EXPECT_EQ(POLLIN, cases[1].result);
	EXPECT_EQ(1, select(cases, SN_TRY)) << "a level";
	EXPECT_TRUE(other.take());
	Task later([&] {
		EXPECT_TRUE(test::eventually([&] { return probe_watch_waits(event.fd()) > 0; }));
		event.signal();
	});
	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(POLLIN, cases[0].result);
	EXPECT_EQ(0, probe_watch_waits(event.fd()));
	EXPECT_EQ(0, probe_watch_waits(other.fd()));
	later.join();
	cases[1].poll.events = POLLOUT;
	EXPECT_TRUE(event.take());
	EXPECT_EQ(1, select(cases));
	EXPECT_EQ(POLLOUT, cases[1].result);
}

// A regular file cannot be waited for, which is noticed only after the select has entered the
// channel. Whichever result comes first counts, and the other leaves nothing behind.
TASK_TEST(SelectPoll, AnErrorWhileItBeginsToWaitDoesNothingElse)
{
	Chan<int> chan;
	Chan<int> hold;
	Task ends([&] { return hold.get_one(); });
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	std::atomic<bool> stop{false};
	long sent = 0, received = 0, errors = 0;
	int value = 0;
	sn_case cases[] = {chan.recv_case(&value), end_of(ends.get()), ready(fd, POLLPRI)};

	ASSERT_LE(0, fd);
	Task sender([&] {
		while (!stop)
			sent += chan.send(1, sn_now() + 100 * us) == 0;
	});
	for (int i = 0; i < test::scaled(20000) || received == 0; i++) {
		const int chosen = select(cases);

		if (chosen == 0)
			received++;
		else if (chosen == -EPERM)
			errors++;
		else
			ADD_FAILURE() << chosen;
		sn_yield();
	}
	EXPECT_LT(0, errors);
	EXPECT_EQ(0u, chan.receivers());
	stop = true;
	for (int each; chan.recv(&each, sn_now() + 2 * ms) == 0;)
		received++;
	sender.join();
	EXPECT_EQ(sent, received);
	EXPECT_EQ(0, hold.send(7));
	EXPECT_EQ(7, ends.join());
	close(fd);
}

TASK_TEST(SelectPoll, TheLimitIsThatOfDescriptors, 1)
{
	struct rlimit former, few;
	Event event;
	Chan<int> chan(1);
	int value = 0;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &former));
	few = former;
	few.rlim_cur = 100;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	std::vector<sn_case> cases(200, chan.recv_case(&value));
	cases.push_back(ready(event.fd(), POLLIN));
	event.signal();
	EXPECT_EQ(200, sn_select(cases.data(), cases.size(), SN_NO_DEADLINE));
	for (sn_case &each : cases)
		each = ready(event.fd(), POLLIN);
	EXPECT_EQ(-EINVAL, sn_select(cases.data(), cases.size(), SN_NO_DEADLINE));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &former));
	EXPECT_LE(0, sn_select(cases.data(), cases.size(), SN_NO_DEADLINE))
		<< "one descriptor in many cases";
}

TASK_TEST(SelectPoll, ReportsAClosedDescriptor)
{
	int ends[2];
	ASSERT_EQ(0, pipe(ends));
	sn_case cases[] = {ready(ends[0], POLLIN), at(sn_now() + forever)};
	Task closer([&] {
		EXPECT_TRUE(test::eventually([&] { return probe_watch_waits(ends[0]) > 0; }));
		EXPECT_EQ(0, sn_fd_closing(ends[0]));
	});

	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(-EBADF, cases[0].result);
	closer.join();
	close(ends[1]);
	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(POLLHUP, cases[0].result);
	close(ends[0]);
	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(-EBADF, cases[0].result);
}

// A program can close a descriptor without sn_fd_closing(), or put another in its place. Nobody
// else waits for these numbers, and nothing else ends the selects.
TASK_TEST(SelectPoll, NoticesThatItsDescriptorIsGone, 2)
{
	Event other;
	const int closed = eventfd(0, EFD_CLOEXEC), replaced = eventfd(0, EFD_CLOEXEC);
	sn_case one[] = {ready(-1, POLLIN), ready(closed, POLLIN)};
	sn_case another[] = {ready(replaced, POLLIN)};
	Task first([&] { return select(one); });
	Task second([&] { return select(another); });

	for (const int fd : {closed, replaced})
		EXPECT_TRUE(test::eventually([&] { return probe_watch_waits(fd) > 0; }));
	EXPECT_EQ(replaced, dup3(other.fd(), replaced, O_CLOEXEC));
	close(closed);
	EXPECT_EQ(1, first.join());
	EXPECT_EQ(-EBADF, one[1].result);
	EXPECT_EQ(0, second.join());
	EXPECT_EQ(-EBADF, another[0].result);
	close(replaced);
}

TASK_TEST(SelectScope, EndsWithTheLastTask)
{
	Chan<int> hold;
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	sn_case cases[] = {end_of(scope), at(sn_now() + forever)};
	EXPECT_EQ(0, select(cases)) << "the scope has no task yet";
	EXPECT_EQ(0, cases[0].result);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, sn_scope_go(
				     scope,
				     [](void *chan) {
					     return static_cast<Chan<int> *>(chan)->get_one();
				     },
				     &hold));
	cases[1].time = sn_now() + ms;
	EXPECT_EQ(1, select(cases));
	cases[1].time = sn_now() + forever;
	Task sender([&] {
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(0, hold.send(i));
	});
	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(0, cases[0].result);
	sender.join();
	EXPECT_EQ(0, sn_scope_close(scope));
	EXPECT_EQ(0, select(cases));
	EXPECT_EQ(-ESRCH, cases[0].result);
	cases[0] = end_of(static_cast<sn_scope *>(nullptr));
	cases[1].time = sn_now() + ms;
	EXPECT_EQ(1, select(cases)) << "NULL is never ready";
}

// A task outside the scope watches it. Whatever happens first is reported to the task, and closing
// waits for no more than that report.
TASK_TEST(SelectScope, IsToldOfCancellationAndClosing)
{
	for (int i = 0; i < test::scaled(300); i++) {
		Chan<int> hold;
		sn_scope *scope = nullptr;
		std::atomic<int> watching{0};

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		ASSERT_EQ(0, sn_scope_go(
				     scope,
				     [](void *chan) {
					     int value;

					     return static_cast<Chan<int> *>(chan)->recv(&value);
				     },
				     &hold));
		const auto watch = [&] {
			sn_case cases[] = {end_of(scope)};

			watching++;
			EXPECT_EQ(0, select(cases));
			return cases[0].result;
		};
		Task one(watch), two(watch);
		while (i % 2 == 0 && watching < 2)
			sn_yield();
		if (i % 3 == 0) {
			EXPECT_EQ(0, hold.send(1));
			EXPECT_EQ(0, sn_scope_close(scope));
		} else {
			EXPECT_EQ(0, i % 3 == 1 ? sn_scope_cancel(scope)
						: sn_scope_set_deadline(scope, 1));
			EXPECT_EQ(i % 3 == 1 ? -ECANCELED : -ETIMEDOUT, sn_scope_close(scope));
		}
		for (Task *each : {&one, &two}) {
			const int result = each->join();

			// A task that came after the close finds no scope.
			EXPECT_TRUE(result == -ESRCH || result == (i % 3 == 0   ? 0
								   : i % 3 == 1 ? -ECANCELED
										: -ETIMEDOUT))
				<< result;
		}
	}
}

// The opener closes the scope after the report, but before the task that it woke has run. Returns
// whether that task had left the select when the call returned.
bool close_under_a_watcher()
{
	Chan<int> hold;
	sn_scope *scope = nullptr;
	std::atomic<bool> watching{false}, left{false};

	EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_scope_go(
			     scope,
			     [](void *chan) {
				     int value;

				     return static_cast<Chan<int> *>(chan)->recv(&value);
			     },
			     &hold));
	Task watcher([&] {
		sn_case cases[] = {end_of(scope)};

		watching = true;
		EXPECT_EQ(0, select(cases));
		left = true;
		return 0;
	});

	while (!watching || hold.receivers() == 0)
		sn_yield();
	EXPECT_EQ(0, hold.send(1)); // makes the task of the scope runnable
	sn_yield();                 // lets it end, which makes the watcher runnable
	EXPECT_EQ(0, sn_scope_close(scope));
	const bool had_left = left;

	watcher.join();
	return had_left;
}

// With one processor tasks run in turn, unless the kernel puts a thread aside in between. Such
// rounds prove nothing.
TASK_TEST(SelectScope, IsNotClosedUnderAWatcher, 1)
{
	int rounds = 1;

	while (rounds < 100 && !close_under_a_watcher())
		rounds++;
	EXPECT_GT(100, rounds);
}

TASK_TEST(SelectScope, TellsTheErrorOfATask)
{
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	Chan<int> go;
	Task watcher([&] {
		sn_case cases[] = {end_of(scope)};

		EXPECT_EQ(0, go.send(1));
		EXPECT_EQ(0, select(cases));
		return cases[0].result;
	});
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *chan) {
				     static_cast<Chan<int> *>(chan)->get_one();
				     return -EIO;
			     },
			     &go));
	EXPECT_EQ(0, sn_cancel_mask()); // the task works in the scope
	EXPECT_EQ(-EIO, watcher.join());
	EXPECT_EQ(0, sn_cancel_unmask());
	EXPECT_EQ(-EIO, sn_scope_close(scope));
}

// A task of the scope that is not cancelled, because it is masked, does not delay the report to the
// others.
TASK_TEST(SelectScope, IsToldOfCancellationBeforeTheTasksEnd)
{
	Chan<int> hold, watching;
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *chan) {
				     EXPECT_EQ(0, sn_cancel_mask());
				     static_cast<Chan<int> *>(chan)->get_one();
				     return sn_cancel_unmask();
			     },
			     &hold));
	Task watcher([&] {
		sn_case cases[] = {end_of(scope), end_of(scope)};

		watching.send(1);
		const int chosen = select(cases);

		return chosen < 0 ? chosen : cases[chosen].result;
	});
	watching.get_one();
	sn_yield();
	EXPECT_EQ(0, sn_scope_cancel(scope));
	EXPECT_EQ(0, sn_cancel_mask());
	EXPECT_EQ(-ECANCELED, watcher.join());
	EXPECT_EQ(0, hold.send(1));
	EXPECT_EQ(0, sn_cancel_unmask());
	EXPECT_EQ(-ECANCELED, sn_scope_close(scope));
}

// There are more watches than one step reports to, and some of them leave at the same time.
TASK_TEST(SelectScope, TellsMany)
{
	for (bool cancel : {true, false}) {
		const int n = test::scaled(1000);
		Chan<int> hold;
		sn_scope *scope = nullptr;
		std::atomic<int> began{0}, told{0}, left{0};
		std::vector<Task> watchers;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		ASSERT_EQ(0, sn_scope_go(
				     scope,
				     [](void *chan) {
					     EXPECT_EQ(0, sn_cancel_mask());
					     static_cast<Chan<int> *>(chan)->get_one();
					     sn_cancel_unmask();
					     return 0;
				     },
				     &hold));
		for (int i = 0; i < n; i++)
			watchers.emplace_back([&, i] {
				sn_case a = end_of(scope);
				const int64_t end = i % 3 == 0 ? sn_now() + test::ms * (i % 20)
							       : SN_NO_DEADLINE;

				began++;
				const int err = sn_select(&a, 1, end);
				told += err == 0;
				left += err == -ETIMEDOUT;
				if (err == 0) {
					EXPECT_EQ(cancel ? -ECANCELED : 0, a.result);
				}
			});
		EXPECT_TRUE(test::eventually([&] { return began == n; }));
		if (cancel) {
			EXPECT_EQ(0, sn_scope_cancel(scope));
		} else {
			EXPECT_EQ(0, hold.send(1));
		}
		EXPECT_EQ(0, sn_cancel_mask());
		join_all(watchers);
		EXPECT_EQ(n, told + left);
		EXPECT_LE(n - (n + 2) / 3, told);
		if (cancel) {
			EXPECT_EQ(0, hold.send(1));
		}
		sn_cancel_unmask();
		EXPECT_EQ(cancel ? -ECANCELED : 0, sn_scope_close(scope));
	}
}

TASK_TEST(SelectScope, ItsOwnTasksDoNotWaitForThemselves)
{
	sn_scope *scope = nullptr;

	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	ASSERT_EQ(0, sn_scope_go(
			     scope,
			     [](void *own) {
				     sn_case cases[] = {end_of(static_cast<sn_scope *>(own))};

				     EXPECT_EQ(0, select(cases));
				     EXPECT_EQ(-EDEADLK, cases[0].result);
				     return 0;
			     },
			     scope));
	EXPECT_EQ(0, sn_scope_close(scope));
}

// The end of a scope and an element come at the same time: one of them counts.
TASK_TEST(SelectScope, EndsBesideAnElement)
{
	Chan<int> chan;
	int sent = 0, received = 0, ended = 0, value = 0;

	for (int i = 0; i < test::scaled(3000); i++) {
		sn_scope *scope = nullptr;

		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		ASSERT_EQ(0, sn_scope_go(
				     scope, [](void *) { return sn_yield(); }, nullptr));
		Task sender([&] {
			for (int n = i % 4; n > 0; n--)
				sn_yield();
			return chan.send(1, sn_now() + 50 * us);
		});
		sn_case cases[] = {end_of(scope), chan.recv_case(&value)};

		if (select(cases) == 0)
			ended++;
		else
			received++;
		sent += sender.join() == 0;
		EXPECT_EQ(0, sn_scope_close(scope));
	}
	EXPECT_EQ(sent, received);
	EXPECT_LT(0, ended);
}

TEST(SelectScope, MayBeWatchedWhenTheRunEnds)
{
	for (int i = 0; i < test::scaled(50); i++)
		test::run({1, 2}, [] {
			sn_scope *scope = nullptr;

			ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			ASSERT_EQ(0, sn_scope_go(
					     scope, [](void *) { return sn_sleep(forever); },
					     nullptr));
			for (int n = 0; n < 3; n++)
				ASSERT_EQ(0, sn_go(
						     [](void *watched) {
							     sn_case cases[] = {
								     end_of(static_cast<sn_scope *>(
									     watched))};

							     return select(cases);
						     },
						     scope));
			sn_yield();
		});
}

TEST(SelectAny, BadInputIsAnError)
{
	Chan<int> chan(1);
	sn_case cases[] = {at(1), chan.send_case(nullptr)};

	EXPECT_EQ(-EINVAL, select(cases, SN_TRY));
	cases[1] = at(1);
	EXPECT_EQ(-ENOTSUP, select(cases, SN_TRY)) << "not in a task";
	test::run([&] {
		cases[1] = ready(0, POLLNVAL);
		EXPECT_EQ(-EINVAL, select(cases, SN_TRY));
		cases[1] = chan.send_case(nullptr);
		EXPECT_EQ(-EINVAL, select(cases, SN_TRY));
		for (const int op : {-1, SN_CASE_SCOPE + 1}) {
			cases[1].op = sn_case_op(op);
			EXPECT_EQ(-EINVAL, select(cases, SN_TRY));
		}
		cases[1] = at(sn_now() + forever);
		EXPECT_EQ(0, select(cases));
		std::thread plain([&] { EXPECT_EQ(-ENOTSUP, select(cases, SN_TRY)); });
		plain.join();
	});
}

TASK_TEST(SelectAny, IsCancelled)
{
	Event event;
	Chan<int> chan;
	int value = 0;
	Task target([&] { chan.get_one(); });

	EXPECT_EQ(-ETIMEDOUT, in_scope(
				      [&](sn_scope *) {
					      sn_case cases[] = {at(sn_now() + forever),
								 end_of(target.get()),
								 ready(event.fd(), POLLIN),
								 chan.send_case(&value)};

					      cases[3].op = SN_CASE_RECV;
					      EXPECT_EQ(-ETIMEDOUT, select(cases));
					      event.signal();
					      EXPECT_EQ(-ETIMEDOUT, select(cases))
						      << "also when a case is ready";
				      },
				      sn_now() + 2 * ms));
	EXPECT_EQ(0, chan.send(1));
	target.join();
	EXPECT_EQ(0u, chan.receivers());
	EXPECT_EQ(0, probe_watch_waits(event.fd()));
}

// A cancellation and an element come at the same time: one of them counts.
TASK_TEST(SelectAny, IsCancelledOrServed)
{
	Chan<int> chan;
	Event event;
	int sent = 0, received = 0, cancelled = 0;

	for (int i = 0; i < test::scaled(3000); i++) {
		Task sender([&] {
			for (int n = i % 4; n > 0; n--)
				sn_yield();
			return chan.send(1, sn_now() + 50 * us);
		});
		int chosen = 0;

		in_scope([&](sn_scope *scope) {
			int value = 0;
			sn_case cases[] = {chan.recv_case(&value), ready(event.fd(), POLLIN)};
			Task canceller([&] { sn_scope_cancel(scope); });

			chosen = select(cases);
			sn_cancel_mask();
			canceller.join();
			sn_cancel_unmask();
		});
		(chosen == 0 ? received : cancelled)++;
		if (chosen != 0) {
			EXPECT_EQ(-ECANCELED, chosen);
		}
		sent += sender.join() == 0;
	}
	EXPECT_EQ(sent, received);
	EXPECT_LT(0, cancelled);
}

TASK_TEST(SelectAny, ChoosesAtRandom, 1)
{
	Event event;
	Chan<int> chan(1);
	sn_scope *scope = nullptr;
	std::map<int, int> chosen;
	const int rounds = test::scaled(2000);
	int value = 0;

	event.signal();
	ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	for (int i = 0; i < rounds; i++) {
		Task ended([] {});

		sn_yield();
		EXPECT_EQ(0, chan.size() ? 0 : chan.send(i));
		sn_case cases[] = {chan.recv_case(&value), at(1), end_of(ended.get()),
				   ready(event.fd(), POLLIN), end_of(scope)};
		const int n = select(cases);

		chosen[n]++;
		if (n == 2)
			ended.release();
		else
			ended.join();
	}
	EXPECT_EQ(0, sn_scope_close(scope));
	for (int i = 0; i < 5; i++)
		EXPECT_GT(chosen[i], rounds / 20) << "case " << i;
}

TASK_TEST(SelectAny, TakesManyCases)
{
	constexpr int each = 100;
	std::vector<std::unique_ptr<Chan<int>>> chans;
	std::vector<std::unique_ptr<Event>> events;
	std::vector<sn_case> cases;
	int value = 0;

	for (int i = 0; i < each; i++) {
		chans.push_back(std::make_unique<Chan<int>>());
		events.push_back(std::make_unique<Event>());
		cases.push_back(chans.back()->recv_case(&value));
		cases.push_back(ready(events.back()->fd(), POLLIN));
		cases.push_back(at(sn_now() + forever));
	}
	EXPECT_EQ(-EAGAIN, sn_select(cases.data(), cases.size(), SN_TRY));
	for (const int i : {0, 17, each - 1}) {
		Task sender([&] { EXPECT_EQ(0, chans[size_t(i)]->send(i)); });

		EXPECT_EQ(3 * i, sn_select(cases.data(), cases.size(), SN_NO_DEADLINE));
		EXPECT_EQ(i, value);
		sender.join();
		events[size_t(i)]->signal();
		EXPECT_EQ(3 * i + 1, sn_select(cases.data(), cases.size(), SN_NO_DEADLINE));
		EXPECT_TRUE(events[size_t(i)]->take());
	}
}

// Two selects serve each other through a channel while other cases end them, too.
TASK_TEST(SelectAny, MeetsSelects)
{
	Chan<int> chan;
	const int rounds = test::scaled(20000);
	std::atomic<int> sent{0}, received{0};
	std::atomic<int64_t> sum_sent{0}, sum_received{0};
	const auto body = [&](bool sends) {
		for (int i = 0; i < rounds; i++) {
			int value = i;
			sn_case cases[] = {sends ? chan.send_case(&value) : chan.recv_case(&value),
					   at(sn_now() + 20 * us)};

			if (select(cases) != 0)
				continue;
			(sends ? sent : received)++;
			(sends ? sum_sent : sum_received) += value;
		}
	};
	Task a([&] { body(true); }), b([&] { body(false); }), c([&] { body(true); });

	body(false);
	a.join();
	b.join();
	c.join();
	EXPECT_EQ(sent, received);
	EXPECT_EQ(sum_sent, sum_received);
}

/*
 * Random selects over all kinds. Other tasks produce what they wait for: elements with numbers,
 * events of eventfds that count, tasks that end with a result. At the end each element was received
 * once, each task was joined once, with its result, and each event is still there or was taken.
 */
class Everything
{
public:
	void run()
	{
		std::vector<Task> tasks;

		for (int i = 0; i < selecters; i++)
			tasks.emplace_back([this, seed = random_.next()] { selecter(seed); });
		for (int i = 0; i < makers; i++)
			tasks.emplace_back([this, seed = random_.next()] { maker(seed); });
		join_all(tasks);
		for (Chan<int> &chan : chans_)
			for (int value; chan.try_recv(&value) == 0; received_++)
				sum_received_ += value;
		for (Event &event : events_)
			while (event.take())
				taken_++;
		EXPECT_EQ(sent_, received_);
		EXPECT_EQ(sum_sent_, sum_received_);
		EXPECT_EQ(signalled_, taken_);
		EXPECT_EQ(started_, joined_);
		for (Event &event : events_)
			EXPECT_EQ(0, probe_watch_waits(event.fd()));
		for (Chan<int> &chan : chans_) {
			EXPECT_EQ(0u, chan.receivers());
			EXPECT_EQ(0u, chan.senders());
		}
		EXPECT_TRUE(test::all_ended());
	}

private:
	static constexpr int selecters = 6, makers = 4, chans = 3, events = 3;

	void selecter(uint64_t seed)
	{
		test::Random random(seed);
		std::vector<std::pair<Task, int>> own;

		for (int i = 0; i < rounds_; i++) {
			while (own.size() < 3)
				start(random, own);
			one_select(random, own);
		}
		for (auto &[task, expected] : own) {
			EXPECT_EQ(expected, task.join());
			joined_++;
		}
	}

	void start(test::Random &random, std::vector<std::pair<Task, int>> &own)
	{
		const int result = int(random.below(1000)), how = int(random.below(3));

		started_++;
		own.emplace_back(Task([how, result] {
					 if (how == 1)
						 sn_yield();
					 else if (how == 2)
						 sn_sleep(10 * us);
					 return result;
				 }),
				 result);
	}

	void one_select(test::Random &random, std::vector<std::pair<Task, int>> &own)
	{
		std::vector<sn_case> cases;
		std::vector<size_t> which;
		const size_t n = 1 + random.below(12);
		int value = -1, result = -1;
		const int mine = int(random.below(1000));
		int to_send = mine;
		bool joins = false;

		for (size_t i = 0; i < n; i++) {
			const uint64_t kind = random.below(10);

			which.push_back(0);
			if (kind < 2) {
				cases.push_back(chans_[random.below(chans)].recv_case(&value));
			} else if (kind < 4) {
				cases.push_back(chans_[random.below(chans)].send_case(&to_send));
			} else if (kind < 6) {
				which.back() = random.below(events);
				cases.push_back(ready(events_[which.back()].fd(), POLLIN));
			} else if (kind < 8 && !joins) {
				joins = true; /* one task in two cases is a mistake */
				which.back() = random.below(own.size());
				cases.push_back(end_of(own[which.back()].first.get(), &result));
			} else {
				cases.push_back(at(sn_now() + int64_t(random.below(100)) * us));
			}
		}
		const int chosen = sn_select(cases.data(), n, sn_now() + 200 * us);
		if (chosen < 0) {
			EXPECT_EQ(-ETIMEDOUT, chosen);
			return;
		}
		const sn_case &done = cases[size_t(chosen)];
		const size_t at = which[size_t(chosen)];

		switch (done.op) {
		case SN_CASE_RECV:
			received_++;
			sum_received_ += value;
			break;
		case SN_CASE_SEND:
			sent_++;
			sum_sent_ += mine;
			break;
		case SN_CASE_POLL:
			EXPECT_EQ(POLLIN, done.result);
			if (events_[at].take()) // another select may have been faster
				taken_++;
			break;
		case SN_CASE_JOIN:
			EXPECT_EQ(0, done.result);
			EXPECT_EQ(own[at].second, result);
			joined_++;
			own[at].first.release();
			own.erase(own.begin() + long(at));
			break;
		default:
			EXPECT_EQ(0, done.result);
		}
	}

	void maker(uint64_t seed)
	{
		test::Random random(seed);

		for (int i = 0; i < rounds_; i++) {
			int value = int(random.below(1000));
			const int sent = value;

			switch (random.below(4)) {
			case 0:
				events_[random.below(events)].signal();
				signalled_++;
				break;
			case 1:
				if (chans_[random.below(chans)].send(value, sn_now() + 100 * us) ==
				    0) {
					sent_++;
					sum_sent_ += sent;
				}
				break;
			case 2:
				if (chans_[random.below(chans)].recv(&value, sn_now() + 100 * us) ==
				    0) {
					received_++;
					sum_received_ += value;
				}
				break;
			default:
				sn_sleep(int64_t(random.below(30)) * us);
			}
		}
	}

	const int rounds_ = test::scaled(3000);
	test::Random random_;
	Chan<int> chans_[chans] = {Chan<int>(0), Chan<int>(1), Chan<int>(4)};
	Event events_[events];
	std::atomic<long> sent_{0}, received_{0}, sum_sent_{0}, sum_received_{0};
	std::atomic<long> signalled_{0}, taken_{0}, started_{0}, joined_{0};
};

TEST(SelectAny, AccountsForEverything)
{
	test::run([] { Everything().run(); });
}

} // namespace
