/* SPDX-License-Identifier: MIT */
/* Coroutines of another executor wait for tasks, and continue in that executor. */
#include <sennit/awaitable.hpp>
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <exception>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

/* A thread that resumes the coroutines that are posted to it, like the loop of a user interface. */
class loop
{
public:
	loop() : thread_([this] { run(); }) {}
	loop(const loop &) = delete;
	loop &operator=(const loop &) = delete;
	~loop()
	{
		post(nullptr);
		thread_.join();
	}

	void post(std::coroutine_handle<> next)
	{
		const std::lock_guard held(lock_);
		queue_.push_back(next);
		changed_.notify_one();
	}
	std::thread::id id() const { return thread_.get_id(); }

	/* For spawn_awaitable(). */
	auto resumes()
	{
		return [this](std::coroutine_handle<> waiting) { post(waiting); };
	}

private:
	void run()
	{
		for (;;) {
			std::unique_lock held(lock_);
			changed_.wait(held, [this] { return !queue_.empty(); });
			const auto next = queue_.front();
			queue_.pop_front();
			held.unlock();
			if (!next)
				return;
			next.resume();
		}
	}

	std::mutex lock_;
	std::condition_variable changed_;
	std::deque<std::coroutine_handle<>> queue_;
	std::thread thread_;
};

/* A coroutine that begins in the loop, and whose end a plain thread or a task can wait for. */
class job
{
public:
	struct promise_type {
		std::promise<void> ended;
		job get_return_object()
		{
			return job(std::coroutine_handle<promise_type>::from_promise(*this),
				   ended.get_future());
		}
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() { ended.set_value(); }
		void unhandled_exception() { ended.set_exception(std::current_exception()); }
	};

	job(std::coroutine_handle<> begin, std::future<void> end)
	    : begin_(begin), end_(std::move(end))
	{
	}
	void start(loop &in) { in.post(begin_); }
	void wait()
	{
		sn::blocking([this] { end_.wait(); });
		end_.get();
	}

private:
	std::coroutine_handle<> begin_;
	std::future<void> end_;
};

void run_in(loop &in, job j)
{
	j.start(in);
	j.wait();
}

} // namespace

TEST(Awaitable, GivesTheValueInTheExecutor)
{
	sn::run([] {
		loop ui;
		run_in(ui, [](loop &in) -> job {
			/* Stored in a variable first, which awaitable.hpp asks for because of
			 * GCC 12. */
			auto measure = [text = std::make_unique<std::string>("eleven char")] {
				EXPECT_NE(sn_self(), nullptr);
				sn::sleep(std::chrono::milliseconds(1));
				return std::make_unique<std::size_t>(text->size());
			};
			const auto length =
				co_await sn::spawn_awaitable(std::move(measure), in.resumes());
			EXPECT_EQ(*length, 11U);
			EXPECT_EQ(std::this_thread::get_id(), in.id());
			EXPECT_EQ(sn_self(), nullptr);

			int seen = 0;
			co_await sn::spawn_awaitable([&] { seen = 1; }, in.resumes());
			EXPECT_EQ(seen, 1);
		}(ui));
	});
}

TEST(Awaitable, ThrowsWhatTheTaskThrows)
{
	sn::run([] {
		loop ui;
		run_in(ui, [](loop &in) -> job {
			try {
				co_await sn::spawn_awaitable([] { throw std::runtime_error("no"); },
							     in.resumes());
				ADD_FAILURE() << "nothing was thrown";
			} catch (const std::runtime_error &error) {
				EXPECT_STREQ(error.what(), "no");
				EXPECT_EQ(std::this_thread::get_id(), in.id());
			}
		}(ui));
	});
}

TEST(Awaitable, IsCancelledWithItsScope)
{
	sn::run([] {
		loop ui;
		sn::scope all;
		const sn::channel<int> begun(1);
		auto waits = [](loop &in, sn::scope &scope,
				const sn::channel<int> &waiting) -> job {
			const auto got = co_await sn::spawn_awaitable(
				scope,
				[&] {
					waiting.send(1).value();
					return sn::channel<int>().recv();
				},
				in.resumes());
			EXPECT_EQ(got.error(), std::errc::operation_canceled);
			try {
				co_await sn::spawn_awaitable(
					scope, [] {}, in.resumes());
				ADD_FAILURE() << "it was started in a cancelled scope";
			} catch (const std::system_error &error) {
				EXPECT_EQ(error.code(), std::errc::operation_canceled);
			}
		}(ui, all, begun);
		waits.start(ui);
		begun.recv().value();
		all.cancel();
		waits.wait();
		EXPECT_EQ(all.join().error(), std::errc::operation_canceled);
	});
}

TEST(Awaitable, FailsWithoutARuntime)
{
	loop ui;
	auto fails = [](loop &in) -> job {
		try {
			co_await sn::spawn_awaitable([] {}, in.resumes());
			ADD_FAILURE() << "a task was started";
		} catch (const std::system_error &error) {
			EXPECT_EQ(error.code(), std::errc::no_such_process);
		}
	}(ui);
	run_in(ui, std::move(fails));
}

/* The rest of the coroutine is then a part of the task, and its frame is destroyed before the task
 * ends. */
TEST(Awaitable, MayGoOnInTheTask)
{
	sn::run([] {
		loop ui;
		run_in(ui, [](loop &) -> job {
			co_await sn::spawn_awaitable(
				[] {}, [](std::coroutine_handle<> waiting) { waiting.resume(); });
			EXPECT_NE(sn_self(), nullptr);
			sn::yield();
		}(ui));
	});
}

TEST(Awaitable, ManyAtATime)
{
	sn::run([] {
		loop one, other;
		int sums[2] = {};
		const auto adds = [](loop &in, int n, int &sum) -> job {
			for (int i = 0; i < 50; i++)
				sum += co_await sn::spawn_awaitable(
					[n] {
						sn::yield();
						return n;
					},
					in.resumes());
		};
		std::vector<job> jobs;
		for (int i = 0; i < 20; i++) {
			jobs.push_back(adds(one, i, sums[0]));
			jobs.back().start(one);
			jobs.push_back(adds(other, 1, sums[1]));
			jobs.back().start(other);
		}
		for (auto &each : jobs)
			each.wait();
		EXPECT_EQ(sums[0], 50 * 190);
		EXPECT_EQ(sums[1], 50 * 20);
	});
}
