// SPDX-License-Identifier: MIT
//
// Scopes: what closing waits for and returns, what cancellation and deadlines end and what they
// leave alone, masks, values, and every error that scope.h documents. Stress tests make random
// trees of scopes.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/net.h"
#include "support/runtime.h"
#include "support/scope.h"

namespace
{

using namespace test;

TASK_TEST(Scope, WaitsForItsTasks)
{
	Scope scope;
	std::atomic<int> ended{0};

	for (int i = 0; i < 100; i++)
		ASSERT_EQ(0, scope.go([&, i] {
			sn_sleep(i % 7 * ms);
			ended++;
			return i;
		}));
	EXPECT_EQ(0, scope.close());
	EXPECT_EQ(100, ended);
}

TASK_TEST(Scope, MayBeEmpty)
{
	Scope scope;

	EXPECT_EQ(0, scope.close());
	EXPECT_EQ(nullptr, sn_scope_current());
}

TASK_TEST(Scope, ItsTasksMayStartSiblings)
{
	Scope scope;
	std::atomic<int> ended{0};
	std::function<int()> body = [&] {
		sn_scope *mine = sn_scope_current();

		EXPECT_EQ(scope.get(), mine);
		if (++ended < 200) {
			scope.go(body);
		}
		return 0;
	};

	scope.go(body);
	EXPECT_EQ(0, scope.close());
	EXPECT_EQ(200, ended);
}

TASK_TEST(Scope, ThreadsMayStartTasksInIt)
{
	Scope scope;
	std::atomic<int> ended{0};
	std::thread thread([&] {
		for (int i = 0; i < 50; i++)
			EXPECT_EQ(0, scope.go([&] {
				ended++;
				return 0;
			}));
	});

	sn_enter_blocking();
	thread.join();
	sn_exit_blocking();
	EXPECT_EQ(0, scope.close());
	EXPECT_EQ(50, ended);
}

TASK_TEST(Scope, ReturnsTheFirstErrorAndCancelsTheRest)
{
	Scope scope;
	std::atomic<int> cancelled{0};

	for (int i = 0; i < 20; i++)
		scope.go([&] {
			const int err = sn_sleep(forever);

			cancelled += err == -ECANCELED;
			return err;
		});
	scope.go([] { return -EPROTO; });
	EXPECT_EQ(-EPROTO, scope.close());
	EXPECT_EQ(20, cancelled);
}

TASK_TEST(Scope, ReportsAFailedTaskToItsOpener)
{
	Scope scope;

	scope.go([] { return -EPROTO; });
	EXPECT_EQ(-ECANCELED, sn_sleep(forever));
	EXPECT_EQ(-ECANCELED, sn_cancelled());
	EXPECT_EQ(-EPROTO, scope.close());
	EXPECT_EQ(0, sn_cancelled());
	EXPECT_EQ(0, sn_sleep(1));
}

TASK_TEST(Scope, LeavesOtherTasksAlone)
{
	std::atomic<bool> stop{false};
	Task outside([&] {
		while (!stop)
			if (int err = sn_sleep(ms))
				return err;
		return 7;
	});
	Scope scope;
	Task in_no_scope([] { return sn_sleep(5 * ms); });

	scope.cancel();
	EXPECT_EQ(-ECANCELED, sn_sleep(forever));
	EXPECT_EQ(-ECANCELED, scope.close());
	stop = true;
	EXPECT_EQ(7, outside.join());
	EXPECT_EQ(0, in_no_scope.join());
}

TASK_TEST(Scope, CancelledFromAThread)
{
	Scope scope;
	std::thread thread([&] {
		usleep(5000);
		EXPECT_EQ(0, scope.cancel());
	});

	EXPECT_EQ(-ECANCELED, sn_sleep(forever));
	sn_enter_blocking();
	thread.join();
	sn_exit_blocking();
	EXPECT_EQ(-ECANCELED, scope.close());
}

TASK_TEST(Scope, RefusesTasksOnceCancelled)
{
	Scope scope;
	sn_scope *inner = nullptr;

	scope.cancel();
	EXPECT_EQ(-ECANCELED, scope.go([] { return 0; }));
	EXPECT_EQ(-ECANCELED, sn_scope_open(&inner, SN_NO_DEADLINE));
	EXPECT_EQ(nullptr, inner);
	EXPECT_EQ(0, scope.cancel());
	EXPECT_EQ(-ECANCELED, scope.close());
}

TEST(ScopeDeadline, EndsWaits)
{
	// Returns how many of the ten tasks were started before the deadline.
	const auto started_in = [](int64_t time) {
		const int64_t deadline = sn_now() + time;
		Scope scope(deadline);
		std::atomic<int> timed_out{0};
		int started = 0;

		for (int i = 0; i < 10; i++)
			started += scope.go([&] {
				const int err = sn_sleep(forever);

				EXPECT_GE(sn_now(), deadline);
				timed_out += err == -ETIMEDOUT;
				return err;
			}) == 0;
		EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
		EXPECT_EQ(-ETIMEDOUT, scope.close());
		EXPECT_EQ(started, timed_out);
		return started;
	};

	test::run([&] {
		for (int64_t time = 10 * ms; started_in(time) < 10; time *= 2)
			ASSERT_GT(test::patience, time);
	});
}

// The usual pattern: tasks are started, and the scope is closed immediately.
TASK_TEST(ScopeDeadline, ReachesWhatClosingWaitsFor)
{
	Scope scope(sn_now() + 5 * ms);

	scope.go([] { return sn_sleep(forever); });
	EXPECT_EQ(-ETIMEDOUT, scope.close());
}

// Returns how many of the ten tasks opened their scope before the deadline of the outer one.
int reach_what_closing_waits_for(int64_t time)
{
	Scope outer(sn_now() + time);
	std::atomic<int> opened{0};

	for (int i = 0; i < 10; i++)
		outer.go([&] {
			sn_scope *scope = nullptr;

			if (sn_scope_open(&scope, SN_NO_DEADLINE) == -ETIMEDOUT)
				return 0;
			Scope inner(scope);

			opened++;
			for (int j = 0; j < 3; j++)
				inner.go([] { return sn_sleep(forever); });
			EXPECT_EQ(-ETIMEDOUT, inner.close());
			return 0;
		});
	EXPECT_EQ(-ETIMEDOUT, outer.close());
	return opened;
}

TASK_TEST(ScopeTree, OuterReachesWhatClosingWaitsFor)
{
	for (int64_t time = 5 * ms; reach_what_closing_waits_for(time) < 10; time *= 2)
		ASSERT_GT(test::patience, time);
}

TASK_TEST(ScopeDeadline, InThePastExpiresAtOnce)
{
	Scope scope(1);

	EXPECT_EQ(-ETIMEDOUT, sn_sleep(forever));
	EXPECT_EQ(-ETIMEDOUT, scope.close());
}

TASK_TEST(ScopeDeadline, IsForgottenByClosing)
{
	for (int i = 0; i < test::scaled(2000); i++) {
		// The deadline is about to pass, or has just passed, when the scope closes.
		Scope scope(sn_now() + i % 30 * 1000);

		scope.go([] { return 0; });
		const int err = scope.close();
		EXPECT_TRUE(err == 0 || err == -ETIMEDOUT) << err;
	}
	EXPECT_EQ(0, sn_sleep(ms));
}

TASK_TEST(ScopeDeadline, ASleepThatEndsInTimeIsNoTimeout)
{
	Scope scope(sn_now() + forever);

	EXPECT_EQ(0, sn_sleep(ms));
	EXPECT_EQ(0, scope.close());
}

TASK_TEST(ScopeTree, OuterCancelsInner)
{
	Scope outer;
	std::atomic<int> opened{0}, cancelled{0};

	for (int i = 0; i < 5; i++)
		outer.go([&] {
			Scope inner;

			for (int j = 0; j < 5; j++)
				inner.go([&] {
					Scope innermost;

					opened++;
					cancelled += sn_sleep(forever) == -ECANCELED;
					return innermost.close();
				});
			cancelled += sn_sleep(forever) == -ECANCELED;
			return inner.close();
		});
	EXPECT_TRUE(test::eventually([&] { return opened == 25; }));
	sn_sleep(5 * ms);
	outer.cancel();
	EXPECT_EQ(-ECANCELED, outer.close());
	EXPECT_EQ(30, cancelled);
}

TASK_TEST(ScopeTree, InnerLeavesOuterAlone)
{
	Scope outer;
	std::atomic<bool> go_on{true};

	outer.go([&] {
		while (go_on)
			if (int err = sn_sleep(ms))
				return err;
		return 0;
	});
	{
		Scope inner;

		inner.go([] { return -EIO; });
		EXPECT_EQ(-ECANCELED, sn_sleep(forever));
		EXPECT_EQ(-EIO, inner.close());
	}
	EXPECT_EQ(0, sn_sleep(ms));
	EXPECT_EQ(outer.get(), sn_scope_current());
	go_on = false;
	EXPECT_EQ(0, outer.close());
}

TASK_TEST(ScopeTree, AnErrorOfInnerReachesOuterAsItsTasksResult)
{
	Scope outer;

	outer.go([] {
		Scope inner;

		inner.go([] { return -EIO; });
		return inner.close();
	});
	EXPECT_EQ(-EIO, outer.close());
}

TASK_TEST(ScopeTree, MayBeDeeperThanAStack, 1, 2)
{
	const int depth = test::scaled(50000);
	std::vector<sn_scope *> scopes((size_t)depth);

	for (sn_scope *&scope : scopes)
		ASSERT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
	EXPECT_EQ(0, sn_scope_cancel(scopes[0]));
	EXPECT_EQ(-ECANCELED, sn_cancelled());
	while (!scopes.empty()) {
		EXPECT_EQ(-ECANCELED, sn_scope_close(scopes.back()));
		scopes.pop_back();
	}
	EXPECT_EQ(0, sn_cancelled());
}

TASK_TEST(ScopeTree, ManyTasksAreCancelled, 1, 2)
{
	Scope scope;
	const int n = test::scaled(20000);
	std::atomic<int> cancelled{0}, sleeping{0};

	for (int i = 0; i < n; i++)
		ASSERT_EQ(0, scope.go([&] {
			sleeping++;
			cancelled += sn_sleep(forever) == -ECANCELED;
			return 0;
		}));
	EXPECT_TRUE(test::eventually([&] { return sleeping == n; }));
	scope.cancel();
	EXPECT_EQ(-ECANCELED, scope.close());
	EXPECT_EQ(n, cancelled);
}

// ---- what is cancelled ----

TASK_TEST(ScopeWaits, OnTheNetwork)
{
	Listener listener;
	Pair pair(listener), quiet(listener);
	std::vector<int> errors(4);
	Scope scope;

	scope.go([&] {
		sn_tcp *conn;

		return errors[0] = sn_tcp_accept(listener.get(), &conn);
	});
	scope.go([&] {
		char c;

		return errors[1] = (int)sn_tcp_read(quiet.client, &c, 1);
	});
	scope.go([&] {
		int n;

		test::fill(pair.server);
		while ((n = (int)sn_tcp_write(pair.server, "x", 1)) > 0)
			continue;
		return errors[2] = n;
	});
	scope.go([&] { return errors[3] = sn_tcp_wait_closed(quiet.server); });
	sn_sleep(5 * ms);
	scope.cancel();
	EXPECT_EQ(-ECANCELED, scope.close());
	EXPECT_EQ((std::vector<int>{-ECANCELED, -ECANCELED, -ECANCELED, -ECANCELED}), errors);

	// The connection is unchanged: no byte was read or lost.
	pair.close_server();
	std::string rest = test::read_to_end(pair.client);
	EXPECT_EQ(rest.find_first_not_of("fx"), std::string::npos);
}

TASK_TEST(ScopeWaits, ABusyReaderNotices)
{
	Pair pair;
	Scope scope;
	Task writer([&] {
		std::string data(65536, 'd');

		while (sn_tcp_write_all(pair.server, data.data(), data.size(), nullptr) > 0)
			continue;
	});

	scope.go([&] {
		char buf[16];
		ssize_t n;

		while ((n = sn_tcp_read(pair.client, buf, sizeof buf)) > 0)
			continue;
		return (int)n;
	});
	sn_sleep(2 * ms);
	scope.cancel();
	EXPECT_EQ(-ECANCELED, scope.close());
	pair.close_client();
	writer.join();
}

TASK_TEST(ScopeWaits, Joining)
{
	std::atomic<bool> stop{false};
	Task slow([&] {
		while (!stop)
			sn_sleep(ms);
		return 9;
	});
	Scope scope;

	scope.go([&] { return sn_join(slow.get(), nullptr); });
	sn_sleep(2 * ms);
	scope.cancel();
	EXPECT_EQ(-ECANCELED, scope.close());
	stop = true;
	EXPECT_EQ(9, slow.join());
}

TASK_TEST(ScopeWaits, AreMasked)
{
	Scope scope;

	scope.cancel();
	EXPECT_EQ(-ECANCELED, sn_cancelled());
	EXPECT_EQ(0, sn_cancel_mask());
	EXPECT_EQ(0, sn_cancel_mask());
	EXPECT_EQ(0, sn_cancelled());
	EXPECT_EQ(0, sn_sleep(ms));
	{
		Scope inside;
		std::atomic<int> ended{0};

		inside.go([&] {
			ended += sn_sleep(ms) == 0;
			return 0;
		});
		EXPECT_EQ(-EINVAL, sn_cancel_unmask());
		EXPECT_EQ(0, sn_sleep(ms));
		EXPECT_EQ(0, inside.close());
		EXPECT_EQ(1, ended);
	}
	EXPECT_EQ(0, sn_cancel_unmask());
	EXPECT_EQ(0, sn_cancelled());
	EXPECT_EQ(0, sn_cancel_unmask());
	EXPECT_EQ(-ECANCELED, sn_cancelled());
	EXPECT_EQ(-EINVAL, sn_cancel_unmask());
	EXPECT_EQ(-ECANCELED, scope.close());
}

// A scope opened under a mask is not cancelled with the ones around it, even while its opener
// waits.
TASK_TEST(ScopeWaits, OfAMaskedScopeGoOn)
{
	Scope scope;

	sn_cancel_mask();
	{
		Scope inside;

		inside.go([&] {
			scope.cancel();
			return 0;
		});
		EXPECT_EQ(0, sn_sleep(5 * ms));
		EXPECT_EQ(0, inside.close());
	}
	sn_cancel_unmask();
	EXPECT_EQ(-ECANCELED, scope.close());
}

TASK_TEST(ScopeWaits, MaskedInsideStaysMaskedOutside, 1)
{
	Scope scope;

	scope.cancel();
	sn_cancel_mask();
	{
		Scope inside;

		sn_cancel_mask();
		EXPECT_EQ(0, inside.close());
	}
	EXPECT_EQ(0, sn_cancel_unmask());
	EXPECT_EQ(0, sn_cancelled());
	EXPECT_EQ(0, sn_cancel_unmask());
	EXPECT_EQ(-ECANCELED, sn_cancelled());
	EXPECT_EQ(-ECANCELED, scope.close());
}

TASK_TEST(ScopeWaits, Connecting)
{
	Listener listener;
	sn_tcp *conn = nullptr;
	Scope scope;

	scope.cancel();
	EXPECT_EQ(-ECANCELED, sn_tcp_connect(&conn, listener.address().c_str(), SN_NO_DEADLINE));
	EXPECT_EQ(nullptr, conn);
	sn_tcp_listener *other = nullptr;
	EXPECT_EQ(-ECANCELED, sn_tcp_listen(&other, "127.0.0.1:0"));
	EXPECT_EQ(-ECANCELED, scope.close());
}

// ---- values ----

TEST(ScopeValues, AreInherited)
{
	static const char one = 0, two = 0;
	test::run([] {
		int a = 1, b = 2, c = 3;
		Scope outer;

		EXPECT_EQ(nullptr, sn_scope_value(&one));
		EXPECT_EQ(0, sn_scope_set_value(outer.get(), &one, &a));
		outer.go([&] {
			EXPECT_EQ(&a, sn_scope_value(&one));
			EXPECT_EQ(-EPERM, sn_scope_set_value(outer.get(), &one, &c));
			std::thread([&] {
				EXPECT_EQ(-ENOTSUP, sn_scope_set_value(outer.get(), &one, &c));
			}).join();
			Scope inner;

			EXPECT_EQ(0, sn_scope_set_value(inner.get(), &one, &b));
			EXPECT_EQ(0, sn_scope_set_value(inner.get(), &two, &c));
			{
				Scope innermost;

				innermost.go([&] {
					EXPECT_EQ(&b, sn_scope_value(&one));
					EXPECT_EQ(&c, sn_scope_value(&two));
					return 0;
				});
				EXPECT_EQ(0, innermost.close());
			}
			EXPECT_EQ(0, sn_scope_set_value(inner.get(), &two, &a));
			EXPECT_EQ(&a, sn_scope_value(&two));
			EXPECT_EQ(0, inner.close());
			EXPECT_EQ(&a, sn_scope_value(&one));
			EXPECT_EQ(nullptr, sn_scope_value(&two));
			return 0;
		});
		Task outside([] { EXPECT_EQ(nullptr, sn_scope_value(&one)); });
		outside.join();
		EXPECT_EQ(0, outer.close());
	});
	EXPECT_EQ(nullptr, sn_scope_value(&one));
}

// ---- misuse ----

TEST(ScopeMisuse, OutsideATask)
{
	sn_scope *scope = nullptr;

	EXPECT_EQ(-ENOTSUP, sn_scope_open(&scope, SN_NO_DEADLINE));
	EXPECT_EQ(-ENOTSUP, sn_scope_close(scope));
	EXPECT_EQ(-ENOTSUP, sn_cancel_mask());
	EXPECT_EQ(-ENOTSUP, sn_cancel_unmask());
	EXPECT_EQ(0, sn_cancelled());
	EXPECT_EQ(nullptr, sn_scope_current());
}

#if !SENNIT_DEBUG
TASK_TEST(ScopeMisuse, ClosingInTheWrongOrder)
{
	Scope outer, inner;

	EXPECT_EQ(-EINVAL, sn_scope_close(outer.get()));
	EXPECT_EQ(0, sn_scope_close(nullptr)) << "as free() does";
	inner.go([&] {
		EXPECT_EQ(-EINVAL, sn_scope_close(inner.get()));
		return 0;
	});
	EXPECT_EQ(0, inner.close());
	EXPECT_EQ(0, outer.close());
}

TASK_TEST(ScopeMisuse, LeftOpenIsClosedAtTheTasksEnd)
{
	std::atomic<int> ended{0};
	Task careless([&] {
		sn_scope *scope = nullptr;

		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
		sn_scope_go(
			scope,
			[](void *arg) {
				sn_sleep(5 * ms);
				++*static_cast<std::atomic<int> *>(arg);
				return 0;
			},
			&ended);
	});

	careless.join();
	EXPECT_EQ(1, ended);
}

TASK_TEST(ScopeMisuse, LeftOpenByAPinnedTask)
{
	for (int i = 0; i < test::scaled(100); i++) {
		Task careless([] {
			sn_scope *scope = nullptr;

			EXPECT_EQ(0, sn_pin());
			EXPECT_EQ(0, sn_scope_open(&scope, SN_NO_DEADLINE));
			sn_scope_go(
				scope, [](void *) { return sn_sleep(100 * test::us); }, nullptr);
			return 6;
		});
		int result = 0;

		ASSERT_EQ(0, sn_join_until(careless.get(), &result, sn_now() + test::patience));
		careless.release();
		EXPECT_EQ(6, result);
	}
}
#else
TEST(ScopeMisuseDeathTest, ClosingInTheWrongOrder)
{
	EXPECT_DEATH(test::run(1,
			       [] {
				       Scope outer, inner;

				       outer.close();
			       }),
		     "sn_scope_close\\(\\)");
}

TEST(ScopeMisuseDeathTest, LeavingOneOpen)
{
	EXPECT_DEATH(test::run(1,
			       [] {
				       Task careless([&] {
					       sn_scope *scope;

					       (void)!sn_scope_open(&scope, SN_NO_DEADLINE);
				       });
				       careless.join();
			       }),
		     "without sn_scope_close");
}
#endif

// ---- joins with a deadline ----

TASK_TEST(JoinUntil, TimesOutAndCanBeRepeated)
{
	std::atomic<bool> stop{false};
	Task slow([&] {
		while (!stop)
			sn_sleep(ms);
		return 3;
	});
	int result = 0;

	for (int i = 0; i < 5; i++) {
		const int64_t deadline = sn_now() + ms;

		EXPECT_EQ(-ETIMEDOUT, sn_join_until(slow.get(), &result, deadline));
		EXPECT_GE(sn_now(), deadline);
	}
	EXPECT_EQ(-ETIMEDOUT, sn_join_until(slow.get(), &result, 1));
	stop = true;
	EXPECT_EQ(0, sn_join_until(slow.release(), &result, sn_now() + test::patience));
	EXPECT_EQ(3, result);
}

// The task ends at about the deadline of the join. Exactly one of the two events counts, and the
// handle is consumed only if the task's end does.
TASK_TEST(JoinUntil, RacesWithTheEnd)
{
	int timed_out = 0, joined = 0;

	for (int i = 0; i < test::scaled(3000); i++) {
		const int64_t when = sn_now() + 20 * test::us;
		Task task([when, i] {
			sn_sleep_until(when + i % 5 * test::us);
			return i;
		});
		int result = -1;

		if (sn_join_until(task.get(), &result, when + 2 * test::us) == 0) {
			task.release();
			EXPECT_EQ(i, result);
			joined++;
		} else {
			EXPECT_EQ(i, task.join());
			timed_out++;
		}
	}
	EXPECT_EQ(test::scaled(3000), timed_out + joined);
	EXPECT_TRUE(test::all_ended());
}

// ---- arguments that are stored with the task ----

TASK_TEST(Argument, IsCopiedIntoTheTask)
{
	std::vector<sn_task *> tasks;

	for (int i = 0; i < 50; i++) {
		struct {
			char bytes[SN_TASK_ARG_MAX - sizeof(int)];
			int number;
		} arg = {};
		sn_task_attr attr = {};
		sn_task *task = nullptr;

		arg.number = i;
		attr.arg_size = sizeof arg;
		ASSERT_EQ(0, sn_spawn(
				     &task,
				     [](void *own) {
					     EXPECT_EQ(0u, (uintptr_t)own % 64);
					     sn_yield();
					     return static_cast<decltype(arg) *>(own)->number;
				     },
				     &arg, &attr));
		tasks.push_back(task);
		arg.number = -1;
	}
	for (int i = 0; i < 50; i++) {
		int result = 0;

		EXPECT_EQ(0, sn_join(tasks[(size_t)i], &result));
		EXPECT_EQ(i, result);
	}

	sn_task_attr attr = {};
	char c = 0;

	attr.arg_size = SN_TASK_ARG_MAX + 1;
	EXPECT_EQ(-EINVAL, sn_spawn(
				   nullptr, [](void *) { return 0; }, &c, &attr));
}

// ---- stress ----

/*
 * A random tree. Each task opens scopes, starts tasks in them, waits in one of several ways, fails
 * at random, cancels an outer scope, and closes its own. Every wait must end for a reason that a
 * task has caused, every scope must close only after its tasks have ended, and no task may be left.
 */
struct Forest {
	std::atomic<int> budget, alive{0}, waits{0};
	Listener *listener;
};

int grow(Forest &forest, uint64_t seed, int depth)
{
	test::Random random(seed);
	const int64_t deadline = random.below(3)
					 ? SN_NO_DEADLINE
					 : sn_now() + int64_t(random.below(2000)) * test::us;
	sn_scope *open = nullptr;
	int err = sn_scope_open(&open, deadline);

	if (err < 0) {
		EXPECT_TRUE(err == -ECANCELED || err == -ETIMEDOUT) << err;
		return 0;
	}
	Scope scope(open);
	std::atomic<int> children{0};

	for (uint64_t i = random.below(5); depth < 6 && i > 0; i--) {
		const uint64_t next = random.next();

		if (forest.budget.fetch_sub(1) <= 0)
			break;
		children++;
		const int started = scope.go([&, next] {
			forest.alive++;
			const int result = grow(forest, next, depth + 1);

			forest.alive--;
			children--;
			return result;
		});
		if (started < 0) {
			children--;
			EXPECT_TRUE(started == -ECANCELED || started == -ETIMEDOUT) << started;
		}
	}
	switch (random.below(5)) {
	case 0:
		err = sn_sleep(int64_t(random.below(1000)) * test::us);
		break;
	case 1: {
		Task task([] { sn_sleep(100 * test::us); });

		err = sn_join_until(task.get(), nullptr, sn_now() + int64_t(random.below(300000)));
		if (err < 0)
			task.detach();
		else
			task.release();
		EXPECT_TRUE(err == 0 || err == -ETIMEDOUT || err == -ECANCELED) << err;
		err = 0;
		break;
	}
	case 2:
		scope.cancel();
		err = sn_sleep(forever);
		EXPECT_LT(err, 0);
		break;
	case 3: {
		sn_tcp *conn = nullptr;

		err = sn_tcp_connect(&conn, forest.listener->address().c_str(), SN_NO_DEADLINE);
		if (err == 0) {
			char c;

			sn_tcp_set_read_deadline(conn, sn_now() + ms);
			EXPECT_LT(sn_tcp_read(conn, &c, 1), 0);
			sn_tcp_close(conn);
		}
		err = 0;
		break;
	}
	default:
		sn_yield();
	}
	EXPECT_TRUE(err == 0 || err == -ECANCELED || err == -ETIMEDOUT) << err;
	forest.waits++;
	const bool fails = random.below(20) == 0;
	const int closed = scope.close();

	EXPECT_EQ(0, children.load());
	EXPECT_TRUE(closed == 0 || closed == -ECANCELED || closed == -ETIMEDOUT ||
		    closed == -EPROTO)
		<< closed;
	return fails ? -EPROTO : 0;
}

TEST(ScopeStress, RandomTrees)
{
	test::Environment race("SENNIT_RACE", "1");
	test::Random random;

	test::run([&] {
		for (int round = 0; round < test::scaled(30); round++) {
			Forest forest;
			Listener listener;
			std::atomic<bool> stop{false};

			forest.budget = 150;
			forest.listener = &listener;
			Task acceptor([&] {
				sn_tcp *conn;
				std::vector<sn_tcp *> held;

				while (!stop) {
					sn_tcp_listener_set_deadline(listener.get(), sn_now() + ms);
					if (sn_tcp_accept(listener.get(), &conn) == 0)
						held.push_back(conn);
				}
				for (sn_tcp *each : held)
					sn_tcp_close(each);
			});
			grow(forest, random.next(), 0);
			EXPECT_EQ(0, forest.alive.load());
			stop = true;
			acceptor.join();
		}
		EXPECT_TRUE(test::all_ended());
	});
}

// Openers close immediately and leaves sleep for an hour, until something ends everything: the
// deadline of the root, a task that fails, or a scope that is cancelled.
int grow_sleepers(uint64_t seed, int depth)
{
	test::Random random(seed);
	sn_scope *open = nullptr;
	const int err = sn_scope_open(&open, depth == 0 ? sn_now() + 2 * ms : SN_NO_DEADLINE);

	if (err < 0)
		return 0;
	Scope scope(open);
	const uint64_t children = 1 + random.below(3);

	for (uint64_t i = 0; i < children; i++) {
		const uint64_t next = random.next(), kind = random.below(40);

		scope.go([=, &scope] {
			if (kind == 0)
				return -EPROTO;
			if (kind == 1)
				scope.cancel();
			return depth < 4 && kind % 2 ? grow_sleepers(next, depth + 1)
						     : sn_sleep(forever);
		});
	}
	return scope.close();
}

TEST(ScopeStress, SleepersAreAlwaysReached)
{
	test::Environment race("SENNIT_RACE", "1");
	test::Random random;

	test::run([&] {
		for (int round = 0; round < test::scaled(100); round++)
			EXPECT_LT(grow_sleepers(random.next(), 0), 0);
		EXPECT_TRUE(test::all_ended());
	});
}

// Tasks that hand values over by joining are cancelled at random moments. Each wait ends once, with
// success or with the reason.
TEST(ScopeStress, CancelRacesWithTheEndOfAWait)
{
	test::Environment race("SENNIT_RACE", "1");
	test::Random random;

	test::run([&] {
		for (int i = 0; i < test::scaled(3000); i++) {
			const int64_t pause = int64_t(random.below(20)) * test::us;
			std::atomic<int> state{0};
			Scope scope;

			scope.go([&] {
				Task task([pause] {
					sn_sleep(pause);
					return 5;
				});
				int result = 0;
				const int err = sn_join(task.get(), &result);

				if (err == 0) {
					EXPECT_EQ(5, result);
					task.release();
					state = 1;
				} else {
					EXPECT_EQ(-ECANCELED, err);
					sn_cancel_mask();
					EXPECT_EQ(5, task.join());
					sn_cancel_unmask();
					state = 2;
				}
				return 0;
			});
			sn_sleep(pause);
			scope.cancel();
			EXPECT_EQ(-ECANCELED, scope.close());
			EXPECT_NE(0, state.load());
		}
	});
}

} // namespace
