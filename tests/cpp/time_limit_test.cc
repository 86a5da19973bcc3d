/* SPDX-License-Identifier: MIT */
/* Where C has a deadline, C++ takes a duration from now, or a time point of any clock. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <chrono>
#include <concepts>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <unistd.h>

using namespace std::chrono_literals;

namespace
{

/* Passes a moment that is soon over, in each possible form. */
template <class Call>
void each_form(Call call)
{
	call(1ms);
	call(1us);
	call(std::chrono::duration<double>(0.001));
	call(0s);
	call(-1h);
	call(sn::after(1ms));
	call(sn::now() - 1h);
	call(sn::tick_clock::now() + 1ms);
	call(std::chrono::steady_clock::now() + 1ms);
	call(std::chrono::system_clock::now() + 1ms);
	call(std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now()));
}

/* Never called, but must compile. */
template <class Call>
void each_long_form(Call call)
{
	call(sn::no_deadline);
	call(std::chrono::hours::max());
	call(std::chrono::nanoseconds::max());
	call(sn::clock::time_point::max());
	call(std::chrono::steady_clock::time_point::max());
}

static_assert(!std::convertible_to<int, sn::time_limit>, "of what unit?");
static_assert(!std::default_initializable<sn::time_limit>);
static_assert(std::convertible_to<std::chrono::minutes, sn::time_limit>);
static_assert(std::convertible_to<sn::deadline, sn::time_limit>);

} // namespace

TEST(TimeLimit, EndsEachWaitInEachForm)
{
	sn::run([] {
		int ends[2];
		ASSERT_EQ(pipe(ends), 0);
		const sn::channel<int> jobs;
		auto sockets = sn::unix_socket::pair().value();
		auto message = sn::unix_socket::pair(sn::unix_type::datagram).value();
		auto listener = sn::tcp_listener::listen("127.0.0.1:0").value();
		auto datagrams = sn::udp::open("127.0.0.1:0").value();
		char byte;

		each_form([&](auto soon) {
			EXPECT_EQ(jobs.recv(soon).error(), std::errc::timed_out);
			EXPECT_EQ(jobs.send(1, soon).error(), std::errc::timed_out);
			EXPECT_EQ(sn::wait_fd(ends[0], POLLIN, soon).error(), std::errc::timed_out);

			sockets.first.set_read_deadline(soon);
			EXPECT_EQ(sockets.first.read(&byte, 1).error(), std::errc::timed_out);
			message.first.set_read_deadline(soon);
			EXPECT_EQ(message.first.recv(&byte, 1).error(), std::errc::timed_out);
			listener.set_deadline(soon);
			EXPECT_EQ(listener.accept().error(), std::errc::timed_out);
			datagrams.set_read_deadline(soon);
			EXPECT_EQ(datagrams.receive(&byte, 1).error(), std::errc::timed_out);

			bool passed = false;
			EXPECT_TRUE(sn::select(jobs.on_recv([] { FAIL(); }),
					       sn::on_deadline(soon, [&] { passed = true; })));
			EXPECT_TRUE(passed);
			EXPECT_EQ(sn::select(jobs.on_recv([] { FAIL(); }), sn::on_time(soon, [] {}))
					  .value(),
				  1U);

			sn::ticker never;
			EXPECT_EQ(never.wait(soon), 0);
			auto waits = sn::spawn([&] { static_cast<void>(jobs.recv()); });
			EXPECT_FALSE(waits.wait_until(soon));
			EXPECT_TRUE(jobs.send(1));
			waits.join();
		});
		close(ends[0]);
		close(ends[1]);
	});
}

TEST(TimeLimit, EndsAScopeInEachForm)
{
	sn::run([] {
		const sn::channel<int> nothing;
		const auto waits = [&] { return nothing.recv(); };

		each_form([&](auto soon) {
			/* The scope may end before a task can be started in it. */
			sn::result<void> how;
			try {
				sn::scope all(soon);
				all.go(waits);
				how = all.join();
			} catch (const std::system_error &error) {
				how = sn::unexpected(error.code());
			}
			EXPECT_EQ(how.error(), std::errc::timed_out);

			sn::scope closing;
			closing.go(waits);
			EXPECT_EQ(closing.join_until(soon).error(), std::errc::timed_out);

			sn::scope moved;
			moved.go(waits);
			static_cast<void>(moved.set_deadline(soon));
			EXPECT_EQ(moved.join().error(), std::errc::timed_out);
		});
	});
}

TEST(TimeLimit, NeverEndsAWaitThatIsLong)
{
	sn::run([] {
		const sn::channel<int> numbers;
		int n = 0;

		each_long_form([&](auto late) {
			sn::scope all(late);
			all.go([&] { numbers.send(++n, late).value(); });
			EXPECT_EQ(numbers.recv(late).value(), n);
			EXPECT_TRUE(all.join_until(late));
		});
		EXPECT_EQ(n, 5);
	});
}

TEST(TimeLimit, CountsFromWhenItIsMade)
{
	const sn::deadline before = sn::now();
	const sn::time_limit limit = 1h;

	EXPECT_GE(limit.when(), before + 1h);
	EXPECT_LE(limit.when(), sn::now() + 1h);
	EXPECT_EQ(sn::time_limit(before).when(), before);
	EXPECT_EQ(sn::time_limit(sn::no_deadline).when(), sn::no_deadline);
}

/* On clocks that count from another time, or in other units. */
TEST(TimeLimit, SaturatesPointsOfOtherClocks)
{
	using std::chrono::system_clock;
	using seconds = std::chrono::time_point<system_clock, std::chrono::seconds>;
	using hours = std::chrono::time_point<std::chrono::steady_clock, std::chrono::hours>;
	const auto when = [](auto point) { return sn::time_limit(point).when(); };

	EXPECT_LE(when(system_clock::time_point::min()), sn::now());
	EXPECT_LE(when(seconds::min()), sn::now());
	EXPECT_LE(when(hours::min()), sn::now());
	EXPECT_GE(when(system_clock::time_point::max()), sn::now() + std::chrono::years(1));
	EXPECT_GE(when(seconds::max()), sn::now() + std::chrono::years(1));
	EXPECT_GE(when(hours::max()), sn::now() + std::chrono::years(1));
	const auto half = std::chrono::time_point<system_clock, std::chrono::duration<double>>(
		std::chrono::duration<double>(system_clock::now() + 1h -
					      system_clock::time_point()));
	EXPECT_GE(when(half), sn::now() + 59min);
	EXPECT_LE(when(half), sn::now() + 61min);
}

TEST(TimeLimit, EndsSleepOnEachClock)
{
	sn::run([] {
		const auto steady = std::chrono::steady_clock::now() + 2ms;
		sn::sleep_until(steady);
		EXPECT_GE(std::chrono::steady_clock::now(), steady);

		const auto ours = sn::after(2ms);
		sn::sleep_until(ours);
		EXPECT_GE(sn::now(), ours);
	});
}
