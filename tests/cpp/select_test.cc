// SPDX-License-Identifier: MIT
//
// Select through the C++ interface over times, tasks, descriptors and scopes. channel_test.cc tests
// channels alone.
#include <stdexcept>
#include <string>

#include <sys/eventfd.h>
#include <unistd.h>

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include "support/runtime.h"

namespace
{

using namespace std::chrono_literals;

void unexpected()
{
	ADD_FAILURE() << "another case was chosen";
}

TASK_TEST(Select, Times)
{
	int chosen = 0;
	const auto begin = sn::clock::now();

	EXPECT_EQ(1u, sn::select(sn::on_time(sn::after(1h), unexpected),
				 sn::on_time(sn::after(2ms), [&] { chosen++; }),
				 sn::on_time(sn::no_deadline, unexpected))
			      .value());
	EXPECT_EQ(1, chosen);
	EXPECT_GE(sn::clock::now() - begin, 2ms);
	EXPECT_EQ(1u, sn::select(sn::on_time(sn::after(1h), unexpected),
				 sn::on_deadline(sn::after(1ms), [&] { chosen++; }))
			      .value());
	EXPECT_EQ(1u, sn::select(sn::on_time(sn::after(1h), unexpected),
				 sn::otherwise([&] { chosen++; }))
			      .value());
	EXPECT_EQ(3, chosen);
}

TASK_TEST(Select, TasksAndTheirValues)
{
	sn::channel<int> go;
	auto named = sn::spawn([&] { return std::to_string(go.recv().value()); });
	sn::task<std::string> none;
	std::string value;

	EXPECT_EQ(1u, sn::select(named.on_end(unexpected), sn::otherwise([] {})).value());
	auto sender = sn::spawn([&] { go.send(42).value(); });
	EXPECT_EQ(0u, sn::select(named.on_end([&](sn::result<void> ended) {
			      EXPECT_TRUE(ended.has_value());
			      value = named.join();
		      }),
				 none.on_end(unexpected))
			      .value());
	EXPECT_EQ("42", value);
	EXPECT_FALSE(named.joinable());
	EXPECT_EQ(0u, sn::select(sender.on_end([] {})).value());
	EXPECT_EQ(0u, sn::select(sender.on_end([] {})).value()) << "the task's end is still ready";
	sender.join();
	EXPECT_EQ(1u, sn::select(sender.on_end(unexpected), sn::otherwise([] {})).value());

	auto thrower = sn::spawn([]() -> int { throw std::runtime_error("told"); });
	EXPECT_EQ(0u, sn::select(thrower.on_end([] {})).value());
	EXPECT_THROW(thrower.join(), std::runtime_error);
}

TASK_TEST(Select, Descriptors)
{
	const int fd = eventfd(0, EFD_CLOEXEC);
	int events = 0;

	ASSERT_LE(0, fd);
	EXPECT_EQ(1u, sn::select(sn::on_ready(fd, POLLIN, unexpected),
				 sn::on_time(sn::after(1ms), [] {}))
			      .value());
	auto signaller = sn::spawn([&] { EXPECT_EQ(0, eventfd_write(fd, 1)); });
	EXPECT_EQ(0u,
		  sn::select(sn::on_ready(fd, POLLIN,
					  [&](sn::result<int> ready) { events = ready.value(); }),
			     sn::on_ready(-1, POLLIN, unexpected))
			  .value());
	EXPECT_EQ(POLLIN, events);
	signaller.join();
	close(fd);
	EXPECT_EQ(0u, sn::select(sn::on_ready(fd, POLLIN, [](sn::result<int> ready) {
			      EXPECT_EQ(std::errc::bad_file_descriptor, ready.error());
		      })).value());
	EXPECT_EQ(std::errc::invalid_argument,
		  sn::select(sn::on_ready(0, POLLNVAL, unexpected)).error());
}

TASK_TEST(Select, Scopes)
{
	int ended = 0;
	{
		sn::scope all;
		sn::channel<int> go;

		all.go([&] { go.recv().value(); });
		EXPECT_EQ(1u, sn::select(all.on_end(unexpected), go.on_send(1, [] {})).value());
		EXPECT_EQ(0u, sn::select(all.on_end([&](sn::result<void> how) {
				      EXPECT_TRUE(how.has_value());
				      ended++;
			      })).value());
		EXPECT_TRUE(all.join().has_value());
		EXPECT_EQ(1u, sn::select(all.on_end(unexpected), sn::otherwise([] {})).value());
	}
	{
		sn::scope all;
		all.go([] { sn::sleep(1h); });
		auto watcher = sn::spawn([&] {
			sn::select(all.on_end([&](sn::result<void> how) {
				EXPECT_EQ(std::errc::operation_canceled, how.error());
				ended++;
			})).value();
		});

		all.go([] { throw std::runtime_error("told"); });
		// The task that opened the scope is cancelled, too.
		EXPECT_EQ(std::errc::operation_canceled,
			  sn::select(sn::on_time(sn::after(1h), unexpected)).error());
		EXPECT_EQ(0, sn_cancel_mask());
		watcher.join();
		EXPECT_EQ(0, sn_cancel_unmask());
		EXPECT_THROW(all.join().value(), std::runtime_error);
	}
	EXPECT_EQ(2, ended);
}

} // namespace
