/* SPDX-License-Identifier: MIT */
/* Values of tasks through the C++ interface: construction, destruction, copies for children. */
#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

namespace
{

sn::task_local<std::string> name;
sn::task_local<std::unique_ptr<int>> owned;
sn::task_local<std::shared_ptr<int>> shared{sn::inherited};

TEST(TaskLocal, EachTaskHasItsOwn)
{
	sn::run([] {
		EXPECT_EQ(name.get(), nullptr);
		name.emplace("main");
		sn::spawn([] {
			EXPECT_EQ(name.get(), nullptr);
			std::string &mine = name.emplace(3, 'x');
			sn::sleep(1ms);
			EXPECT_EQ(&mine, name.get());
			EXPECT_EQ(mine, "xxx");
			name.emplace("replaced");
			EXPECT_EQ(*name.get(), "replaced");
			name.reset();
			EXPECT_EQ(name.get(), nullptr);
			name.reset();
			owned.emplace(std::make_unique<int>(1)); /* left to the end of the task */
		}).join();
		EXPECT_EQ(*name.get(), "main");
	});
}

TEST(TaskLocal, IsInheritedByCopying)
{
	sn::run([] {
		const auto value = std::make_shared<int>(5);
		shared.emplace(value);
		EXPECT_EQ(value.use_count(), 2);
		{
			sn::scope scope;
			scope.go([&] {
				EXPECT_EQ(value, *shared.get());
				sn::spawn([&] { EXPECT_EQ(value, *shared.get()); }).join();
				shared.emplace(nullptr);
			});
			EXPECT_TRUE(scope.join());
		}
		EXPECT_EQ(value.use_count(), 2) << "the children's values are destroyed";
		shared.reset();
		EXPECT_EQ(value.use_count(), 1);
	});
}

struct fragile {
	int copies;
	explicit fragile(int n) : copies(n)
	{
		if (n < 0)
			throw std::runtime_error("made");
	}
	fragile(const fragile &other) : copies(other.copies + 1)
	{
		if (copies > 1)
			throw std::runtime_error("copied");
	}
};
sn::task_local<fragile> breaks{sn::inherited};

TEST(TaskLocal, ExceptionsLeaveTheFormerValue)
{
	sn::run([] {
		breaks.emplace(0);
		EXPECT_THROW(breaks.emplace(-1), std::runtime_error);
		EXPECT_EQ(breaks.get()->copies, 0);
		sn::spawn([] {
			EXPECT_EQ(breaks.get()->copies, 1);
			auto token = std::make_shared<int>(1);
			try {
				sn::go([token] { ADD_FAILURE() << "started"; });
				ADD_FAILURE() << "did not throw";
			} catch (const std::system_error &error) {
				EXPECT_EQ(error.code(), std::errc::not_enough_memory);
			}
			EXPECT_EQ(token.use_count(), 1);
		}).join();
	});
}

std::atomic<int> destroyed{0};
struct parks {
	~parks()
	{
		sn::sleep(1ms);
		destroyed++;
	}
};
sn::task_local<parks> parking;

TEST(TaskLocal, DestructorsMayPark)
{
	sn::run([] {
		sn::scope scope;
		for (int i = 0; i < 10; i++)
			scope.go([] { parking.emplace(); });
		EXPECT_TRUE(scope.join());
		EXPECT_EQ(destroyed, 10);
	});
}

TEST(TaskLocal, OutsideATask)
{
	EXPECT_EQ(name.get(), nullptr);
	EXPECT_THROW(name.emplace("x"), std::system_error);
	name.reset();
}

} // namespace
